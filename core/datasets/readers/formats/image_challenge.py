"""Image challenges as the NEJM's: a list with the picture's file or address, the question, its options and the answer.

Columns are found by the usual names of such lists, or given by --columns; ``plain`` reads the records.
"""

from __future__ import annotations

from collections.abc import Callable

from core.datasets.readers.files import Record
from core.datasets.readers.format import CaseFields, Format, Work
from core.datasets.readers.formats.plain import NAMES, TAKES, start
from core.errors import AnamnesisError

_ADDRESSES_ONLY = frozenset({"case_url", "case_id"})
"""The columns of the list of challenges that Johri et al. published."""


def _start(work: Work) -> Callable[[Record], CaseFields]:
    columns = work.rows.columns
    if set(columns) >= _ADDRESSES_ONLY and "answer" not in columns:
        raise AnamnesisError(
            f"{work.rows.path.name} has only the URLs of the challenges, and neither questions nor answers nor "
            "pictures: make a list with the columns id, image (a file next to the list), question, "
            "options and answer."
        )
    return start(work)


FORMAT = Format(
    name="image-challenge",
    title="Image challenge",
    reads="Lists with id, image, question, options and answer; the pictures are files next to the list, or with it in "
    "a zip.",
    source="",
    licence="",
    fields=frozenset({"image", "answer"}),
    also=(*(frozenset({name, "answer"}) for name in NAMES["image"][1:]), _ADDRESSES_ONLY),
    start=_start,
    takes=TAKES,
)
