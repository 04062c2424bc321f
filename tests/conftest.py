"""What all tests share: their order and workers, stores to begin with, and hypothesis's profiles.

``store`` is an empty store of the test's own, ``filled_store`` one with a small campaign (tests/support/stores.py),
``dashboard`` a served dashboard on an empty database of the test's own, ``browser`` Chromium, and ``fake_provider``
(with an event loop) or ``fake_provider_thread`` (without) a provider that is none.
"""

from __future__ import annotations

import functools
import gc
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Tests run side by side, where threads that spin while they wait cost more than they bring. Set before torch loads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import duckdb
import pytest
import pytest_asyncio
import typer.main
from hypothesis import settings

from core.browser import find_browser
from core.store import database, lease, migrations
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
settings.register_profile("dev", max_examples=25, deadline=None)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile("dev")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that drive a browser first, or skip them without a browser; the rest stays in its order.

    The slowest tests come first then, and each worker needs its server and its Chromium only once.
    """
    items.sort(key=lambda item: item.get_closest_marker("browser") is None)
    if find_browser() is None:
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(pytest.mark.skip(NO_BROWSER))


def pytest_configure_node(node: Any) -> None:
    """Tell a worker whether it is to read its share of the files alone, as `--dist each` lets it."""
    node.workerinput["shares"] = node.config.getoption("dist") == "each"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a file to the worker whose share it is: to read all of them takes each worker longer than a tenth of all.

    What drives a browser is the first one's, for one server and one Chromium do; it has less of the rest.
    """
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    if not worker.get("shares") or collection_path.suffix != ".py":
        return None
    return _shares(int(worker["workercount"])).get(collection_path, 0) != int(worker["workerid"][2:]) or None


@functools.cache
def _shares(workers: int) -> dict[Path, int]:
    """Return file of tests → the worker whose it is; neighbours take about as long, and go to different ones."""
    files = sorted(Path(__file__).parent.rglob("test_*.py"))
    rest = itertools.cycle(turn % workers for turn in range(1, 6 * workers))
    return {file: 0 if file.stem.endswith("browser") else next(rest) for file in files}


def pytest_collection_finish() -> None:
    """Take what is imported by now, which stays, out of the garbage collector's rounds."""
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
    """Close them also where the tests were interrupted, and let the garbage collector see everything again."""
    shared.close()
    gc.unfreeze()


@pytest.fixture
def browser() -> Iterator[Browser]:
    """Chromium, one for all tests; the contexts that a test opened are closed at its end."""
    yield shared.browser
    for context in shared.browser.contexts:
        context.close()


@pytest.fixture
def dashboard(tmp_path: Path) -> Dashboard:
    """The shared server, showing an empty database in the test's folder."""
    return shared.dashboard(tmp_path)


@pytest_asyncio.fixture
async def fake_provider() -> AsyncIterator[FakeProvider]:
    """Give a running provider with the demo script; assign ``fake_provider.script`` to change it."""
    async with FakeProvider() as provider:
        yield provider


@pytest.fixture
def fake_provider_thread() -> Iterator[FakeProvider]:
    """Give the same, running in a thread, for tests without an event loop."""
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
    """Give what asks for the database, in a test that names none, one of this worker's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANAMNESIS_DB", str(tmp_path_factory.mktemp("unnamed") / "anamnesis.duckdb"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _engines_go_on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineOf]:
    """Let an engine of DuckDB that has let go of its file take the next one: it starts slower than most tests run.

    Such an engine reaches all that tests write, where the product's reaches its file alone (``sealed``).
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
    """Open databases as the product does, with an engine that reaches one file."""
    monkeypatch.setattr(lease, "_engine", _engines_go_on)


@pytest.fixture(scope="session", autouse=True)
def _empty_databases_are_copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run the scripts that make a database once a worker: they take a tenth of a second, and most tests need one.

    Child processes of tests make theirs with the scripts.
    """
    made: dict[tuple[str, ...], Path] = {}
    make = database._make_empty

    def copy(path: Path) -> None:
        scripts = tuple(migrations.MIGRATIONS)
        if scripts not in made:
            first = tmp_path_factory.mktemp("empty") / "empty.duckdb"
            make(first)
            made[scripts] = first
        shutil.copyfile(made[scripts], path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_make_empty", copy)
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_are_assembled_once() -> Iterator[None]:
    """Assemble `report` and its 60 commands once a worker, not for every call of ``main``: it takes 60 milliseconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.lru_cache(maxsize=64)(typer.main.get_command))
        yield
