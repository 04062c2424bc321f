"""Takes up a conversation at any message and runs it on: another word, another model, another persona or prompt.

A branch keeps the messages before the fork as they were and is an ordinary stored conversation, a run of its own with
its parent noted. What it branches off may be stored, or still running.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from core.asking.scene import Dialogue, Turn
from core.case import Case
from core.errors import UsageError
from core.events import Parent, Started
from core.frameworks.base import Arm, Campaign, Framework, framework, paper_arms, stored_settings, tested_seat
from core.frameworks.casting import REFERENCE, STORED_SEATS, CastNames, full_name, is_model
from core.frameworks.settings import FrameworkSettings, extra_of, without_credentials
from core.jobs.plan import header_of, in_full, names_of
from core.journal import Fork, RunHeader
from core.live.session import Session
from core.live.start import one_case, watch
from core.models.registry import Registry, load_registry
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.cases import case as stored_case
from core.store.queries.runs import Run
from core.store.queries.trials import stored_trial
from core.store.queries.utterances import utterances_of

FORK_ARMS: tuple[Arm, ...] = (("multi_turn", "frq"), ("multi_turn", "mcq"))
"""What a branch is asked afterwards unless it is told otherwise: a vignette's answer does not depend on the fork."""


@dataclass(frozen=True)
class ForkPlan:
    """Where to leave a conversation, and what is different from there on.

    ``turn`` is the message, from 0 (the greeting), that becomes ``text`` if given; the messages before it are kept, and
    the run goes on after it. ``seed`` is the trial's own, ``None`` for the parent's.
    """

    turn: int
    text: str | None = None
    names: CastNames = field(default=CastNames(REFERENCE["doctor"]))
    settings: FrameworkSettings | None = None
    """``None`` for the framework's defaults."""
    prompts: str = ""
    """A prompt pack; the conversation's own where it is left empty."""
    arms: tuple[Arm, ...] = FORK_ARMS
    seed: int | None = None


@dataclass(frozen=True)
class Origin:
    """What a branch begins with: the parent's dialogue and case, and the run under which it was held."""

    trial_id: str
    case: Case | None
    case_key: str
    dialogue: Dialogue
    seed: int
    run: Run | RunHeader

    @property
    def framework(self) -> Framework:
        """The framework under which it was held; branches are held under the same."""
        return framework(self.run.protocol)

    @property
    def names(self) -> CastNames:
        """Who held it; the names of a release are labels and need not be models that can be called here."""
        seated = {seat: getattr(self.run, seat) for seat in STORED_SEATS}
        return names_of(self.framework, seated, dict(self.run.settings))

    @property
    def prompts(self) -> str:
        """The prompt pack that a run here takes over: the conversation's own, or ours where a release held it."""
        return self.framework.name if self.run.source == "release" else self.run.prompt_pack

    def settings_with(self, **changes: Any) -> FrameworkSettings:
        """Return the settings that a run here can take over, with changes; the framework's defaults for the others."""
        defaults = self.framework.settings().model_dump()
        kept = {name: self.run.settings[name] for name in defaults if name in self.run.settings}
        return stored_settings(self.framework, {**defaults, **kept, **changes})


def stored_origin(trial_id: str) -> Origin:
    """Return what a branch of a stored conversation begins with; raise ``UsageError`` where there is none."""
    store = Store()
    fold_if_free(store)
    with store.read() as cursor:
        held = stored_trial(cursor, trial_id)
        if held is None:
            raise UsageError(f"There is no stored conversation {trial_id!r} to fork: take its id from its address.")
        about = stored_case(cursor, held.case_key, held.content_hash)
        dialogue = tuple(Turn(said.role, said.text) for said in utterances_of(cursor, trial_id))
    return Origin(trial_id, about, held.case_key, dialogue, held.seed, held.run)


def running_origin(session: Session) -> Origin:
    """Return what a branch of a watched consultation begins with: what has been said so far."""
    header = session.meta.get("header")
    started = next((event for event in session.snapshot() if isinstance(event, Started)), None)
    if not isinstance(header, RunHeader):
        raise UsageError("This consultation is only played again here: fork the stored one.")
    if started is None:
        raise UsageError("Nothing has been said in this consultation yet: fork it once it has begun.")
    return Origin(started.trial_id, header.cases[0], started.case_key, session.dialogue, started.seed, header)


def check_forkable(origin: Origin) -> None:
    """Raise ``UsageError`` if the conversation's framework is not installed here."""
    framework(origin.run.protocol)


