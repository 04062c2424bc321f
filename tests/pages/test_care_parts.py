"""Parts of the CARE page by themselves: figures, and a conversation divided around one message."""

from __future__ import annotations

import pytest
from pages.quality.care.tables import published_profiles, published_r

from core.events import Assessed, Ended, Event, Started, Utterance
from core.figures.shares import Segment, stacked
from core.frameworks.automedic.measures.profile import Estimate
from core.frameworks.automedic.tags import EMPATHY, MISUSE
from pages.kit.cases import around
from pages.quality.care.charts import two_lines


def test_a_panel_has_a_whisker_only_where_there_is_an_interval() -> None:
    rows = [
        Row("Ours"),
        Row("a", Estimate(0.5, 0.4, 0.7, 9), "#0072B2"),
        Row("b", Estimate(), "#0072B2"),
        Row("Published"),
        Row("c", Estimate(0.6), "#8C8C8C", open_=True),
    ]
    figure = panel(rows, "Accuracy", axis=(0, 1))
    ours, printed = figure.data
    assert (ours.x[0], ours.y[0], printed.y[0]) == (0.5, 1, 4)
    assert ours.error_x.array[0] == pytest.approx(0.2)
    assert ours.error_x.arrayminus[0] == pytest.approx(0.1)
    assert printed.error_x.array is None
    assert (ours.marker.symbol, printed.marker.symbol) == (("circle",), ("circle-open",))
    assert figure.layout.yaxis.ticktext == ("<b>Ours</b>", "a", "b", "<b>Published</b>", "c")


def test_an_axis_without_bounds_ends_beyond_the_farthest_whisker() -> None:
    rows = [Row("a", Estimate(2, 1, 4, 9), "#0072B2"), Row("b", Estimate(3), "#0072B2")]
    low, high = panel(rows, "Efficiency").layout.xaxis.range
    assert low == 0
    assert 4 < high < 5
    nothing = panel([Row("a", Estimate(0.0, 0.0, 0.0, 1), "#0072B2")], "Efficiency")
    assert nothing.layout.xaxis.range == (0, 1), "an axis never has no length"


def test_stacked_bars_leave_out_what_does_not_occur() -> None:
    segments = [
        Segment("often", "#0072B2", "white", [0.5, 0.01], [50, 1]),
        Segment("never", "#E69F00", "white", [0.0, 0.0], [0, 0]),
    ]
    figure = stacked(["a", "b"], segments, "Share", "conversations")
    assert [bar.name for bar in figure.data] == ["often"]
    assert figure.data[0].text == ("50", ""), "a number that is wider than its part is left to the hover"
    assert figure.data[0].customdata[1][0] == "b<br>often: 1 conversations (1.0%)"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("openai/gpt-4o", "openai/gpt-4o"),
        ("hf/mistralai/Mistral-7B-Instruct-v0.2", "hf/mistralai/<br>Mistral-7B-Instruct-v0.2"),
        ("openai/gpt-4o-mini · cap 10", "openai/gpt-4o-mini<br>cap 10"),
        ("a-name-that-is-long-and-has-no-parts", "a-name-that-is-long-and-has-no-parts"),
    ],
)
def test_long_names_are_broken_before_their_last_part(name: str, shown: str) -> None:
    assert two_lines(name) == shown


def test_a_conversation_is_divided_around_a_message() -> None:
    said: list[Event] = [Started(trial_id="t", case_key="c", trial=0, seed=1, at=1.0)]
    for turn in range(9):
        said.append(Utterance(turn=turn, role="patient" if turn % 2 else "doctor", text=str(turn)))
        if turn == 4:
            said.append(Assessed(name=MISUSE, turn=4, values=("text_outside",)))
    said += [Ended(reason="end_tag", doctor_turns=4), Assessed(name=EMPATHY, most=5, by="r", value=3)]
    before, lead, here, behind, rest = around(said, 4)
    assert [_turns(part) for part in (before, lead, here, behind, rest)] == [[0, 1], [2, 3], [4], [5, 6], [7, 8]]
    assert isinstance(here[-1], Assessed)
    assert here[-1].turn == 4
    assert isinstance(rest[-1], Assessed)
    at_the_end = around(said, 8)
    assert _turns(at_the_end[2]) == [8]
    assert isinstance(at_the_end[2][-1], Assessed), "the ending stands under the last message"


def _turns(events: list[Event]) -> list[int]:
    return [event.turn for event in events if isinstance(event, Utterance)]


def test_the_published_figures_are_the_papers() -> None:
    claude, llama = published_profiles()
    # table 3 of the paper
    assert claude.values == {"accuracy": 0.4699, "efficiency": 1.0192, "empathy": 0.8520, "robustness": 0.9333}
    assert (llama.model, llama.values["efficiency"], llama.conversations) == ("LLaMA-3 70B", 0.6703, 15)
    assert published_r() == 0.7547
