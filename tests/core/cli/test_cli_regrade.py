"""``job regrade`` from the command line: its output, exit status, Ctrl-C and a second process."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from core.cli.app import main
from core.journal import RunHeader
from tests.core.jobs.regrading import Judges, a_run
from tests.core.jobs.workshop import core, spawn, wait_until
from tests.support.commands import finish
from tests.support.fake_provider import FakeProvider
from tests.support.replies import failing


@pytest.fixture
def judges() -> Judges:
    return Judges()


@pytest.fixture
def provider(fake_provider_thread: FakeProvider, judges: Judges) -> FakeProvider:
    fake_provider_thread.script = judges
    return fake_provider_thread


@pytest.fixture
def graded(provider: FakeProvider) -> RunHeader:
    """A run with eight free responses that ``openai/strict`` graded as incorrect."""
    return a_run(provider)


@pytest.mark.slow
def test_regrade_prints_its_estimate_and_its_result(
    graded: RunHeader, provider: FakeProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["job", "regrade", "--run", graded.run_id, "--grader", "openai/kind", "--base-url", provider.base_url]
    assert main([*command, "--dry-run"]) == 0
    dry = capsys.readouterr()
    size, cost, role, prices = dry.out.splitlines()
    assert size == "8 free responses, 0 judged before, 6 equal to others, 2 to judge."
    assert cost.startswith("About 5 calls, ")
    assert role.split()[:2] == ["grader", "openai/kind"]
    assert prices == "Prices: local."
    assert provider.requests == []
    assert main(command) == 0
    done = capsys.readouterr()
    assert done.out.splitlines() == [
        "Graded 8 answers by openai/kind: 8 verdicts changed.",
        "6 were not asked about: the same response to the same answer was judged already.",
        "2 calls, 36 tokens, $0.00 where prices are known.",
    ]
    assert done.err.startswith(size)
    assert "8 of 8 answers" in done.err
    assert main([*command, "--types", "frq", "--again", "--limit", "2"]) == 0
    assert capsys.readouterr().out.startswith("Graded 2 answers")


def test_a_failing_provider_is_reported_with_its_message(
    graded: RunHeader, provider: FakeProvider, judges: Judges, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["job", "regrade", "--run", graded.run_id, "--grader", "openai/broken", "--base-url", provider.base_url]
    assert main(command) == 1
    assert (
        capsys.readouterr().err.splitlines()[-1].startswith("The model openai/broken gave no reply: the provider did")
    )
    judges.broken = failing(400, "no such thing")
    assert main(command) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("8 answers could not be graded; they keep their verdicts.")
    assert "no such thing" in last


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "status", "sentence"),
    [
        (("--grader", "openai/kind", "--types", "essay"), 2, "not essay"),
        (("--grader", "unknown/x"), 2, "No model is called “unknown/x”"),
        (("--grader", "reference/bayes"), 2, "There is no 'reference/bayes' for the grader"),
        (("--grader", "reference/names", "--prompts", "craftmd"), 2, "reads no prompts: leave --prompts out"),
        (("--grader", "openai/kind", "--prompts", "automedic"), 2, "prompts/automedic have no"),
        (("--grader", "reference/names", "--limit", "0"), 2, "Invalid value for '--limit'"),
    ],
)
def test_wrong_options_are_refused(
    graded: RunHeader, more: tuple[str, ...], status: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["job", "regrade", "--run", graded.run_id, *more]) == status
    assert sentence in capsys.readouterr().err


def test_without_any_campaign_there_is_nothing_to_grade(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "regrade", "--grader", "reference/names"]) == 1
    said = capsys.readouterr().err
    assert "core run" in said
    assert "core import craftmd" in said


@pytest.mark.slow
def test_ctrl_c_keeps_verdicts_and_a_second_process_is_refused(
    db: Path, graded: RunHeader, provider: FakeProvider, judges: Judges
) -> None:
    command = ("job", "regrade", "--run", graded.run_id, "--grader", "openai/kind", "--base-url", provider.base_url)
    judges.delay_s = 0.2
    child = spawn(db, *command, "--again", "--concurrency", "1")
    wait_until(lambda: len(provider.requests) >= 4)  # two answers a trial take three calls
    judges.delay_s = 60.0
    second = core(db, *command)
    child.send_signal(signal.SIGINT)
    ended = finish(child)
    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr.splitlines()[-1].startswith(f"Run {graded.run_id} is already running in another process")
    assert (ended.returncode, "Traceback" in ended.stderr) == (1, False)
    assert ended.stderr.splitlines()[-1].endswith(" answers are left.")
    judges.delay_s = 0.0
    graded_so_far = int(ended.stdout.split()[1])
    assert 2 <= graded_so_far < 8
    resumed = core(db, *command)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.startswith(f"Graded {8 - graded_so_far} answers")
    assert f"{graded_so_far} were graded before" in resumed.stdout
