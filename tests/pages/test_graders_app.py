"""The Graders page without a browser: agreement, differences, grading again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core.store.database import Store
from tests.core.measures.graders.graded import store_graded, three_graders
from tests.support.pages import trouble, words

Open = Callable[..., AppTest]


@pytest.fixture
def store(database: Path) -> Store:
    return three_graders(Store(database))


def table(app: AppTest, column: str) -> pd.DataFrame:
    return next(frame.value for frame in app.dataframe if column in frame.value.columns)


@pytest.mark.slow
def test_one_grader_alone_says_how_to_get_another(database: Path, open_page: Open) -> None:
    store_graded(Store(database))
    app = open_page("graders")
    assert trouble(app) == []
    assert "reference grader" in words(app)
    assert list(table(app, "Answers judged")["Answers judged"]) == [11]


@pytest.mark.slow
def test_tabs_draw_their_figures_and_tables(store: Store, open_page: Open) -> None:
    app = open_page("graders")
    assert trouble(app) == []
    chart = json.loads(app.get("plotly_chart")[0].proto.spec)
    assert "openai/h · Reference grader" in chart["layout"]["yaxis"]["ticktext"], "graders have their names on pages"
    assert set(table(app, "Not judged by all")["Answers"]) == {4, 5}
    app = open_page("graders", section="Differences")
    assert trouble(app) == []
    listed = table(app, "Right answer")
    assert [*zip(listed["First verdict"], listed["Second verdict"], strict=True)] == [
        ("Incorrect", "Correct"),
        ("Correct", "Incorrect"),
    ]
    assert list(table(app, "Verdict of the first")["Answers"]) == [2, 1, 1, 1]
    app.selectbox(key="graders_pair").set_value("newest").run()
    assert trouble(app) == []
    assert set(table(app, "Right answer")["Second grader"]) == {"Reference grader"}
    app = open_page("graders", section="Contradictions")
    assert set(table(app, "Both ways")["Share judged both ways"]) == {0, 1}
    for tab in ("Accuracy by grader", "Choices"):
        assert trouble(open_page("graders", section=tab)) == [], tab
