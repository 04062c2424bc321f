"""Claims of summaries that no message makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from core.measures.base import Evidence, Measure, Record, Score
from core.store.queries.scores import TrialPart, Trials
from core.text.unsaid import KINDS, MEASURE, VERSION, unsaid_in


class UnsaidInSummaries(Measure):
    """Share of summaries that state an age or a sex that no message of the conversation states.

    The evidence has the words. Whether a summary denies findings that no message speaks of is not judged by this rule:
    the form `summary_denials` asks a model.
    """

    name = MEASURE
    title = "What summaries invent"
    version: ClassVar[str] = VERSION
    reads: ClassVar[Trials] = "summarised"
    needs: ClassVar[tuple[TrialPart, ...]] = ("summary",)

    def scores(self, record: Record) -> Iterator[Score]:
        if not record.summary:  # the trial was deleted after it was listed
            return
        summary = record.summary[0]["summary"]
        claims = unsaid_in(summary, [turn.text for turn in record.dialogue])
        for kind in KINDS:
            words = tuple(Evidence(None, claim.words, claim.start, kind) for claim in claims if claim.kind == kind)
            yield Score(kind, float(bool(words)), words)
