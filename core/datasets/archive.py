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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Protocol

from core.errors import AnamnesisError, UsageError

GIGABYTE = 1_000_000_000
_BLOCK = 1 << 20
_SMALL = 100_000_000
_BROKEN = (zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, RuntimeError, OSError)


_ALONE: Mapping[bytes, ModuleType] = {b"\x1f\x8b": gzip, b"BZh": bz2, b"\xfd7zXZ\x00": lzma}
"""First bytes of a single compressed file → the module that unpacks it."""
_TAR_BLOCK, _TAR_MAGIC = 512, 257
_ZSTANDARD = 93
"""Number of the compression in a .zip file."""
_LOCAL_HEADER = 30
"""Bytes of the fixed part of the header in front of a member of a .zip file."""


class ReadableFile(Protocol):
    """A file-like object that can be read in blocks."""

    def read(self, size: int, /) -> bytes: ...


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
    """Return whether a file is a .zip or a (compressed) .tar archive."""
    return zipfile.is_zipfile(path) or _is_tar(path)


def packed_alone(path: Path) -> ModuleType | None:
    """Return the module that unpacks a single compressed file (gzip, bzip2, xz); ``None`` for other files."""
    with path.open("rb") as file:
        beginning = file.read(6)
    module = next((module for sign, module in _ALONE.items() if beginning.startswith(sign)), None)
    if module is None:
        return None
    try:
        with module.open(path) as file:
            first = file.read(_TAR_BLOCK)
    except _BROKEN:
        return module  # unpacking it will raise the error
    return None if first[_TAR_MAGIC:].startswith(b"ustar") else module


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
    if zipfile.is_zipfile(path):
        unpack = _unpack_zip
    elif _is_tar(path):
        unpack = _unpack_tar
    else:
        raise AnamnesisError(f"{path.name} is neither a folder nor a .zip or .tar archive.")
    try:
        unpack(path, _Folder(folder, path, include, limits))
    except _BROKEN as error:
        raise AnamnesisError(
            f"{path.name} cannot be unpacked ({_reason(error)}): it may be damaged or not whole. Nothing was imported."
        ) from error


class _Folder:
    """The target folder, with the number of declared bytes and members so far."""

    def __init__(
        self, root: Path, archive: Path, include: Callable[[PurePosixPath], bool], limits: ArchiveLimits
    ) -> None:
        self._root, self._archive, self._include, self._limits = root, archive.name, include, limits
        self._most_packed = max(_SMALL, limits.ratio * archive.stat().st_size)
        self._bytes = self._members = 0

    def admit(self, name: str, size: int, *, link: bool) -> PurePosixPath | None:
        """Check a member by its header; return its path if it is to be unpacked."""
        pure = safe_name(name, self._archive)
        if link:
            raise AnamnesisError(
                f"{self._archive} holds a link ({name!r}): it is not safe to unpack; nothing was imported."
            )
        self._bytes += size
        self._members += 1
        if self._bytes > self._limits.total_bytes or self._members > self._limits.members:
            raise AnamnesisError(
                f"{self._archive} declares more than {self._limits.total_bytes / GIGABYTE:g} GB or "
                f"{self._limits.members:,} files ({name!r} alone {size / GIGABYTE:.2f} GB): nothing was imported. "
                f"{self._limits.way_out}"
            )
        if self._bytes > self._most_packed:
            raise AnamnesisError(
                f"{self._archive} unpacks to more than {self._limits.ratio} times its size: nothing was imported. If "
                "you trust it, unpack it yourself and import what is in it."
            )
        return pure if self._include(pure) else None

    def read_to_end(self, source: ReadableFile | None) -> None:
        """Read to the end of the archive, where the checksum of a compressed archive is compared."""
        padding = 0
        while source is not None and (block := source.read(_BLOCK)):
            padding += len(block)
            if padding > self._limits.total_bytes:
                raise EOFError("endless padding")

    def write(self, pure: PurePosixPath, source: ReadableFile, size: int) -> None:
        target = self._root.joinpath(*pure.parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        remaining = size
        with target.open("wb") as file:
            while remaining:
                block = source.read(min(_BLOCK, remaining))
                if not block:
                    raise EOFError(f"{pure} ends early")
                remaining -= file.write(block)


def _unpack_zip(path: Path, folder: _Folder) -> None:
    with zipfile.ZipFile(path) as archive:
        admitted = []
        for info in archive.infolist():
            link = stat.S_ISLNK(info.external_attr >> 16)
            pure = folder.admit(info.orig_filename, info.file_size, link=link)
            if pure is not None and not info.is_dir():
                admitted.append((pure, info))
        for pure, info in admitted:
            with _member(archive, info) as source:
                folder.write(pure, source, info.file_size)
                source.read(1)  # the checksum is only compared at the end


@contextmanager
def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[ReadableFile]:
    if info.compress_type == _ZSTANDARD and not hasattr(zipfile, "ZIP_ZSTANDARD"):
        yield _ZstandardMember(archive, info)
        return
    with archive.open(info) as source:
        yield source


class _ZstandardMember:
    """A member that is compressed by Zstandard, which ``zipfile`` cannot read before Python 3.14."""

    def __init__(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        import pyarrow as pa  # slow to load

        file = archive.fp
        if file is None or info.compress_size > _SMALL * 10:
            raise zipfile.BadZipFile(f"{info.filename} is too large")
        file.seek(info.header_offset)
        header = file.read(_LOCAL_HEADER)
        if len(header) < _LOCAL_HEADER or not header.startswith(b"PK\3\4"):
            raise zipfile.BadZipFile(f"{info.filename} has no header")
        file.seek(
            sum(int.from_bytes(header[at : at + 2], "little") for at in (26, 28)), 1
        )  # its name, and extra fields
        self._stream = pa.CompressedInputStream(pa.BufferReader(file.read(info.compress_size)), "zstd")
        self._info, self._read, self._checksum = info, 0, 0

    def read(self, size: int, /) -> bytes:
        block: bytes = self._stream.read(size)
        self._read += len(block)
        self._checksum = zlib.crc32(block, self._checksum)
        wrong = self._read > self._info.file_size or (not block and self._checksum != self._info.CRC)
        if wrong:
            raise zipfile.BadZipFile(f"{self._info.filename} has another size or checksum")
        return block


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


def _unpack_tar(path: Path, folder: _Folder) -> None:
    with tarfile.open(path, "r:*", tarinfo=PlainMember) as archive:
        for member in archive:
            link = member.issym() or member.islnk()
            pure = folder.admit(member.name, member.size, link=link)
            source = archive.extractfile(member) if pure is not None and member.isfile() else None
            if pure is not None and source is not None:
                folder.write(pure, source, member.size)
        folder.read_to_end(archive.fileobj)


def _is_tar(path: Path) -> bool:
    """Return whether a file begins like a (compressed) tar archive, even if it is damaged."""
    try:
        with tarfile.open(path, "r|*", tarinfo=PlainMember) as archive:
            return archive.next() is not None
    except (tarfile.TarError, OSError, EOFError, lzma.LZMAError, zlib.error):
        # a compressed file that cannot be read: treated as a damaged archive
        with path.open("rb") as file:
            beginning = file.read(6)
        return beginning.startswith(tuple(_ALONE))


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    # tarfile lists on further lines why it is none of its kinds
    return str(error).partition("\n")[0].rstrip(".:") or type(error).__name__
