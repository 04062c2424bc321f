"""When a failed request is made again, and how long to wait before it.

Exponential waits with jitter, never shorter than the provider's Retry-After, bounded in number and in total.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from core.models.failures import Failure


@dataclass(frozen=True)
class RetryPolicy:
    """At most ``attempts`` requests a call, and at most ``max_wait_s`` seconds of waiting between them."""

    attempts: int = 5
    base_s: float = 1.0
    cap_s: float = 30.0
    max_wait_s: float = 120.0


@dataclass
class Retries:
    """The running count of one call: how many requests were made, and how long was waited."""

    policy: RetryPolicy
    jitter: Callable[[], float] = random.random
    attempts: int = 0
    waited_s: float = 0.0
    empty: int = field(default=0, init=False)

    def next_wait(self, failure: Failure) -> float | None:
        """Return the seconds to wait before the next request, or ``None`` to give up."""
        if not failure.retry or self.attempts >= self.policy.attempts:
            return None
        if failure.kind in ("empty", "unspoken"):
            self.empty += 1
            if self.empty > 1:
                return None
        wait = self._backoff(failure.retry_after_s)
        if self.waited_s + wait > self.policy.max_wait_s:
            return None
        self.waited_s += wait
        return wait

    def _backoff(self, retry_after_s: float | None) -> float:
        exponent = min(self.attempts - 1, 30)
        backoff = min(self.policy.base_s * 2.0**exponent, self.policy.cap_s)
        if retry_after_s is None:
            return backoff * (0.5 + 0.5 * self.jitter())
        return retry_after_s + self.policy.base_s * self.jitter()


def retry_after(headers: Mapping[str, str], *, now: Callable[[], float] = time.time) -> float | None:
    """Read the seconds to wait from ``retry-after-ms`` or ``Retry-After`` (seconds or a date), if they are there."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _number(headers.get(name))
        if seconds is not None:
            return max(0.0, seconds * scale)
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - now())


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
