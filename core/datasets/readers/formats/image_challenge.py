"""Image challenges as the NEJM's: a list with the picture's file or address, the question, its options and the answer.

Every field is looked for under the names that such lists use; --columns names another. Read as ``plain`` reads it.
"""

from __future__ import annotations

from collections.abc import Callable

from core.datasets.readers.files import Record
from core.datasets.readers.format import CaseFields, Format, Work
from core.datasets.readers.formats.plain import OURS, reading_by
from core.errors import AnamnesisError

_IMAGE = ("image", "images", "image_path", "image_file", "image_url", "picture")
_NAMES: dict[str, tuple[str, ...]] = {
    "vignette": ("vignette", "case_vignette"),
    "question": ("question",),
    "options": ("options", "choices"),
    "answer": ("answer", "correct_answer"),
    "id": ("id", "case_id"),
    "specialty": ("specialty", "category"),
    "image": _IMAGE,
}
"""Our field → what it is called in such lists, the likeliest first."""
_SEVERAL = ("choice_{}", "option_{}", "option{}", "{}")
"""How the columns of options are called where each has its own."""
_ADDRESSES_ONLY = frozenset({"case_url", "case_id"})
"""The columns of the list of challenges that Johri et al. published."""


def _start(work: Work) -> Callable[[Record], CaseFields]:
    there = work.rows.columns
    if set(there) >= _ADDRESSES_ONLY and "answer" not in there:
        raise AnamnesisError(
            f"{work.rows.path.name} names the challenges by the addresses of their pages and holds neither questions "
            "nor answers nor pictures: make a list with the columns id, image (a file beside the list), question, "
            "options and answer."
        )
    taken = {part.strip() for theirs in work.columns.values() for part in theirs.split("+")}
    free = [name for name in there if name not in taken]
    named = {ours: next((name for name in names if name in free), "") for ours, names in _NAMES.items()}
    named["options"] = named["options"] or "+".join(_columns_of_options(free))
    return reading_by({ours: theirs for ours, theirs in named.items() if theirs} | dict(work.columns), work)


def _columns_of_options(there: list[str]) -> list[str]:
    for pattern in _SEVERAL:
        for marks in ("12345678", "ABCDEFGH", "abcdefgh"):
            found = [name for mark in marks if (name := pattern.format(mark)) in there]
            if len(found) > 1:
                return found
    return []


FORMAT = Format(
    name="image-challenge",
    title="Image challenge",
    reads="Lists with id, image, question, options and answer; the pictures are files beside the list, or with it in "
    "a zip.",
    source="",
    licence="",
    fields=frozenset({"image", "answer"}),
    also=(*(frozenset({name, "answer"}) for name in _IMAGE[1:]), _ADDRESSES_ONLY),
    without=frozenset({"choices"}),
    start=_start,
    takes=frozenset(OURS),
)
