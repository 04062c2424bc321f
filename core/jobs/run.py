"""Starts, resumes and re-grades campaigns: opens the cast, finds what is missing, runs it, folds the result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace

from core.agents.human import Listen
from core.errors import AnamnesisError, UsageError
from core.events import Event
from core.frameworks.base import Branch, Campaign, Trial, default_pack
from core.frameworks.casting import Casting
from core.jobs.engine import Engine, Progress, Stop, folding, running
from core.jobs.engine import Options as Options
from core.jobs.pictures import check_showable
from core.jobs.plan import branch_of, campaign_of, human_seats, in_full, models_of, trials_of
from core.journal import JournalWriter, RunHeader, done_trials, journal_path
from core.models.prices import source
from core.models.registry import Registry
from core.store.database import Store
from core.store.fold import fold

Play = Callable[[Trial], AsyncIterator[Event]]
"""Gives the events of a trial."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended: ``stopped`` holds the reason where it is not complete."""

    header: RunHeader
    progress: Progress
    stopped: str | None


def begin(header: RunHeader) -> None:
    """Write the first line of a new run's journal; a run is begun once only."""
    path = journal_path(header.run_id)
    try:
        path.parent.mkdir(parents=True)
    except FileExistsError:
        raise AnamnesisError(
            f"Another process began the same campaign this very second: take it up with "
            f"`python -m core resume {header.run_id}`, or try again."
        ) from None
    with JournalWriter(path) as journal:
        journal.append(header)


def carry_out(header: RunHeader, registry: Registry, options: Options) -> Outcome:
    """Run whatever a journaled run still misses, until it is complete or stopped by Ctrl-C, file or budget."""
    return asyncio.run(_carry_out(header, registry, options))


async def _carry_out(header: RunHeader, registry: Registry, options: Options) -> Outcome:
    campaign = campaign_of(header)
    if human_seats(campaign.names):
        raise UsageError("A campaign cannot wait for a human: seat humans on the Live page.")
    stop = Stop()
    store = Store()
    with running(header.run_id) as stop_file:
        done = done_trials(journal_path(header.run_id))
        trials = trials_of(header)
        missing = [trial for trial in trials if trial.trial_id not in done]
        async with registry:
            check_budget(options.budget_usd, list(models_of(campaign).values()), registry)
            check_pictures(replace(campaign, cases=tuple(trial.case for trial in missing)), registry)
            engine = _engine(header, campaign, registry, options, store)
            progress = await engine.run(missing, len(trials), stop, stop_file)
    await asyncio.to_thread(fold, store)
    return Outcome(header, progress, stop.reason if progress.done < progress.planned else None)


def _engine(header: RunHeader, campaign: Campaign, registry: Registry, options: Options, store: Store) -> Engine:
    return Engine(
        header=header,
        play=player_of(campaign, registry, branch=branch_of(header)),
        concurrency=options.concurrency,
        budget_usd=options.budget_usd,
        fold=folding(store),
        on_progress=options.on_progress,
    )


def player_of(
    campaign: Campaign, registry: Registry, listen: Listen | None = None, branch: Branch | None = None
) -> Play:
    """Return what plays a campaign's trials, with its cast opened; ``listen`` waits for people in its seats."""
    campaign = in_full(campaign, registry)
    cast = campaign.framework.open(casting_of(campaign, registry, listen), campaign.names, campaign.settings)
    return lambda trial: campaign.framework.play(trial, cast, campaign.settings, branch)


def casting_of(campaign: Campaign, registry: Registry, listen: Listen | None = None) -> Casting:
    """Return the casting that a campaign asks for."""
    settings = campaign.settings
    return Casting(
        registry, campaign.pack, settings.sampling, settings.base_url, frozenset(settings.own_address.split(",")),
        listen, None if campaign.framework.grades_itself else default_pack(),
    )  # fmt: skip


def check_prompts(campaign: Campaign) -> None:
    """Raise ``UsageError`` where the prompt pack cannot say what the settings ask for: a persona, beliefs, pictures."""
    campaign.framework.check(campaign.pack, campaign.settings, campaign.names)


def check_pictures(campaign: Campaign, registry: Registry) -> None:
    """Raise ``UsageError`` where the doctor cannot be shown the pictures it is to be shown; see ``check_showable``."""
    check_showable(campaign.settings.images, campaign.cases, campaign.tested, campaign.pack, registry)


def check_startable(campaign: Campaign, registry: Registry, options: Options) -> None:
    """Raise ``UsageError`` for what would stop a run: a human's seat, an unknown price, prompts, pictures, a key."""
    if human_seats(campaign.names):
        raise UsageError("A campaign cannot wait for a human: seat humans on the Live page.")
    seats = models_of(campaign)
    check_budget(options.budget_usd, list(seats.values()), registry)
    check_prompts(campaign)
    check_pictures(campaign, registry)
    for role, name in seats.items():
        registry.open(name, base_url=campaign.settings.address_of(role))


def check_budget(budget_usd: float | None, names: Sequence[str], registry: Registry) -> None:
    """Raise ``UsageError`` for a budget that is none, and where it needs a price that is not known."""
    if budget_usd is None:
        return
    if not budget_usd > 0:
        raise UsageError("--budget-usd must be more than 0.")
    unpriced = [name for name in names if source(registry.spec(name)) is None]
    if unpriced:
        raise UsageError(
            f"A budget needs prices, and none is known for {', '.join(dict.fromkeys(unpriced))}: "
            "add them to data/models.local.toml, or leave --budget-usd out."
        )
