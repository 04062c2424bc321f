"""The verdicts of a run of one case as a table: arms × trials, also while the run is under way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from core.events import (
    COUNTED,
    FORMATS,
    QUESTION_TYPES,
    Answered,
    Event,
    Format,
    Graded,
    QuestionType,
    Rule,
    Verdict,
)
from core.frameworks.base import Arm

CellState = Literal["waiting", "answered", "graded", "invalid"]


@dataclass(frozen=True)
class Cell:
    """What one trial gave in one arm. ``state``: not there yet, answered and not yet judged, judged, or excluded.

    ``step_key`` is the key of the answer's step (``core.debugger.steps``). ``reason`` and ``detail`` say why an answer
    is excluded; ``extracted`` is the diagnosis that the grader read out of a free response.
    """

    format: Format
    question_type: QuestionType
    trial: int
    step_key: str
    state: CellState = "waiting"
    response: str | None = None
    extracted: str | None = None
    verdicts: Mapping[Rule, Verdict] = field(default_factory=dict)
    reason: Verdict | None = None
    detail: str = ""
    grader: str | None = None

    def verdict(self, mcq_rule: Rule = "mcq_loose") -> Verdict | None:
        """Return the one verdict to show: of the question type's rule, or the reason of an excluded answer."""
        return self.reason or self.verdicts.get(rule_of(self.question_type, mcq_rule))


@dataclass(frozen=True)
class Row:
    """One arm over the trials; ``cells`` in the order of the trials."""

    format: Format
    question_type: QuestionType
    cells: tuple[Cell, ...]

    def correct(self, mcq_rule: Rule = "mcq_loose") -> tuple[int, int]:
        """Return (correct, counted): excluded answers and those not there yet do not count."""
        verdicts = [cell.verdict(mcq_rule) for cell in self.cells]
        return verdicts.count("correct"), sum(verdict in COUNTED for verdict in verdicts)


def rule_of(question_type: QuestionType, mcq_rule: Rule = "mcq_loose") -> Rule:
    """Return the rule whose verdict counts for a question type."""
    if question_type in ("mcq", "mcq_many"):
        return mcq_rule
    return "frq" if question_type == "frq" else "frq_top3"


def matrix(events_by_trial: Mapping[int, Sequence[Event]], arms: Sequence[Arm] | None = None) -> list[Row]:
    """Return the arms × trials of a run, also while it is under way, in the order of formats and question types.

    Without ``arms``, the rows are the arms that the events speak of; with them, also what has not come yet.
    """
    cells = {number: _cells(number, events) for number, events in sorted(events_by_trial.items())}
    seen = arms if arms is not None else [arm for found in cells.values() for arm in found]
    rows = sorted(dict.fromkeys(seen), key=lambda arm: (FORMATS.index(arm[0]), QUESTION_TYPES.index(arm[1])))
    return [
        Row(*arm, tuple(found.get(arm) or Cell(*arm, number, _key(arm)) for number, found in cells.items()))
        for arm in rows
    ]


def _cells(number: int, events: Sequence[Event]) -> dict[Arm, Cell]:
    cells: dict[Arm, Cell] = {}
    for event in events:
        if isinstance(event, Answered):
            arm = (event.format, event.question_type)
            state: CellState = "invalid" if event.status == "invalid" else "answered"
            cells[arm] = Cell(
                *arm, number, _key(arm), state, event.response, reason=event.reason, detail=event.detail
            )  # fmt: skip
        elif isinstance(event, Graded) and (event.format, event.question_type) in cells:
            arm = (event.format, event.question_type)
            cells[arm] = _judged(cells[arm], event)
    return cells


def _judged(cell: Cell, event: Graded) -> Cell:
    """Return the cell with a verdict; of two under one rule, the later one counts."""
    verdicts = {**cell.verdicts, event.rule: event.verdict}
    extracted = event.extracted if event.extracted is not None else cell.extracted
    return replace(cell, state="graded", verdicts=verdicts, grader=event.grader, extracted=extracted)


def _key(arm: Arm) -> str:
    return f"answer:{arm[0]}:{arm[1]}"
