"""Judgements: the answers of a judge (a person, a model or a rule) to the questions of a form about a stored item.

``worth_of`` says what can be seen of a judge without people: what became of its answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

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


def worth_of(question: FormQuestion, evidence: Evidence, answers: Iterable[Judgement]) -> dict[str, Any]:
    """Return what became of answers to a question, as columns; what a provider failed to answer is left out.

    ``evidence`` says whose words are evidence if the question does not. ``shares`` is answer → its share (0 to 1) of
    all, of the answers that are neither void nor unreadable. ``repaired``: the first reply could not be read.
    ``without_evidence`` counts answers that enter figures and need words as evidence, but have none: it must be 0.
    Answers from a table without quotations have no calls.
    """
    answered = [answer for answer in answers if answer.value is not None or answer.unreadable]
    read = [answer for answer in answered if answer.value is not None]
    valid = [(str(answer.value), answer) for answer in read if not answer.void]
    values = Counter(value for value, _ in valid)

    def share(count: int) -> float:
        return count / len(answered) if answered else float("nan")

    return {
        "answers": len(answered),
        "shares": {v: round(share(values[v]), 3) for v in question.answers or sorted(values) if values[v]},
        "cannot_judge": share(values[CANNOT_JUDGE]),
        "void": share(len(read) - len(valid)),
        "repaired": share(sum(len(answer.calls) > 1 for answer in read)),
        "unreadable": share(len(answered) - len(read)),
        "without_evidence": sum(
            not answer.quotations
            and bool(answer.calls)
            and question.evidence_for(value, evidence) != "none"
            and question.needs_words(value)
            for value, answer in valid
        ),
    }
