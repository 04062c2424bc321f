from __future__ import annotations

from pathlib import Path

import pytest

from core.models import keys


@pytest.fixture(autouse=True)
def db(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A separate database; no keys and no addresses from outside."""
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANAMNESIS_MODELS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(keys, "SECRETS", tmp_path / "secrets.toml")
    path = tmp_path / "anamnesis.duckdb"
    monkeypatch.setenv("ANAMNESIS_DB", str(path))
    return path
