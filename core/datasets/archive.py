"""Yields the folder behind a path: the folder itself, or a temporary one with members of a .zip or .tar archive.

The contents decide whether a file is an archive, not its name. Nothing is written outside the temporary folder: paths
that lead out of it, links, and more bytes than allowed raise an error before any member is used.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import TypeVar

from core.errors import AnamnesisError, UsageError

GIGABYTE = 1_000_000_000
_BLOCK = 1 << 20
_SMALL = 100_000_000
_BROKEN = (zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, RuntimeError, OSError)

_ALONE: Mapping[bytes, ModuleType] = {b"\x1f\x8b": gzip, b"BZh": bz2, b"\xfd7zXZ\x00": lzma}
"""First bytes of a single compressed file → the module that unpacks it."""
_ZSTANDARD = 93
"""Number of the compression in a .zip file."""
M = TypeVar("M", zipfile.ZipInfo, tarfile.TarInfo)


@dataclass(frozen=True)
class ArchiveLimits:
    """Limits of an unpacked archive: total bytes, ratio to its packed size, and number of members.

    ``way_out`` is the advice if a limit is exceeded.
    """

    total_bytes: int = 4 * GIGABYTE
    members: int = 200_000
    ratio: int = 500
    """Applies above ``_SMALL`` bytes: no list of cases compresses better, but archives made to fill a disk do."""
    way_out: str = "If you trust it, allow more with --max-gb."


@contextmanager
def opened(path: Path, include: Callable[[PurePosixPath], bool], limits: ArchiveLimits | None = None) -> Iterator[Path]:
    """Yield a folder with the contents of ``path``; from an archive only the members that ``include`` accepts.

    Raises ``UsageError`` if the path does not exist, ``AnamnesisError`` if it is neither a folder nor an archive, or is
    damaged, too large, or not safe to unpack.
    """
    if path.is_dir():
        yield path
        return
    if not path.is_file():
        raise UsageError(f"There is no file or folder {path}.")
    with tempfile.TemporaryDirectory(prefix="anamnesis-") as folder:
        _unpack(path, Path(folder), include, limits or ArchiveLimits())
        yield Path(folder)


def safe_name(name: str, archive: str) -> PurePosixPath:
    """Return a member's path; raises ``AnamnesisError`` if it leads out of the target folder."""
    pure = PurePosixPath(name)
    drive = len(name) > 1 and name[1] == ":"
    if pure.is_absolute() or ".." in pure.parts or "\\" in name or "\0" in name or drive:
        raise AnamnesisError(
            f"{archive} holds a path outside itself ({name!r}): it is not safe to unpack; nothing was imported."
        )
    return pure


def is_archive(path: Path) -> bool:
    """Return whether a file is a .zip or .tar archive, or compressed, since a damaged archive may look like no .tar."""
    return zipfile.is_zipfile(path) or _is_tar(path) or _compression_of(path) is not None


def packed_alone(path: Path) -> ModuleType | None:
    """Return the module that unpacks a single compressed file (gzip, bzip2, xz); ``None`` for other files."""
    return None if _is_tar(path) else _compression_of(path)


def _compression_of(path: Path) -> ModuleType | None:
    with path.open("rb") as file:
        beginning = file.read(6)
    return next((module for sign, module in _ALONE.items() if beginning.startswith(sign)), None)


def unpack_alone(path: Path, module: ModuleType, target: Path, most: int) -> None:
    """Unpack a single compressed file; raises ``AnamnesisError`` if it is damaged or larger than ``most`` bytes.

    Stops as soon as the ratio to the packed size exceeds ``ArchiveLimits.ratio``.
    """
    written, most_packed = 0, max(_SMALL, ArchiveLimits.ratio * path.stat().st_size)
    try:
        with module.open(path) as source, target.open("wb") as file:
            while block := source.read(_BLOCK):
                if (written := written + len(block)) > most:
                    raise AnamnesisError(
                        f"{path.name} unpacks to more than {most // 1_000_000} MB: nothing was imported. Split it."
                    )
                if written > most_packed:
                    raise AnamnesisError(
                        f"{path.name} unpacks to more than {ArchiveLimits.ratio} times its size: nothing was imported."
                    )
                file.write(block)
    except _BROKEN as error:
        raise AnamnesisError(
            f"{path.name} cannot be unpacked ({_reason(error)}): it may be damaged or not whole. Nothing was imported."
        ) from error


def _unpack(path: Path, folder: Path, include: Callable[[PurePosixPath], bool], limits: ArchiveLimits) -> None:
    if not is_archive(path):
        raise AnamnesisError(f"{path.name} is neither a folder nor a .zip or .tar archive.")
    unpack = _unpack_zip if zipfile.is_zipfile(path) else _unpack_tar
    try:
        unpack(path, folder, include, limits)
    except _BROKEN as error:
        raise AnamnesisError(
            f"{path.name} cannot be unpacked ({_reason(error)}): it may be damaged or not whole. Nothing was imported."
        ) from error


