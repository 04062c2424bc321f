"""A model judges stored conversations one by one: medical terms of patients, or what they withheld and invented.

What the model has judged under the same prompts (and against the same facts) is skipped, so that the same again goes
on after a stop, a failure or a used budget. What stays unreadable, and a provider's failure, is kept as a failure and
never as "nothing found". What is asked, and how an answer is checked: ``core.jobs.judges``.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import orjson

from core.agents.base import CallFailed
from core.agents.calls import Voice
from core.agents.memory import Unit
from core.errors import AnamnesisError
from core.events import Called, CallRecord
from core.jobs.engine import Job, Options, carry_out, in_background
from core.jobs.estimate import Estimate, check_budget, estimated
from core.jobs.judges import Found, Task, facts_pack, facts_task, judged, terms_pack, terms_task
from core.jobs.progress import Ended, Progress, Stop
from core.journal import RowLine
from core.models.base import Sampling
from core.models.prices import total
from core.models.registry import Registry, load_registry
from core.prompts import PromptPack
from core.store.database import Store
from core.store.queries.facts import Judge, TalkToJudge, Which, all_facts_saved, fact_judgement_row, talks_to_judge
from core.store.queries.failures import cases_of, dialogues
from core.store.queries.patients import ToJudge, patient_judgement_row, to_judge
from core.store.selection import Selection
from core.text.facts import facts_of
from core.work import Work, work_at

_READ_AT_ONCE = 100
_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True)
class JudgingOutcome(Ended):
    """How a judging went.

    ``judged`` conversations came to a judgement, ``with_any`` of them with a finding; ``dropped`` findings were named
    that are not in the words that they name. ``failed`` have none; ``kept`` were judged before.
    """

    model: str
    judged: int
    with_any: int
    dropped: int
    failed: int
    kept: int


@dataclass(frozen=True)
class TermsWanted:
    """Medical terms in the replies of the patients of conversations under a filter.

    ``limit`` conversations are drawn as if at random and always the same. ``nothing`` is said where none fits,
    ``prompt_tokens`` are those of the prompt without the conversation.
    """

    model: str
    talks: Selection = field(default_factory=Selection)
    limit: int | None = None
    base_url: str | None = None
    nothing: ClassVar[str] = (
        "There is nothing to judge: no conversation is stored that fits. Start with `python -m core run --doctor "
        "reference/bayes`, or choose another --run."
    )
    prompt_tokens: ClassVar[int] = 260
    answer_tokens: ClassVar[int] = 40
    pack = staticmethod(terms_pack)

    def found(self, store: Store, judge: Judge) -> Sequence[ToJudge]:
        """Return the conversations that fit."""
        with store.read() as cursor:
            return to_judge(cursor, judge.model, judge.prompt_hash, self.talks, self.limit)

    def tasks(self, store: Store, pack: PromptPack, todo: Sequence[Any]) -> Iterator[Task[Any]]:
        """Read the conversations when they are asked for."""
        for chosen in _some(todo):
            with store.read() as cursor:
                said = dialogues(cursor, [one.trial_id for one in chosen])
            yield from (terms_task(pack, one.trial_id, said[one.trial_id]) for one in chosen)

    def row(self, judge: Judge, one: Any, found: Sequence[Any] | None, kept: dict[str, Any]) -> RowLine:
        """Return what is kept."""
        return RowLine(table="patient_judgements", row=patient_judgement_row(*judge, found, kept))


@dataclass(frozen=True)
class FactsWanted:
    """What patients withheld and invented in the conversations of a selection.

    By default only in those with a wrong answer after them, which causes need. ``trials`` names some instead, whatever
    came after them. The rest is as in ``TermsWanted``; its prompt holds the case and its facts besides.
    """

    model: str
    talks: Selection = field(default_factory=Selection)
    which: Which = "wrong"
    limit: int | None = None
    trials: tuple[str, ...] | None = None
    base_url: str | None = None
    nothing: ClassVar[str] = (
        "There is nothing to judge: no stored conversation with a wrong answer after it fits. Judge every "
        "conversation (`--all`), choose another --run, or start a campaign with a multi-turn arm."
    )
    prompt_tokens: ClassVar[int] = 420
    answer_tokens: ClassVar[int] = 80
    pack = staticmethod(facts_pack)

    def found(self, store: Store, judge: Judge) -> Sequence[TalkToJudge]:
        """Return the conversations that fit."""
        with store.read() as cursor:
            return talks_to_judge(cursor, judge, self.talks, which=self.which, trials=self.trials, limit=self.limit)

    def tasks(self, store: Store, pack: PromptPack, todo: Sequence[Any]) -> Iterator[Task[Any]]:
        """Read cases and conversations when they are asked for."""
        with store.read() as cursor:
            saved = all_facts_saved(cursor)
        for chosen in _some(todo):
            with store.read() as cursor:
                cases = cases_of(cursor, [(one.case_key, one.content_hash) for one in chosen])
                said = dialogues(cursor, [one.trial_id for one in chosen])
            for one in chosen:
                key = (one.case_key, one.content_hash)
                facts = facts_of(cases[key], saved.get(key))
                yield facts_task(pack, one.trial_id, cases[key], facts, said[one.trial_id])

    def row(self, judge: Judge, one: Any, found: Sequence[Any] | None, kept: dict[str, Any]) -> RowLine:
        """Return what is kept."""
        return RowLine(table="fact_judgements", row=fact_judgement_row(judge, one.facts_hash, found, kept))


Wanted = TermsWanted | FactsWanted
"""What is to be judged."""


def _some(todo: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (todo[start : start + _READ_AT_ONCE] for start in range(0, len(todo), _READ_AT_ONCE))


def estimate(store: Store, wanted: Wanted, registry: Registry, concurrency: int | None = None) -> Estimate:
    """Estimate a judging, without answers that have to be asked for again.

    Raises ``UsageError`` for an unknown model and ``AnamnesisError`` where no conversation fits.
    """
    found = _found(store, wanted, Judge(registry.spec(wanted.model).name, wanted.pack().hash))
    todo = [one for one in found if not one.judged]
    prompt = sum(one.characters for one in todo) / _CHARACTERS_A_TOKEN + len(todo) * wanted.prompt_tokens
    sizes = {"grader": (wanted.model, (len(todo), prompt, len(todo) * wanted.answer_tokens))}
    counts = {"conversations to judge": len(todo), "judged before": len(found) - len(todo)}
    return estimated(counts, len(todo), sizes, registry, concurrency, lambda role: wanted.base_url)


def _found(store: Store, wanted: Wanted, judge: Judge) -> Sequence[ToJudge | TalkToJudge]:
    found = wanted.found(store, judge)
    if not found:
        raise AnamnesisError(wanted.nothing)
    return found


def judge(
    store: Store, wanted: Wanted, registry: Registry, options: Options | None = None, stop: Stop | None = None
) -> JudgingOutcome:
    """Judge the conversations that this model has not judged under these prompts; what came by a stop is kept.

    Raises ``UsageError`` for an unknown model, a missing key or a budget without prices, and ``AnamnesisError`` where
    no conversation fits, or no call can ever succeed.
    """
    options, stop, pack = options or Options(), stop or Stop(), wanted.pack()
    judging = Judge(registry.spec(wanted.model).name, pack.hash)
    check_budget(options.budget_usd, [registry.spec(wanted.model, base_url=wanted.base_url)])
    voice = Voice(registry.open(wanted.model, base_url=wanted.base_url), Sampling(temperature=0.0))
    found = _found(store, wanted, judging)
    todo = {one.trial_id: one for one in found if not one.judged}
    progress, counts = Progress(len(todo)), Counter[str]()

    async def do(task: Task[Any], unit: Unit) -> list[RowLine]:
        calls: list[CallRecord] = []
        things: Found[Any] | None = None
        failure, done = "", unit.unit_id
        try:
            async for item in judged(voice, pack, task):
                if isinstance(item, Called):
                    calls.append(item.call)
                elif isinstance(item, str):
                    failure = item
                else:
                    things = item
        except CallFailed as failed:
            calls.append(failed.called.call)
            failure, done = f"{failed.error.kind}: {failed.error}", ""  # what it said before is not used up
        if things is None:
            progress.failures[failure] += 1
        dropped = things.dropped if things else 0
        counts.update(judged=things is not None, with_any=bool(things and things.things), dropped=dropped)
        kept = {
            "trial_id": task.trial_id,
            "dropped": dropped,
            "failure": failure,
            "calls": orjson.dumps([one.call_id for one in calls]).decode(),
            "tokens": sum(one.prompt_tokens + one.completion_tokens for one in calls),
            "cost_usd": total(one.cost_usd for one in calls if one.error is None),
            "judged_at": time.time(),
        }
        line = wanted.row(judging, todo[task.trial_id], things.things if things else None, kept)
        return [line.model_copy(update={"unit": done})]

    same = [type(wanted).__name__, {**vars(wanted), "base_url": None}, list(judging)]  # wherever the model is reached
    name = f"judging-{hashlib.sha256(orjson.dumps(same, default=sorted)).hexdigest()[:16]}"
    job = Job[Task[Any]](
        name, lambda task: f"{name} {task.trial_id}", do, options, stop, progress, listed=lambda task: name
    )
    carry_out(job, wanted.tasks(store, pack, list(todo.values())), registry, store)
    before = f" {counts['judged']:,} judgements came before and are kept." if counts["judged"] else ""
    return JudgingOutcome(
        judging.model,
        counts["judged"],
        counts["with_any"],
        counts["dropped"],
        progress.done - counts["judged"],
        len(found) - len(todo),
        **progress.ended(stop, before),
    )


def begin_judging(wanted: FactsWanted, *, budget_usd: float | None = None) -> Work[JudgingOutcome]:
    """Start a judging in the background of this process, or return one of the same kind that is under way."""
    return in_background(
        _place(wanted.trials),
        lambda options, stop: judge(Store(), wanted, load_registry(), options, stop),
        "judge",
        "Judging what patients said",
        budget_usd,
    )


def judging(trial_id: str | None = None) -> Work[JudgingOutcome] | None:
    """Return the judging of one conversation, or of many, that is under way or was the last of this process."""
    return work_at(_place((trial_id,) if trial_id else None))


def _place(trials: Sequence[str] | None) -> tuple[str, ...]:
    """One conversation that somebody looks at is judged beside a judging of many."""
    return ("judging facts", str(Store().path), *(trials if trials and len(trials) == 1 else ()))
