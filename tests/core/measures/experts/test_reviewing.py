"""A review under way: answers, changes, ties, blinding; and what is drawn from a database."""

from __future__ import annotations

import pytest

from core.errors import UsageError
from core.measures import agreement
from core.measures.base import MetricRequest
from core.measures.experts.adjudication import against_grader, decisions_of, shares
from core.reviews.answering import quotation_of, record
from core.reviews.items import blinded_dialogue, hidden
from core.reviews.reviewing import unblind
from core.reviews.state import COMMENT, HIGHLIGHT, state_of, states
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.judgements import judgement_history
from core.store.queries.reviews import candidates
from core.store.queries.trials import trial_events
from core.store.review_records import AnnotatedItem, parse_item, yes_no_questions
from tests.core.measures.experts.reviews import FIVE, MODELS, a_plan, a_review, answer_all
from tests.core.store.builders import (
    Finished,
    Utterance,
    a_case,
    a_header,
    a_trial,
    answered,
    graded,
    grades,
    write_journal,
)


def test_every_answer_is_a_row_and_a_change_says_why(store: Store) -> None:
    a_review(store, shared=1)
    record(store, "First", 1, "Ada", "medical_terms", "yes")
    record(store, "First", 1, "Ada", "medical_terms", "yes")
    with pytest.raises(UsageError, match="give a reason for the change"):
        record(store, "First", 1, "Ada", "medical_terms", "no")
    record(store, "First", 1, "Ada", "medical_terms", "no", "I read it again")
    with store.read() as cursor:
        rows = judgement_history(cursor)
    assert [(entry.value, entry.reason) for entry in rows] == [("yes", ""), ("no", "I read it again")]
    assert state_of(store, "First").value(rows[0].subject, "Ada", "medical_terms") == "no"


def test_who_is_not_asked_cannot_answer(store: Store) -> None:
    review = a_review(store, shared=0)
    state = state_of(store, review.review_id)
    others = state.items_for("Ben")[0]
    with pytest.raises(UsageError, match="Ada has no such question"):
        record(store, "First", others.number, "Ada", "medical_terms", "yes")
    with pytest.raises(UsageError, match="has no item 99"):
        record(store, "First", 99, "Ada", "medical_terms", "yes")
    with pytest.raises(UsageError, match="'maybe' is not an answer"):
        record(store, "First", others.number, "Ben", "medical_terms", "maybe")
    with pytest.raises(UsageError, match="There is no review 'Other'"):
        state_of(store, "Other")
    with pytest.raises(UsageError, match="called 'first' already"):
        a_review(store, "first")


def test_a_tie_goes_to_a_third_who_is_asked_only_what_is_tied(store: Store) -> None:
    review = a_review(store, shared=1)
    answer_all(store, review, "Ada")
    answer_all(store, review, "Ben", but={2: "no", 5: "no"})
    state = state_of(store, review.review_id)
    assert [entry.number for entry in state.ties_for("Cyd")] == [2, 5]
    assert state.ties_for("Ada") == []
    assert state.missing == 2 * len(FIVE)
    record(store, "First", 2, "Cyd", "medical_terms", "no")
    state = state_of(store, review.review_id)
    assert state.missing == 2 * len(FIVE) - 1
    tied = state.by_number[2]
    assert "medical_terms" not in state.questions_for(tied, "Dan")  # broken by Cyd
    assert state.questions_for(tied, "Cyd") == FIVE
    with pytest.raises(UsageError, match="Cyd has no such question about item 1"):
        record(store, "First", 1, "Cyd", "medical_terms", "no")


def test_names_stay_hidden_until_all_is_answered_or_somebody_says_why(store: Store) -> None:
    review = a_review(store, shared=0)
    answer_all(store, review, "Ada")
    state = state_of(store, review.review_id)
    with pytest.raises(UsageError, match="is blinded"):
        decisions_of(state)
    with pytest.raises(UsageError, match=f"{state.missing} answers are missing"):
        unblind(store, "First", "Ada")
    unblind(store, "First", "Ada", "the deadline")
    after = state_of(store, review.review_id)
    assert after.review.unblinded is not None
    assert after.review.unblinded.reason == "the deadline"
    assert {entry.model for entry in decisions_of(after)} <= set(MODELS)
    with pytest.raises(UsageError, match="unblinded already"):
        unblind(store, "First", "Ben", "again")
    with pytest.raises(UsageError, match="can no longer be changed"):
        record(store, "First", after.items_for("Ben")[0].number, "Ben", "medical_terms", "yes")


@pytest.mark.slow
def test_a_reason_is_kept_only_where_answers_are_missing(store: Store) -> None:
    review = a_review(store, shared=0)
    for name in ("Ada", "Ben"):
        answer_all(store, review, name)
    unblind(store, "First", "Ada", "curious")
    visible = state_of(store, "First").review.unblinded
    assert visible is not None
    assert visible.reason == ""


def test_decisions_take_the_thirds_word_and_agreement_does_not(store: Store) -> None:
    review = a_review(store, number=12, shared=1)
    answer_all(store, review, "Ada")
    answer_all(store, review, "Ben", but={1: "no", 2: "no"})
    for number, word in ((1, "no"), (2, "yes")):
        record(store, "First", number, "Cyd", "medical_terms", word)
    unblind(store, "First", "Cyd", "the others' ties do not matter here")
    decisions = decisions_of(state_of(store, "First"))
    result = [row for row in shares(decisions) if row["question"] == yes_no_questions()["medical_terms"]]
    assert sum(row["yes"] for row in result) == 11
    assert sum(row.n for row in result) == 12
    listed = agreement.report.rows(MetricRequest(store), review="First")
    percent = next(row for row in listed if row["question"] == yes_no_questions()["medical_terms"])
    assert (percent["measure"], percent.estimate, percent.n) == ("percent agreement", pytest.approx(10 / 12), 12)


