"""Finds the pictures that a list of cases names: files beside the list, or addresses, which are kept as text.

A path counts from the list's own folder or the folder ``images`` in it, and leads nowhere else. Nothing is fetched, and
nothing is kept yet: whoever imports the cases keeps the files in ``Reading.pictures``.
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
from core.datasets.reading import Reading, clipped
from core.errors import UsageError
from core.images import Image

FOLDER = "images"
"""Where a list's pictures lie if not beside it."""
_SEPARATOR = "|"


def pictures_of(record: Record, columns: Sequence[str], work: Work) -> tuple[Image, ...]:
    """Return the pictures that some fields of a record name, each once and in their order.

    A field holds a path or an address, several parted by ``|``, or a list of them. Raises ``RowError`` where a file is
    missing, no picture, damaged or too large.
    """
    named = [value for column in columns for value in _values(record.get(column), column)]
    return tuple(dict.fromkeys(_picture(value, work) for value in named))


def tell_of_addresses(reading: Reading) -> None:
    """Say once, before all other remarks, of how many cases a picture is only an address, and what to do."""
    count = sum(any(not image.local for image in case.images) for case in reading.cases)
    if count:
        of = "1 case has a picture that is" if count == 1 else f"{count:,} cases have pictures that are"
        reading.remarks.insert(
            0,
            (
                0,
                f"{of} only named by an address, and addresses are never fetched: fetch the pictures yourself, put "
                "their paths in place of the addresses, and import again",
            ),
        )


def _values(value: object, column: str) -> list[str]:
    if isinstance(value, Mapping | bytes):
        raise RowError(f"{column} should be a path or an address but holds a picture itself: save it as a file")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [found for one in value for found in _values(one, column)]
    return [part for one in plain(value, column).split(_SEPARATOR) if (part := one.strip())]


def _picture(value: str, work: Work) -> Image:
    if value[:5].lower() == "data:":
        raise RowError("the picture stands in the list itself: save it as a file and give its path")
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
    """Return the file that a path names, which is in the list's folder."""
    inside = Path(os.path.abspath(folder))
    if "\0" in value or not Path(os.path.abspath(inside / value)).is_relative_to(inside):
        raise RowError(f"the picture {clipped(value)!r} lies outside the list's folder: put it beside the list")
    for path in (folder / value, folder / FOLDER / value):
        try:
            if path.is_file():
                return path
        except OSError:  # longer than a path can be
            break
    raise RowError(
        f"the picture {clipped(value)!r} is missing: it is neither beside the list nor in a folder {FOLDER} there"
    )
