"""Grading a release's answers again: its journal holds the new verdicts alone, and a database made anew has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.cli.app import main
from core.debugger.stored import load_record
from core.errors import UsageError
from core.events import Graded
from core.frameworks.craftmd.release import RELEASE
from core.jobs.ask_job import AskOutcome, run_job
from core.jobs.plan import campaign_of, find_header, unfinished_twin
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


def take(root: Path) -> None:
    layout = RELEASE.find(root, str(root))
    import_release(Store(), layout, layout.chosen(None))


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """Two models; GPT-4 called everything right, also "Gout", which the names do not."""
    root = write_release(tmp_path / "craft-md")
    for number in range(2):
        wrong = {f"trial_{n}": a_trial(vignette_frq="Gout.", extracted_ans_vignette_frq="gout") for n in range(5)}
        write_file(root, "gpt3_1106", f"case_{number}", a_file(f"case_{number}", **wrong))
    take(root)
    return root


def described(run_id: str = RUN) -> RunHeader:
    """What the database has of a run's description, which need not have a journal."""
    with Store().read() as cursor:
        found = header_of(cursor, run_id)
    assert found is not None
    return found


def by_names(run_id: str = RUN, **changes: object) -> AskOutcome:
    return run_job(Regrading((run_id,), "reference/names", **changes), Store(), registry())  # type: ignore[arg-type]


def means() -> dict[str, float | None]:
    rows = accuracy(Store(), selection=Selection(runs=[RUN], question_types=["frq"]))
    return {row["format"]: row.estimate for row in rows}


RIGHT = {"vignette": 1.0, "multi_turn": 1.0, "single_turn": 1.0, "summarized": 1.0}
BY_NAMES = {**RIGHT, "vignette": 0.0}


def test_the_newest_verdict_counts_and_gpt_4s_is_kept(release: Path) -> None:
    def state() -> tuple[object, ...]:
        with Store().read() as cursor:
            found = run(cursor, RUN)
            return found, results(cursor, Selection(runs=[RUN])).num_rows

    before = state()
    assert before[0].state == "complete"  # type: ignore[attr-defined]
    assert means() == RIGHT
    outcome = by_names()
    assert (outcome.done, outcome.counts["changed"]) == (ANSWERS, 10)
    assert means() == BY_NAMES
    assert state() == before, "the run stays as it was"
    with Store().read() as cursor:
        sql = "SELECT grader, verdict, count(*) FROM grades JOIN trials USING (trial_id) WHERE run_id = ? GROUP BY ALL"
        said = {
            (grader, verdict): n for grader, verdict, n in cursor.execute(sql, [RUN]).fetchall() if grader != "rule"
        }
        # a stored trial is played back with the verdicts that came with it
        (trial_id,) = cursor.execute("SELECT min(trial_id) FROM trials WHERE run_id = ?", [RUN]).fetchall()[0]
        assert len(grade_history(cursor, trial_id)) == 4 * 2 + 4 * 2
    assert said == {("gpt_4", "correct"): 40, ("reference/names", "correct"): 30, ("reference/names", "incorrect"): 10}
    record = load_record(trial_id)
    assert record is not None
    graders = {event.grader for event in record.events if isinstance(event, Graded)}
    assert graders == {"gpt_4", "rule"}


def test_its_journal_is_the_description_and_the_verdicts_alone(
    release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_a_database_made_anew_has_them_before_and_after_the_release_comes_again(
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
    take(release)
    assert means() == BY_NAMES
    assert judged_before(by_names()) == ("reference/names", ANSWERS)
    Store().path.unlink()
    take(release)  # nothing was folded before
    assert means() == BY_NAMES


def test_verdicts_on_trials_that_are_gone_harm_nothing(release: Path, provider: FakeProvider) -> None:
    """A case file that has changed brings other trials; those of the other case have their verdicts."""
    again(described(), provider, "openai/kind")
    write_file(
        release, "gpt3_1106", "case_0", a_file("case_0", answer="scabies", trial_4=a_trial(vignette_frq="Lupus"))
    )
    Store().path.unlink()
    take(release)
    with Store().read() as cursor:
        rows = results(cursor, Selection(runs=[RUN], question_types=["frq"])).to_pylist()
    assert {(r["case_key"][-1], r["grader"]) for r in rows} == {("0", "gpt_4"), ("1", "openai/kind")}
    outcome = again(described(), provider, "openai/kind")
    assert (outcome.done, outcome.kept) == (20, 20)
    take(release)
    fold(Store())
    assert json.dumps(means()) == json.dumps(RIGHT)


def test_prompts_of_the_project_are_a_releases_own(release: Path, provider: FakeProvider) -> None:
    outcome = again(described(), provider, "openai/kind")
    assert (outcome.by, outcome.done) == ("openai/kind", ANSWERS)
    assert means() == RIGHT
    other = again(described("craftmd-mistral-v1"), provider, "openai/kind")
    assert (other.done, other.counts["saved"], other.calls) == (ANSWERS, ANSWERS, 0)


def test_all_campaigns_are_graded_at_once(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["regrade", "all", "--grader", "reference/names", "--types", "frq"]) == 0
    assert capsys.readouterr().out == "Graded 80 answers by reference/names: 10 verdicts changed.\n"
    assert main(["regrade", RUN, "--grader", "reference", "--dry-run"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "40 free responses, 40 judged before, 0 to judge."
    assert main(["regrade", RUN, "--grader", "reference/names"]) == 0
    assert "40 were graded before and are unchanged" in capsys.readouterr().out
