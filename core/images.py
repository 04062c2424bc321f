"""Pictures of cases: stored under the hash of their contents, read from local files only, never downloaded.

Source: Johri et al. 2025, Methods (NEJM Image Challenge): only the doctor sees the picture.
"""

from __future__ import annotations

import base64
import hashlib
import os
import struct
import uuid
import warnings
import zlib
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from core import paths
from core.errors import AnamnesisError, UsageError

SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif"}
"""Media types that models accept → suffix of stored files."""
MAX_BYTES = 20 * 1024**2
"""Largest stored picture: hosted models accept no larger ones."""
MAX_PIXELS = 50_000_000
"""Most pixels of a stored picture: protects against small files that unpack to exhaust the memory."""

_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "MPO": "image/jpeg", "WEBP": "image/webp", "GIF": "image/gif"}
_DAMAGED = (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError, struct.error, zlib.error)
"""Errors of pillow's decoders for incomplete or damaged files."""


class Image(BaseModel):
    """One picture of a case.

    ``sha256`` is the hash of the file's bytes, ``media_type`` is ``image/png`` or similar, ``size`` is in bytes,
    ``name`` is the original file name. A picture without a file has ``url`` and no hash: the URL is stored as text and
    never downloaded.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str = ""
    media_type: str = ""
    size: int = 0
    name: str = ""
    url: str = ""

    @property
    def local(self) -> bool:
        return bool(self.sha256)

    @property
    def path(self) -> Path:
        return folder() / f"{self.sha256}{SUFFIXES.get(self.media_type, '')}"

    @property
    def called(self) -> str:
        return f"The picture {self.name!r}" if self.name else f"The picture {self.sha256[:12] or self.url!r}"


def folder() -> Path:
    """Return the folder of stored pictures, each named by its hash."""
    return paths.local_folder() / "images"


def local_images(images: Iterable[Image]) -> tuple[Image, ...]:
    """Return the pictures with an imported file, which can be shown."""
    return tuple(image for image in images if image.local)


def check(picture: bytes | Path, name: str = "") -> Image:
    """Check a picture like ``keep``, and return its record without storing the file."""
    return _checked(picture, name)[0]


def keep(picture: bytes | Path, name: str = "") -> Image:
    """Check a picture, store its file under its hash, and return its record.

    ``picture`` is the file or its contents, ``name`` its name (default: the file name). The type is determined from the
    contents. Raises ``UsageError`` if the file is missing, empty, larger than ``MAX_BYTES``, no picture of a known
    type, damaged, or has more than ``MAX_PIXELS``, and ``AnamnesisError`` if it cannot be written.
    """
    image, data = _checked(picture, name)
    try:
        _write(image.path, data)
    except OSError as error:
        raise AnamnesisError(f"{image.called} cannot be stored in {folder()}: {error.strerror or error}.") from error
    return image


def contents(image: Image) -> bytes:
    """Return the bytes of a stored picture; raises ``UsageError`` if the file is missing, unreadable or changed."""
    if not image.local:
        raise UsageError(
            f"{image.called} is only known by its address, which is never fetched: "
            "import the cases again with the picture's file."
        )
    try:
        data = image.path.read_bytes()
    except FileNotFoundError:
        raise UsageError(
            f"{image.called} is gone: there is no {image.path}. Import the cases again, with their pictures."
        ) from None
    except OSError as error:
        raise UsageError(f"{image.called} cannot be read from {image.path}: {error.strerror or error}.") from None
    if hashlib.sha256(data).hexdigest() != image.sha256:
        raise UsageError(
            f"{image.called} has changed: {image.path} is not the file that was imported. "
            "Import the cases again, with their pictures."
        )
    return data


def data_url(image: Image) -> str:
    """Return a stored picture as a base64 data URL; raises the errors of ``contents``."""
    return f"data:{image.media_type};base64,{base64.b64encode(contents(image)).decode()}"


def _checked(picture: bytes | Path, name: str) -> tuple[Image, bytes]:
    name = name or (picture.name if isinstance(picture, Path) else "")
    called = f"The picture {name!r}" if name else "The picture"
    data = _bytes_of(picture, called) if isinstance(picture, Path) else picture
    _check_size(len(data), called)
    # imported here: pillow loads a hundred modules, and most commands need no pictures
    from PIL import Image as Pillow
    from PIL import UnidentifiedImageError

    bomb = f"{called} unpacks to more than {MAX_PIXELS // 10**6} million pixels: save it smaller."
    try:
        with warnings.catch_warnings(action="ignore", category=Pillow.DecompressionBombWarning):
            with Pillow.open(BytesIO(data), formats=("PNG", "JPEG", "WEBP", "GIF")) as opened:
                format_, pixels = opened.format or "", opened.width * opened.height
                if pixels > MAX_PIXELS:
                    raise UsageError(bomb)
                opened.verify()
            with Pillow.open(BytesIO(data), formats=(format_ if format_ != "MPO" else "JPEG",)) as reopened:
                reopened.load()  # decodes the complete picture
    except Pillow.DecompressionBombError:
        raise UsageError(bomb) from None
    except UnidentifiedImageError:
        raise UsageError(f"{called} is no picture that models take: bring a PNG, JPEG, WebP or GIF file.") from None
    except _DAMAGED as error:
        raise UsageError(f"{called} is damaged or cut short ({_first_line(error)}): bring the whole file.") from None
    sha256, media_type = hashlib.sha256(data).hexdigest(), _TYPES[format_]
    return Image(sha256=sha256, media_type=media_type, size=len(data), name=name), data


def _bytes_of(path: Path, called: str) -> bytes:
    try:
        if path.is_dir():
            raise UsageError(f"{called} is a folder and not a file: {path}.")
        if not path.is_file():
            raise UsageError(f"{called} is missing: there is no file {path}.")
        _check_size(path.stat().st_size, called)
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: an invalid path, such as one with a NUL character
        raise UsageError(f"{called} cannot be read from {str(path)!r}: {error}.") from None


def _check_size(size: int, called: str) -> None:
    if size == 0:
        raise UsageError(f"{called} is empty: its file has no bytes.")
    if size > MAX_BYTES:
        raise UsageError(
            f"{called} has {size / 1024**2:.1f} MB, and at most {MAX_BYTES // 1024**2} MB are taken: "
            "save it smaller, or in another format."
        )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _write(path: Path, data: bytes) -> None:
    """Write the file atomically, unless it already exists with these contents."""
    if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{uuid.uuid4().hex}.half")
    try:
        with half.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(half, path)
    finally:
        half.unlink(missing_ok=True)
