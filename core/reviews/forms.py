"""Forms by name, with the rubrics of the database among them."""

from __future__ import annotations

from core.judging.form import RUBRIC, Form, form_named
from core.reviews.rubrics import rubric_named
from core.store.database import Store


def any_form(store: Store, name: str) -> Form:
    """Return a form, or a rubric as a form (``rubric:NAME``); raises ``UsageError`` if there is none of this name."""
    if name.startswith(RUBRIC):
        return rubric_named(store, name.removeprefix(RUBRIC)).form
    return form_named(name)
