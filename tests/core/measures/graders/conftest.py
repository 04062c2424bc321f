from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from core.store.database import Store
from tests.core.measures.graders.graded import three_graders


@pytest.fixture(scope="session")
def judged_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with answers that three graders judged, to be copied."""
    return three_graders(Store(tmp_path_factory.mktemp("graders") / "anamnesis.duckdb")).path


@pytest.fixture
def store(judged_database: Path, tmp_path: Path) -> Store:
    """A copy of that database with its journals, for one test."""
    path = Path(shutil.copy(judged_database, tmp_path / "anamnesis.duckdb"))
    held = Store(judged_database).journals
    shutil.copytree(held, Store(path).journals)
    return Store(path)
