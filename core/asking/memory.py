"""A reply is paid for once: every call of a job is journaled, and answered from the journal when it is repeated.

A job opens a ``ReplyCache`` and names the unit of work that makes calls (``ReplyCache.unit``, usually a trial).
``core.asking.calls.call`` finds the unit in its context, so no framework and no agent knows about the cache. An
interrupted unit starts again from its beginning: it receives the stored replies as long as it sends the same requests,
and makes real calls from there on. A branch of a trial receives the replies of that trial to the same
requests.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NoReturn

import orjson

from core.errors import ProviderError
from core.events import Called, CallRecord, Purpose, RoleName
from core.journal import DoneLine, FirstRequest, GradesLine, Journal, ReplyLine, RowLine, TrialLine, read_lines
from core.models.base import Message, Sampling
from core.models.pictures import read_back, recorded
from core.models.prices import total
from core.short_calls import NewestCalls, short_call, whole_call
from core.words import money

_GRADING = '"role":"grader"'
"""Text that every journal line with a grader's reply contains."""
_UNIT: ContextVar[Unit | None] = ContextVar("unit", default=None)


class JobOver(Exception):
    """The job has ended and makes no more calls. Earlier calls are journaled; the unit stays unfinished."""


@dataclass
class StoredReply:
    """A reply that is already paid for. ``used`` says whether this go requested it again."""

    call: CallRecord
    used: bool = False


@dataclass
class WorkTotals:
    """Totals over some units of work. ``cost_usd`` is ``None`` if a price is unknown."""

    pieces: int = 0
    calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0

    def add(self, call: CallRecord) -> None:
        dollars = call.cost_usd if call.error is None else call.cost_usd or 0.0
        self.calls += 1
        self.tokens += call.prompt_tokens + call.completion_tokens
        self.cost_usd = total((self.cost_usd, dollars))

    def __add__(self, other: WorkTotals) -> WorkTotals:
        dollars = total((self.cost_usd, other.cost_usd))
        return WorkTotals(self.pieces + other.pieces, self.calls + other.calls, self.tokens + other.tokens, dollars)

    def scaled(self, pieces: int) -> WorkTotals:
        rate = pieces / self.pieces
        dollars = None if self.cost_usd is None else rate * self.cost_usd
        return WorkTotals(pieces, round(rate * self.calls), round(rate * self.tokens), dollars)

    @property
    def in_words(self) -> str:
        price = "cost unknown" if self.cost_usd is None else money(self.cost_usd)
        return f"{self.calls:,} calls, {self.tokens:,} tokens, {price}"


@dataclass
class JournaledReplies:
    """The state of a job after its earlier goes, read from the journal.

    ``units``: unit → key → replies of unfinished units, in the order of their requests.
    ``others``: key → replies that hold in any unit of a job that shares them (replies of graders).
    ``given``: unit → key → replies from another run that hold in this unit too.
    ``cost_usd``: sum of the known prices; ``replies``: number of replies, failed calls not counted.
    ``totals``: totals of the finished units.
    """

    units: dict[str, dict[str, list[StoredReply]]] = field(default_factory=dict)
    others: dict[str, list[StoredReply]] = field(default_factory=dict)
    given: Mapping[str, Mapping[str, list[StoredReply]]] = field(default_factory=dict)
    cost_usd: float = 0.0
    replies: int = 0
    totals: WorkTotals = field(default_factory=WorkTotals)

    @classmethod
    def of(
        cls, path: Path, includes: Callable[[str], bool] = lambda unit: True, about: Sequence[str] = ()
    ) -> JournaledReplies:
        """Read a journal; a missing file gives an empty state.

        Args:
            path: The journal.
            includes: Whether the replies of a unit count.
            about: Read only lines that contain one of these texts; empty reads all.
        """
        state, unfinished = cls(), dict[str, WorkTotals]()
        for _, line in read_lines(path, about=about) if path.exists() else ():
            match line:
                case ReplyLine() if includes(line.unit):
                    state.cost_usd += line.call.cost_usd or 0.0
                    unfinished.setdefault(line.unit, WorkTotals(1)).add(line.call)
                    if line.call.error is None:  # a failed call has no reply and is repeated
                        state.replies += 1
                        reply = StoredReply(line.call)
                        state.units.setdefault(line.unit, {}).setdefault(line.key, []).append(reply)
                        if line.call.role == "grader":
                            state.others.setdefault(line.key, []).append(reply)
                case TrialLine() if includes(line.trial_id):
                    for reply in chain.from_iterable(state.units.pop(line.trial_id, {}).values()):
                        # a grader's reply stays in ``others``, which needs no request: save its memory
                        reply.call = reply.call.model_copy(update={"request": {}})
                    calls = (event.call for event in line.events if isinstance(event, Called))
                    totals = unfinished.pop(line.trial_id, WorkTotals(1))
                    for call in (call for call in calls if call.call_id not in line.paid):
                        state.cost_usd += call.cost_usd or 0.0
                        state.replies += call.error is None
                        totals.add(call)
                    state.totals += totals
                case GradesLine() | RowLine() | DoneLine() if line.unit:
                    state.units.pop(line.unit, None)
                    state.totals += unfinished.pop(line.unit, WorkTotals())
                case _:
                    pass
        return state


