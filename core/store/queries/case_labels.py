"""Labels of cases: what people, reviews, files and models say of a case in addition to its data set.

A label belongs to the words of a case (``Case.text_hash``). Labels group, filter and leave out cases in figures; they
change nothing that a patient or a doctor is told. A label of a person, a review or a file takes precedence over that of
a model, and the newest over older ones; all are kept as history. Every label is first a line of a journal.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import duckdb

from core import access
from core.case import SPECIALTIES, Case
from core.dates import read_date
from core.errors import UsageError
from core.store.database import Store
from core.store.tables import CaseLabelRow, records
from core.store.written import write

LabelField = Literal[
    "specialty", "single_diagnosis", "answer_in_vignette", "accepted", "development", "date", "urgency"
]  # fmt: skip
"""``specialty``: one of the twelve. ``single_diagnosis``: one diagnosis is clearly the likeliest.
``answer_in_vignette``: the vignette names the answer. ``accepted``: further answers that are as right.
``development``: the case was used to write prompts. ``date``: when the case was published (``core.dates``).
``urgency``: 1 to 5 (``core.measures.urgency``)."""
LABEL_FIELDS: tuple[LabelField, ...] = get_args(LabelField)
LabelOrigin = Literal["person", "review", "file", "model"]
YES, NO = "yes", "no"
ALLOWED: Mapping[LabelField, Sequence[str]] = {
    "specialty": SPECIALTIES,
    "urgency": ("1", "2", "3", "4", "5"),
    **dict.fromkeys(("single_diagnosis", "answer_in_vignette", "development"), (YES, NO)),
}
"""Field → the values that it can have; other fields have texts."""
CaseText = tuple[str, str]
"""Key and text hash of a case."""
K = TypeVar("K")


def lines_of(text: str) -> tuple[str, ...]:
    """Return the different lines of a text without blanks around them, as they are spelt first."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return tuple({line.casefold(): line for line in reversed([line for line in lines if line])}.values())[::-1]


def label_of(
    case: Case, field: LabelField, value: str, origin: LabelOrigin, made_by: str, note: str = ""
) -> CaseLabelRow:
    """Return a new label of a case; raises ``UsageError`` for a value that the field cannot have."""
    value = "\n".join(lines_of(value)) if field == "accepted" else " ".join(value.split())
    if field == "date" and value:
        read_date(value)
    allowed: Sequence[str] = ALLOWED.get(field, ())
    if value and allowed and value not in allowed:
        raise UsageError(f"{value!r} is no {field.replace('_', ' ')}: choose {', '.join(allowed)}.")
    return CaseLabelRow(case.case_key, case.text_hash, field, value, origin, made_by, note.strip(), time.time())


def filled_value(field: LabelField, answer: str, yes: Collection[str]) -> str:
    """Return the value of a field by the answer to a question; answers in ``yes`` are yes in a field of yes or no."""
    return answer if ALLOWED.get(field) != (YES, NO) else YES if answer in yes else NO


def add_labels(store: Store, labels: Iterable[CaseLabelRow]) -> int:
    """Journal and store the labels that differ from those in force; return their number."""
    access.require("run")
    new = list(labels)
    with store.write() as connection:
        in_force = labels_in_force(connection, [label.case_key for label in new])
        changed = [label for label in new if _differs(label, in_force.get((label.case_key, label.text_hash), {}))]
        return write(connection, "case_label", [asdict(label) for label in changed])


def _differs(label: CaseLabelRow, in_force: Mapping[Any, CaseLabelRow]) -> bool:
    """Return whether a label adds something; a person's word for a model's label does, it is then a person's."""
    stored = in_force.get(label.field)
    if stored is None:
        return bool(label.value)
    return stored.value != label.value or (stored.origin == "model" and label.origin != "model")


_COLUMNS = "case_key, text_hash, field, value, origin, made_by, note, made_at"


