"""Answers the questions of stored trials again on the same dialogue, and grades answers again, to measure noise.

Replicates count in no figure but ``report noise``. An answer that is given again comes from the
framework's own ``play``, as a branch that has the whole conversation: it ends at once, and every arm is asked again. A
grading is by a new grader, without the cache by which a run grades equal responses once, so that all are independent.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, NamedTuple

from core.agents.base import Grader
from core.agents.grader import READING_VERSION
from core.asking.scene import Dialogue
from core.case import Case
from core.errors import AnamnesisError, UsageError
from core.events import GRADED_TYPES, Answered, Event, Graded, Parent, Utterance
from core.frameworks.answering import CLOSING, GRADING_TOKENS
from core.frameworks.base import (
    WITHOUT_CONVERSATION,
    Arm,
    Branch,
    Campaign,
    Trial,
    default_pack,
    framework,
    seat_of,
    stored_settings,
    tested_seat,
)
from core.frameworks.casting import REFERENCE, Casting, is_model
from core.jobs.ask_job import AskJob, AskOutcome, ItemResult, JobPlan, JobSize, JournalWork, journal_of
from core.jobs.plan import HUMAN, campaign_of, in_full, parse_arms
from core.jobs.regrade import (
    RULES,
    Packs,
    Regrading,
    ResponseVerdict,
    RunGrader,
    RunPlan,
    ToGrade,
    judge_answer,
    judge_of,
)
from core.jobs.run import casting_of
from core.journal import RowLine, RunHeader, journal_path, read_header, seed_of
from core.models.registry import Registry
from core.store.database import Store
from core.store.queries.cases import CaseKey, cases_answered
from core.store.queries.grades import AnswerToGrade
from core.store.queries.replicates import AnswerReplicate, TrialToReplicate, trials_to_replicate
from core.store.queries.runs import header_of
from core.store.queries.utterances import dialogues

_MATERIAL_TOKENS, _ANSWER_TOKENS, _VERDICT_TOKENS = 500, 14, 4
_GRADER_CALLS = 2


@dataclass(frozen=True)
class RunToReplicate:
    """A run with its grader; ``campaign`` answers again, and is ``None`` if nobody can be asked."""

    header: RunHeader
    judge: RunGrader
    cases: Mapping[CaseKey, Case]
    campaign: Campaign | None


class Replicate(NamedTuple):
    """One set of answers of a trial, all with one number: the arms to ask, and the gradings that are missing.

    ``responses`` are the stored answers to grade. ``number`` 0 are the answers of the run, which are not asked again.
    """

    run: RunToReplicate
    trial: TrialToReplicate
    number: int
    arms: tuple[Arm, ...]
    responses: tuple[tuple[AnswerReplicate, tuple[int, ...]], ...]
    dialogue: Dialogue = ()


class ReplicateSeats(NamedTuple):
    """Run → a function that makes graders, and the open cast of the run's framework."""

    graders: Mapping[str, Callable[[], Grader]]
    casts: Mapping[str, Any]


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
            run = self._run(store, run_id, registry, packs)
            with store.read() as cursor:
                trials = trials_to_replicate(cursor, run_id, run.judge.stored_name, run.judge.prompt_hash, self.limit)
            replicates = [item for trial in trials for item in self._replicates_of(run, trial)]
            todo = [item for item in replicates if item.arms or item.responses]
            before += len(replicates) - len(todo)
            parts.append(self.part(journal_of("replicates", run_id), todo, replicates))
            models |= dict.fromkeys(name for name in (_answering(run), run.judge.model) if name)
        if not any(part.todo for part in parts) and not before:
            raise AnamnesisError(
                "There is nothing to replicate: no finished trial has an answer of a model, or a free response that a "
                "model can grade. Choose another --run, --arms or --grader."
            )
        return JobPlan(" and ".join(models), parts, before, list(models))

    def _run(self, store: Store, run_id: str, registry: Registry, packs: Packs) -> RunToReplicate:
        with store.read() as cursor:
            header = header_of(cursor, run_id)
            if header is None:
                raise UsageError(f"There is no run {run_id!r}; `python -m core runs` lists them.")
            cases = cases_answered(cursor, run_id)
        judge = judge_of(header, Regrading((run_id,), self.grader or header.grader), registry, packs)
        if self.answers and (header.source == "release" or header.doctor.startswith(f"{HUMAN}/")):
            raise UsageError(
                f"The doctor of run {run_id}, {header.doctor}, cannot be asked again: replicate its gradings alone "
                "(--answers 0)."
            )
        campaign = None
        if self.answers:
            header = read_header(journal_path(run_id))
            campaign = in_full(campaign_of(header), registry)
            # the job grades by itself: the reference grader of the cast costs nothing and its verdicts are dropped
            campaign = replace(campaign, names=campaign.names.but(grader=REFERENCE["grader"]))
            cases |= {(case.case_key, case.content_hash): case for case in header.cases}  # with profile and items
        return RunToReplicate(header, judge, cases, campaign)

    def _replicates_of(self, run: RunToReplicate, trial: TrialToReplicate) -> Iterator[Replicate]:
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
        last = self.answers if run.campaign and is_model(_answering(run)) else 0
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

    def _missing(self, run: RunToReplicate, number: int, gradings: Sequence[int]) -> tuple[int, ...]:
        """Return the numbers of the gradings of an answer to make; number 0 of a run's answer is the run's grading."""
        start = 0 if number else 1
        wanted = range(start, start + (self.gradings if is_model(run.judge.model) else 1))
        return tuple(grading for grading in wanted if grading not in gradings)

    def load(self, store: Store, todo: Sequence[Replicate]) -> Iterator[Replicate]:
        with store.read() as cursor:
            by_trial = dialogues(cursor, [item.trial.trial_id for item in todo])
        return (item._replace(dialogue=by_trial.get(item.trial.trial_id, ())) for item in todo)

    def seats(self, registry: Registry, plan: JobPlan, store: Store) -> ReplicateSeats:
        graders, casts = dict[str, Callable[[], Grader]](), dict[str, Any]()
        for run in {item.run.header.run_id: item.run for item in plan.todo}.values():
            settings = stored_settings(framework(run.header.protocol), run.header.settings)
            address = self.base_url or settings.address_of("grader")
            run_id = run.header.run_id
            graders[run_id] = Casting(registry, run.judge.pack, base_url=address).graders(run.judge.model)
            if run.campaign:
                campaign = run.campaign
                casts[run_id] = campaign.framework.open(
                    casting_of(campaign, registry), campaign.names, campaign.settings
                )
        return ReplicateSeats(graders, casts)

    async def ask(self, item: Replicate, seats: ReplicateSeats) -> ItemResult:
        rows, failure = list[dict[str, Any]](), ""
        to_grade = list(item.responses)
        events: list[Event] = []
        if item.arms:
            events = await _asked_again(item, seats.casts[item.run.header.run_id])
            for event in events:
                if isinstance(event, Answered):
                    arm = (event.format, event.question_type)
                    if event.reason == "provider_error":
                        failure = failure or event.detail
                    elif event.response is None:
                        rows.append(_row(item, arm, 0, None, verdict=event.reason, detail=event.detail))
                    elif event.question_type in GRADED_TYPES:
                        numbers = self._missing(item.run, item.number, ())
                        to_grade.append((AnswerReplicate(*arm, item.number, event.response, ()), numbers))
                elif isinstance(event, Graded) and event.grader == "rule":
                    rows.append(_by_rule(item, event, events))
        for answer, numbers in to_grade:
            for grading in numbers:
                judged = await judge_answer(_to_grade(item, answer), seats.graders[item.run.header.run_id]())
                if isinstance(judged, str):
                    failure = failure or judged or "The provider failed."
                else:
                    rows.append(_judged_row(item, answer, grading, judged))
        lines = [RowLine(table="replicates", row=row) for row in rows]
        counts = Counter({"answers": len({(row["format"], row["question_type"]) for row in rows if item.number})})
        counts["gradings"] = sum(row["grader"] not in ("", "rule") for row in rows)
        return ItemResult(lines, failure, final=not failure, counts=counts, events=events)

    def size(self, plan: JobPlan, store: Store) -> JobSize:
        items: list[Replicate] = plan.todo
        answers, gradings = Counter[str](), Counter[str]()
        for item in items:
            answers[_answering(item.run) or ""] += len(item.arms)
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
                        _GRADER_CALLS * n,
                        float(_GRADER_CALLS * n * GRADING_TOKENS),
                        float(_GRADER_CALLS * n * _VERDICT_TOKENS),
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


