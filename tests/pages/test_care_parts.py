"""Parts of the CARE page by themselves: figures, and a conversation divided around one message."""

from __future__ import annotations

import pytest

from core.events import Assessed, Ended, Event, Started, Utterance
from core.figures.shares import Segment, stacked
from core.frameworks.automedic.measures.published import published_parts, published_r, published_summaries
from core.frameworks.automedic.tags import EMPATHY, MISUSE
from core.measures.base import Row
from pages.kit.cases import around
from pages.quality.care.charts import radar_chart, shares_chart, two_lines


def test_shares_stand_in_a_bar_for_each_model_and_know_their_rows() -> None:
    rows = [
        Row({"model": model, "cause": cause}, share, n=n, more={"trials": count}, unit="conversations")
        for model, n, cause, share, count in (
            ("a", 4, "empty", 0.25, 1),
            ("a", 4, "multiple", 0.5, 2),
            ("b", 10, "multiple", 0.1, 1),
        )
    ]
    looks = {"multiple": ("Several", "#F0E442", "black"), "empty": ("Blank", "#8C8C8C", "white")}
    figure = shares_chart(rows, {"a": "A", "b": "B"}, False, part="cause", looks=looks, axis="Share", count="trials")
    several, blank = figure.data
    assert (several.name, several.y, several.x) == ("Several", ("A<br>n = 4", "B<br>n = 10"), (0.5, 0.1))
    assert blank.x == (0.25, 0.0), "no row, no share"
    assert [data[1] for data in several.customdata] == ["1", "2"]


def test_a_radar_draws_published_lines_dashed() -> None:
    measures = ("accuracy", "efficiency", "empathy", "robustness")
    rows = [
        Row({"model": model, "measure": measure}, 0.5, n=9, source=source)
        for model, source in (("a", ""), ("Claude Sonnet 4", "table 3"))
        for measure in measures
    ]
    names = {value: value.title() for value in ("a", "Claude Sonnet 4", *measures)}
    own, printed = radar_chart(rows, names, False).data
    assert (own.line.dash, printed.line.dash) == ("solid", "dash")
    assert own.r == pytest.approx((0.5, 0.5 / 0.53, 0.5, 0.5, 0.5)), "efficiency has another scale"


def test_stacked_bars_leave_out_what_does_not_occur() -> None:
    segments = [
        Segment("often", "#0072B2", "white", [0.5, 0.01], [50, 1]),
        Segment("never", "#E69F00", "white", [0.0, 0.0], [0, 0]),
    ]
    figure = stacked(["a", "b"], segments, "Share", "conversations")
    assert [bar.name for bar in figure.data] == ["often"]
    assert figure.data[0].text == ("50", ""), "a number that is wider than its part is left to the hover"
    assert figure.data[0].customdata[1][0] == "b<br>often: 1 conversations (1.0%)"


def test_long_names_are_broken_before_their_last_part() -> None:
    broken = {
        "openai/gpt-4o": "openai/gpt-4o",
        "hf/mistralai/Mistral-7B-Instruct-v0.2": "hf/mistralai/<br>Mistral-7B-Instruct-v0.2",
        "openai/gpt-4o-mini · cap 10": "openai/gpt-4o-mini<br>cap 10",
        "a-name-that-is-long-and-has-no-parts": "a-name-that-is-long-and-has-no-parts",
    }
    assert {name: two_lines(name) for name in broken} == broken


def test_a_conversation_is_divided_around_a_message() -> None:
    events: list[Event] = [Started(trial_id="t", case_key="c", trial=0, seed=1, at=1.0)]
    for turn in range(9):
        events.append(Utterance(turn=turn, role="patient" if turn % 2 else "doctor", text=str(turn)))
        if turn == 4:
            events.append(Assessed(name=MISUSE, turn=4, values=("text_outside",)))
    events += [Ended(reason="end_tag", doctor_turns=4), Assessed(name=EMPATHY, most=5, by="r", value=3)]
    before, lead, here, behind, rest = around(events, 4)
    assert [_turns(part) for part in (before, lead, here, behind, rest)] == [[0, 1], [2, 3], [4], [5, 6], [7, 8]]
    assert isinstance(here[-1], Assessed)
    assert here[-1].turn == 4
    assert isinstance(rest[-1], Assessed)
    at_the_end = around(events, 8)
    assert _turns(at_the_end[2]) == [8]
    assert isinstance(at_the_end[2][-1], Assessed), "the ending stands under the last message"


def _turns(events: list[Event]) -> list[int]:
    return [event.turn for event in events if isinstance(event, Utterance)]


def test_the_published_figures_are_the_papers() -> None:
    claude, llama = published_summaries()
    # table 3 of the paper
    values = claude.cells(plain=True)
    assert {name: values[name] for name in ("accuracy", "efficiency", "empathy", "robustness")} == {
        "accuracy": 0.4699,
        "efficiency": 1.0192,
        "empathy": 0.8520,
        "robustness": 0.9333,
    }
    assert (llama.label["model"], llama["efficiency"], llama["trials"]) == ("LLaMA-3 70B", 0.6703, 15)
    assert {row.source for row in published_parts()} == {"table 3"}
    assert published_r() == 0.7547
