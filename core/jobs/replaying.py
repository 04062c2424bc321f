"""Shared by the jobs that play stored trials again to measure noise: the run, its seats, and the answers of a trial.

Answers come from the framework's own ``play``. A free response is graded by a new grader of the job, without the cache
by which a run grades equal responses once, so that verdicts are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from core.agents.base import Grader
from core.agents.grader import READING_VERSION
from core.case import Case
from core.errors import UsageError
from core.events import GRADED_TYPES, Answered, Event, Graded
from core.frameworks.base import Arm, Campaign, framework, seat_of, stored_settings, tested_seat
from core.frameworks.casting import REFERENCE, Casting, is_model
from core.jobs.plan import HUMAN, campaign_of, in_full
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
from core.journal import RunHeader, journal_path, read_header
from core.models.registry import Registry
from core.store.database import Store
from core.store.queries.cases import CaseKey, cases_answered
from core.store.queries.grades import AnswerToGrade
from core.store.queries.runs import header_of

GRADER_CALLS = 2
VERDICT_TOKENS = 4


@dataclass(frozen=True)
class ReplayedRun:
    """A run with its grader; ``campaign`` plays again, and is ``None`` if nobody can be asked."""

    header: RunHeader
    judge: RunGrader
    cases: Mapping[CaseKey, Case]
    campaign: Campaign | None

    @property
    def answering(self) -> str:
        """The model or rule that answers the questions: the solver, if the framework has one; empty if nobody does."""
        if self.campaign is None:
            return ""
        seat = seat_of(self.campaign.framework, "solver") or tested_seat(self.campaign.framework)
        return self.campaign.names[seat.role]


class ReplaySeats(NamedTuple):
    """Run → a function that makes graders, and the open cast of the run's framework."""

    graders: Mapping[str, Callable[[], Grader]]
    casts: Mapping[str, Any]


class PlayedAnswers(NamedTuple):
    """The answers of a played trial: those with their columns in the store, and those that a grader must judge.

    ``failure`` is the reason if a provider failed to give an answer.
    """

    failure: str
    judged: Sequence[tuple[Arm, str | None, dict[str, Any]]]
    to_grade: Sequence[tuple[Arm, str]]


def replayed_run(
    store: Store, run_id: str, registry: Registry, packs: Packs, grader: str = "", *, plays: bool = True
) -> ReplayedRun:
    """Return a run with its grader, or with ``grader``; raise ``UsageError`` if it cannot be played (``plays``)."""
    with store.read() as cursor:
        header = header_of(cursor, run_id)
        if header is None:
            raise UsageError(f"There is no run {run_id!r}; `python -m core runs` lists them.")
        cases = cases_answered(cursor, run_id)
    judge = judge_of(header, Regrading((run_id,), grader or header.grader), registry, packs)
    if plays and (header.source == "release" or header.doctor.startswith(f"{HUMAN}/")):
        raise UsageError(
            f"The doctor of run {run_id}, {header.doctor}, cannot be asked again: replicate its gradings alone "
            "(`job replicates --answers 0`)."
        )
    campaign = None
    if plays:
        header = read_header(journal_path(run_id))
        campaign = in_full(campaign_of(header), registry)
        # the job grades by itself: the reference grader of the cast costs nothing and its verdicts are dropped
        campaign = replace(campaign, names=campaign.names.but(grader=REFERENCE["grader"]))
        cases |= {(case.case_key, case.content_hash): case for case in header.cases}  # with profile and items
    return ReplayedRun(header, judge, cases, campaign)


def open_seats(runs: Iterable[ReplayedRun], registry: Registry, base_url: str | None) -> ReplaySeats:
    graders, casts = dict[str, Callable[[], Grader]](), dict[str, Any]()
    for run in {run.header.run_id: run for run in runs}.values():
        settings = stored_settings(framework(run.header.protocol), run.header.settings)
        address = base_url or settings.address_of("grader")
        run_id = run.header.run_id
        graders[run_id] = Casting(registry, run.judge.pack, base_url=address).graders(run.judge.model)
        if campaign := run.campaign:
            casts[run_id] = campaign.framework.open(casting_of(campaign, registry), campaign.names, campaign.settings)
    return ReplaySeats(graders, casts)


def played_answers(events: Sequence[Event]) -> PlayedAnswers:
    """Return the answers in the events of a trial; verdicts of its grader are dropped, those of rules count."""
    failure, judged, to_grade = "", list[tuple[Arm, str | None, dict[str, Any]]](), list[tuple[Arm, str]]()
    responses: dict[Arm, str | None] = {}
    for event in events:
        if isinstance(event, Answered):
            arm = (event.format, event.question_type)
            responses[arm] = event.response
            if event.reason == "provider_error":
                failure = failure or event.detail
            elif event.response is None:
                judged.append((arm, None, {"verdict": event.reason, "detail": event.detail}))
            elif event.question_type in GRADED_TYPES:
                to_grade.append((arm, event.response))
        elif isinstance(event, Graded) and event.grader == "rule":
            arm = (event.format, event.question_type)
            columns = {
                "rule": event.rule,
                "grader": event.grader,
                "rule_version": event.rule_version,
                "extracted": event.extracted,
                "verdict": event.verdict,
                "call_ids": list(event.call_ids),
            }
            judged.append((arm, responses[arm], columns))
    return PlayedAnswers(failure, judged, to_grade)


async def graded_again(
    run: ReplayedRun, trial_id: str, case: CaseKey, arm: Arm, response: str, grader: Grader
) -> dict[str, Any] | str:
    """Return the columns of a verdict on a response, or why there is none because the provider failed."""
    plan = RunPlan(run.header, run.judge, (), run.cases, 0)
    judged = await judge_answer(ToGrade(plan, AnswerToGrade(trial_id, *case, *arm, response, None)), grader)
    if not isinstance(judged, ResponseVerdict):
        return judged or "The provider failed."
    return {
        "rule": RULES[arm[1]],
        "grader": run.judge.stored_name,
        "prompt_hash": run.judge.prompt_hash,
        "rule_version": READING_VERSION if is_model(run.judge.model) else 1,
        "extracted": judged.extracted,
        "verdict": judged.verdict,
        "call_ids": list(judged.call_ids),
    }


NO_VERDICT: Mapping[str, Any] = {
    "rule": "", "grader": "", "prompt_hash": "", "rule_version": 1, "extracted": None, "detail": "", "call_ids": [],
}  # fmt: skip
"""The columns of a verdict for an answer that cannot be graded."""
