"""The Versions part of Compare without a browser: published and own versions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core.events import Started
from core.measures.base import MetricRequest, Row
from core.store.database import Store
from core.store.fold import fold
from core.store.selection import Selection
from pages.compare.versions import in_order
from tests.core.store.builders import a_call, a_case, a_header, a_trial, answered, graded, write_journal
from tests.support.pages import trouble, words


@pytest.mark.slow
def test_a_cell_that_two_tables_print_has_one_number_on_every_page(open_page: Callable[..., AppTest]) -> None:
    """Table 4 prints .222 of Mistral v2 on all cases, table 22 .211 on part of them; v1 is in the latter alone."""
    app = open_page("monitoring")
    table = next(frame.value for frame in app.dataframe if "Printed in" in frame.value.columns)
    rows = table[(table["Format"] == "Vignette") & (table["Question"] == "Free response")]
    values = rows[["Printed in", "Mistral v1 7B", "Mistral v2 7B", "Difference"]].to_numpy().tolist()
    by_table = {printed.partition(",")[0]: means for printed, *means in values}
    assert by_table["table 22"] == [0.165, 0.211, 0.046]
    assert by_table["table 4"][1] == 0.222
    assert pd.isna(by_table["table 4"][2]), "no difference between tables on other cases"
    for page in ("monitoring", "accuracy"):
        app = app if page == "monitoring" else open_page(page)
        assert not trouble(app)
        assert "0.222 in table 4, 0.211 in table 22" in words(app).replace("\\", ""), page
        estimates = {bar["y"][index] for bar in _bars(app) for index in range(len(bar["y"]))}
        assert 0.222 in estimates, page
        assert 0.211 not in estimates, page


def _bars(app: AppTest) -> list[dict[str, list[float]]]:
    figures = [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]
    return [trace for figure in figures for trace in figure["data"] if trace["type"] == "bar"]


def test_served_models_of_one_run_are_versions_in_the_order_of_their_dates(
    database: Path, open_page: Callable[..., AppTest]
) -> None:
    """Ten cases are played twice: wrong while the provider served z-old, right once it served a-new."""
    store = Store(database)
    header = a_header("run", [a_case(n) for n in range(10)], trials=2, arms=[("multi_turn", "frq")])
    lines = [
        a_trial(
            [
                Started(trial_id=f"{n}/{t}", case_key=f"ours/{n}", trial=t, seed=1, at=100.0 + t),
                a_call(f"{n}/{t}", served_by=served),
                answered(),
                graded(verdict),
            ],
            trial_id=f"{n}/{t}",
            case_key=f"ours/{n}",
            trial=t,
        )
        for n in range(10)
        for t, (served, verdict) in enumerate((("z-old", "incorrect"), ("a-new", "correct")))
    ]
    write_journal(store.journals, "run", header, *lines)
    fold(store)
    app = open_page("monitoring")
    app.toggle(key="monitoring_served").set_value(True).run()
    assert not trouble(app)
    row = next(frame.value for frame in app.dataframe if "Before" in frame.value.columns).round(3).iloc[0]
    assert [row[side].partition(" · ")[2] for side in ("From", "To")] == ["served as z-old", "served as a-new"]
    assert (row["Before"], row["After"], row["Cases improved"]) == (0.0, 1.0, 10)
    assert "several served models" in words(app)


def test_versions_are_drawn_in_their_order_and_not_in_that_of_the_rows() -> None:
    request = MetricRequest(Store(), Selection(conditions=("v1", "v2")))
    rows = [Row({"model": model}, estimate) for model, estimate in (("v2", 0.5), ("v1", 0.25), ("v2", 0.75))]
    assert [row.estimate for row in in_order(rows, request, {})] == [0.25, 0.5, 0.75]
