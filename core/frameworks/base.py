"""What a framework is: the contract by which everything else plays, stores, forks, estimates and shows it.

A framework is one folder of this package, found by itself, with an instance ``FRAMEWORK`` of a class made of
``Framework``. Nobody else names it: commands, forms, live page, debugger and store ask the contract.
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

from core.asking.parts import Rules, check_picture_prompt
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
ALL_ARMS: tuple[Arm, ...] = tuple((f, q) for f in FORMATS for q in ASKED_TYPES)
McqRule = Literal["mcq_loose", "mcq_strict"]
WITHOUT_CONVERSATION: frozenset[Format] = frozenset({"vignette", "exam_only"})
"""Formats that ask about a text instead of holding a conversation."""


@dataclass(frozen=True)
class Trial:
    """One repetition of a case: ``number`` counts from 0, ``seed`` drives everything random in it.

    ``arms`` are what is asked in it; ``many_choices`` those of ``mcq_many``: every choice of the data set.
    """

    trial_id: str
    case: Case
    number: int
    seed: int
    arms: tuple[Arm, ...] = ()
    many_choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Branch:
    """Where a trial takes up another conversation: the messages it keeps, and where they come from."""

    dialogue: Dialogue
    parent: Parent


@dataclass(frozen=True)
class Campaign:
    """A whole campaign as asked for: cast × cases × trials × arms.

    ``many_choices`` are the choices of ``mcq_many``, all those of the whole data set; empty for those of ``cases``.
    """

    names: CastNames
    cases: tuple[Case, ...]
    case_set: str = "library"
    arms: tuple[Arm, ...] = ALL_ARMS
    many_choices: tuple[str, ...] = ()
    data_set_hash: str = ""
    data_set_cases: int = 0
    """The whole data set of which ``cases`` are all or a part, and how many cases that has, if known."""
    trials: int = 5
    seed: int = 20
    prompts: str = ""
    """A prompt pack by name or folder; the framework's own where it is left empty."""
    protocol: str = ""
    """The framework's name; the first one's where it is left empty."""
    settings: Any = None
    """The framework's own, an instance of its ``settings``; its defaults where nothing is given."""
    keys: Mapping[str, SecretStr] = field(default_factory=dict, compare=False, repr=False)
    """Seat → the key that was given for it alone; never stored."""
    placed: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """Seats of which it is decided where their models are reached."""

    def __post_init__(self) -> None:
        known = framework(self.protocol)
        given = self.settings
        if not isinstance(given, known.settings):
            given = read_settings(known, given.model_dump(exclude_unset=True) if given is not None else {})
        for name, value in (("protocol", known.name), ("prompts", self.prompts or known.name), ("settings", given)):
            object.__setattr__(self, name, value)

    @property
    def framework(self) -> Framework:
        """The framework that plays it."""
        return framework(self.protocol)

    @property
    def pack(self) -> PromptPack:
        """Its prompts."""
        return pack_of(self.framework, self.prompts)

    @property
    def tested(self) -> str:
        """Who is under test."""
        return self.names[tested_seat(self.framework).role]

    @property
    def reach(self) -> dict[str, Reach]:
        """Seat → how its model is reached, where that was said for it alone."""
        addresses = self.settings.seat_addresses
        return {seat: Reach(addresses.get(seat), self.keys.get(seat)) for seat in {**addresses, **self.keys}}

    def reached(self, reach: Mapping[str, Reach]) -> Campaign:
        """Return the campaign with some seats' models reached as is said; raise ``UsageError`` for no address."""
        given = {seat: checked_address(f"the {seat}", how.address) for seat, how in reach.items() if how.address}
        kept = {**self.settings.seat_addresses, **given}
        return replace(
            self,
            settings=self.settings.but(addresses=" ".join(f"{seat}={kept[seat]}" for seat in sorted(kept))),
            keys={**self.keys, **{seat: how.key for seat, how in reach.items() if how.key}},
        )

    def choices_of_many(self) -> list[str]:
        """Return the choices of ``mcq_many``, or none where no arm asks it."""
        if not {"mcq_many", "mcq_answers"} & {question_type for _, question_type in self.arms}:
            return []
        return sorted(self.many_choices or distinct_choices(self.cases), key=str.lower)


