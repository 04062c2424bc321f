"""The tab Simulated patients without a browser: marking, errors with their conversation, filters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core.judging.patient_rule import ABOUT
from core.measures.measuring import measure_trials
from core.measures.patients.marks import PATIENT_MARKS
from core.measures.patients.rates import patient_rates
from core.store.database import Store
from pages.trust import patient_rates as rates
from pages.trust.patient_rates import rates_chart
from tests.core.measures.patients.patient_conversations import stored
from tests.support.pages import trouble, words
from tests.support.stores import copy_of

Open = Callable[..., AppTest]


def store_marked(store: Store) -> None:
    measure_trials(stored(store.path, persona="terse"), [PATIENT_MARKS], processes=0)


@pytest.fixture
def store(database: Path) -> Store:
    return copy_of(store_marked, database.parent)


def table(app: AppTest, column: str) -> pd.DataFrame:
    return next(frame.value for frame in app.dataframe if column in frame.value.columns)


@pytest.mark.slow
def test_the_first_page_states_no_rate_of_a_doubtful_rule_and_keeps_personas_apart(
    store: Store, open_page: Open
) -> None:
    app = open_page("patients")
    kinds = set(table(app, "Errors per 100 replies")["Kind"])
    assert kinds == {about.name for about in ABOUT.values() if about.claimed}
    assert {ABOUT[kind].name for kind in ("plays_doctor", "both_sides", "stage_direction")}.isdisjoint(kinds)
    assert "plays the doctor (10 of 13 read were right), 0 times" in words(app).replace("\\", "")
    assert "Rules do not find invented and withheld facts" in words(app)
    # patients with a persona are apart, and can be chosen
    rows = table(app, "Errors per 100 replies")
    assert set(zip(rows["Patient"], rows["Persona"], strict=True)) == {("openai/p", "plain"), ("openai/p", "terse")}
    app.multiselect(key="patients_personas").set_value(["terse"]).run()
    assert trouble(app) == []
    assert set(table(app, "Errors per 100 replies")["Conversations"]) == {1}


@pytest.mark.slow
def test_an_address_opens_a_hit_with_its_words_marked(store: Store, open_page: Open) -> None:
    app = open_page("patients", section="Where", patients_hit="m1/1/0|6", patients_kinds="Medical terms")
    assert trouble(app) == []
    assert list(table(app, "Words")["Words"]) == ["papules", "pruritus"]
    text = words(app)
    assert ":orange-background[papules] and :orange-background[pruritus]" in text
    assert ":orange-background[vignette]" in text  # of another kind, in the same conversation
    assert "**3 errors in this conversation**" in text


@pytest.mark.slow
def test_errors_are_found_by_words_and_nonsense_in_the_address_does_no_harm(store: Store, open_page: Open) -> None:
    app = open_page("patients", section="Where", patients_words="PRUR", patients_hit="gone|x", patients_page="²")
    assert trouble(app) == []
    assert list(table(app, "Words")["Words"]) == ["pruritus"]


def test_a_figure_has_a_line_for_each_kind_or_each_group(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = patient_rates(store, "doctor", kinds=["medical_term", "mentions_text"])
    by_kind = rates_chart(rows, {"m1": "One", "m2": "Two"}, kinds=["medical_term", "mentions_text"])
    assert list(by_kind.layout.yaxis.ticktext) == ["Medical terms", "Speaks of its text"]
    assert [trace.name for trace in by_kind.data] == ["One · plain", "Two · terse"]
    assert by_kind.data[1].x == (0.0, 1.0)
    monkeypatch.setattr(rates, "_MAX_SERIES", 1)
    by_group = rates_chart(rows, {"m1": "One", "m2": "Two"}, dark=True, kinds=["medical_term"])
    assert list(by_group.layout.yaxis.ticktext) == ["One · plain", "Two · terse"]
