"""The contract of a framework, by which all other code plays, stores, branches, estimates and shows it.

A framework is one folder of this package, discovered automatically, with an instance ``FRAMEWORK`` of a subclass of
``Framework``. No other code names it: commands, forms, live page, debugger and store use the contract.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo

from core.asking.parts import SeatRules, check_picture_prompt
from core.asking.scene import Dialogue
from core.case import Case, distinct_choices
from core.errors import UsageError
from core.events import ASKED_TYPES, FORMATS, GRADED_TYPES, Event, Format, Parent, QuestionType, Started
from core.frameworks.cases import Preparation
from core.frameworks.casting import GRADER, Casting, CastNames, Reach, Seat, StudyCast, Why, full_name, is_model, seated
from core.frameworks.release import Release
from core.frameworks.settings import FrameworkSettings, flag_of, in_words, options_of
from core.frameworks.speech import Speech
from core.journal import RunHeader
from core.models.registry import Registry
from core.models.settings import checked_address
from core.prompts import PromptPack, load_pack

Arm = tuple[Format, QuestionType]
ALL_ARMS: tuple[Arm, ...] = tuple((f, q) for f in FORMATS for q in ASKED_TYPES if f != "closing" or q == "frq")
McqRule = Literal["mcq_loose", "mcq_strict"]
WITHOUT_CONVERSATION: frozenset[Format] = frozenset({"vignette", "exam_only"})
"""Formats that ask about a text, without a conversation."""


@dataclass(frozen=True)
class Trial:
    """One repetition of a case: ``number`` counts from 0; all randomness comes from ``seed``.

    ``arms`` are the questions of the trial; ``many_choices`` are the choices of ``mcq_many``: all of the data set.
    """

    trial_id: str
    case: Case
    number: int
    seed: int
    arms: tuple[Arm, ...] = ()
    many_choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Branch:
    """The start of a trial that continues another conversation: its first messages, and the trial they are from."""

    dialogue: Dialogue
    parent: Parent


@dataclass(frozen=True)
class Campaign:
    """A whole campaign: cast × cases × trials × arms.

    ``many_choices`` are the choices of ``mcq_many``, from the whole data set; if empty, from ``cases``.
    """

    names: CastNames
    cases: tuple[Case, ...]
    case_set: str = "library"
    arms: tuple[Arm, ...] = ALL_ARMS
    many_choices: tuple[str, ...] = ()
    data_set_hash: str = ""
    data_set_cases: int = 0
    """Hash and number of cases of the whole data set that ``cases`` are from, if known."""
    trials: int = 5
    seed: int = 20
    prompts: str = ""
    """A prompt pack by name or folder; if empty, that of the framework."""
    protocol: str = ""
    """The framework's name; if empty, the first framework."""
    settings: Any = None
    """An instance of the framework's ``settings``; by default its defaults."""
    keys: Mapping[str, SecretStr] = field(default_factory=dict, compare=False, repr=False)
    """Seat → the key for this seat only; never stored."""
    placed: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """Seats whose model addresses are decided."""

    def __post_init__(self) -> None:
        framework_ = framework(self.protocol)
        settings = self.settings
        if not isinstance(settings, framework_.settings):
            values = settings.model_dump(exclude_unset=True) if settings is not None else {}
            settings = read_settings(framework_, values)
        object.__setattr__(self, "protocol", framework_.name)
        object.__setattr__(self, "prompts", self.prompts or framework_.name)
        object.__setattr__(self, "settings", settings)

    @property
    def framework(self) -> Framework:
        return framework(self.protocol)

    @property
    def pack(self) -> PromptPack:
        return pack_of(self.framework, self.prompts)

    @property
    def tested(self) -> str:
        return self.names[tested_seat(self.framework).role]

    @property
    def reach(self) -> dict[str, Reach]:
        """Seat → address and key of its model, if the seat has its own."""
        addresses = self.settings.seat_addresses
        return {seat: Reach(addresses.get(seat), self.keys.get(seat)) for seat in {**addresses, **self.keys}}

    def reached(self, reach: Mapping[str, Reach]) -> Campaign:
        """Return the campaign with other addresses and keys of some seats; raise ``UsageError`` for a bad address."""
        addresses = dict(self.settings.seat_addresses)
        for seat, seat_reach in reach.items():
            if seat_reach.address:
                addresses[seat] = checked_address(f"the {seat}", seat_reach.address)
        return replace(
            self,
            settings=self.settings.but(addresses=" ".join(f"{seat}={addresses[seat]}" for seat in sorted(addresses))),
            keys={**self.keys, **{seat: seat_reach.key for seat, seat_reach in reach.items() if seat_reach.key}},
        )

    def choices_of_many(self) -> list[str]:
        if not {"mcq_many", "mcq_answers"} & {question_type for _, question_type in self.arms}:
            return []
        return sorted(self.many_choices or distinct_choices(self.cases), key=str.lower)


