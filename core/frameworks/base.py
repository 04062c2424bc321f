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
from typing import Any, ClassVar, Literal

from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo

from core.agents.base import Dialogue
from core.agents.parts import Rules, check_picture_prompt
from core.agents.player import Rule
from core.case import Case, Profile, distinct_choices
from core.errors import UsageError
from core.events import ASKED_TYPES, FORMATS, GRADED_TYPES, Event, Format, Parent, QuestionType, Started
from core.frameworks.casting import GRADER, Casting, CastNames, Reach, Seat, StudyCast, Why, full_name, is_model, seated
from core.frameworks.reading import Reading
from core.frameworks.release import Release
from core.frameworks.settings import FrameworkSettings, flag_of, in_words, options_of
from core.journal import RunHeader
from core.models.registry import Registry
from core.models.settings import checked_address
from core.prompts import PromptPack, load_pack
from core.text.profiles import CaseId, Generated, Prepared

Arm = tuple[Format, QuestionType]
ALL_ARMS: tuple[Arm, ...] = tuple((f, q) for f in FORMATS for q in ASKED_TYPES)
McqRule = Literal["mcq_loose", "mcq_strict"]
_WITHOUT_TALK = {"vignette", "exam_only"}


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
            given = known.read_settings(given.model_dump(exclude_unset=True) if given is not None else {})
        for name, value in (("protocol", known.name), ("prompts", self.prompts or known.name), ("settings", given)):
            object.__setattr__(self, name, value)

    @property
    def framework(self) -> Framework:
        """The framework that plays it."""
        return framework(self.protocol)

    @property
    def pack(self) -> PromptPack:
        """Its prompts."""
        return self.framework.pack(self.prompts)

    @property
    def tested(self) -> str:
        """Who is under test."""
        return self.names[self.framework.tested.role]

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


