"""Failures of single requests, with messages for users, and the waits before a retry."""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from core.errors import FailureKind, ProviderError
from core.models.base import NoReply, Spent, Usage
from core.models.finish import ending_of, is_cut

MOST_WAIT_S = 60.0


@dataclass(frozen=True)
class Failure:
    """Why one request gave no reply; ``retry`` says whether a retry can help."""

    kind: FailureKind
    what: str
    advice: str
    retry: bool = False
    retry_after_s: float | None = None
    detail: str = ""
    usage: Usage | None = None
    """Tokens that the provider charges although there is no reply; ``None`` if it charges nothing."""

    def error(self, model: str, attempts: int, lost: Spent | None = None) -> ProviderError:
        """Return the error of the whole call; ``lost`` is the charge for all its requests."""
        after = f" after {attempts} requests" if attempts > 1 else ""
        words = f"The model {model} gave no reply{after}: {self.what}; {self.advice}."
        return NoReply(self.kind, words, attempts=attempts, spent=lost or Spent())


class AttemptFailed(Exception):
    """One request failed; the caller decides on a retry by its ``failure``."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.what)
        self.failure = failure


def refused(why: str) -> Failure:
    """Describe a refusal by the provider's content filter or by the model itself."""
    return Failure("refused", why, "the item is left out of the figures; other wording may pass")


def timed_out(what: str) -> Failure:
    return Failure("timeout", what, "check the provider's load, or raise the timeouts in the models file", retry=True)


def malformed(what: str) -> Failure:
    advice = "try again, and check that the address serves OpenAI-compatible chat completions"
    return Failure("malformed", what, advice, retry=True)


def empty(finish_reason: str) -> Failure:
    """Describe a reply without text: ``blank`` if the model itself ended it, otherwise a fault of the provider."""
    if is_cut(finish_reason):
        return Failure("empty", "it used up its tokens before any text came", "raise max_tokens", retry=True)
    if ending_of(finish_reason) == "normal":
        return Failure("blank", "the reply had no text", "look at the prompt, or try another model", retry=True)
    return Failure("empty", "the reply had no text", "try again, or try another model", retry=True)


def broken_off(finish_reason: str) -> Failure:
    """Describe a reply whose finish reason is neither a normal end nor a limit of its length."""
    # other texts are not quoted: a provider may put any content there
    reason = f" ({finish_reason})" if re.fullmatch(r"[A-Za-z]{1,20}(_[A-Za-z]{1,20}){0,4}", finish_reason) else ""
    what = f"the provider ended the reply with an error or for an unknown reason{reason}"
    return Failure("empty", what, "try again, or try another model", retry=True)


def only_thought(finish_reason: str, limit: object) -> Failure:
    """Describe a reply with reasoning only; ``limit`` is its limit of tokens, if set."""
    if is_cut(finish_reason):
        limit_words = f"limit {limit}" if limit else "limit not set here"
        advice = "raise max_tokens, or ask for less reasoning effort"
        return Failure("thinking", f"it ran out of tokens while thinking ({limit_words})", advice)
    return Failure("unspoken", "it thought but said nothing", "look at its reasoning, or try another model", retry=True)


def unended() -> Failure:
    """Describe a reply whose text opens a block of reasoning and does not close it."""
    what = "it began to think and did not end, so that what it says is not known"
    return Failure("thinking", what, "look at its reasoning, or set thinking_markers in its models file", retry=True)


@dataclass(frozen=True)
class RetryPolicy:
    """At most ``attempts`` requests a call, and at most ``max_wait_s`` seconds of waiting between them.

    A rate limit is no fault: after one it is asked again ``patience`` times as often and as long, on its own count.
    """

    attempts: int = 5
    base_s: float = 1.0
    cap_s: float = 30.0
    max_wait_s: float = 120.0
    patience: int = 5


@dataclass
class Retries:
    """The running count of one call: how many requests were made, and how often and long it waited to ask again.

    ``waits`` holds that by whether it was for a rate limit.
    """

    policy: RetryPolicy
    jitter: Callable[[], float] = random.random
    attempts: int = 0
    waits: dict[bool, tuple[int, float]] = field(default_factory=dict)
    empty: int = field(default=0, init=False)

    def longest(self, failure: Failure) -> float:
        """Return the maximum total wait of a call in seconds for this kind of failure."""
        return self.policy.max_wait_s * (self.policy.patience if failure.kind == "rate_limit" else 1)

    def next_wait(self, failure: Failure) -> float | None:
        """Return the seconds to wait before the next request; ``None`` ends the retries."""
        limited = failure.kind == "rate_limit"
        times, waited_s = self.waits.get(limited, (0, 0.0))
        if not failure.retry or times >= (self.policy.attempts - 1) * (self.policy.patience if limited else 1):
            return None
        if failure.kind in ("empty", "blank", "unspoken", "thinking"):
            self.empty += 1
            if self.empty > 1:
                return None
        backoff = min(self.policy.base_s * 2.0 ** min(times, 30), self.policy.cap_s)
        if failure.retry_after_s is None:
            wait = backoff * (0.5 + 0.5 * self.jitter())
        else:
            wait = longest_wait(failure.retry_after_s) + self.policy.base_s * self.jitter()
        if waited_s + wait > self.longest(failure):
            return None
        self.waits[limited] = times + 1, waited_s + wait
        return wait


def longest_wait(seconds: float) -> float:
    """Return the wait that a provider asks for, capped at one minute."""
    return min(seconds, MOST_WAIT_S)


def retry_after(headers: Mapping[str, str], *, now: Callable[[], float] = time.time) -> float | None:
    """Read the seconds to wait from ``retry-after-ms`` or ``Retry-After`` (seconds or a date); ``None`` if missing."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _finite_number(headers.get(name))
        if seconds is not None:
            return max(0.0, seconds * scale)
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now())
    except (ValueError, OverflowError, TypeError, IndexError):  # no valid date
        return None


def _finite_number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
