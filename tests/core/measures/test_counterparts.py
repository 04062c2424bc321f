"""Printed figures with their counterparts in the database: which row is chosen, and when there is none."""

from __future__ import annotations

from core.measures.counterparts import counterparts, printed_figures, printed_row

from core.frameworks.consultation.measures.published import printed_histories
from core.measures.base import Row

ARM = ("multi_turn", "mcq")


def _label(condition: str) -> str:
    return condition.partition(" ")[0]


def _own(model: str, value: float, n: int, *, measure: str = "accuracy", arm: tuple[str, str] = ARM) -> Row:
    label = {"model": model, "measure": measure, "format": arm[0], "question_type": arm[1]}
    return Row(label, value, value - 0.1, value + 0.1, n)


def test_the_same_model_takes_precedence_with_its_condition_on_most_cases() -> None:
    own = [_own("gpt_4 few", 0.9, 5), _own("gpt_4 many", 0.6, 50), _own("other", 0.95, 90)]
    (row,) = counterparts([printed_row("table 1", "gpt_4", 0.5, arm=ARM)], own, _label)
    assert (row["ours"], row.estimate, row.n, row["same_model"]) == ("gpt_4 many", 0.6, 50, True)
    assert (row["published"], row["table"]) == (0.5, "table 1")
    assert round(row["difference"], 6) == 0.1


def test_otherwise_the_best_of_the_arm_counts_and_the_nearest_of_lengths() -> None:
    own = [
        _own("a", 0.4, 9),
        _own("b", 0.7, 9),
        _own("c", 0.9, 9, arm=("vignette", "mcq")),
        _own("a", 12.0, 9, measure="doctor_turns"),
        _own("b", 5.0, 9, measure="doctor_turns"),
    ]
    figures = [
        printed_row("table 1", "gpt_4", 0.5, arm=ARM),
        printed_row("table 2", "chatgpt_long", 9.17, measure="doctor_turns", arm=ARM, nearest=True),
        printed_row("table 1", "gpt_4", 0.5, arm=("summarized", "mcq")),
        printed_row("table 22", "gpt_4", 0.5, arm=ARM, comparable=False),
    ]
    rows = counterparts(figures, own, _label)
    assert [(row["ours"], row.estimate) for row in rows] == [("b", 0.7), ("a", 12.0), (None, None), (None, None)]
    assert [row["difference"] is None for row in rows] == [False, False, True, True]


def test_the_preprints_conversations_end_with_the_examination() -> None:
    figures = {
        (f["model"], f["format"], f["question_type"], f["cases"]): f.estimate for f in printed_figures("preprint")
    }
    cases = "140 dermatology cases"
    assert figures["gpt_4", "multi_turn_exam", "mcq", cases] == 0.854
    assert figures["gpt_4", "multi_turn", "mcq", cases] == 0.774
    assert figures["gpt_3_5", "exam_only", "mcq", cases] == 0.698
    assert figures["gpt_3_5", "multi_turn_exam", "mcq_many", cases] == 0.201


def test_shares_are_between_0_and_1_and_intervals_contain_their_means() -> None:
    history = printed_histories("qmax")
    assert {(f["model"], f["measure"]): f.estimate for f in history}["vicuna_ft", "accuracy"] == 0.4275
    assert {(f["model"], f["measure"]): f.estimate for f in history}["vicuna_ft", "doctor_turns"] == 7.84
    assert {(f["model"], f["cases"]): f.estimate for f in history if f["measure"] == "repetition_1"}
    assert {f["measure"] for f in history if f["nearest"]} == {"doctor_turns", "doctor_words", "patient_words"}
    paper = printed_figures("paper")
    assert all(0 <= f.estimate <= 1 and (f.low is None or f.low <= f.estimate) for f in paper)
    assert not next(f for f in paper if f.source == "table 22" and f["question_type"] == "frq")["comparable"]
