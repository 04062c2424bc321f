"""Any table or list of records whose columns hold vignette, question, options, answer, id and specialty.

Each is looked for under its own name unless --columns gives another. Options stand in one column (a list, letters with
texts, or texts parted by |) or in several, named with + between them. The answer is an option's text, its letter, or,
where options are numbered, its number as it stands there. A picture is the path of a file beside the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import orjson

from core.case import FINAL_QUESTION
from core.datasets.readers.files import Record
from core.datasets.readers.format import CaseFields, Format, RowError, Work
from core.datasets.readers.item import item_fields, known_specialty, split_item
from core.datasets.readers.pictures import pictures_of
from core.datasets.readers.values import by_letter, checked_options, lettered, optional, options, same, text
from core.datasets.reading import clipped
from core.errors import AnamnesisError

OURS = ("vignette", "question", "options", "answer", "id", "specialty", "image")
_SHOWN = 20
"""Columns that a message names."""


def _start(work: Work) -> Callable[[Record], CaseFields]:
    there = set(work.rows.columns)
    # a column that was named for one thing is not looked at for another
    taken = {part for theirs in work.columns.values() for part in _parts(theirs)}
    return reading_by({ours: ours for ours in OURS if ours in there - taken} | dict(work.columns), work)


def reading_by(named: Mapping[str, str], work: Work) -> Callable[[Record], CaseFields]:
    """Return what reads a record by its columns: our field → theirs, several named with + between them.

    Raises ``AnamnesisError`` where a column is not there, or there are none for what every case has.
    """
    there = set(work.rows.columns)
    for ours, theirs in named.items():
        missing = [name for name in _parts(theirs) if name not in there] if there else []
        if missing:
            raise AnamnesisError(
                f"{work.rows.path.name} has no column {missing[0]!r} (given for {ours}): it has {_listed(there)}."
            )
    if "answer" not in named or not {"vignette", "question"} & named.keys():
        raise AnamnesisError(
            f"{work.rows.path.name} needs columns for vignette or question, and for answer: it has {_listed(there)}; "
            "say which they are with --columns vignette=…,answer=…."
        )
    return lambda record: _fields(record, named, work)


def _listed(names: set[str]) -> str:
    shown = [clipped(name) for name in sorted(names)[:_SHOWN]]
    return ", ".join([*shown, "…"] if len(names) > _SHOWN else shown) or "none"


def _parts(theirs: str) -> list[str]:
    return [part.strip() for part in theirs.split("+")]


def _fields(record: Record, named: Mapping[str, str], work: Work) -> CaseFields:
    vignette, question = _told(record, named)
    choices = _options(record, _parts(named["options"])) if "options" in named else {}
    said = text(record, named["answer"])
    answer = _answer(said, choices) if choices else said
    called = optional(record, named["specialty"]) if "specialty" in named else ""
    specialty = known_specialty(called)
    if called and specialty is None:
        work.remark(f"{called!r} is none of the twelve specialties and counts as Other")
    record_id = optional(record, named["id"]) if "id" in named else None
    images = pictures_of(record, _parts(named["image"]), work) if "image" in named else ()
    return item_fields(record_id, vignette, question, choices, answer, specialty=specialty or "Other", images=images)


def _told(record: Record, named: Mapping[str, str]) -> tuple[str, str]:
    vignette = optional(record, named["vignette"]) if "vignette" in named else ""
    question = optional(record, named["question"]) if "question" in named else ""
    if vignette and question:
        return vignette, question
    if not vignette and not question:
        raise RowError(f"{' and '.join(named[name] for name in ('vignette', 'question') if name in named)} is empty")
    if not vignette:
        return split_item(question)
    told, asked = split_item(vignette)
    # one sentence in a column of vignettes tells of a patient where it does not ask
    return (told, asked) if told != asked or "?" in told else (told, FINAL_QUESTION)


def _options(record: Record, columns: list[str]) -> dict[str, str]:
    """Return letter → option, or nothing for a record without options."""
    if len(columns) > 1:
        pairs = lettered([optional(record, name) for name in columns], "options")
        while pairs and not pairs[-1][1]:
            pairs.pop()
        return checked_options(pairs) if pairs else {}
    value = record.get(columns[0])
    if isinstance(value, str) and value.strip():
        return options({"options": _cell(value.strip())})
    return options(record, columns[0]) if value else {}


def _cell(value: str) -> object:
    if value[0] not in "[{":
        return [part.strip() for part in value.split("|")]
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        raise RowError("the options begin like JSON but are none") from None


def _answer(said: str, choices: Mapping[str, str]) -> str:
    found = [choice for choice in choices.values() if same(choice, said)]
    if found:
        return found[0]
    if len(said.strip("(). ")) == 1 or said.strip().upper() in choices:
        return by_letter(said, choices, "the answer")
    raise RowError(f"the answer {said!r} is none of the options")


FORMAT = Format(
    name="plain",
    title="Plain",
    reads="Any records with vignette or question, options and answer; --columns says which column holds what.",
    source="",
    licence="",
    fields=frozenset({"answer"}),
    without=frozenset({"choices"}),
    start=_start,
    takes=frozenset(OURS),
)
