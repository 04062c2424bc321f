"""The progress and the end of a job, as its caller and other processes see them."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson
from filelock import FileLock, Timeout

from core import access, paths
from core.asking.memory import ReplyCache, Unit, WorkTotals
from core.errors import AnamnesisError
from core.events import GRADED_TYPES, Answered, CallRecord, Event, Failed, Graded
from core.journal import in_use, journal_path, writable
from core.models.limits import Concurrency
from core.models.thinking import looks_like_thought
from core.store.queries.runs import RunProgress

UNMARKED_OF = 5
"""Replies that look like reasoning before a run reports them."""
UNREADABLE_OF = 10
"""Verdicts of a grader before a run reports that most of them cannot be read."""
_ASKED_AFTER_S = 0.5
"""Seconds to wait for a job's lock: a process that only checks whether the job is running holds it for a moment."""
_RATE_OVER_S = 15.0
_FORECAST_FROM = 3
"""Finished pieces before a forecast is made."""
STATUS = "status.json"
"""File in a job's folder with its progress, for other processes."""
_STATUS_LISTS = 100
"""Maximum of calls in flight and of running pieces in the status: a batch has tens of thousands."""
_STATUS_HOLDS_S = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class JobEnd:
    """How a job ended: calls, tokens and cost since it started, its most frequent ``failure``, and why it ``stopped``.

    ``remaining`` pieces were not done. ``cost_usd`` counts the calls whose price is known.
    """

    remaining: int = 0
    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    failure: str = ""
    stopped: str | None = None


class Headway(NamedTuple):
    """How far a job is, with its calls from before a resume.

    ``calls_expected`` are those of the whole job, ``None`` if it calls no model. ``share`` is that of the calls, 0 to
    1, or of the pieces if no call is expected. ``seconds_left`` is ``None`` before the first call or piece, and after
    the last one.
    """

    calls: int
    tokens: int
    calls_expected: int | None
    share: float
    seconds_left: float | None

    @property
    def calls_in_words(self) -> str:
        rest = f" of about {self.calls_expected:,}" if self.calls_expected and self.share < 1 else ""
        return f"{self.calls:,}{rest} calls"


