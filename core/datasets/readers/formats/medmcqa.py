"""MedMCQA: ``question``, ``opa``…``opd``, ``cop`` (the right one), ``choice_type``, ``subject_name``, ``topic_name``.

The authors' own JSON counts the options from 1, the copy on Hugging Face from 0: the values of the whole file decide.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from core.datasets.readers.files import DamagedRow, Record
from core.datasets.readers.format import CaseFields, Format, LeftOutError, RowError, Work
from core.datasets.readers.item import item_fields, known_specialty, split_item
from core.datasets.readers.values import checked_options, integer, optional, text
from core.errors import AnamnesisError, UsageError

_HIDDEN = -1
"""``cop`` of questions without a published answer (the test split)."""


def _first_number(work: Work) -> int:
    """Return the number of option A, from --columns or the values of the file, with a remark on the latter."""
    column = work.columns.get("cop", "")
    if column:
        if column not in ("0", "1"):
            raise UsageError(f"--columns cop={column} is not known: give cop=0 or cop=1, the number of option A.")
        return int(column)
    name, values = work.rows.path.name, set[int]()
    for _, record in work.rows:
        if not isinstance(record, DamagedRow):
            with suppress(RowError):  # the row is rejected with this reason later
                values.add(integer(record, "cop"))
    if 0 in values and 4 in values:
        raise AnamnesisError(
            f"{name} has cop 0 as well as cop 4: it cannot count the options from 0 and from 1; nothing was imported."
        )
    if not {0, 4} & values and values - {_HIDDEN}:
        raise UsageError(
            f"{name} does not tell whether cop counts the options from 0 or from 1: "
            "say the number of option A with --columns cop=0 or cop=1."
        )
    first = 0 if 0 in values else 1
    if values - {_HIDDEN}:
        work.remark(f"cop counts the options from {first}, as {'a 0' if first == 0 else 'a 4'} shows", whole_file=True)
    return first


def _case_fields(record: Record, first: int) -> CaseFields:
    if optional(record, "choice_type").lower() == "multi":
        raise LeftOutError("it is a question of several right options (choice_type multi)")
    vignette, question = split_item(text(record, "question"))
    choices = checked_options([(letter.upper(), record.get(f"op{letter}")) for letter in "abcd"])
    number = integer(record, "cop")
    if number == _HIDDEN:
        raise RowError("cop is -1: the answer is not published")
    if not 0 <= number - first < len(choices):
        raise RowError(f"cop is {number}, but the options count from {first} to {first + len(choices) - 1}")
    answer = list(choices.values())[number - first]
    names = (optional(record, "subject_name"), optional(record, "topic_name"))
    specialty = next((specialty for name in names if (specialty := known_specialty(name))), "Other")
    return item_fields(optional(record, "id"), vignette, question, choices, answer, specialty=specialty)


FORMAT = Format(
    name="medmcqa",
    title="MedMCQA",
    reads="Single-choice questions of Indian entrance exams; multi-choice ones are left out, the subject gives the "
    "specialty.",
    source="MedMCQA, Pal et al. 2022, arXiv 2203.14371",
    licence="Apache-2.0",
    fields=frozenset({"question", "opa", "opb", "opc", "opd", "cop"}),
    start=lambda work: partial(_case_fields, first=_first_number(work)),
    needs=("question", "opa", "opb", "opc", "opd", "cop"),
    takes=frozenset({"cop"}),
)