def replies_in(path: Path, trial_id: str, forget: Callable[[CallRecord], bool]) -> dict[str, list[StoredReply]]:
    """Return key → replies that hold in a trial: its own and those of the run's graders.

    A key with a reply to ``forget`` is left out. Trials of version 0.1, and trials that came with a release, have no
    replies in a journal.
    """
    replies: dict[str, list[StoredReply]] = {}
    for _, line in read_lines(path, about=(trial_id, _GRADING)) if path.exists() else ():
        if not isinstance(line, ReplyLine) or line.call.error is not None:
            continue
        if line.unit == trial_id or line.call.role == "grader":
            replies.setdefault(line.key, []).append(StoredReply(line.call))
    return {key: stored for key, stored in replies.items() if not any(forget(reply.call) for reply in stored)}


class ReplyCache:
    """The calls of one job: stores and counts each, and knows which are in flight.

    Args:
        run_id: The run or job that the journal belongs to.
        journal: Where each call is stored.
        memory: The state after earlier goes.
        shared: Whether ``JournaledReplies.others`` holds in the whole job, such as a grader's reading of an answer.
        on_call: Called with the record of each call.
        over: Whether the job makes no more calls (``JobOver``).
        budget_left: US dollars left, ``None`` without a budget. A call is sent if its highest possible
            cost and those of the calls in flight fit into the rest, or if no other call is in flight: a budget is
            overrun by one call at most.
        at_once: Calls in flight at most, for a job whose units make several calls at once (``calls_run_concurrently``).
        watched: Whether somebody watches replies arrive; otherwise a reply is passed on complete.
        first: The request with which a branch begins.
    """

    def __init__(
        self,
        run_id: str,
        journal: Journal,
        memory: JournaledReplies | None = None,
        *,
        shared: bool = False,
        on_call: Callable[[CallRecord], None] = lambda call: None,
        over: Callable[[], bool] = lambda: False,
        budget_left: Callable[[], float | None] = lambda: None,
        at_once: int | None = None,
        watched: bool = True,
        first: FirstRequest | None = None,
    ) -> None:
        self.run_id, self.journal, self.memory = run_id, journal, memory or JournaledReplies()
        self.first = first
        self.on_call, self.over, self.budget_left, self.shared, self.watched = (
            on_call,
            over,
            budget_left,
            shared,
            watched,
        )
        self._reserved: dict[PendingCall, float] = {}
        """Highest possible cost in US dollars of each call that is in flight or not journaled yet, with a budget."""
        self._reserved_usd = 0.0
        self._queue: deque[tuple[PendingCall, float, asyncio.Future[None]]] = deque()
        self.slots = asyncio.Semaphore(at_once) if at_once else None
        self.running: dict[str, Unit] = {}
        self.in_flight: dict[PendingCall, None] = {}
        """Calls without a reply yet, the oldest first."""
        self.streamed = 0
        """Tokens so far; a piece of a reply in flight counts as one token."""

    async def afford(self, call: PendingCall, most_usd: float) -> None:
        """Wait until the budget has room for the call's highest possible cost; first come, first served."""
        turn = asyncio.get_running_loop().create_future()
        self._queue.append((call, most_usd, turn))
        self._admit()
        try:
            await turn
        except BaseException:
            self.free(call)
            raise

    def free(self, call: PendingCall) -> None:
        """Release the money reserved for a call that is now counted, or that was not made."""
        most = self._reserved.pop(call, 0.0)
        self._reserved_usd = sum(self._reserved.values()) if math.isinf(most) else self._reserved_usd - most
        self._admit()

    def _admit(self) -> None:
        while self._queue:
            call, most, turn = self._queue[0]
            fits = not self._reserved or most + self._reserved_usd <= (self.budget_left() or 0.0)
            if not (fits or turn.done() or self.over()):
                return
            self._queue.popleft()
            if not turn.done():
                self._reserved_usd = most + (self._reserved_usd if self._reserved else 0.0)
                self._reserved[call] = most
                turn.set_result(None)

    @contextmanager
    def unit(self, unit_id: str, trial_id: str | None = None) -> Iterator[Unit]:
        """Run a unit of work; its calls are journaled under ``trial_id``, by default the unit's id."""
        unit = Unit(self, unit_id, trial_id or unit_id)
        self.running[unit_id] = unit
        token = _UNIT.set(unit)
        try:
            yield unit
        finally:
            _UNIT.reset(token)
            del self.running[unit_id]


