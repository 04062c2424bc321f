"""Answers the questions of stored trials again on the same dialogue, and grades answers again, to measure noise.

Replicates count in no figure but ``report noise``. An answer that is given again comes from the
framework's own ``play``, as a branch that has the whole conversation: it ends at once, and every arm is asked again. A
grading is by a new grader (``core.jobs.replaying``).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, NamedTuple

from core.asking.scene import Dialogue
from core.errors import AnamnesisError, UsageError
from core.events import GRADED_TYPES, Event, Parent, Utterance
from core.frameworks.answering import CLOSING, GRADING_TOKENS
from core.frameworks.base import WITHOUT_CONVERSATION, Arm, Branch, Trial, default_pack
from core.frameworks.casting import is_model
from core.jobs.ask_job import AskJob, AskOutcome, ItemResult, JobPlan, JobSize, JournalWork, journal_of
from core.jobs.plan import parse_arms
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
from core.store.queries.replicates import AnswerReplicate, TrialToReplicate, trials_to_replicate
from core.store.queries.utterances import dialogues

_MATERIAL_TOKENS, _ANSWER_TOKENS = 500, 14


class Replicate(NamedTuple):
    """One set of answers of a trial, all with one number: the arms to ask, and the gradings that are missing.

    ``responses`` are the stored answers to grade. ``number`` 0 are the answers of the run, which are not asked again.
    """

    run: ReplayedRun
    trial: TrialToReplicate
    number: int
    arms: tuple[Arm, ...]
    responses: tuple[tuple[AnswerReplicate, tuple[int, ...]], ...]
    dialogue: Dialogue = ()


@dataclass(frozen=True)
class Replicates(AskJob[Replicate]):
    """Answer stored questions again on the same dialogue, and grade answers again, to measure noise by its source.

    Verdicts that count do not change. Stopped by Ctrl-C or its budget, the same command goes on. Questions on a summary
    get a new summary, too. Rules answer and grade the same each time, so that only models are asked.
    """

    name = "replicates"
    title = "Replicates"
    items = "sets of answers"
    verb, participle = "replicate", "replicated"
    lack = "are incomplete because a provider failed; the same again completes them"
    report = "noise"

    run_ids: tuple[str, ...]
    answers: Annotated[int, "Ask every question K more times on the same dialogue."] = 1
    gradings: Annotated[int, "Grade every free response K times, each time by a new grader."] = 2
    grader: Annotated[str, "Who grades: a model; by default each run's own grader."] = ""
    arms: Annotated[str, "Only these arms, such as multi_turn:frq, separated by commas."] = ""
    limit: Annotated[int | None, "Only N trials of each run, each case once before a case twice."] = None

    def key(self, item: Replicate) -> str:
        return f"{item.trial.trial_id} {item.number}"

    def plan(self, store: Store, registry: Registry) -> JobPlan:
        if self.answers < 0 or self.gradings < 1:
            raise UsageError("--answers must be at least 0 (gradings alone), and --gradings at least 1.")
        if not self.run_ids:
            raise UsageError("Name the runs to replicate (--run).")
        packs: Packs = cache(default_pack)
        parts, before, models = list[JournalWork](), 0, dict[str, None]()
        for run_id in self.run_ids:
            run = replayed_run(store, run_id, registry, packs, self.grader, plays=self.answers > 0)
            with store.read() as cursor:
                trials = trials_to_replicate(cursor, run_id, run.judge.stored_name, run.judge.prompt_hash, self.limit)
            replicates = [item for trial in trials for item in self._replicates_of(run, trial)]
            todo = [item for item in replicates if item.arms or item.responses]
            before += len(replicates) - len(todo)
            parts.append(self.part(journal_of("replicates", run_id), todo, replicates))
            models |= dict.fromkeys(name for name in (run.answering, run.judge.model) if name)
        if not any(part.todo for part in parts) and not before:
            raise AnamnesisError(
                "There is nothing to replicate: no finished trial has an answer of a model, or a free response that a "
                "model can grade. Choose another --run, --arms or --grader."
            )
        return JobPlan(" and ".join(models), parts, before, list(models))

    def _replicates_of(self, run: ReplayedRun, trial: TrialToReplicate) -> Iterator[Replicate]:
        """Yield the replicates of a trial that this job makes, with what is missing of each."""
        chosen = set(parse_arms(self.arms, run.header.protocol)) if self.arms else None
        stored = [a for a in trial.answers if chosen is None or (a.format, a.question_type) in chosen]
        first = 0 if is_model(run.judge.model) else 1
        asked = [
            (answer.format, answer.question_type)
            for answer in stored
            if answer.answer == 0
            and (answer.format, answer.question_type) != CLOSING
            and (trial.ended or answer.format in WITHOUT_CONVERSATION)
        ]
        last = self.answers if run.campaign and is_model(run.answering) else 0
        for number in range(first, last + 1):
            given = {(a.format, a.question_type): a for a in stored if a.answer == number}
            arms = tuple(arm for arm in asked if arm not in given) if number else ()
            to_grade = tuple(
                (answer, missing)
                for answer in given.values()
                if answer.response and answer.question_type in GRADED_TYPES
                if (missing := self._missing(run, number, answer.gradings))
            )
            gradable = any(a.response and a.question_type in GRADED_TYPES for a in given.values())
            if (number and asked) or gradable:
                yield Replicate(run, trial, number, arms, to_grade)

    def _missing(self, run: ReplayedRun, number: int, gradings: Sequence[int]) -> tuple[int, ...]:
        """Return the numbers of the gradings of an answer to make; number 0 of a run's answer is the run's grading."""
        start = 0 if number else 1
        wanted = range(start, start + (self.gradings if is_model(run.judge.model) else 1))
        return tuple(grading for grading in wanted if grading not in gradings)

    def load(self, store: Store, todo: Sequence[Replicate]) -> Iterator[Replicate]:
        with store.read() as cursor:
            by_trial = dialogues(cursor, [item.trial.trial_id for item in todo])
        return (item._replace(dialogue=by_trial.get(item.trial.trial_id, ())) for item in todo)

    def seats(self, registry: Registry, plan: JobPlan, store: Store) -> ReplaySeats:
        return open_seats((item.run for item in plan.todo), registry, self.base_url)

    async def ask(self, item: Replicate, seats: ReplaySeats) -> ItemResult:
        rows, failure, events = list[dict[str, Any]](), "", list[Event]()
        to_grade = list(item.responses)
        run_id = item.run.header.run_id
        if item.arms:
            events = await _asked_again(item, seats.casts[run_id])
            answers = played_answers(events)
            failure = answers.failure
            rows = [_row(item, arm, 0, response, columns) for arm, response, columns in answers.judged]
            numbers = self._missing(item.run, item.number, ())
            to_grade += [
                (AnswerReplicate(*arm, item.number, response, ()), numbers) for arm, response in answers.to_grade
            ]
        for answer, numbers in to_grade:
            arm, response = (answer.format, answer.question_type), answer.response or ""
            for grading in numbers:
                grader = seats.graders[run_id]()
                judged = await graded_again(item.run, item.trial.trial_id, item.trial.case, arm, response, grader)
                if isinstance(judged, str):
                    failure = failure or judged
                else:
                    rows.append(_row(item, arm, grading, response, judged))
        lines = [RowLine(table="replicates", row=row) for row in rows]
        counts = Counter({"answers": len({(row["format"], row["question_type"]) for row in rows if item.number})})
        counts["gradings"] = sum(row["grader"] not in ("", "rule") for row in rows)
        return ItemResult(lines, failure, final=not failure, counts=counts, events=events)

    def size(self, plan: JobPlan, store: Store) -> JobSize:
        items: list[Replicate] = plan.todo
        answers, gradings = Counter[str](), Counter[str]()
        for item in items:
            answers[item.run.answering] += len(item.arms)
            graded = sum(len(numbers) for _, numbers in item.responses)
            graded += sum(arm[1] in GRADED_TYPES for arm in item.arms) * len(self._missing(item.run, item.number, ()))
            gradings[item.run.judge.model] += graded
        roles = {
            **{
                f"doctor {name}" if len(answers) > 1 else "doctor": (
                    name, (n, float(n * _MATERIAL_TOKENS), float(n * _ANSWER_TOKENS))
                )
                for name, n in answers.items()
                if n
            },
            **{
                f"grader {name}" if len(gradings) > 1 else "grader": (
                    name,
                    (
                        GRADER_CALLS * n,
                        float(GRADER_CALLS * n * GRADING_TOKENS),
                        float(GRADER_CALLS * n * VERDICT_TOKENS),
                    ),
                )
                for name, n in gradings.items()
            },
        }  # fmt: skip
        counts = {"answers": answers.total(), "gradings": gradings.total(), "replicated before": plan.kept}
        return JobSize(roles, counts)

    @classmethod
    def summary(cls, outcome: AskOutcome) -> Iterable[str]:
        answers, gradings = (outcome.counts.get(name, 0) for name in ("answers", "gradings"))
        yield f"{answers:,} answers and {gradings:,} gradings made again by {outcome.by}. Verdicts that count stay."


async def _asked_again(item: Replicate, cast: Any) -> list[Event]:
    """Return the events of a trial whose conversation is the stored one and whose arms are asked again.

    Raises ``AnamnesisError`` if the conversation goes on, because the framework ends it differently now.
    """
    campaign, trial = item.run.campaign, item.trial
    assert campaign is not None, "arms are asked only of a run that can be played"
    talks = any(format_ not in WITHOUT_CONVERSATION for format_, _ in item.arms)
    parent = Parent(trial_id=trial.trial_id, turn=len(item.dialogue), changes=())
    branch = Branch(item.dialogue, parent) if talks and item.dialogue else None
    case, many = item.run.cases[trial.case], tuple(item.run.header.many_choices)
    # with the trial's own seed, a provider that honours seeds would give the stored answer again
    seed = seed_of(trial.seed, case.case_key, item.number)
    again = Trial(trial.trial_id, case, trial.number, seed, item.arms, many)
    events: list[Event] = []
    async for event in campaign.framework.play(again, cast, campaign.settings, branch):
        events.append(event)
        if isinstance(event, Utterance) and event.turn >= len(item.dialogue):
            raise AnamnesisError(
                f"The conversation {trial.trial_id} does not end where it ended: the rules of its framework have "
                "changed, so that its questions cannot be asked again."
            )
    return events


def _row(item: Replicate, arm: Arm, grading: int, response: str | None, columns: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "trial_id": item.trial.trial_id,
        "format": arm[0],
        "question_type": arm[1],
        "answer": item.number,
        "grading": grading,
        "response": response,
        "judged_at": time.time(),
        **NO_VERDICT,
        **columns,
    }
