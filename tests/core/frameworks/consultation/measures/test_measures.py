"""Measures of conversations: counted by hand on five small dialogues, and checked against rouge-score."""

from __future__ import annotations

import pytest

from core.asking.scene import Turn
from core.frameworks.consultation.measures.history_taking import (
    HISTORY,
    SCALARS,
    Measures,
    inquiry_of,
    measure,
    yardstick,
)
from core.measures.base import Record
from core.text.case_items import HistoryItem, items_to_json
from tests.core.frameworks.consultation.measures import dialogues as d
from tests.core.store.builders import a_case


def measured(turns: tuple[Turn, ...], items: tuple[HistoryItem, ...]) -> Measures:
    return measure(turns, yardstick("", items))


def test_the_greeting_and_the_diagnosis_are_no_queries() -> None:
    inquiry = inquiry_of(d.COUGH)
    assert inquiry.opening == "I cough."
    assert inquiry.exchanges == (("How long do you cough?", "For two weeks."),)
    assert (inquiry.doctor_turns, inquiry.patient_turns) == (2, 2)


def test_a_last_message_that_asks_nothing_is_no_query_and_an_unanswered_question_is_one() -> None:
    assert inquiry_of(d.STUBBORN).queries == ["Any pain?", "Pain, any?", "ANY PAIN?"]
    assert inquiry_of(d.CAPPED).exchanges[-1] == ("Is there blood?", "")


def test_a_query_without_question_mark_that_was_answered_stays_a_query() -> None:
    turns = d.dialogue("D: Hello", "P: I itch.", "D: Tell me where.", "P: My arm.", "D: Final diagnosis: eczema")
    assert inquiry_of(turns).queries == ["Tell me where."]


def test_a_conversation_that_never_began_has_nothing_to_measure() -> None:
    measures = measured((), d.COUGH_ITEMS)
    assert (measures.patient_recall, measures.patient_precision, measures.patient_words, measures.doctor_turns) == (
        0,
        None,
        None,
        0,
    )
    assert measures.order == {"demographics": None, "onset": None}


def test_recall_and_precision_of_patient_and_doctor_by_hand() -> None:
    measures = measured(*d.ALL["cough"])
    # values: 40 year old man cough for two week = 8; patient: i cough for two week = 5; common: the last 4
    assert (measures.patient_recall, measures.patient_precision, measures.patient_f1) == pytest.approx(
        (4 / 8, 4 / 5, 8 / 13)
    )
    # keys: age durat of cough = 4; query: how long do you cough = 5; common: cough
    assert (measures.doctor_recall, measures.doctor_precision, measures.doctor_f1) == pytest.approx(
        (1 / 4, 1 / 5, 2 / 9)
    )
    assert (measures.doctor_turns, measures.queries, measures.doctor_words, measures.patient_words) == (2, 1, 5, 5 / 2)
    assert measures.repetition_1 is measures.repetition_2 is measures.repetition_l is None


def test_repetition_of_a_conversation() -> None:
    # do you smoke / do you drink: 2 of 3 and 3 words; bigram "do you" of 2 and 2; longest subsequence 2
    habits = measured(*d.ALL["habits"])
    assert (habits.repetition_1, habits.repetition_2, habits.repetition_l) == pytest.approx((2 / 3, 1 / 2, 2 / 3))
    # values: drink wine sore knee; patient: my knee is sore / no / i drink wine = 8 words, all 4 in common
    assert (habits.patient_recall, habits.patient_precision) == pytest.approx((1, 4 / 8))
    stubborn = measured(*d.ALL["stubborn"])
    assert (stubborn.repetition_1, stubborn.repetition_2, stubborn.repetition_l) == pytest.approx((1, 1 / 3, 2 / 3))


