"""Any table or list of records with columns for vignette, question, options, answer, id and specialty.

Columns are found by the usual names of such files, or given by --columns. Options are in one column (a list, letters
with texts, or texts separated by | or line by line) or in several, joined with + in --columns. The answer is the text
of an option, its letter, its number in the file if options are numbered, or else its position; the values of the
complete file decide whether positions count from 0 or from 1. A picture is the path of a file next to the list. A
specialty that is not known keeps its label.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import orjson

from core.case import FINAL_QUESTION, SPECIALTIES
from core.datasets.readers.files import DamagedRow, Record
from core.datasets.readers.format import CaseFields, Format, LeftOutError, RowError, Work
from core.datasets.readers.item import item_fields, split_item
from core.datasets.readers.pictures import pictures_of
from core.datasets.readers.values import (
    by_letter,
    checked_options,
    option_of,
    optional,
    options,
    same,
    single,
    with_letters,
    without_empty_end,
    yes_or_no,
)
from core.datasets.reading import clipped
from core.dates import read_date
from core.errors import AnamnesisError, UsageError

NAMES: dict[str, tuple[str, ...]] = {
    "vignette": ("vignette", "case_vignette", "case_text", "stem", "text"),
    "question": ("question", "question_text", "query"),
    "options": ("options", "choices", "answer_options", "answer_choices", "possible_answers", "alternatives"),
    "answer": (
        "answer", "correct_answer", "right_answer", "correct_option", "correct", "answer_idx", "answer_index",
        "answer_key", "answer_letter", "cop", "label", "gold", "target",
    ),
    "id": ("id", "case_id", "question_id", "qid"),
    "specialty": ("specialty", "speciality", "category", "subject", "subject_name", "field"),
    "image": ("image", "images", "image_path", "image_file", "image_url", "picture"),
    "single_diagnosis": ("single_diagnosis",),
    "accepted": ("accepted", "accepted_answers", "also_accepted"),
    "development": ("development", "is_development"),
    "date": ("date", "published", "publication_date", "date_published"),
}  # fmt: skip
"""Field of a case → its usual names in such files, ignoring case, the most likely first."""
_SEVERAL = ("choice_{}", "choice{}", "option_{}", "option{}", "op{}", "answer_{}", "{}")
"""Usual names of columns with one option each."""
FIRST = "first"
"""Key in --columns for the number of the first option (0 or 1), if answers are positions."""
TAKES = frozenset({*NAMES, FIRST})
_PLAIN_NUMBER = re.compile(r"^\(?(\d+)[).]?$")
"""An answer that is a number: "2", "(2)", "2."."""
AnswerFinder = Callable[[str, Mapping[str, str]], str]
"""Returns the option that an answer means, from letter → option."""
_MAX_LISTED = 20
"""Most columns that a message lists."""


def guess_columns(columns: Iterable[str]) -> dict[str, str]:
    """Return field of a case → column with its most likely name; options may be in several columns."""
    by_name = {re.sub(r"[\s-]+", "_", name.strip().lower()): name for name in columns}
    column_of = {
        field: next((by_name[name] for name in names if name in by_name), "") for field, names in NAMES.items()
    }
    for pattern in _SEVERAL:
        for marks in ("abcdefghijklmnopqrstuvwxyz", "123456789"):
            several = [by_name[name] for mark in marks if (name := pattern.format(mark)) in by_name]
            if len(several) > 1 and by_name.get(pattern.format(marks[0])) and not column_of["options"]:
                column_of["options"] = "+".join(several)
    return {field: column for field, column in column_of.items() if column}


def has_needed_columns(column_of: Mapping[str, str]) -> bool:
    """Return whether there are columns for the answer and for the vignette or question."""
    return "answer" in column_of and bool({"vignette", "question"} & column_of.keys())


def start(work: Work, usual_first: str = "") -> Callable[[Record], CaseFields]:
    """Return the function that reads a record by columns given by the user or guessed from their names.

    Raises ``AnamnesisError`` if a column is missing, or if there are none for the vignette or question and the answer,
    and ``UsageError`` if it is unclear from which number positions of options count; ``usual_first`` decides then.
    """
    columns = set(work.rows.columns)
    from_user = {k: v for k, v in work.columns.items() if k != FIRST}
    # a column that the user has given for one field is not guessed for another
    used = {part for column in from_user.values() for part in _column_names(column)}
    column_of = guess_columns(name for name in work.rows.columns if name not in used) | from_user
    for field, column in column_of.items():
        missing = [name for name in _column_names(column) if name not in columns] if columns else []
        if missing:
            raise AnamnesisError(
                f"{work.rows.path.name} has no column {missing[0]!r} (given for {field}): it has {_listed(columns)}."
            )
    if not has_needed_columns(column_of):
        raise AnamnesisError(
            f"{work.rows.path.name} needs columns for vignette or question, and for answer: it has {_listed(columns)}; "
            "say which they are with --columns vignette=…,answer=…."
        )
    find = answer_finder(work, column_of, usual_first) if "options" in column_of else None
    return lambda record: _case_fields(record, column_of, work, find)


def answer_finder(work: Work, column_of: Mapping[str, str], usual_first: str = "") -> AnswerFinder:
    """Return the function that finds the option which an answer means, by the answers of the complete file.

    Raises ``AnamnesisError`` or ``UsageError`` if it is unclear from which number positions count.
    """
    first = work.columns.get(FIRST, "")
    if first and first not in ("0", "1"):
        raise UsageError(f"--columns {FIRST}={first} is not known: give {FIRST}=0 or {FIRST}=1.")
    by_position, numbers = _positions(column_of, work, bool(usual_first))
    first_number = int(first) if first else _first_number(column_of["answer"], work, numbers, usual_first)
    return partial(right_option, first=first_number, by_position=by_position)


def _positions(column_of: Mapping[str, str], work: Work, usual: bool) -> tuple[bool, dict[int, int]]:
    """Return whether all answers of the file are positions, and position → fewest options of a record with it.

    A number that is also the text of an option is a position where every answer is a number, and some answers are no
    text of an option. Where positions are ``usual``, numbers of JSON suffice: ``{"choices": ["1", "2"], "answer": 1}``.
    """
    clear: dict[int, int] = {}
    unclear: dict[int, int] = {}
    all_numbers, by_type = True, usual
    for _, record in work.rows:
        if isinstance(record, DamagedRow):
            continue
        try:
            choices = options_in(record, _column_names(column_of["options"]))
            answer = _PLAIN_NUMBER.sub(r"\1", single(record, column_of["answer"]))
        except (RowError, LeftOutError):
            continue  # the row is rejected with this reason later
        if not choices:
            continue
        if not answer.isdecimal() or answer in choices:
            all_numbers = False
            continue
        by_type = by_type and not isinstance(record[column_of["answer"]], str)
        numbers = unclear if any(same(choice, answer) for choice in choices.values()) else clear
        numbers[int(answer)] = min(len(choices), numbers.get(int(answer), len(choices)))
    if not all_numbers or not (clear or by_type):
        return False, clear
    every = {*clear, *unclear}
    return True, {number: min(part[number] for part in (clear, unclear) if number in part) for number in every}


def _first_number(column: str, work: Work, fewest_options: Mapping[int, int], usual: str) -> int:
    """Return the number of the first option, if answers are positions, from the values of the complete file."""
    zero, last = 0 in fewest_options, any(number == fewest for number, fewest in fewest_options.items())
    name = work.rows.path.name
    if zero and last:
        raise AnamnesisError(
            f"{name} has {column} 0 as well as the number of all options: it cannot count them from 0 and from 1."
        )
    if zero or last:
        work.remark(f"{column} counts the options from {0 if zero else 1}, as its values show", whole_file=True)
    elif usual:
        return int(usual)
    elif any(0 < number < fewest for number, fewest in fewest_options.items()):
        raise UsageError(
            f"{name} does not tell whether {column} counts the options from 0 or from 1: say the number of the first "
            f"with --columns {FIRST}=0 or {FIRST}=1."
        )
    return 0 if zero else 1


def _listed(names: set[str]) -> str:
    first = [clipped(name) for name in sorted(names)[:_MAX_LISTED]]
    return ", ".join([*first, "…"] if len(names) > _MAX_LISTED else first) or "none"


def _column_names(column: str) -> list[str]:
    return [part.strip() for part in column.split("+")]


def _case_fields(record: Record, column_of: Mapping[str, str], work: Work, find: AnswerFinder | None) -> CaseFields:
    vignette, question = _vignette_and_question(record, column_of)
    choices = options_in(record, _column_names(column_of["options"])) if "options" in column_of else {}
    answer = single(record, column_of["answer"])
    if choices and find:
        answer = find(answer, choices)
    label = " ".join(optional(record, column_of["specialty"]).split()) if "specialty" in column_of else ""
    specialty = next((name for name in SPECIALTIES if name.lower() == label.lower()), label or "Other")
    record_id = optional(record, column_of["id"]) if "id" in column_of else None
    images = pictures_of(record, _column_names(column_of["image"]), work) if "image" in column_of else ()
    stated: CaseFields = {
        field: yes_or_no(record, column_of[field])
        for field in ("single_diagnosis", "development")
        if field in column_of and record.get(column_of[field]) not in (None, "")
    }
    if "accepted" in column_of and record.get(column_of["accepted"]):
        stated["accepted"] = _listed_answers(record[column_of["accepted"]])
    if "date" in column_of and (written := optional(record, column_of["date"]).strip()):
        stated["date"] = _date(written, work)
    return item_fields(record_id, vignette, question, choices, answer, specialty=specialty, images=images, **stated)


def _date(written: str, work: Work) -> str:
    """Return a date to the year, month or day, without a time of day; empty with a remark if it cannot be read."""
    day = re.sub(r"[T ]\d{1,2}:\d{2}.*$", "", written)
    try:
        read_date(day)
    except UsageError as error:
        work.remark(f"{str(error).rstrip('.')}; the case has none")
        return ""
    return day


def _listed_answers(value: object) -> tuple[str, ...]:
    """Return accepted answers: a list, or texts separated by | or line by line."""
    parts = _parsed_options(value.strip()) if isinstance(value, str) else value
    if not isinstance(parts, list):
        raise RowError("the accepted answers are no list")
    lines = (line.strip() for part in parts for line in str(part).splitlines())
    return tuple(dict.fromkeys(line for line in lines if line))


def _vignette_and_question(record: Record, column_of: Mapping[str, str]) -> tuple[str, str]:
    vignette = optional(record, column_of["vignette"]) if "vignette" in column_of else ""
    question = optional(record, column_of["question"]) if "question" in column_of else ""
    if vignette and question:
        return vignette, question
    if not vignette and not question:
        columns = " and ".join(column_of[name] for name in ("vignette", "question") if name in column_of)
        raise RowError(f"{columns} is empty")
    if not vignette:
        return split_item(question)
    vignette, question = split_item(vignette)
    # a single sentence in a column of vignettes is a vignette unless it has a question mark
    return (vignette, question) if vignette != question or "?" in vignette else (vignette, FINAL_QUESTION)


def options_in(record: Record, columns: list[str]) -> dict[str, str]:
    if len(columns) > 1:
        pairs = without_empty_end(with_letters([optional(record, name) for name in columns], "options"))
        return checked_options(pairs) if pairs else {}
    value = record.get(columns[0])
    if isinstance(value, str) and value.strip():
        return options({"options": _parsed_options(value.strip())})
    return options(record, columns[0]) if value else {}


def _parsed_options(value: str) -> object:
    if value[0] not in "[{":
        return [part.strip() for part in (value.split("|") if "|" in value else value.splitlines())]
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        pass
    try:
        return ast.literal_eval(value)  # a list as Python prints it
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise RowError("the options begin like JSON but are none") from None


def right_option(answer: str, choices: Mapping[str, str], first: int, *, by_position: bool = False) -> str:
    """Return the option that an answer means; ``first`` is the number of the first option if the answer is a number.

    ``by_position``: a number is always a position. Raises ``RowError`` if the answer means no option, ``LeftOutError``
    if it means several.
    """
    texts, answer = list(choices.values()), _PLAIN_NUMBER.sub(r"\1", answer)
    if by_position and answer.isdecimal() and 0 <= int(answer) - first < len(texts):
        return texts[int(answer) - first]
    if option := option_of(answer, choices):
        return option
    if answer.isdecimal() and answer not in choices and 0 <= int(answer) - first < len(texts):
        return texts[int(answer) - first]
    if len(answer.strip("(). ")) == 1 or answer.strip().upper() in choices:
        return by_letter(answer, choices, "the answer")
    parts_of_it = [part.strip().strip("().").upper() for part in re.split(r"[,;|&]|\band\b", answer)]
    if len(parts_of_it) > 1 and all(part in choices for part in parts_of_it):
        raise LeftOutError(f"it has several right answers ({answer})")
    raise RowError(f"the answer {answer!r} is none of the options")


FORMAT = Format(
    name="plain",
    title="Plain",
    reads="Any records with vignette or question, options and answer, under the usual names; --columns says which "
    "column has what.",
    source="",
    licence="",
    fields=frozenset({"answer"}),
    start=start,
    takes=TAKES,
)
