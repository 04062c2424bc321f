"""Continues stored conversations from drawn messages, to measure the noise of each speaker's messages.

From each conversation, messages of each speaker are drawn by the trial's seed. Some continuations keep the drawn
message, others begin before it, so that it is spoken again (``core.stats.speakers``). Each comes from the framework's
own ``play``, as a branch, with a seed of its own. Continuations count in no figure but ``report noise``. Only messages
of models are drawn: a greeting or an opening is fixed, and rules draw from the seed of the whole trial.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Annotated, Any, NamedTuple

import orjson

from core.asking.scene import Dialogue
from core.errors import AnamnesisError, UsageError
from core.events import GRADED_TYPES, Ended, Event, Parent, Utterance
from core.frameworks.answering import GRADING_TOKENS
from core.frameworks.base import WITHOUT_CONVERSATION, Arm, Branch, Trial, default_pack
from core.frameworks.casting import is_model
from core.jobs.ask_job import AskJob, AskOutcome, ItemResult, JobPlan, JobSize, JournalWork, journal_of
from core.jobs.plan import models_of, parse_arms
from core.jobs.regrade import Packs
from core.jobs.replaying import (
    GRADER_CALLS,
    NO_VERDICT,
    VERDICT_TOKENS,
    ReplayedRun,
    ReplaySeats,
    graded_again,
    open_seats,
    played_answers,
    replayed_run,
)
from core.journal import RowLine, seed_of
from core.models.registry import Registry
from core.store.database import Store
from core.store.queries.continuations import (
    ContinuationKey,
    ContinuedAnswer,
    calls_by_role,
    continued_answers,
    spoken_turns,
)
from core.store.queries.replicates import TrialToReplicate, trials_to_replicate
from core.store.queries.utterances import dialogues

_WITH_THE_DIALOGUE = ("dialogue", "probe")
"""Purposes of calls whose number grows with the conversation."""


class Continuation(NamedTuple):
    """One continuation: the arms to play it for, and stored answers of it that lack a verdict.

    ``left`` is the share of each model's messages in the stored conversation that it plays again.
    """

    run: ReplayedRun
    trial: TrialToReplicate
    key: ContinuationKey
    speaker: str
    arms: tuple[Arm, ...]
    to_grade: tuple[ContinuedAnswer, ...]
    left: Mapping[str, float]
    dialogue: Dialogue = ()

    @property
    def kept(self) -> int:
        """The number of stored messages with which it begins."""
        return self.key.turn + (not self.key.again)


@dataclass(frozen=True)
class Continuations(AskJob[Continuation]):
    """Continue stored conversations from drawn messages, to measure how much noise each speaker's messages cause.

    Verdicts that count do not change. Stopped by Ctrl-C or its budget, the same command goes on. Messages are drawn by
    the seed of the conversation; more messages or continuations are added to those that are stored.
    """

    name = "continuations"
    title = "Continuations"
    items = "continuations"
    verb, participle = "play", "played"
    lack = "are incomplete because a provider failed; the same again completes them"
    report = "noise"

    run_ids: tuple[str, ...]
    messages: Annotated[int, "Draw N messages of each speaker from each conversation."] = 1
    continuations: Annotated[int, "Play K continuations after each drawn message, and K from before it."] = 2
    grader: Annotated[str, "Who grades: a model; by default each run's own grader."] = ""
    arms: Annotated[str, "Only these arms, such as multi_turn:frq, separated by commas."] = ""
    limit: Annotated[int | None, "Only N conversations of each run, each case once before a case twice."] = None

    def key(self, item: Continuation) -> str:
        return f"{item.trial.trial_id} {item.key.turn} {_kind(item.key.again)} {item.key.number}"

    def plan(self, store: Store, registry: Registry) -> JobPlan:
        if self.messages < 1 or self.continuations < 1:
            raise UsageError("--messages and --continuations must be at least 1.")
        if not self.run_ids:
            raise UsageError("Name the runs whose conversations are continued (--run).")
        packs: Packs = cache(default_pack)
        parts, before, models = list[JournalWork](), 0, dict[str, None]()
        for run_id in self.run_ids:
            run = replayed_run(store, run_id, registry, packs, self.grader)
            items = list(self._continuations_of(store, run))
            todo = [item for item in items if item.arms or item.to_grade]
            before += len(items) - len(todo)
            parts.append(self.part(journal_of("continuations", run_id), todo, items))
            assert run.campaign is not None, "a run that cannot be played is refused"
            models |= dict.fromkeys([*models_of(run.campaign).values(), run.judge.model] if items else [])
        if not any(part.todo for part in parts) and not before:
            raise AnamnesisError(
                "There is nothing to continue: no finished conversation has a message of a model and an answer. Choose "
                "another --run or --arms."
            )
        return JobPlan(" and ".join(models), parts, before, list(models))

    def _continuations_of(self, store: Store, run: ReplayedRun) -> Iterator[Continuation]:
        """Yield the continuations of a run, one drawn message of every conversation before a second of any."""
        run_id = run.header.run_id
        chosen = set(parse_arms(self.arms, run.header.protocol)) if self.arms else None
        with store.read() as cursor:
            trials = trials_to_replicate(cursor, run_id, run.judge.stored_name, run.judge.prompt_hash)
            turns = spoken_turns(cursor, [trial.trial_id for trial in trials])
            stored = continued_answers(cursor, run_id, run.judge.stored_name, run.judge.prompt_hash)
        arms_of = {trial.trial_id: _arms_of(trial, chosen) for trial in trials}
        trials = [trial for trial in trials if trial.ended and arms_of[trial.trial_id] and trial.trial_id in turns]
        trials.sort(key=lambda trial: (trial.number, hashlib.sha256(f"{trial.seed}".encode()).digest()))
        for trial, speaker, turn in _drawn(trials[: self.limit], turns, self.messages):
            arms = arms_of[trial.trial_id]
            for number, again in product(range(1, self.continuations + 1), (False, True)):
                key = ContinuationKey(trial.trial_id, turn, again, number)
                answers = {(answer.format, answer.question_type): answer for answer in stored.get(key, ())}
                missing = tuple(arm for arm in arms if arm not in answers)
                to_grade = tuple(answers[arm] for arm in arms if arm in answers and not answers[arm].graded)
                left = {
                    name: sum(other >= turn + (not again) for other in own) / len(own)
                    for name, own in turns[trial.trial_id].items()
                }
                yield Continuation(run, trial, key, speaker, missing, to_grade, left)

    def load(self, store: Store, todo: Sequence[Continuation]) -> Iterator[Continuation]:
        with store.read() as cursor:
            by_trial = dialogues(cursor, [item.trial.trial_id for item in todo])
        return (item._replace(dialogue=by_trial[item.trial.trial_id]) for item in todo)

    def seats(self, registry: Registry, plan: JobPlan, store: Store) -> ReplaySeats:
        return open_seats((item.run for item in plan.todo), registry, self.base_url)

    async def ask(self, item: Continuation, seats: ReplaySeats) -> ItemResult:
        run_id = item.run.header.run_id
        events, rows = list[Event](), list[dict[str, Any]]()
        to_grade = [((a.format, a.question_type), a.response or "", a.dialogue) for a in item.to_grade]
        if item.arms:
            events = await _continued(item, seats.casts[run_id])
            answers = played_answers(events)
            if answers.failure:  # the replies are paid for: the next run of the job plays on from them
                return ItemResult(failure=answers.failure, final=False, events=events)
            new = [event for event in events if isinstance(event, Utterance) and event.turn >= item.kept]
            dialogue = orjson.dumps([[event.role, event.text] for event in new]).decode()
            rows = [_row(item, arm, response, dialogue, columns) for arm, response, columns in answers.judged]
            to_grade += [(arm, response, dialogue) for arm, response in answers.to_grade]
        for arm, response, dialogue in to_grade:
            grader = seats.graders[run_id]()
            judged = await graded_again(item.run, item.trial.trial_id, item.trial.case, arm, response, grader)
            if isinstance(judged, str):
                return ItemResult(failure=judged, final=False, events=events)
            rows.append(_row(item, arm, response, dialogue, judged))
        counts = {"answers": len(item.arms), "gradings": len(to_grade)}
        return ItemResult([RowLine(table="continuations", row=row) for row in rows], counts=counts, events=events)

    def size(self, plan: JobPlan, store: Store) -> JobSize:
        calls: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        items: list[Continuation] = plan.todo
        of_run: dict[str, list[Continuation]] = {}
        for item in items:
            of_run.setdefault(item.run.header.run_id, []).append(item)
        for run_id, continued in of_run.items():
            run = continued[0].run
            assert run.campaign is not None, "a run that cannot be played is refused"
            models, played = models_of(run.campaign), [item for item in continued if item.arms]
            asked = sum(len(item.arms) for item in played)
            with store.read() as cursor:
                by_role = calls_by_role(cursor, run_id)
            for of in by_role:
                if of.role not in models:
                    continue
                if of.purpose in _WITH_THE_DIALOGUE:
                    number = of.calls * sum(item.left.get(of.role, 0.0) for item in played)
                else:  # one call for each arm, or for each conversation
                    number = float(asked if of.purpose == "answer" else len(played))
                calls[of.role, models[of.role]] += Counter(_size(number, of.prompt_tokens, of.completion_tokens))
            graded = sum(len(item.to_grade) + sum(arm[1] in GRADED_TYPES for arm in item.arms) for item in continued)
            if graded and is_model(run.judge.model):
                number = float(GRADER_CALLS * graded)
                calls["grader", run.judge.model] += Counter(_size(number, GRADING_TOKENS, VERDICT_TOKENS))
        several = Counter(role for role, _ in calls)
        roles = {
            f"{role} {model}" if several[role] > 1 else role: (
                model,
                (round(size["calls"]), float(size["prompt"]), float(size["completion"])),
            )
            for (role, model), size in calls.items()
        }
        conversations = len({item.trial.trial_id for item in items})
        drawn = len({item.key[:2] for item in items})
        counts = {"conversations": conversations, "drawn messages": drawn, "continuations": len(items)}
        return JobSize(roles, {**counts, "played before": plan.kept})

    @classmethod
    def summary(cls, outcome: AskOutcome) -> Iterable[str]:
        answers, gradings = (outcome.counts.get(name, 0) for name in ("answers", "gradings"))
        yield (
            f"{outcome.done:,} continuations by {outcome.by}: {answers:,} answers, {gradings:,} gradings. Verdicts "
            "that count stay."
        )


def _arms_of(trial: TrialToReplicate, chosen: set[Arm] | None) -> tuple[Arm, ...]:
    """Return the answered arms whose answers depend on the whole conversation."""
    arms = ((a.format, a.question_type) for a in trial.answers if a.answer == 0 and a.response)
    about = (arm for arm in arms if arm[0] not in WITHOUT_CONVERSATION and arm[0] != "single_turn")
    return tuple(arm for arm in about if chosen is None or arm in chosen)


def _drawn(
    trials: Sequence[TrialToReplicate], turns: Mapping[str, Mapping[str, Sequence[int]]], messages: int
) -> Iterator[tuple[TrialToReplicate, str, int]]:
    """Yield trial, speaker and message: the first of each trial, then the second.

    The order of a speaker's messages is random, and depends on the trial alone.
    """
    orders = {
        (trial.trial_id, speaker): random.Random(f"{trial.seed}:{trial.case[0]}:{speaker}").sample(own, len(own))
        for trial in trials
        for speaker, own in turns[trial.trial_id].items()
    }
    for place, trial in product(range(messages), trials):
        for speaker in turns[trial.trial_id]:
            for turn in orders[trial.trial_id, speaker][place : place + 1]:
                yield trial, speaker, turn


def _kind(again: bool) -> str:
    return "again" if again else "kept"


def _size(calls: float, prompt_tokens: float, completion_tokens: float) -> dict[str, Any]:
    return {"calls": calls, "prompt": calls * prompt_tokens, "completion": calls * completion_tokens}


async def _continued(item: Continuation, cast: Any) -> list[Event]:
    """Return the events of a continuation.

    Raises ``AnamnesisError`` if another speaker goes on than in the stored conversation, because then the framework has
    other rules now.
    """
    campaign, trial, kept = item.run.campaign, item.trial, item.kept
    assert campaign is not None, "a run that cannot be played is refused"
    parent = Parent(trial_id=trial.trial_id, turn=kept, changes=())
    branch = Branch(item.dialogue[:kept], parent) if kept else None
    case, many = item.run.cases[trial.case], tuple(item.run.header.many_choices)
    # with the trial's own seed, a provider that honours seeds would repeat the stored messages
    place = f"{case.case_key} {item.key.turn} {_kind(item.key.again)}"
    again = Trial(trial.trial_id, case, trial.number, seed_of(trial.seed, place, item.key.number), item.arms, many)
    events = [event async for event in campaign.framework.play(again, cast, campaign.settings, branch)]
    spoken = [event.role for event in events if isinstance(event, Utterance)][kept : kept + 1]
    broken = any(isinstance(event, Ended) and event.reason in ("error", "refusal") for event in events)
    if (spoken or not broken) and spoken != [turn.role for turn in item.dialogue[kept : kept + 1]]:
        raise AnamnesisError(
            f"The conversation {trial.trial_id} does not go on as it did: the rules of its framework have changed, so "
            "that it cannot be continued."
        )
    return events


def _row(
    item: Continuation, arm: Arm, response: str | None, dialogue: str, columns: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        **item.key._asdict(),
        "speaker": item.speaker,
        "format": arm[0],
        "question_type": arm[1],
        "dialogue": dialogue,
        "response": response,
        "judged_at": time.time(),
        **NO_VERDICT,
        **columns,
    }
