"""The real models of these tests: one at the address ``ANAMNESIS_REAL``, or SmolLM2-135M-Instruct on this machine.

The small one is the folder that ``ANAMNESIS_REAL_MODEL`` names, or the one that `models get` fetched;
``ANAMNESIS_FETCH=1`` fetches it if it is missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from core import paths
from core.errors import AnamnesisError
from core.models import local_server
from core.models.connection import offered
from core.models.fetch import get
from core.models.register import Entry, add
from core.models.registry import load_registry

LOCAL = "smollm2-135m"


@pytest.fixture(scope="module")
def models_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A separate models file."""
    file = tmp_path_factory.mktemp("models") / "models.toml"
    file.touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANAMNESIS_MODELS", str(file))
        patch.delenv("ANAMNESIS_DB", raising=False)
        yield file


@pytest.fixture(scope="module")
def local_model(models_file: Path) -> Iterator[str]:
    """The name of the small model; its server runs meanwhile."""
    stored = Path(os.environ.get("ANAMNESIS_REAL_MODEL", paths.local_folder() / "models" / LOCAL))
    if not stored.is_dir():
        if not os.environ.get("ANAMNESIS_FETCH"):
            pytest.skip(
                f"{LOCAL} is not here: `python -m core models get {LOCAL}` brings it, as ANAMNESIS_FETCH=1 does"
            )
        try:
            get(LOCAL)
        except AnamnesisError as error:
            pytest.skip(f"{LOCAL} cannot be fetched: {error}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        name = get(str(stored), LOCAL)
        server = local_server.acquire(load_registry().spec(name))  # loaded once for all tests
        yield name
        local_server.release(server)


@pytest.fixture(scope="module")
def model(models_file: Path, request: pytest.FixtureRequest) -> str:
    """The name of the model at the address ``ANAMNESIS_REAL``; without an address the small one."""
    address = os.environ.get("ANAMNESIS_REAL")
    if address:
        return add(Entry("real", model_id=offered(address)[0], address=address))
    if not os.environ.get("ANAMNESIS_FETCH"):
        pytest.skip("no real model: ANAMNESIS_REAL is the address of an OpenAI-compatible server, such as …:8000/v1")
    return str(request.getfixturevalue("local_model"))


@pytest.fixture(scope="module")
def doctors(model: str) -> list[str]:
    """The model and, at an address, a second name of it: two doctors on one case are a pair."""
    address = os.environ.get("ANAMNESIS_REAL")
    return [model, add(Entry("again", model_id=offered(address)[0], address=address))] if address else [model]
