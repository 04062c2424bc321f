"""The file that cases are to be read from, uploaded or on this computer, and what it holds before it is imported."""

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from core.datasets.importing import list_in
from core.datasets.readers import read_cases
from core.datasets.readers.files import Record, Rows
from core.datasets.readers.registry import chosen_format
from core.datasets.reading import Reading
from core.errors import AnamnesisError, UsageError

_FIRST = 5
"""Rows of an unrecognised file that are shown."""
_KINDS = ["csv", "tsv", "json", "jsonl", "ndjson", "parquet", "txt", "zip"]


@dataclass(frozen=True)
class CaseFile:
    """A file to read: its name, a text that changes with its contents, and where it lies or its uploaded bytes."""

    name: str
    stamp: str
    path: Path | None = None
    data: bytes = b""

    @contextmanager
    def lent(self) -> Iterator[Path]:
        """Lend the file's path; uploaded bytes lie in a temporary folder meanwhile."""
        if self.path is not None:
            yield self.path
            return
        with tempfile.TemporaryDirectory(prefix="anamnesis-") as folder:
            path = Path(folder) / self.name
            path.write_bytes(self.data)
            yield path


@dataclass(frozen=True)
class Glance:
    """The fields of a file and its first records, for somebody to say what is what."""

    fields: tuple[str, ...]
    first: Sequence[Record]


def ask_file() -> CaseFile | None:
    """Ask for the file; ``None`` until there is one."""
    where = st.segmented_control(
        "File", ["upload", "path"], default="upload", required=True, key="data_where",
        format_func={"upload": "Upload it", "path": "It lies on this computer"}.__getitem__,
    )  # fmt: skip
    if where == "upload":
        given = st.file_uploader(
            "CSV, JSON, JSON Lines or Parquet", _KINDS, key="data_upload",
            help="Cases with pictures: a zip with the list, and the pictures under the paths that it names.",
        )  # fmt: skip
        if given is None:
            return None
        data = given.getvalue()
        return CaseFile(Path(given.name).name, hashlib.sha256(data).hexdigest(), data=data)
    text = st.text_input("Path", key="data_path", placeholder="/home/me/medqa/test.jsonl").strip().strip('"')
    if not text:
        return None
    path = Path(text).expanduser()
    if not path.is_file():
        raise UsageError(f"There is no file {path}: give the whole path of a file on the computer Anamnesis runs on.")
    return CaseFile(path.name, f"{path}-{path.stat().st_mtime_ns}-{path.stat().st_size}", path)


def read_file(file: CaseFile, dataset: str, format_: str, columns: Mapping[str, str]) -> Reading:
    """Read the file, once for each way of reading it; a shared object, never to be changed."""
    return _read(file.stamp, dataset, format_, tuple(sorted(columns.items())), file)


@st.cache_resource(max_entries=2, show_spinner="Reading the file…")
def _read(stamp: str, dataset: str, format_: str, columns: tuple[tuple[str, str], ...], _file: CaseFile) -> Reading:
    with _file.lent() as path, list_in(path) as held:
        return read_cases(held, dataset, format_, dict(columns))


def recognised(file: CaseFile) -> str | None:
    """Return the format that the file's first records show, or ``None``; raises where it is damaged as a whole."""
    return _recognised(file.stamp, file)


@st.cache_data(max_entries=8, show_spinner=False)
def _recognised(stamp: str, _file: CaseFile) -> str | None:
    with _file.lent() as path, list_in(path) as held:
        rows = Rows(held)
        try:
            return chosen_format("auto", rows, columns=False)[0].name
        except UsageError:
            return None


def glance_at(file: CaseFile) -> Glance:
    """Return the file's fields and first records; raises ``AnamnesisError`` where it holds no records."""
    return _glance(file.stamp, file)


@st.cache_resource(max_entries=2, show_spinner=False)
def _glance(stamp: str, _file: CaseFile) -> Glance:
    with _file.lent() as path, list_in(path) as held:
        _, rows = chosen_format("auto", Rows(held), columns=True)
        found = Glance(rows.columns, rows.first(_FIRST))
    if not found.fields:
        raise AnamnesisError(f"{_file.name} has no named fields: a table needs a header, a JSON file objects.")
    return found
