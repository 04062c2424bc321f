"""Replies that a real patient would not give, as the rules of ``core.judging.patient_rule`` mark them, as scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from core.judging.patient_rule import KINDS, VERSION, marks_in, replies_of
from core.measures.base import Evidence, Measure, Record, Score
from core.store.queries.scores import Trials


class PatientMarks(Measure):
    """Replies that a real patient would not give: medical terms, leaks, refusals, confusions of role.

    ``replies`` is the number of replies, and each kind the number of its hits; the evidence has the words and the rule.
    """

    name = "patient_marks"
    title = "What patients say"
    page = "trust"
    version: ClassVar[str] = VERSION
    reads: ClassVar[Trials] = "replies"

    def scores(self, record: Record) -> Iterator[Score]:
        yield Score("replies", len(replies_of(record.dialogue)))
        marks = marks_in(record.case, record.dialogue)
        for kind in KINDS:
            hits = tuple(Evidence(m.turn, m.words, m.start, m.detail) for m in marks if m.kind == kind)
            yield Score(kind, len(hits), hits)


PATIENT_MARKS = PatientMarks()