def labels_in_force(
    cursor: duckdb.DuckDBPyConnection, case_keys: Sequence[str] | None = None
) -> dict[CaseText, dict[LabelField, CaseLabelRow]]:
    """Return case → field → the label that counts, of some cases or all; labels without a value are included."""
    keys = None if case_keys is None else list(case_keys)
    sql = f"""
        SELECT {_COLUMNS} FROM case_labels_in_force
        WHERE $keys::VARCHAR[] IS NULL OR list_contains($keys, case_key)"""
    labels: dict[CaseText, dict[LabelField, CaseLabelRow]] = defaultdict(dict)
    for row in records(cursor.execute(sql, {"keys": keys})):
        labels[row["case_key"], row["text_hash"]][row["field"]] = CaseLabelRow(**row)
    return dict(labels)


def development_counts(cursor: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Return data set → number of its cases that are marked as used to write prompts."""
    sql = """
        SELECT split_part(case_key, '/', 1), count(DISTINCT case_key) FROM case_labels_in_force
        WHERE field = 'development' AND value = 'yes' GROUP BY 1"""
    return dict(cursor.execute(sql).fetchall())


def case_dates(cursor: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return case key → the date of its newest content, for the cases with a date."""
    return dict(
        cursor.execute("""
            SELECT cases.case_key, labels.value
            FROM cases LEFT JOIN (FROM case_labels_in_force WHERE field = 'date' AND value <> '') AS labels
                ON labels.case_key = cases.case_key AND labels.text_hash = cases.text_hash
            QUALIFY row_number() OVER (PARTITION BY cases.case_key ORDER BY added_at DESC) = 1
                AND labels.value IS NOT NULL""").fetchall()
    )


def with_accepted(cursor: duckdb.DuckDBPyConnection, cases: Mapping[K, Case]) -> dict[K, Case]:
    """Return the cases, under the same keys, with the accepted answers that count."""
    labels = labels_in_force(cursor, sorted({case.case_key for case in cases.values()}))
    accepted = {about: fields["accepted"].names for about, fields in labels.items() if "accepted" in fields}
    return {
        key: case.model_copy(update={"accepted": accepted.get((case.case_key, case.text_hash), ())})
        for key, case in cases.items()
    }


def specialties_of(cursor: duckdb.DuckDBPyConnection, cases: Mapping[K, Case]) -> dict[K, str]:
    """Return the specialties of the cases, under the same keys, as figures group them: by label, else as stated."""
    labels = labels_in_force(cursor, sorted({case.case_key for case in cases.values()}))
    named = {about: fields["specialty"].value for about, fields in labels.items() if "specialty" in fields}
    return {key: named.get((case.case_key, case.text_hash)) or case.specialty for key, case in cases.items()}


class FieldCoverage(NamedTuple):
    """Case key → whether one diagnosis is the likeliest, ``None`` if it is not stated; and who labelled the case."""

    single: Mapping[str, bool | None]
    made_by: Mapping[str, str]


def single_diagnosis(cursor: duckdb.DuckDBPyConnection) -> FieldCoverage:
    """Return what is stated of the newest content of every case, by its data set or by a label."""
    rows = cursor.execute("""
        SELECT cases.case_key, single_diagnosis, labels.made_by
        FROM labelled_cases AS cases LEFT JOIN (
            FROM case_labels_in_force WHERE field = 'single_diagnosis' AND value <> '') AS labels
            ON labels.case_key = cases.case_key AND labels.text_hash = cases.text_hash
        QUALIFY row_number() OVER (PARTITION BY cases.case_key ORDER BY added_at DESC) = 1""").fetchall()
    return FieldCoverage(
        {key: single for key, single, _ in rows}, {key: made_by for key, _, made_by in rows if made_by}
    )


def add_labels_of_file(store: Store, cases: Iterable[Case], made_by: str) -> dict[str, int]:
    """Store the labels that the cases of a file bring; return field → number of cases."""
    labels: list[CaseLabelRow] = []
    for case in cases:
        brought: dict[LabelField, str] = {"accepted": "\n".join(case.accepted), "date": case.date}
        brought["development"] = YES if case.development else ""
        labels += [label_of(case, field, value, "file", made_by) for field, value in brought.items() if value]
    if labels:
        add_labels(store, labels)
    return dict(Counter(label.field for label in labels))
