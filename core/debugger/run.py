"""Runs every arm of one case in a thread of this process, trials and arms concurrently; stored as an ordinary run.

The verdicts form a table, arms × trials, also while the run is running.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from core import access
from core.asking.memory import StoredReply, replies_in
from core.case import Case
from core.debugger.packs import save_pack
from core.debugger.steps import TrialRecord
from core.errors import UsageError
from core.events import (
    COUNTED,
    FORMATS,
    PASSING,
    QUESTION_TYPES,
    Answered,
    Event,
    Format,
    Graded,
    QuestionType,
    Rule,
    Verdict,
    grader_rule,
)
from core.frameworks.answering import by_arm
from core.frameworks.base import Arm, Campaign, Trial
from core.jobs.background import Job
from core.jobs.engine import Options, run_trials
from core.jobs.plan import campaign_of, check_pictures, header_of, human_seats, in_full, trials_of
from core.jobs.progress import Progress, Stop, running
from core.jobs.run import Play, player_of
from core.journal import Edit, RunHeader, TrialLine, journal_path, read_header, read_lines, trial_id
from core.models.registry import Registry, load_registry
from core.store.database import Store
from core.store.fold import fold, following
from core.store.lease import DatabaseBusyError
from core.text.demographics import read_demographics

CALLS_AT_ONCE = 16
"""Maximum calls in flight, as in any run: over all trials, and over the arms of a trial after its dialogue."""

EDITED = "edited"
"""The data set of cases whose vignette was edited for a run, which keeps them apart from their originals."""
_EDIT_OF = re.compile(r"-edit-[0-9a-f]{6}$")


class BenchRun(Job[None]):
    """A job that runs all trials and arms of one case, with the events so far.

    ``error`` says in one sentence why the run failed; it is ``None`` also if a user stopped the run.
    """

    def __init__(self, campaign: Campaign, header: RunHeader, registry: Registry, play: Play) -> None:
        super().__init__(lambda tell, stop: self._do(registry, play, stop))
        self.campaign, self.header = campaign, header
        self.case: Case = campaign.cases[0]
        self.trials: list[Trial] = trials_of(header)
        self.progress = Progress(planned=len(self.trials))
        """Trials done and planned; calls, tokens and US dollars of finished and running trials."""
        self._events: dict[int, list[Event]] = {trial.number: [] for trial in self.trials}
        path = journal_path(self.run_id)
        for _, line in read_lines(path) if path.exists() else ():  # a resumed run
            if isinstance(line, TrialLine):
                self._events[line.trial] = list(line.events)
        self._missing = [trial for trial in self.trials if not self._events[trial.number]]

    @property
    def run_id(self) -> str:
        """The id of the run, which is stored when its first trial is finished."""
        return self.header.run_id

    def snapshot(self) -> dict[int, list[Event]]:
        return {number: list(events) for number, events in self._events.items()}

    def matrix(self) -> list[MatrixRow]:
        """Return the matrix as it is now, with every planned arm and trial."""
        return matrix(self.snapshot(), self.campaign.arms)

    def record(self, trial_number: int) -> TrialRecord:
        """Return a trial with what is needed to show its steps and run one again; ``KeyError`` without such a trial."""
        trial = {trial.number: trial for trial in self.trials}[trial_number]
        events = tuple(self._events[trial_number])
        return TrialRecord(trial.trial_id, trial.case, self.header, trial.number, trial.seed, events)

    def _do(self, registry: Registry, play: Play, stop: Stop) -> None:
        asyncio.run(self._carry_out(registry, play, stop))
        if not (path := journal_path(self.run_id)).exists():  # no trial is finished and no call was paid for
            shutil.rmtree(path.parent, ignore_errors=True)
            return
        with suppress(DatabaseBusyError):  # the journal is complete; the next process that opens the database folds it
            fold(Store())

    async def _carry_out(self, registry: Registry, play: Play, stop: Stop) -> None:
        with running(self.run_id) as stop_file:
            async with registry, following(Store()) as follow:
                await run_trials(
                    self.header,
                    lambda trial: self._play(trial, play),
                    self._missing,
                    self.progress,
                    stop,
                    stop_file,
                    Options(CALLS_AT_ONCE, calls_at_once=CALLS_AT_ONCE),
                    fold=follow,
                    given=await asyncio.to_thread(_given, self.header),
                )
        if self.progress.done < self.progress.planned and not self.stopped:
            self.error = stop.reason

    async def _play(self, trial: Trial, play: Play) -> AsyncIterator[Event]:
        """Record the trial's events for ``snapshot`` when they happen; yield them at the end, by arm."""
        events = self._events[trial.number]
        async for event in play(trial):
            if not isinstance(event, PASSING):
                events.append(event)
        events[:] = by_arm(events, trial.arms)
        for event in events:
            yield event