class Unit:
    """One unit of work, such as a trial, and its calls."""

    def __init__(self, replies: ReplyCache, unit_id: str, trial_id: str) -> None:
        self.replies, self.unit_id, self.trial_id = replies, unit_id, trial_id
        self.started_at = time.time()
        self.stored = replies.memory.units.pop(unit_id, {})
        self.requested: Counter[str] = Counter()
        """Requests by key, in this go."""
        self._asked: Counter[tuple[RoleName, Purpose]] = Counter()
        self.remembered = 0
        """Requests that a stored reply answered."""
        self.paid: set[str] = set()
        """Ids of the calls that are in the journal."""
        self.newest = NewestCalls()
        """Of the calls that are in the journal."""
        self.done = False
        self.totals = WorkTotals(1)
        """The unit's calls so far, earlier goes included."""

    @property
    def calls(self) -> int:
        return self.requested.total()

    @property
    def unused(self) -> int:
        """Paid replies that are no longer requested: the program or its prompts have changed since."""
        return sum(not reply.used for replies in self.stored.values() for reply in replies)

    def count(self, call: CallRecord) -> None:
        """Count a call that is now in the journal."""
        self.paid.add(call.call_id)
        self.totals.add(call)
        self.replies.streamed += call.completion_tokens
        self.replies.on_call(call)

    def edited(self, role: RoleName, purpose: Purpose) -> list[Message] | None:
        """Return the messages of the next request of a role for a purpose, if a branch edits that request."""
        number, first = self._asked[role, purpose], self.replies.first
        self._asked[role, purpose] += 1
        if first is None or (first.role, first.purpose, first.number) != (role, purpose, number):
            return None
        return [read_back(message) for message in first.messages]

    def request(
        self, role: RoleName, purpose: Purpose, model: str, sent: Sequence[Message], sampling: Sampling
    ) -> PendingCall:
        """Register a request; its ``reply`` is set if a stored reply answers it. Raises ``JobOver``."""
        form = getattr(sampling.form, "__name__", "recorded") if sampling.form else None
        body = [role, purpose, model, [recorded(message) for message in sent], {**vars(sampling), "form": form}]
        key = hashlib.sha256(orjson.dumps(body)).hexdigest()[:20]
        number, place = self.requested[key], self.calls
        candidates = self.stored.get(key, [])
        reply = candidates[number] if number < len(candidates) else None
        elsewhere = False
        if reply is None and self.replies.shared:
            memory = self.replies.memory
            candidates = memory.given.get(self.unit_id, {}).get(key) or memory.others.get(key, [])
            reply = candidates[number] if number < len(candidates) else None
            elsewhere = reply is not None
        if reply is not None:
            reply.used = True
            self.remembered += 1
            if not elsewhere:
                self.paid.add(reply.call.call_id)
                self.newest.add(reply.call)
                self.totals.add(reply.call)
        elif self.replies.over():
            raise JobOver
        self.requested[key] += 1
        return PendingCall(self, role, purpose, key, number, place, reply.call if reply else None, elsewhere)


