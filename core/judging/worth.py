"""What can be seen of a judge without people: what became of its answers, and whether it ever gives another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from core.judging.form import CANNOT_JUDGE, Evidence, FormQuestion
from core.judging.judgement import FAILURES, Judgement

ENOUGH_ANSWERS = 10
"""Answers from which it is worth a warning that all are the same."""


class Given(NamedTuple):
    """How a judge answered a question; equal ones are counted.

    ``failure`` is the beginning of the failure, up to a colon. ``evidence``: with quotations, or from a table without
    any. ``repaired``: the first reply could not be read.
    """

    value: str | None
    void: bool
    failure: str
    evidence: bool
    repaired: bool


def given(answers: Iterable[Judgement]) -> Counter[Given]:
    return Counter(
        Given(
            answer.value,
            answer.void,
            answer.failure.partition(":")[0],
            bool(answer.quotations) or not answer.calls,
            len(answer.calls) > 1,
        )
        for answer in answers
    )


class Worth(NamedTuple):
    """What became of the answers to a question; what a provider failed to answer is left out.

    ``shares`` is answer → its share (0 to 1) of all ``n``, of the answers that are neither void nor unreadable.
    ``without_evidence`` counts answers that enter figures and need words as evidence, but have none: it must be 0.
    """

    n: int
    shares: Mapping[str, float]
    void: float
    repaired: float
    unreadable: float
    without_evidence: int

    @property
    def columns(self) -> dict[str, object]:
        return {
            "answers": self.n,
            "shares": {value: round(share, 3) for value, share in self.shares.items()},
            "cannot_judge": self.shares.get(CANNOT_JUDGE, 0.0) if self.n else None,
            "void": self.void,
            "repaired": self.repaired,
            "unreadable": self.unreadable,
            "without_evidence": self.without_evidence,
        }


def worth_of(question: FormQuestion, evidence: Evidence, counts: Mapping[Given, int]) -> Worth:
    """Return what became of answers to a question whose evidence are words of ``evidence``, if it says nothing else."""
    answered = {how: n for how, n in counts.items() if how.value is not None or how.failure not in FAILURES}
    total = sum(answered.values())

    def share(count: int) -> float:
        return count / total if total else float("nan")

    values = Counter[str]()
    for how, n in answered.items():
        if how.value is not None and not how.void:
            values[how.value] += n
    return Worth(
        total,
        {value: share(values[value]) for value in (question.answers or sorted(values)) if values[value]},
        share(sum(n for how, n in answered.items() if how.value is not None and how.void)),
        share(sum(n for how, n in answered.items() if how.value is not None and how.repaired)),
        share(sum(n for how, n in answered.items() if how.value is None)),
        sum(
            n
            for how, n in answered.items()
            if how.value is not None
            and not how.void
            and not how.evidence
            and question.evidence_for(how.value, evidence) != "none"
            and question.needs_words(how.value)
        ),
    )


def single_answers(counts: Iterable[tuple[str, Mapping[Given, int]]]) -> Iterator[tuple[str, str, int]]:
    """Yield (question, answer, number) of the questions that got one answer only, of at least ``ENOUGH_ANSWERS``."""
    for question, of_question in counts:
        values = Counter[str]()
        for how, n in of_question.items():
            if how.value is not None and not how.void:
                values[how.value] += n
        if len(values) == 1 and values.total() >= ENOUGH_ANSWERS:
            yield question, *values.most_common(1)[0]
