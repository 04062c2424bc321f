"""The Experts page without a browser: planning, answering, ties, results, vignettes, and what the page never says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core.measures.experts.adjudication import CONFUSION
from core.reviews.answering import record
from core.reviews.baseline import baseline_cases
from core.reviews.state import state_of
from core.store.database import Store
from core.store.review_records import Review
from tests.core.measures.experts.reviews import MODELS, a_review, answer_all, store_conversations
from tests.support.pages import button, has_button, trouble, words
from tests.support.stores import copy_of

Open = Callable[..., AppTest]


@pytest.fixture
def store(database: Path) -> Store:
    return copy_of(store_conversations, database.parent)


def table(app: AppTest, column: str) -> pd.DataFrame:
    return next(frame.value for frame in app.dataframe if column in frame.value.columns)


def everything(app: AppTest) -> str:
    """All that the page sends to the browser, with the keys of its elements."""
    return str(app._tree)


def test_an_empty_page_says_what_to_do(open_page: Open) -> None:
    app = open_page("experts")
    assert trouble(app) == []
    assert "Plan a review" in words(app)
    assert "not stored here" in words(open_page("experts", review="gone", annotator="Ada"))


def test_a_review_is_planned_on_the_page(store: Store, open_page: Open) -> None:
    app = open_page("experts", section="Plan a review")
    app.text_input(key="experts_names").input("Ada, Ben")
    app.text_input(key="experts_name").input("Skin")
    app.number_input(key="experts_number").set_value(6)
    button(app, "Plan the review").click().run()
    assert trouble(app) == []
    assert "6 items are assigned to Ada, Ben" in words(app)
    state = state_of(store, "Skin")
    assert sum(len(item.annotators) == 2 for item in state.items) == 2  # a third
    app.text_input(key="experts_name").input("Skin")
    button(app, "Plan the review").click().run()
    assert "already" in trouble(app)[0]


def test_an_annotator_answers_changes_with_a_reason_comments_and_highlights(store: Store, open_page: Open) -> None:
    review = a_review(store, shared=1)
    app = open_page("experts", review=review.review_id, annotator="Ada")
    assert trouble(app) == []
    number = int(app.query_params["item"][0])
    assert has_button(app, "Yes")
    assert "0 of 6 answered" in words(app)
    for _ in range(5):
        button(app, "Yes").click().run()
    assert "1 of 6 answered" in words(app)
    assert "All answered and saved" in words(app)
    button(app, "Patient used medical terms").click().run()
    button(app, "No").click().run()
    assert "give a reason for the change" in words(app)
    app.text_input[0].input("Looked again").run()
    button(app, "No").click().run()
    item = state_of(store, "First").by_number[number].item
    changed = state_of(store, "First").newest[item, "Ada", "medical_terms"]
    assert (changed.value, changed.reason) == ("no", "Looked again")
    app.text_area[0].input("odd").run()
    next(box for box in app.text_input if box.label == "Words in it").input("itch since")
    app.selectbox[0].set_value(1)
    button(app, "Highlight").click().run()
    assert trouble(app) == []
    assert ":orange-background[itch since]" in words(app)
    newest = {answer.question: answer for key, answer in state_of(store, "First").newest.items() if key[0] == item}
    assert newest["comment"].comment == "odd"
    assert [quoted.words for quoted in newest["highlight"].quotations] == ["itch since"]


def test_nothing_on_the_page_tells_whose_items_they_are(store: Store, open_page: Open) -> None:
    for kind in ("conversations", "answers"):
        review = a_review(store, kind, kind=kind, shared=1)
        app = open_page("experts", review=review.review_id, annotator="Ada")
        assert trouble(app) == []
        assert "secret" not in everything(app)
        assert "talk:" not in everything(app)
    app = open_page("experts")
    assert "secret" not in everything(app)
    app = open_page("experts", section="Results")
    assert "secret" not in everything(app)
    assert "Answers missing" in [metric.label for metric in app.metric]


@pytest.fixture
def judged(store: Store) -> Review:
    """All twelve responses judged: right but for one of the second model, on which the two differed."""
    review = a_review(store, "Right or wrong", kind="answers", number=12, shared=1)
    state = state_of(store, review.review_id)
    item_ = next(item for item in state.items if item.item.startswith("answer:t1"))
    answer_all(store, review, "Ada")
    answer_all(store, review, "Ben", but={item_.number: "no"})
    record(store, review.review_id, item_.number, "Cyd", "equivalent", "no")
    return review


@pytest.mark.slow
def test_results_are_shown_once_somebody_unblinds(store: Store, judged: Review, open_page: Open) -> None:
    app = open_page("experts", section="Results")
    app.text_input(key="experts_unblind_by").input("Ada")
    button(app, "Unblind the review").click().run()
    assert trouble(app) == []
    assert "Unblinded by Ada when all items were answered" in words(app)
    shares = table(app, "Excluded").set_index("Model")
    assert list(shares.loc[list(MODELS), "Yes"]) == [6, 5]
    pairs = table(app, "p").iloc[0]
    assert (pairs["Cases"], pairs["Yes of the first only"], pairs["p"]) == (6, 1, "1.0000")
    agreement = table(app, "Measure").set_index("Between").loc["people"].set_index("Measure")
    assert agreement.loc["percent agreement", "Value"] == pytest.approx(11 / 12)
    graded = table(app, "Figure").set_index("Figure")["Value"]
    # the grader calls all of the first model right and all of the second wrong
    assert [graded[name] for name in CONFUSION] == [6, 0, 5, 1]
    chart = json.loads(app.get("plotly_chart")[0].proto.spec)
    assert {trace["name"] for trace in chart["data"]} == set(MODELS)


def test_an_expert_answers_a_vignette(database: Path, open_page: Open) -> None:
    store = Store(database)
    review = a_review(store, "Vignettes", kind="baseline", number=1, shared=0, annotators=("Ada",))
    app = open_page("experts", review=review.review_id, annotator="Ada")
    assert trouble(app) == []
    state = state_of(store, review.review_id)
    number = int(app.query_params["item"][0])
    case = baseline_cases(store, review, "Ada")[state.by_number[number].item]

    def choices(page: AppTest) -> list[str]:
        return [button_.label for button_ in page.button if button_.label in case.choices]

    assert choices(app) == []
    app.text_input[0].input("Migraine")
    button(app, "Answer").click().run()
    assert trouble(app) == []
    # a reload shows the same screen: the own words, which can no longer be changed, and the choices
    app = open_page("experts", review=review.review_id, annotator="Ada", item=str(number))
    assert choices(app) == list(case.choices)
    assert len(app.text_input) == 0
    assert "Migraine" in words(app)
    next(choice for choice in app.button if choice.label in case.choices).click().run()
    assert trouble(app) == []
    assert "1 of 1 answered" in words(app)
    app = open_page("experts", section="Results")
    assert list(table(app, "Accuracy")["Expert"]) == ["Ada", "Ada"]
    assert list(table(app, "Accuracy")["Asked"]) == ["own words first"] * 2
