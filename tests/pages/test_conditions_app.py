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
FIRST, CAPPED = f"{DOCTOR} · cap 30", f"{DOCTOR} · cap 4"


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


@pytest.mark.slow
@pytest.mark.usefixtures("two_conditions")
@pytest.mark.parametrize(
    "page",
    [
        "accuracy",
        "compare",
        *(
            pytest.param(page, marks=pytest.mark.slow)
            for page in ("endings", "failures", "graders", "history", "monitoring")
        ),
    ],
)
def test_two_conditions_have_two_names_the_newest_first(open_page: Open, page: str) -> None:
    part = {"monitoring": {"monitoring_versions": [CAPPED, FIRST]}, "history": {"history_tab": "Figures"}}
    app = open_page(page, **part.get(page, {}))
    assert trouble(app) == []
    names = [option for option in offered(app) if option.startswith(DOCTOR)]
    assert FIRST in names
    assert CAPPED in names
    assert DOCTOR not in names, "no name stands for both"
    assert names.index(CAPPED) < names.index(FIRST)
    if page in ("accuracy", "endings", "history"):
        what_stands_behind_a_name_is_said(app)


def what_stands_behind_a_name_is_said(app: AppTest) -> None:
    (table,) = [frame.value for frame in app.dataframe if "Setting" in frame.value.columns]
    settings = table.set_index("Setting")
    assert settings.loc["Limit of messages"].to_dict() == {CAPPED: "4 messages", FIRST: "30 messages"}
    assert settings.loc["Runs"].to_dict() == {CAPPED: "second", FIRST: "first"}


@pytest.mark.usefixtures("two_conditions")
def test_accuracy_pools_conditions_on_purpose_only_and_says_so(open_page: Open) -> None:
    app = open_page("accuracy", pooled="true")
    assert trouble(app) == []
    assert f"{DOCTOR} · 2 conditions pooled" in offered(app)
    assert CAPPED not in offered(app)
