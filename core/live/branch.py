"""Continues a conversation from any of its messages with a change, once or several times.

The change is a message, a request to a model, the cast, a setting or a prompt. The messages before it are kept. Each
repetition is stored as a run of its own that names its parent, which may be a stored or a running conversation.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from core.asking.scene import Dialogue, Turn
from core.case import Case
from core.errors import UsageError
from core.events import Parent, Started
from core.frameworks.base import Arm, Campaign, Framework, framework_of_stored, paper_arms, stored_settings, tested_seat
from core.frameworks.casting import GRADER, REFERENCE, STORED_SEATS, CastNames, full_name, is_model
from core.frameworks.settings import FrameworkSettings, extra_of, without_credentials
from core.jobs.plan import header_of, human_seats, in_full, names_of
from core.journal import BranchOrigin, FirstRequest, RunHeader
from core.live.session import Session
from core.live.start import one_case, watch
from core.models.registry import Registry, load_registry
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.cases import case as stored_case
from core.store.queries.runs import Run
from core.store.queries.trials import stored_trial
from core.store.queries.utterances import utterances_of

BRANCH_ARMS: tuple[Arm, ...] = (("multi_turn", "frq"), ("multi_turn", "mcq"))
"""Default questions after a branch: the answer to a vignette does not depend on the branch."""
MOST_TIMES = 20


@dataclass(frozen=True)
class BranchPlan:
    """Where a branch leaves its parent, what differs from there on, and how many times it is played.

    ``turn`` is the number of a message, from 0 (the greeting): the messages before it are kept. The message itself is
    kept or replaced by ``text``; with a ``request`` it is not kept: the branch begins with that request.
    ``seed=None`` takes the parent's seed. Each repetition takes the next seed, except for requests to a grader, which
    have none.
    """

    turn: int
    text: str | None = None
    names: CastNames = field(default=CastNames(REFERENCE["doctor"]))
    settings: FrameworkSettings | None = None
    """``None`` for the framework's defaults."""
    prompts: str = ""
    """A prompt pack; empty for the parent's."""
    arms: tuple[Arm, ...] = BRANCH_ARMS
    seed: int | None = None
    times: int = 1
    request: FirstRequest | None = None
    many_choices: tuple[str, ...] = ()
    """Those of the parent; without them, no question with the answers of a whole data set can be asked."""


@dataclass(frozen=True)
class Origin:
    """The parent of a branch: its dialogue, case and run."""

    trial_id: str
    case: Case | None
    case_key: str
    dialogue: Dialogue
    seed: int
    run: Run | RunHeader

    @property
    def framework(self) -> Framework:
        return framework_of_stored(self.run.protocol)

    @property
    def names(self) -> CastNames:
        """The cast; the names in a release are labels and may not be models that can be called here."""
        seated = {seat: getattr(self.run, seat) for seat in STORED_SEATS}
        return names_of(self.framework, seated, dict(self.run.settings))

    @property
    def prompts(self) -> str:
        """The prompt pack for a branch: the run's own, or the framework's if the run is from a release."""
        return self.framework.name if self.run.source == "release" else self.run.prompt_pack

    def settings_with(self, **changes: Any) -> FrameworkSettings:
        """Return the run's settings with changes, and the framework's defaults for settings that the run lacks."""
        defaults = self.framework.settings().model_dump()
        stored = {name: self.run.settings[name] for name in defaults if name in self.run.settings}
        return stored_settings(self.framework, {**defaults, **stored, **changes})


def stored_origin(trial_id: str) -> Origin:
    """Return a stored conversation as the origin of a branch; raise ``UsageError`` if it does not exist."""
    store = Store()
    fold_if_free(store)
    with store.read() as cursor:
        trial = stored_trial(cursor, trial_id)
        if trial is None:
            raise UsageError(f"There is no stored conversation {trial_id!r} to branch from: its id is in its address.")
        case = stored_case(cursor, trial.case_key, trial.content_hash)
        dialogue = tuple(Turn(message.role, message.text) for message in utterances_of(cursor, trial_id))
    return Origin(trial_id, case, trial.case_key, dialogue, trial.seed, trial.run)


def running_origin(session: Session) -> Origin:
    """Return a live consultation, up to its latest message, as the origin of a branch."""
    header = session.meta.get("header")
    started = next((event for event in session.snapshot() if isinstance(event, Started)), None)
    if not isinstance(header, RunHeader):
        raise UsageError("This is a replay: branch from the stored consultation.")
    if started is None:
        raise UsageError("This consultation has no message yet: branch from it once it has begun.")
    return Origin(started.trial_id, header.cases[0], started.case_key, session.dialogue, started.seed, header)


def check_origin(origin: Origin) -> None:
    """Raise ``UsageError`` if no framework that is installed here played the conversation."""
    framework_of_stored(origin.run.protocol)


