"""Grades stored free responses again, with another grader or other prompts; earlier verdicts stay as history."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from core.agents.base import Grader
from core.agents.casting import Casting, craftmd_pack
from core.campaigns.engine import running
from core.campaigns.journal import GradesLine, JournalWriter, RunHeader, TrialLine, journal_path, read_lines
from core.case import Case
from core.errors import AnamnesisError
from core.events import Answered, Called, CallRecord, Graded
from core.models.registry import Registry
from core.protocols.grading import grade_answer
from core.store.database import Store
from core.store.fold import fold


@dataclass(frozen=True)
class Regraded:
    """How many answers were graded again, by whom, how many verdicts changed, and how many kept theirs for failures."""

    grader: str
    answers: int
    changed: int
    failed: int


@dataclass(frozen=True)
class _Stored:
    """The free responses of one trial with their newest verdicts."""

    trial_id: str
    case: Case
    answers: tuple[Answered, ...]
    verdicts: dict[tuple[str, str], str]


def regrade_run(
    header: RunHeader, registry: Registry, grader: str, prompts: str | None, base_url: str | None, concurrency: int
) -> Regraded:
    """Grade every free response of a run again and fold the new verdicts into the database."""
    outcome = asyncio.run(_regrade(header, registry, grader, prompts, base_url, concurrency))
    fold(Store())
    return outcome


async def _regrade(
    header: RunHeader, registry: Registry, name: str, prompts: str | None, base_url: str | None, concurrency: int
) -> Regraded:
    # the graders' prompts are CRAFT-MD's, whatever protocol the answers come from
    own = header.prompt_pack if header.protocol == "craftmd" else "craftmd"
    casting = Casting(registry, craftmd_pack(prompts or own), base_url=base_url)
    async with registry:
        grader = casting.grader(name)
        stored = list(_stored(header))
        if not any(trial.answers for trial in stored):
            raise AnamnesisError(f"Run {header.run_id} has no free response to grade.")
        slots = asyncio.Semaphore(concurrency)
        with running(header.run_id), JournalWriter(journal_path(header.run_id)) as journal:

            async def one(trial: _Stored) -> tuple[int, int, int]:
                async with slots:
                    line = await _grade_trial(header.run_id, trial, grader)
                journal.append(line)
                changed = sum(trial.verdicts.get((g.format, g.question_type)) != g.verdict for g in line.grades)
                return len(line.grades), changed, len(trial.answers) - len(line.grades)

            counts = await asyncio.gather(*(one(trial) for trial in stored if trial.answers))
    return Regraded(grader.name, *(sum(column) for column in zip(*counts, strict=True)))


async def _grade_trial(run_id: str, trial: _Stored, grader: Grader) -> GradesLine:
    grades: list[Graded] = []
    calls: list[CallRecord] = []
    for answer in trial.answers:
        arm = (answer.format, answer.question_type)
        async for event in grade_answer(trial.case, grader, arm, answer.response or "", ()):
            if isinstance(event, Graded):
                # a provider that fails now must not take the place of a verdict that was given before
                if event.verdict != "provider_error":
                    grades.append(event)
            elif isinstance(event, Called):
                calls.append(event.call)
                if (event.call.error or "").startswith("auth:"):
                    raise AnamnesisError((event.call.error or "").removeprefix("auth: "))
    return GradesLine(run_id=run_id, trial_id=trial.trial_id, grades=grades, calls=calls)


def _stored(header: RunHeader) -> Iterator[_Stored]:
    """Yield the trials of the journal, each with the verdicts that count now."""
    cases = {case.case_key: case for case in header.cases}
    trials: dict[str, _Stored] = {}
    for _, line in read_lines(journal_path(header.run_id)):
        if isinstance(line, TrialLine):
            answers = tuple(
                e for e in line.events
                if isinstance(e, Answered) and e.response is not None and e.question_type in ("frq", "frq_top3")
            )  # fmt: skip
            verdicts: dict[tuple[str, str], str] = {
                (e.format, e.question_type): e.verdict for e in line.events if isinstance(e, Graded)
            }
            trials[line.trial_id] = _Stored(line.trial_id, cases[line.case_key], answers, verdicts)
        elif isinstance(line, GradesLine) and line.trial_id in trials:
            trials[line.trial_id].verdicts.update({(g.format, g.question_type): g.verdict for g in line.grades})
    yield from trials.values()