@dataclass
class Progress:
    """The progress of a job. Pieces done before a resume count in ``done``, but not in calls, tokens and costs.

    ``spent_usd`` is the cost of the job before the resume. ``remembered`` replies were reused and not paid for again;
    ``unused`` replies were paid for but no longer fit a request, because the program or its prompts have changed.
    """

    planned: int
    done: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """Messages about the answers and gradings that failed, with their counts."""
    tokens: int = 0
    cost_usd: float = 0.0
    calls: int = 0
    failed_in_a_row: int = 0
    """Failed calls since the last successful one."""
    started_at: float = field(default_factory=time.time)
    done_here: int = 0
    spent_usd: float = 0.0
    remembered: int = 0
    unused: int = 0
    hopeless: str | None = None
    """Why no call can ever succeed (a wrong key, a server that does not start)."""
    read: Counter[bool] = field(default_factory=Counter)
    """Verdicts on free responses since the start, by whether they could be read."""
    spoken: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """Messages of dialogues, by model and by whether they look like reasoning."""
    replies: ReplyCache | None = None
    """The calls in flight and the running pieces, while the job runs."""
    batches: Callable[[], dict[str, Any] | None] = lambda: None
    """Returns the state of open batches (``core.models.batches.Batches.waiting``)."""
    estimate: WorkTotals | None = None
    """The estimate for all pieces from before the start."""
    first: WorkTotals = field(default_factory=WorkTotals)
    """What the first pieces took, up to the first unfinished one: counting all would favour short pieces."""
    finished: WorkTotals = field(default_factory=WorkTotals)
    """What all finished pieces took."""
    stored_replies: int = 0
    """Replies in the journal, those from before a resume included: none of them is paid for again."""
    _begun: deque[Unit] = field(default_factory=deque)
    _finished_s: float = 0.0
    """Seconds that the pieces finished since the start took, one after another."""
    learnt: set[Concurrency] = field(default_factory=set)
    """The adaptive limits of the providers called so far; empty if the concurrency is fixed."""
    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    def note(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Graded):
                if event.rule in GRADED_TYPES and event.verdict != "provider_error":
                    warned = bool(self.trouble)
                    self.read[event.verdict != "ungradable"] += 1
                    if self.trouble and not warned:
                        log.warning("%s (%s)", self.trouble, event.grader)
            elif isinstance(event, Answered) and event.reason in ("provider_error", "refused", "cut"):
                self.failures[event.detail] += 1
            elif isinstance(event, Failed) and event.where.startswith("grader"):
                self.failures[event.message] += 1

    @property
    def trouble(self) -> str:
        """A warning if most replies of the grader cannot be read; otherwise empty."""
        verdicts = self.read.total()
        if verdicts < UNREADABLE_OF or 2 * self.read[False] < verdicts:
            return ""
        return (
            f"The grader cannot be read: {self.read[False]} of {verdicts} verdicts are ungradable and count in no "
            "figure. Stop, and grade the stored answers again with another grader (job regrade)."
        )

    def note_call(self, call: CallRecord) -> None:
        self.calls += 1
        self.tokens += call.prompt_tokens + call.completion_tokens
        self.cost_usd += call.cost_usd or 0.0
        self.stored_replies += call.error is None
        if call.purpose in ("dialogue", "answer") and call.response is not None:
            self.spoken[call.model, looks_like_thought(call.response)] += 1

    @property
    def unmarked(self) -> str:
        """A warning that names a model whose messages often look like reasoning; otherwise empty."""
        for (model, _), count in self.spoken.items():
            replies = self.spoken[model, True] + self.spoken[model, False]
            if self.spoken[model, True] >= max(UNMARKED_OF, replies / 10) and count:
                return (
                    f"{self.spoken[model, True]} of {replies} replies of {model} begin as reasoning does: it may think "
                    "aloud without markers that tell it from speech. Read some; its entry can set thinking_markers."
                )
        return ""

    def begin(self, unit: Unit) -> None:
        self._begun.append(unit)

    def end(self, unit: Unit) -> None:
        unit.done = True
        self.finished += unit.totals
        self._finished_s += time.time() - unit.started_at
        while self._begun and self._begun[0].done:
            self.first += self._begun.popleft().totals

    @property
    def calls_a_piece(self) -> float:
        """The expected calls of a piece; 0 if none is expected.

        The estimate weighs as much as three pieces: the first pieces correct it soon, but without a jump.
        """
        calls, pieces = self.first.calls, self.first.pieces
        if self.estimate and self.estimate.pieces:
            pieces += _FORECAST_FROM
            calls += round(_FORECAST_FROM * self.estimate.calls / self.estimate.pieces)
        return calls / pieces if pieces else 0.0

    def headway(self) -> Headway:
        """Return how far the job is.

        The pieces run side by side, at the pace since the start: the rest takes as long as its calls divided by the
        running pieces, and at least as long as the longest piece, which nothing shortens.
        """
        unfinished, calls_a_piece = [unit for unit in list(self._begun) if not unit.done], self.calls_a_piece
        calls = self.finished.calls + sum(unit.totals.calls for unit in unfinished)
        tokens = self.finished.tokens + sum(unit.totals.tokens for unit in unfinished)
        now, remaining = time.time(), self.planned - self.done
        if remaining <= 0:
            return Headway(calls, tokens, calls if calls_a_piece else None, 1.0, None)
        if not calls_a_piece:
            seconds_left = (now - self.started_at) / self.done_here * remaining if self.done_here else None
            return Headway(calls, tokens, None, self.done / self.planned, seconds_left)
        # a piece that is not done has at least one call left, however many it has made
        left_in_piece = [max(1.0, calls_a_piece - unit.totals.calls) for unit in unfinished]
        not_begun = max(0, remaining - len(unfinished))
        calls_left = sum(left_in_piece) + not_begun * calls_a_piece
        seconds_left = None
        if self.calls and unfinished:
            seconds_a_call = (self._finished_s + sum(now - unit.started_at for unit in unfinished)) / self.calls
            longest = max(*left_in_piece, min(left_in_piece) + calls_a_piece if not_begun else 0.0)
            seconds_left = seconds_a_call * max(calls_left / len(unfinished), longest)
        return Headway(calls, tokens, round(calls + calls_left), calls / (calls + calls_left), seconds_left)

    @property
    def forecast(self) -> str:
        """What all pieces will take, extrapolated from the first ones; empty until a twentieth of them is done."""
        done = self.first.pieces
        if done < max(_FORECAST_FROM, self.planned / 20) or done >= self.planned or not self.first.calls:
            return ""
        before = f"; estimated before the start: {self.estimate.in_words}" if self.estimate else ""
        forecast = self.first.scaled(self.planned).in_words
        return f"By what the first {done:,} of {self.planned:,} took: about {forecast} in all{before}."

    def tokens_a_second(self) -> float | None:
        """Return the rate of streamed text over the last 15 seconds; ``None`` in the first second."""
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
        """The present adaptive limits of calls in flight, one for each provider."""
        return sorted((limit.limit for limit in set(self.learnt)), reverse=True)

    def in_words(self) -> str:
        """Return the calls in all and what ``details`` returns, in one line; empty before the first call."""
        details = self.details()
        return f"{self.headway().calls_in_words}, {details}" if details else ""

    def details(self) -> str:
        """Return tokens, cost, speed and pending calls in one line; empty before the first call."""
        pending = list(self.replies.in_flight) if self.replies else []
        if not self.calls and not pending:
            return ""
        words = [f"{self.headway().tokens:,} tokens"]
        if speed := self.tokens_a_second():
            words[0] += f" ({speed:.0f} a second)"
        if self.cost_usd + self.spent_usd:
            words.append(f"${self.cost_usd + self.spent_usd:.2f}")
        if pending and not self.batches():
            seats = ", ".join(f"{count} {role}" for role, count in Counter(call.role for call in pending).most_common())
            words.append(f"waiting for {seats}, up to {time.time() - pending[0].since:.0f} s")
        if waiting := self.batches():
            words.append(waiting["words"])
        elif self.replies and self.replies.running:
            steps = [unit.calls for unit in list(self.replies.running.values())]
            words.append(f"{len(steps)} running at call {min(steps)} to {max(steps)}")
        if self.at_once:
            words.append(f"at most {' + '.join(map(str, self.at_once))} at once")
        return "; ".join(words)

    def ended(self, stop: Stop, stored: str = "") -> dict[str, Any]:
        """Return the fields of ``JobEnd``.

        Raises ``AnamnesisError`` if no call can succeed; its text ends with the sentence ``stored``.
        """
        if self.hopeless is not None:
            raise AnamnesisError(f"{self.hopeless.rstrip('.')}.{stored}")
        return {
            "remaining": self.planned - self.done,
            "calls": self.calls,
            "tokens": self.tokens,
            "cost_usd": self.cost_usd,
            "failure": max(self.failures, key=self.failures.__getitem__, default=""),
            "stopped": stop.reason if self.done < self.planned else None,
        }

    def status(self) -> dict[str, Any]:
        """Return the progress for other processes; the function ``status`` describes the keys."""
        now, replies, headway = time.time(), self.replies, self.headway()
        return {
            "at": now,
            "done": self.done,
            "planned": self.planned,
            "share": headway.share,
            "calls_so_far": headway.calls,
            "calls_expected": headway.calls_expected,
            "seconds_left": headway.seconds_left,
            "done_here": self.done_here,
            "started_at": self.started_at,
            "calls": self.calls,
            "tokens": self.tokens,
            "cost_usd": self.spent_usd + self.cost_usd,
            "tokens_a_second": self.tokens_a_second(),
            "waiting": [
                [call.role, call.purpose, now - call.since]
                for call in (islice(replies.in_flight, _STATUS_LISTS) if replies else ())
            ],
            "under_way": {
                name: unit.calls for name, unit in (islice(replies.running.items(), _STATUS_LISTS) if replies else ())
            },
            "batch": self.batches(),
            "at_once": self.at_once,
            "words": self.in_words(),
            "details": self.details(),
            "forecast": self.forecast,
            "trouble": " ".join(filter(None, (self.trouble, self.unmarked))),
        }


