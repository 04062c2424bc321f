"""A reply is paid for once: what is asked in a job is journaled as it is answered, and remembered when asked again.

A job opens ``ReplyCache`` and names the piece of work that asks (``ReplyCache.unit``); ``core.asking.calls.call`` finds it in
its context, so that no framework and no agent knows of it. Work that was cut short is done again from its beginning: it
is given the replies it was given before, as long as it asks the same, and goes on with real calls where they end. What
takes up a trial at some place (a fork, one step run again) is given what the trial was told to the same questions.
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
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import NoReturn

import orjson

from core import access
from core.errors import ProviderError
from core.events import Called, CallRecord, Purpose, RoleName
from core.journal import DoneLine, GradesLine, Journal, ReplyLine, RowLine, TrialLine, read_lines
from core.models.base import Message, Sampling
from core.models.pictures import recorded
from core.models.prices import total
from core.words import money

_GRADING = '"role":"grader"'
"""Stands in the lines of a journal that hold what a grader said."""
_UNIT: ContextVar[Unit | None] = ContextVar("unit", default=None)


class JobOver(Exception):
    """The job ends: nothing more is to be asked in it. What was asked is journaled, and the work is left unfinished."""


@dataclass
class StoredReply:
    """A reply that was paid for before, and whether it was asked for again."""

    call: CallRecord
    used: bool = False


@dataclass
class WorkTotals:
    """What some pieces of work took together; ``cost_usd`` is ``None`` where a price is not known."""

    pieces: int = 0
    calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0

    def add(self, call: CallRecord) -> None:
        """Count a call."""
        dollars = call.cost_usd if call.error is None else call.cost_usd or 0.0
        self.calls += 1
        self.tokens += call.prompt_tokens + call.completion_tokens
        self.cost_usd = total((self.cost_usd, dollars))

    def __add__(self, other: WorkTotals) -> WorkTotals:
        dollars = total((self.cost_usd, other.cost_usd))
        return WorkTotals(self.pieces + other.pieces, self.calls + other.calls, self.tokens + other.tokens, dollars)

    def scaled(self, pieces: int) -> WorkTotals:
        """Return what so many pieces take at the same rate."""
        rate = pieces / self.pieces
        dollars = None if self.cost_usd is None else rate * self.cost_usd
        return WorkTotals(pieces, round(rate * self.calls), round(rate * self.tokens), dollars)

    @property
    def in_words(self) -> str:
        """Calls, tokens and US dollars."""
        price = "cost unknown" if self.cost_usd is None else money(self.cost_usd)
        return f"{self.calls:,} calls, {self.tokens:,} tokens, {price}"


@dataclass
class JournaledReplies:
    """What a journal says of earlier goes: replies of unfinished work, those that hold elsewhere, and what was spent.

    ``units`` are unit → key → replies in the order in which they were asked for; ``cost_usd`` counts known prices.
    ``others`` are key → replies to any piece of work, which are given where a job shares them: what graders said.
    ``given`` are unit → key → replies that another run's work was given and that hold in this unit, too. ``took`` is
    what the pieces that were ended took.
    """

    units: dict[str, dict[str, list[StoredReply]]] = field(default_factory=dict)
    others: dict[str, list[StoredReply]] = field(default_factory=dict)
    given: Mapping[str, Mapping[str, list[StoredReply]]] = field(default_factory=dict)
    cost_usd: float = 0.0
    took: WorkTotals = field(default_factory=WorkTotals)

    @classmethod
    def of(
        cls, path: Path, ours: Callable[[str], bool] = lambda unit: True, about: Sequence[str] = ()
    ) -> JournaledReplies:
        """Read a journal, or nothing where there is none; only units that are ``ours`` and lines ``about`` it count."""
        memory, begun = cls(), dict[str, WorkTotals]()
        for _, line in read_lines(path, about=about) if path.exists() else ():
            match line:
                case ReplyLine() if ours(line.unit):
                    memory.cost_usd += line.call.cost_usd or 0.0
                    begun.setdefault(line.unit, WorkTotals(1)).add(line.call)
                    if line.call.error is None:  # a failure is no reply: it is asked for again
                        reply = StoredReply(line.call)
                        memory.units.setdefault(line.unit, {}).setdefault(line.key, []).append(reply)
                        if line.call.role == "grader":
                            memory.others.setdefault(line.key, []).append(reply)
                case TrialLine() if ours(line.trial_id):
                    for kept in chain.from_iterable(memory.units.pop(line.trial_id, {}).values()):
                        kept.call = kept.call.model_copy(update={"request": {}})  # of these, what was said is enough
                    calls = (event.call for event in line.events if isinstance(event, Called))
                    took = begun.pop(line.trial_id, WorkTotals(1))
                    for call in (call for call in calls if call.call_id not in line.paid):
                        memory.cost_usd += call.cost_usd or 0.0
                        took.add(call)
                    memory.took += took
                case GradesLine() | RowLine() | DoneLine() if line.unit:
                    memory.units.pop(line.unit, None)
                    memory.took += begun.pop(line.unit, WorkTotals())
                case _:
                    pass
        return memory


def replies_in(path: Path, trial_id: str, forget: Callable[[CallRecord], bool]) -> dict[str, list[StoredReply]]:
    """Return key → replies that hold in a trial, as ``JournaledReplies.others``; none to a question of which one is forgotten.

    They are those that it was given, and what graders said in its run. A trial of version 0.1, and one that came with a
    release, has none in a journal.
    """
    found: dict[str, list[StoredReply]] = {}
    for _, line in read_lines(path, about=(trial_id, _GRADING)) if path.exists() else ():
        ours = isinstance(line, ReplyLine) and (line.unit == trial_id or line.call.role == "grader")
        if isinstance(line, ReplyLine) and ours and line.call.error is None:
            found.setdefault(line.key, []).append(StoredReply(line.call))
    return {key: said for key, said in found.items() if not any(forget(one.call) for one in said)}


class ReplyCache:
    """The calls of one job: journals and counts each, and knows which are in the air.

    ``heard`` is told of every call that is made; ``over`` says whether no more may be made (``JobOver``). ``shared`` lets
    ``JournaledReplies.others`` hold in all of it, such as a grader's reading of an answer, as it does within one process.
    ``at_once`` calls at most are in the air where one piece of work may ask several (``side_by_side``). ``left`` says
    how many US dollars of a budget are not spent; a call is sent where what it and those in the air may cost at most
    fits into that, or alone where anything is left, so that a budget is overrun by one call at most. By default that is
    what a visitor may still spend today, and where it is nothing, no call is sent. Where nobody has ``watched`` how
    replies come, they are told whole.
    """

    def __init__(
        self,
        run_id: str,
        journal: Journal,
        memory: JournaledReplies | None = None,
        *,
        shared: bool = False,
        heard: Callable[[CallRecord], None] = lambda call: None,
        over: Callable[[], bool] = lambda: False,
        left: Callable[[], float | None] = access.left_today,
        at_once: int | None = None,
        watched: bool = True,
    ) -> None:
        self.run_id, self.journal, self.memory = run_id, journal, memory or JournaledReplies()
        self.heard, self.over, self.left, self.shared, self.watched = heard, over, left, shared, watched
        self._kept_back: dict[PendingCall, float] = {}
        """What calls may cost at most that are in the air or not journaled yet, where there is a budget."""
        self._kept_back_usd = 0.0
        self._queue: deque[tuple[PendingCall, float, asyncio.Future[None]]] = deque()
        self.places = asyncio.Semaphore(at_once) if at_once else None
        self.under_way: dict[str, Unit] = {}
        self.air: dict[PendingCall, None] = {}
        """What was asked and is not answered yet, the oldest first."""
        self.streamed = 0
        """Tokens that came so far, those of replies under way counted by their pieces."""

    def charge(self, call: CallRecord) -> None:
        """Count what a call has cost whoever began this."""
        access.spend(call.cost_usd)

    async def afford(self, asked: PendingCall, most_usd: float) -> None:
        """Wait until the budget has what a call may cost at most; who came first is sent first."""
        turn = asyncio.get_running_loop().create_future()
        self._queue.append((asked, most_usd, turn))
        self._let_go()
        try:
            await turn
        except BaseException:
            self.free(asked)
            raise

    def free(self, asked: PendingCall) -> None:
        """Give back what was kept back for a call: it is counted, or was not made."""
        most = self._kept_back.pop(asked, 0.0)
        self._kept_back_usd = sum(self._kept_back.values()) if math.isinf(most) else self._kept_back_usd - most
        self._let_go()

    def _let_go(self) -> None:
        while self._queue:
            asked, most, turn = self._queue[0]
            fits = not self._kept_back or most + self._kept_back_usd <= (self.left() or 0.0)
            if not (fits or turn.done() or self.over()):
                return
            self._queue.popleft()
            if not turn.done():
                self._kept_back_usd = most + (self._kept_back_usd if self._kept_back else 0.0)
                self._kept_back[asked] = most
                turn.set_result(None)

    @contextmanager
    def unit(self, unit_id: str, trial_id: str | None = None) -> Iterator[Unit]:
        """Do a piece of work; its calls are listed under ``trial_id``, by default under its own id."""
        unit = Unit(self, unit_id, trial_id or unit_id)
        self.under_way[unit_id] = unit
        token = _UNIT.set(unit)
        try:
            yield unit
        finally:
            _UNIT.reset(token)
            del self.under_way[unit_id]


class Unit:
    """One piece of work and what it asks."""

    def __init__(self, replies: ReplyCache, unit_id: str, trial_id: str) -> None:
        self.replies, self.unit_id, self.trial_id = replies, unit_id, trial_id
        self.started_at = time.time()
        self.known = replies.memory.units.pop(unit_id, {})
        self.asked: Counter[str] = Counter()
        self.remembered = 0
        """How many replies it was given that were paid for before."""
        self.paid: set[str] = set()
        """Ids of the calls that are in the journal."""
        self.done = False
        self.took = WorkTotals(1)
        """Its own calls so far, those of earlier goes too."""

    @property
    def calls(self) -> int:
        """How many calls it has made, now or before."""
        return self.asked.total()

    @property
    def unused(self) -> int:
        """Replies that were paid for and are no longer asked for: the program or its prompts have changed since."""
        return sum(not one.used for kept in self.known.values() for one in kept)

    def ask(
        self, role: RoleName, purpose: Purpose, model: str, sent: Sequence[Message], sampling: Sampling
    ) -> PendingCall:
        """Take note of a question; its ``reply`` is there where it was answered before. May raise ``JobOver``."""
        form = sampling.form.__name__ if sampling.form else None
        body = [role, purpose, model, [recorded(one) for one in sent], {**asdict(sampling), "form": form}]
        key = hashlib.sha256(orjson.dumps(body)).hexdigest()[:20]
        number, place = self.asked[key], self.calls
        kept = self.known.get(key, [])
        found = kept[number] if number < len(kept) else None
        elsewhere = False
        if found is None and self.replies.shared:
            memory = self.replies.memory
            said = memory.given.get(self.unit_id, {}).get(key) or memory.others.get(key, [])
            found = said[number] if number < len(said) else None
            elsewhere = found is not None
        if found is not None:
            found.used = True
            self.remembered += 1
            if not elsewhere:
                self.paid.add(found.call.call_id)
                self.took.add(found.call)
        elif self.replies.over():
            raise JobOver
        self.asked[key] += 1
        return PendingCall(self, role, purpose, key, number, place, found.call if found else None, elsewhere)


@dataclass(eq=False)
class PendingCall:
    """One question to a model. ``reply`` was given before, ``elsewhere`` to another piece of work."""

    unit: Unit
    role: RoleName
    purpose: Purpose
    key: str
    number: int
    place: int
    reply: CallRecord | None
    elsewhere: bool
    since: float = field(default_factory=time.time)
    pieces: int = 0
    attempt: int = 1
    """The how-manieth request for this reply is under way or waited for."""
    trouble: str = ""
    """Why the request before it brought none."""
    waits: str = ""
    """What it waits for, where it is not sent yet."""
    lost_usd: float = 0.0
    """What its requests were charged with that gave no reply; counted once the call is journaled."""

    @asynccontextmanager
    async def in_the_air(self, most_usd: Callable[[], float] = float) -> AsyncIterator[None]:
        """Wait for a place among the calls in the air and for the money, and there for the reply. May raise ``JobOver``.

        The money is kept back until the reply is journaled, or none came.
        """
        replies = self.unit.replies
        async with replies.places or nullcontext():
            if replies.left() is not None and (most := most_usd()):
                if replies.left is access.left_today:  # of a job's, the job says that it is over
                    access.check_money()
                await replies.afford(self, most)
            if replies.over():  # the job ended while this one waited
                replies.free(self)
                raise JobOver
            self.since = time.time()
            replies.air[self] = None
            try:
                yield
            except ProviderError:
                raise  # it is journaled, too
            except BaseException:
                replies.free(self)
                raise
            finally:
                del replies.air[self]

    def piece(self) -> None:
        """Take note of a bit of text, taken to be a token until the provider has counted them."""
        self.pieces += 1
        self.unit.replies.streamed += 1

    def again(self, attempt: int, trouble: str) -> None:
        """Take note that the reply is asked for once more, and why; what came of it so far is void."""
        self.unit.replies.streamed -= self.pieces
        self.pieces, self.attempt, self.trouble = 0, attempt, trouble

    def overruns(self, lost_usd: float) -> bool:
        """Note what failed requests of the call cost; say whether those of all calls in flight exceed what is left."""
        self.lost_usd = lost_usd
        left = self.unit.replies.left()
        return left is not None and lost_usd > 0 and sum(call.lost_usd for call in self.unit.replies.air) >= left

    def stop(self) -> NoReturn:
        """End the work that asks for want of money: raise a sentence for a person who watches, or ``JobOver`` in a job."""
        if self.unit.replies.left is access.left_today:
            access.check_money()
        raise JobOver

    async def keep(self, call: CallRecord) -> None:
        """Journal the call; it is on disk when this returns."""
        unit, replies = self.unit, self.unit.replies
        line = ReplyLine(
            run_id=replies.run_id,
            trial_id=unit.trial_id,
            unit=unit.unit_id,
            key=self.key,
            number=self.number,
            place=self.place,
            call=call,
        )
        try:
            await replies.journal.append(line)
            replies.charge(call)
            unit.paid.add(call.call_id)
            unit.took.add(call)
            replies.streamed += call.completion_tokens - self.pieces
            replies.heard(call)
        finally:
            replies.free(self)


def unit_at_work() -> Unit | None:
    """Return the piece of work that asks; ``None`` outside of any job."""
    return _UNIT.get()


def side_by_side() -> bool:
    """Say whether the job that asks wants several calls of one piece of work in the air at once."""
    unit = _UNIT.get()
    return unit is not None and unit.replies.places is not None


def asking(
    role: RoleName, purpose: Purpose, model: str, sent: Sequence[Message], sampling: Sampling
) -> PendingCall | None:
    """Take note of a question in the piece of work that asks; ``None`` where it belongs to no job."""
    unit = _UNIT.get()
    return unit.ask(role, purpose, model, sent, sampling) if unit is not None else None
