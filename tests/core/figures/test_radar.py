"""Profiles as a radar: closed lines, bands for few models, separate scales."""

from __future__ import annotations

import pytest

from core.errors import UsageError
from core.figures.marks import Mark
from core.figures.radar import radar
from core.figures.style import Axis

NAMES = {"a": "Model A", "b": "Model B", "c": "Model C", "d": "Model D"}
COLOURS = dict.fromkeys(NAMES, "#0072B2")
SPOKES = {"c": "Conversation", "a": "Accuracy", "r": "Reach", "e": "Empathy"}


def profile(series: str, *, without: str = "", bounded: bool = True, published: bool = False) -> list[Mark]:
    bounds = {"low": 0.4, "high": 0.7} if bounded else {}
    return [
        Mark(place, None if place == without else 0.5, series=series, published=published, data=(place,), **bounds)
        for place in SPOKES
    ]


def test_a_line_goes_once_around_and_its_band_there_and_back() -> None:
    band, line = radar(profile("a"), NAMES, COLOURS, SPOKES).data
    assert list(line.theta) == [*SPOKES.values(), "Conversation"], "in the order given, and closed"
    assert list(line.r) == [0.5] * 5
    assert list(line.customdata[1]) == ["Model A<br>Accuracy<br>0.500 (0.400 – 0.700)", "a"]
    assert list(band.r) == [0.7] * 5 + [0.4] * 5
    assert (band.fill, band.showlegend, band.hoverinfo) == ("toself", False, "skip")


def test_a_missing_value_breaks_the_line_and_hides_the_band() -> None:
    both = radar([*profile("a", without="r"), *profile("b")], NAMES, COLOURS, SPOKES)
    broken = next(trace for trace in both.data if trace.name == "Model A")
    assert list(broken.r) == [0.5, 0.5, None, 0.5, 0.5]
    assert [trace.name for trace in both.data] == ["Model A", "Model B, interval", "Model B"]
    alone = radar(profile("a", without="r"), NAMES, COLOURS, SPOKES)
    assert list(alone.data[-1].theta) == ["Conversation", "Accuracy", "Empathy", "Conversation"], "no model has a value"


def test_bands_of_many_models_are_hidden() -> None:
    four = radar([mark for series in NAMES for mark in profile(series)], NAMES, COLOURS, SPOKES)
    assert [trace.name for trace in four.data] == list(NAMES.values())


def test_published_profiles_are_dashed_and_named_so() -> None:
    measured, printed = radar(
        [*profile("a", bounded=False), *profile("a", bounded=False, published=True)], NAMES, COLOURS, SPOKES
    ).data
    assert (measured.name, measured.line.dash) == ("Model A", "solid")
    assert (printed.name, printed.line.dash, printed.marker.symbol) == ("Model A (published)", "dash", "circle-open")


def test_dimensions_with_separate_scales_show_their_range() -> None:
    marks = [Mark("c", 6, 3, 9, "a"), Mark("a", 0.5, 0.2, 0.8, "a"), Mark("r", 3, 2, 5, "a")]
    axes = {"c": Axis("", (0, 12), number=".1f"), "r": Axis("", (1, 5), number=".1f")}
    band, line = radar(marks, NAMES, COLOURS, SPOKES, axes=axes).data
    assert list(line.theta)[:3] == ["Conversation<br>0 – 12", "Accuracy<br>0 – 1", "Reach<br>1 – 5"]
    assert list(line.r)[:3] == [0.5, 0.5, 0.5]
    assert list(band.r)[:3] == [0.75, 0.8, 1.0]
    assert line.customdata[0][0] == "Model A<br>Conversation<br>6.0 (3.0 – 9.0)", "in its own unit"


def test_a_radar_of_two_dimensions_is_refused() -> None:
    with pytest.raises(UsageError, match="needs 3 dimensions"):
        radar([Mark("c", 0.5, series="a"), Mark("a", 0.5, series="a")], NAMES, COLOURS, SPOKES)
