from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from core.models import keys
from core.models.registry import Registry, load_registry
from core.models.settings import SHIPPED


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for provider in ("OPENAI", "AZURE_OPENAI", "ANTHROPIC"):
        for setting in ("API_KEY", "BASE_URL", "ENDPOINT", "API_VERSION"):
            monkeypatch.delenv(f"{provider}_{setting}", raising=False)
    monkeypatch.delenv("ANAMNESIS_MODELS", raising=False)
    monkeypatch.setattr(keys, "SECRETS", tmp_path / "secrets.toml")


@pytest.fixture
def registry() -> Registry:
    return load_registry([SHIPPED])


@pytest.fixture
def own_file(tmp_path: Path) -> Callable[[str], Registry]:
    """A function that returns a registry of the shipped models and a user's file with the given text."""

    def make(text: str) -> Registry:
        path = tmp_path / "models.local.toml"
        path.write_text(text)
        return load_registry([SHIPPED, path])

    return make
