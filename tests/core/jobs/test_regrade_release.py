"""Re-grading a release: its journal has only the new verdicts, and a rebuilt database has them too."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from core.cli.app import main
from core.debugger.stored import load_record
from core.errors import UsageError
from core.events import Graded
from core.frameworks.craftmd.release import RELEASE
from core.jobs.ask_job import AskOutcome, run_job
from core.jobs.begun import find_header, unfinished_twin
from core.jobs.plan import campaign_of
from core.jobs.regrade import Regrading
from core.jobs.release.importing import import_release
from core.journal import GradesLine, RunHeader, journal_path, read_header, read_lines
from core.measures.accuracy import accuracy
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.answers import results
from core.store.queries.grades import grade_history
from core.store.queries.runs import header_of, run, run_ids
from core.store.selection import Selection
from tests.core.jobs.regrading import again, judged_before
from tests.core.jobs.workshop import registry
from tests.support.fake_provider import FakeProvider
from tests.support.release import a_file, a_trial, write_file, write_release

RUN = "craftmd-gpt3_1106"
ANSWERS = 2 * 5 * 4
"""Free responses of one model: two cases, five trials, four formats."""


def import_all_models(root: Path) -> None:
    layout = RELEASE.find(root, str(root))
    import_release(Store(), layout, layout.chosen(None))


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """Two models; GPT-4 graded everything as correct, also "Gout", which reference/names grades as incorrect."""
    root = write_release(tmp_path / "craft-md")
    for number in range(2):
        wrong = {f"trial_{n}": a_trial(vignette_frq="Gout.", extracted_ans_vignette_frq="gout") for n in range(5)}
        write_file(root, "gpt3_1106", f"case_{number}", a_file(f"case_{number}", **wrong))
    import_all_models(root)
    return root


def stored_header(run_id: str = RUN) -> RunHeader:
    """The header of a run from the database; the run may have no journal."""
    with Store().read() as cursor:
        header = header_of(cursor, run_id)
    assert header is not None
    return header


def by_names(run_id: str = RUN, **changes: object) -> AskOutcome:
    return run_job(Regrading((run_id,), "reference/names", **changes), Store(), registry())  # type: ignore[arg-type]


def means() -> dict[str, float | None]:
    rows = accuracy(Store(), selection=Selection(runs=[RUN], question_types=["frq"]))
    return {row["format"]: row.estimate for row in rows}


RIGHT = {"vignette": 1.0, "multi_turn": 1.0, "single_turn": 1.0, "summarized": 1.0}
BY_NAMES = {**RIGHT, "vignette": 0.0}


def test_the_newest_verdict_counts_and_that_of_gpt_4_stays(release: Path) -> None:
    def state() -> tuple[object, ...]:
        with Store().read() as cursor:
            stored = run(cursor, RUN)
            return replace(stored, verdicts={}), results(cursor, Selection(runs=[RUN])).num_rows

    before = state()
    assert before[0].state == "complete"  # type: ignore[attr-defined]
    assert means() == RIGHT
    outcome = by_names()
    assert (outcome.done, outcome.counts["changed"]) == (ANSWERS, 10)
    assert means() == BY_NAMES
    assert state() == before, "the run stays as it was, but for the verdicts that count"
    with Store().read() as cursor:
        sql = "SELECT grader, verdict, count(*) FROM grades JOIN trials USING (trial_id) WHERE run_id = ? GROUP BY ALL"
        counts = {
            (grader, verdict): n for grader, verdict, n in cursor.execute(sql, [RUN]).fetchall() if grader != "rule"
        }
        # a replayed trial has the verdicts of the release
        (trial_id,) = cursor.execute("SELECT min(trial_id) FROM trials WHERE run_id = ?", [RUN]).fetchall()[0]
        assert len(grade_history(cursor, trial_id)) == 4 * 2 + 4 * 2
    assert counts == {
        ("gpt_4", "correct"): 40,
        ("reference/names", "correct"): 30,
        ("reference/names", "incorrect"): 10,
    }
    record = load_record(trial_id)
    assert record is not None
    graders = {event.grader for event in record.events if isinstance(event, Graded)}
    assert graders == {"gpt_4", "rule"}


def test_its_journal_has_only_the_header_and_the_verdicts(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_names()
    header, *lines = [line for _, line in read_lines(journal_path(RUN))]
    assert header == read_header(journal_path(RUN)) == find_header(RUN[:12])
    assert (header.source, header.doctor, header.cases, header.prompt_hash != "") == ("release", "gpt_3_5", [], True)  # type: ignore[union-attr]
    assert [type(line) for line in lines] == [GradesLine] * 40
    # it cannot be resumed, with a journal or without
    assert unfinished_twin(find_header(RUN).fingerprint, {RUN: 0}) is None
    with pytest.raises(UsageError, match="came with a release and has all its trials from there"):
        campaign_of(find_header(RUN))
    for name in (RUN, "craftmd-mistral-v1"):
        assert main(["resume", name]) == 2
        assert capsys.readouterr().err.startswith(f"Run {name} came with a release and has all its trials")
    assert by_names(limit=3, again=True).done == 3
    assert len(list(read_lines(journal_path(RUN)))) == 44
    assert fold(Store()).journals == 0


@pytest.mark.slow
def test_a_rebuilt_database_has_the_verdicts_before_and_after_the_next_import(
    release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_names()
    Store().path.unlink()
    assert fold(Store()).grades == ANSWERS
    with Store().read() as cursor:
        assert run_ids(cursor) == []
    assert main(["runs"]) == 0
    assert "No run yet" in capsys.readouterr().out
    assert main(["report", "accuracy"]) == 1
    import_all_models(release)
    assert means() == BY_NAMES
    assert judged_before(by_names()) == ("reference/names", ANSWERS)
    Store().path.unlink()
    import_all_models(release)  # nothing was folded before
    assert means() == BY_NAMES


@pytest.mark.slow
def test_verdicts_on_replaced_trials_do_no_harm(release: Path, provider: FakeProvider) -> None:
    """A changed case file replaces its trials; the trials of the other case keep their verdicts."""
    again(stored_header(), provider, "openai/kind")
    write_file(
        release, "gpt3_1106", "case_0", a_file("case_0", answer="scabies", trial_4=a_trial(vignette_frq="Lupus"))
    )
    Store().path.unlink()
    import_all_models(release)
    with Store().read() as cursor:
        rows = results(cursor, Selection(runs=[RUN], question_types=["frq"])).to_pylist()
    assert {(r["case_key"][-1], r["grader"]) for r in rows} == {("0", "gpt_4"), ("1", "openai/kind")}
    outcome = again(stored_header(), provider, "openai/kind")
    assert (outcome.done, outcome.kept) == (20, 20)
    import_all_models(release)
    fold(Store())
    assert json.dumps(means()) == json.dumps(RIGHT)


@pytest.mark.slow
def test_a_release_is_graded_with_the_prompts_of_the_project(release: Path, provider: FakeProvider) -> None:
    outcome = again(stored_header(), provider, "openai/kind")
    assert (outcome.by, outcome.done) == ("openai/kind", ANSWERS)
    assert means() == RIGHT
    other = again(stored_header("craftmd-mistral-v1"), provider, "openai/kind")
    assert (other.done, other.counts["saved"], other.calls) == (ANSWERS, ANSWERS, 0)


@pytest.mark.slow
def test_one_command_regrades_all_campaigns(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "regrade", "--grader", "reference/names", "--types", "frq"]) == 0
    assert capsys.readouterr().out == "Graded 80 answers by reference/names: 10 verdicts changed.\n"
    assert main(["job", "regrade", "--run", RUN, "--grader", "reference", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "40 free responses, 40 judged before, 0 to judge."
    assert main(["job", "regrade", "--run", RUN, "--grader", "reference/names"]) == 0
    assert "40 were graded before and are unchanged" in capsys.readouterr().out
