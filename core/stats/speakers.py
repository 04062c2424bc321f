"""Variance of a score by speaker: the part of each speaker's messages in the noise between conversations of a case.

Let h_t be the first t messages of a conversation, f its score, and V_t = E[f | h_t]. Given the case, V_t is a
martingale, so that Var(f) is the sum over t of E[Var(V_t | h_(t-1))], plus what answers and gradings add to the whole
dialogue. Each term belongs to the speaker of message t. Whether there is a message t, and whose, is decided by h_(t-1):
lengths may be random.

A term is estimated from one stored conversation with score X. Continuations that keep message t have scores X'; they
and X share a message, so that half their mean squared difference is E[Var(f | h_t)]. Continuations from before message
t have scores Y'; two scores of different messages t differ by E[Var(f | h_(t-1))]. The difference of both is unbiased:
it is the component between messages of a nested design (``core.stats.nested``) in which message t of the stored
conversation has the scores X and X', and each Y' has a message of its own. One message is drawn uniformly from the n
messages of a speaker, and weighs n times.

The terms of all speakers add up to the variance between conversations of a case, which trials estimate far better. The
estimates of k speakers are moved by 1/k of the difference each, which keeps them unbiased.

Intervals: the jackknife over cases with Hall's transformation, as in ``core.stats.nested``, cut off at 0 and 1/4, the
largest variance of a score between 0 and 1. Their width grows with the length of a conversation, because a small
difference weighs n times: about 2 n sqrt(0.02 / N) for N drawn messages with two continuations of each kind. Simulated
coverage: benchmarks/bench_speakers.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from core.errors import UsageError
from core.stats.intervals import Interval
from core.stats.nested import (
    LEAST_CASES,
    MOST_HALF_DIFFERENCE,
    NORMAL_95,
    Component,
    Floats,
    half_difference,
    jackknife_interval,
)

LARGEST_VARIANCE = 0.25
"""Largest variance of a score between 0 and 1."""


class DrawnMessage(NamedTuple):
    """Scores (0 to 1) about one message of a stored conversation.

    ``kept`` are the conversation's own score and those of continuations after the message; ``again`` are those of
    continuations from before it, in each of which the message is spoken again.
    """

    kept: Sequence[float]
    again: Sequence[float]

    @property
    def variance(self) -> float:
        """The variance that the message causes, given those before it; unbiased, so that it may be negative.

        NaN without two scores that share the message, or without one of another message.
        """
        if len(self.kept) < 2 or not self.again:
            return float("nan")
        mean, square = _mean(self.kept), _mean([score**2 for score in self.kept])
        between = half_difference([mean, *self.again], [square, *(score**2 for score in self.again)])
        return between - half_difference(self.kept, [score**2 for score in self.kept])


class SpokenPart(NamedTuple):
    """One speaker's messages in a stored conversation: their number, and those of them that were drawn."""

    messages: int
    drawn: Sequence[DrawnMessage]

    @property
    def variance(self) -> float:
        """The sum of the terms of the messages; 0 without a message, NaN if no drawn message has its scores."""
        if not self.messages:
            return 0.0
        terms = [term for message in self.drawn if (term := message.variance) == term]
        return self.messages * _mean(terms) if terms else float("nan")


Conversation = Mapping[str, SpokenPart]
"""Speaker → the part of this speaker; a speaker without messages may be missing."""


class SpeakerPart(NamedTuple):
    """The variance that a speaker's messages cause, with its 95 % interval.

    The ``estimate`` is unbiased and may be negative; ``error`` is its standard error. ``n_cases``, ``n_conversations``
    and ``n_messages`` have a drawn message of this speaker with its scores.
    """

    speaker: str
    estimate: float
    interval: Interval
    error: float
    n_cases: int
    n_conversations: int
    n_messages: int

    def messages_needed(self, half_width: float) -> int:
        """Return about how many drawn messages an interval of ± ``half_width`` takes, with as many continuations."""
        return math.ceil(self.n_messages * (NORMAL_95 * self.error / half_width) ** 2)


def estimate_speakers(
    cases: Sequence[Sequence[Conversation]], between: Component | None = None, level: float = 0.95
) -> list[SpeakerPart]:
    """Estimate the part of each speaker in the variance between conversations of a case.

    Args:
        cases: Stored conversations with drawn messages, by case; every case that has one has the same weight.
        between: The component of conversations alone, if it is known and all messages that differ between
            conversations are of the speakers in ``cases``. The first cases must be those of its ``without_each``, in
            their order.
        level: Of the intervals.

    A speaker with fewer than three cases has no estimate. Raises ``UsageError`` for a score outside 0 to 1.
    """
    talks = [talk for case in cases for talk in case]
    drawn = [message for talk in talks for part in talk.values() for message in part.drawn]
    if any(not 0 <= score <= 1 for message in drawn for score in (*message.kept, *message.again)):
        raise UsageError("Scores lie between 0 and 1.")
    speakers = list(dict.fromkeys(speaker for talk in talks for speaker in talk))
    table = np.array([[_of_case(case, speaker) for speaker in speakers] for case in cases], dtype=np.float64)
    enough = np.isfinite(table).sum(axis=0) >= LEAST_CASES if len(cases) else np.zeros(0, dtype=bool)
    if not speakers or not enough.all():
        between = None  # without one of the speakers the others do not add up to it
    estimates, without_each = _means_without_each(table)
    if between is not None:
        remaining = np.append(between.without_each, np.full(len(cases) - len(between.without_each), between.estimate))
        estimates, without_each = (
            estimates + (between.estimate - estimates.sum()) / len(speakers),
            without_each + ((remaining - without_each.sum(axis=1)) / len(speakers))[:, None],
        )
    parts: list[SpeakerPart] = []
    for place in np.flatnonzero(enough):
        speaker, values = speakers[place], table[:, place]
        spoken = [talk[speaker] for talk in talks if speaker in talk]
        most = max(part.messages for part in spoken) * MOST_HALF_DIFFERENCE
        n = int(np.isfinite(values).sum())
        interval = jackknife_interval(float(estimates[place]), without_each[:, place], n, level, most)
        counted = [sum(message.variance == message.variance for message in part.drawn) for part in spoken]
        parts.append(
            SpeakerPart(
                speaker,
                float(estimates[place]),
                Interval(*(min(bound, LARGEST_VARIANCE) for bound in interval)),
                float(without_each[:, place].std()) * (len(cases) - 1) ** 0.5,
                n,
                sum(map(bool, counted)),
                sum(counted),
            )
        )
    return parts


def _of_case(case: Sequence[Conversation], speaker: str) -> float:
    """Return the mean over the conversations of a case; NaN without any."""
    values = [talk[speaker].variance if speaker in talk else 0.0 for talk in case]
    finite = [value for value in values if value == value]
    return _mean(finite) if finite else float("nan")


def _means_without_each(table: Floats) -> tuple[Floats, Floats]:
    """Return the means of the finite values of each column, and those without each row in turn."""
    finite = np.isfinite(table)
    filled = np.where(finite, table, 0.0)
    totals, numbers = filled.sum(axis=0), finite.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):  # columns with too few values are not used
        return totals / numbers, (totals - filled) / (numbers - finite)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
