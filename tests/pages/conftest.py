from __future__ import annotations

import functools
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit import config
from streamlit.components.v2 import manifest_scanner
from streamlit.runtime.scriptrunner import script_runner
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.testing.v1 import AppTest, app_test, local_script_runner

from core import access, paths
from tests.support.dashboard import KEYS
from tests.support.pages import visit
from tests.support.stores import copy_of


@pytest.fixture(scope="session", autouse=True)
def _scanned_once() -> Iterator[None]:
    """Look for components and compile pages once and not at every run of one: a server does, the test runner does not.

    Components take half a second; and a page that is a file in pages/ would be run without app.py around it. What a run
    leaves behind is swept up when Python finds it time, too, and not after each.
    """

    def run_main(main_script_path: str) -> None:
        runpy.run_path(main_script_path, run_name="__main__")

    scanned, compiled = functools.cache(manifest_scanner.scan_component_manifests), ScriptCache()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", scanned)
        patch.setattr(script_runner, "_mpa_v1", run_main)
        patch.setattr(local_script_runner, "ScriptCache", lambda: compiled)
        patch.setattr(app_test, "ScriptCache", lambda: compiled)
        config.set_option("runner.postScriptGC", False)
        config.set_option("runner.magicEnabled", False)
        yield


@pytest.fixture
def measuring() -> None:
    """For a test whose pages measure conversations in the background, as those of a server do."""


@pytest.fixture(autouse=True)
def _unmeasured(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no page measure in the background: the job would outlive the test, with processes of its own."""
    if "measuring" not in request.fixturenames:
        monkeypatch.setattr("pages.kit.page.keep_measured", lambda store: None)


@pytest.fixture(scope="session", autouse=True)
def _awaited_at_rest() -> Iterator[None]:
    """Sleep until a run of a page has ended: the test runner would look for its end a thousand times a second."""
    look = local_script_runner.require_widgets_deltas

    def wait(runner: local_script_runner.LocalScriptRunner, timeout: float = 3) -> None:
        if runner._script_thread is not None:
            runner._script_thread.join(timeout)
        look(runner, 0.1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_script_runner, "require_widgets_deltas", wait)
        yield


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty database of the test's own, no keys, and nothing remembered from other tests."""
    path = tmp_path / "anamnesis.duckdb"
    monkeypatch.setenv("ANAMNESIS_DB", str(path))
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    st.cache_data.clear()
    st.cache_resource.clear()
    yield path
    st.cache_data.clear()
    st.cache_resource.clear()


@pytest.fixture
def open_page(database: Path) -> Callable[..., AppTest]:
    def open_(page: str, **query: str | list[str]) -> AppTest:
        app = AppTest.from_file(str(paths.ROOT / "app.py"), default_timeout=60)
        for name, value in query.items():
            app.query_params[name] = value
        return visit(app, page).run()

    return open_


@pytest.fixture
def open_as(database: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    """Open a page of a shared server as somebody whom the provider of the login names; ``None`` has not signed in."""
    from tests.core.test_access import FILE, shared  # not for every test of a page

    monkeypatch.setenv("ANAMNESIS_MODELS", str(database.with_name("models.local.toml")))
    copy_of(shared, database.parent)
    monkeypatch.setenv(access.LOGIN, "yes")
    database.with_name("models.local.toml").touch()
    database.with_name("access.toml").write_text(FILE)

    def open_(name: str | None, page: str, verified: object = True, **query: str) -> AppTest:
        app = AppTest.from_file(str(paths.ROOT / "app.py"), default_timeout=60)
        app.user = {"is_logged_in": name is not None, "email": name, "email_verified": verified}
        for key, value in query.items():
            app.query_params[key] = value
        return visit(app, page).run()

    return open_
