"""What graders said in earlier re-gradings, so that nothing is asked twice."""

from __future__ import annotations

from dataclasses import dataclass

from core.agents.grader import Memory
from core.events import Verdict
from core.jobs.regrade_plan import Judge, Key
from core.store.database import Store
from core.store.queries.regrading import given_verdicts


@dataclass(frozen=True)
class Said:
    """A grader's word on a response, and the calls that led to it: a copy of it keeps them, so it is known as one."""

    extracted: str | None
    verdict: Verdict
    call_ids: tuple[str, ...] = ()


def memory_of(store: Store, judge: Judge) -> Memory[Key, Said]:
    """Return what a model said under these prompts in earlier re-gradings; rules are quicker than looking it up."""
    if not judge.prompt_hash:
        return Memory()
    with store.read() as cursor:
        given = given_verdicts(cursor, judge.model, judge.prompt_hash)
    return Memory(
        {(g.question_type, g.answer, g.response): Said(g.extracted, g.verdict, tuple(g.call_ids)) for g in given}
    )
