"""The Monitoring page without a browser: published figures first, then our own runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from streamlit.testing.v1 import AppTest

from core.events import Started
from core.journal import TrialLine
from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import a_call, a_case, a_header, a_trial, answered, graded, invalid, write_journal
from tests.support.pages import trouble, words

CASES = 12


def _version(store: Store, doctor: str, right: int) -> None:
    """Store a run in which the first ``right`` of the cases are answered correctly, one trial each."""
    header = a_header(doctor, [a_case(n) for n in range(CASES)], doctor=doctor, trials=1, arms=[("multi_turn", "frq")])
    lines: list[TrialLine] = [
        a_trial(
            [answered(), graded("correct" if n < right else "incorrect")],
            trial_id=f"{doctor}-{n}",
            run_id=doctor,
            case_key=f"ours/{n}",
            trial=0,
        )
        for n in range(CASES)
    ]
    write_journal(store.journals, doctor.replace("/", "-"), header, *lines)


def test_a_first_visitor_sees_the_published_versions_and_what_to_do(open_page: Callable[..., AppTest]) -> None:
    app = open_page("monitoring")
    assert not trouble(app)
    assert "import craftmd" in words(app)
    wide, narrow = app.get("plotly_chart")
    assert "published" in wide.proto.spec
    assert "published" in narrow.proto.spec
    table = app.dataframe[0].value
    row = table[(table["Format"] == "Vignette") & (table["Question"] == "Multiple choice")].iloc[0]
    assert (row["Mistral v1 7B"], row["Mistral v2 7B"], row["Difference"]) == (0.441, 0.637, 0.196)


def test_a_cell_that_two_tables_print_has_one_number_on_every_page(open_page: Callable[..., AppTest]) -> None:
    """Table 4 prints .222 of Mistral v2 on all cases, table 22 .211 on part of them; v1 is in the latter alone."""
    app = open_page("monitoring")
    table = app.dataframe[0].value
    rows = table[(table["Format"] == "Vignette") & (table["Question"] == "Free response")]
    values = rows[["Printed in", "Mistral v1 7B", "Mistral v2 7B", "Difference"]].to_numpy().tolist()
    by_table = {printed.partition(",")[0]: means for printed, *means in values}
    assert by_table["table 22"] == [0.165, 0.211, 0.046]
    assert by_table["table 4"][1] == 0.222
    assert pd.isna(by_table["table 4"][2]), "no difference between tables on other cases"
    for page in ("monitoring", "accuracy", "home"):
        app = open_page(page)
        assert not trouble(app)
        assert "0.222 in table 4, 0.211 in table 22" in words(app).replace("\\", ""), page
        estimates = {bar["y"][index] for bar in _bars(app) for index in range(len(bar["y"]))}
        assert 0.222 in estimates, page
        assert 0.211 not in estimates, page


def _bars(app: AppTest) -> list[dict[str, list[float]]]:
    figures = [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]
    return [trace for figure in figures for trace in figure["data"] if trace["type"] == "bar"]


def test_our_own_versions_are_tested_and_said_to_have_risen(database: Path, open_page: Callable[..., AppTest]) -> None:
    store = Store(database)
    _version(store, "openai/old", 1)
    _version(store, "openai/new", 11)
    fold(store)
    app = open_page("monitoring")
    app.multiselect(key="monitoring_versions").set_value(["openai/old", "openai/new"]).run()
    assert not trouble(app)
    assert "**Rose:** Multi-turn · Free response" in words(app)
    row = app.dataframe[0].value.round(3).iloc[0]
    assert (row["Before"], row["After"]) == (0.083, 0.917)
    assert (row["Cases improved"], row["Cases regressed"], row["Cases equal"]) == (10, 0, 2)


def test_means_that_are_not_those_of_the_bars_are_explained(database: Path, open_page: Callable[..., AppTest]) -> None:
    """Of four cases the old version has no answer to the last, which the new has right: 3/4, or 2/3 without it."""
    store = Store(database)
    for doctor, verdicts in (("openai/old", (True, False, False, None)), ("openai/new", (True, True, False, True))):
        header = a_header(doctor, [a_case(n) for n in range(4)], doctor=doctor, trials=1, arms=[("multi_turn", "frq")])
        lines = [
            a_trial(
                [invalid("ungradable")] if right is None else [answered(), graded("correct" if right else "incorrect")],
                trial_id=f"{doctor}-{n}",
                run_id=doctor,
                case_key=f"ours/{n}",
                trial=0,
            )
            for n, right in enumerate(verdicts)
        ]
        write_journal(store.journals, doctor.replace("/", "-"), header, *lines)
    fold(store)
    app = open_page("monitoring")
    app.multiselect(key="monitoring_versions").set_value(["openai/old", "openai/new"]).run()
    assert not trouble(app)
    row = app.dataframe[0].value.round(3).iloc[0]
    assert (row["Before"], row["After"], row["Cases"]) == (0.333, 0.667, 3)
    text = words(app).replace("\\", "")
    assert "0.750 on its 4 cases, 0.667 on the 3 that both versions answered" in text
    assert text.count("that both versions answered") == 1  # the old version's own cases are the common ones


def test_one_version_is_not_enough(open_page: Callable[..., AppTest]) -> None:
    app = open_page("monitoring")
    app.multiselect(key="monitoring_versions").set_value(["mistral_v1_7b"]).run()
    assert "at least two versions" in words(app)
    assert not trouble(app)


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
    assert [name.partition(" · ")[2] for name in app.multiselect(key="monitoring_served_versions").value] == [
        "served as z-old",
        "served as a-new",
    ]
    row = app.dataframe[0].value.round(3).iloc[0]
    assert (row["Before"], row["After"], row["Cases improved"]) == (0.0, 1.0, 10)
    assert "several served models" in words(app)
