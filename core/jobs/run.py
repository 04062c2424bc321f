"""Starts and resumes campaigns: opens the cast, finds the missing trials, runs them, folds the result.

A campaign runs in this process, or in a separate one that outlives it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal

from filelock import FileLock
from pydantic import SecretStr

from core import access, paths
from core.agents.player import Listen
from core.asking.memory import WorkTotals
from core.errors import AnamnesisError, UsageError
from core.events import Event, Verdict
from core.frameworks.base import Branch, Campaign, Trial, default_pack, grades_itself
from core.frameworks.casting import Casting
from core.jobs.budget import budget_in_force, store_budget, stored_budget
from core.jobs.engine import Options, run_trials
from core.jobs.estimate import check_budget, estimate
from core.jobs.plan import (
    branch_of,
    campaign_of,
    check_pictures,
    human_seats,
    in_full,
    missing_keys,
    models_of,
    next_second,
    trials_of,
)
from core.jobs.progress import Progress, Stop, is_running, running, status
from core.journal import JournalWriter, RunHeader, done_trials, journal_path, read_header, writable
from core.models.keys import environment
from core.models.registry import Registry
from core.models.spec import ModelSpec
from core.store.database import Store
from core.store.fold import fold, following
from core.store.queries.runs import RunProgress
from core.store.queries.runs import run as run_with_progress
from core.store.queries.trials import done_trial_ids

log = logging.getLogger(__name__)

Play = Callable[[Trial], AsyncIterator[Event]]
"""Yields the events of a trial."""
PlayTrials = Callable[
    [RunHeader, Registry, Sequence[Trial], Progress, Stop, Path, Options, Callable[[], Awaitable[object]]],
    Awaitable[object],
]
"""Plays the missing trials of a run, here or on a cluster: run, registry, missing trials, progress, stop, stop file,
options, and what folds the journal into the database."""
_STARTED_WITHIN_S = 8.0
_STARTING_FOR_S = 30.0
"""A new run counts as running for this time, although its process has not locked it yet: a busy machine is slow."""
_keys: dict[tuple[str, str], dict[str, SecretStr]] = {}
"""(visitor, run) → seat → key that the visitor entered in this process."""


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended; ``stopped`` is the reason if the run is not complete.

    ``stored`` is the whole run with the verdicts that its answers have now, also from before a resume.
    """

    header: RunHeader
    progress: Progress
    stopped: str | None
    stored: RunProgress | None

    @property
    def verdicts(self) -> Mapping[Verdict | Literal["ungraded"], int]:
        return self.stored.verdicts if self.stored else {}


def begin(header: RunHeader, *, again: bool = False) -> RunHeader:
    """Write the first line of a new run's journal, and return it.

    Raises ``AnamnesisError`` if the same campaign is running in any process, because it would be paid for twice;
    ``again`` allows a second copy. A copy that begins in the second of an earlier one is named by the next free second.
    """
    access.require("run")
    folder = journal_path(header.run_id).parent.parent
    with writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        # the lock makes the second of two simultaneous starts see the journal of the first
        with FileLock(folder / f".{header.fingerprint[:8]}.lock"):
            if not again and (running_id := same_running(header.fingerprint)):
                raise already_running(running_id)
            while (path := journal_path(header.run_id)).parent.exists():
                header = header.model_copy(update={"run_id": next_second(header.run_id)})
            path.parent.mkdir()
            with JournalWriter(path) as journal:
                journal.append(header)
    return header


def same_running(fingerprint: str) -> str | None:
    """Return the id of a running or just started run of the same campaign, or ``None``."""
    for path in paths.journals_folder().glob(f"*-{fingerprint[:8]}/journal.jsonl"):
        with suppress(AnamnesisError):  # a run with a damaged journal is not running
            header = read_header(path)
            if header.fingerprint == fingerprint and (is_running(header.run_id) or _is_starting(path)):
                return header.run_id
    return None


