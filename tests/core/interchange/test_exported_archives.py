from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from core.interchange.archive import zipped
from core.interchange.every_eval_ever import Publisher, write_evaluations
from core.store.database import Store
from core.store.selection import Selection
from tests.core.interchange import exchanged as campaign
from tests.core.interchange.exchanged import MEAN, RUN
from tests.support.stores import copy_of


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    return copy_of(campaign.exchanged, tmp_path)


@pytest.mark.slow
def test_equal_answers_give_an_equal_download(store: Store) -> None:
    selection, publisher = Selection(runs=[RUN]), Publisher("An institute", "other")
    first, second = (
        zipped("eee", lambda folder: write_evaluations(store, selection, folder, publisher)) for _ in range(2)
    )
    assert first == second
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".json")]
        results = json.loads(archive.read(name))["evaluation_results"]
    assert MEAN in {result["score_details"]["score"] for result in results}
