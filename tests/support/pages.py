"""Short ways to look at a page that runs without a browser."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Block, Button, Node
from streamlit.util import calc_hash

from core.store.database import Store
from pages.kit.navigation import PARTS

MARKED = ("markdown", "caption", "info", "warning", "error", "success", "title", "subheader", "header")


def visit(app: AppTest, page: str) -> AppTest:
    """Return the app at the address of a page, or of a part of one, ready to run.

    ``AppTest.switch_page`` finds a page that the app has not drawn yet by its file's name alone, which is not its
    address where the page is a folder.
    """
    page, part = PARTS.get(page, (page, {}))
    for name, value in part.items():
        app.query_params.setdefault(name, value)
    app._page_hash = calc_hash(page)
    return app


def words(app: AppTest) -> str:
    """Return the text of a page outside of widgets."""
    texts = [element.value for kind in MARKED for element in getattr(app, kind)]
    return "\n".join([*texts, *(element.proto.text for element in app.get("progress"))])


def help_texts(app: AppTest) -> str:
    """Return the help of the captions and texts of a page."""
    return "\n".join(element.proto.help for kind in ("markdown", "caption") for element in getattr(app, kind))


def button(app: AppTest, label: str) -> Button:
    (match,) = [element for element in app.button if element.label == label]
    return match


def has_button(app: AppTest, label: str) -> bool:
    return any(element.label == label for element in app.button)


def trouble(app: AppTest) -> list[str]:
    return [element.value for element in (*app.exception, *app.error)]


def nodes(block: Block) -> Iterator[Node]:
    """Yield all that a page has drawn in a block, and in the blocks inside it."""
    for child in block.children.values():
        yield child
        if isinstance(child, Block):
            yield from nodes(child)


def tabs_of(app: AppTest) -> dict[str, list[str]]:
    """Return the URL parameter of each row of tabs → the titles of its tabs."""
    return {
        block.proto.tab_container.query_param_key: [tab.label for tab in block.children.values()]
        for block in nodes(app._tree)
        if block.type == "tab_container" and block.proto.tab_container.query_param_key
    }


def run_until(app: AppTest, condition: Callable[[AppTest], bool], seconds: float = 60) -> AppTest:
    """Run the page again and again, as its redrawing fragment would, until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition(app.run()):
        assert time.monotonic() < deadline, f"it did not happen in time; the page says:\n{words(app)}"
        time.sleep(0.2)
    return app


def filled_study(store: Store) -> None:
    """Fill a store for pages that are only opened: the sample study, a review, regradings, a rubric, and urgency."""
    from core.measures.measuring import measure_trials
    from core.measures.registry import measures
    from core.reviews.reviewing import unblind
    from core.store.sample import add_sample
    from tests.core.measures.experts.reviews import a_review, answer_all, store_conversations
    from tests.core.measures.graders.graded import three_graders
    from tests.support.fake_provider import running
    from tests.support.judged_rubric import store_judged
    from tests.support.urgency_doctors import asked, says, set_levels, write_conversations

    add_sample(store)
    three_graders(store)
    store_judged(store)
    store_conversations(store)
    review = a_review(store, "Right or wrong", kind="answers", number=12, shared=1)
    for annotator in ("Ada", "Ben"):
        answer_all(store, review, annotator)
    unblind(store, review.review_id, "Ada", "")
    write_conversations(store, "urgent", {1: 1, 2: 1, 3: 1})
    set_levels(store, {1: 2, 2: 2, 3: 2})
    with running() as provider:
        asked(store, provider, {"1.0": says(2), "2.0": says(3), "3.0": says(4)}, "urgent")
    measure_trials(store, measures().values(), processes=0)