def start_branch(plan: BranchPlan, origin: Origin) -> list[Session]:
    """Start each repetition of a branch as a live consultation; raise ``UsageError`` if it cannot run.

    A session's key is the id of its trial, which is stored when it is complete. Replies of the parent conversations are
    reused for equal requests; without any change, the rest of the dialogue is generated again.
    """
    dialogue = _dialogue(plan, origin)
    check_origin(origin)
    if origin.case is None:
        raise UsageError(
            f"The case {origin.case_key} of this conversation is not in the database, so its patient cannot be "
            "played: import it first."
        )
    if not 1 <= plan.times <= MOST_TIMES:
        raise UsageError(f"A branch is played 1 to {MOST_TIMES} times, not {plan.times}.")
    if plan.times > 1 and human_seats(plan.names):
        raise UsageError("A person plays a branch once: choose models, or one time.")
    sessions: list[Session] = []
    first_seed = origin.seed if plan.seed is None else plan.seed
    for number in range(plan.times):
        same_seed = plan.request is not None and plan.request.role == GRADER.role
        plan = replace(plan, seed=first_seed if same_seed else first_seed + number)
        registry = load_registry()  # each session closes its own
        campaign = _campaign(plan, origin, origin.case, registry)
        header = header_of(campaign, registry)
        unchanged = plan.request is None and dialogue[-1] == origin.dialogue[plan.turn]
        first = plan.turn + 1 if unchanged else plan.turn
        parent = Parent(trial_id=origin.trial_id, turn=first, changes=tuple(_changes(plan, origin, campaign, header)))
        # the kept messages are part of the fingerprint, so that no other run counts as the same campaign
        messages = "\n".join(f"{turn.role}: {turn.text}" for turn in dialogue)
        identity = f"{header.fingerprint}\n{parent.trial_id}\n{parent.turn}\n{messages}\n{plan.request or ''}"
        kept = [(turn.role, turn.text) for turn in dialogue]
        changes = {
            "run_id": f"fork-{header.run_id}-{uuid.uuid4().hex[:4]}",
            "source": "fork",
            "fingerprint": hashlib.sha256(identity.encode()).hexdigest(),
            "fork": BranchOrigin(run_id=origin.run.run_id, parent=parent, kept=kept, request=plan.request),
        }
        sessions.append(watch(campaign, header.model_copy(update=changes), registry))
    return sessions


def _dialogue(plan: BranchPlan, origin: Origin) -> Dialogue:
    """Return the messages with which a branch begins; raise ``UsageError`` if there are no such messages."""
    if plan.request is not None:
        if plan.request.messages and not is_model(plan.names[plan.request.role]):
            raise UsageError(
                f"An edited request is sent to a model, and none plays the {plan.request.role}: choose a model."
            )
        return origin.dialogue[: plan.turn]
    if not origin.dialogue:
        raise UsageError("This conversation has no message to branch from: choose another one.")
    last = len(origin.dialogue) - 1
    if not 0 <= plan.turn <= last:
        raise UsageError(f"There is no message {plan.turn} in this conversation: choose one from 0 to {last}.")
    if plan.text is not None and not plan.text.strip():
        raise UsageError("The edited message is empty: write another text, or leave the message as it was.")
    message = origin.dialogue[plan.turn]
    text = message.text if plan.text is None else plan.text.strip()
    # a text that only lost its outer white space was not edited
    text = message.text if text == message.text.strip() else origin.framework.speech.written(message.role, text)
    return (*origin.dialogue[: plan.turn], Turn(message.role, text))


def _campaign(plan: BranchPlan, origin: Origin, case: Case, registry: Registry) -> Campaign:
    if not plan.many_choices and any(question_type in ("mcq_many", "mcq_answers") for _, question_type in plan.arms):
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
    # only models receive pictures
    if not is_model(plan.names[tested_seat(origin.framework).role]):
        settings = settings.but(images="")
    same = {role for role, name in plan.names.items() if name == origin.names[role]}
    elsewhere = ",".join(role for role in settings.own_address.split(",") if role in same)
    addresses = " ".join(f"{role}={address}" for role, address in settings.seat_addresses.items() if role in same)
    arms = plan.arms
    if arms == BRANCH_ARMS:  # the default, limited to the arms of the framework
        arms = tuple(arm for arm in arms if arm in origin.framework.arms) or paper_arms(origin.framework)
    campaign = Campaign(
        names=plan.names,
        cases=(case,),
        arms=arms,
        many_choices=plan.many_choices,
        seed=seed,
        prompts=plan.prompts or origin.prompts,
        protocol=origin.run.protocol,
        settings=settings.but(own_address=elsewhere, addresses=addresses),
        placed=frozenset(same),
    )
    return in_full(one_case(campaign, case), registry)


def _changes(plan: BranchPlan, origin: Origin, campaign: Campaign, header: RunHeader) -> Iterator[str]:
    """Yield the differences from the parent's conversation in words; messages are numbered from 1."""
    if plan.request is not None:
        if plan.request.messages:
            yield f"{plan.request.title}: request edited"
    elif plan.text is not None and plan.text.strip() != origin.dialogue[plan.turn].text.strip():
        yield f"message {plan.turn + 1} edited"
    for role, name in campaign.names.items():
        before = origin.names[role]
        if name != before:
            yield f"{role} {name} instead of {before}"
    settings, parent_settings = campaign.settings, origin.settings_with()
    if settings.images != parent_settings.images:
        yield "the doctor with the case's pictures" if settings.images else "the doctor without pictures"
    for name, info in type(settings).model_fields.items():
        values = [getattr(parent_settings, name), getattr(settings, name)]
        if name in ("images", "own_address", "addresses") or values[0] == values[1]:
            continue
        if name == "base_url":  # changes are shown and exported, so the address must not contain a password
            values = [without_credentials(value) if value else value for value in values]
        was, new = (
            "none" if value is None else campaign.framework.speech.in_words(name, value) or "left to the model"
            for value in values
        )
        yield f"{(extra_of(info, 'label') or name.replace('_', ' ')).lower()} {new} instead of {was}"
    if header.prompt_pack != origin.run.prompt_pack:
        yield f"prompts {header.prompt_pack} instead of {origin.run.prompt_pack}"
    elif header.prompt_hash != origin.run.prompt_hash:
        yield f"prompts {header.prompt_pack} as they are now"
    if campaign.seed != origin.seed:
        yield f"seed {campaign.seed} instead of {origin.seed}"
