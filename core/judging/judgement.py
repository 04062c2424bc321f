"""Judgements: the answers of a judge (a person, a model or a rule) to the questions of a form about a stored item.

What can be seen of a judge without people is here, too: what became of its answers, and whether it ever gives another
answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from core.errors import FailureKind
from core.judging.form import CANNOT_JUDGE, NOT_APPLICABLE, Evidence, FormQuestion

JudgeKind = Literal["person", "model", "rule"]
QuotationState = Literal["verified", "repaired", "unverified"]
"""``verified``: letter for letter in the named message; ``repaired``: in another message, or with other spaces, case,
quotation marks or omissions; ``unverified``: in no message."""


class Quotation(NamedTuple):
    """Quoted words. ``message`` is counted from 0 and ``words`` are spelled as there, if the words were found.

    ``given`` is what the judge wrote, with its message number, if that differs. ``start`` and ``end`` are characters of
    the message, if a person marked the words; ``comment`` is a person's remark on them.
    """

    message: int
    words: str
    state: QuotationState = "verified"
    given: str = ""
    start: int | None = None
    end: int | None = None
    comment: str = ""


FAILURES = get_args(FailureKind)
"""How the ``failure`` of a judgement begins if the provider failed: ``timeout: no reply in 60 s``."""
ALL_TOGETHER = 0
"""``Judge.together`` of a judge that gets all questions about an item in one request."""


class Judge(NamedTuple):
    """Who judges. A model with other prompts, or that is asked otherwise, is another judge.

    ``prompt_hash`` covers the prompt and what the form shows with its questions; it is empty for people. ``together``
    is the most questions in one request, or ``ALL_TOGETHER``.
    """

    name: str
    kind: JudgeKind = "person"
    prompt_hash: str = ""
    together: int = 1


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """One judge's answer to one question about one item; the newest with a value counts.

    Attributes:
        subject: The item (``core.store.review_records.AnnotatedItem``).
        question: The id of the question.
        against: Hash of what else the answer depends on (``FormQuestion.hash``, the facts of the case), of a case with
            that of its text (``FormQuestion.against_text``); an answer against something else does not count for the
            present question.
        repeat: Counts from 1 the times that the judge was asked the same.
        value: The answer; ``None`` if ``failure`` says why there is none.
        void: The quotations are no evidence, so the value does not count.
        reason: Why the judge decided so.
        comment: What a person adds.
        calls: Ids of the calls of a model.
        at: Seconds since 1970 (UTC).
        review_id: The review in which a person answered; empty outside reviews.
        seconds: Time from opening the item to saving the answer; ``None`` if it is not known.
        served_by: The name under which the model was served, if its provider said so.
    """

    subject: str
    form: str
    question: str
    judge: Judge
    value: str | None
    at: float
    against: str = ""
    repeat: int = 1
    void: bool = False
    quotations: tuple[Quotation, ...] = ()
    reason: str = ""
    comment: str = ""
    failure: str = ""
    calls: tuple[str, ...] = ()
    review_id: str = ""
    seconds: float | None = None
    served_by: str = ""

    @property
    def counts(self) -> bool:
        """Whether the answer enters figures: it is readable, not void, and not *cannot judge* or *not applicable*."""
        return self.value not in (None, CANNOT_JUDGE, NOT_APPLICABLE) and not self.void

    @property
    def unreadable(self) -> bool:
        """Whether there is no answer although the provider did not fail."""
        return self.value is None and self.failure.partition(":")[0] not in FAILURES


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