@dataclass
class Stop:
    """A request to stop a job, with its reason.

    ``at_once`` cancels the calls in flight; when a budget is used up the job waits for them.
    """

    reason: str | None = None
    at_once: bool = False

    def ask(self, reason: str, *, at_once: bool = True) -> None:
        self.reason = self.reason or reason  # the first reason stands
        self.at_once = self.at_once or at_once

    def __call__(self) -> bool:
        """Return whether the job is to stop, as a ``core.callbacks.StopCallback``."""
        return self.reason is not None


@contextmanager
def running(run_id: str, folder: Path | None = None) -> Iterator[Path]:
    """Lock the run or job for this process, so that two never run it at once; yields the path of its stop file."""
    place = journal_path(run_id, folder).parent
    with writable(place):
        place.mkdir(parents=True, exist_ok=True)
    stop_file = place / "stop"
    lock = FileLock(place / "running.lock")
    try:
        with writable(place):
            lock.acquire(timeout=_ASKED_AFTER_S)
    except Timeout as error:
        raise AnamnesisError(f"Run {run_id} is already running in another process: stop it there first.") from error
    try:
        stop_file.unlink(missing_ok=True)
        yield stop_file
    finally:
        lock.release()


def is_running(run_id: str) -> bool:
    return in_use(journal_path(run_id))


