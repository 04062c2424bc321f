"""Short ways to look at a page that runs without a browser."""

from __future__ import annotations

import time
from collections.abc import Callable

from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Button
from streamlit.util import calc_hash

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


def button(app: AppTest, label: str) -> Button:
    (match,) = [element for element in app.button if element.label == label]
    return match


def has_button(app: AppTest, label: str) -> bool:
    return any(element.label == label for element in app.button)


def trouble(app: AppTest) -> list[str]:
    return [element.value for element in (*app.exception, *app.error)]


def run_until(app: AppTest, condition: Callable[[AppTest], bool], seconds: float = 60) -> AppTest:
    """Run the page again and again, as its redrawing fragment would, until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition(app.run()):
        assert time.monotonic() < deadline, f"it did not happen in time; the page says:\n{words(app)}"
        time.sleep(0.5)
    return app
