"""Every page of figures gives each condition one name, and says what differs between the conditions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.store.database import Store
from core.store.fold import fold
from tests.core.cli.test_conditions import DOCTOR, store_run
from tests.support.pages import trouble
from tests.support.stores import copy_of

Open = Callable[..., AppTest]
FIRST, CAPPED = f"{DOCTOR} · at most 30 messages", f"{DOCTOR} · at most 4 messages"


def store_two_conditions(store: Store) -> None:
    store_run(store, "first")
    store_run(store, "second", created_at=200.0, settings={"max_messages": 4})
    fold(store)


@pytest.fixture
def two_conditions(database: Path) -> Path:
    """One doctor in two runs that differ in the cap alone, the capped one newer."""
    copy_of(store_two_conditions, database.parent)
    return database


def offered(app: AppTest) -> list[str]:
    """Return everything that can be chosen on a page, in the order of its controls."""
    controls = [*app.get("button_group"), *app.multiselect, *app.selectbox]
    return [str(option) for control in controls for option in getattr(control, "options", [])]


@pytest.mark.usefixtures("two_conditions")
def test_accuracy_pools_conditions_on_purpose_only_and_says_so(open_page: Open) -> None:
    app = open_page("accuracy", pooled="true")
    assert trouble(app) == []
    assert f"{DOCTOR} · 2 conditions combined" in offered(app)
    assert CAPPED not in offered(app)
