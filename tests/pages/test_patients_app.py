"""The tab Simulated patients without a browser: marking, errors with their conversation, filters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core.judging.patient_rule import ABOUT
from core.measures.measuring import measure_trials
from core.measures.patients import PATIENT_MARKS
from core.store.database import Store
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
    rows = table(app, "Errors per 100 replies")
    claimed = rows[rows["Errors per 100 replies"].notna()]["Kind"]
    assert set(claimed) == {about.name for about in ABOUT.values() if about.claimed}
    assert "plays the doctor (10 of 13 read were right), 0" in words(app).replace("\\", "")
    # patients with a persona are apart, and can be chosen
    assert set(zip(rows["Patient"], rows["Persona"], strict=True)) == {("openai/p", "plain"), ("openai/p", "terse")}
    app.multiselect(key="patients_personas").set_value(["terse"]).run()
    assert trouble(app) == []
    assert set(table(app, "Errors per 100 replies")["Conversations"]) == {1}


@pytest.mark.slow
def test_an_address_opens_a_hit_with_its_words_marked(store: Store, open_page: Open) -> None:
    address = {"patients_hit": "m1/1/0|5|medical_term", "patients_hit_kind": "Medical terms"}
    app = open_page("patients", section="Where", **address)
    assert trouble(app) == []
    assert list(table(app, "Words")["Words"]) == ["papules", "pruritus"]
    text = words(app)
    assert ":orange-background[papules] and :orange-background[pruritus]" in text


@pytest.mark.slow
def test_errors_are_found_by_words_and_nonsense_in_the_address_does_no_harm(store: Store, open_page: Open) -> None:
    app = open_page("patients", section="Where", patients_words="PRUR", patients_hit="gone|x")
    assert trouble(app) == []
    assert list(table(app, "Words")["Words"]) == ["pruritus"]
