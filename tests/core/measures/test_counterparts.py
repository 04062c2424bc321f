"""Printed figures beside this database's: whose figure stands there, and which is left out."""

from __future__ import annotations

from core.frameworks.consultation.measures.published import printed_histories
from core.measures.counterparts import Own, Printed, beside, printed_figures


def _label(condition: str) -> str:
    return condition.partition(" ")[0]


def test_the_same_model_comes_first_and_of_its_conditions_the_one_on_most_cases() -> None:
    own = [
        Own("gpt_4 few", "accuracy", 0.9, 0.8, 1.0, 5),
        Own("gpt_4 many", "accuracy", 0.6, 0.5, 0.7, 50),
        Own("other", "accuracy", 0.95, 0.9, 1.0, 90),
    ]
    (row,) = beside([Printed("1", "gpt_4", "accuracy", 0.5)], own, _label)
    assert row.own == own[1]
    assert row.same_model
    assert row.difference is not None
    assert round(row.difference, 6) == 0.1


def test_else_the_best_of_the_same_arm_and_of_lengths_the_nearest() -> None:
    own = [
        Own("a", "accuracy", 0.4, None, None, 9),
        Own("b", "accuracy", 0.7, None, None, 9),
        Own("b", "accuracy", 0.9, None, None, 9, "vignette"),
        Own("a", "doctor_turns", 12.0, None, None, 9),
        Own("b", "doctor_turns", 5.0, None, None, 9),
    ]
    figures = [
        Printed("1", "gpt_4", "accuracy", 0.5),
        Printed("2", "chatgpt_long", "doctor_turns", 9.17, nearest=True),
        Printed("1", "gpt_4", "accuracy", 0.5, format="summarized"),
        Printed("22", "gpt_4", "accuracy", 0.5, comparable=False),
    ]
    assert [row.own for row in beside(figures, own, _label)] == [own[1], own[3], None, None]


def test_the_preprints_conversations_end_with_the_examination() -> None:
    figures = {(f.model, f.format, f.question_type, f.cases): f.value for f in printed_figures("preprint")}
    cases = "140 dermatology cases"
    assert figures["gpt_4", "multi_turn_exam", "mcq", cases] == 0.854
    assert figures["gpt_4", "multi_turn", "mcq", cases] == 0.774
    assert figures["gpt_3_5", "exam_only", "mcq", cases] == 0.698
    assert figures["gpt_3_5", "multi_turn_exam", "mcq_many", cases] == 0.201


def test_shares_lie_between_0_and_1_and_intervals_hold_their_means() -> None:
    history = printed_histories("qmax")
    assert {(f.model, f.what): f.value for f in history}["vicuna_ft", "accuracy"] == 0.4275
    assert {(f.model, f.what): f.value for f in history}["vicuna_ft", "doctor_turns"] == 7.84
    assert {(f.model, f.cases): f.value for f in history if f.what == "repetition_1"}
    assert {f.what for f in history if f.nearest} == {"doctor_turns", "doctor_words", "patient_words"}
    paper = printed_figures("paper")
    assert all(0 <= f.value <= 1 and (f.low is None or f.low <= f.value) for f in paper)
    assert not next(f for f in paper if f.table == "22" and f.question_type == "frq").comparable
