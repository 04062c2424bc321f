"""The Patients page without a browser: marking, rates, hits with their conversation, experts, rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest
from tests.core.measures.patients.patient_conversations import stored

from core.measures.experts.workbooks import FILES
from core.measures.missing import count_missing, measure_missing
from core.measures.patients.rates import patient_rates
from core.measures.patients.rules import ABOUT, PATIENT_MARKS
from core.store.database import Store
from pages.kit.cases import Passage, marked_at
from pages.patients import rates
from pages.patients.rates import rates_chart
from tests.core.measures.patients.test_patients_against_experts import ROWS, put, workbook
from tests.support.pages import run_until, trouble, words
from tests.support.stores import copy_of

Open = Callable[..., AppTest]


def store_marked(store: Store) -> None:
    measure_missing(stored(store.path, persona="terse"), PATIENT_MARKS, processes=0)


@pytest.fixture
def store(database: Path) -> Store:
    return copy_of(store_marked, database.parent)


def table(app: AppTest, column: str) -> pd.DataFrame:
    return next(frame.value for frame in app.dataframe if column in frame.value.columns)


def charts(app: AppTest) -> list[dict[str, object]]:
    return [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]


def test_an_empty_page_says_what_to_do(open_page: Open) -> None:
    app = open_page("patients")
    assert trouble(app) == []
    assert "No conversation with a patient is stored yet" in words(app)


def test_a_few_conversations_are_marked_without_a_click(database: Path, open_page: Open) -> None:
    stored(database)
    app = run_until(open_page("patients"), lambda page: bool(page.dataframe))
    assert trouble(app) == []
    assert count_missing(Store(), PATIENT_MARKS) == 0


def test_rates_with_what_they_are_made_of(store: Store, open_page: Open) -> None:
    # a kind that is gone, as an old address has it, is left out
    app = open_page("patients", patients_by="Doctor", patients_kinds="Invented statements")
    assert trouble(app) == []
    assert len(set(table(app, "Hits per 100 replies")["Kind"])) == 5
    rows = table(app, "Hits per 100 replies").set_index(["Doctor", "Kind"])
    terms = rows.loc[("m1", "Medical terms")]
    assert (terms["Hit"], terms["Conversations"], terms["Hits"], terms["Replies"]) == (1, 3, 2, 9)
    assert terms["With a hit"] == pytest.approx(1 / 3)
    assert terms["Hits per 100 replies"] == pytest.approx(100 * 2 / 9)
    assert "No hits:" in words(app)
    assert charts(app)


def test_the_first_page_states_no_rate_of_a_doubtful_rule_and_keeps_personas_apart(
    store: Store, open_page: Open
) -> None:
    app = open_page("patients")
    kinds = set(table(app, "Hits per 100 replies")["Kind"])
    assert kinds == {about.name for about in ABOUT.values() if about.claimed}
    assert {ABOUT[kind].name for kind in ("plays_doctor", "both_sides", "stage_direction")}.isdisjoint(kinds)
    assert "plays the doctor (10 of 13 read were right), 0 hits" in words(app).replace("\\", "")
    assert "Invented and withheld facts are not found by rules" in words(app)
    # patients with a persona are apart, and can be chosen
    rows = table(app, "Hits per 100 replies")
    assert set(zip(rows["Patient"], rows["Persona"], strict=True)) == {("openai/p", "plain"), ("openai/p", "terse")}
    app.multiselect(key="patients_personas").set_value(["terse"]).run()
    assert trouble(app) == []
    assert set(table(app, "Hits per 100 replies")["Conversations"]) == {1}


def test_every_grouping_has_a_figure_and_a_table(store: Store, open_page: Open) -> None:
    app = open_page("patients", patients_by="Run", patients_kinds="Speaks of its text")
    for by, names in (
        ("run", {"m1 · m1 · plain", "m2 · m2 · terse"}),
        ("dataset", {"ours · plain", "ours · terse"}),
        ("specialty", {"Cardiology · plain"}),
    ):
        app.segmented_control(key="patients_by").set_value(by).run()
        assert trouble(app) == []
        rows = table(app, "Hits per 100 replies")
        assert set(rows["Kind"]) == {"Speaks of its text"}
        assert names <= {" · ".join(parts) for parts in zip(rows.iloc[:, 0], rows["Persona"], strict=True)}
        assert charts(app)


def test_an_address_opens_a_hit_with_its_words_marked(store: Store, open_page: Open) -> None:
    app = open_page("patients", patients_tab="Hits", patients_hit="m1/1/0|6", patients_kinds="Medical terms")
    assert trouble(app) == []
    assert list(table(app, "Words")["Words"]) == ["papules", "pruritus"]
    text = words(app)
    assert ":orange-background[**papules**] and :orange-background[**pruritus**]" in text
    assert ":orange-background[**vignette**]" in text  # of another kind, in the same conversation
    assert "**3 hits in this conversation**" in text


def test_hits_are_found_by_words_and_nonsense_in_the_address_does_no_harm(store: Store, open_page: Open) -> None:
    app = open_page("patients", patients_tab="Hits", patients_words="PRUR", patients_page="7")
    assert trouble(app) == []
    assert list(table(app, "Words")["Words"]) == ["pruritus"]
    app = open_page("patients", patients_tab="Hits", patients_words="gone", patients_hit="gone|x", patients_page="²")
    assert trouble(app) == []
    assert "No hit matches" in words(app)


def test_beside_the_experts(store: Store, open_page: Open) -> None:
    app = open_page("patients", patients_tab="Against experts")
    assert trouble(app) == []
    assert "import craftmd" in words(app)
    put(store, {FILES["d1"]: workbook(ROWS), FILES["d2"]: workbook([]), FILES["d3"]: workbook([])})
    app = open_page("patients", patients_tab="Against experts")
    assert trouble(app) == []
    assert "13 of 180 conversations (7.22%" in words(app).replace("\\", "")
    scores = table(app, "Recall").set_index("Doctor")
    assert list(scores.index) == ["all", "GPT-4"]
    assert scores.loc["all", ["Precision", "Recall"]].tolist() == pytest.approx([2 / 3, 2 / 3])
    assert scores.loc["all", "Cohen’s kappa"] == pytest.approx(1 / 3)


def test_every_rule_is_stated(store: Store, open_page: Open) -> None:
    app = open_page("patients", patients_tab="Rules")
    assert trouble(app) == []
    text = words(app)
    assert all(f"**{about.name}**" in text and about.rule in text for about in ABOUT.values())
    assert "**Medical terms**: 35 of 40 read were right" in text


def test_marks_that_overlap_run_together_and_markup_stays_text() -> None:
    text = "I *have* eczema/rash here"
    passages = [Passage(9, 15, "Medical terms"), Passage(11, 20, "Leak")]
    assert marked_at(text, passages) == r"I \*have\* :orange-background[**eczema**]:orange-background[**\/rash**] here"


def test_a_figure_has_a_line_for_each_kind_or_each_group(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = patient_rates(store, "doctor", kinds=["medical_term", "mentions_text"])
    by_kind = rates_chart(rows, {"m1": "One", "m2": "Two"}, kinds=["medical_term", "mentions_text"])
    assert list(by_kind.layout.yaxis.ticktext) == ["Medical terms", "Speaks of its text"]
    assert [trace.name for trace in by_kind.data] == ["One", "Two · terse"]
    assert by_kind.data[1].x == (0.0, 1.0)
    monkeypatch.setattr(rates, "_MAX_SERIES", 1)
    by_group = rates_chart(rows, {"m1": "One", "m2": "Two"}, dark=True, kinds=["medical_term"])
    assert list(by_group.layout.yaxis.ticktext) == ["One", "Two · terse"]
