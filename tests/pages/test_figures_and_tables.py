"""Figures and tables as pure functions of rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
import pytest

from core.figures.report import chart_of
from core.measures.accuracy import report
from core.measures.base import Columns, Result, Row, Section
from core.store.queries.trials import Conversation
from pages.kit.campaigns import ACCURACY
from pages.kit.conversation_list import conversations_table
from pages.kit.look import ARMS, QUESTION_COLOUR
from pages.kit.names import model_name
from pages.kit.section import table_of


def row(format_: str, question_type: str, mean: float | None, ci: tuple | None = None, **excluded: int) -> Row:
    low, high = ci or (None, None)
    label = {"model": "reference/bayes", "format": format_, "question_type": question_type, "rule": ""}
    more = {"n_trials": 50, "n_excluded": sum(excluded.values())}
    return Row(label, mean, low, high, 10, excluded, more, columns=Columns(excluded="excluded_by_reason"))


def chart(rows: Sequence[Row], *, dark: bool = False) -> go.Figure:
    declared: dict[str, Any] = {
        part: getattr(ACCURACY, part) for part in ("kind", "series", "place", "axis", "colours")
    }
    return chart_of(rows, names=ACCURACY.words, dark=dark, **declared)


ROWS = [
    row("multi_turn", "frq", 0.5, (0.3, 0.8), refused=2),
    row("vignette", "frq", 0.9, (0.7, 1.0)),
    row("vignette", "mcq", 1.0, (1.0, 1.0)),
    row("multi_turn", "mcq", None),
]


def test_bars_carry_the_intervals_of_their_rows() -> None:
    figure = chart(ROWS)
    bars = {bar.name: bar for bar in figure.data}
    assert list(bars) == ["Multiple choice", "Free response"]
    free = bars["Free response"]
    assert list(free.x) == ["Vignette", "Multi-turn"]
    assert list(free.y) == [0.9, 0.5]
    assert list(free.error_y.array) == pytest.approx([0.1, 0.3])
    assert list(free.error_y.arrayminus) == pytest.approx([0.2, 0.2])
    assert free.error_y.symmetric is False
    assert [point[0] for point in free.customdata] == [
        "Free response<br>Vignette<br>0.900 (0.700 – 1.000)<br>10 cases",
        "Free response<br>Multi-turn<br>0.500 (0.300 – 0.800)<br>10 cases, excluded: refused=2",
    ]
    assert list(bars["Multiple choice"].x) == ["Vignette"]  # an arm without a figure has no bar of height 0


def test_a_bar_without_an_interval_has_no_error_bar() -> None:
    (bar,) = chart([row("vignette", "frq", 0.5)]).data
    assert bar.error_y.array is None


def test_axes_colours_and_order_are_the_same_for_every_run() -> None:
    figure = chart(ROWS)
    assert tuple(figure.layout.yaxis.range) == (0, 1.02)
    assert list(figure.layout.xaxis.categoryarray) == ["Vignette", "Multi-turn"]
    assert [bar.marker.color for bar in figure.data] == [QUESTION_COLOUR["mcq"], QUESTION_COLOUR["frq"]]
    assert figure.layout.legend.yref == "container"  # below the axis labels, however long they are


def test_error_bars_stand_out_from_a_dark_page() -> None:
    light, dark = (chart(ROWS, dark=dark).data[0].error_y.color for dark in (False, True))
    assert light != dark


def test_the_table_has_plain_heads_and_every_row() -> None:
    table = table_of(Result("", tuple(ROWS)), {}, ACCURACY)
    heads = ["Format", "Question", "Accuracy", "Low", "High", "Cases", "Trials", "Excluded", "Why", "Rule"]
    assert list(table.columns) == heads
    assert list(table["Format"]) == ["Multi-turn", "Vignette", "Vignette", "Multi-turn"]
    assert list(table["Excluded"]) == [2, 0, 0, 0]


def test_the_table_has_the_display_names_of_models_in_every_column() -> None:
    label = {"model": "gpt_4", "grader": "hf/smollm2-135m", "rater": "openai/gpt-4o", "question_type": "frq"}
    rows = (Row(label, 0.5, n=4, more={"judge": "reference/names", "words": "gpt_4"}),)
    section = Section("", report, columns=("model", "grader", "rater", "judge", "words"))
    table = table_of(Result("", rows), {}, section)
    assert table.to_dict("records") == [
        {
            "Model": "GPT-4",
            "Grader": "SmolLM2 135M",
            "Rater": "openai/gpt-4o",
            "Judge": model_name("reference/names"),
            "Words": "gpt_4",  # not a column of models
        }
    ]


def conversation(**changes) -> Conversation:
    given = {
        "trial_id": "t",
        "run_id": "r",
        "doctor": "d",
        "patient": "p",
        "case_key": "library/c-1",
        "dataset": "library",
        "specialty": "Cardiology",
        "trial": 0,
        "status": "complete",
        "end_reason": "no_question",
        "doctor_turns": 3,
        "failure": None,
        "answer": "Lipoma",
        "finished_at": time.time(),
        "verdicts": {"multi_turn:frq": "correct", "vignette:mcq": "incorrect", "exam_only:frq": "correct"},
    }
    return Conversation(**{**given, **changes})


def test_watched_consultations_are_listed_with_their_verdicts() -> None:
    table = conversations_table([conversation(finished_at=0.0)], ("When", *ARMS))
    assert table.to_dict("records") == [
        {
            "When": "1970-01-01 00:00",
            "Multi-turn · Free response": "✓ Correct",
            "Vignette · Multiple choice": "✗ Incorrect",
            "Exam only · Free response": "✓ Correct",
        }
    ]