def test_comments_and_highlights_are_kept_beside_the_answers(store: Store) -> None:
    review = a_review(store, shared=1)
    record(store, "First", 1, "Ada", COMMENT, " an odd conversation ")
    span = quotation_of(1, "I itch since day 3.", "ITCH since", " lay words ")
    assert (span.start, span.end, span.words, span.comment) == (2, 12, "itch since", "lay words")
    record(store, "First", 1, "Ada", HIGHLIGHT, words=[span])
    answers = {entry.question: entry for entry in state_of(store, review.review_id).newest.values()}
    assert answers["comment"].comment == "an odd conversation"
    assert answers["highlight"].quotations == (span,)
    with pytest.raises(UsageError, match="Message 2 does not contain these words"):
        quotation_of(1, "I itch.", "fever")


def test_the_dialogue_that_annotators_see_names_no_model(store: Store) -> None:
    with store.read() as cursor:
        events = trial_events(cursor, "t00")
    visible = blinded_dialogue(events, MODELS)
    assert {event.kind for event in visible} == {"utterance", "ended"}
    answers = " ".join(getattr(event, "text", "") for event in visible)
    assert "secret" not in answers
    assert "OpenAI" not in answers
    assert len(hidden("I am GPT-4o, not Claude.")) == len("I am GPT-4o, not Claude.")
    assert hidden("My mother has eczema.") == "My mother has eczema."


def test_answers_are_drawn_for_disagreement_from_the_history_and_from_repeated_words(store: Store) -> None:
    plan = a_plan(kind="answers", sampling="disagreement", number=1)
    with store.read() as cursor:
        assert [entry for entry in candidates(cursor, plan) if entry.disagreement] == []
    # another grader says otherwise of one answer; the same words of the same model elsewhere are then disputed too,
    # where the same grader gave them both verdicts
    write_journal(store.journals, "run0", grades("t00", graded("incorrect", grader="openai/h", at=20.0), run_id="run0"))
    write_journal(store.journals, "run0", grades("t01", graded("incorrect", at=20.0), run_id="run0"))
    fold(store)
    with store.read() as cursor:
        disputed = {entry.item for entry in candidates(cursor, plan) if entry.disagreement}
    assert "answer:t00:multi_turn:frq" in disputed
    assert "answer:t01:multi_turn:frq" in disputed
    assert all(item.startswith("answer:t0") for item in disputed)  # every case has the same answer and response


def test_conversations_are_drawn_for_disagreement_where_the_rules_for_choices_differ(store: Store) -> None:
    answers = [Utterance(turn=0, role="doctor", text="Hello?"), Utterance(turn=1, role="patient", text="I itch.")]
    lines = []
    for number, strict in enumerate(("multiple", "correct")):
        judged = [
            graded(verdict, "multi_turn", "mcq", rule=rule, grader="rule")
            for rule, verdict in (("mcq_loose", "correct"), ("mcq_strict", strict))
        ]
        events = [*answers, answered("multi_turn", "mcq"), *judged, Finished()]
        lines.append(a_trial(events, trial_id=f"m{number}", run_id="run2", case_key="ours/1", trial=number))
    header = a_header("run2", [a_case(1)], doctor="openai/c", arms=[("multi_turn", "mcq")])
    write_journal(store.journals, "run2", header, *lines)
    fold(store)
    with store.read() as cursor:
        result = candidates(cursor, a_plan(sampling="disagreement", number=1))
    assert [entry.item for entry in result if entry.disagreement] == ["talk:m0"]


@pytest.mark.slow
def test_free_responses_stand_beside_the_grader(store: Store) -> None:
    review = a_review(store, kind="answers", number=12, shared=0)
    for name in ("Ada", "Ben"):
        answer_all(store, review, name)
    unblind(store, "First", "Ada")
    judged, excluded = against_grader(store, decisions_of(state_of(store, "First")))
    assert (len(judged), excluded) == (12, {})
    assert all(answer.expert_says for answer in judged)
    assert {answer.model: answer.grader_says for answer in judged} == {MODELS[0]: True, MODELS[1]: False}


def test_reviews_narrow_what_they_draw_from(store: Store) -> None:
    with store.read() as cursor:
        result = candidates(cursor, a_plan(models=(MODELS[1],), specialties=("Cardiology",)))
    assert {(entry.model, entry.specialty) for entry in result} == {(MODELS[1], "Cardiology")}
    assert len(result) == 3
    a_review(store)
    assert [state.review.name for state in states(store)] == ["First"]


def test_items_are_read_as_they_are_written(subtests: pytest.Subtests) -> None:
    rows: list[AnnotatedItem] = [
        AnnotatedItem("talk", trial_id="run/1/0"),
        AnnotatedItem("answer", trial_id="a:b", format="vignette"),
        AnnotatedItem("case", case_key="ours/1"),
        AnnotatedItem("release", model="openai/llama3:8b", case_key="craftmd/case_7"),
    ]
    for item in rows:
        with subtests.test(item=item):
            assert parse_item(str(item)) == item


def test_what_names_no_item_is_refused(subtests: pytest.Subtests) -> None:
    rows: list[str] = ["talk:", "answer:t:multi_turn:mcq", "release:gpt_4", "chat:1", ""]
    for text in rows:
        with subtests.test(text=text), pytest.raises(UsageError, match="is no item"):
            parse_item(text)
