"""Starts live consultations: new ones, which are stored when complete, interrupted ones, and replays."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from core import access
from core.asking.memory import JournaledReplies, ReplyCache, StoredReply, replies_in
from core.case import Case
from core.events import CallRecord, Event, Finished
from core.frameworks.base import Arm, Campaign, Framework, framework, paper_arms
from core.frameworks.casting import REFERENCE, CastNames, is_model
from core.jobs.engine import trial_line
from core.jobs.plan import branch_of, campaign_of, check_pictures, header_of, in_full, trials_of
from core.jobs.run import check_prompts, player_of
from core.journal import Journal, JournalWriter, RunHeader, journal_path, read_header, spoken_in
from core.journal import trial_id as trial_id_of
from core.live.session import Session, replay
from core.models.registry import Registry, load_registry
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.cases import case
from core.store.queries.runs import Run, cases_without_trial, run_records
from core.store.queries.trials import StoredTrial, stored_trial, trial_events


def start_consultation(campaign: Campaign, partner: Session | None = None) -> Session:
    """Start the first case of a campaign as one live trial; raise ``UsageError`` if it cannot run.

    The campaign holds the keys of single seats (``Campaign.reached``); ``core.jobs.plan.missing_keys`` tells a page
    which keys are missing before the start. The session keeps step with ``partner``, message by message: the same case
    with another doctor or patient.
    """
    registry = load_registry()
    campaign = in_full(campaign, registry)
    header = header_of(campaign, registry)
    header = header.model_copy(update={"run_id": f"live-{header.run_id}-{uuid.uuid4().hex[:4]}", "source": "live"})
    return watch(campaign, header, registry, partner=partner)


def usual_live_arms(framework_: Framework) -> list[Arm]:
    """Return the publication's arms on the vignette and after the conversation, which are asked by default."""
    return [arm for arm in paper_arms(framework_) if arm[0] in ("vignette", "multi_turn")]


def start_demonstration(case: Case) -> Session:
    """Start a consultation of the reference cast in the default framework; it needs no key and no network."""
    names = CastNames(REFERENCE["doctor"])
    return start_consultation(one_case(Campaign(names, (case,), arms=tuple(usual_live_arms(framework()))), case))


def resume_consultation(header: RunHeader) -> Session:
    """Resume an interrupted live consultation, which another process may have started.

    The trial is played again from its beginning, with the stored replies of its models and messages of its people.
    Raises ``AnamnesisError`` if its prompts have changed since.
    """
    return watch(campaign_of(header), header, load_registry())


def watch(campaign: Campaign, header: RunHeader, registry: Registry, *, partner: Session | None = None) -> Session:
    """Start the trial of a campaign as a session, which is stored as the run ``header`` when it is complete."""
    access.require("run")
    access.require_own(header.owner, f"The consultation {header.run_id}")
    check_prompts(campaign)
    check_pictures(campaign, registry)
    trial = trials_of(header)[0]
    session = Session(key=trial.trial_id, title=trial.case.case_key, paced=not is_model(campaign.tested))
    session.meta.update(campaign.names, persona=header.settings.get("persona", ""), header=header)
    path = journal_path(header.run_id)
    session.earlier = spoken_in(path, trial.trial_id)
    play = player_of(campaign, registry, session.listen, branch_of(header))
    memory = JournaledReplies.of(path)
    memory.others = _replies_before(header)

    async def source(session: Session) -> AsyncIterator[Event]:
        async with registry:
            async for event in play(trial):
                yield event

    def store(session: Session) -> None:
        events = session.snapshot()
        if not any(isinstance(event, Finished) for event in events):
            if events and not path.exists():  # without a paid reply there is no journal yet: make the run resumable
                with JournalWriter(path) as journal:
                    journal.append(header)
            return
        line = trial_line(header.run_id, trial, events, session.unit.paid if session.unit else ())
        begun = path.exists()
        with JournalWriter(path) as journal:
            journal.append_all([line] if begun else [header, line])
        fold_if_free(Store())

    journal = Journal(path, header)
    session.replies = ReplyCache(header.run_id, journal, memory, shared=True, first=header.first_request)
    session.on_finish = store
    if partner is not None:
        session.partner, partner.partner = partner, session
    session.start(source)
    return session


def _replies_before(header: RunHeader) -> dict[str, list[StoredReply]]:
    """Return the stored replies of the conversations from which a branch descends.

    A branch without changes asks what else the models might say, so it does not reuse replies of the dialogue, or those
    to the request that it sends again.
    """
    replies: dict[str, list[StoredReply]] = {}
    request, unchanged = header.first_request, header.fork is not None and not header.fork.parent.changes

    def forget(call: CallRecord) -> bool:
        again = (request.role, request.purpose) if request is not None else (call.role, "dialogue")
        return unchanged and (call.role, call.purpose) == again

    while header.fork and (path := journal_path(header.fork.run_id)).exists():
        older = replies_in(path, header.fork.parent.trial_id, forget)
        replies = {**older, **replies}
        header = read_header(path)
    return replies


def start_replay(case: Case | None, events: Sequence[Event], key: str) -> Session:
    session = Session(key=f"replay-{key}-{uuid.uuid4().hex[:6]}", title=case.case_key if case else key)
    session.start(lambda _: replay(events))
    return session


def one_case(campaign: Campaign, case: Case) -> Campaign:
    return replace(campaign, cases=(case,), case_set=case.case_key.replace("/", ":", 1), trials=1)


def load_trial(trial_id: str) -> tuple[Case | None, list[Event], StoredTrial] | None:
    """Return a stored trial as (case as it was then, events, record), or ``None``."""
    store = Store()
    fold_if_free(store)
    with store.read() as cursor:
        trial, events = stored_trial(cursor, trial_id), trial_events(cursor, trial_id)
        return (case(cursor, trial.case_key, trial.content_hash), events, trial) if trial and events else None


def unfinished(trial_id: str) -> RunHeader | None:
    """Return the header of an interrupted live consultation, or ``None``."""
    run_id = next((run.run_id for run, trial in all_unfinished() if trial == trial_id), None)
    path = journal_path(run_id) if run_id else None
    return read_header(path) if path is not None and path.exists() else None


def all_unfinished() -> list[tuple[Run, str]]:
    """Return the interrupted live consultations, newest first, as pairs of run and trial id."""
    store = Store()
    fold_if_free(store)
    with store.read() as cursor:
        cases = cases_without_trial(cursor, ("live", "fork"))
        runs = run_records(cursor, list(cases)) if cases else []
    return [(run, trial_id_of(run.run_id, cases[run.run_id], 0)) for run in runs]