@dataclass(frozen=True)
class Size:
    """What a campaign asks of models, as if every seat were one: conversations, and seat → calls and tokens.

    What the model under test is asked beside the dialogue may stand under ``probe``.
    """

    conversations: int
    seats: Mapping[str, tuple[int, float, float]]
    """Calls, prompt tokens and completion tokens of all trials."""


class Usual(NamedTuple):
    """What holds of a framework unless something else is asked for."""

    arms: Literal["all", "paper"] = "paper"
    """All that it can ask, or what its publication asked."""
    mcq_rule: McqRule = "mcq_loose"
    """The rule by which it counts answers with choices."""
    report: str = "accuracy"
    """The report that is made for it."""


@dataclass(frozen=True)
class Publication:
    """What is published of a framework; without ``arms`` it asked all that the framework can ask."""

    source: str
    """Who published it, where."""
    arms: tuple[Arm, ...] = ()
    measures: tuple[str, ...] = ()
    """Of which it has figures, kept under the framework's name in ``data/published``."""
    release: Release | None = None
    """What reads the cases and results that its authors released, if they did."""


class Framework(ABC):
    """In which order agents speak; see the module. Everything from ``version`` on but ``play`` has a default."""

    name: ClassVar[str]
    """As it stands in databases, links and on the command line."""
    title: ClassVar[str]
    about: ClassVar[str]
    """What happens in it, in a sentence or two, for who chooses it."""
    publication: ClassVar[Publication]
    seats: ClassVar[tuple[Seat, ...]]
    """The one under test first."""
    version: ClassVar[int] = 1
    """Goes up when the same replies would lead to other events."""
    rank: ClassVar[int] = 100
    """Its place among the others; the lowest is what is run unless another is named."""
    settings: ClassVar[type[FrameworkSettings]] = FrameworkSettings
    arms: ClassVar[tuple[Arm, ...]] = (("multi_turn", "mcq"),)
    """All that it can ask."""
    usual: ClassVar[Usual] = Usual()
    prompts: ClassVar[tuple[str, ...]] = ()
    """The prompts that its pack must have; the pack bears the framework's name. With ``grader_judge`` it grades under
    its own, else under the first framework's."""
    cases: ClassVar[Preparation] = Preparation()
    """What it needs of a case."""
    speech: ClassVar[Speech] = Speech()
    """How what is said in it is read and put in words."""

    def open(self, casting: Casting, names: CastNames, settings: FrameworkSettings) -> Any:
        """Return the players of a cast (full names), as ``play`` takes them; raise ``UsageError`` where a key lacks.

        By default a dictionary of ``core.agents.player.Player`` by seat, and under ``grader`` a grader.
        """
        players: dict[str, Any] = {"grader": casting.grader(names.grader or GRADER.rules[0])}
        for seat in self.seats:
            if seat.role != GRADER.role:
                players[seat.role] = casting.player(seat.role, names[seat.role], seat.players, seat.tested)
        return players

    @abstractmethod
    def play(self, trial: Trial, cast: Any, settings: Any, branch: Branch | None = None) -> AsyncIterator[Event]:
        """Yield everything that happens in one trial, from ``Started`` to ``Finished``.

        A pure function of what the players say: no clock, and no chance but from the trial's seed. A ``branch`` begins
        with the messages that it keeps, and talks on from there whatever the arms.
        """

    def complete(self, settings: FrameworkSettings, names: CastNames) -> FrameworkSettings:
        """Return the settings as a campaign with this cast (full names) runs under them."""
        return settings

    def check(self, pack: PromptPack, settings: FrameworkSettings, names: CastNames) -> None:
        """Raise ``UsageError`` where the prompts cannot say what the settings ask for, such as pictures."""
        if settings.images:
            check_picture_prompt(pack)

    def talks(self, tested: str, arms: Iterable[tuple[str, str]]) -> bool:
        """Say whether anybody talks: not where only written cases are asked about."""
        return not {format_ for format_, _ in arms} <= WITHOUT_CONVERSATION

    def size(self, campaign: Campaign, picture_tokens: float) -> Size:
        """Return what a full campaign asks of models; ``picture_tokens`` come with every call of the one under test."""
        trials = len(campaign.cases) * campaign.trials
        talks = trials if self.talks(campaign.tested, campaign.arms) else 0
        return Size(talks, {})

    def by_rule(self, case: Case, header: RunHeader, seed: int, pack: PromptPack) -> Rules | None:
        """Return what shows what models would be sent in place of a trial's rules, and plays these on that edited.

        Without it, steps played by rule are shown with what was said before them and cannot be edited.
        """
        return None

    def __init_subclass__(cls) -> None:
        """Refuse a folder that was written for an older contract: what it says there would be passed over."""
        for old, new in _MOVED.items():
            if old in vars(cls):
                raise UsageError(f"{cls.__module__}: {old!r} of {cls.__name__} is now {new}.")


