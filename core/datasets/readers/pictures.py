"""Finds the pictures of a list of cases: files next to the list, or URLs, which are stored as text.

A path is relative to the folder of the list, or to the folder ``images`` in it, and cannot lead out of it. Nothing is
downloaded or stored here: the importer stores the files in ``ReadCases.pictures``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from core import images
from core.datasets.download import is_url
from core.datasets.readers.files import Record
from core.datasets.readers.format import RowError, Work
from core.datasets.readers.values import plain
from core.datasets.reading import ReadCases, clipped
from core.errors import UsageError
from core.images import Image

FOLDER = "images"
"""The folder of the pictures, if they are not next to the list."""
_SEPARATOR = "|"


def pictures_of(record: Record, columns: Sequence[str], work: Work) -> tuple[Image, ...]:
    """Return the distinct pictures of some fields of a record, in their order.

    A field has a path or a URL, several separated by ``|``, or a list of them. Raises ``RowError`` if a file is
    missing, no picture, damaged or too large.
    """
    places = [value for column in columns for value in _values(record.get(column), column)]
    return tuple(dict.fromkeys(_picture(value, work) for value in places))


def remark_on_addresses(reading: ReadCases) -> None:
    """Insert a first remark with the number of cases whose picture is only a URL, and what to do."""
    count = sum(any(not image.local for image in case.images) for case in reading.cases)
    if count:
        subject = "1 case has a picture that is" if count == 1 else f"{count:,} cases have pictures that are"
        reading.remarks.insert(
            0,
            (
                0,
                f"{subject} only given by a URL, and URLs are never downloaded: download the pictures yourself, "
                "replace the URLs by their paths, and import again",
            ),
        )


def _values(value: object, column: str) -> list[str]:
    if isinstance(value, Mapping | bytes):
        raise RowError(f"{column} should be a path or a URL but contains a picture: save it as a file")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [text for item in value for text in _values(item, column)]
    return [part.strip() for part in plain(value, column).split(_SEPARATOR) if part.strip()]


def _picture(value: str, work: Work) -> Image:
    if value[:5].lower() == "data:":
        raise RowError("the picture is part of the list: save it as a file and give its path")
    if is_url(value):
        return Image(url=value)
    path = _file(value, work.rows.path.parent)
    try:
        image = images.check(path)
    except UsageError as error:
        reason = str(error).rstrip(".")
        raise RowError(reason[:1].lower() + reason[1:]) from None
    work.reading.pictures[image.sha256] = path
    return image


def _file(value: str, folder: Path) -> Path:
    """Return the file of a path, which must be in the folder of the list."""
    inside = Path(os.path.abspath(folder))
    if "\0" in value or not Path(os.path.abspath(inside / value)).is_relative_to(inside):
        raise RowError(f"the picture {clipped(value)!r} is outside the list's folder: put it next to the list")
    for path in (folder / value, folder / FOLDER / value):
        try:
            if path.is_file():
                return path
        except OSError:  # the path is too long
            break
    raise RowError(
        f"the picture {clipped(value)!r} is missing: it is neither next to the list nor in a folder {FOLDER} there"
    )
