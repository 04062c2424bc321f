"""Models judge stored conversations by a rubric, one criterion per request by default.

A verdict is stored for each criterion (``core.store.queries.rubric_judgements``). An unreadable reply, a provider's
failure and an invented quotation leave the criterion unjudged, never *not met*. ``core.measures.rubrics.judging``
writes the requests and checks the replies.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import orjson

from core.asking.calls import Voice
from core.asking.parts import PromptPart
from core.asking.scene import Dialogue
from core.errors import UsageError
from core.frameworks.casting import is_model
from core.frameworks.starts import CAMPAIGN, Missing
from core.jobs.ask_job import (
    AskJob,
    AskOutcome,
    ItemResult,
    JobPlan,
    JobSize,
    JournalWork,
    ModelSeat,
    ParsedReply,
    estimated_tokens,
    journal_of,
    reply_to,
    sampled,
)
from core.journal import RowLine
from core.measures.rubrics.judging import CriterionJudgement, rubric_pack, rubric_request
from core.measures.rubrics.rubric import Criterion, Rubric
from core.measures.rubrics.rule_judge import RULE_JUDGE, RULES, is_checkable, rule_judgement
from core.measures.rubrics.stored import LIBRARY, rubric_named
from core.models.base import Sampling
from core.models.registry import Registry
from core.prompts import PromptPack
from core.store.database import Store
from core.store.queries.rubric_judgements import (
    RubricConversation,
    RubricJudge,
    conversations_for_rubrics,
    rubric_judgement_row,
    rubric_verdict_keys,
)
from core.store.queries.utterances import dialogues
from core.store.selection import Selection

_REPLY_TOKENS = 120
"""Tokens of a usual verdict with quotations and reason."""


class CriteriaToJudge(NamedTuple):
    """Criteria of a conversation that go into one request to one judge; loaded with the ``dialogue``."""

    judge: RubricJudge
    trial_id: str
    repeat: int
    criteria: tuple[Criterion, ...]
    dialogue: Dialogue = ()


class _Seats(NamedTuple):
    by_judge: Mapping[RubricJudge, ModelSeat]
    rubric: Rubric


@dataclass(frozen=True)
class RubricJudging(AskJob[CriteriaToJudge]):
    """Ask models whether the criteria of a rubric are met in conversations, with checked quotations.

    One criterion in each request, at temperature 0. The judges see numbered messages and criteria, but no points, no
    model and no case. Without --judges, a model from [defaults] of the models file (judge, then grader) judges,
    preferably of another maker than the doctors. reference/words needs no model: a rule that judges only questions
    about findings and the final diagnosis.

    What a judge has judged under the same prompts is skipped; stopped by Ctrl-C or its budget, the same command goes
    on.
    """

    name = "rubrics"
    title = "Judging by a rubric"
    items = "requests"
    verb = "send"
    participle = "answered"
    lack = "have no readable answer: their criteria count as unjudged; the same again asks about them"
    report = "rubric_scores"

    judges: Annotated[tuple[str, ...], "Models that judge, each alone: provider/model or an alias."] = ()
    rubric: Annotated[str, "Name of the rubric."] = LIBRARY
    conversations: Selection = field(default_factory=Selection)
    limit: Annotated[int | None, "Only N conversations: a random sample, always the same."] = None
    batch_size: Annotated[int, "The most criteria in one request."] = 1
    repeat: Annotated[int, "Judge each criterion K times, to measure the judge's consistency."] = 1
    trials: Annotated[tuple[str, ...], "Only these trials."] = ()

    @property
    def pack(self) -> PromptPack:
        return rubric_pack()

    @property
    def instance(self) -> str:
        """The judging of one conversation, from its page, may run next to a judging of many."""
        return self.trials[0] if len(self.trials) == 1 else ""

    def plan(self, store: Store, registry: Registry) -> JobPlan:
        """Plan the criteria of the rubric that these judges have not judged under these prompts."""
        if min(self.batch_size, self.repeat) < 1:
            raise UsageError("--batch-size and --repeat are at least 1.")
        rubric = rubric_named(store, self.rubric)
        with store.read() as cursor:
            conversations = conversations_for_rubrics(cursor, self.conversations, trials=self.trials or None)
        criteria = {
            conversation.trial_id: rubric.criteria_for(conversation.case_key, conversation.specialty)
            for conversation in conversations
        }
        conversations = [conversation for conversation in conversations if criteria[conversation.trial_id]][
            : self.limit
        ]
        if not conversations:
            raise Missing(
                f"There is nothing to judge: no finished conversation is stored whose case has criteria in the rubric "
                f"{rubric.name}. A campaign needs a multi-turn arm.",
                CAMPAIGN,
            )
        models = self._models(registry, conversations)
        parts, done_before = list[JournalWork](), 0
        for model in models:
            judge = self._judge(model)
            with store.read() as cursor:
                done = rubric_verdict_keys(cursor, judge, [conversation.trial_id for conversation in conversations])
            items = [
                item
                for conversation in conversations
                for item in self._requests(judge, conversation, criteria[conversation.trial_id])
            ]
            items = [item for item in items if item.criteria]
            todo = [request for item in items if (request := _without(item, done)).criteria]
            done_before += len(items) - len(todo)
            journal = journal_of("rubrics", *map(str, judge), *filter(None, [self.instance]))
            trials = {conversation.trial_id for conversation in conversations}
            parts.append(
                JournalWork(
                    journal,
                    todo,
                    lambda item, journal=journal: f"{journal} {self.key(item)}",  # type: ignore[misc]
                    lambda unit, trials=trials: unit.split()[1] in trials,  # type: ignore[misc]
                )
            )
        return JobPlan(", ".join(models), parts, done_before, models)

    def _models(self, registry: Registry, conversations: Sequence[RubricConversation]) -> list[str]:
        if self.judges:
            names = (name if name == RULE_JUDGE else registry.spec(name).name for name in self.judges)
            return list(dict.fromkeys(names))
        doctors = {conversation.doctor for conversation in conversations}
        return [default_judge(registry, doctors)]

    def _judge(self, model: str) -> RubricJudge:
        return (
            RubricJudge(model, RULES, 1) if model == RULE_JUDGE else RubricJudge(model, self.pack.hash, self.batch_size)
        )

    def _requests(
        self, judge: RubricJudge, conversation: RubricConversation, criteria: Sequence[Criterion]
    ) -> Iterator[CriteriaToJudge]:
        """Yield the requests about a conversation, with its criteria in an order that depends on trial and repeat."""
        if judge.model == RULE_JUDGE:
            yield CriteriaToJudge(judge, conversation.trial_id, 0, tuple(filter(is_checkable, criteria)))
            return
        for repeat in range(self.repeat):
            seed = hashlib.sha256(f"{conversation.trial_id} {repeat}".encode()).digest()
            shuffled = sorted(criteria, key=lambda criterion: criterion.hash)
            random.Random(seed).shuffle(shuffled)
            for start in range(0, len(shuffled), self.batch_size):
                yield CriteriaToJudge(
                    judge, conversation.trial_id, repeat, tuple(shuffled[start : start + self.batch_size])
                )

    def load(self, store: Store, todo: Sequence[CriteriaToJudge]) -> Iterator[CriteriaToJudge]:
        with store.read() as cursor:
            by_trial = dialogues(cursor, list({item.trial_id for item in todo}))
        return (item._replace(dialogue=by_trial[item.trial_id]) for item in todo)

    def key(self, item: CriteriaToJudge) -> str:
        hashes = " ".join(criterion.hash for criterion in item.criteria)
        return f"{item.trial_id} {item.repeat} {hashlib.sha256(hashes.encode()).hexdigest()[:16]}"

    def label(self, item: CriteriaToJudge) -> str:
        return f"{item.trial_id} {', '.join(criterion.id for criterion in item.criteria)}"

    def seats(self, registry: Registry, plan: JobPlan, store: Store) -> _Seats:
        seats = {
            self._judge(model): ModelSeat(
                Voice(registry.open(model, base_url=self.base_url), Sampling(temperature=0.0)), self.pack
            )
            for model in plan.models
            if model != RULE_JUDGE
        }
        return _Seats(seats, rubric_named(store, self.rubric))

    async def ask(self, item: CriteriaToJudge, seats: _Seats) -> ItemResult:
        if item.judge.model == RULE_JUDGE:
            by_rule = tuple(rule_judgement(criterion, item.dialogue) for criterion in item.criteria)
            reply = ParsedReply(by_rule, "", broken=False, calls=())
        else:
            seat = seats.by_judge[item.judge]
            reply = await reply_to(seat, rubric_request(seat.pack, item.dialogue, item.criteria))
        judgements = reply.value or tuple(CriterionJudgement(criterion, (), "", None) for criterion in item.criteria)
        common = {
            "trial_id": item.trial_id,
            "rubric": seats.rubric.name,
            "rubric_hash": seats.rubric.hash,
            "repeat": item.repeat,
            "failure": reply.none,
            "calls": orjson.dumps([call.call_id for call in reply.calls]).decode(),
            "judged_at": time.time(),
        }
        rows = [
            rubric_judgement_row(
                item.judge,
                judgement.verdict,
                judgement.quotations,
                judgement.voided,
                {
                    **common,
                    "criterion": judgement.criterion.id,
                    "criterion_hash": judgement.criterion.hash,
                    "reason": judgement.reason,
                },
            )
            for judgement in judgements
        ]
        return reply.answer(
            *(RowLine(table="rubric_judgements", row=row) for row in rows),
            verdicts=0 if reply.none else len(rows),
            met=sum(row["verdict"] == "met" and not row["voided"] for row in rows),
            voided=sum(row["voided"] for row in rows),
        )

    def size(self, plan: JobPlan, store: Store) -> JobSize:
        def prompt_tokens(item: CriteriaToJudge) -> float:
            parts = rubric_request(self.pack, item.dialogue, item.criteria).messages
            return sum(estimated_tokens(part.content) for part in parts if isinstance(part, PromptPart))

        prompts = sampled(self, plan, store, prompt_tokens) / max(1, len(plan.todo))
        roles = {}
        for number, (model, part) in enumerate(zip(plan.models, plan.parts, strict=True), 1):
            if model == RULE_JUDGE:
                continue
            replies = sum(len(item.criteria) for item in part.todo) * _REPLY_TOKENS
            name = "judge" if len(plan.models) == 1 else f"judge {number}"
            roles[name] = (model, (len(part.todo), prompts * len(part.todo), float(replies)))
        return JobSize(roles)

    @classmethod
    def summary(cls, outcome: AskOutcome) -> Iterable[str]:
        counts = outcome.counts
        yield (
            f"{counts.get('verdicts', 0):,} criteria judged by {outcome.by}: {counts.get('met', 0):,} met, "
            f"{counts.get('voided', 0):,} unjudged because a quotation is in no message or not of the doctor."
        )


def default_judge(registry: Registry, doctors: Iterable[str]) -> str:
    """Return the judge from [defaults] (judge, then grader), if possible of another maker than all doctors.

    Raises ``UsageError`` if no model is configured for either role.
    """
    roles = (registry.default("judge"), registry.default("grader"))
    candidates = [model for model in dict.fromkeys(roles) if model and is_model(model)]
    if not candidates:
        raise UsageError("Name a model that judges (--judges), or set judge under [defaults] of the models file.")
    makers = {registry.maker(doctor) for doctor in doctors}
    return next((model for model in candidates if registry.maker(model) not in makers), candidates[0])


def _without(item: CriteriaToJudge, done: set[tuple[str, str, int]]) -> CriteriaToJudge:
    """Return a request without the criteria that have a verdict; the other batches stay as they are."""
    criteria = (c for c in item.criteria if (item.trial_id, c.hash, item.repeat) not in done)
    return item._replace(criteria=tuple(criteria))