class Framework(ABC):
    """In which order agents speak; see the module. Everything but ``play`` has a default."""

    name: ClassVar[str]
    """As it stands in databases, links and on the command line."""
    title: ClassVar[str]
    source: ClassVar[str]
    """Who published it, where."""
    about: ClassVar[str]
    """What happens in it, in a sentence or two, for who chooses it."""
    version: ClassVar[int] = 1
    """Goes up when the same replies would lead to other events."""
    rank: ClassVar[int] = 100
    """Its place among the others; the lowest is what is run unless another is named."""
    settings: ClassVar[type[FrameworkSettings]] = FrameworkSettings
    seats: ClassVar[tuple[Seat, ...]]
    """The one under test first."""
    arms: ClassVar[tuple[Arm, ...]] = (("multi_turn", "mcq"),)
    """All that it can ask."""
    paper_arms: ClassVar[tuple[Arm, ...]] = ()
    """Those of its publication; all where there is none."""
    usual_arms: ClassVar[Literal["all", "paper"]] = "paper"
    rules: ClassVar[Mapping[str, Rule]] = {}
    """Reference kind → what it says, for seats that ``open`` fills by itself."""
    prompts: ClassVar[tuple[str, ...]] = ()
    """The prompts that its pack must have; the pack bears the framework's name."""
    mcq_rule: ClassVar[McqRule] = "mcq_loose"
    """The rule by which it counts answers with choices."""
    measure: ClassVar[str] = "accuracy"
    """The report that is made for it."""
    cannot_fork: ClassVar[str] = ""
    """Why its conversations cannot be taken up at a message; empty where they can."""
    grades_itself: ClassVar[bool] = False
    """Whether its own pack holds the grader's prompts; else the first framework's do."""
    plays_items: ClassVar[bool] = False
    """Whether players by rule ask for, or answer from, the items of a case's history."""
    needs_profile: ClassVar[bool] = False
    """Whether it plays cases with a profile only."""
    patient_opens: ClassVar[bool] = False
    """Whether the patient speaks first, with an opening that a model may have made for the case."""
    reading: ClassVar[Reading] = Reading()
    """How what is said in it is read and put in words."""
    publishes: ClassVar[tuple[str, ...]] = ()
    """The measures of which its publication has figures, kept under its name in ``data/published``."""
    release: ClassVar[Release | None] = None
    """What reads the cases and results that its authors released, if they did."""

    # what is played

    def open(self, casting: Casting, names: CastNames, settings: FrameworkSettings) -> Any:
        """Return the players of a cast (full names), as ``play`` takes them; raise ``UsageError`` where a key lacks.

        By default a dictionary of ``core.agents.player.Player`` by seat, and under ``grader`` a grader.
        """
        players: dict[str, Any] = {"grader": casting.grader(names.grader or GRADER.rules[0])}
        for seat in self.seats:
            if seat.role != GRADER.role:
                players[seat.role] = casting.player(seat.role, names[seat.role], self.rules, seat.tested)
        return players

    @abstractmethod
    def play(self, trial: Trial, cast: Any, settings: Any, branch: Branch | None = None) -> AsyncIterator[Event]:
        """Yield everything that happens in one trial, from ``Started`` to ``Finished``.

        A pure function of what the players say: no clock, and no chance but from the trial's seed. A ``branch`` begins
        with the messages that it keeps, and talks on from there whatever the arms.
        """

    def prepare(self, cases: Sequence[Case], stored: Mapping[CaseId, Generated]) -> Prepared:
        """Return the cases as they are played, and those left out and why; ``stored`` are profiles made before."""
        return Prepared(tuple(cases), ())

    def uses_items(self, names: CastNames) -> bool:
        """Say whether a conversation of this cast (full names) depends on the items of its case."""
        return False

    def edited(self, case: Case, profile: Profile, by: str) -> Generated:
        """Return a profile as a person saves it; raise ``UsageError`` where it cannot be played."""
        raise UsageError(f"{self.title} plays no profiles.")

    def profile_remarks(self, case: Case, profile: Profile) -> tuple[str, ...]:
        """Return a sentence for each fact of a profile that speaks against its case."""
        return ()

    # what it asks for

    @property
    def tested(self) -> Seat:
        """The seat of the model under test."""
        return next(seat for seat in self.seats if seat.tested)

    @property
    def others(self) -> tuple[Seat, ...]:
        """The seats beside it."""
        return tuple(seat for seat in self.seats if not seat.tested)

    def seat(self, role: str) -> Seat | None:
        """Return a seat by its role, or ``None``."""
        return next((seat for seat in self.seats if seat.role == role), None)

    @property
    def paper(self) -> tuple[Arm, ...]:
        """The arms of its publication."""
        return self.paper_arms or self.arms

    def pack(self, name_or_folder: str = "") -> PromptPack:
        """Load a prompt pack that has all that the framework needs; by default its own."""
        return load_pack(name_or_folder or self.name, self.prompts)

    def talks(self, tested: str, arms: Iterable[tuple[str, str]]) -> bool:
        """Say whether anybody talks: not where only written cases are asked about."""
        return not {format_ for format_, _ in arms} <= _WITHOUT_TALK

    def at_work(self, tested: str, arms: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """Return the seats that have anything to do beside who is under test in these arms."""
        asked = set(arms)
        idle = set() if self.talks(tested, asked) else set(self.talking)
        idle |= set() if any(format_ == "summarized" for format_, _ in asked) else {"summariser"}
        idle |= set() if {question_type for _, question_type in asked} & set(GRADED_TYPES) else {"grader"}
        return tuple(seat.role for seat in self.others if seat.role not in idle)

    @property
    def talking(self) -> tuple[str, ...]:
        """The seats beside the tested one that take part in the conversation."""
        return tuple(seat.role for seat in self.others if seat.role not in ("grader", "summariser", "solver"))

    def full_names(self, names: CastNames, registry: Registry, study: StudyCast | None = None) -> CastNames:
        """Return a cast with aliases resolved and every seat taken; raise ``UsageError`` for who cannot sit there.

        ``study`` is the cast of the study so far, which takes the seats next to a model that nobody named.
        """
        foreign = [seat for seat in names.extra if self.seat(seat) is None]
        if foreign:
            *first, last = (seat.role for seat in self.seats)
            seats = f"{', '.join(first)} and {last}" if first else last
            raise UsageError(f"--{foreign[0]} does not belong to {self.name}, whose seats are {seats}.")
        full = {role: name for role, (name, _) in seating(self, names, registry, study or {}).items()}
        full[self.tested.role] = full_name(self.tested.title, names[self.tested.role], registry, self.tested.rules)
        for seat in self.seats:
            if full[seat.role] == "human" and seat.no_human:
                raise UsageError(f"A human cannot sit in the {seat.title}'s seat: {seat.no_human}.")
        return CastNames(**{**{role: names[role] for role in names}, **full})

    def complete(self, settings: FrameworkSettings, names: CastNames) -> FrameworkSettings:
        """Return the settings as a campaign with this cast (full names) runs under them."""
        return settings

    def asked(self, tested: str) -> dict[str, FieldInfo]:
        """Return the options that mean anything where this one (a full name) is under test."""
        options, usual = options_of(self.settings), self.settings()
        wanted = usual.but(**{name: True for name, info in options.items() if info.annotation is bool})
        full = self.complete(wanted, CastNames(**{self.tested.role: tested}))
        idle = set() if is_model(tested) else set(FrameworkSettings.model_fields)
        idle |= {name for name in options if getattr(full, name) != getattr(wanted, name)}
        return {name: info for name, info in options.items() if name not in idle}

    def check(self, pack: PromptPack, settings: FrameworkSettings, names: CastNames) -> None:
        """Raise ``UsageError`` where the prompts cannot say what the settings ask for, such as pictures."""
        if settings.images:
            check_picture_prompt(pack)

    def read_settings(self, values: Mapping[str, object]) -> FrameworkSettings:
        """Return settings as somebody asks for them; raise ``UsageError`` with one sentence for what cannot be."""
        known = self.settings.model_fields
        for name in values:
            if name not in known:
                owners = [one.name for one in frameworks().values() if name in one.settings.model_fields]
                choose = f", or choose {' or '.join(owners)}" if owners else ""
                raise UsageError(f"{flag_of(name)} does not belong to {self.name}: leave it out{choose}.")
        try:
            return self.settings(**values)
        except ValidationError as error:
            raise UsageError(in_words(error, known)) from error

    def stored_settings(self, values: Mapping[str, object]) -> FrameworkSettings:
        """Return the settings of a stored run, as they were; what is no setting of it any more is left out."""
        kept: dict[str, Any] = {name: value for name, value in values.items() if name in self.settings.model_fields}
        return self.settings.model_construct(**kept)

    def size(self, campaign: Campaign, picture_tokens: float) -> Size:
        """Return what a full campaign asks of models; ``picture_tokens`` come with every call of the one under test."""
        trials = len(campaign.cases) * campaign.trials
        talks = trials if self.talks(campaign.names[self.tested.role], campaign.arms) else 0
        return Size(talks, {})

    def by_rule(self, case: Case, header: RunHeader, seed: int, pack: PromptPack) -> Rules | None:
        """Return what shows what models would be sent in place of a trial's rules, and plays these on that edited.

        Without it, steps played by rule are shown with what was said before them and cannot be edited.
        """
        return None

    def title_of(self, role: str) -> str:
        """Return a role in words."""
        seat = self.seat(role)
        return (seat.title if seat else role.replace("_", " ")).capitalize()


def seating(known: Framework, names: CastNames, registry: Registry, study: StudyCast) -> dict[str, tuple[str, Why]]:
    """Return the role of each seat next to the tested one → the full name of who takes it, and why."""
    tested = full_name(known.tested.title, names[known.tested.role], registry, known.tested.rules)
    return {
        seat.role: seated(seat.role, seat.title, names[seat.role], tested, seat.rules, registry, study.get(seat.role))
        for seat in known.others
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
    return known.get(name or begun) or next((one for one in known.values() if one.reading.recognises(events)), None)


def publisher(measure: str) -> Framework:
    """Return the framework whose publication has figures of a measure; raise ``UsageError`` where there is none."""
    for one in frameworks().values():
        if measure in one.publishes:
            return one
    raise UsageError(f"No framework has published figures of {measure}.")


def released(measure: str) -> Release:
    """Return the results behind the published figures of a measure; raise ``UsageError`` where none were released."""
    found = publisher(measure).release
    if found is None:
        raise UsageError(f"The authors whose figures of {measure} are published have released no results.")
    return found


def default_pack(name_or_folder: str = "") -> PromptPack:
    """Return a pack as the first framework needs it, by default its own.

    Under that answers are graded wherever a framework's pack has no prompts for it.
    """
    return framework().pack(name_or_folder)
