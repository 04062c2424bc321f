from __future__ import annotations

from pathlib import Path

import pytest

from core.store.database import Store
from tests.core.measures.graders.graded import three_graders
from tests.support.stores import copy_of


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return copy_of(three_graders, tmp_path)