@dataclass(frozen=True)
class Size:
    """Number of conversations, calls and tokens of a campaign, as if a model played every seat.

    Calls to the tested model outside the dialogue may be listed as ``probe``.
    """

    conversations: int
    seats: Mapping[str, tuple[int, float, float]]
    """Seat → calls, prompt tokens and completion tokens of all trials."""


class Usual(NamedTuple):
    """Defaults of a framework."""

    arms: Literal["all", "paper"] = "paper"
    """All arms, or those of its publication."""
    mcq_rule: McqRule = "mcq_loose"
    """The rule by which answers with choices count."""
    report: str = "accuracy"
    """The report of its runs."""


@dataclass(frozen=True)
class Publication:
    """The publication of a framework; without ``arms`` it used all arms of the framework."""

    source: str
    """Authors and place of publication."""
    arms: tuple[Arm, ...] = ()
    measures: tuple[str, ...] = ()
    """Measures with published figures, which are stored under the framework's name in ``data/published``."""
    release: Release | None = None
    """Reader of the cases and results that the authors released, if they did."""


class Framework(ABC):
    """The order in which agents speak; see the module. Members from ``version`` on, except ``play``, have defaults."""

    name: ClassVar[str]
    """Name in databases, links and on the command line."""
    title: ClassVar[str]
    about: ClassVar[str]
    """One or two sentences about the framework for users who choose one."""
    publication: ClassVar[Publication]
    seats: ClassVar[tuple[Seat, ...]]
    """The seats, the tested one first."""
    version: ClassVar[int] = 1
    """Increases when the same replies would lead to different events."""
    rank: ClassVar[int] = 100
    """Position among the frameworks; the lowest is the default."""
    settings: ClassVar[type[FrameworkSettings]] = FrameworkSettings
    arms: ClassVar[tuple[Arm, ...]] = (("multi_turn", "mcq"),)
    """All possible arms."""
    usual: ClassVar[Usual] = Usual()
    prompts: ClassVar[tuple[str, ...]] = ()
    """The prompts that its pack must have; the pack has the framework's name. If ``grader_judge`` is among them,
    answers are graded with this pack, else with the pack of the first framework."""
    cases: ClassVar[Preparation] = Preparation()
    """Requirements on cases."""
    speech: ClassVar[Speech] = Speech()
    """How messages are read and displayed."""

    def open(self, casting: Casting, names: CastNames, settings: FrameworkSettings) -> Any:
        """Return the players of a cast (full names) for ``play``; raise ``UsageError`` if a key is missing.

        By default a dictionary of ``core.agents.player.Player`` by seat, with a grader as ``grader``.
        """
        players: dict[str, Any] = {"grader": casting.grader(names.grader or GRADER.rules[0])}
        for seat in self.seats:
            if seat.role != GRADER.role:
                players[seat.role] = casting.player(seat.role, names[seat.role], seat.players, seat.tested)
        return players

    @abstractmethod
    def play(self, trial: Trial, cast: Any, settings: Any, branch: Branch | None = None) -> AsyncIterator[Event]:
        """Yield the events of one trial, from ``Started`` to ``Finished``.

        A pure function of the replies: no clock, and no randomness except from the trial's seed. A ``branch`` begins
        with its messages, if it has any, and continues the conversation from there, whatever the arms.
        """

    def complete(self, settings: FrameworkSettings, names: CastNames) -> FrameworkSettings:
        """Return the settings with which a campaign with this cast (full names) runs."""
        return settings

    def check(self, pack: PromptPack, settings: FrameworkSettings, names: CastNames) -> None:
        """Raise ``UsageError`` if the prompts do not support the settings, such as pictures."""
        if settings.images:
            check_picture_prompt(pack)

    def has_conversation(self, tested: str, arms: Iterable[tuple[str, str]]) -> bool:
        """Return whether there is a conversation: not if all arms ask about written cases."""
        return not {format_ for format_, _ in arms} <= WITHOUT_CONVERSATION

    def size(self, campaign: Campaign, picture_tokens: float) -> Size:
        """Return the size of a full campaign; ``picture_tokens`` are added to every call of the tested model."""
        trials = len(campaign.cases) * campaign.trials
        conversations = trials if self.has_conversation(campaign.tested, campaign.arms) else 0
        return Size(conversations, {})

    def by_rule(self, case: Case, header: RunHeader, seed: int, pack: PromptPack) -> SeatRules | None:
        """Return the requests that a model would get in place of the rules of a trial.

        If it is ``None``, steps played by rule are shown with the messages before them and cannot be edited.
        """
        return None

    def __init_subclass__(cls) -> None:
        # members of an older contract would be ignored silently
        for old, new in _MOVED.items():
            if old in vars(cls):
                raise UsageError(f"{cls.__module__}: {old!r} of {cls.__name__} is now {new}.")