_MOVED = {
    "source": "Publication.source", "paper_arms": "Publication.arms", "publishes": "Publication.measures",
    "release": "Publication.release", "usual_arms": "Usual.arms", "mcq_rule": "Usual.mcq_rule",
    "measure": "Usual.report", "rules": "Seat.players", "grades_itself": "told by its prompts",
    "cannot_fork": "not asked any more: play is given the branch",
    "needs_profile": "Preparation.plays_profiles",
    **{name: f"Preparation.{name}" for name in (
        "plays_items", "patient_opens", "prepare", "uses_items", "edited", "profile_remarks",
    )},
    **{name: f"Speech.{name}" for name in (
        "addresses", "one_query", "kinds", "shown", "spoken", "queries", "questions", "answering", "recognises",
        "invitation", "written", "in_words", "cap",
    )},
}  # fmt: skip
"""Members of the contract up to version 0.5 → where they are."""


def tested_seat(known: Framework) -> Seat:
    """Return the seat of the model under test."""
    return next(seat for seat in known.seats if seat.tested)


def other_seats(known: Framework) -> tuple[Seat, ...]:
    """Return the seats next to the tested one."""
    return tuple(seat for seat in known.seats if not seat.tested)


def talking_roles(known: Framework) -> tuple[str, ...]:
    """Return the roles next to the tested one that take part in the conversation."""
    return tuple(seat.role for seat in other_seats(known) if seat.role not in ("grader", "summariser", "solver"))


def seat_of(known: Framework, role: str) -> Seat | None:
    """Return a seat by its role, or ``None``."""
    return next((seat for seat in known.seats if seat.role == role), None)


def role_title(known: Framework, role: str) -> str:
    """Return a role in words."""
    seat = seat_of(known, role)
    return (seat.title if seat else role.replace("_", " ")).capitalize()


