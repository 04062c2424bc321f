"""How far a job is, and its end: what it tells while it runs, to whoever started it and to other processes."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
from filelock import FileLock, Timeout

from core import access, paths
from core.asking.memory import ReplyCache, Unit, WorkTotals
from core.errors import AnamnesisError
from core.events import GRADED_TYPES, Answered, CallRecord, Event, Failed, Graded
from core.journal import in_use, journal_path, writable
from core.models.limits import Concurrency
from core.models.thinking import looks_like_thought

UNMARKED_OF = 5
"""Replies that begin as reasoning does before a run says so."""
UNREADABLE_OF = 10
"""From so many verdicts of a grader on it is said that most of them cannot be read, if so."""
_ASKED_AFTER_S = 0.5
"""Who only asks whether a job is under way holds its lock for a moment: it is waited for."""
_RATE_OVER_S = 15.0
_FORECAST_FROM = 3
"""Pieces from which on something is said of all."""
STATUS = "status.json"
"""In a job's folder: how far it is, for other processes."""
_STATUS_LISTS = 100
"""Calls in the air, and pieces under way, that are told of: in a batch there are tens of thousands."""
_STATUS_HOLDS_S = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a job ended: what it took in this go, its most frequent ``failure``, and why it ended early (``stopped``).

    ``remaining`` pieces were not reached. ``cost_usd`` counts the calls whose price is known.
    """

    remaining: int = 0
    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    failure: str = ""
    stopped: str | None = None


@dataclass
class Progress:
    """How far a job is: what was done before it was resumed counts as done too, but not in calls, tokens and costs.

    ``spent_usd`` is what was spent on it in earlier goes. ``remembered`` replies were not paid for again; ``unused``
    ones were, and are no longer asked for, because the program or its prompts have changed since.
    """

    planned: int
    done: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    """What providers said where they broke an answer."""
    tokens: int = 0
    cost_usd: float = 0.0
    calls: int = 0
    failed_in_a_row: int = 0
    """Calls that a provider broke since the last one that it answered."""
    started_at: float = field(default_factory=time.time)
    done_here: int = 0
    spent_usd: float = 0.0
    remembered: int = 0
    unused: int = 0
    hopeless: str | None = None
    """Why no call can ever succeed (a wrong key, a server that cannot be started), if so."""
    read: Counter[bool] = field(default_factory=Counter)
    """Verdicts on free responses in this go: those that could be read, and those that could not."""
    spoken: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """Messages of dialogues, by model and by whether they begin as reasoning does."""
    replies: ReplyCache | None = None
    """The calls in the air and the work under way, while the job runs."""
    batches: Callable[[], dict[str, Any] | None] = lambda: None
    """What is in batches (``core.models.batches.Batches.waiting``)."""
    thought: WorkTotals | None = None
    """What all pieces were thought to take before any was done."""
    first: WorkTotals = field(default_factory=WorkTotals)
    """What the pieces took that were begun first, up to the first that is not done: short ones are done sooner."""
    _begun: deque[Unit] = field(default_factory=deque)
    learnt: set[Concurrency] = field(default_factory=set)
    """What was learnt of the providers it has met, where nobody fixed how much is under way."""
    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    def note(self, events: Sequence[Event]) -> None:
        """Take the verdicts and failures of a finished trial into account."""
        for event in events:
            if isinstance(event, Graded):
                self.verdicts[event.verdict] += 1
                if event.rule in GRADED_TYPES and event.verdict != "provider_error":
                    told = bool(self.trouble)
                    self.read[event.verdict != "ungradable"] += 1
                    if self.trouble and not told:
                        log.warning("%s (%s)", self.trouble, event.grader)
            elif isinstance(event, Answered) and event.reason:
                self.verdicts[event.reason] += 1
                if event.reason in ("provider_error", "refused", "cut", "empty"):
                    self.failures[event.detail] += 1
            elif isinstance(event, Failed) and event.where.startswith("grader"):
                self.failures[event.message] += 1

    @property
    def trouble(self) -> str:
        """Say that what the grader writes cannot be read, as soon as that is plain; else empty."""
        given = self.read.total()
        if given < UNREADABLE_OF or 2 * self.read[False] < given:
            return ""
        return (
            f"The grader cannot be read: {self.read[False]} of {given} verdicts are ungradable and count in no figure. "
            "Stop here and name another grader; the answers are kept, and regrade judges them."
        )

    def note_call(self, call: CallRecord) -> None:
        """Take a call into account as soon as it is made."""
        self.calls += 1
        self.tokens += call.prompt_tokens + call.completion_tokens
        self.cost_usd += call.cost_usd or 0.0
        if call.purpose == "dialogue" and call.response is not None:
            self.spoken[call.model, looks_like_thought(call.response)] += 1

    @property
    def unmarked(self) -> str:
        """Say which model often begins its messages as reasoning begins, and may think aloud; empty if none does."""
        for (model, _), count in self.spoken.items():
            replies = self.spoken[model, True] + self.spoken[model, False]
            if self.spoken[model, True] >= max(UNMARKED_OF, replies / 10) and count:
                return (
                    f"{self.spoken[model, True]} of {replies} replies of {model} begin as reasoning does: it may think "
                    "aloud without markers that tell it from speech. Read some; its entry can set thinking_markers."
                )
        return ""

    def begin(self, unit: Unit) -> None:
        """Take note that a piece is begun."""
        self._begun.append(unit)

    def end(self, unit: Unit) -> None:
        """Take note that a piece is done."""
        unit.done = True
        while self._begun and self._begun[0].done:
            self.first += self._begun.popleft().totals

    @property
    def forecast(self) -> str:
        """Say what all pieces will take by what the first ones took, once a twentieth is done; else empty."""
        done = self.first.pieces
        if done < max(_FORECAST_FROM, self.planned / 20) or done >= self.planned or not self.first.calls:
            return ""
        before = f"; at first thought {self.thought.in_words}" if self.thought else ""
        all_of_it = self.first.scaled(self.planned).in_words
        return f"By what the first {done:,} of {self.planned:,} took: about {all_of_it} in all{before}."

    def tokens_a_second(self) -> float | None:
        """Return how fast text comes, over the last moments in which somebody asked; ``None`` before it is known."""
        if self.replies is None:
            return None
        now, streamed = time.monotonic(), self.replies.streamed
        self._samples.append((now, streamed))
        while now - self._samples[0][0] > _RATE_OVER_S:
            self._samples.popleft()
        began, before = self._samples[0]
        return (streamed - before) / (now - began) if now - began >= 1.0 else None

    @property
    def at_once(self) -> list[int]:
        """How many calls may be in the air now, by provider, where that is learnt from them."""
        return sorted((one.limit for one in set(self.learnt)), reverse=True)

    def in_words(self) -> str:
        """Return calls, tokens, cost, speed, and who is waited for and how long, in one line; empty without calls."""
        air = list(self.replies.in_flight) if self.replies else []
        if not self.calls and not air:
            return ""
        words = [f"{self.calls:,} calls, {self.tokens:,} tokens"]
        if speed := self.tokens_a_second():
            words[0] += f" ({speed:.0f} a second)"
        if self.cost_usd + self.spent_usd:
            words.append(f"${self.cost_usd + self.spent_usd:.2f}")
        if air and not self.batches():
            seats = ", ".join(f"{count} {role}" for role, count in Counter(one.role for one in air).most_common())
            words.append(f"waiting for {seats}, up to {time.time() - air[0].since:.0f} s")
        if waiting := self.batches():
            words.append(waiting["words"])
        elif self.replies and self.replies.running:
            steps = [unit.calls for unit in list(self.replies.running.values())]
            words.append(f"{len(steps)} under way at call {min(steps)} to {max(steps)}")
        if self.at_once:
            words.append(f"at most {' + '.join(map(str, self.at_once))} at once")
        return "; ".join(words)

    def ended(self, stop: Stop, kept: str = "") -> dict[str, Any]:
        """Return the fields of ``Ended``; raise ``AnamnesisError``, with what is ``kept``, where no call succeeds."""
        if self.hopeless is not None:
            raise AnamnesisError(f"{self.hopeless.rstrip('.')}.{kept}")
        return {
            "remaining": self.planned - self.done,
            "calls": self.calls,
            "tokens": self.tokens,
            "cost_usd": self.cost_usd,
            "failure": max(self.failures, key=self.failures.__getitem__, default=""),
            "stopped": stop.reason if self.done < self.planned else None,
        }

    def told(self) -> dict[str, Any]:
        """Return how far the job is, for other processes (``status``)."""
        now, replies = time.time(), self.replies
        return {
            "at": now,
            "done": self.done,
            "planned": self.planned,
            "done_here": self.done_here,
            "started_at": self.started_at,
            "calls": self.calls,
            "tokens": self.tokens,
            "cost_usd": self.spent_usd + self.cost_usd,
            "tokens_a_second": self.tokens_a_second(),
            "waiting": [
                [one.role, one.purpose, now - one.since]
                for one in (islice(replies.in_flight, _STATUS_LISTS) if replies else ())
            ],
            "under_way": {
                name: unit.calls for name, unit in (islice(replies.running.items(), _STATUS_LISTS) if replies else ())
            },
            "batch": self.batches(),
            "at_once": self.at_once,
            "words": self.in_words(),
            "forecast": self.forecast,
            "trouble": " ".join(filter(None, (self.trouble, self.unmarked))),
        }


@dataclass
class Stop:
    """Why a job stopped before it was complete; set by whoever wants it to stop.

    ``at_once`` says that calls in the air are not waited for, as they are where a budget is used up.
    """

    reason: str | None = None
    at_once: bool = False

    def ask(self, reason: str, *, at_once: bool = True) -> None:
        """Ask the job to stop; the first reason stands."""
        self.reason = self.reason or reason
        self.at_once = self.at_once or at_once

    def __call__(self) -> bool:
        """Say whether the job is to stop, to work that asks (``core.callbacks.Stop``)."""
        return self.reason is not None


@contextmanager
def running(run_id: str, folder: Path | None = None) -> Iterator[Path]:
    """Hold the run or job for this process, so that two never do it at once; yields the file that stops it."""
    place = journal_path(run_id, folder).parent
    with writable(place):
        place.mkdir(parents=True, exist_ok=True)
    stop_file = place / "stop"
    lock = FileLock(place / "running.lock")
    try:
        with writable(place):
            lock.acquire(timeout=_ASKED_AFTER_S)
    except Timeout as error:
        raise AnamnesisError(f"Run {run_id} is already under way in another process: stop it there first.") from error
    try:
        stop_file.unlink(missing_ok=True)
        yield stop_file
    finally:
        lock.release()


def is_running(run_id: str) -> bool:
    """Say whether some process is running this run right now."""
    return in_use(journal_path(run_id))


def status(run_id: str) -> dict[str, Any] | None:
    """Return how far a run of any process is, as of the last second; ``None`` where nothing was told lately.

    ``done`` of ``planned`` pieces, ``done_here`` of them since ``started_at``, ``calls``, ``tokens``, ``cost_usd`` (of
    all its goes), ``tokens_a_second`` (or ``None``), ``waiting`` as [seat, purpose, seconds] with the longest first,
    ``batch`` where it waits for one (``core.models.batches.Batches.waiting``), ``under_way`` as piece → calls so far,
    ``at_once`` as ``Progress`` has it, and all of it in ``words``; ``forecast``: what all of it will take, by what the
    first pieces took, in a sentence; ``trouble``: its grader cannot be read.
    """
    path = journal_path(run_id).with_name(STATUS)
    try:
        told: dict[str, Any] = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return told if time.time() - told["at"] < _STATUS_HOLDS_S else None


def under_way() -> dict[str, dict[str, Any]]:
    """Return run → how far it is (``status``), of all runs and jobs that some process works on."""
    fresh = time.time() - _STATUS_HOLDS_S
    found = {}
    for place in paths.journals_folder().glob(f"*/{STATUS}"):
        with suppress(OSError):
            if place.stat().st_mtime > fresh and is_running(place.parent.name):
                told = status(place.parent.name)
                if told is not None:
                    found[place.parent.name] = told
    return found


def ask_to_stop(run_id: str) -> None:
    """Ask a run of any process to stop; it does so within a second and keeps its finished trials."""
    access.require("run", f"stop {run_id}")
    (journal_path(run_id).parent / "stop").touch()
