"""Archives are unpacked completely or not at all, and never outside their folder."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.datasets import archive
from core.datasets.archive import ArchiveLimits, opened, safe_name
from core.errors import AnamnesisError, UsageError

MEMBERS = {"top/data/cases.csv": b"a,b\n", "top/results/m/case_0.json": b"{}" * 5000, "top/readme": b"hello"}
KINDS = [".zip", ".tar", ".tar.gz", ".tar.xz", ".tar.bz2"]


def everything(path: PurePosixPath) -> bool:
    return True


def no_readme(path: PurePosixPath) -> bool:
    return path.name != "readme"


def write(path: Path, members: dict[str, bytes]) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(zipfile.ZipInfo(name), data)
        return path
    with tarfile.open(path, f"w:{path.suffix[1:]}" if path.suffix != ".tar" else "w") as archive:
        for name, data in members.items():
            archive.addfile(member(name, len(data)), io.BytesIO(data))
    return path


def member(name: str, size: int = 0, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def tar_of(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w") as archive:
        for info in members:
            archive.addfile(info, io.BytesIO(b"x" * info.size) if info.isreg() else None)
    return path


def contents_of(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refusal(path: Path, limits: ArchiveLimits | None = None) -> str:
    with pytest.raises(AnamnesisError) as caught, opened(path, everything, limits):
        pytest.fail("it was opened")
    return str(caught.value)


def test_selected_files_are_unpacked_and_deleted_afterwards(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for kind in KINDS:
        with subtests.test(kind=kind):
            path = write(tmp_path / f"release{kind}", MEMBERS)
            with opened(path, no_readme) as folder:
                assert contents_of(folder) == {name: data for name, data in MEMBERS.items() if "readme" not in name}
            assert not folder.exists()


def test_the_type_is_recognised_by_the_contents(tmp_path: Path) -> None:
    path = write(tmp_path / "release.zip", MEMBERS).rename(tmp_path / "download")
    with opened(path, everything) as folder:
        assert contents_of(folder) == MEMBERS


def test_a_folder_is_used_in_place(tmp_path: Path) -> None:
    with opened(tmp_path, everything) as folder:
        assert folder == tmp_path
    assert tmp_path.exists()


def test_paths_outside_the_folder_are_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for kind in [".zip", ".tar"]:
        for name in ["../evil", "top/../../evil", "/tmp/evil", "C:/evil", "..\\evil"]:
            with subtests.test(kind=kind, name=name):
                inner = tmp_path / "inner"
                inner.mkdir(exist_ok=True)
                words = refusal(write(inner / f"release{kind}", {"top/a": b"", name: b"evil"}))
                assert "holds a path outside itself" in words
                assert "nothing was imported" in words
                assert not list(tmp_path.rglob("evil"))
                assert not Path("/tmp/evil").exists()


def test_links_in_a_tar_are_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for kind in [tarfile.SYMTYPE, tarfile.LNKTYPE]:
        with subtests.test(kind=kind):
            link = member("top/results", type=kind, linkname="/etc")
            assert "holds a link ('top/results')" in refusal(
                tar_of(tmp_path / "r.tar", link, member("top/results/passwd", 3))
            )


def test_links_in_a_zip_are_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("top/results")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "r.zip", "w") as archive:
        archive.writestr(info, "/etc")
    assert "holds a link ('top/results')" in refusal(tmp_path / "r.zip")


def test_devices_and_pipes_are_left_out(tmp_path: Path) -> None:
    pipe = member("top/pipe", type=tarfile.FIFOTYPE)
    with opened(tar_of(tmp_path / "r.tar", pipe, member("top/a", 2)), everything) as folder:
        assert contents_of(folder) == {"top/a": b"xx"}


def test_odd_members_of_a_tar_are_unpacked(tmp_path: Path) -> None:
    """Fields of the header that a file system cannot have: the bytes are read all the same."""
    odd = [
        member("top/a", 2, mtime=1 << 62), member("top/b", 2, mode=0), member("top/c", 2, uid=1 << 40, uname="x" * 31),
    ]  # fmt: skip
    with opened(tar_of(tmp_path / "r.tar", *odd), everything) as folder:
        assert contents_of(folder) == {f"top/{name}": b"xx" for name in "abc"}


def test_a_tar_of_ten_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.tar"
    path.write_bytes(member("top/results/m/case_0.json", 10_000_000_000).tobuf() + b"\0" * 20_000)
    words = refusal(path)
    assert "declares more than 4 GB" in words
    assert "10.00 GB" in words
    assert "--max-gb" in words


def test_a_zip_of_ten_gigabytes_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "r.zip", {"top/case_0.json": b"{}"})
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = (4_000_000_001).to_bytes(4, "little")
    path.write_bytes(data)
    assert "declares more than 4 GB" in refusal(path)


def test_an_extreme_compression_ratio_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_SMALL", 1_000)
    bomb = write(tmp_path / "r.tar.gz", {"top/a": bytes(3_000_000)})
    assert "unpacks to more than 500 times its size" in refusal(bomb)
    with opened(bomb, everything, ArchiveLimits(ratio=5_000)):
        pass


def test_the_limit_can_be_set_and_counts_everything(tmp_path: Path) -> None:
    path = write(tmp_path / "r.tar", MEMBERS)
    size = sum(map(len, MEMBERS.values()))
    with opened(path, everything, ArchiveLimits(total_bytes=size)) as folder:
        assert contents_of(folder) == MEMBERS
    assert "declares more than" in refusal(path, ArchiveLimits(total_bytes=size - 1))
    assert "2 files" in refusal(path, ArchiveLimits(members=2))


def test_an_incomplete_archive_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for kind in KINDS:
        with subtests.test(kind=kind):
            path = write(tmp_path / f"r{kind}", {"top/a": os.urandom(200_000), "top/b": os.urandom(200_000)})
            path.write_bytes(path.read_bytes()[:250_000])
            words = refusal(path)
            # without its end, a zip has no directory and is not recognised
            assert ("neither a folder nor" if kind == ".zip" else "damaged or not whole") in words


def test_a_damaged_archive_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for kind in [".zip", ".tar.gz", ".tar.xz"]:
        with subtests.test(kind=kind):
            path = write(tmp_path / f"r{kind}", {"top/a": os.urandom(200_000)})
            data = bytearray(path.read_bytes())
            data[100_000] ^= 0xFF
            path.write_bytes(data)
            assert "damaged or not whole" in refusal(path)


def test_other_files_are_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for data in [b"", b"just some words", b"\0" * 2048, b"<html></html>" * 100]:
        with subtests.test(data=data):
            path = tmp_path / "release.zip"
            path.write_bytes(data)
            assert refusal(path) == f"{path.name} is neither a folder nor a .zip or .tar archive."


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no file or folder"), opened(tmp_path / "no", everything):
        pass


@given(st.text(alphabet="ab./\\:~", max_size=12))
def test_a_safe_name_stays_inside(name: str) -> None:
    is_safe: Callable[[str], bool] = lambda n: Path("/base", n).resolve().is_relative_to("/base")  # noqa: E731
    try:
        path = safe_name(name, "r.zip")
    except AnamnesisError:
        return
    assert is_safe(str(path))
