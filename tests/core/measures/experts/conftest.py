from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from core.store.database import Store
from tests.core.measures.experts.reviews import store_conversations


@pytest.fixture(scope="session")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with two models' conversations, to be copied."""
    return store_conversations(Store(tmp_path_factory.mktemp("conversations") / "anamnesis.duckdb")).path


@pytest.fixture
def store(conversations: Path, tmp_path: Path) -> Store:
    return Store(Path(shutil.copy(conversations, tmp_path / "anamnesis.duckdb")))
