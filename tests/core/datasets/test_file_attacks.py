"""Small files that unpack to gigabytes: each is refused in a sentence, in little time and memory."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import orjson
import pytest

from core import paths
from core.errors import AnamnesisError
from core.store.database import Store
from core.store.upkeep import restore

MOST_MEMORY = 400_000_000


def one_line(path: Path) -> None:
    """Write a file of 400 kB that unpacks to a line of 400 MB: members of a gzip file are read one after the other."""
    path.write_bytes(gzip.compress(b"question,answer\n") + gzip.compress(b"x" * 1_000_000) * 400)


def one_record(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b'{"question": "')
        for _ in range(150):
            file.write(b"y" * 1_000_000)
        file.write(b'"}\n{"question": "second"}\n')


def many_lists(path: Path) -> None:
    path.write_bytes(b"[" + b"[]," * 30_000_000 + b"[]]")


def many_numbers(path: Path) -> None:
    path.write_bytes(b"[" + b"1000," * 18_000_000 + b"1]")


def workbook(path: Path) -> None:
    """Write a file of 300 kB with a table of texts that unpacks to 300 MB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as book:
        book.writestr("xl/workbook.xml", "<workbook/>")
        with book.open("xl/sharedStrings.xml", "w", force_zip64=True) as texts:
            texts.write(b"<sst>")
            for _ in range(300):
                texts.write(b"<si><t/></si>" * 77_000)


def extended_header(path: Path) -> None:
    """Write a tar whose first member declares 500 MB of extended header."""
    header = tarfile.TarInfo("./PaxHeaders/a")
    header.type, header.size = tarfile.XHDTYPE, 500_000_000
    path.write_bytes(gzip.compress(header.tobuf(tarfile.USTAR_FORMAT)) + gzip.compress(b"0" * 1_000_000) * 500)


READ = """
import sys, time
from pathlib import Path
from core.datasets.importing import import_file
from core.errors import AnamnesisError
for name in sys.argv[1:]:
    began = time.process_time()
    try:
        import_file(Path(name))
    except AnamnesisError as error:
        # not ru_maxrss, which includes the memory of the parent at the fork
        peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
        print(int(peak) * 1024, time.process_time() - began, error, sep="|")
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_a_decompression_bomb_is_refused_with_little_memory(tmp_path: Path) -> None:
    bombs = {
        "line.csv.gz": one_line, "record.jsonl": one_record, "lists.json": many_lists,
        "numbers.json": many_numbers, "book.xlsx": workbook, "header.tar.gz": extended_header,
    }  # fmt: skip
    for name, write in bombs.items():
        write(tmp_path / name)
    command = [sys.executable, "-c", READ, *(str(tmp_path / name) for name in bombs)]
    environment = {"PATH": "/usr/bin:/bin", "ANAMNESIS_DB": str(tmp_path / "anamnesis.duckdb"), "HOME": str(tmp_path)}
    child = subprocess.run(command, cwd=paths.ROOT, env=environment, capture_output=True, text=True, timeout=120)
    refusals = [line.split("|", 2) for line in child.stdout.splitlines()]
    assert len(refusals) == len(bombs), child.stderr
    for name, (peak, seconds, sentence) in zip(bombs, refusals, strict=True):
        assert name.split(".")[0] in sentence
        assert int(peak) < MOST_MEMORY, name
        assert float(seconds) < 15, name


def backup(path: Path, manifest: bytes, journal: bytes) -> Path:
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, content in (("manifest.json", manifest), ("journals/a/journal.jsonl", journal)):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def test_a_damaged_manifest_of_a_backup_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    table = [
        b"", b"[]", b"{}", b"null", b'{"sha256": 3}', b'{"sha256": []}', b'{"sha256": {"a": [1]}}', b'{"sha256": null}',
        b"\xff", b"[" * 5_000,
    ]  # fmt: skip
    for manifest in table:
        with subtests.test(manifest=manifest):
            packed = backup(tmp_path / "backup.tar.gz", manifest, b"x")
            with pytest.raises(AnamnesisError, match=r"nothing was restored\."):
                restore(packed, Store(tmp_path / "new" / "anamnesis.duckdb"))
            assert not list((tmp_path / "new").glob("*"))


def test_a_decompression_bomb_in_a_backup_is_refused(tmp_path: Path) -> None:
    packed = backup(tmp_path / "backup.tar.gz", orjson.dumps({"sha256": {}}), bytes(300_000_000))
    with pytest.raises(AnamnesisError, match=r"nothing was restored\."):
        restore(packed, Store(tmp_path / "new" / "anamnesis.duckdb"))
    assert not list((tmp_path / "new").glob("*"))
