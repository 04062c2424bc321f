"""What a doctor model has learnt, on the test side: how likely the golden words are to it, and what it asks itself."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import BaseModel

from core.text.rouge import rouge_n, tokens
from core.training.chat import ChatLine
from core.training.encoding import Encoded
from core.training.learner import Learner

QUESTION_TOKENS = 40
"""A generated question is cut here."""


class Evaluation(BaseModel):
    """Figures of one model on the test side.

    ``loss``: mean cross entropy of the doctor's words, nats a token, over all ``tokens`` of all dialogues;
    ``perplexity``: its exponential. ``key_recall``: mean over ``asked`` dialogues of the ROUGE-1 recall (stemmed) of a
    case's keys in the questions that the model asks, each after the golden dialogue up to there (Liao et al., doctor's
    recall); ``None`` where no question was generated.
    """

    loss: float
    perplexity: float
    tokens: int
    key_recall: float | None
    asked: int


def evaluate(learner: Learner, encoded: Sequence[Encoded], lines: Sequence[ChatLine], batch_size: int) -> Evaluation:
    """Return the figures: loss on ``encoded``, questions on ``lines``."""
    loss, count = _loss(learner, encoded, batch_size)
    recalls = [key_recall(line.keys, questions(learner, line)) for line in lines]
    mean = sum(recalls) / len(recalls) if recalls else None
    return Evaluation(
        loss=loss, perplexity=math.exp(min(loss, 700.0)), tokens=count, key_recall=mean, asked=len(recalls)
    )


def questions(learner: Learner, line: ChatLine) -> list[str]:
    """Return what the model says in place of each of the doctor's questions, the golden ones before it being said."""
    messages = line.dumped()
    places = [n for n, message in enumerate(messages[:-1]) if message["role"] == "assistant"]
    return [learner.reply(messages[:n], QUESTION_TOKENS) for n in places]


def key_recall(keys: Sequence[str], asked: Sequence[str]) -> float:
    """Return the ROUGE-1 recall of keys in questions: the doctor's recall (Liao et al.)."""
    return rouge_n(tokens(" ".join(keys)), tokens(" ".join(asked))).recall


def _loss(learner: Learner, encoded: Sequence[Encoded], batch_size: int) -> tuple[float, int]:
    learner.model.eval()
    total = count = 0.0
    with learner.torch.inference_mode():
        for start in range(0, len(encoded), batch_size):
            some = encoded[start : start + batch_size]
            predicted = sum(one.predicted for one in some)
            total += float(learner.loss(some)) * predicted
            count += predicted
    return total / count, int(count)