def _answering(run: RunToReplicate) -> str:
    """Return the model or rule that answers the questions of a run: the solver, if its framework has one."""
    if run.campaign is None:
        return ""
    seat = seat_of(run.campaign.framework, "solver") or tested_seat(run.campaign.framework)
    return run.campaign.names[seat.role]


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


def _to_grade(item: Replicate, answer: AnswerReplicate) -> ToGrade:
    run = RunPlan(item.run.header, item.run.judge, (), item.run.cases, 0)
    arm = (answer.format, answer.question_type)
    return ToGrade(run, AnswerToGrade(item.trial.trial_id, *item.trial.case, *arm, answer.response or "", None))


def _judged_row(item: Replicate, answer: AnswerReplicate, grading: int, judged: ResponseVerdict) -> dict[str, Any]:
    judge, arm = item.run.judge, (answer.format, answer.question_type)
    return _row(
        item,
        arm,
        grading,
        answer.response,
        rule=RULES[answer.question_type],
        grader=judge.stored_name,
        prompt_hash=judge.prompt_hash,
        rule_version=READING_VERSION if is_model(judge.model) else 1,
        extracted=judged.extracted,
        verdict=judged.verdict,
        call_ids=list(judged.call_ids),
    )


def _by_rule(item: Replicate, graded: Graded, events: Iterable[Event]) -> dict[str, Any]:
    arm = (graded.format, graded.question_type)
    response = next(e.response for e in events if isinstance(e, Answered) and (e.format, e.question_type) == arm)
    return _row(
        item,
        arm,
        0,
        response,
        rule=graded.rule,
        grader=graded.grader,
        rule_version=graded.rule_version,
        extracted=graded.extracted,
        verdict=graded.verdict,
        call_ids=list(graded.call_ids),
    )


def _row(item: Replicate, arm: Arm, grading: int, response: str | None, **columns: Any) -> dict[str, Any]:
    """Return a row of ``replicates``; without further columns it is that of an answer that cannot be graded."""
    return {
        "trial_id": item.trial.trial_id,
        "format": arm[0],
        "question_type": arm[1],
        "answer": item.number,
        "grading": grading,
        "response": response,
        "rule": "",
        "grader": "",
        "prompt_hash": "",
        "rule_version": 1,
        "extracted": None,
        "detail": "",
        "call_ids": [],
        "judged_at": time.time(),
        **columns,
    }