def _is_starting(path: Path) -> bool:
    """Return whether a journal is new and has only its header: the process of the run has not begun to work."""
    with path.open("rb") as file:
        header_only = next(file, b"") and not next(file, b"")
    return bool(header_only) and time.time() - path.stat().st_mtime < _STARTING_FOR_S


def already_running(run_id: str) -> AnamnesisError:
    """Return the error for a campaign that is running already, with its progress."""
    progress = status(run_id)
    so_far = f" ({progress['done']} of {progress['planned']} trials)" if progress else ""
    return AnamnesisError(
        f"The same campaign is running as {run_id}{so_far}, and would be paid for twice: follow it on the page Runs or "
        "with `python -m core runs`, or ask for a second copy with --again or another --seed."
    )


def start(
    header: RunHeader, concurrency: int | None, budget_usd: float | None, keys: Mapping[str, SecretStr] | None = None
) -> RunHeader:
    """Begin a new run in a separate process, which receives the ``keys`` of seats in its environment; return it.

    This process keeps the keys in memory, so that it can resume the run.
    """
    header = begin(header)
    if keys:
        _keys[access.visitor().name, header.run_id] = dict(keys)
    go_on(header.run_id, concurrency, budget_usd)
    return header


def program(words: Sequence[str], output: IO[bytes] | int, keys: Mapping[str, SecretStr]) -> subprocess.Popen[bytes]:
    """Start ``python -m core`` with these words, with the keys that the visitor has typed and the ``keys`` of seats.

    The process outlives this one; what it prints, also its errors, goes to ``output``.
    """
    access.require("run")
    return subprocess.Popen(
        [sys.executable, "-m", "core", *words],
        cwd=paths.ROOT,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={**os.environ, **environment(keys), **access.environment(), "PYTHONUNBUFFERED": "1"},
    )


def go_on(run_id: str, concurrency: int | None = None, budget_usd: float | None = None) -> None:
    """Resume a run in a separate process; raise ``AnamnesisError`` with its last output if it ends at once."""
    access.require("run")
    words = ["resume", run_id]
    for flag, value in (("--concurrency", concurrency), ("--budget-usd", budget_usd)):
        words += [] if value is None else [flag, str(value)]
    log = journal_path(run_id).parent / "engine.log"
    with log.open("ab") as output:
        child = program(words, output, _keys.get((access.visitor().name, run_id), {}))
    deadline = time.monotonic() + _STARTED_WITHIN_S
    while time.monotonic() < deadline:
        status = child.poll()
        if status == 0 or is_running(run_id):
            return
        if status is not None:
            raise AnamnesisError(last_words(run_id) or f"The run ended at once; see {log}.")
        time.sleep(0.1)


def last_words(run_id: str) -> str:
    log = journal_path(run_id).parent / "engine.log"
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else ""


async def in_this_process(
    header: RunHeader,
    registry: Registry,
    missing: Sequence[Trial],
    progress: Progress,
    stop: Stop,
    stop_file: Path,
    options: Options,
    fold: Callable[[], Awaitable[object]],
) -> None:
    play = player_of(campaign_of(header), registry, branch=branch_of(header))
    await run_trials(header, play, missing, progress, stop, stop_file, options, fold=fold)


def carry_out(
    header: RunHeader, registry: Registry, options: Options, play_trials: PlayTrials = in_this_process
) -> RunOutcome:
    """Run the missing trials of a run until it is complete or stopped by Ctrl-C, stop file or budget.

    ``play_trials`` decides where the trials are played.
    """
    access.require("run")
    return asyncio.run(_carry_out(header, registry, options, play_trials))


