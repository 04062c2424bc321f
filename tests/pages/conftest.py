from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

from core import paths
from tests.support.dashboard import KEYS


@pytest.fixture(scope="session", autouse=True)
def _scanned_once() -> Iterator[None]:
    """Look for components among the installed packages once and not at every run of a page, which takes half a second.

    A server does that once as well; only the test runner starts anew each time.
    """
    scanned = functools.cache(manifest_scanner.scan_component_manifests)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", scanned)
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
    """Open a page of the app as a visitor of its address would."""

    def open_(page: str, **query: str) -> AppTest:
        app = AppTest.from_file(str(paths.ROOT / "app.py"), default_timeout=60)
        for name, value in query.items():
            app.query_params[name] = value
        return app.switch_page(f"pages/{page}.py").run()

    return open_
