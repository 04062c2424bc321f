"""Lets a model judge the replies of simulated patients in stored conversations, one by one, and keeps what it says.

What the model has judged under the same prompts is skipped, so that the same again goes on after a stop, a failure or a
used budget. A provider's failure, or an answer that cannot be read, is kept as a failure and never as "no terms".
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import orjson

from core.agents.base import CallFailed, Dialogue
from core.agents.calls import Voice
from core.campaigns.engine import Progress, Stop, fatal
from core.campaigns.estimate import RoleEstimate, price_of
from core.campaigns.regrade import GIVE_UP
from core.campaigns.run import Options, check_budget, interrupts
from core.errors import AnamnesisError, UsageError
from core.events import Called, CallRecord
from core.metrics.patients.judge import TermsFound, judge_terms, judging_pack
from core.models.base import Sampling
from core.models.registry import Registry
from core.prompts import PromptPack
from core.store.database import Store
from core.store.failures import dialogues
from core.store.patient_judgements import StoredJudgement, ToJudge, add_judgements, to_judge
from core.store.patients import PatientFilter

TOGETHER = 10
"""Judgements between two writes: each has cost something."""
_READ_AT_ONCE = 200
_STOP_EVERY_S = 0.2
_CHARACTERS_A_TOKEN = 4
_PROMPT_TOKENS = 260
"""Of the prompt without the conversation."""
_ANSWER_TOKENS = 40


@dataclass(frozen=True)
class Wanted:
    """What is to be judged: ``limit`` conversations under a filter, drawn as if at random and always the same."""

    model: str
    talks: PatientFilter = field(default_factory=PatientFilter)
    limit: int | None = None
    base_url: str | None = None


@dataclass(frozen=True)
class JudgingSize:
    """What a judging takes before it starts: conversations to judge, those judged before, calls, tokens and price."""

    conversations: int
    kept: int
    role: RoleEstimate


@dataclass(frozen=True)
class JudgedPatients:
    """How a judging went.

    ``judged`` conversations came to a judgement, ``with_term`` of them with a term; ``dropped`` terms were named that
    are not in the reply. ``failed`` have none, most often for ``failure``; ``kept`` were judged before; ``remaining``
    were not reached. ``cost_usd`` counts the calls whose price is known; ``stopped`` says why it ended early.
    """

    model: str
    judged: int
    with_term: int
    dropped: int
    failed: int
    kept: int
    remaining: int
    calls: int
    tokens: int
    cost_usd: float
    failure: str = ""
    stopped: str | None = None


def size_of(store: Store, wanted: Wanted, registry: Registry) -> JudgingSize:
    """Return what a judging takes, without answers that have to be asked for again."""
    found = _found(store, wanted, registry.spec(wanted.model).name, judging_pack())
    todo = [one for one in found if not one.judged]
    prompt = sum(one.characters for one in todo) / _CHARACTERS_A_TOKEN + len(todo) * _PROMPT_TOKENS
    role = price_of("grader", wanted.model, len(todo), prompt, len(todo) * _ANSWER_TOKENS, registry)
    return JudgingSize(len(todo), len(found) - len(todo), role)


def judge_patients(
    store: Store, wanted: Wanted, registry: Registry, options: Options | None = None, stop: Stop | None = None
) -> JudgedPatients:
    """Judge the conversations that this model has not judged under these prompts; what came by a stop is kept.

    Raises ``UsageError`` for an unknown model, a missing key or a budget without prices, and ``AnamnesisError`` where
    no conversation fits, or no call can ever succeed.
    """
    options = options or Options()
    model = registry.spec(wanted.model).name
    check_budget(options.budget_usd, [model], registry)
    if options.concurrency < 1:
        raise UsageError("Conversations cannot be judged fewer than one at a time: give a concurrency of 1 or more.")
    pack = judging_pack()
    found = _found(store, wanted, model, pack)
    todo = [one.trial_id for one in found if not one.judged]
    voice = Voice(registry.open(model, base_url=wanted.base_url), Sampling(temperature=0.0))
    desk = _Desk(store, voice, pack, options, stop or Stop(), Progress(len(todo)))
    asyncio.run(desk.work_off(registry, todo))
    return desk.outcome(kept=len(found) - len(todo))


def _found(store: Store, wanted: Wanted, model: str, pack: PromptPack) -> list[ToJudge]:
    with store.read() as cursor:
        found = to_judge(cursor, model, pack.hash, wanted.talks, wanted.limit)
    if not found:
        raise AnamnesisError(
            "There is nothing to judge: no conversation is stored that fits. Start with `python -m core run --doctor "
            "reference/bayes`, or choose another --run."
        )
    return found


@dataclass
class _Desk:
    """One judging under way: what is judged and not yet saved, and the counts."""

    store: Store
    voice: Voice
    pack: PromptPack
    options: Options
    stop: Stop
    progress: Progress
    unsaved: list[StoredJudgement] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    in_a_row: int = 0
    fatal: str | None = None

    async def work_off(self, registry: Registry, todo: Sequence[str]) -> None:
        """Let so many workers take conversation after conversation; on a stop those under way are dropped."""
        waiting = self._talks(todo)
        async with registry:
            with interrupts(self.stop):
                tasks = {asyncio.create_task(self._work(waiting)) for _ in range(self.options.concurrency)}
                try:
                    await self._watch(tasks)
                finally:
                    for task in tasks:
                        task.cancel()
                    ends = await asyncio.gather(*tasks, return_exceptions=True)
                    self._save()
                    self.options.on_progress(self.progress)
        for end in ends:
            if isinstance(end, Exception):  # an unforeseen error is not to be lost behind a stop
                raise end
        if self.fatal is not None:
            kept = f" {self.counts['judged']:,} judgements came before and are kept." if self.counts["judged"] else ""
            raise AnamnesisError(f"{self.fatal.rstrip('.')}.{kept}")

    def outcome(self, kept: int) -> JudgedPatients:
        """Return how it went."""
        done, counts = self.progress, self.counts
        return JudgedPatients(
            self.voice.model.name, counts["judged"], counts["with_term"], counts["dropped"], counts["failed"], kept,
            done.planned - done.done, done.calls, done.tokens, done.cost_usd,
            max(done.failures, key=done.failures.__getitem__, default=""),
            self.stop.reason if done.done < done.planned else None,
        )  # fmt: skip

    async def _watch(self, tasks: set[asyncio.Task[None]]) -> None:
        under_way = set(tasks)
        while under_way and self.stop.reason is None:
            self.options.on_progress(self.progress)
            finished, under_way = await asyncio.wait(
                under_way, timeout=_STOP_EVERY_S, return_when=asyncio.FIRST_COMPLETED
            )
            for task in finished:
                task.result()  # an unforeseen error ends the work
            if len(self.unsaved) >= TOGETHER:
                self._save()

    def _talks(self, todo: Sequence[str]) -> Iterator[tuple[str, Dialogue]]:
        """Read the conversations when they are asked for, some at a time."""
        for start in range(0, len(todo), _READ_AT_ONCE):
            chosen = todo[start : start + _READ_AT_ONCE]
            with self.store.read() as cursor:
                said = dialogues(cursor, chosen)
            yield from ((trial_id, said[trial_id]) for trial_id in chosen)

    async def _work(self, waiting: Iterator[tuple[str, Dialogue]]) -> None:
        while self.stop.reason is None and (talk := next(waiting, None)) is not None:
            await self._judge(*talk)

    async def _judge(self, trial_id: str, dialogue: Dialogue) -> None:
        calls: list[CallRecord] = []
        try:
            async for item in judge_terms(self.voice, self.pack, dialogue):
                if isinstance(item, Called):
                    self._note(item, calls)
                else:
                    self.in_a_row = 0
                    self._add(trial_id, item, item.unreadable, calls)
        except CallFailed as failed:
            self._note(failed.called, calls)
            self._add(trial_id, None, f"{failed.error.kind}: {failed.error}", calls)
            self.in_a_row += 1
            if self.in_a_row >= GIVE_UP:
                self.stop.ask(f"The provider failed {GIVE_UP} times in a row ({str(failed.error).rstrip('.')}).")

    def _note(self, called: Called, calls: list[CallRecord]) -> None:
        calls.append(called.call)
        self.progress.note_call(called)
        hopeless, budget = fatal(called), self.options.budget_usd
        if hopeless is not None:
            self.fatal = self.fatal or hopeless
            self.stop.ask(hopeless)
        if budget is not None and self.progress.cost_usd >= budget:
            self.stop.ask(f"The budget of ${budget:.2f} is used up.")

    def _add(self, trial_id: str, found: TermsFound | None, failure: str | None, calls: list[CallRecord]) -> None:
        self.progress.done += 1
        dropped = found.dropped if found is not None else 0
        terms = found.terms if found is not None and failure is None else None
        if terms is None:
            self.progress.failures[failure or ""] += 1
        self.counts.update(
            judged=terms is not None, with_term=bool(terms), dropped=dropped, failed=terms is None,
        )  # fmt: skip
        costs = [one.cost_usd for one in calls if one.error is None]
        self.unsaved.append(
            StoredJudgement(
                trial_id, self.voice.model.name, self.pack.hash, terms, dropped, failure or "",
                orjson.dumps([one.model_dump(mode="json") for one in calls]).decode(),
                sum(one.prompt_tokens + one.completion_tokens for one in calls),
                None if None in costs else sum(cost or 0.0 for cost in costs), time.time(),
            )
        )  # fmt: skip

    def _save(self) -> None:
        if self.unsaved:
            with self.store.write() as connection:
                add_judgements(connection, self.unsaved)
            self.unsaved = []
