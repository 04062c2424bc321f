"""Published figures and own ones in the same cells, with values from the papers."""

from __future__ import annotations

from core.frameworks.consultation.measures.published import published_rows
from core.measures.base import Row
from core.measures.published import in_published_cells, printed_figures

ARM = ("multi_turn", "mcq")


def _own(model: str, value: float | None, n: int, arm: tuple[str, str] = ARM) -> Row:
    return Row({"model": model, "format": arm[0], "question_type": arm[1]}, value, n=n)


def test_every_condition_in_a_printed_cell_has_a_row_and_its_difference_to_the_same_model() -> None:
    printed = printed_figures("paper")
    own = [_own("gpt_4", 0.7, 5), _own("openai/other", 0.9, 9), _own("openai/none", None, 0)]
    own.append(_own("gpt_4", 0.7, 5, arm=("exam_only", "mcq")))
    rows = list(in_published_cells(own, printed))
    assert [(row["model"], row.estimate, row.n, row["from"]) for row in rows] == [
        ("gpt_4", 0.7, 5, "stored here"),
        ("openai/other", 0.9, 9, "stored here"),
    ]
    # table 1 prints 0.627 for the multi-turn conversations of GPT-4
    assert round(rows[0]["difference"], 6) == 0.073
    assert rows[1]["difference"] is None


def test_the_preprints_conversations_end_with_the_examination() -> None:
    figures = {
        (f["model"], f["format"], f["question_type"]): f.estimate
        for f in printed_figures("preprint")
        if "140 dermatology cases" in f.source
    }
    assert figures["gpt_4", "multi_turn_exam", "mcq"] == 0.854
    assert figures["gpt_4", "multi_turn", "mcq"] == 0.774
    assert figures["gpt_3_5", "exam_only", "mcq"] == 0.698
    assert figures["gpt_3_5", "multi_turn_exam", "mcq_many"] == 0.201


def test_shares_are_between_0_and_1_and_intervals_contain_their_means() -> None:
    history = {(f["model"], f["measure"]): f.estimate for f in published_rows("qmax")}
    assert history["vicuna_ft", "accuracy"] == 0.4275
    assert history["vicuna_ft", "doctor_turns"] == 7.84
    assert any(measure == "repetition_1" for _, measure in history)
    for publication in ("paper", "leaderboard"):
        figures = printed_figures(publication)  # type: ignore[arg-type]
        assert all(0 <= (f.estimate or 0) <= 1 and (f.low is None or f.low <= (f.estimate or 0)) for f in figures)


def test_the_leaderboard_has_twelve_models_in_two_question_types_and_four_formats() -> None:
    rows = printed_figures("leaderboard")
    assert len(rows) == 24 * 4
    (first,) = [r for r in rows if (r["rank"], r["question_type"], r["format"]) == (1, "mcq", "vignette")]
    assert first["model"] == "O1-preview-0912"
