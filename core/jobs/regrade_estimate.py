"""What a re-grading will take before it starts: calls, tokens, US dollars and seconds, from stated assumptions."""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.frameworks.casting import is_model
from core.jobs.estimate import RoleEstimate, price_of
from core.jobs.regrade_memory import memory_of
from core.jobs.regrade_plan import Judge, Key, Packs, Regrading, RunPlan, check, nothing_to_grade, plan_of
from core.models.registry import Registry
from core.store.database import Store

_TOKENS_A_WORD = 4 / 3
_NAME_TOKENS = 8
_REPLY_TOKENS = 4
_LISTED = 3
"""Diagnoses of a list that are judged one by one, at most."""
_SECONDS_A_CALL = 1.5
_BY_RULE_A_SECOND = 5_000


@dataclass(frozen=True)
class RegradeEstimate:
    """A re-grading's size before it starts.

    Of all ``answers`` of ``runs``, ``judged`` have this grader's verdict already, ``known`` take over that of equal
    ones, and ``asked`` remain. ``seconds`` is wall time at the given concurrency.
    """

    runs: int
    answers: int
    judged: int
    known: int
    asked: int
    role: RoleEstimate
    seconds: float


def estimate_regrade(wanted: Regrading, registry: Registry, store: Store, concurrency: int) -> RegradeEstimate:
    """Estimate a re-grading of what the database holds; raise ``UsageError`` where it cannot be done as asked."""
    check(wanted)
    packs = Packs()
    plans = [plan for run_id in wanted.run_ids if (plan := plan_of(store, run_id, wanted, registry, packs)).answers]
    if not plans:
        raise nothing_to_grade(wanted)
    known: dict[str, set[Key]] = {}
    asked = 0
    calls, prompt = 0, 0.0
    for plan in plans:
        judge = plan.judge
        if judge.prompt_hash not in known:
            known[judge.prompt_hash] = set(memory_of(store, judge).known)
        new = _to_ask(plan, known[judge.prompt_hash], fresh=wanted.fresh)
        asked += len(new)
        for key in new if is_model(judge.model) else ():
            steps, tokens = _figures(judge, key)
            calls, prompt = calls + steps, prompt + tokens
    role = price_of("grader", plans[0].judge.model, calls, prompt, calls * _REPLY_TOKENS, registry)
    todo = sum(len(plan.todo) for plan in plans)
    seconds = todo / _BY_RULE_A_SECOND + math.ceil(calls / concurrency) * _SECONDS_A_CALL
    answers = sum(plan.answers for plan in plans)
    return RegradeEstimate(len(plans), answers, answers - todo, todo - asked, asked, role, seconds)


def _to_ask(plan: RunPlan, known: set[Key], *, fresh: bool) -> list[Key]:
    """Return what has to be judged; what is returned is ``known`` from then on."""
    keys = [plan.key(answer) for answer in plan.todo]
    if fresh:
        return keys
    new = [key for key in dict.fromkeys(keys) if key not in known]
    known.update(new)
    return new


def _figures(judge: Judge, key: Key) -> tuple[int, float]:
    """Return calls and prompt tokens of judging one response."""
    question_type, answer, response = key
    compare = _tokens(judge.pack.render("grader_judge", answer=answer, extracted="")) + _NAME_TOKENS
    if question_type == "frq_top3":
        return _LISTED, _LISTED * compare
    return 2, _tokens(judge.pack.render("grader_extract", response=response)) + compare


def _tokens(text: str) -> float:
    return len(text.split()) * _TOKENS_A_WORD
