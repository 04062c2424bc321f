"""Opens a watched consultation: a new one, stored once it is complete; one that broke off; a stored one; a replay."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from weakref import WeakValueDictionary

from core import access
from core.asking.memory import JournaledReplies, ReplyCache, StoredReply, replies_in
from core.case import Case
from core.events import Event, Finished, Speaker
from core.frameworks.base import Campaign, tested_seat
from core.frameworks.casting import is_model
from core.jobs.plan import branch_of, campaign_of, check_pictures, header_of, in_full, trials_of
from core.jobs.run import check_prompts, player_of
from core.journal import Journal, JournalWriter, RunHeader, TrialLine, journal_path, read_header
from core.journal import trial_id as trial_id_of
from core.live.session import Session, replay
from core.models.registry import Registry, load_registry
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.cases import case
from core.store.queries.runs import Run, cases_without_trial, run_records
from core.store.queries.trials import StoredTrial, stored_trial, trial_events


def start_consultation(campaign: Campaign, beside: Session | None = None) -> Session:
    """Start the first case of a campaign as one watched trial; raise ``UsageError`` where it cannot be run.

    Keys of single seats are the campaign's own (``Campaign.reached``); one that a page is to say before the start is
    found by ``core.jobs.plan.missing_keys``.

    ``beside`` is a session that it keeps step with, message by message: the same case with another doctor or patient.
    """
    registry = load_registry()
    campaign = in_full(campaign, registry)
    header = header_of(campaign, registry)
    header = header.model_copy(update={"run_id": f"live-{header.run_id}-{uuid.uuid4().hex[:4]}", "source": "live"})
    return watch(campaign, header, registry, beside=beside)


def resume_consultation(header: RunHeader, spoken: Sequence[tuple[Speaker, str]] = ()) -> Session:
    """Go on with a watched consultation that was stopped or broke off, or that this process knows nothing of any more.

    It is held again from its beginning: what its models were paid for is given, and so is what people had ``spoken``.
    Raises ``AnamnesisError`` where its prompts have changed since.
    """
    return watch(campaign_of(header), header, load_registry(), spoken=spoken)


def side_by_side(campaign: Campaign, doctors: Sequence[str], registry: Registry) -> list[Campaign]:
    """Return a campaign in full for each of these doctors, who all meet the same patient, grader and so on.

    Where nobody was named, they are the ones beside the first doctor that is a model.
    """
    role = tested_seat(campaign.framework).role
    shared = in_full(replace(campaign, names=campaign.names.but(**{role: first_model(doctors)})), registry)
    return [in_full(replace(shared, names=shared.names.but(**{role: doctor})), registry) for doctor in doctors]


def first_model(doctors: Sequence[str]) -> str:
    """Return the first of the doctors that is a model, else the first."""
    return next(filter(is_model, doctors), doctors[0])


def watch(
    campaign: Campaign,
    header: RunHeader,
    registry: Registry,
    *,
    beside: Session | None = None,
    spoken: Sequence[tuple[Speaker, str]] = (),
) -> Session:
    """Start the trial of a campaign as a session, which is stored as the run ``header`` once it is complete."""
    access.require("run", header.run_id)
    access.require_own(header.owner, f"The consultation {header.run_id}")
    access.check_money()
    check_prompts(campaign)
    check_pictures(campaign, registry)
    trial = trials_of(header)[0]
    session = Session(key=trial.trial_id, title=trial.case.case_key, paced=not is_model(campaign.tested))
    session.meta.update(campaign.names, persona=header.settings.get("persona", ""), header=header)
    session.repeated = list(spoken)
    play = player_of(campaign, registry, session.listen, branch_of(header))
    path = journal_path(header.run_id)
    memory = JournaledReplies.of(path)
    memory.others = _replies_before(header)

    async def source(session: Session) -> AsyncIterator[Event]:
        async with registry:
            async for event in play(trial):
                yield event

    def store(session: Session) -> None:
        events = session.snapshot()
        if not any(isinstance(event, Finished) for event in events):
            if events and not path.exists():  # stopped before any model was paid: it is kept all the same
                with JournalWriter(path) as journal:
                    journal.append(header)
            return
        line = TrialLine(
            run_id=header.run_id,
            trial_id=trial.trial_id,
            case_key=trial.case.case_key,
            trial=trial.number,
            seed=trial.seed,
            events=events,
            finished_at=time.time(),
            paid=frozenset(session.unit.paid if session.unit else ()),
        )
        begun = path.exists()
        with JournalWriter(path) as journal:
            journal.append_all([line] if begun else [header, line])
        fold_if_free(Store())

    session.replies = ReplyCache(header.run_id, Journal(path, header), memory, shared=True)
    session.on_finish = store
    with _beginning:
        access.check_live(sum(one.running and one.owner == session.owner for one in _under_way.values()))
        _under_way[id(session)] = session
        if beside is not None:
            session.beside, beside.beside = beside, session
        session.start(source)
    return session


_beginning = threading.Lock()
_under_way: WeakValueDictionary[int, Session] = WeakValueDictionary()
"""The watched consultations of this process."""


def _replies_before(header: RunHeader) -> dict[str, list[StoredReply]]:
    """Return what the conversations that a fork comes from were told.

    Where nothing was changed it is wanted to see what else may be said: then the talk goes on anew.
    """
    found: dict[str, list[StoredReply]] = {}
    anew = header.fork is not None and not header.fork.parent.changes
    while header.fork and (path := journal_path(header.fork.run_id)).exists():
        said = replies_in(path, header.fork.parent.trial_id, lambda call: anew and call.purpose == "dialogue")
        found = {**said, **found}
        header = read_header(path)
    return found


def start_replay(case: Case | None, events: Sequence[Event], key: str) -> Session:
    """Play a stored conversation again."""
    session = Session(key=f"replay-{key}-{uuid.uuid4().hex[:6]}", title=case.case_key if case else key)
    session.start(lambda _: replay(events))
    return session


def one_case(campaign: Campaign, case: Case) -> Campaign:
    """Return the campaign narrowed to one trial of one case."""
    return replace(campaign, cases=(case,), case_set=case.case_key.replace("/", ":", 1), trials=1)


def load_trial(trial_id: str) -> tuple[Case | None, list[Event], StoredTrial] | None:
    """Return a stored trial's case as the run held it, its events, and under what it was held, or ``None``."""
    store = Store()
    fold_if_free(store)
    with store.read() as cursor:
        held, events = stored_trial(cursor, trial_id), trial_events(cursor, trial_id)
        return (case(cursor, held.case_key, held.content_hash), events, held) if held and events else None


def unfinished(trial_id: str) -> RunHeader | None:
    """Return the run of a watched consultation that was stopped or broke off; ``None`` where there is none of it."""
    run_id = next((run.run_id for run, trial in all_unfinished() if trial == trial_id), None)
    path = journal_path(run_id) if run_id else None
    return read_header(path) if path is not None and path.exists() else None


def all_unfinished() -> list[tuple[Run, str]]:
    """Return the watched consultations that have no end, the newest first: their runs, and the ids of their trials."""
    store = Store()
    fold_if_free(store)
    with store.read() as cursor:
        cases = cases_without_trial(cursor, ("live", "fork"))
        runs = run_records(cursor, list(cases)) if cases else []
    return [(run, trial_id_of(run.run_id, cases[run.run_id], 0)) for run in runs]
