"""Figures are built once for equal inputs, and what belongs to one visitor stays with that visitor."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import plotly.graph_objects as go
import pytest
import streamlit as st

from core import access
from core.access import Visitor
from core.store.database import Cursor, Store
from pages.kit.cached import ask, cached_query
from pages.kit.figures import _built, _inputs_digest
from tests.core.test_access import ADMIN, FILE, OTHER, RUNNER, VIEWER, shared
from tests.support.stores import copy_of

PRIVATE_RUN = "bench-rita"


def run_ids(cursor: Cursor) -> list[str]:
    return [run_id for (run_id,) in cursor.execute("SELECT run_id FROM runs ORDER BY run_id").fetchall()]


@cached_query(spinner=False)
def stored_runs() -> list[str]:
    with Store().read() as cursor:
        return run_ids(cursor)


@pytest.fixture
def server(database: Path) -> None:
    """A shared server's database, with runs that Rita made for herself."""
    copy_of(shared, database.parent)
    database.with_name("access.toml").write_text(FILE)
    st.cache_resource.clear()


def figure_of(run_ids: list[str]) -> go.Figure:
    def make(dark: bool) -> go.Figure:
        return go.Figure(go.Bar(x=run_ids, y=[1] * len(run_ids)))

    inputs = _inputs_digest(make)
    assert inputs is not None
    return _built(inputs, False, make)[0]


def reading_figure() -> go.Figure:
    """A figure whose function reads the store itself, so that its inputs are the same for everybody."""

    def make(dark: bool) -> go.Figure:
        return go.Figure(go.Bar(x=ask(run_ids)))

    inputs = _inputs_digest(make)
    assert inputs is not None
    return _built(inputs, False, make)[0]


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("first", [RUNNER, OTHER, VIEWER, ADMIN])
def test_visitors_with_different_rights_never_share_a_private_row(first: str) -> None:
    """Whoever looks first fills the caches; all others look at the same state of the store afterwards, twice."""
    people = [first, *(name for name in (RUNNER, OTHER, VIEWER, ADMIN) if name != first)]
    for name in people * 2:
        with access.acting(access.person(name)):
            assert access.visitor() != Visitor()
            allowed = name in (RUNNER, ADMIN)
            for rows in (stored_runs(), ask(run_ids), list(figure_of(stored_runs()).data[0].x)):
                assert (PRIVATE_RUN in rows) is allowed, name
            assert (PRIVATE_RUN in reading_figure().data[0].x) is allowed, name


@pytest.mark.usefixtures("server")
def test_a_run_that_was_deleted_is_in_no_figure_afterwards() -> None:
    assert PRIVATE_RUN in reading_figure().data[0].x
    with Store().write() as connection:
        connection.execute("DELETE FROM runs WHERE run_id = ?", [PRIVATE_RUN])
    assert PRIVATE_RUN not in reading_figure().data[0].x


@pytest.mark.usefixtures("server")
def test_equal_inputs_are_drawn_once_and_others_anew() -> None:
    assert figure_of(["a", "b"]) is figure_of(["a", "b"])
    assert list(figure_of(["a", "c"]).data[0].x) == ["a", "c"]


def test_what_a_function_closes_over_tells_its_figure() -> None:
    def maker(height: int, label: str) -> Callable[[bool], go.Figure]:
        def inner() -> int:
            return height

        return lambda dark, label=label: go.Figure().update_layout(height=inner(), title=label)

    digests = [_inputs_digest(maker(*inputs)) for inputs in ((300, "a"), (300, "a"), (301, "a"), (300, "b"))]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_what_cannot_be_written_is_drawn_every_time() -> None:
    def maker(handle: object) -> Callable[[bool], go.Figure]:
        return lambda dark: go.Figure().update_layout(title=str(handle))

    assert _inputs_digest(maker(threading.Lock())) is None


def test_the_server_does_not_collect_all_garbage_after_every_run() -> None:
    from streamlit import config

    assert config.get_option("runner.postScriptGC") is False
