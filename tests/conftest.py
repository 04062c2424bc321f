"""What all tests share: their order, fixtures for stores, browser and provider, and the profiles of hypothesis.

``store`` is an empty store, ``filled_store`` one with a small campaign (tests/support/stores.py), ``dashboard`` a
served dashboard on an empty database, ``browser`` Chromium, and ``fake_provider`` (with an event loop) or
``fake_provider_thread`` (without) a scripted model provider.
"""

from __future__ import annotations

import functools
import gc
import math
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

# Tests run side by side, where threads that spin while they wait cost more than they bring. Set before torch loads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import duckdb
import pytest
import pytest_asyncio
import typer.main
from hypothesis import settings

from core.browser import find_browser
from core.cli import app
from core.store import database, lease, schema
from core.store.database import Store
from tests.support.chromium import NO_BROWSER
from tests.support.dashboard import Dashboard, shared
from tests.support.fake_provider import FakeProvider, running
from tests.support.stores import campaign, copy_of

pytest.register_assert_rewrite("tests.support.browsing")

if TYPE_CHECKING:
    from playwright.sync_api import Browser


EngineOf = Callable[[Path], duckdb.DuckDBPyConnection]

# A change needs few examples; `make test-all` tries many, with --hypothesis-profile=thorough.
settings.register_profile("dev", max_examples=10, deadline=None)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile("dev")


def pytest_configure() -> None:
    """Put the folders of tests into memory where there is room: every write to a database waits for a disk.

    The folder of a test that passed is removed at once (pyproject.toml), so that a run needs little memory.
    """
    memory = "/dev/shm"
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4_000_000_000:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", memory)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that drive a browser first, or skip them without a browser; the others keep their order.

    The slowest tests begin first, and one worker has them all, so that one server and one Chromium are started.
    """
    items.sort(key=lambda item: item.get_closest_marker("browser") is None)
    if find_browser() is None:
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(pytest.mark.skip(NO_BROWSER))


def pytest_collection_finish() -> None:
    """Exempt all objects that exist now from garbage collection: imported modules stay until the end."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Close the shared browser and server after the last test that drives a browser."""
    try:
        return (yield)
    finally:
        if nextitem is None or not nextitem.get_closest_marker("browser"):
            shared.close()


def pytest_sessionfinish() -> None:
    """Close them also after an interrupt, and end the exemption from garbage collection."""
    shared.close()
    gc.unfreeze()


@pytest.fixture
def browser() -> Iterator[Browser]:
    """Chromium, shared by all tests; the contexts that a test opened are closed at its end."""
    yield shared.browser
    for context in shared.browser.contexts:
        context.close()


@pytest.fixture
def dashboard(tmp_path: Path) -> Dashboard:
    """The shared server, showing an empty database in the test's folder."""
    return shared.dashboard(tmp_path)


@pytest_asyncio.fixture
async def fake_provider() -> AsyncIterator[FakeProvider]:
    """A running provider with the demo script; assign ``fake_provider.script`` to change it."""
    async with FakeProvider() as provider:
        yield provider


@pytest.fixture
def fake_provider_thread() -> Iterator[FakeProvider]:
    """The same in a thread, for tests without an event loop."""
    with running() as provider:
        yield provider


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "anamnesis.duckdb")


@pytest.fixture
def filled_store(tmp_path: Path) -> Store:
    """A store with a small campaign: two models, six cases, two trials each."""
    return copy_of(campaign, tmp_path)


@pytest.fixture(scope="session", autouse=True)
def _the_checkouts_database_is_left_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give a test that names no database one in a temporary folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANAMNESIS_DB", str(tmp_path_factory.mktemp("unnamed") / "anamnesis.duckdb"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _engines_go_on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineOf]:
    """Reuse an idle DuckDB engine for the next file: an engine takes longer to start than most tests run.

    Such an engine can read all files that tests write; the product's engine can read only its own file (``sealed``).
    """
    engines: list[duckdb.DuckDBPyConnection] = []
    idle: list[duckdb.DuckDBPyConnection] = []
    alone, close = lease._engine, lease.Opened.close

    def next_one(path: Path) -> duckdb.DuckDBPyConnection:
        if idle:
            return idle.pop()
        started = duckdb.connect(config={**lease.CONFIG, "threads": "1"})
        started.execute(f"SET allowed_directories = ['{tmp_path_factory.getbasetemp()}', '{tempfile.gettempdir()}']")
        started.execute("SET enable_external_access = false")
        engines.append(started)
        return started

    def closed(opened: lease.Opened) -> None:
        close(opened)
        if any(engine is opened.engine for engine in engines):
            idle.append(opened.engine)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease, "_engine", next_one)
        patch.setattr(lease.Opened, "close", closed)
        yield alone
    idle.clear()
    engines.clear()


@pytest.fixture
def sealed(monkeypatch: pytest.MonkeyPatch, _engines_go_on: EngineOf) -> None:
    """Open databases as the product does, with an engine that can read one file."""
    monkeypatch.setattr(lease, "_engine", _engines_go_on)


@pytest.fixture(scope="session", autouse=True)
def _empty_databases_are_copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Create the tables once per worker: that takes a tenth of a second, and most tests need a database.

    Child processes of tests create them.
    """
    made: dict[str, Path] = {}
    make = database._make_empty

    def copy(path: Path) -> None:
        name = schema.present()
        if name not in made:
            first = tmp_path_factory.mktemp("empty") / "empty.duckdb"
            make(first)
            made[name] = first
        shutil.copyfile(made[name], path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_make_empty", copy)
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_leave_measuring_to_reports() -> Iterator[None]:
    """Let no command of this process look for trials to measure before it ends: that takes half a second.

    Reports measure what they need. ``main`` measures if the database is newer than its own start, which never comes.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "time", SimpleNamespace(time=lambda: math.inf))
        yield


@pytest.fixture
def measuring_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test whose commands measure what they have stored."""
    monkeypatch.setattr(app, "time", time)


@pytest.fixture(scope="session", autouse=True)
def _commands_are_assembled_once() -> Iterator[None]:
    """Build the command tree once per worker and not in every call of ``main``: it takes 60 milliseconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.lru_cache(maxsize=64)(typer.main.get_command))
        yield
