"""Opens a watched consultation: a new one, which is stored when it is complete, or a stored one played again."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from core.agents.replies import Replies
from core.case import Case
from core.events import PASSING, Event, Finished
from core.frameworks.base import Branch, Campaign, Trial
from core.frameworks.casting import is_model
from core.jobs.plan import header_of, in_full, trials_of
from core.jobs.run import check_pictures, check_prompts, player_of
from core.journal import Journal, JournalWriter, RunHeader, TrialLine, journal_path
from core.live.session import Session, replay
from core.models.registry import Registry, load_registry
from core.store.database import Store
from core.store.fold import fold_if_free


def start_consultation(campaign: Campaign, beside: Session | None = None) -> Session:
    """Start the first case of a campaign as one watched trial; raise ``UsageError`` where it cannot be run.

    ``beside`` is a session that it keeps step with, message by message: the same case with another doctor or patient.
    """
    registry = load_registry()
    campaign = in_full(campaign, registry)
    header = header_of(campaign, registry)
    header = header.model_copy(update={"run_id": f"live-{header.run_id}-{uuid.uuid4().hex[:4]}", "source": "live"})
    return watch(campaign, header, trials_of(header)[0], registry, beside=beside)


def side_by_side(campaign: Campaign, doctors: Sequence[str], registry: Registry) -> list[Campaign]:
    """Return a campaign in full for each of these doctors, who all meet the same patient, grader and so on.

    Where nobody was named, they are the ones beside the first doctor that is a model.
    """
    role = campaign.framework.tested.role
    shared = in_full(replace(campaign, names=campaign.names.but(**{role: first_model(doctors)})), registry)
    return [in_full(replace(shared, names=shared.names.but(**{role: doctor})), registry) for doctor in doctors]


def first_model(doctors: Sequence[str]) -> str:
    """Return the first of the doctors that is a model, else the first."""
    return next(filter(is_model, doctors), doctors[0])


def watch(
    campaign: Campaign,
    header: RunHeader,
    trial: Trial,
    registry: Registry,
    *,
    branch: Branch | None = None,
    beside: Session | None = None,
) -> Session:
    """Start a trial of a campaign as a session, which is stored as the run ``header`` once it is complete."""
    check_prompts(campaign)
    check_pictures(campaign, registry)
    session = Session(key=trial.trial_id, title=trial.case.case_key, paced=not is_model(campaign.tested))
    session.meta.update(campaign.names, persona=header.settings.get("persona", ""), header=header)
    play = player_of(campaign, registry, session.listen, branch)

    async def source(session: Session) -> AsyncIterator[Event]:
        async with registry:
            async for event in play(trial):
                yield event

    def store(session: Session) -> None:
        events = session.snapshot()
        if any(isinstance(event, Finished) for event in events):
            paid = session.unit.paid if session.unit else set()
            line = _line(header.run_id, trial, events).model_copy(update={"paid": frozenset(paid)})
            _keep(header.run_id, [line] if paid else [header, line])

    session.replies = Replies(header.run_id, Journal(journal_path(header.run_id), header))
    session.on_finish = store
    if beside is not None:
        session.beside, beside.beside = beside, session
    session.start(source)
    return session


def start_replay(case: Case | None, events: Sequence[Event], key: str) -> Session:
    """Play a stored conversation again."""
    session = Session(key=f"replay-{key}-{uuid.uuid4().hex[:6]}", title=case.case_key if case else key)
    session.start(lambda _: replay(events))
    return session


def one_case(campaign: Campaign, case: Case) -> Campaign:
    """Return the campaign narrowed to one trial of one case."""
    return replace(campaign, cases=(case,), case_set=case.case_key.replace("/", ":", 1), trials=1)


def _line(run_id: str, trial: Trial, events: list[Event]) -> TrialLine:
    kept = [event for event in events if not isinstance(event, PASSING)]
    return TrialLine(
        run_id=run_id,
        trial_id=trial.trial_id,
        case_key=trial.case.case_key,
        trial=trial.number,
        seed=trial.seed,
        events=kept,
        finished_at=time.time(),
    )


def _keep(run_id: str, lines: Sequence[object]) -> None:
    with JournalWriter(journal_path(run_id)) as journal:
        for line in lines:
            journal.append(line)  # type: ignore[arg-type]
    fold_if_free(Store())
