"""The Graders page without a browser: agreement, differences, grading again."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core.measures.graders.agreement import agreement_rows, read_judged
from core.store.database import Store
from core.store.queries.grades import latest_grades
from pages.judges.graders.agreement import agreement_chart, cross_chart
from tests.core.measures.graders.graded import OTHER, OWN, THIRD, store_graded, three_graders
from tests.support.pages import button, run_until, trouble, words

Open = Callable[..., AppTest]
NAMES = {OWN: "G", OTHER: "H", THIRD: "Reference grader"}


@pytest.fixture
def store(database: Path) -> Store:
    return three_graders(Store(database))


def table(app: AppTest, column: str) -> pd.DataFrame:
    return next(frame.value for frame in app.dataframe if column in frame.value.columns)


def charts(app: AppTest) -> list[dict[str, object]]:
    return [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]


@pytest.mark.slow
def test_one_grader_alone_says_how_to_get_another(database: Path, open_page: Open) -> None:
    store_graded(Store(database))
    app = open_page("graders")
    assert trouble(app) == []
    assert "reference grader" in words(app)
    assert list(table(app, "Answers judged")["Answers judged"]) == [11]


@pytest.mark.slow
def test_agreement_of_every_two_leads_to_their_differences(store: Store, open_page: Open) -> None:
    app = open_page("graders")
    assert trouble(app) == []
    assert "differ on 2 of 5 answers to 3 cases" in words(app)
    assert "Fleiss’ kappa of all 3: **-0.333" in words(app)
    assert len(charts(app)) == 2
    app.selectbox(key="graders_crossed").set_value(f"{OWN}|{THIRD}").run()
    button(app, "Read the differences").click().run()
    assert trouble(app) == []
    assert app.selectbox(key="graders_second").value == THIRD


@pytest.mark.slow
def test_differences_with_the_transcript_beside(store: Store, open_page: Open) -> None:
    app = open_page("graders", graders_tab="Differences", graders_answer="t001|multi_turn:frq")
    assert trouble(app) == []
    rows = table(app, "Right answer")
    assert list(rows["Case"]) == ["0", "1"]
    assert list(rows[OTHER]) == ["Correct", "Incorrect"]
    assert "read as] Gout" in words(app)
    assert len(app.chat_message) == 1  # the conversation's only message


@pytest.mark.slow
def test_the_matrix_has_a_number_for_every_pair_and_a_dash_for_none(store: Store) -> None:
    pairs = {f"{first}, {second}": (first, second) for first, second in combinations(NAMES, 2)}
    rows = {
        pairs[row["graders"]]: row
        for row in agreement_rows(read_judged(store))
        if (row["verdicts"], row["measure"]) == ("right or not", "percent agreement") and row["graders"] in pairs
    }
    figure = agreement_chart(rows, "percent agreement", NAMES)
    assert [a.text for a in figure.layout.annotations][:3] == ["", "0.600", "0.500"]
    alone = agreement_chart(dict(list(rows.items())[:2]), "percent agreement", NAMES, dark=True)
    assert [a.text for a in alone.layout.annotations][5] == "–"


def test_a_text_reads_on_its_cell_in_both_themes() -> None:
    for dark in (False, True):
        figure = cross_chart([[9, 1], [0, 0]], ["Correct", "Incorrect"], "first", "second", dark=dark)
        strong, weak = (figure.layout.annotations[place].font.color for place in (0, 1))
        assert strong != weak
        assert [a.text for a in figure.layout.annotations] == ["9", "1", "0", "0"]


@pytest.mark.slow
def test_answers_are_graded_again_from_the_page(database: Path, open_page: Open) -> None:
    store_graded(Store(database))
    app = open_page("graders", graders_tab="Grade again")
    assert "Choose at least one run" in words(app)
    app.multiselect(key="graders_again_runs").set_value(["run0", "run1"]).run()
    assert trouble(app) == []
    size = {metric.label: metric.value for metric in app.metric}
    assert [size[name] for name in ("Free responses", "Judged before", "To judge", "Model calls")] == [
        "11",
        "0",
        "11",
        "0",
    ]
    button(app, "Grade again").click().run()
    run_until(app, lambda app: "Graded 11 answers by reference" in words(app))
    with Store(database).read() as cursor:
        newest = latest_grades(cursor, "t000")
    assert [(grade.grader, grade.verdict) for grade in newest] == [(THIRD, "correct")]
    assert button(app, "Grade again").disabled  # nothing is left to judge
    assert trouble(app) == []
