"""Figures of judged facts by hand: topics, faults, and the notes on what is left out or not judged."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from core.case import Fact, Profile
from core.errors import AnamnesisError, UsageError
from core.measures.base import MetricRequest
from core.measures.ledger import fault_rows, read_conversations, read_topics, report
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.fact_sets import save_facts
from core.store.queries.judged_facts import PatientVerdict
from core.store.selection import Selection
from core.text.facts import facts_of
from tests.core.store.builders import Ended, Finished, Utterance, a_case, a_header, a_trial, write_journal
from tests.support.judged_facts import judge_facts, judge_of_facts
from tests.support.stores import copy_of

COUGH = Profile(
    basic=(
        Fact(key="chief complaint", value="cough", lay="I have a cough"),
        Fact(key="fever", value="fever", lay="I have a fever"),
        Fact(key="smoking", value="smokes 20 cigarettes a day", lay="I smoke 20 cigarettes a day"),
    )
)
CASES = [
    a_case(n, profile=COUGH, vignette="A man with a cough and fever. He smokes.", answer="Pneumonia", synonyms=())
    for n in (1, 2)
]
MESSAGES = ("What brings you in?", "I have a cough.", "Do you smoke?", "No, doctor.", "**Final Diagnosis:** Flu")
JUDGE = judge_of_facts("openai/j", "p1")


def fill(store: Store) -> None:
    """Two models with a conversation about each of two cases; the first has another, which broke off."""
    for model in ("m1", "m2"):
        utterances = [
            Utterance(turn=n, role="patient" if n % 2 else "doctor", text=text) for n, text in enumerate(MESSAGES)
        ]
        ends = [(1, 0, "final_diagnosis"), (2, 0, "turn_cap"), *([(1, 1, "error")] if model == "m1" else [])]
        lines = [
            a_trial(
                [*utterances, Ended(reason=reason, doctor_turns=2), Finished()],
                trial_id=f"{model}/{n_case}/{trial}",
                run_id=model,
                case_key=f"ours/{n_case}",
                trial=trial,
            )
            for n_case, trial, reason in ends
        ]
        write_journal(store.journals, model, a_header(model, CASES, doctor=model), *lines)
    fold(store)


@pytest.fixture
def filled(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


def mark(kind: str, number: int) -> PatientVerdict:
    """Return a verdict on the fact at index ``number`` of the first case."""
    fact = facts_of(CASES[0])[number]
    turn = None if kind == "never_asked" else 3
    return PatientVerdict(kind, turn, "", fact.id, fact.text, fact.topic)  # type: ignore[arg-type]


INVENTED = PatientVerdict("invented", 3, "No, doctor")


judge = partial(judge_facts, by=JUDGE)


def judge_some(store: Store) -> None:
    judge(store, "m1/1/0", mark("asked", 0), mark("volunteered", 1), mark("withheld", 2), INVENTED)
    judge(store, "m1/2/0", mark("asked", 0), mark("never_asked", 1), mark("never_asked", 2))
    judge(store, "m2/1/0", mark("asked", 0), mark("asked", 1), mark("asked", 2))


@pytest.mark.slow
def test_shares_of_the_marks_of_each_topic(filled: Store) -> None:
    judge_some(filled)
    rows = {(row["model"], row["topic"], row["mark"]): row for row in read_topics(filled, Selection(), JUDGE)}
    assert {mark for _, _, mark in rows} == {"asked", "volunteered", "never_elicited"}
    smoking = rows["m1", "social history", "never_elicited"]
    assert (smoking.estimate, smoking.n, smoking["n_facts"]) == (1.0, 2, 2), "withheld in one, never asked in the other"
    assert rows["m1", "chief complaint", "asked"].estimate == 1.0
    topic = facts_of(CASES[0])[1].topic
    assert rows["m1", topic, "volunteered"].estimate == 0.5
    assert rows["m1", topic, "never_elicited"].estimate == 0.5
    assert rows["m2", "social history", "asked"].n == 1, "the other conversation is not judged"


def test_shares_of_faults_are_of_the_judged_conversations(filled: Store) -> None:
    judge_some(filled)
    sums = read_conversations(filled, Selection(), JUDGE)
    rows = {(row["model"], row["fault"]): row for row in fault_rows(sums, "openai/j")}
    assert {label: (row.estimate, row["n_conversations"], row["by"]) for label, row in rows.items()} == {
        ("m1", "invented"): (0.5, 2, "openai/j"),
        ("m1", "withheld"): (0.5, 2, "openai/j"),
        ("m2", "invented"): (0.0, 1, "openai/j"),
        ("m2", "withheld"): (0.0, 1, "openai/j"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("part", ["topics", "faults"])
def test_a_note_names_the_judge_and_what_is_left_out(filled: Store, part: str) -> None:
    judge_some(filled)
    request = MetricRequest(filled)
    assert list(report.rows(request, part=part))
    (note,) = request.notes
    assert "Judged by openai/j (prompts p1), conversations: m1 2, m2 1" in note.text
    assert "left out: 1 that broke off and 1 not judged (`python -m core job judge facts --by" in note.text


@pytest.mark.parametrize("part", ["topics", "faults"])
def test_without_a_judge_the_error_names_the_number_and_the_command(filled: Store, part: str) -> None:
    with pytest.raises(AnamnesisError, match=r"Not judged: .* 4 conversations\. .*core job judge facts --by"):
        list(report.rows(MetricRequest(filled), part=part))
    with pytest.raises(UsageError, match="these models have: no model"):
        list(report.rows(MetricRequest(filled), part=part, judge="openai/j"))
    assert list(report.rows(MetricRequest(filled, Selection(specialties=["Cardiology"])), part=part)) == [], (
        "no conversation"
    )


@pytest.mark.slow
def test_the_report_can_be_restricted_to_one_mark(filled: Store) -> None:
    judge_some(filled)
    assert {row["mark"] for row in report.rows(MetricRequest(filled), mark="asked")} == {"asked"}


def test_judgements_against_former_facts_do_not_count(filled: Store) -> None:
    judge_some(filled)
    with filled.write() as connection:
        save_facts(connection, CASES[0], facts_of(CASES[0])[:2], "a person")
    sums = read_conversations(filled, Selection(), JUDGE)
    assert dict(sums.groupby("model")["judged"].sum()) == {"m1": 1, "m2": 0}


def test_a_judgement_of_version_0_5_counts_for_faults_and_marks_no_fact(filled: Store) -> None:
    """Version 0.5 stored only withheld and invented facts, without a topic."""
    withheld = PatientVerdict("withheld", 3, "Do you smoke?", "smoking", "smokes 20 cigarettes a day")
    judge(filled, "m1/1/0", withheld)
    assert read_topics(filled, Selection(), JUDGE) == []
    rows = {row["fault"]: row.estimate for row in fault_rows(read_conversations(filled, Selection(), JUDGE), "j")}
    assert rows == {"invented": 0.0, "withheld": 1.0}
