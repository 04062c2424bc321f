from __future__ import annotations

from pathlib import Path

import pytest

from core.store.database import Store
from tests.core.export.conversations import fill
from tests.support.stores import copy_of


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A database with one conversation, run/1/0, and a fork of it, run/1/1."""
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    return copy_of(fill, tmp_path)
