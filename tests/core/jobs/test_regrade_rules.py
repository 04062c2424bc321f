"""Choices read by an earlier version of the strict rule are read again: without a model, keeping the old verdicts."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from core.agents.mcq import STRICT_VERSION
from core.cli.app import main
from core.errors import UsageError
from core.events import Answered, Event, Finished, Graded, Started
from core.frameworks.base import Arm
from core.frameworks.craftmd.release import RELEASE
from core.jobs.ask_job import AskOutcome, run_job
from core.jobs.plan import trials_of
from core.jobs.regrade import Regrading
from core.jobs.release.importing import import_release
from core.journal import GradesLine, JournalWriter, RunHeader, TrialLine, journal_path, read_lines
from core.measures.accuracy import accuracy
from core.models.registry import load_registry
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.grades import count_read_before, grade_history, latest_grades
from core.store.selection import Selection
from core.store.tallies import recount
from tests.core.jobs.workshop import begun, plan
from tests.support.release import a_file, a_trial, write_file, write_release

CHOICE: tuple[Arm, ...] = (("vignette", "mcq"),)
RESPONSES = {
    "mcq": (
        "Therefore the answer is A.",
        "Bunion hurts less and cellulitis spreads. Gout it is.",
        "B",
        "I cannot say.",
    ),
    "mcq_answers": ("Not lupus, but gout.", "A", "Lupus", "Gout or lupus"),
}
"""Responses to four cases, with the choices Gout, Cellulitis, Bunion and Fracture, or many choices without letters."""


def a_run(arms: tuple[Arm, ...] = CHOICE, version: int = 1) -> RunHeader:
    """A run in which the first version of the rule accepted no answer."""
    header = begun(plan(4, arms=arms)).model_copy(update={"many_choices": ["Gout", "Lupus"]})
    path = journal_path(header.run_id)
    path.unlink()
    with JournalWriter(path) as journal:
        journal.append(header)
        for n, trial in enumerate(trials_of(header)):
            events: list[Event] = [Started(trial_id=trial.trial_id, case_key=trial.case.case_key, trial=0, seed=1)]
            for format_, question_type in arms:
                arm: dict[str, Any] = {"format": format_, "question_type": question_type, "grader": "rule"}
                events.append(Answered(**arm, response=RESPONSES[question_type][n]))
                events.append(Graded(**arm, rule="mcq_loose", extracted=None, verdict="incorrect"))
                events.append(
                    Graded(**arm, rule="mcq_strict", extracted=None, verdict="no_diagnosis", rule_version=version)
                )
            journal.append(
                TrialLine(
                    run_id=header.run_id,
                    trial_id=trial.trial_id,
                    case_key=trial.case.case_key,
                    trial=0,
                    seed=1,
                    events=[*events, Finished()],
                    finished_at=time.time(),
                )
            )
    fold(Store())
    return header


def reread(*run_ids: str) -> AskOutcome:
    return run_job(Regrading(run_ids, "rules"), Store(), load_registry())


def read(header: RunHeader, question_type: str = "mcq") -> list[tuple[str, str | None]]:
    with Store().read() as cursor:
        grades = [latest_grades(cursor, trial.trial_id) for trial in trials_of(header)]
    return [
        (grade.verdict, grade.extracted)
        for of_trial in grades
        for grade in of_trial
        if grade.rule == "mcq_strict" and grade.question_type == question_type
    ]


def test_choices_are_read_again_and_the_old_verdicts_stay() -> None:
    header = a_run()
    outcome = reread(header.run_id)
    assert (outcome.done, outcome.counts["changed"]) == (4, 3)
    assert read(header) == [
        ("correct", "Gout"),
        ("correct", "Gout"),
        ("incorrect", "Cellulitis"),
        ("no_diagnosis", None),
    ]
    (row,) = accuracy(Store(), mcq_rule="mcq_strict")
    assert row.estimate == 2 / 4
    with Store().read() as cursor:
        history = grade_history(cursor, trials_of(header)[0].trial_id)
    strict = [(grade.verdict, grade.rule_version) for grade in history if grade.rule == "mcq_strict"]
    assert strict == [("no_diagnosis", 1), ("correct", STRICT_VERSION)]
    assert [grade.verdict for grade in history if grade.rule == "mcq_loose"] == ["incorrect"]


@pytest.mark.slow
def test_a_second_reading_changes_nothing_and_a_rebuilt_database_has_the_verdicts() -> None:
    header = a_run()
    reread(header.run_id)
    before = journal_path(header.run_id).read_bytes()
    assert reread(header.run_id).done == reread().done == 0
    assert journal_path(header.run_id).read_bytes() == before
    was = read(header)
    store = Store()
    store.path.unlink()
    fold(Store())
    assert read(header) == was


@pytest.mark.slow
def test_letters_do_not_stand_for_the_choices_of_mcq_answers() -> None:
    header = a_run((("vignette", "mcq_answers"),))
    assert reread().done == 4
    assert read(header, "mcq_answers") == [
        ("correct", "Gout"),
        ("no_diagnosis", None),
        ("incorrect", "Lupus"),
        ("multiple", "Gout, Lupus"),
    ]


def test_verdicts_of_the_present_version_stay() -> None:
    header = a_run(version=STRICT_VERSION)
    assert reread().done == 0
    assert {verdict for verdict, _ in read(header)} == {"no_diagnosis"}


def test_a_lost_journal_fails_its_run_only() -> None:
    lost, complete = a_run(), a_run((*CHOICE, ("vignette", "mcq_answers")))
    shutil.rmtree(journal_path(lost.run_id).parent)
    with pytest.raises(UsageError, match="is gone"):
        reread(lost.run_id)
    with pytest.raises(UsageError, match="no run"):
        reread("nowhere")
    outcome = reread()
    assert outcome.done == 8
    assert outcome.failed == 4
    assert {run_id for run_id, _ in outcome.remarks} == {lost.run_id}
    assert read(complete)[0] == ("correct", "Gout")


@pytest.mark.slow
def test_the_command_and_the_report_count_outdated_answers(capsys: pytest.CaptureFixture[str]) -> None:
    header = a_run()
    with Store().read() as cursor:
        assert count_read_before(cursor, STRICT_VERSION, Selection(models=["openai/another"])) == 0
    assert main(["report", "accuracy", "--mcq-rule", "mcq_strict"]) == 0
    assert "4 answers with choices were read by an earlier version of the strict rule" in capsys.readouterr().out
    assert main(["report", "accuracy"]) == 0
    assert "earlier version" not in capsys.readouterr().out  # the paper's rule has not changed
    assert main(["job", "regrade", "--run", header.run_id[:12], "--grader", "rules"]) == 0
    assert "3 verdicts changed" in capsys.readouterr().out
    assert main(["report", "accuracy", "--mcq-rule", "mcq_strict"]) == 0
    output = capsys.readouterr().out
    assert "earlier version" not in output
    assert "differ by 0.500" in output, "one of the two correct answers is not a substring"
    assert main(["job", "regrade", "--grader", "rules", "--types", "mcq"]) == 2
    assert "leave out the other options" in capsys.readouterr().err
    assert main(["job", "regrade", "--grader", "reference/names", "--of", "closing", "--again"]) == 2
    assert "leave out --types" in capsys.readouterr().err


@pytest.mark.slow
def test_a_release_is_read_by_the_present_version_and_updated_to_it(tmp_path: Path) -> None:
    """Its prompts list choices without letters: a letter before the name of another choice is not a choice."""
    root = write_release(tmp_path / "craft-md")
    trials = {f"trial_{n}": a_trial(vignette_mcq="C. Tophaceous gout, rather than the others.") for n in range(5)}
    write_file(root, "gpt3_1106", "case_0", a_file("case_0", **trials))
    layout = RELEASE.find(root, str(root))
    import_release(Store(), layout, layout.chosen(None))
    assert reread().done == 0
    with Store().write() as connection:
        sql = "SELECT rule, rule_version, count(*) > 0 FROM grades GROUP BY ALL ORDER BY ALL"
        by_rule = [("frq", 1, True), ("mcq_loose", 1, True), ("mcq_strict", STRICT_VERSION, True)]
        assert connection.execute(sql).fetchall() == by_rule
        verdicts_before = connection.execute(_STRICT).fetchall()
        connection.execute("UPDATE grades SET rule_version = 1, verdict = 'multiple' WHERE rule = 'mcq_strict'")
        recount(connection)  # the program itself never changes a stored verdict
    outcome = reread()
    assert outcome.done == outcome.counts["changed"] == len(verdicts_before) > 40
    with Store().read() as cursor:
        assert cursor.execute(_STRICT).fetchall() == verdicts_before
    header, *lines = [line for _, line in read_lines(journal_path("craftmd-gpt3_1106"))]
    assert isinstance(header, RunHeader)
    assert {type(line) for line in lines} == {GradesLine}


_STRICT = """
    SELECT trial_id, format, verdict, extracted FROM newest_grades WHERE rule = 'mcq_strict' ORDER BY ALL"""
