"""Lends the folder behind a path: the folder itself, or a temporary one with what is wanted of a .zip or .tar archive.

An archive is judged by its contents, not its name. Nothing of it is written outside the temporary folder: paths that
lead out of it, links, and more bytes than allowed end the whole in one sentence before anything is used.
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
"""How a file that is packed alone begins, and what unpacks it."""
_TAR_BLOCK, _TAR_MAGIC = 512, 257


class Readable(Protocol):
    """What can be read piece by piece."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes, none at the end."""
        ...


@dataclass(frozen=True)
class Limits:
    """What an archive may hold at most, unpacked: bytes in all, times its own size, and members.

    ``way_out`` says what to do with more.
    """

    total_bytes: int = 4 * GIGABYTE
    members: int = 200_000
    ratio: int = 500
    """Above ``_SMALL`` bytes: no list of cases packs as well, and what does is there to fill the disk."""
    way_out: str = "If you trust it, allow more with --max-gb."


@contextmanager
def opened(path: Path, wanted: Callable[[PurePosixPath], bool], limits: Limits | None = None) -> Iterator[Path]:
    """Lend a folder with the contents of ``path``; of an archive only the members that are ``wanted``.

    Raises ``UsageError`` where nothing is there, ``AnamnesisError`` where it is neither a folder nor an archive, is
    damaged, too large, or not safe to unpack.
    """
    if path.is_dir():
        yield path
        return
    if not path.is_file():
        raise UsageError(f"There is no file or folder {path}.")
    with tempfile.TemporaryDirectory(prefix="anamnesis-") as folder:
        _unpack(path, Path(folder), wanted, limits or Limits())
        yield Path(folder)


def safe_name(name: str, archive: str) -> PurePosixPath:
    """Return a member's path; raise ``AnamnesisError`` where it would lead out of the folder it is unpacked into."""
    pure = PurePosixPath(name)
    drive = len(name) > 1 and name[1] == ":"
    if pure.is_absolute() or ".." in pure.parts or "\\" in name or "\0" in name or drive:
        raise AnamnesisError(
            f"{archive} holds a path outside itself ({name!r}): it is not safe to unpack; nothing was imported."
        )
    return pure


def is_archive(path: Path) -> bool:
    """Say whether a file is a .zip or a .tar, packed or not."""
    return zipfile.is_zipfile(path) or _is_tar(path)


def packed_alone(path: Path) -> ModuleType | None:
    """Return what unpacks a file that is packed with nothing else (gzip, bzip2, xz); ``None`` for all others."""
    with path.open("rb") as file:
        begins = file.read(6)
    found = next((module for sign, module in _ALONE.items() if begins.startswith(sign)), None)
    if found is None:
        return None
    try:
        with found.open(path) as file:
            first = file.read(_TAR_BLOCK)
    except _BROKEN:
        return found  # unpacking it says what is wrong
    return None if first[_TAR_MAGIC:].startswith(b"ustar") else found


def unpack_alone(path: Path, module: ModuleType, target: Path, most: int) -> None:
    """Unpack such a file; raise ``AnamnesisError`` if it is damaged or unpacks to more than ``most`` bytes.

    It is refused as soon as what was unpacked is far larger than any list of cases packs to.
    """
    written, most_packed = 0, max(_SMALL, Limits.ratio * path.stat().st_size)
    try:
        with module.open(path) as source, target.open("wb") as file:
            while block := source.read(_BLOCK):
                if (written := written + len(block)) > most:
                    raise AnamnesisError(
                        f"{path.name} unpacks to more than {most // 1_000_000} MB: nothing was imported. Split it."
                    )
                if written > most_packed:
                    raise AnamnesisError(
                        f"{path.name} unpacks to more than {Limits.ratio} times its size: nothing was imported."
                    )
                file.write(block)
    except _BROKEN as error:
        raise AnamnesisError(
            f"{path.name} cannot be unpacked ({_reason(error)}): it may be damaged or not whole. Nothing was imported."
        ) from error


def _unpack(path: Path, folder: Path, wanted: Callable[[PurePosixPath], bool], limits: Limits) -> None:
    if zipfile.is_zipfile(path):
        unpack = _unpack_zip
    elif _is_tar(path):
        unpack = _unpack_tar
    else:
        raise AnamnesisError(f"{path.name} is neither a folder nor a .zip or .tar archive.")
    try:
        unpack(path, _Folder(folder, path, wanted, limits))
    except _BROKEN as error:
        raise AnamnesisError(
            f"{path.name} cannot be unpacked ({_reason(error)}): it may be damaged or not whole. Nothing was imported."
        ) from error


class _Folder:
    """Where members go, and the account of what was declared so far."""

    def __init__(self, root: Path, archive: Path, wanted: Callable[[PurePosixPath], bool], limits: Limits) -> None:
        self._root, self._archive, self._wanted, self._limits = root, archive.name, wanted, limits
        self._most_packed = max(_SMALL, limits.ratio * archive.stat().st_size)
        self._bytes = self._members = 0

    def admit(self, name: str, size: int, *, link: bool) -> PurePosixPath | None:
        """Check a member by what its header declares; return its path if it is a wanted one."""
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
        return pure if self._wanted(pure) else None

    def read_to_end(self, source: Readable | None) -> None:
        """Read what follows the last member: the checksum of a compressed archive is only compared at its end."""
        padding = 0
        while source is not None and (block := source.read(_BLOCK)):
            padding += len(block)
            if padding > self._limits.total_bytes:
                raise EOFError("endless padding")

    def write(self, pure: PurePosixPath, source: Readable, size: int) -> None:
        """Write a member, never more than it declared."""
        target = self._root.joinpath(*pure.parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        left = size
        with target.open("wb") as file:
            while left:
                block = source.read(min(_BLOCK, left))
                if not block:
                    raise EOFError(f"{pure} ends early")
                left -= file.write(block)


def _unpack_zip(path: Path, folder: _Folder) -> None:
    with zipfile.ZipFile(path) as archive:
        admitted = []
        for info in archive.infolist():
            link = stat.S_ISLNK(info.external_attr >> 16)
            pure = folder.admit(info.orig_filename, info.file_size, link=link)
            if pure is not None and not info.is_dir():
                admitted.append((pure, info))
        for pure, info in admitted:
            with archive.open(info) as source:
                folder.write(pure, source, info.file_size)
                source.read(1)  # the checksum is only compared at the end


class PlainMember(tarfile.TarInfo):
    """A member of a tar archive whose extended header, which is read as a whole, is short."""

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
    """Say whether a file begins as a tar archive does, compressed or not; a damaged one may still do so."""
    try:
        with tarfile.open(path, "r|*", tarinfo=PlainMember) as archive:
            return archive.next() is not None
    except (tarfile.TarError, OSError, EOFError, lzma.LZMAError, zlib.error):
        # whether what cannot be read at all was at least meant as a tar archive
        with path.open("rb") as file:
            begins = file.read(6)
        return begins.startswith(tuple(_ALONE))


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).rstrip(".") or type(error).__name__