def start_bench(campaign: Campaign, registry: Registry | None = None) -> BenchRun:
    """Start all trials of a campaign of one case; raise ``UsageError`` if it cannot be run.

    A later failure (a wrong key, a server that stays down) is in ``BenchRun.error``.
    """
    if len(campaign.cases) != 1:
        raise UsageError(f"The debugger runs one case at a time, and {len(campaign.cases)} were given: choose one.")
    if human_seats(campaign.names):
        raise UsageError("The debugger cannot wait for a person: play on the page Live consultation.")
    return _begun(campaign, registry or load_registry())


def _begun(campaign: Campaign, registry: Registry, edited: Edit | None = None) -> BenchRun:
    campaign = in_full(campaign, registry)
    header = header_of(campaign, registry)
    run_id = f"bench-{header.run_id}-{uuid.uuid4().hex[:4]}"
    header = header.model_copy(update={"run_id": run_id, "source": "bench", "edited": edited})
    return _started(campaign, header, registry)


def start_edited(
    before: RunHeader, case: Case, vignette: str, prompts: Mapping[str, str], registry: Registry | None = None
) -> BenchRun:
    """Start all trials and arms of a run of ``case`` again, with its vignette or prompts (name → template) edited.

    Trials keep their seeds. A request that is the same as before gets the stored reply: only requests that the edit
    changes are sent and paid for. An edited case has no profile, because that was made from the old vignette, and
    belongs to the data set ``EDITED``. Edited prompts are saved as a pack that is named by its content. Raises
    ``UsageError`` if nothing is edited or a template uses unknown inputs, ``AnamnesisError`` if the run's prompts have
    changed since.
    """
    access.require("run")
    access.require_own(before.owner, f"The run {before.run_id}")
    campaign = replace(campaign_of(before), cases=(case,))
    key = before.edited.case_key if before.edited else case.case_key
    text, pack = vignette.strip(), campaign.pack
    changed = {
        name: template for name, template in prompts.items() if template.strip() != pack.prompts[name].source.strip()
    }
    if not text:
        raise UsageError("The vignette is empty: leave it as it was, or write another one.")
    if text == case.vignette.strip() and not changed:
        raise UsageError("Nothing is edited yet: change the vignette or a prompt.")
    if text != case.vignette.strip():
        # take age and sex from the new vignette if its text gives others than the old text; else keep those of the case
        old, new = read_demographics(case.vignette), read_demographics(text)
        stored = (case.age, case.sex)
        age, sex = (b if b != a else value for a, b, value in zip(old, new, stored, strict=True))
        case_key = f"{EDITED}/{case.case_key.partition('/')[2]}"
        fields = {"case_key": case_key, "dataset": EDITED, "vignette": text, "profile": None, "age": age, "sex": sex}
        campaign = replace(campaign, cases=(case.model_copy(update=fields),), case_set=case_key.replace("/", ":", 1))
    if changed:
        digest = hashlib.sha256(f"{pack.hash}{sorted(changed.items())}".encode(errors="replace")).hexdigest()[:6]
        name = f"{_EDIT_OF.sub('', pack.name)[:50]}-edit-{digest}"
        save_pack(name, before.prompt_pack, changed, overwrite=True)
        campaign = replace(campaign, prompts=name)
    return _begun(campaign, registry or load_registry(), Edit(run_id=before.run_id, case_key=key))


