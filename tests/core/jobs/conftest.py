from __future__ import annotations

from pathlib import Path

import pytest

from core.journal import RunHeader, read_header
from core.models import keys
from tests.core.jobs.regrading import Judges, a_graded_run
from tests.core.jobs.workshop import PRICED
from tests.support.fake_provider import FakeProvider
from tests.support.stores import copy_of


@pytest.fixture(autouse=True)
def db(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A separate database; no keys and no addresses from outside."""
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANAMNESIS_MODELS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(keys, "SECRETS", tmp_path / "secrets.toml")
    path = tmp_path / "anamnesis.duckdb"
    monkeypatch.setenv("ANAMNESIS_DB", str(path))
    return path


@pytest.fixture
def judges() -> Judges:
    return Judges()


@pytest.fixture
def provider(fake_provider_thread: FakeProvider, judges: Judges) -> FakeProvider:
    """A provider of a doctor that is always wrong, and of the graders in ``Judges``."""
    fake_provider_thread.script = judges
    return fake_provider_thread


@pytest.fixture
def graded(db: Path) -> RunHeader:
    """A run with free responses that ``openai/strict`` graded as incorrect."""
    (path,) = copy_of(a_graded_run, db.parent).journals.glob("*/journal.jsonl")
    return read_header(path)


@pytest.fixture
def priced(tmp_path: Path) -> Path:
    """A models file with prices for the models of ``fake_provider_thread``."""
    path = tmp_path / "models.local.toml"
    path.write_text(PRICED)
    return path