_MOVED = {
    "source": "Publication.source", "paper_arms": "Publication.arms", "publishes": "Publication.measures",
    "release": "Publication.release", "usual_arms": "Usual.arms", "mcq_rule": "Usual.mcq_rule",
    "measure": "Usual.report", "rules": "Seat.players", "grades_itself": "read from its prompts",
    "cannot_fork": "unused: play gets the branch", "needs_profile": "Preparation.plays_profiles",
    **{name: f"Preparation.{name}" for name in (
        "plays_items", "patient_opens", "prepare", "uses_items", "edited", "profile_remarks",
    )},
    **{name: f"Speech.{name}" for name in (
        "addresses", "one_query", "kinds", "shown", "spoken", "queries", "questions", "answering", "recognises",
        "invitation", "written", "in_words", "cap",
    )},
}  # fmt: skip
"""Members of the contract up to version 0.5 → their present place."""


def tested_seat(framework_: Framework) -> Seat:
    return next(seat for seat in framework_.seats if seat.tested)


def other_seats(framework_: Framework) -> tuple[Seat, ...]:
    return tuple(seat for seat in framework_.seats if not seat.tested)


def speaking_roles(framework_: Framework) -> tuple[str, ...]:
    """Return the roles other than the tested one that take part in the conversation."""
    return tuple(seat.role for seat in other_seats(framework_) if seat.role not in ("grader", "summariser", "solver"))


def seat_of(framework_: Framework, role: str) -> Seat | None:
    return next((seat for seat in framework_.seats if seat.role == role), None)


def role_title(framework_: Framework, role: str) -> str:
    seat = seat_of(framework_, role)
    return (seat.title if seat else role.replace("_", " ")).capitalize()


