"""What graders said already, so that nothing is asked twice: of two who want the same at once, one asks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from core.campaigns.regrade_plan import Judge, Key
from core.events import Verdict
from core.store.database import Store
from core.store.regrading import given_verdicts


@dataclass(frozen=True)
class Said:
    """A grader's word on a response, and the calls that led to it: a copy of it keeps them, so it is known as one."""

    extracted: str | None
    verdict: Verdict
    call_ids: tuple[str, ...] = ()


@dataclass
class Memory:
    """The words of one grader under one set of prompts."""

    known: dict[Key, Said] = field(default_factory=dict)
    _under_way: dict[Key, asyncio.Future[Said | None]] = field(default_factory=dict)

    async def recall(self, key: Key, ask: Callable[[], Awaitable[Said | None]]) -> tuple[Said | None, bool]:
        """Return what was said, and whether that took no asking; ``None`` where the provider failed.

        A failure is not remembered beyond those who waited for it.
        """
        if key in self.known:
            return self.known[key], True
        if key in self._under_way:
            return await self._under_way[key], True
        said: Said | None = None
        self._under_way[key] = asyncio.get_running_loop().create_future()
        try:
            said = await ask()
        finally:
            waited_for = self._under_way.pop(key)
            if not waited_for.done():
                waited_for.set_result(said)
        if said is not None:
            self.known[key] = said
        return said, False


def memory_of(store: Store, judge: Judge) -> Memory:
    """Return what a model said under these prompts in earlier re-gradings; rules are quicker than looking it up."""
    if not judge.prompt_hash:
        return Memory()
    with store.read() as cursor:
        given = given_verdicts(cursor, judge.model, judge.prompt_hash)
    return Memory(
        {(g.question_type, g.answer, g.response): Said(g.extracted, g.verdict, tuple(g.call_ids)) for g in given}
    )
