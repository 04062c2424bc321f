"""Version 0.4 offered only right answers as many choices: its answers stay separate from today's."""

from __future__ import annotations

import shutil

import orjson
import pytest

from core.events import Answered, Event, Finished, Graded, Started
from core.journal import RunHeader, TrialLine, read_lines
from core.measures.accuracy import accuracy
from core.measures.endings import RULES, rescore
from core.measures.published import printed_figures
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.answers import ending_outcomes
from core.store.queries.runs import run
from core.store.queries.trials import trial_events
from core.store.selection import Selection
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, write_journal
from tests.core.store.old import make_older

ARMS = [("vignette", "mcq"), ("vignette", "mcq_many")]


def today() -> tuple[RunHeader, TrialLine]:
    stream: list[Event] = [
        answered("vignette", "mcq_many", response="A kind of dermatitis"),
        graded("incorrect", "vignette", "mcq_many", rule="mcq_loose", grader="rule"),
        graded("correct", "vignette", "mcq_many"),
        Finished(),
    ]
    return a_header("new", [a_case()], arms=ARMS, code_version="0.5"), a_trial(stream, trial_id="new/1/0", run_id="new")


def of_0_4() -> tuple[RunHeader, TrialLine]:
    stream: list[Event] = [
        Started(trial_id="old/1/0", case_key="ours/1", trial=0, seed=7),
        answered("vignette", "mcq_many"),
        graded("correct", "vignette", "mcq_many", rule="mcq_loose", grader="rule"),
        graded("incorrect", "vignette", "mcq_many", rule="mcq_strict", grader="rule"),
        Finished(),
    ]
    many = ["Eczema", "Gout"]
    header = a_header("old", [a_case()], arms=ARMS, code_version="0.4", many_choices=many)
    return header, a_trial(stream, trial_id="old/1/0", run_id="old")


def write_journal_of_0_4(store: Store) -> None:
    write_journal(store.journals, "old", *of_0_4())
    path = store.journals / "old" / "journal.jsonl"
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    for line in lines:
        del line["schema_version"]
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


def means(store: Store, rule: str = "usual") -> dict[tuple[str, str], tuple[float | None, str]]:
    rows = accuracy(store, selection=Selection(question_types=["mcq_many", "mcq_answers"]), mcq_rule=rule)  # type: ignore[arg-type]
    return {(row["model"].rpartition(" · ")[2], row["question_type"]): (row.estimate, row["rule"]) for row in rows}


def test_a_journal_of_0_4_gets_another_question_type(store: Store) -> None:
    write_journal_of_0_4(store)
    write_journal(store.journals, "new", *today())
    fold(store)
    old, new = ("version 0.4", "mcq_answers"), ("version 0.5", "mcq_many")
    # the grader accepts another name of the answer; the substring rule does not
    assert means(store) == {old: (1, "mcq_loose"), new: (1, "mcq_many")}
    assert means(store, "mcq_strict") == {old: (0, "mcq_strict"), new: (1, "mcq_many")}
    assert means(store, "mcq_loose") == {old: (1, "mcq_loose"), new: (0, "mcq_loose")}
    pooled = accuracy(store, selection=Selection(pooled=True))
    assert [(row["question_type"], row.estimate) for row in pooled] == [("mcq_many", 1), ("mcq_answers", 1)]
    with store.read() as cursor:
        stored = run(cursor, "old")
        assert stored is not None
        assert stored.arms == (("vignette", "mcq"), ("vignette", "mcq_answers"))
        kinds = {e.question_type for e in trial_events(cursor, "old/1/0") if isinstance(e, Answered | Graded)}
    assert kinds == {"mcq_answers"}
    header = next(line for _, line in read_lines(store.journals / "old" / "journal.jsonl"))
    assert isinstance(header, RunHeader)
    assert header.arms == [("vignette", "mcq"), ("vignette", "mcq_answers")]


def test_a_database_of_0_4_opens_with_its_answers_under_that_name(store: Store) -> None:
    write_journal(store.journals, "old", *of_0_4())
    fold(store)
    shutil.rmtree(store.journals)
    make_older(
        store,
        12,
        *(
            f"UPDATE {table} SET question_type = 'mcq_many' WHERE question_type = 'mcq_answers'"
            for table in ("answers", "grades")
        ),
        "UPDATE runs SET arms = ['vignette:mcq', 'vignette:mcq_many']",
        "UPDATE trials SET events = replace(events::VARCHAR, 'mcq_answers', 'mcq_many')",
    )
    assert means(store) == {("openai/a", "mcq_answers"): (1, "mcq_loose")}
    assert means(store, "mcq_strict") == {("openai/a", "mcq_answers"): (0, "mcq_strict")}
    with store.read() as cursor:
        assert {e.question_type for e in trial_events(cursor, "old/1/0") if isinstance(e, Answered | Graded)} == {
            "mcq_answers"
        }
        stored = run(cursor, "old")
        assert stored is not None
        assert stored.arms == (("vignette", "mcq"), ("vignette", "mcq_answers"))


def test_the_what_if_has_the_substring_rule_for_many_choices_and_the_strict_one_for_few(store: Store) -> None:
    write_journal(store.journals, "new", *today())
    fold(store)
    for selection in (Selection(), Selection(trials=["new/1/0"])):  # from the tallies, and answer by answer
        with store.read() as cursor:
            outcomes = ending_outcomes(cursor, selection)
        rows = {row["rule"]: row for row in rescore(outcomes, RULES, [("vignette", "mcq_many")])}
        assert (rows["standard"].estimate, rows["substring"].estimate, rows["substring"]["changed"]) == (1, 0, 1)
        assert "strict" not in rows


def test_the_figures_of_the_preprint_are_for_answers_of_today_only() -> None:
    kinds = {row["question_type"] for row in printed_figures("preprint")}
    assert "mcq_many" in kinds
    assert "mcq_answers" not in kinds


@pytest.mark.parametrize("rule", ["usual", "mcq_loose"])
def test_an_answer_with_several_rules_counts_once(store: Store, rule: str) -> None:
    write_journal(store.journals, "new", *today())
    fold(store)
    (row,) = accuracy(store, selection=Selection(question_types=["mcq_many"]), mcq_rule=rule)  # type: ignore[arg-type]
    (row_by_trial,) = accuracy(store, selection=Selection(trials=["new/1/0"]), mcq_rule=rule)  # type: ignore[arg-type]
    assert (row["n_trials"], row["n_excluded"]) == (row_by_trial["n_trials"], row_by_trial["n_excluded"]) == (1, 0)
    assert (row.estimate, row["rule"]) == (row_by_trial.estimate, row_by_trial["rule"])
