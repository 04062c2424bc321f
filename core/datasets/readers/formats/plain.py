"""Any table or list of records whose columns hold vignette, question, options, answer, id and specialty.

Each is looked for under the names that such files use unless --columns gives another. Options stand in one column (a
list, letters with texts, or texts parted by |) or in several, named with + between them. The answer is an option's
text, its letter, its number as it stands there where options are numbered, and else its place: whether places count
from 0 or from 1 the values of the whole file decide. A picture is the path of a file beside the list. A specialty stays
as it is called there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping

import orjson

from core.case import FINAL_QUESTION, SPECIALTIES
from core.datasets.readers.files import Damaged, Record
from core.datasets.readers.format import CaseFields, Format, RowError, Work
from core.datasets.readers.item import item_fields, split_item
from core.datasets.readers.pictures import pictures_of
from core.datasets.readers.values import by_letter, checked_options, lettered, optional, options, same, text
from core.datasets.reading import clipped
from core.errors import AnamnesisError, UsageError

NAMES: dict[str, tuple[str, ...]] = {
    "vignette": ("vignette", "case_vignette", "case_text", "stem", "text"),
    "question": ("question", "question_text", "query"),
    "options": ("options", "choices"),
    "answer": (
        "answer", "correct_answer", "right_answer", "correct_option", "correct", "answer_idx", "answer_index",
        "answer_key", "answer_letter", "cop", "label", "gold", "target",
    ),
    "id": ("id", "case_id", "question_id", "qid"),
    "specialty": ("specialty", "speciality", "category", "subject", "subject_name", "field"),
    "image": ("image", "images", "image_path", "image_file", "image_url", "picture"),
}  # fmt: skip
"""Our field → what it is called in such files, in any case of letters, the likeliest first."""
_SEVERAL = ("choice_{}", "choice{}", "option_{}", "option{}", "op{}", "answer_{}", "{}")
"""How the columns of options are called where each has its own."""
FIRST = "first"
"""What --columns calls the number of the first option, where answers are places: 0 or 1."""
TAKES = frozenset({*NAMES, FIRST})
_LETTERED = re.compile(r"\(?([A-Za-z])[).:]\s*(.+)", re.DOTALL)
"""An answer with its letter, such as "B. Gout"."""
_SHOWN = 20
"""Columns that a message names."""


def guessed(columns: Iterable[str]) -> dict[str, str]:
    """Return our field → the column that is called so, of several the likeliest; options may stand in several."""
    called = {re.sub(r"[\s-]+", "_", name.strip().lower()): name for name in columns}
    found = {ours: next((called[name] for name in names if name in called), "") for ours, names in NAMES.items()}
    for pattern in _SEVERAL:
        for marks in ("abcdefghijklmnopqrstuvwxyz", "123456789"):
            several = [called[name] for mark in marks if (name := pattern.format(mark)) in called]
            if len(several) > 1 and called.get(pattern.format(marks[0])) and not found["options"]:
                found["options"] = "+".join(several)
    return {ours: theirs for ours, theirs in found.items() if theirs}


def is_told(named: Mapping[str, str]) -> bool:
    """Say whether columns are named for what every case has."""
    return "answer" in named and bool({"vignette", "question"} & named.keys())


def start(work: Work) -> Callable[[Record], CaseFields]:
    """Return what reads a record by its columns: those that the user named, and else those that are called so.

    Raises ``AnamnesisError`` where a column is not there, or there are none for what every case has, and ``UsageError``
    where nothing tells from what number on places of options count.
    """
    there = set(work.rows.columns)
    first, given = work.columns.get(FIRST, ""), {k: v for k, v in work.columns.items() if k != FIRST}
    # a column that was named for one thing is not looked at for another
    taken = {part for theirs in given.values() for part in _parts(theirs)}
    named = guessed(name for name in work.rows.columns if name not in taken) | given
    for ours, theirs in named.items():
        missing = [name for name in _parts(theirs) if name not in there] if there else []
        if missing:
            raise AnamnesisError(
                f"{work.rows.path.name} has no column {missing[0]!r} (given for {ours}): it has {_listed(there)}."
            )
    if not is_told(named):
        raise AnamnesisError(
            f"{work.rows.path.name} needs columns for vignette or question, and for answer: it has {_listed(there)}; "
            "say which they are with --columns vignette=…,answer=…."
        )
    if first and first not in ("0", "1"):
        raise UsageError(f"--columns {FIRST}={first} is not known: give {FIRST}=0 or {FIRST}=1.")
    begin = int(first) if first else _first_number(named, work)
    return lambda record: _fields(record, named, work, begin)


def _first_number(named: Mapping[str, str], work: Work) -> int:
    """Return the number of the first option where answers are places, as the values of the whole file show."""
    found: dict[int, int] = {}
    for _, record in work.rows if "options" in named else ():
        if isinstance(record, Damaged):
            continue
        try:
            choices, said = _options(record, _parts(named["options"])), optional(record, named["answer"])
        except RowError:
            continue  # it is rejected with this reason when it is read
        if said.isdecimal() and said not in choices and not any(same(one, said) for one in choices.values()):
            found[int(said)] = min(len(choices), found.get(int(said), len(choices)))
    zero, last = 0 in found, any(number == fewest for number, fewest in found.items())
    name, column = work.rows.path.name, named["answer"]
    if zero and last:
        raise AnamnesisError(
            f"{name} holds {column} 0 as well as the number of all options: it cannot count them from 0 and from 1."
        )
    if zero or last:
        work.remark(f"{column} counts the options from {0 if zero else 1}, as its values show", whole_file=True)
    elif any(0 < number < fewest for number, fewest in found.items()):
        raise UsageError(
            f"{name} does not tell whether {column} counts the options from 0 or from 1: say the number of the first "
            f"with --columns {FIRST}=0 or {FIRST}=1."
        )
    return 0 if zero else 1


def _listed(names: set[str]) -> str:
    shown = [clipped(name) for name in sorted(names)[:_SHOWN]]
    return ", ".join([*shown, "…"] if len(names) > _SHOWN else shown) or "none"


def _parts(theirs: str) -> list[str]:
    return [part.strip() for part in theirs.split("+")]


def _fields(record: Record, named: Mapping[str, str], work: Work, first: int) -> CaseFields:
    vignette, question = _told(record, named)
    choices = _options(record, _parts(named["options"])) if "options" in named else {}
    said = text(record, named["answer"])
    answer = right_option(said, choices, first) if choices else said
    called = " ".join(optional(record, named["specialty"]).split()) if "specialty" in named else ""
    specialty = next((one for one in SPECIALTIES if one.lower() == called.lower()), called or "Other")
    record_id = optional(record, named["id"]) if "id" in named else None
    images = pictures_of(record, _parts(named["image"]), work) if "image" in named else ()
    return item_fields(record_id, vignette, question, choices, answer, specialty=specialty, images=images)


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
        pass
    try:
        return ast.literal_eval(value)  # as Python writes a list into a cell
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise RowError("the options begin like JSON but are none") from None


def right_option(said: str, choices: Mapping[str, str], first: int) -> str:
    """Return the option that an answer means; ``first`` is the number of the first option where answers are places.

    Raises ``RowError`` if it means none of them.
    """
    texts = list(choices.values())
    found = [choice for choice in texts if same(choice, said)]
    if found:
        return found[0]
    if (parts := _LETTERED.fullmatch(said)) and same(choices.get(parts[1].upper(), ""), parts[2]):
        return choices[parts[1].upper()]
    if said.isdecimal() and said not in choices and 0 <= int(said) - first < len(texts):
        return texts[int(said) - first]
    if len(said.strip("(). ")) == 1 or said.strip().upper() in choices:
        return by_letter(said, choices, "the answer")
    raise RowError(f"the answer {said!r} is none of the options")


FORMAT = Format(
    name="plain",
    title="Plain",
    reads="Any records with vignette or question, options and answer, as tables usually call them; --columns says "
    "which column holds what.",
    source="",
    licence="",
    fields=frozenset({"answer"}),
    start=start,
    takes=TAKES,
)