def seats_at_work(known: Framework, tested: str, arms: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the roles that have anything to do next to who is under test in these arms."""
    asked = set(arms)
    idle = set() if known.talks(tested, asked) else set(talking_roles(known))
    idle |= set() if any(format_ == "summarized" for format_, _ in asked) else {"summariser"}
    idle |= set() if {question_type for _, question_type in asked} & set(GRADED_TYPES) else {"grader"}
    return tuple(seat.role for seat in other_seats(known) if seat.role not in idle)


def paper_arms(known: Framework) -> tuple[Arm, ...]:
    """Return the arms of a framework's publication."""
    return known.publication.arms or known.arms


def usual_arms(known: Framework) -> tuple[Arm, ...]:
    """Return what is asked unless other arms are named."""
    return known.arms if known.usual.arms == "all" else paper_arms(known)


def pack_of(known: Framework, name_or_folder: str = "") -> PromptPack:
    """Load a prompt pack that has all that a framework needs; by default its own."""
    return load_pack(name_or_folder or known.name, known.prompts)


def grades_itself(known: Framework) -> bool:
    """Say whether a framework's own pack holds the grader's prompts; else the first framework's do."""
    return "grader_judge" in known.prompts


def full_names(known: Framework, names: CastNames, registry: Registry, study: StudyCast | None = None) -> CastNames:
    """Return a cast with aliases resolved and every seat taken; raise ``UsageError`` for who cannot sit there.

    ``study`` is the cast of the study so far, which takes the seats next to a model that nobody named.
    """
    foreign = [seat for seat in names.extra if seat_of(known, seat) is None]
    if foreign:
        *first, last = (seat.role for seat in known.seats)
        seats = f"{', '.join(first)} and {last}" if first else last
        raise UsageError(f"--{foreign[0]} does not belong to {known.name}, whose seats are {seats}.")
    full = {role: name for role, (name, _) in seating(known, names, registry, study or {}).items()}
    tested = tested_seat(known)
    full[tested.role] = full_name(tested.title, names[tested.role], registry, tested.rules)
    for seat in known.seats:
        if full[seat.role] == "human" and seat.no_human:
            raise UsageError(f"A human cannot sit in the {seat.title}'s seat: {seat.no_human}.")
    return CastNames(**{**{role: names[role] for role in names}, **full})


def options_for(known: Framework, tested: str) -> dict[str, FieldInfo]:
    """Return the options that mean anything where this one (a full name) is under test."""
    options, usual = options_of(known.settings), known.settings()
    wanted = usual.but(**{name: True for name, info in options.items() if info.annotation is bool})
    full = known.complete(wanted, CastNames(**{tested_seat(known).role: tested}))
    idle = set() if is_model(tested) else set(FrameworkSettings.model_fields)
    idle |= {name for name in options if getattr(full, name) != getattr(wanted, name)}
    if not known.talks(tested, known.arms):
        idle |= {name for name, info in options.items() if flag_of(name, info) == "--cap"}
    return {name: info for name, info in options.items() if name not in idle}


def read_settings(known: Framework, values: Mapping[str, object]) -> FrameworkSettings:
    """Return settings as somebody asks for them; raise ``UsageError`` with one sentence for what cannot be."""
    fields = known.settings.model_fields
    for name in values:
        if name not in fields:
            owners = [one.name for one in frameworks().values() if name in one.settings.model_fields]
            choose = f", or choose {' or '.join(owners)}" if owners else ""
            raise UsageError(f"{flag_of(name)} does not belong to {known.name}: leave it out{choose}.")
    try:
        return known.settings(**values)
    except ValidationError as error:
        raise UsageError(in_words(error, fields)) from error


def stored_settings(known: Framework, values: Mapping[str, object]) -> FrameworkSettings:
    """Return the settings of a stored run, as they were; what is no setting of it any more is left out."""
    kept: dict[str, Any] = {name: value for name, value in values.items() if name in known.settings.model_fields}
    return known.settings.model_construct(**kept)


def seating(known: Framework, names: CastNames, registry: Registry, study: StudyCast) -> dict[str, tuple[str, Why]]:
    """Return the role of each seat next to the tested one → the full name of who takes it, and why."""
    seat = tested_seat(known)
    tested = full_name(seat.title, names[seat.role], registry, seat.rules)
    return {
        seat.role: seated(seat.role, seat.title, names[seat.role], tested, seat.rules, registry, study.get(seat.role))
        for seat in other_seats(known)
    }


@functools.cache
def frameworks() -> dict[str, Framework]:
    """Return every framework by name, in their order: the folders of this package and of extensions."""
    package = importlib.import_module("core.frameworks")
    found: list[Framework] = []
    for module in pkgutil.iter_modules(package.__path__):
        if module.ispkg:
            found.append(importlib.import_module(f"core.frameworks.{module.name}").FRAMEWORK)
    return {one.name: one for one in sorted(found, key=lambda one: (one.rank, one.name))}


def framework(name: str = "") -> Framework:
    """Return a framework by its name, by default the first; raise ``UsageError`` where there is none."""
    known = frameworks()
    if not name:
        return next(iter(known.values()))
    if name not in known:
        raise UsageError(f"There is no protocol {name!r}: choose {' or '.join(known)}.")
    return known[name]


def title_of(name: str) -> str:
    """Return a framework's title, also of one that is not here any more."""
    return frameworks()[name].title if name in frameworks() else name


def framework_of(events: Sequence[Event], name: str = "") -> Framework | None:
    """Return the framework of a conversation by the name of its run, else by what happened in it; ``None``: unknown."""
    known = frameworks()
    begun = next((event.framework for event in events if isinstance(event, Started)), "")
    return known.get(name or begun) or next((one for one in known.values() if one.speech.recognises(events)), None)


def publisher(measure: str) -> Framework:
    """Return the framework whose publication has figures of a measure; raise ``UsageError`` where there is none."""
    for one in frameworks().values():
        if measure in one.publication.measures:
            return one
    raise UsageError(f"No framework has published figures of {measure}.")


def released(measure: str) -> Release:
    """Return the results behind the published figures of a measure; raise ``UsageError`` where none were released."""
    found = publisher(measure).publication.release
    if found is None:
        raise UsageError(f"The authors whose figures of {measure} are published have released no results.")
    return found


def default_pack(name_or_folder: str = "") -> PromptPack:
    """Return a pack as the first framework needs it, by default its own.

    Under that answers are graded wherever a framework's pack has no prompts for it.
    """
    return pack_of(framework(), name_or_folder)
