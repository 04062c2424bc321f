"""A metric of an extension is drawn on Quality with its options, filters and notes, and no page knows it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import core.frameworks
import core.measures
from tests.support.pages import trouble
from tests.support.stores import campaign, copy_of

Open = Callable[..., AppTest]

SHARE_RIGHT = '''
from typing import Annotated, Literal

from core.measures.base import Row, Section, metric
from core.store.queries.answers import case_scores


@metric("share_right", "models", "cases", empty="There is no answer.")
def share_right(asked, of: Annotated[Literal["all", "vignette"], "Which answers."] = "all"):
    """Share of right answers, by model and format."""
    with asked.store.read() as cursor:
        scores = case_scores(cursor, asked.selection)
    groups = {}
    for score in scores:
        if of in ("all", score.format):
            groups.setdefault((score.model, score.format), []).append(score)
    for (model, format_), of_group in groups.items():
        right, counted = sum(s.correct for s in of_group), sum(s.counted for s in of_group)
        yield Row({"model": model, "format": format_}, right / counted, n=len(of_group))


SECTIONS = (Section("Right at all", share_right, controls=("of",), place="format"),)
'''


@pytest.fixture
def extended(database: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs (``campaign``), and an extension with a metric and its section."""
    folder = database.parent / "extensions"
    (folder / "measures").mkdir(parents=True)
    (folder / "measures" / "share_right.py").write_text(SHARE_RIGHT)
    monkeypatch.setenv("ANAMNESIS_EXTENSIONS", str(folder) + os.pathsep)
    monkeypatch.setattr(core.measures, "__path__", list(core.measures.__path__))
    copy_of(campaign, database.parent)
    return database


def shares(app: AppTest) -> dict[tuple[str, str], float]:
    table = app.dataframe[0].value
    return dict(zip(zip(table["Model"], table["Format"], strict=True), table["Mean"], strict=True))


@pytest.mark.slow
def test_a_metric_of_an_extension_has_a_figure_a_table_options_and_filters(extended: Path, open_page: Open) -> None:
    app = open_page("quality", measure="Right at all")
    assert not trouble(app)
    assert len(app.get("plotly_chart")) >= 1
    # a is right in 2 of 6 free responses after conversations, b in 4 of 6; both in every vignette
    expected = {
        ("openai/a", "Vignette"): 1.0,
        ("openai/a", "Multi-turn"): pytest.approx(1 / 3),
        ("openai/b", "Vignette"): 1.0,
        ("openai/b", "Multi-turn"): pytest.approx(2 / 3),
    }
    assert shares(app) == expected
    (of,) = (control for control in app.selectbox if control.label == "Of")
    of.set_value("vignette").run()
    assert set(shares(app)) == {("openai/a", "Vignette"), ("openai/b", "Vignette")}
    narrowed = open_page("quality", measure="Right at all", models="openai/a")
    assert {model for model, _ in shares(narrowed)} == {"openai/a"}


@pytest.mark.slow
def test_a_framework_of_an_extension_brings_its_section(
    extended: Path, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = extended.parent / "extensions" / "frameworks" / "triage_with_section"
    folder.mkdir(parents=True)
    monkeypatch.setattr(core.frameworks, "__path__", [*core.frameworks.__path__, str(folder.parent)])
    (folder / "__init__.py").write_text("from core.frameworks.craftmd import FRAMEWORK\n")
    text = SHARE_RIGHT.replace("share_right", "share_triaged").replace("Right at all", "Triaged right")
    (folder / "measures.py").write_text(text)
    app = open_page("quality", measure="Triaged right")
    assert not trouble(app)
    assert shares(app)["openai/b", "Multi-turn"] == pytest.approx(2 / 3)
