"""Who sits where, by name: a language model, ``reference/…`` (rules), or ``human``; and how such players are opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from pydantic import SecretStr

from core.agents.base import Grader
from core.agents.grader import LLMGrader
from core.agents.player import Human, HumanPlayer, Listen, ModelPlayer, Player, Rule, RulePlayer
from core.agents.reference.doctor import ReferenceDoctor
from core.agents.reference.grader import ReferenceGrader, ReferenceSummariser
from core.agents.reference.patient import ReferencePatient
from core.asking.calls import Voice
from core.errors import UsageError
from core.events import Speaker
from core.models.base import Sampling
from core.models.keys import find_key, seat_variable
from core.models.registry import Registry
from core.prompts import PromptPack

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
STORED_SEATS = ("doctor", "patient", "grader", "summariser")
"""The seats that every stored run has a column for; who sits elsewhere is kept with the run's settings."""


REFERENCE = {
    "doctor": ReferenceDoctor.name,
    "patient": ReferencePatient.name,
    "grader": ReferenceGrader.name,
    "summariser": ReferenceSummariser.name,
}
"""The reference kind of each stored seat: rules and the project's own knowledge, no model."""


@dataclass(frozen=True)
class Seat:
    """A role of a framework. ``rules`` are its reference kinds, the usual one first; empty: only models sit there.

    ``tested`` is the seat of the model under test, ``no_human`` why a person cannot sit there (empty: one can).
    ``players`` are reference kind → what it says, for a framework that ``open`` opens by itself; they are ``rules``
    too.
    """

    role: str
    title: str
    rules: tuple[str, ...] = ()
    tested: bool = False
    no_human: str = ""
    players: Mapping[str, Rule] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", self.rules or tuple(self.players))


GRADER = Seat("grader", "grader", ("reference/names",), no_human="people grade on the page Judges, under Experts")


class CastNames(Mapping[str, str]):
    """Seat → name of who sits there, full or alias; a seat that nobody named is empty (``full_names`` fills it).

    The seats are also attributes. Two casts are equal where the same seats are taken by the same players.
    """

    __slots__ = ("_seats",)

    def __init__(
        self, doctor: str = "", patient: str = "", grader: str = "", summariser: str = "", **more: str
    ) -> None:
        named = {"doctor": doctor, "patient": patient, "grader": grader, "summariser": summariser, **more}
        self._seats = {seat: name for seat, name in named.items() if name or seat in STORED_SEATS}

    def __getitem__(self, seat: str) -> str:
        return self._seats.get(seat, "")

    def __getattr__(self, seat: str) -> str:
        if seat.startswith("_"):
            raise AttributeError(seat)
        return self[seat]

    def __iter__(self) -> Iterator[str]:
        return iter(self._seats)

    def __len__(self) -> int:
        return len(self._seats)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CastNames) and self._seats == other._seats

    def __hash__(self) -> int:
        return hash(frozenset(self._seats.items()))

    def __repr__(self) -> str:
        return f"CastNames({', '.join(f'{seat}={name!r}' for seat, name in self._seats.items() if name)})"

    def but(self, **changes: str) -> CastNames:
        """Return the cast with other players in some seats."""
        return CastNames(**{**self._seats, **changes})

    @property
    def extra(self) -> dict[str, str]:
        """Those who sit where a stored run has no column of its own."""
        return {seat: name for seat, name in self._seats.items() if seat not in STORED_SEATS}


@dataclass(frozen=True)
class Reach:
    """How the model of one seat is reached, where that is said for this seat alone.

    Without an address it is the model's own. At an address that is given here no other key is sent than the one given
    here. The key is nowhere stored: a run keeps addresses only.
    """

    address: str | None = None
    key: SecretStr | None = None


@dataclass(frozen=True)
class MissingKey:
    """A model that cannot be asked from ``seats`` until ``variable`` is set; as text it is a sentence that says so."""

    seats: tuple[str, ...]
    model: str
    variable: str

    def __str__(self) -> str:
        return (
            f"The key for {self.model} is missing: set the environment variable {self.variable}, or put it into "
            f".streamlit/secrets.toml ({', '.join(self.seats)})."
        )


def is_model(name: str) -> bool:
    """Say whether a name stands for a language model (and not for the reference cast or a human)."""
    return name != "human" and not is_rule(name)


def is_rule(name: str) -> bool:
    """Say whether a name stands for a player by rule."""
    return name.partition("/")[0] == "reference"


Why = Literal["named", "default", "study", "own", "usual"]
"""Why somebody sits in a seat: named, ``[defaults]``, the cast of the study, the doctor's own model, the usual rule."""


@dataclass(frozen=True)
class StudySeat:
    """Who sat in a seat of an earlier run of the same study: the full name, and where its model was reached.

    ``doctor`` is who was tested in that run. ``problem`` says why the model cannot be asked now; empty if it can.
    """

    name: str
    run_id: str
    doctor: str
    address: str | None = None
    problem: str = ""


