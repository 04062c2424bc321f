"""Tables that earlier versions had: what becomes of their rows.

``FORMER`` is the one place for that. A fold asks it for lines of journals, whether jobs or people wrote them, and a
renewal asks it for the rows of an older database. When a table goes away, its declaration in ``core.store.tables``
moves here as an entry, with a function from a row of it to rows of present tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from core.journal import JournalLine, RowLine, WrittenLine
from core.store.former_rows import (
    answers_of_people,
    fact_judgements,
    model_ratings,
    patient_judgements,
    rubric_judgements,
    urgency_answers,
)
from core.store.stored_table import People, Row
from core.store.tables import TABLES, CaseListRow, JudgementRow


def _nothing(row: Mapping[str, Any]) -> Iterable[Row]:
    return ()


@dataclass(frozen=True)
class Former:
    """A former table: ``rows`` returns the present rows of one of its rows, given as column → value.

    Without ``rows`` its journal lines are skipped and counted. ``people`` is as in ``core.store.stored_table.Table``;
    ``edited`` are the columns of a table whose rows jobs wrote, too, in the order of their ids.
    """

    rows: Callable[[Mapping[str, Any]], Iterable[Row]] = _nothing
    people: People | None = None
    edited: tuple[str, ...] = ()


def _judgements(of_row: Callable[[Mapping[str, Any]], list[dict[str, Any]]]) -> Callable[..., Iterable[Row]]:
    return lambda row: (JudgementRow(**judgement) for judgement in of_row(row))


def _case_list(row: Mapping[str, Any]) -> Iterable[Row]:
    """Return a list of facts, or of items, whose kind was the beginning of the name of their maker."""
    made_by, kind = row["made_by"], "facts" if "facts" in row else "items"
    for name in ("opening", "no items"):
        if kind == "items" and made_by.startswith(f"{name} "):
            made_by, kind = made_by.removeprefix(f"{name} "), name
    listed = row["facts"] if kind == "facts" else row["items"]
    return [CaseListRow(row["case_key"], row["content_hash"], kind, listed, made_by, row["made_at"])]


FORMER: dict[str, Former] = {
    "annotations": Former(_judgements(answers_of_people), People("annotation", "annotated_at", "annotator")),
    "continuations": Former(),
    "fact_sets": Former(_case_list, People("facts", "made_at", "made_by")),
    "history_items": Former(
        _case_list, People("items", "made_at"), ("case_key", "content_hash", "items", "made_by", "made_at")
    ),
    "fact_judgements": Former(_judgements(fact_judgements)),
    "model_ratings": Former(_judgements(model_ratings)),
    "patient_judgements": Former(_judgements(patient_judgements)),
    "plans": Former(people=People("plan", "locked_at", "locked_by")),
    "release_prompts": Former(),  # the settings of their runs have them, too
    "replicates": Former(),
    "rubric_judgements": Former(_judgements(rubric_judgements)),
    "urgency_answers": Former(_judgements(urgency_answers)),
}
"""Name of a former table → what becomes of its rows."""

_MANY = ('"question_type":"mcq_many"', '"question_type":"mcq_answers"')
_ANSWERS = "if(question_type = 'mcq_many', 'mcq_answers', question_type)"
RENAMED_IN = 13
RENAMED: Mapping[str, Mapping[str, str]] = {
    "answers": {"question_type": _ANSWERS},
    "grades": {"question_type": _ANSWERS},
    "runs": {"arms": "list_transform(arms, lambda arm: regexp_replace(arm, ':mcq_many$', ':mcq_answers'))"},
    "variants": {"step": "replace(step, ':mcq_many', ':mcq_answers')"},
    "trials": {"events": f"replace(events::VARCHAR, '{_MANY[0]}', '{_MANY[1]}')"},
}
"""Table → column → its SQL in files of version 0.4, with a number below ``RENAMED_IN``.

What that version asked as mcq_many offered only the right answers of a data set. The name is now that of the preprint's
question type, which offers every choice. Lines of journals get the new name in ``core.journal.read_lines``.
"""


def rows_of_job(line: RowLine) -> list[Row]:
    """Return the rows of a job's line.

    Raises ``ValueError`` for a table that jobs do not write, ``TypeError`` for values that are no row.
    """
    if line.table in FORMER:
        return list(FORMER[line.table].rows(line.row))
    table = TABLES.get(line.table)
    if table is None or not table.job:
        raise ValueError(f"there is no table {line.table} of results")
    return [table.read(line.row)]


def former_of_kind(kind: str) -> Former | None:
    """Return the former table of a kind of people's lines."""
    return next((table for table in FORMER.values() if table.people and table.people.kind == kind), None)


def skipped_kind(line: JournalLine) -> str:
    """Return the table or the kind of a line that has no rows any more; empty for every other line."""
    match line:
        case RowLine(table=name) if name in FORMER and FORMER[name].rows is _nothing:
            return name
        case WrittenLine(kind=kind) if (table := former_of_kind(kind)) and table.rows is _nothing:
            return kind
    return ""
