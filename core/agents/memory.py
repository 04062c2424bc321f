"""A reply is paid for once: what is asked in a job is journaled as it is answered, and remembered when asked again.

A job opens ``Replies`` and names the piece of work that asks (``Replies.unit``); ``core.agents.calls.call`` finds it in
its context, so that no framework and no agent knows of it. Work that was cut short is done again from its beginning: it
is given the replies it was given before, as long as it asks the same, and goes on with real calls where they end. What
takes up a trial at some place (a fork, one step run again) is given what the trial was told to the same questions.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path

import orjson

from core.events import Called, CallRecord, Purpose, RoleName
from core.journal import DoneLine, GradesLine, Journal, ReplyLine, RowLine, TrialLine, read_lines
from core.models.base import Message, Sampling
from core.models.pictures import recorded

_GRADING = '"role":"grader"'
"""Stands in the lines of a journal that hold what a grader said."""
_UNIT: ContextVar[Unit | None] = ContextVar("unit", default=None)


class Over(Exception):
    """The job ends: nothing more is to be asked in it. What was asked is journaled, and the work is left unfinished."""


@dataclass
class Remembered:
    """A reply that was paid for before, and whether it was asked for again."""

    call: CallRecord
    used: bool = False


@dataclass
class Memory:
    """What a journal says of earlier goes: replies of unfinished work, those that hold elsewhere, and what was spent.

    ``units`` are unit → key → replies in the order in which they were asked for; ``cost_usd`` counts known prices.
    ``others`` are key → replies to any piece of work, which are given where a job shares them: what graders said.
    ``given`` are unit → key → replies that another run's work was given and that hold in this unit, too.
    """

    units: dict[str, dict[str, list[Remembered]]] = field(default_factory=dict)
    others: dict[str, list[Remembered]] = field(default_factory=dict)
    given: Mapping[str, Mapping[str, list[Remembered]]] = field(default_factory=dict)
    cost_usd: float = 0.0

    @classmethod
    def of(cls, path: Path, ours: Callable[[str], bool] = lambda unit: True, about: Sequence[str] = ()) -> Memory:
        """Read a journal, or nothing where there is none; only units that are ``ours`` and lines ``about`` it count."""
        memory = cls()
        for _, line in read_lines(path, about=about) if path.exists() else ():
            match line:
                case ReplyLine() if ours(line.unit):
                    memory.cost_usd += line.call.cost_usd or 0.0
                    if line.call.error is None:  # a failure is no reply: it is asked for again
                        reply = Remembered(line.call)
                        memory.units.setdefault(line.unit, {}).setdefault(line.key, []).append(reply)
                        if line.call.role == "grader":
                            memory.others.setdefault(line.key, []).append(reply)
                case TrialLine() if ours(line.trial_id):
                    for kept in chain.from_iterable(memory.units.pop(line.trial_id, {}).values()):
                        kept.call = kept.call.model_copy(update={"request": {}})  # of these, what was said is enough
                    calls = (event.call for event in line.events if isinstance(event, Called))
                    memory.cost_usd += sum(call.cost_usd or 0.0 for call in calls if call.call_id not in line.paid)
                case GradesLine() | RowLine() | DoneLine() if line.unit:
                    memory.units.pop(line.unit, None)
                case _:
                    pass
        return memory


def replies_in(path: Path, trial_id: str, forget: Callable[[CallRecord], bool]) -> dict[str, list[Remembered]]:
    """Return key → replies that hold in a trial, as ``Memory.others``; none to a question of which one is forgotten.

    They are those that it was given, and what graders said in its run. A trial of version 0.1, and one that came with a
    release, has none in a journal.
    """
    found: dict[str, list[Remembered]] = {}
    for _, line in read_lines(path, about=(trial_id, _GRADING)) if path.exists() else ():
        ours = isinstance(line, ReplyLine) and (line.unit == trial_id or line.call.role == "grader")
        if isinstance(line, ReplyLine) and ours and line.call.error is None:
            found.setdefault(line.key, []).append(Remembered(line.call))
    return {key: said for key, said in found.items() if not any(forget(one.call) for one in said)}


class Replies:
    """The calls of one job: journals and counts each, and knows which are in the air.

    ``heard`` is told of every call that is made; ``over`` says whether no more may be made (``Over``). ``shared`` lets
    ``Memory.others`` hold in all of it, such as a grader's reading of an answer, as it does within one process.
    ``at_once`` calls at most are in the air where one piece of work may ask several (``side_by_side``). Where nobody
    has ``watched`` how replies come, they are told whole.
    """

    def __init__(
        self,
        run_id: str,
        journal: Journal,
        memory: Memory | None = None,
        *,
        shared: bool = False,
        heard: Callable[[CallRecord], None] = lambda call: None,
        over: Callable[[], bool] = lambda: False,
        at_once: int | None = None,
        watched: bool = True,
    ) -> None:
        self.run_id, self.journal, self.memory = run_id, journal, memory or Memory()
        self.heard, self.over, self.shared, self.watched = heard, over, shared, watched
        self.places = asyncio.Semaphore(at_once) if at_once else None
        self.under_way: dict[str, Unit] = {}
        self.air: list[Asked] = []
        """What was asked and is not answered yet, the oldest first."""
        self.streamed = 0
        """Tokens that came so far, those of replies under way counted by their pieces."""

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

    def __init__(self, replies: Replies, unit_id: str, trial_id: str) -> None:
        self.replies, self.unit_id, self.trial_id = replies, unit_id, trial_id
        self.started_at = time.time()
        self.known = replies.memory.units.pop(unit_id, {})
        self.asked: Counter[str] = Counter()
        self.remembered = 0
        """How many replies it was given that were paid for before."""
        self.paid: set[str] = set()
        """Ids of the calls that are in the journal."""

    @property
    def calls(self) -> int:
        """How many calls it has made, now or before."""
        return self.asked.total()

    @property
    def unused(self) -> int:
        """Replies that were paid for and are no longer asked for: the program or its prompts have changed since."""
        return sum(not one.used for kept in self.known.values() for one in kept)

    def ask(self, role: RoleName, purpose: Purpose, model: str, sent: Sequence[Message], sampling: Sampling) -> Asked:
        """Take note of a question; its ``reply`` is there where it was answered before. May raise ``Over``."""
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
        elif self.replies.over():
            raise Over
        self.asked[key] += 1
        return Asked(self, role, purpose, key, number, place, found.call if found else None, elsewhere)


@dataclass(eq=False)
class Asked:
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

    @asynccontextmanager
    async def in_the_air(self) -> AsyncIterator[None]:
        """Wait for a place among the calls in the air, and there for the reply. May raise ``Over``."""
        replies = self.unit.replies
        async with replies.places or nullcontext():
            if replies.places is not None and replies.over():  # the job ended while this one waited for its place
                raise Over
            self.since = time.time()
            replies.air.append(self)
            try:
                yield
            finally:
                replies.air.remove(self)

    def piece(self) -> None:
        """Take note of a bit of text, taken to be a token until the provider has counted them."""
        self.pieces += 1
        self.unit.replies.streamed += 1

    def again(self, attempt: int, trouble: str) -> None:
        """Take note that the reply is asked for once more, and why; what came of it so far is void."""
        self.unit.replies.streamed -= self.pieces
        self.pieces, self.attempt, self.trouble = 0, attempt, trouble

    async def keep(self, call: CallRecord) -> None:
        """Journal the call; it is on disk when this returns."""
        unit, replies = self.unit, self.unit.replies
        await replies.journal.append(
            ReplyLine(
                run_id=replies.run_id,
                trial_id=unit.trial_id,
                unit=unit.unit_id,
                key=self.key,
                number=self.number,
                place=self.place,
                call=call,
            )
        )
        unit.paid.add(call.call_id)
        replies.streamed += call.completion_tokens - self.pieces
        replies.heard(call)


def side_by_side() -> bool:
    """Say whether the job that asks wants several calls of one piece of work in the air at once."""
    unit = _UNIT.get()
    return unit is not None and unit.replies.places is not None


def asking(role: RoleName, purpose: Purpose, model: str, sent: Sequence[Message], sampling: Sampling) -> Asked | None:
    """Take note of a question in the piece of work that asks; ``None`` where it belongs to no job."""
    unit = _UNIT.get()
    return unit.ask(role, purpose, model, sent, sampling) if unit is not None else None