def run_state(run: RunProgress) -> Literal["running", "complete", "stopped"]:
    if is_running(run.run_id):
        return "running"
    return "complete" if run.state == "complete" else "stopped"


def status(run_id: str) -> dict[str, Any] | None:
    """Return the progress of a run of any process, about a second old; ``None`` if nothing was written lately.

    Keys: ``done`` of ``planned`` pieces, ``done_here`` of them since ``started_at``; ``share``, ``calls_so_far``,
    ``calls_expected`` and ``seconds_left`` as in ``Headway``; ``calls``, ``tokens``, ``cost_usd`` (including earlier
    starts), ``tokens_a_second`` (or ``None``); ``waiting``: pending calls as [seat, purpose, seconds], the longest
    first; ``batch`` (``core.models.batches.Batches.waiting``); ``under_way``: running piece → calls so far; ``at_once``
    as in ``Progress``; ``words`` (with the calls) and ``details`` (without), ``forecast`` and ``trouble``: sentences on
    the progress, on the expected total, and on an unreadable grader.
    """
    progress = last_status(run_id)
    return progress if progress and time.time() - progress["at"] < _STATUS_HOLDS_S else None


def last_status(run_id: str) -> dict[str, Any] | None:
    """Return the last ``status`` of a run, however old: how far a stopped run is; ``None`` if there is none."""
    try:
        progress: dict[str, Any] = orjson.loads(journal_path(run_id).with_name(STATUS).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return progress


def under_way() -> dict[str, dict[str, Any]]:
    """Return run → ``status`` of all runs and jobs that a process works on."""
    fresh = time.time() - _STATUS_HOLDS_S
    running_now = {}
    for place in paths.journals_folder().glob(f"*/{STATUS}"):
        with suppress(OSError):
            if place.stat().st_mtime > fresh and is_running(place.parent.name):
                progress = status(place.parent.name)
                if progress is not None:
                    running_now[place.parent.name] = progress
    return running_now


def ask_to_stop(run_id: str) -> None:
    """Ask a run of any process to stop; it stops within about a second, and every reply is stored."""
    access.require("run")
    (journal_path(run_id).parent / "stop").touch()
