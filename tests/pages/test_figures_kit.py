"""A figure on a page: how it is saved with and without a Chrome on the machine of the dashboard."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from core.figures.marks import Mark, bars
from pages.kit.figures import with_toolbar_room
from tests.support.pages import trouble, words


def page() -> None:
    from core.figures.marks import Mark, bars
    from pages.kit.figures import draw_figure

    def make(dark: bool) -> object:
        return bars([Mark("x", 0.5, series="a")], {"a": "Model A"}, {"a": "#0072B2"}, dark=dark)

    draw_figure(make, "of_two", "Accuracy", "n = 12 cases.")


def test_the_toolbar_has_a_strip_above_marks_and_titles_of_panels() -> None:
    """Plotly draws its toolbar, 28 pixels high, over the top of a figure."""
    panels, look = {str(n): f"Panel {n}" for n in range(3)}, ({"a": "A"}, {"a": "#0072B2"})
    several = bars([Mark("x", 0.5, series="a", panel=n) for n in panels], *look, panels=panels)
    for plain in (several, go.Figure(), bars([Mark("x", 0.5, series="a")], *look)):
        height, top = plain.layout.height or 450, 8 if plain.layout.margin.t is None else plain.layout.margin.t
        drawn = with_toolbar_room(go.Figure(plain))
        assert (drawn.layout.height, drawn.layout.margin.t) == (height + 28, top + 28)


@pytest.fixture
def makers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], bytes]]:
    """What each button makes when it is pressed, by the name of its file."""
    made: dict[str, Callable[[], bytes]] = {}
    draw = st.download_button

    def button(label: str, data: Callable[[], bytes], file_name: str, *more: Any, **settings: Any) -> bool:
        made[file_name] = data
        return draw(label, data, file_name, *more, **settings)

    monkeypatch.setattr(st, "download_button", button)
    return made


def shown(app: AppTest) -> dict[str, Any]:
    """The settings with which the visitor's browser shows the figure."""
    (chart,) = app.get("plotly_chart")
    config: dict[str, Any] = json.loads(chart.proto.config)
    return config


def test_without_a_browser_svg_and_html_are_left_and_the_rest_is_explained(
    makers: dict[str, Callable[[], bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHROMIUM", "/no/such/browser")
    app = AppTest.from_function(page).run()
    assert trouble(app) == []
    assert list(makers) == ["of-two.html", "of-two.txt"]
    assert b"n = 12 cases." in makers["of-two.html"]()
    assert "PDF and PNG" in words(app)
    assert "apt install chromium" in app.caption[0].help
    assert shown(app)["displayModeBar"] is True
    assert shown(app)["toImageButtonOptions"]["format"] == "svg"
    assert "toImage" not in shown(app).get("modeBarButtonsToRemove", [])


def test_with_a_browser_the_menu_offers_all(
    makers: dict[str, Callable[[], bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHROMIUM", sys.executable)  # nothing is drawn with it
    app = AppTest.from_function(page).run()
    assert sorted(makers) == ["of-two.html", "of-two.pdf", "of-two.png", "of-two.svg", "of-two.txt"]
    assert "apt install" not in words(app)
    assert shown(app)["modeBarButtonsToRemove"] == ["toImage"]
