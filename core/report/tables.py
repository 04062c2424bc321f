"""Figures of an evaluation report as tables of text, with the rows that a reader needs; a command prints all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from core.measures.base import Result, Row, cell_in_words
from core.measures.choice_rules import RULE_WORDS
from core.report.parts import FIGURES
from core.words import FORMAT, QUESTION_TYPE, VERDICT

MOST_ROWS = 30
LEAST_ROWS = 2
"""Most rows of a table, and the rows that a table has however long they are."""
WORDS_OF_TABLES = 2_000
"""Words of all tables with their commands and notes: the rows of long tables are cut to one length to that end."""
MOST_NOTES = 2
"""Most severe notes above a table."""
NO_VALUE = "n/a"
_WORDS: Mapping[str, Mapping[Any, str]] = {
    "format": FORMAT,
    "question_type": QUESTION_TYPE,
    "verdict": VERDICT,
    "rule": {**RULE_WORDS, **dict.fromkeys(("mcq_graded", "frq", "frq_top3"), "the grader")},
}
_NAMES = frozenset({"cause", "role", "seat", "figure"})
"""Columns whose values are names with underscores."""
_HEADS: Mapping[str, str] = {
    "model": "Condition",
    "question_type": "Question",
    "ci_low": "95 % from",
    "ci_high": "95 % to",
    "difference_low": "95 % from",
    "difference_high": "95 % to",
    "p": "p",
    "p_adjusted": "p, corrected",
    "n": "Number",
    "n_shared": "Shared cases",
    "dataset": "Data set",
    "trial_id": "Conversation",
    "run_id": "Run",
    "cost_usd": "US dollars",
    "without_diagnosis_share": "Share without a diagnosis",
    "turns_mean": "Mean messages",
    "turns_median": "Median messages",
    "turns_most": "Most messages",
}
_COUNTS = re.compile(r"(\w+)=(\d+)")  # no_question=7 turn_cap=5


class FigureTable(NamedTuple):
    """A figure as text: the first rows that its command prints, with the severe notes on it."""

    name: str
    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int
    notes: tuple[str, ...]
    command: str
    notes_left_out: int = 0

    def first(self, words: int) -> FigureTable:
        """Return the table with the rows that have at most so many words, and at least ``LEAST_ROWS``."""
        rows: list[tuple[str, ...]] = []
        left = words
        for row in self.rows:
            left -= _words_of(row)
            if left < 0 and len(rows) >= LEAST_ROWS:
                break
            rows.append(row)
        return self._replace(rows=tuple(rows), left_out=self.left_out + len(self.rows) - len(rows))


def tables_of(results: Mapping[str, Result], commands: Mapping[str, str]) -> dict[str, FigureTable]:
    """Return the figures as tables that have about ``WORDS_OF_TABLES`` words together, if they have more."""
    tables = {name: _table(name, result, commands[name]) for name, result in results.items()}
    notes = dict.fromkeys(note for table in tables.values() for note in table.notes)
    around = _words_of(tuple(notes)) + sum(
        _words_of(table.heads) + len(table.command.split()) for table in tables.values()
    )
    words = _share([sum(map(_words_of, table.rows)) for table in tables.values()], WORDS_OF_TABLES - around)
    return {name: table.first(words) for name, table in tables.items()}


def _share(sizes: Sequence[int], total: int) -> int:
    """Return the length to which long tables are cut: short ones leave their words to them."""
    left, share = max(0, total), 0
    for number, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - number)
        if size > share:
            return share
        left -= size
    return max(sizes, default=0)


def _words_of(row: Sequence[str]) -> int:
    return len(row) + sum(len(cell.split()) for cell in row)  # a bar between cells is a word to most programs


def _table(name: str, result: Result, command: str) -> FigureTable:
    section = FIGURES[name]
    listed = [row.cells() if isinstance(row, Row) else dict(row) for row in result.rows]
    present = dict.fromkeys(column for row in listed for column in row if column != "notes")
    columns = [column for column in section.columns if column in present] or list(present)
    cells = {column: [_cell(column, row.get(column)) for row in listed[:MOST_ROWS]] for column in columns}
    columns = [column for column in columns if not {NO_VALUE, ""}.issuperset(cells[column])]
    heads = (
        section.heads.get(c) or _HEADS.get(c) or c.removeprefix("n_").replace("_", " ").capitalize() for c in columns
    )
    rows = tuple(zip(*(cells[column] for column in columns), strict=True))
    notes = tuple(note.text for note in result.warnings)
    return FigureTable(name, section.title, tuple(heads), rows, len(listed) - len(rows), notes, command)


def _cell(column: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value != value:  # a NaN
        return NO_VALUE
    text = str(_WORDS.get(column, {}).get(value) or cell_in_words(column, value))
    if column in _NAMES:
        return text.replace("_", " ")
    if _COUNTS.match(text) and not _COUNTS.sub("", text).strip():
        return ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in _COUNTS.findall(text))
    return text