def _admitted(
    members: Iterable[tuple[M, str, int, bool]],
    path: Path,
    include: Callable[[PurePosixPath], bool],
    limits: ArchiveLimits,
) -> Iterator[M]:
    """Check members by their headers, (member, name, bytes, whether it is a link), and yield those to unpack."""
    declared, most_packed = 0, max(_SMALL, limits.ratio * path.stat().st_size)
    for count, (member, name, size, is_link) in enumerate(members, start=1):
        pure = safe_name(name, path.name)
        if is_link:
            raise AnamnesisError(
                f"{path.name} holds a link ({name!r}): it is not safe to unpack; nothing was imported."
            )
        declared += size
        if declared > limits.total_bytes or count > limits.members:
            raise AnamnesisError(
                f"{path.name} declares more than {limits.total_bytes / GIGABYTE:g} GB or {limits.members:,} files "
                f"({name!r} alone {size / GIGABYTE:.2f} GB): nothing was imported. {limits.way_out}"
            )
        if declared > most_packed:
            raise AnamnesisError(
                f"{path.name} unpacks to more than {limits.ratio} times its size: nothing was imported. If you trust "
                "it, unpack it yourself and import what is in it."
            )
        if include(pure):
            yield member


def _unpack_zip(path: Path, folder: Path, include: Callable[[PurePosixPath], bool], limits: ArchiveLimits) -> None:
    with zipfile.ZipFile(path) as archive:
        members = (
            (info, info.orig_filename, info.file_size, stat.S_ISLNK(info.external_attr >> 16))
            for info in archive.infolist()
        )
        for info in list(_admitted(members, path, include, limits)):
            if info.compress_type == _ZSTANDARD and not hasattr(zipfile, "ZIP_ZSTANDARD"):
                _unpack_zstandard(archive, info, folder / info.filename)
            else:
                archive.extract(info, folder)


def _unpack_zstandard(archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path) -> None:
    """Unpack a member that is compressed by Zstandard, which ``zipfile`` cannot read before Python 3.14."""
    import pyarrow as pa  # slow to load

    packed = copy(info)
    packed.compress_type, packed.file_size = zipfile.ZIP_STORED, info.compress_size
    del packed.CRC  # the checksum is that of the unpacked bytes
    target.parent.mkdir(parents=True, exist_ok=True)
    size = checksum = 0
    with (
        archive.open(packed) as source,
        pa.CompressedInputStream(pa.PythonFile(source), "zstd") as stream,  # type: ignore[arg-type]
        target.open("wb") as file,
    ):
        while size <= info.file_size and (block := stream.read(_BLOCK)):
            size += file.write(block)
            checksum = zlib.crc32(block, checksum)
    if (size, checksum) != (info.file_size, info.CRC):
        raise zipfile.BadZipFile(f"{info.filename} has another size or checksum")


class PlainMember(tarfile.TarInfo):
    """A member of a tar archive that rejects long extended headers, because they are read into memory."""

    def _proc_pax(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        self._check_header()
        return super()._proc_pax(archive)  # type: ignore[misc,no-any-return]

    def _proc_gnulong(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        self._check_header()
        return super()._proc_gnulong(archive)  # type: ignore[misc,no-any-return]

    def _check_header(self) -> None:
        if self.size > _BLOCK:
            raise tarfile.ReadError("the extended header of a member is too long")


def _unpack_tar(path: Path, folder: Path, include: Callable[[PurePosixPath], bool], limits: ArchiveLimits) -> None:
    with tarfile.open(path, "r:*", tarinfo=PlainMember) as archive:
        members = ((member, member.name, member.size, member.issym() or member.islnk()) for member in archive)
        for member in _admitted(members, path, include, limits):
            if member.isfile():
                archive.extract(member, folder, set_attrs=False, filter="data")
        # at the end of a compressed archive its checksum is compared
        padding = 0
        while archive.fileobj is not None and (block := archive.fileobj.read(_BLOCK)):
            if (padding := padding + len(block)) > limits.total_bytes:
                raise EOFError("endless padding")


def _is_tar(path: Path) -> bool:
    """Return whether the first member of a (compressed) tar archive can be read."""
    try:
        with tarfile.open(path, "r:*", tarinfo=PlainMember) as archive:
            return archive.next() is not None
    except _BROKEN:
        return False


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    # tarfile lists on further lines why it is none of its kinds
    return str(error).partition("\n")[0].rstrip(".:") or type(error).__name__
