"""Queries of a re-grading: answers with the verdict that counts, their cases, and earlier verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import AnamnesisError
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.cases import add_cases, cases_answered
from core.store.queries.grades import AnswerToGrade, answers_to_grade, earlier_verdicts
from core.store.queries.runs import campaign_ids
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, grades, invalid, write_journal
from tests.support.stores import copy_of

FRQ = ("frq", "frq_top3")
PROMPTS = "p1"


def trial(number: int, case: int, *events: object, run_id: str = "run"):  # type: ignore[no-untyped-def]
    trial_id = f"{run_id}/{case}/{number}"
    return a_trial(events, trial_id=trial_id, run_id=run_id, case_key=f"ours/{case}", trial=number)  # type: ignore[arg-type]


def fill(store: Store) -> None:
    """Two cases, the first tried twice; the second trial's answer on the vignette is invalid."""
    write_journal(
        store.journals,
        "run",
        a_header(cases=[a_case(1), a_case(2)]),
        trial(
            0, 1, answered(), graded("incorrect"), answered("vignette", "mcq"), answered("vignette", response="Rash")
        ),
        trial(0, 2, answered(question_type="frq_top3"), graded("provider_error", question_type="frq_top3")),
        trial(1, 1, answered(), graded("correct"), invalid("refused", "vignette")),
    )
    fold(store)


@pytest.fixture
def filled(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


def to_grade(store: Store, types: tuple[str, ...] = FRQ, limit: int | None = None) -> list[AnswerToGrade]:
    with store.read() as cursor:
        return answers_to_grade(cursor, "run", {name: name for name in types}, limit)  # type: ignore[misc]


def test_free_responses_come_trial_by_trial_with_the_verdict_that_counts(filled: Store) -> None:
    write_journal(
        filled.journals,
        "run",
        grades("run/1/0", graded("correct", grader="openai/new [mine]", prompt_hash=PROMPTS, at=60.0)),
        grades("run/1/1", graded("multiple", grader="openai/late", at=5.0)),
    )
    fold(filled)
    assert [(a.trial_id, a.format, a.verdict, a.grader, a.prompt_hash) for a in to_grade(filled)] == [
        ("run/1/0", "multi_turn", "correct", "openai/new [mine]", PROMPTS),
        ("run/1/0", "vignette", None, None, None),
        ("run/2/0", "multi_turn", "provider_error", "openai/g", ""),
        ("run/1/1", "multi_turn", "correct", "openai/g", ""),
    ]
    assert [a.response for a in to_grade(filled, limit=2)] == ["Eczema", "Rash"]
    assert [a.trial_id for a in to_grade(filled, ("frq_top3",))] == ["run/2/0"]


def test_cases_have_the_content_that_the_trials_used(filled: Store) -> None:
    with filled.write() as connection:
        add_cases(connection, [a_case(1, answer="Psoriasis")])
    with filled.read() as cursor:
        cases = cases_answered(cursor, "run")
    assert cases == {(c.case_key, c.content_hash): c for c in (a_case(1), a_case(2))}
    assert {a.case for a in to_grade(filled)} == set(cases)


def test_a_case_that_the_journal_lacks_is_replaced_by_its_newest_content(store: Store) -> None:
    write_journal(store.journals, "run", a_header(), trial(0, 1, answered()))
    fold(store)
    with store.read() as cursor, pytest.raises(AnamnesisError, match="1 cases of run run are not stored, ours/1 the"):
        cases_answered(cursor, "run")
    with store.write() as connection:
        add_cases(connection, [a_case(1), a_case(1, answer="Psoriasis")])
    with store.read() as cursor:
        assert cases_answered(cursor, "run") == {("ours/1", None): a_case(1, answer="Psoriasis")}


def test_earlier_verdicts_are_found_by_model_and_prompts(filled: Store) -> None:
    """The run's own verdicts (no hash), failures and other prompts do not count; the newer of two verdicts does."""
    write_journal(
        filled.journals,
        "run",
        grades("run/1/0", graded("incorrect", grader="openai/g", prompt_hash=PROMPTS, at=60.0, call_ids=("a", "b"))),
        grades("run/1/1", graded("correct", grader="openai/g [mine]", prompt_hash=PROMPTS, at=70.0, call_ids=("c",))),
        grades("run/1/0", graded("multiple", "vignette", grader="openai/g", prompt_hash="other", at=80.0)),
        grades("run/1/0", graded("provider_error", "vignette", grader="openai/g", prompt_hash=PROMPTS, at=80.0)),
        grades("run/2/0", graded("no_diagnosis", question_type="frq_top3", grader="openai/gg", prompt_hash=PROMPTS)),
        grades("gone/1/0", graded("correct", grader="openai/g", prompt_hash=PROMPTS, at=90.0)),
    )
    fold(filled)
    with filled.read() as cursor:
        verdicts = earlier_verdicts(cursor, "openai/g", PROMPTS)
    assert {key: (found.verdict, found.call_ids) for key, found in verdicts.items()} == {
        ("frq", "Eczema", "Eczema"): ("correct", ("c",))
    }


def test_campaigns_are_local_runs_and_releases(filled: Store) -> None:
    for number, source in enumerate(("live", "bench", "fork")):
        write_journal(filled.journals, source, a_header(source, source=source, created_at=float(number)))
    write_journal(filled.journals, "first", a_header("first", created_at=50.0))
    fold(filled)
    with filled.read() as cursor:
        assert campaign_ids(cursor) == ["first", "run"]
