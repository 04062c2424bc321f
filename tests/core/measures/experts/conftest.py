from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from core.store.database import Store
from tests.core.measures.experts.reviews import store_talks


@pytest.fixture(scope="session")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with two models' conversations, to be copied."""
    return store_talks(Store(tmp_path_factory.mktemp("talks") / "anamnesis.duckdb")).path


@pytest.fixture
def store(talks: Path, tmp_path: Path) -> Store:
    """A copy of that database for one test."""
    return Store(Path(shutil.copy(talks, tmp_path / "anamnesis.duckdb")))
