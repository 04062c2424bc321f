"""Figures are built once for equal inputs, and what belongs to one visitor stays with that visitor."""

from __future__ import annotations

import ast
import datetime
import dis
import functools
import importlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import plotly.graph_objects as go
import pytest
import streamlit as st

from core import access
from core.access import Visitor
from core.paths import ROOT
from core.store.database import Cursor, Store
from pages.kit.cached import ask, cached_query
from pages.kit.figures import _built, _inputs_digest
from tests.core.test_access import FILE, OTHER, RUNNER, VIEWER, shared
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


@pytest.mark.slow
@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("first", [RUNNER, OTHER, VIEWER])
def test_visitors_with_different_rights_never_share_a_private_row(first: str) -> None:
    """The first visitor fills the caches; all visitors then read the same state of the store twice."""
    people = [first, *(name for name in (RUNNER, OTHER, VIEWER) if name != first)]
    for name in people * 2:
        with access.acting(access.person(name)):
            assert access.visitor() != Visitor()
            allowed = name == RUNNER
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


@functools.lru_cache
def remembered(key: str) -> str:
    return key


@pytest.mark.parametrize(
    "hidden",
    [threading.Lock(), (n for n in range(3)), st, stored_runs, remembered],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_written_is_drawn_every_time(hidden: object) -> None:
    """Objects that cannot be pickled by content, or that change over time, are no cache key of a figure."""

    def maker(handle: object) -> Callable[[bool], go.Figure]:
        return lambda dark: go.Figure().update_layout(title=str(handle))

    assert _inputs_digest(maker(hidden)) is None


def test_two_functions_that_differ_in_a_constant_are_told_apart() -> None:
    """As a page's script does that was changed while the server ran."""
    sources = ("lambda dark: {'height': 300}", "lambda dark: {'height': 301}")
    assert len({_inputs_digest(eval(compile(source, "page.py", "eval"))) for source in sources}) == 2


CHANGING = (st, Store, ask, cached_query, access, time, datetime, random, os.environ)
"""What answers differently at another time, or to another visitor."""
PER_PROCESS = {"pages.kit.names._labels", "core.knowledge.base.knowledge"}
"""Read from a file once for as long as the server runs."""
CACHED_FUNCTION = type(st.cache_resource(lambda: None))


def drawing_functions() -> Iterator[tuple[str, CodeType, dict[str, Any]]]:
    """Yield place, code and module's names of every function that a page gives to ``draw_figure``."""
    for file in sorted((ROOT / "pages").rglob("*.py")):
        source = file.read_text()
        if "draw_figure(" not in source or (file.name == "figures.py" and file.parent.name == "kit"):
            continue
        module = importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
        codes = list(codes_in(compile(source, str(file), "exec")))
        for call in ast.walk(ast.parse(source)):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "draw_figure"):
                continue
            make = call.args[0]
            if isinstance(make, ast.Lambda):
                matches = [code for code in codes if (code.co_name, code.co_firstlineno) == ("<lambda>", make.lineno)]
            else:
                assert isinstance(make, ast.Name), f"{file}:{call.lineno}: neither a name nor a lambda"
                matches = [code for code in codes if code.co_name == make.id and code.co_firstlineno < call.lineno][-1:]
            assert matches, f"{file}:{call.lineno}"
            yield f"{file.relative_to(ROOT)}:{call.lineno}", matches[-1], vars(module)


def section_charts() -> Iterator[tuple[str, CodeType, dict[str, Any]]]:
    """Yield place, code and module's names of every function that draws a section's rows with their names."""
    for file in sorted((ROOT / "pages").rglob("*.py")):
        source = file.read_text()
        charts = {
            (node.name, node.lineno)
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef)
            and node.returns is not None
            and ast.unparse(node.returns) == "go.Figure"
            and [argument.arg for argument in node.args.args][::2] == ["rows", "dark"]
        }
        if charts:
            module = importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
            for code in codes_in(compile(source, str(file), "exec")):
                if (code.co_name, code.co_firstlineno) in charts:
                    yield f"{file.relative_to(ROOT)}:{code.co_firstlineno}", code, vars(module)


def codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def read_by(code: CodeType, names: dict[str, Any], way: str, seen: set[int]) -> Iterator[tuple[str, object]]:
    """Yield all that a function and those that it calls take from their modules, with the way there."""
    for part in codes_in(code):
        for step in dis.get_instructions(part):
            if step.opname not in ("LOAD_GLOBAL", "LOAD_NAME") or step.argval not in names:
                continue
            value = names[step.argval]
            if id(value) in seen:
                continue
            seen.add(id(value))
            yield f"{way} > {step.argval}", value
            if isinstance(value, FunctionType) and value.__module__.startswith(("pages.", "core.", __name__)):
                yield from read_by(value.__code__, value.__globals__, f"{way} > {step.argval}", seen)


def unstable_inputs(place: str, code: CodeType, names: dict[str, Any]) -> Iterator[str]:
    """Yield the ways by which a drawing function reads what may change while its digest stays the same."""
    for way, value in read_by(code, names, place, set()):
        if f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}" in PER_PROCESS:
            continue
        wrapped = hasattr(value, "__wrapped__") and not isinstance(value, functools._lru_cache_wrapper)
        cached = isinstance(value, CACHED_FUNCTION) or getattr(value, "__module__", None) == "pages.kit.cached"
        if wrapped or cached or any(value is changing for changing in CHANGING):
            yield way


def test_a_figure_depends_on_nothing_that_its_digest_does_not_hold() -> None:
    """A figure is shared by what its function closes over, so the function reads nothing else that may change."""
    drawing = [*drawing_functions(), *section_charts()]
    assert len(drawing) > 4
    assert any(code.co_name == "histograms" for _, code, _ in drawing), "a chart of a section"
    assert [way for function in drawing for way in unstable_inputs(*function)] == []


def test_a_function_that_reads_the_store_or_the_visitor_would_be_found() -> None:
    def chart(dark: bool) -> go.Figure:
        return reading_figure()

    values = [value for _, value in read_by(chart.__code__, globals(), "", set())]
    assert ask in values

    def other(dark: bool) -> go.Figure:
        return go.Figure().update_layout(title=st.session_state.get("name"))

    assert st in [value for _, value in read_by(other.__code__, globals(), "", set())]


def test_the_server_does_not_collect_all_garbage_after_every_run() -> None:
    from streamlit import config

    assert config.get_option("runner.postScriptGC") is False
