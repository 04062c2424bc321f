"""The CARE page without a browser: filters, failures down to the message, ratings, cases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core import paths
from core.prompts import load_pack
from core.store.database import Store
from core.store.fold import fold
from tests.core.frameworks.automedic.measures.consultations import BROKEN, SIX, a_consultation, automedic
from tests.core.store.builders import a_case, write_journal
from tests.support.pages import trouble, visit, words

Open = Callable[..., AppTest]
CLEAN = ["<patient>One two three four?</patient>"] * 4 + ["</end>"]
"""Four queries of four words."""
THEIRS = [a_case(8, dataset="theirs", specialty="Cardiology")]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Doctor a has six items with failures of each kind and one that broke off, doctor b two right ones and a third
    on another data set that is wrong on the whole question. Shared: read only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANAMNESIS_DB", str(tmp_path_factory.mktemp("care") / "anamnesis.duckdb"))
        store = Store()
        prompts = {"prompt_hash": load_pack("automedic").hash}
        write_journal(store.journals, "run", automedic(doctor="openai/a", **prompts), *SIX, BROKEN)
        header = automedic("b", [1, 2], doctor="openai/b", **prompts)
        header = header.model_copy(update={"cases": [*header.cases, *THEIRS]})
        trials = [a_consultation(n, CLEAN, rating=5, run_id="b") for n in (1, 2)]
        trials.append(a_consultation(8, CLEAN, static="incorrect", rating=4, run_id="b"))
        write_journal(store.journals, "b", header, *trials)
        assert not fold(store).damaged
        yield store


@pytest.fixture
def open_care(stored: Store, monkeypatch: pytest.MonkeyPatch) -> Open:
    monkeypatch.setenv("ANAMNESIS_DB", str(stored.path))

    def open_(**query: str) -> AppTest:
        app = AppTest.from_file(str(paths.ROOT / "app.py"), default_timeout=60)
        for name, value in query.items():
            app.query_params[name] = value
        return visit(app, "care").run()

    return open_


def table(app: AppTest, column: str) -> pd.DataFrame:
    """Return the first table that has ``column``, indexed by its own first column."""
    rows = next(frame.value for frame in app.dataframe if column in frame.value.columns)
    return rows.set_index(rows.columns[0])


def figures_of(app: AppTest, model: str) -> dict[str, float]:
    """Return figure → value of a model, of all tables with a row for each figure."""
    long = [frame.value for frame in app.dataframe if "Figure" in frame.value.columns]
    rows = pd.concat([own.rename(columns={"Accuracy": "Value"}) for own in long])
    rows = rows[rows["Model"] == model]
    return dict(zip(rows["Figure"], rows["Value"], strict=True))


def drawn(app: AppTest) -> list[dict]:
    return [json.loads(element.proto.spec) for element in app.get("plotly_chart")]


def charts(app: AppTest) -> dict[str, dict]:
    return {chart["layout"]["xaxis"]["title"]["text"]: chart for chart in drawn(app) if "xaxis" in chart["layout"]}


def text(app: AppTest) -> str:
    return words(app).replace("\\", "")


@pytest.mark.slow
def test_published_figures_are_marked_and_can_be_left_out(open_care: Open) -> None:
    app = open_care(care_tab="Profile")
    rows = table(app, "Robustness")
    assert list(rows["From"]) == ["this database"] * 2 + ["published, table 3"] * 2
    assert rows.loc["Claude Sonnet 4", "Trials"] == 15
    assert pd.isna(rows.loc["Claude Sonnet 4", "Cases"])
    # with intervals, of which none is published
    bounds = table(app, "Low")
    empathy = bounds[bounds["Figure"] == "Empathy"]
    assert empathy.loc["openai/b", "Low"] < empathy.loc["openai/b", "Value"] == pytest.approx(14 / 15)
    assert empathy.loc["Claude Sonnet 4", "Value"] == pytest.approx(0.852)
    assert pd.isna(empathy.loc["Claude Sonnet 4", "Low"])
    assert {"After the conversation, all cases", "Whole question"} <= set(figures_of(app, "openai/a"))
    app.toggle(key="care_published").set_value(False).run()
    assert list(table(app, "Robustness").index) == ["openai/a", "openai/b"]


@pytest.mark.slow
def test_a_failure_opens_its_conversation_at_the_message_that_shows_it(open_care: Open) -> None:
    app = open_care(care_tab="Failures", care_failure="run/5/0|role_breaking", care_causes="Speaks for others")
    assert trouble(app) == []
    assert list(table(app, "Quote").index) == ["ours/3", "ours/5"]
    assert ":small[:gray[1 · Doctor]]" in words(app)
    assert "Patient: On my neck, it itches." in text(app)
    texts = [element.value.replace("\\", "") for element in app.markdown]
    assert any(value.endswith("When?") for value in texts)
    assert not any("<patient>When?" in value for value in texts), "of a part of a conversation too, tags are not shown"
    assert "Failure: Role-breaking" in text(app)


def test_ratings_are_shown_with_the_raters_words(open_care: Open) -> None:
    app = open_care(care_tab="Empathy", care_rating="run/2/0")
    assert trouble(app) == []
    bars = {trace["name"]: trace for trace in charts(app)["Share of conversations"]["data"]}
    # doctor a: 5, 4, 3, 2, none, 1; doctor b: 5, 5, 4
    assert bars["Rating 5"]["x"] == pytest.approx([1 / 6, 2 / 3])
    assert bars["No rating read"]["x"] == pytest.approx([1 / 6, 0])
    listed = table(app, "The rater’s words")
    assert len(listed) == 9
    assert listed["The rater’s words"].iloc[0] == "I would give 1."
    # the rating in the address is opened
    assert "Rating: 4" in text(app)
    assert "I would give 4." in text(app)
    assert any("One two three four five six seven eight?" in element.value for element in app.markdown)
    app.multiselect(key="care_ratings_rating").set_value(["4"]).run()
    assert list(table(app, "The rater’s words").index) == [4, 4]