def start_fork(plan: ForkPlan, origin: Origin) -> Session:
    """Start a branch as a watched consultation; raise ``UsageError`` with one sentence where it cannot be run.

    The session's key is the branch's trial; it is stored when it is complete. What the conversations before it were
    told is not asked for again where the question is the same; with nothing changed, the talk goes on anew.
    """
    # the messages that the branch begins with
    if not origin.dialogue:
        raise UsageError("This conversation holds no message, so there is nothing to fork: choose another one.")
    check_forkable(origin)
    last = len(origin.dialogue) - 1
    if not 0 <= plan.turn <= last:
        raise UsageError(f"There is no message {plan.turn} in this conversation: choose one from 0 to {last}.")
    if plan.text is not None and not plan.text.strip():
        raise UsageError("The edited message is empty: write what is said instead, or leave the message as it was.")
    message = origin.dialogue[plan.turn]
    text = message.text if plan.text is None else plan.text.strip()
    # a text that only lost its outer blanks was not edited
    text = message.text if text == message.text.strip() else origin.framework.speech.written(message.role, text)
    dialogue = (*origin.dialogue[: plan.turn], Turn(message.role, text))
    if origin.case is None:
        raise UsageError(
            f"The case {origin.case_key} of this conversation is not in the database, so nobody could play its "
            "patient: import it first."
        )
    registry = load_registry()
    campaign = _campaign(plan, origin, origin.case, registry)
    header = header_of(campaign, registry)
    first = plan.turn if dialogue[-1].text != origin.dialogue[plan.turn].text else plan.turn + 1
    parent = Parent(trial_id=origin.trial_id, turn=first, changes=tuple(_changes(plan, origin, campaign, header)))
    said = "\n".join(f"{turn.role}: {turn.text}" for turn in dialogue)
    # what a branch keeps is part of what it is: no other run is the same campaign
    held = f"{header.fingerprint}\n{parent.trial_id}\n{parent.turn}\n{said}"
    header = header.model_copy(
        update={
            "run_id": f"fork-{header.run_id}-{uuid.uuid4().hex[:4]}",
            "source": "fork",
            "fingerprint": hashlib.sha256(held.encode()).hexdigest(),
            "fork": Fork(run_id=origin.run.run_id, parent=parent, kept=[(said.role, said.text) for said in dialogue]),
        }
    )
    return watch(campaign, header, registry)


def _campaign(plan: ForkPlan, origin: Origin, case: Case, registry: Registry) -> Campaign:
    if any(question_type in ("mcq_many", "mcq_answers") for _, question_type in plan.arms):
        raise UsageError("A branch cannot be asked with many choices, which are the answers of a whole data set.")
    if not plan.arms:
        raise UsageError("Nothing is asked at the end of the branch: choose at least one question.")
    for seat in origin.framework.seats:
        role, name = seat.role, plan.names[seat.role]
        try:
            full_name(seat.title, name or "reference", registry, seat.rules or ("reference",))
        except UsageError as error:
            if name != origin.names[role]:
                raise
            raise UsageError(  # the label of a release
                f"The {role} of this conversation, {name}, is no model that can be called here: choose another {role}."
            ) from error
    seed = origin.seed if plan.seed is None else plan.seed
    settings = plan.settings or origin.framework.settings()
    # rules and people are sent no picture, so a branch with such a doctor goes on without
    if not is_model(plan.names[tested_seat(origin.framework).role]):
        settings = settings.but(images="")
    same = {role for role, name in plan.names.items() if name == origin.names[role]}
    elsewhere = ",".join(role for role in settings.own_address.split(",") if role in same)
    addresses = " ".join(f"{role}={where}" for role, where in settings.seat_addresses.items() if role in same)
    arms = plan.arms
    if arms == FORK_ARMS:  # what nobody chose is asked as far as the framework asks it
        arms = tuple(arm for arm in arms if arm in origin.framework.arms) or paper_arms(origin.framework)
    campaign = Campaign(
        names=plan.names,
        cases=(case,),
        arms=arms,
        seed=seed,
        prompts=plan.prompts or origin.prompts,
        protocol=origin.run.protocol,
        settings=settings.but(own_address=elsewhere, addresses=addresses),
        placed=frozenset(same),
    )
    return in_full(one_case(campaign, case), registry)


def _changes(plan: ForkPlan, origin: Origin, campaign: Campaign, header: RunHeader) -> Iterator[str]:
    """Yield in words what is different from the parent's conversation; messages are numbered from 1."""
    said = origin.dialogue[plan.turn].text.strip()
    if plan.text is not None and plan.text.strip() != said:
        yield f"message {plan.turn + 1} edited"
    for role, name in campaign.names.items():
        before = origin.names[role]
        if name != before:
            yield f"{role} {name} instead of {before}"
    settings, held = campaign.settings, origin.settings_with()
    if settings.images != held.images:
        yield "the case's pictures shown to the doctor" if settings.images else "the doctor shown no picture"
    for name, info in type(settings).model_fields.items():
        values = [getattr(held, name), getattr(settings, name)]
        if name in ("images", "own_address", "addresses") or values[0] == values[1]:
            continue
        if name == "base_url":  # what was changed is shown and taken away, so an address goes in without its password
            values = [without_credentials(value) if value else value for value in values]
        was, new = (
            "none" if value is None else campaign.framework.speech.in_words(name, value) or "left to the model"
            for value in values
        )
        yield f"{(extra_of(info, 'label') or name.replace('_', ' ')).lower()} {new} instead of {was}"
    if header.prompt_pack != origin.run.prompt_pack:
        yield f"prompt pack {header.prompt_pack} instead of {origin.run.prompt_pack}"
    elif header.prompt_hash != origin.run.prompt_hash:
        yield f"prompt pack {header.prompt_pack} as it is now"
    if campaign.seed != origin.seed:
        yield f"seed {campaign.seed} instead of {origin.seed}"