def test_a_doctor_that_asks_nothing_covers_nothing_and_has_no_precision() -> None:
    hasty = measured(*d.ALL["hasty"])
    assert (hasty.doctor_recall, hasty.doctor_f1, hasty.doctor_precision, hasty.doctor_words) == (0, 0, None, None)
    assert (hasty.doctor_turns, hasty.queries) == (1, 0)
    assert (hasty.patient_recall, hasty.patient_precision, hasty.patient_f1) == pytest.approx((1, 3 / 4, 6 / 7))


def test_stemming_joins_the_forms_of_a_word() -> None:
    # stems of the values: cough nightli no blood; patient: pleas help i am cough i cough nightli = 8; in common 2
    assert measured(*d.ALL["capped"]).patient_recall == pytest.approx(2 / 4)


@pytest.mark.parametrize("name", d.ALL)
def test_rouge_agrees_with_rouge_score(name: str) -> None:
    turns, items = d.ALL[name]
    measures, inquiry = measured(turns, items), inquiry_of(turns)
    from rouge_score.rouge_scorer import RougeScorer  # slow to load

    scorer = RougeScorer(["rouge1"], use_stemmer=True)
    patient = " ".join(turn.text for turn in turns if turn.role == "patient")
    expected = scorer.score(" ".join(i.value for i in items), patient)["rouge1"]
    assert (measures.patient_precision, measures.patient_recall, measures.patient_f1) == pytest.approx(
        expected, abs=1e-9
    )
    expected = scorer.score(" ".join(i.key for i in items), " ".join(inquiry.queries))["rouge1"]
    assert (measures.doctor_precision or 0, measures.doctor_recall, measures.doctor_f1) == pytest.approx(
        expected, abs=1e-9
    )


def test_a_curve_begins_with_the_opening_and_ends_with_all_turns() -> None:
    measures = measured(*d.ALL["habits"])
    # opening: my knee is sore → 2 of 4 values, 2 of 4 words; after "No." (from 50 %): 2 of 5 words; at the end 4 of 8
    assert measures.curves["patient_recall"] == pytest.approx([1 / 2] * 10 + [1])
    assert measures.curves["patient_precision"] == pytest.approx([2 / 4] * 5 + [2 / 5] * 5 + [4 / 8])
    # keys: alcohol complaint; neither is in a query; before the first query there is no precision
    assert measures.curves["doctor_recall"] == pytest.approx([0] * 11)
    assert measures.curves["doctor_precision"] == (None, None, None, None, None, 0, 0, 0, 0, 0, 0)


def test_the_order_of_a_topic_is_the_share_of_the_dialogue_before_its_first_mention() -> None:
    assert measured(*d.ALL["habits"]).order == {"social history": 1.0, "chief complaint": 0.0}
    assert measured(*d.ALL["cough"]).order == {"demographics": None, "onset": 1.0}


def test_scores_have_all_measures_with_curves_and_the_order_of_topics() -> None:
    turns, items = d.ALL["habits"]
    against = items_to_json(items)
    scores = {score.name: score for score in HISTORY.scores(Record("t", a_case(), turns, against=against))}
    assert list(scores) == [*SCALARS, "order social history", "order chief complaint"]
    assert (scores["repetition_1"].value, scores["repetition_1"].series) == (0.666667, ())
    assert scores["patient_recall"].series == (0.5,) * 10 + (1.0,)
    assert scores["patient_recall"].value == scores["patient_recall"].series[-1]
    assert (scores["order social history"].value, scores["order chief complaint"].value) == (1.0, 0.0)
    turns, items = d.ALL["cough"]
    order = [s for s in HISTORY.scores(Record("t", a_case(), turns, against=items_to_json(items))) if "order" in s.name]
    assert [(s.name, s.value, s.evidence) for s in order] == [
        ("order demographics", None, ()),
        ("order onset", 1.0, ((3, "For two weeks.", None, ""),)),
    ]


def test_without_items_there_are_the_measures_without_rouge() -> None:
    measures = measured(d.HABITS, ())
    assert measures.patient_recall is measures.patient_precision is measures.doctor_f1 is None
    assert (measures.queries, measures.doctor_words) == (2, 3)