async def _carry_out(header: RunHeader, registry: Registry, options: Options, play_trials: PlayTrials) -> RunOutcome:
    campaign = campaign_of(header)
    if human_seats(campaign.names):
        raise UsageError("A campaign cannot wait for a person: people play on Live consultation.")
    if registry.batch and campaign.framework.has_conversation(campaign.tested, campaign.arms):
        raise UsageError("A dialogue cannot wait for batches: leave --batch out, or ask only about the vignette.")
    stop = Stop()
    store = Store()
    with running(header.run_id) as stop_file:
        done = done_trials(journal_path(header.run_id))
        trials = trials_of(header)
        missing = [trial for trial in trials if trial.trial_id not in done]
        if again := await asyncio.to_thread(_stored_without_journal, store, header.run_id, missing):
            log.warning(
                "The database has %d trials of %s that its journal lacks, and they are played again: the journal was "
                "cut or replaced. See `python -m core verify`.",
                again,
                header.run_id,
            )
        budget_usd = budget_in_force(options.budget_usd, stored_budget(header.run_id))
        options = replace(options, budget_usd=budget_usd)
        async with registry:
            check_budget(options.budget_usd, _specs(campaign, registry))
            check_pictures(replace(campaign, cases=tuple(trial.case for trial in missing)), registry)
            store_budget(header.run_id, budget_usd)
            size = estimate(campaign, registry, options.concurrency)
            progress = Progress(len(trials), estimate=WorkTotals(len(trials), size.calls, size.tokens, size.cost_usd))
            options = options.with_batches(registry, progress)
            async with following(store) as follow:
                play = play_trials if missing else in_this_process
                await play(header, registry, missing, progress, stop, stop_file, options, follow)
    await asyncio.to_thread(fold, store)
    with store.read() as cursor:
        stored = run_with_progress(cursor, header.run_id)
    return RunOutcome(header, progress, stop.reason if progress.done < progress.planned else None, stored)


def _stored_without_journal(store: Store, run_id: str, missing: Sequence[Trial]) -> int:
    """Count the trials that are missing in the journal but stored in the database."""
    if not missing or not store.path.exists():
        return 0
    with store.read() as cursor:
        stored = done_trial_ids(cursor, run_id)
    return sum(trial.trial_id in stored for trial in missing)


def player_of(
    campaign: Campaign, registry: Registry, listen: Listen | None = None, branch: Branch | None = None
) -> Play:
    """Open a campaign's cast and return the function that plays its trials; ``listen`` waits for human seats."""
    campaign = in_full(campaign, registry)
    cast = campaign.framework.open(casting_of(campaign, registry, listen), campaign.names, campaign.settings)
    return lambda trial: campaign.framework.play(trial, cast, campaign.settings, branch)


def casting_of(campaign: Campaign, registry: Registry, listen: Listen | None = None) -> Casting:
    settings = campaign.settings
    return Casting(
        registry,
        campaign.pack,
        settings.sampling,
        settings.base_url,
        frozenset(settings.own_address.split(",")),
        campaign.reach,
        listen,
        None if grades_itself(campaign.framework) else default_pack(),
    )


def _specs(campaign: Campaign, registry: Registry) -> list[ModelSpec]:
    """Return the specs of the models in the seats, each with the address that it uses."""
    address_of = campaign.settings.address_of
    return [registry.spec(name, base_url=address_of(seat)) for seat, name in models_of(campaign).items()]


def check_prompts(campaign: Campaign) -> None:
    """Raise ``UsageError`` if the prompt pack lacks text that the settings need: for a persona, beliefs, pictures."""
    campaign.framework.check(campaign.pack, campaign.settings, campaign.names)


def check_startable(campaign: Campaign, registry: Registry, options: Options) -> None:
    """Raise ``UsageError`` if a run could not start: a human seat, an unknown price, prompts, pictures, a key."""
    if human_seats(campaign.names):
        raise UsageError("A campaign cannot wait for a person: people play on Live consultation.")
    check_budget(options.budget_usd, _specs(campaign, registry))
    check_prompts(campaign)
    check_pictures(campaign, registry)
    if missing := missing_keys(campaign, registry):
        raise UsageError(" ".join(map(str, missing)))
    casting = casting_of(campaign, registry)
    for role, name in models_of(campaign).items():
        casting.voice(role, name)