@dataclass(eq=False)
class PendingCall:
    """One request to a model. ``reply`` is a stored reply to it; ``elsewhere``: another unit received that reply."""

    unit: Unit
    role: RoleName
    purpose: Purpose
    key: str
    """Hash of the request."""
    number: int
    """How many equal requests the unit made before."""
    place: int
    """How many requests the unit made before."""
    reply: CallRecord | None
    elsewhere: bool
    since: float = field(default_factory=time.time)
    pieces: int = 0
    attempt: int = 1
    """Number of the current attempt, from 1."""
    trouble: str = ""
    """Why the attempt before it failed."""
    waits: str = ""
    """What the call waits for if it is not sent yet."""
    lost_usd: float = 0.0
    """Cost of failed attempts; counted once the call is journaled."""

    @asynccontextmanager
    async def sending(self, most_usd: Callable[[], float] = float) -> AsyncIterator[None]:
        """Wait for a free slot and for the money, then mark the call as in flight. Raises ``JobOver``.

        The money stays reserved until the reply is journaled, or until the call ends without a reply.
        """
        replies = self.unit.replies
        async with replies.slots or nullcontext():
            if replies.budget_left() is not None and (most := most_usd()):
                await replies.afford(self, most)
            if replies.over():  # the job ended during the wait
                replies.free(self)
                raise JobOver
            self.since = time.time()
            replies.in_flight[self] = None
            try:
                yield
            except ProviderError:
                raise  # the failed call is journaled, too, which frees the money
            except BaseException:
                replies.free(self)
                raise
            finally:
                del replies.in_flight[self]

    def count_piece(self) -> None:
        """Count a piece of streamed text as one token until the provider reports the real count."""
        self.pieces += 1
        self.unit.replies.streamed += 1

    def restart(self, attempt: int, trouble: str) -> None:
        self.unit.replies.streamed -= self.pieces
        self.pieces, self.attempt, self.trouble = 0, attempt, trouble

    def overruns(self, lost_usd: float) -> bool:
        """Set the cost of failed attempts; say whether that of all calls in flight uses up what is left."""
        self.lost_usd = lost_usd
        remaining = self.unit.replies.budget_left()
        return (
            remaining is not None
            and lost_usd > 0
            and sum(call.lost_usd for call in self.unit.replies.in_flight) >= remaining
        )

    def stop(self) -> NoReturn:
        """Stop because the job's budget is used up."""
        raise JobOver

    async def keep(self, call: CallRecord) -> CallRecord:
        """Journal the call; it is on disk when this returns.

        Returns the call, which shares its messages with the earlier calls of the unit.
        """
        unit, replies = self.unit, self.unit.replies
        earlier = unit.newest.closest(call)
        short = short_call(call, earlier) if earlier else call
        line = ReplyLine(
            run_id=replies.run_id,
            trial_id=unit.trial_id,
            unit=unit.unit_id,
            key=self.key,
            number=self.number,
            place=self.place,
            call=short,
        )
        try:
            await replies.journal.append(line)
            call = whole_call(short, earlier) if earlier else call
            unit.newest.add(call)
            replies.streamed -= self.pieces
            unit.count(call)
            return call
        finally:
            replies.free(self)


def calls_run_concurrently() -> bool:
    """Say whether a unit of the current job makes several calls at once."""
    unit = _UNIT.get()
    return unit is not None and unit.replies.slots is not None


def edited_messages(role: RoleName, purpose: Purpose) -> list[Message] | None:
    """Return what the current unit sends in place of the next request of a role for a purpose, if that is edited."""
    unit = _UNIT.get()
    return unit.edited(role, purpose) if unit is not None else None


def request(
    role: RoleName, purpose: Purpose, model: str, sent: Sequence[Message], sampling: Sampling
) -> PendingCall | None:
    """Register a request in the current unit; ``None`` outside of a job. Raises ``JobOver``."""
    unit = _UNIT.get()
    return unit.request(role, purpose, model, sent, sampling) if unit is not None else None
