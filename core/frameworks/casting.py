"""Players of seats by name: a language model, ``reference/…`` (rules), or ``human``; and how players are opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from pydantic import SecretStr

from core.agents.base import Grader
from core.agents.grader import LLMGrader
from core.agents.player import Human, HumanPlayer, Listen, ModelPlayer, Player, PlayerRule, RulePlayer
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
"""The seats with a column in the table of runs; players of other seats are stored with the run's settings."""


REFERENCE = {
    "doctor": ReferenceDoctor.name,
    "patient": ReferencePatient.name,
    "grader": ReferenceGrader.name,
    "summariser": ReferenceSummariser.name,
}
"""The reference kind of each stored seat: rules and the project's knowledge files, no model."""


@dataclass(frozen=True)
class Seat:
    """A role of a framework. ``rules`` are its reference kinds, the default first; if empty, only models can play.

    ``tested`` is the seat of the model under test; ``no_human`` is why a person cannot play it (empty: a person can).
    ``players`` is reference kind → rule that speaks, for frameworks that do not override ``open``; its kinds are
    ``rules`` too.
    """

    role: str
    title: str
    rules: tuple[str, ...] = ()
    tested: bool = False
    no_human: str = ""
    players: Mapping[str, PlayerRule] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", self.rules or tuple(self.players))


GRADER = Seat("grader", "grader", ("reference/names",), no_human="people grade on the page Trust, under Experts")


class CastNames(Mapping[str, str]):
    """Seat → name of its player, full or alias; an empty name is filled by ``full_names``.

    The seats are also attributes. Two casts are equal if they have the same players in the same seats.
    """

    __slots__ = ("_seats",)

    def __init__(
        self, doctor: str = "", patient: str = "", grader: str = "", summariser: str = "", **more: str
    ) -> None:
        names = {"doctor": doctor, "patient": patient, "grader": grader, "summariser": summariser, **more}
        self._seats = {seat: name for seat, name in names.items() if name or seat in STORED_SEATS}

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
        return CastNames(**{**self._seats, **changes})

    @property
    def extra(self) -> dict[str, str]:
        return {seat: name for seat, name in self._seats.items() if seat not in STORED_SEATS}


@dataclass(frozen=True)
class Reach:
    """Address and key of the model of one seat, if they differ from the model's.

    Without an address the model's address is used. Only the key given here is sent to an address given here. Keys are
    never stored: a run stores addresses only.
    """

    address: str | None = None
    key: SecretStr | None = None


@dataclass(frozen=True)
class MissingKey:
    """A model of ``seats`` that cannot be called until ``variable`` is set; ``str`` returns the error message."""

    seats: tuple[str, ...]
    model: str
    variable: str

    def __str__(self) -> str:
        return (
            f"The key for {self.model} is missing: set the environment variable {self.variable}, or put it into "
            f".streamlit/secrets.toml ({', '.join(self.seats)})."
        )


def is_model(name: str) -> bool:
    """Return whether a name is that of a language model, and not of a rule or a human."""
    return name != "human" and not is_rule(name)


def is_rule(name: str) -> bool:
    return name.partition("/")[0] == "reference"


Why = Literal["named", "default", "study", "own", "usual"]
"""The source of a seat's player: user, ``[defaults]``, cast of the study, the tested model itself, or default rule."""


@dataclass(frozen=True)
class StudySeat:
    """The player of a seat in an earlier run of the same study: full name and address.

    ``doctor`` is the tested model of that run. ``problem`` is why the model cannot be called now; empty if it can.
    """

    name: str
    run_id: str
    doctor: str
    address: str | None = None
    problem: str = ""


StudyCast = Mapping[str, StudySeat]
"""Seat → its player in the study so far."""


def seated(
    seat: str,
    title: str,
    name: str,
    tested: str,
    rules: Sequence[str],
    registry: Registry,
    study: StudySeat | None = None,
) -> tuple[str, Why]:
    """Return the full name of the player of a seat other than the tested one, and the source of the name.

    If the tested player (``tested``, a full name) is a rule, the other seats default to the reference cast. If it is a
    model, they default to the ``[defaults]`` of the models files, else to the cast of the ``study``, else to the model
    itself. If it is a human or an application (which can only be a doctor), they default to ``[defaults]``, else to the
    reference cast. ``rules`` are the seat's reference kinds, the default first; without any, a model must be named.
    """
    why: Why = "named"
    if not name and not is_rule(tested):
        name, why = registry.default(seat) or "", "default"
        if not name and is_model(tested) and not registry.spec(tested).is_application:
            name, why = (study.name, "study") if study is not None and not study.problem else (tested, "own")
    if not name:
        name, why = rules[0] if rules else "", "usual"
    return full_name(title, name, registry, rules), why


def full_name(title: str, name: str, registry: Registry, rules: Sequence[str]) -> str:
    """Return the full name of a player; raise ``UsageError`` for an unknown name."""
    if not name:
        raise UsageError(f"Nobody plays the {title}: name a model.")
    if is_model(name):
        return registry.spec(name).name
    if name == "human":
        return name
    if name not in ("reference", *rules):
        if not rules:
            raise UsageError(f"There is no {name!r} for the {title}: it has no reference kind, so name a model.")
        hint = f"the reference kind is called {rules[0]}" if len(rules) == 1 else f"choose one of {', '.join(rules)}"
        raise UsageError(f"There is no {name!r} for the {title}: {hint}.")
    return rules[0] if name == "reference" else name


@dataclass(frozen=True)
class Casting:
    """Opens players: the registry of models, the prompt pack, and how models are sampled and reached."""

    registry: Registry
    pack: PromptPack
    sampling: Sampling = field(default=Sampling())
    """Sampling of the tested model."""
    base_url: str | None = None
    own_address: frozenset[str] = frozenset()
    """Seats whose models are called at the address of the models files instead of ``base_url``."""
    reach: Mapping[str, Reach] = field(default_factory=dict)
    """Seat → address and key, for seats that have their own."""
    listen: Listen | None = None
    """Waits for the message of a person; ``None`` if no person can play."""
    grading: PromptPack | None = None
    """The prompts of the grader, if they are not in the pack."""

    def voice(self, seat: str, name: str, sampling: Sampling | None = None) -> Voice:
        """Return the voice of a model in a seat; raise ``UsageError`` if its key is missing."""
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
        """Return the player of a seat by name: ``model`` of the voice, ``person`` of the human, or ``rule``.

        Raises ``UsageError`` for a human if no person can play.
        """
        if name == "human":
            if self.listen is None:
                raise UsageError("A human can play only on the Live page: a campaign cannot wait for a person.")
            return person(Human(role, self.listen))
        return model(self.voice(role, name, sampling)) if is_model(name) else rule()

    def player(self, role: Speaker, name: str, rules: Mapping[str, PlayerRule], tested: bool) -> Player:
        """Return a player for any seat; ``rules`` is reference kind → rule; ``tested`` uses the casting's sampling."""
        return self.filled(
            role,
            name,
            lambda voice: ModelPlayer(role, voice, self.pack),
            HumanPlayer,
            lambda: RulePlayer(role, name, rules[name]),
            None if tested else Sampling(),
        )

    def grader(self, name: str) -> Grader:
        """Return a grader by name; the doctor's sampling does not apply to it."""
        return self.graders(name)()

    def graders(self, name: str) -> Callable[[], Grader]:
        """Return a function that makes graders of this name; each grader has a separate memory of verdicts."""
        if not is_model(name):
            return ReferenceGrader
        voice, pack = self.voice("grader", name, Sampling(temperature=0.0)), self.grading or self.pack
        return lambda: LLMGrader(voice, pack)