def seats_at_work(framework_: Framework, tested: str, arms: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the roles other than the tested one that do something in these arms."""
    arms = set(arms)
    idle = set() if framework_.has_conversation(tested, arms) else set(speaking_roles(framework_))
    idle |= set() if any(format_ == "summarized" for format_, _ in arms) else {"summariser"}
    idle |= set() if {question_type for _, question_type in arms} & set(GRADED_TYPES) else {"grader"}
    return tuple(seat.role for seat in other_seats(framework_) if seat.role not in idle)


def paper_arms(framework_: Framework) -> tuple[Arm, ...]:
    return framework_.publication.arms or framework_.arms


def usual_arms(framework_: Framework) -> tuple[Arm, ...]:
    return framework_.arms if framework_.usual.arms == "all" else paper_arms(framework_)


def pack_of(framework_: Framework, name_or_folder: str = "") -> PromptPack:
    """Load a prompt pack with all prompts of a framework; by default the framework's pack."""
    return load_pack(name_or_folder or framework_.name, framework_.prompts)


def grades_itself(framework_: Framework) -> bool:
    """Return whether a framework's pack has the grader's prompts; else the first framework's pack is used."""
    return "grader_judge" in framework_.prompts


def full_names(
    framework_: Framework, names: CastNames, registry: Registry, study: StudyCast | None = None
) -> CastNames:
    """Return a cast with aliases resolved and all seats filled; raise ``UsageError`` for an impossible player.

    ``study`` is the cast of the study so far, which fills the seats that the user did not name.
    """
    foreign = [seat for seat in names.extra if seat_of(framework_, seat) is None]
    if foreign:
        *first, last = (seat.role for seat in framework_.seats)
        seats = f"{', '.join(first)} and {last}" if first else last
        raise UsageError(f"--{foreign[0]} does not belong to {framework_.name}, whose roles are {seats}.")
    full = {role: name for role, (name, _) in seating(framework_, names, registry, study or {}).items()}
    tested = tested_seat(framework_)
    full[tested.role] = full_name(tested.title, names[tested.role], registry, tested.rules)
    for seat in framework_.seats:
        if full[seat.role] == "human" and seat.no_human:
            raise UsageError(f"A person cannot play the {seat.title}: {seat.no_human}.")
    return CastNames(**{**{role: names[role] for role in names}, **full})


def options_for(framework_: Framework, tested: str) -> dict[str, FieldInfo]:
    """Return the options that have an effect if this player (a full name) is tested."""
    options, usual = options_of(framework_.settings), framework_.settings()
    all_on = usual.but(**{name: True for name, info in options.items() if info.annotation is bool})
    completed = framework_.complete(all_on, CastNames(**{tested_seat(framework_).role: tested}))
    without_effect = set() if is_model(tested) else set(FrameworkSettings.model_fields)
    without_effect |= {name for name in options if getattr(completed, name) != getattr(all_on, name)}
    if not framework_.has_conversation(tested, framework_.arms):
        without_effect |= {name for name, info in options.items() if flag_of(name, info) == "--cap"}
    return {name: info for name, info in options.items() if name not in without_effect}


def read_settings(framework_: Framework, values: Mapping[str, object]) -> FrameworkSettings:
    """Return validated settings; raise ``UsageError`` with one sentence if a value is invalid."""
    fields = framework_.settings.model_fields
    for name in values:
        if name not in fields:
            owners = [other.name for other in frameworks().values() if name in other.settings.model_fields]
            choose = f", or choose {' or '.join(owners)}" if owners else ""
            raise UsageError(f"{flag_of(name)} does not belong to {framework_.name}: leave it out{choose}.")
    try:
        return framework_.settings(**values)
    except ValidationError as error:
        raise UsageError(in_words(error, fields)) from error


def stored_settings(framework_: Framework, values: Mapping[str, object]) -> FrameworkSettings:
    """Return the settings of a stored run without validation; former settings are left out."""
    fields = framework_.settings.model_fields
    present: dict[str, Any] = {name: value for name, value in values.items() if name in fields}
    return framework_.settings.model_construct(**present)


def seating(
    framework_: Framework, names: CastNames, registry: Registry, study: StudyCast
) -> dict[str, tuple[str, Why]]:
    """Return role → full name of the player and the reason, for all seats except the tested one."""
    seat = tested_seat(framework_)
    tested = full_name(seat.title, names[seat.role], registry, seat.rules)
    return {
        seat.role: seated(seat.role, seat.title, names[seat.role], tested, seat.rules, registry, study.get(seat.role))
        for seat in other_seats(framework_)
    }


@functools.cache
def frameworks() -> dict[str, Framework]:
    """Return the frameworks by name, sorted by rank: the folders of this package and of extensions."""
    package = importlib.import_module("core.frameworks")
    unsorted: list[Framework] = []
    for module in pkgutil.iter_modules(package.__path__):
        if module.ispkg:
            unsorted.append(importlib.import_module(f"core.frameworks.{module.name}").FRAMEWORK)
    return {framework_.name: framework_ for framework_ in sorted(unsorted, key=lambda f: (f.rank, f.name))}


def framework(name: str = "") -> Framework:
    """Return a framework by name, by default the first; raise ``UsageError`` if there is none."""
    by_name = frameworks()
    if not name:
        return next(iter(by_name.values()))
    if name not in by_name:
        raise UsageError(f"There is no protocol {name!r}: choose {' or '.join(by_name)}.")
    return by_name[name]


def framework_of_stored(protocol: str) -> Framework:
    """Return the framework that played a stored run; raise ``UsageError`` if none of the frameworks here did."""
    if protocol not in frameworks():
        raise UsageError(
            f"Another program, or a framework that is not installed, played this conversation ({protocol}). It can be "
            "read, graded, judged and exported, but not continued or taken apart step by step."
        )
    return frameworks()[protocol]


def title_of(name: str) -> str:
    """Return the title of a framework, or the name if the framework is not installed."""
    return frameworks()[name].title if name in frameworks() else name


def framework_of(events: Sequence[Event], name: str = "") -> Framework | None:
    """Return the framework of a conversation by name, by its ``Started`` event or by its content; ``None``: unknown."""
    by_name = frameworks()
    name = name or next((event.framework for event in events if isinstance(event, Started)), "")
    if name in by_name:
        return by_name[name]
    return next((framework_ for framework_ in by_name.values() if framework_.speech.recognises(events)), None)


def publisher(measure: str) -> Framework:
    """Return the framework whose publication has figures of a measure; raise ``UsageError`` if there is none."""
    for framework_ in frameworks().values():
        if measure in framework_.publication.measures:
            return framework_
    raise UsageError(f"No framework has published figures of {measure}.")


def released(measure: str) -> Release:
    """Return the release behind the published figures of a measure; raise ``UsageError`` if there is none."""
    release = publisher(measure).publication.release
    if release is None:
        raise UsageError(f"The authors of the published figures of {measure} have not released results.")
    return release


def default_pack(name_or_folder: str = "") -> PromptPack:
    """Load a pack with all prompts of the first framework, by default its pack.

    It grades answers if the pack of a run's framework has no prompts for grading.
    """
    return pack_of(framework(), name_or_folder)