def _given(header: RunHeader) -> dict[str, dict[str, list[StoredReply]]]:
    """Return trial → key → replies to the same trial in the edited run, and in the runs which that run edits."""
    replies_by_trial: dict[str, dict[str, list[StoredReply]]] = {}
    edited_from = header
    while edited_from.edited is not None and (path := journal_path(edited_from.edited.run_id)).exists():
        edited_from = read_header(path)
        for trial in trials_of(header):
            earlier_trial = trial_id(edited_from.run_id, edited_from.cases[0].case_key, trial.number)
            for key, replies in replies_in(path, earlier_trial, lambda call: False).items():
                replies_by_trial.setdefault(trial.trial_id, {}).setdefault(key, replies)
    return replies_by_trial


def resume_bench(run_id: str) -> BenchRun:
    """Resume a run that was stopped or failed; finished trials and paid replies are used again.

    Raises ``AnamnesisError`` if its prompts have changed since.
    """
    header = read_header(journal_path(run_id))
    return _started(campaign_of(header), header, load_registry())


def _started(campaign: Campaign, header: RunHeader, registry: Registry) -> BenchRun:
    access.require("run")
    check_pictures(campaign, registry)
    run = BenchRun(campaign, header, registry, player_of(campaign, registry))
    run.start()
    return run


CellState = Literal["waiting", "answered", "graded", "invalid"]


@dataclass(frozen=True)
class MatrixCell:
    """The result of one trial in one arm. ``state``: not answered yet, answered but not judged, judged, or excluded.

    ``reason`` and ``detail`` say why an answer is excluded; ``extracted`` is the diagnosis that the grader read out of
    a free response.
    """

    format: Format
    question_type: QuestionType
    trial: int
    state: CellState = "waiting"
    response: str | None = None
    extracted: str | None = None
    verdicts: Mapping[Rule, Verdict] = field(default_factory=dict)
    reason: Verdict | None = None
    detail: str = ""
    grader: str | None = None

    def verdict(self, mcq_rule: Rule = "mcq_loose") -> Verdict | None:
        """Return the one verdict to show: of the question type's rule, or the reason of an excluded answer."""
        rule = grader_rule(self.question_type) or mcq_rule
        return self.reason or self.verdicts.get(rule)


@dataclass(frozen=True)
class MatrixRow:
    """One arm over the trials; ``cells`` in the order of the trials."""

    format: Format
    question_type: QuestionType
    cells: tuple[MatrixCell, ...]

    def correct(self, mcq_rule: Rule = "mcq_loose") -> tuple[int, int]:
        """Return (correct, counted); excluded and missing answers do not count."""
        verdicts = [cell.verdict(mcq_rule) for cell in self.cells]
        return verdicts.count("correct"), sum(verdict in COUNTED for verdict in verdicts)


def matrix(events_by_trial: Mapping[int, Sequence[Event]], arms: Sequence[Arm] | None = None) -> list[MatrixRow]:
    """Return the arms × trials of a run, also of a running one, in the order of formats and question types.

    Without ``arms``, the rows are the arms that occur in the events; with ``arms``, also those without events yet. Of
    two verdicts under one rule, the later counts.
    """
    cells: dict[tuple[Arm, int], MatrixCell] = {}
    for number, events in sorted(events_by_trial.items()):
        for event in events:
            if not isinstance(event, Answered | Graded):
                continue
            arm = (event.format, event.question_type)
            if isinstance(event, Answered):
                state: CellState = "invalid" if event.status == "invalid" else "answered"
                cells[arm, number] = MatrixCell(
                    *arm, number, state, event.response, reason=event.reason, detail=event.detail
                )
            elif cell := cells.get((arm, number)):
                cells[arm, number] = replace(
                    cell,
                    state="graded",
                    verdicts={**cell.verdicts, event.rule: event.verdict},
                    grader=event.grader,
                    extracted=event.extracted if event.extracted is not None else cell.extracted,
                )
    rows = sorted(
        dict.fromkeys(arms if arms is not None else [arm for arm, _ in cells]),
        key=lambda arm: (FORMATS.index(arm[0]), QUESTION_TYPES.index(arm[1])),
    )
    numbers = sorted(events_by_trial)
    return [MatrixRow(*arm, tuple(cells.get((arm, n)) or MatrixCell(*arm, n) for n in numbers)) for arm in rows]
