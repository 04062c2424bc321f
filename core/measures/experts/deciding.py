"""What counts as the experts' answer: the one annotator's, both's where they agree, the third's where they do not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from core.store.review_records import Answer, Judgement, Question

How = Literal["single", "agreed", "tie_broken", "open"]
TIE_BREAKER = "d3"
"""The third annotator of the CRAFT-MD release."""


@dataclass(frozen=True)
class Decision:
    """The answer on one question about one item and how it came about; ``None`` while a tie is open."""

    model: str
    case: str
    question: Question
    answer: Answer | None
    how: How
    said: dict[str, Answer] = field(default_factory=dict)
    """Annotator → what each of those said who did not know of a tie."""
    item: str = ""


def decide(judgements: Iterable[Judgement], tie_breaker: str = TIE_BREAKER) -> list[Decision]:
    """Return one decision for every model, case, item and question, in the order in which they first occur.

    A third judgement, or one of the annotator ``tie_breaker``, only counts where two others differ; of several the
    first.
    """
    said: dict[tuple[str, str, str, Question], dict[str, Answer]] = {}
    third: dict[tuple[str, str, str, Question], Answer] = {}
    for one in judgements:
        key = (one.model, one.case, one.item, one.question)
        first = said.setdefault(key, {})
        if one.third or one.annotator == tie_breaker:
            third.setdefault(key, one.answer)
        else:
            first[one.annotator] = one.answer
    return [_decision(key, answers, third.get(key)) for key, answers in said.items()]


def _decision(key: tuple[str, str, str, Question], said: dict[str, Answer], third: Answer | None) -> Decision:
    model, case, item, question = key
    how: How = "single" if len(said) == 1 else "agreed"
    answer: Answer | None = next(iter(said.values()), None)
    if len(set(said.values())) != 1:
        answer, how = third, "tie_broken" if third else "open"
    return Decision(model, case, question, answer, how, said, item)