StudyCast = Mapping[str, StudySeat]
"""Seat → who sat there in the study so far."""


def seated(
    seat: str,
    title: str,
    named: str,
    tested: str,
    rules: Sequence[str],
    registry: Registry,
    study: StudySeat | None = None,
) -> tuple[str, Why]:
    """Return the full name of who sits next to the one under test (a full name), and why.

    A player by rule has the reference cast next to it. A model has the models files' ``[defaults]``, else the cast of
    the ``study``, else itself. A human, who is nobody's model, and an application, which is a doctor only, have the
    defaults too, else the reference cast. ``rules`` are the seat's reference kinds, the usual one first; without any, a
    model must be named.
    """
    name: str = named
    why: Why = "named"
    if not name and not is_rule(tested):
        name, why = registry.default(seat) or "", "default"
        if not name and is_model(tested) and not registry.spec(tested).is_application:
            taken = study is not None and not study.problem
            name, why = (study.name, "study") if study is not None and taken else (tested, "own")
    if not name:
        name, why = rules[0] if rules else "", "usual"
    return full_name(title, name, registry, rules), why


def full_name(title: str, name: str, registry: Registry, rules: Sequence[str]) -> str:
    """Return the full name of who sits in a seat; raise ``UsageError`` for an unknown one."""
    if not name:
        raise UsageError(f"Nobody sits in the {title}'s seat: name a model.")
    if is_model(name):
        return registry.spec(name).name
    if name == "human":
        return name
    if name not in ("reference", *rules):
        if not rules:
            raise UsageError(f"There is no {name!r} for the {title}: it has no reference kind, so name a model.")
        known = f"the reference kind is called {rules[0]}" if len(rules) == 1 else f"choose one of {', '.join(rules)}"
        raise UsageError(f"There is no {name!r} for the {title}: {known}.")
    return rules[0] if name == "reference" else name


@dataclass(frozen=True)
class Casting:
    """Opens players: the registry of models, the prompt pack, and how models are sampled and reached."""

    registry: Registry
    pack: PromptPack
    sampling: Sampling = field(default=Sampling())
    """Of the one under test."""
    base_url: str | None = None
    own_address: frozenset[str] = frozenset()
    """Seats whose models are reached where the models files say, and not at ``base_url``."""
    reach: Mapping[str, Reach] = field(default_factory=dict)
    """Seats of which it is said apart how their models are reached."""
    listen: Listen | None = None
    """Waits for what a person says; ``None`` where nobody is there."""
    grading: PromptPack | None = None
    """The prompts of the grader, where they are not the pack's."""

    def voice(self, seat: str, name: str, sampling: Sampling | None = None) -> Voice:
        """Return a model as it speaks from a seat; raise ``UsageError`` where its key is missing."""
        base_url, reach = None if seat in self.own_address else self.base_url, self.reach.get(seat, Reach())
        model = self.registry.open(
            name,
            base_url=reach.address or base_url,
            key=reach.key or find_key(seat_variable(seat)),
            find_key=not reach.address,
        )
        return Voice(model, self.sampling if sampling is None else sampling)

    def filled(
        self,
        role: Speaker,
        name: str,
        model: Callable[[Voice], A],
        person: Callable[[Human], B],
        rule: Callable[[], C],
        sampling: Sampling | None = None,
    ) -> A | B | C:
        """Return who plays a seat by name: what is made of a model's voice or of a human, or who plays by rule.

        Raises ``UsageError`` for a human where nobody could answer.
        """
        if name == "human":
            if self.listen is None:
                raise UsageError("A human's seat needs the Live page: a campaign cannot wait for one.")
            return person(Human(role, self.listen))
        return model(self.voice(role, name, sampling)) if is_model(name) else rule()

    def player(self, role: Speaker, name: str, rules: Mapping[str, Rule], tested: bool) -> Player:
        """Return a player for any seat; ``rules`` are reference kind → rule, ``tested`` samples as was asked for."""
        return self.filled(
            role,
            name,
            lambda voice: ModelPlayer(role, voice, self.pack),
            HumanPlayer,
            lambda: RulePlayer(role, name, rules[name]),
            None if tested else Sampling(),
        )

    def grader(self, name: str) -> Grader:
        """Return a grader by name, with the provider's own sampling: the doctor's settings are not the judge's."""
        return self.graders(name)()

    def graders(self, name: str) -> Callable[[], Grader]:
        """Return what makes graders of one name that know nothing of each other's verdicts."""
        if not is_model(name):
            return ReferenceGrader
        voice, pack = self.voice("grader", name, Sampling(temperature=0.0)), self.grading or self.pack
        return lambda: LLMGrader(voice, pack)
