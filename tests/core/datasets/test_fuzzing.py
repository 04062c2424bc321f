"""Random files: read, or refused with a sentence; never an unexpected error."""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from core.datasets.importing import list_in
from core.datasets.readers import read_cases
from core.errors import AnamnesisError

FILES = Path(__file__).parent / "files"
COLUMNS = {"vignette": "vignette", "options": "a+b", "answer": "answer"}
TABLE = {"vignette": ["A man of 40 coughs."] * 5, "a": ["Flu"] * 5, "b": ["Gout"] * 5, "answer": ["A"] * 5}


@functools.cache
def valid_file(kind: str) -> bytes:
    """Return the contents of a small valid file of a kind."""
    text = (FILES / "medqa.jsonl").read_bytes()
    if packer := {"gz": gzip, "bz2": bz2, "xz": lzma}.get(kind):
        return bytes(packer.compress(text))
    file = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("a.jsonl", text)
    elif kind == "tar":
        with tarfile.open(fileobj=file, mode="w") as tape:
            about = tarfile.TarInfo("a.jsonl")
            about.size = len(text)
            tape.addfile(about, io.BytesIO(text))
    elif kind == "xlsx":
        book = openpyxl.Workbook()
        book.active.append(list(TABLE))
        for row in zip(*TABLE.values(), strict=True):
            book.active.append(row)
        book.save(file)
    elif kind == "parquet":
        parquet.write_table(pa.table(TABLE), file)
    else:
        return {"jsonl": text, "csv": b"vignette,a,b,answer\n" + b'"A man, 40, coughs.",Flu,Gout,A\n' * 5}[kind]
    return file.getvalue()


KINDS = ("csv", "jsonl", "parquet", "xlsx", "zip", "tar", "gz", "bz2", "xz")


def read(path: Path) -> None:
    try:
        with list_in(path) as path_of_list:
            read_cases(path_of_list, "fuzzed", "auto", {} if path.suffix == ".jsonl" else COLUMNS)
    except AnamnesisError as error:
        sentence = str(error)
        assert sentence.strip()
        assert "\n" not in sentence
        assert len(sentence) < 2_000


def test_a_valid_file_is_read(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for kind in KINDS:
        with subtests.test(kind=kind):
            path = tmp_path / f"a.{kind}"
            path.write_bytes(valid_file(kind))
            with list_in(path) as path_of_list:
                assert read_cases(
                    path_of_list, "a", "auto", COLUMNS if kind in ("csv", "xlsx", "parquet") else None
                ).cases


@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(harm=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255), st.integers(0, 40)), min_size=1, max_size=8))
def test_a_file_with_wrong_bytes_is_read_or_refused_with_a_sentence(
    kind: str, tmp_path: Path, harm: list[tuple[float, int, int]]
) -> None:
    data = bytearray(valid_file(kind))
    for where, byte, more in harm:  # bytes are changed, deleted and inserted
        at = int(where * (len(data) - 1))
        data[at] = byte
        if more % 4 == 1:
            del data[at : at + more]
        elif more % 4 == 2:
            data[at:at] = bytes([byte]) * more
    path = tmp_path / f"a.{kind}"
    path.write_bytes(bytes(data))
    read(path)


@pytest.mark.parametrize("kind", ["csv", "json", "jsonl", "xlsx", "parquet", "zip", "gz"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    begins=st.sampled_from([b"", b"[", b"{", b'{"a":', b"PAR1", b"PK\x03\x04", b"\x1f\x8b\x08", b"a,b\n"]),
    rest=st.binary(max_size=400) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
)
@example(begins=b"[" * 5_000, rest=b"")
def test_any_file_is_read_or_refused_with_a_sentence(kind: str, tmp_path: Path, begins: bytes, rest: bytes) -> None:
    path = tmp_path / f"a.{kind}"
    path.write_bytes(begins + rest)
    read(path)
