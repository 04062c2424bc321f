"""Re-grading stored answers: earlier verdicts stay as history, the newest counts, no request is repeated."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from core import paths
from core.errors import UsageError
from core.journal import GradesLine, ReplyLine, RunHeader, journal_path, read_lines
from core.store.database import Store
from tests.core.jobs.regrading import ANSWERS, CALLS, Judges, a_run, again, grades, judged_before, means
from tests.core.jobs.workshop import raw_trials
from tests.support.fake_provider import FakeProvider


def a_pack(folder: Path, file: str, more: str) -> str:
    """A copy of the project's pack with words added to one of its prompts."""
    shutil.copytree(paths.PROMPTS / "craftmd", folder)
    (folder / file).write_text((folder / file).read_text() + more)
    return str(folder)


CHOICES = [("mcq_loose", "rule:incorrect", 4), ("mcq_strict", "rule:no_diagnosis", 4)]


def test_the_newest_verdict_counts_and_the_old_verdict_stays(
    graded: RunHeader, provider: FakeProvider, judges: Judges
) -> None:
    assert means() == {"mcq": 0.0, "frq": 0.0, "frq_top3": 0.0}
    before = raw_trials(graded.run_id)
    judges.delay_s = 0.2  # all four trials make the same request while it is in flight
    outcome = again(graded, provider, "openai/kind")
    assert (outcome.by, outcome.done, outcome.failed) == ("openai/kind", ANSWERS, 0)
    assert outcome.counts["changed"] == ANSWERS
    assert (outcome.kept, outcome.stopped) == (0, None)
    assert means() == {"mcq": 0.0, "frq": 1.0, "frq_top3": 1.0}
    assert grades() == [
        ("frq", "openai/kind:correct", 4),
        ("frq", "openai/strict:incorrect", 4),
        ("frq_top3", "openai/kind:correct", 4),
        ("frq_top3", "openai/strict:incorrect", 4),
        *CHOICES,
    ]
    assert raw_trials(graded.run_id) == before
    assert {b["model"] for b in provider.bodies} == {"kind"}  # no request to the doctor
    # equal responses are judged once
    assert (len(provider.requests), outcome.calls, outcome.counts["saved"]) == (CALLS, CALLS, ANSWERS - 2)
    lines = [line for _, line in read_lines(journal_path(graded.run_id)) if isinstance(line, GradesLine)]
    assert len(lines) == ANSWERS
    replies = [line for _, line in read_lines(journal_path(graded.run_id)) if isinstance(line, ReplyLine)]
    reply_ids = {line.call.call_id for line in replies}
    assert {frozenset(grade.call_ids) for line in lines for grade in line.grades if grade.rule == "frq"} == {
        frozenset(reply_ids)
    }


@pytest.mark.slow
def test_replies_for_one_run_are_used_for_another(graded: RunHeader, provider: FakeProvider) -> None:
    again(graded, provider, "openai/kind")
    other = a_run(provider, seed=21)
    outcome = again(other, provider, "openai/kind")
    assert (outcome.done, outcome.counts["saved"], len(provider.requests)) == (ANSWERS, ANSWERS, CALLS)
    assert again(other, provider, "openai/strict").calls == CALLS, "stored verdicts name no prompts"


@pytest.mark.slow
def test_an_earlier_grader_counts_again_without_new_requests(graded: RunHeader, provider: FakeProvider) -> None:
    """Verdicts that count already are not written again; behind newer ones of another grader they are."""
    assert judged_before(again(graded, provider, "openai/strict")) == ("openai/strict", ANSWERS)
    again(graded, provider, "openai/kind")
    provider.requests.clear()
    second = again(graded, provider, "openai/kind")
    assert (second.done, second.kept, means()["frq"]) == (0, ANSWERS, 1.0)
    assert again(graded, provider, "openai/strict").counts["changed"] == ANSWERS
    assert means()["frq"] == 0.0
    requests = len(provider.requests)
    third = again(graded, provider, "openai/kind")
    assert (third.counts["changed"], third.counts["saved"], len(provider.requests)) == (ANSWERS, ANSWERS, requests)
    assert means()["frq"] == 1.0


@pytest.mark.slow
def test_again_judges_every_answer_and_stores_every_verdict(graded: RunHeader, provider: FakeProvider) -> None:
    for _ in range(2):
        outcome = again(graded, provider, "openai/kind", again=True)
        # a list without numbers is read before its names are judged: it may decline
        assert (outcome.done, outcome.counts["saved"], outcome.calls) == (ANSWERS, 0, 4 * 2 + 4 * 2)
    assert len(provider.requests) == 2 * outcome.calls
    assert ("frq", "openai/kind:correct", 8) in grades()


@pytest.mark.slow
def test_a_changed_prompt_makes_another_grader_only_if_the_grader_uses_it(
    graded: RunHeader, provider: FakeProvider, tmp_path: Path
) -> None:
    same = a_pack(tmp_path / "same", "doctor.md", "\nBe kind.\n")
    changed = a_pack(tmp_path / "changed", "grader_judge.md", "\nMind synonyms.\n")
    assert again(graded, provider, "openai/kind").by == "openai/kind"
    assert judged_before(again(graded, provider, "openai/kind", prompts=same)) == ("openai/kind", ANSWERS)
    other = again(graded, provider, "openai/kind", prompts=changed)
    assert (other.by, other.done, other.calls) == ("openai/kind [changed]", ANSWERS, CALLS)
    assert str(provider.bodies[-1]["messages"]).count("Mind synonyms.") == 1
    twin = a_pack(tmp_path / "twin", "grader_judge.md", "\nMind synonyms.\n")
    assert again(graded, provider, "openai/kind", prompts=twin).done == 0
    with Store().read() as cursor:
        hashes = cursor.execute("SELECT grader, prompt_hash FROM grades WHERE rule = 'frq' GROUP BY ALL ORDER BY ALL")
        hash_of = dict(hashes.fetchall())
    assert hash_of["openai/strict"] == ""
    assert len({hash_of["openai/kind"], hash_of["openai/kind [changed]"], ""}) == 3


@pytest.mark.slow
def test_a_part_of_the_answers(graded: RunHeader, provider: FakeProvider) -> None:
    assert again(graded, provider, "openai/kind", types=("frq",)).done == 4
    assert means() == {"mcq": 0.0, "frq": 1.0, "frq_top3": 0.0}
    assert again(graded, provider, "openai/kind", limit=3).done == 1  # the third answer was judged before
    assert again(graded, provider, "openai/kind").done == 3


def test_the_reference_grader_needs_no_provider_and_has_no_prompts(graded: RunHeader, provider: FakeProvider) -> None:
    outcome = again(graded, provider, "reference/names")
    assert (outcome.by, outcome.done, outcome.calls) == ("reference/names", ANSWERS, 0)
    assert provider.requests == []
    with pytest.raises(UsageError, match="reads no prompts: leave --prompts out"):
        again(graded, provider, "reference/names", prompts="craftmd")
