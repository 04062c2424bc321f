"""Doctors of the Consultation benchmark that need no model: oracle, bounds, and the reference doctor (Liao et al.).

The oracle is told which items there are, never what they say, and asks about each in turn. The bounds hold no
conversation: the solver is shown all of M (upper) or the patient's opening words alone (lower).
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal

from core.agents.base import Dialogue, Said, Saying, Scene, Turn, token
from core.agents.reference.doctor import ReferenceDoctor
from core.text.case_items import ORDERS, Order, ordered

QUESTION = "What about {key}?"
CLOSING = "Thank you, that is all I need to know."
"""What the oracle says when every item has been asked for; it holds no question."""


@dataclass(frozen=True)
class OracleDoctor:
    """Asks about every item of a case, one a message."""

    order: Order

    @property
    def name(self) -> str:
        """Full name under which it is stored."""
        return f"reference/oracle-{self.order}"

    def about(self, keys: Sequence[str]) -> OracleInquiry:
        """Return the oracle as it asks about the items of one case."""
        return OracleInquiry(self, tuple(keys))


@dataclass(frozen=True)
class OracleInquiry:
    """The oracle with the keys of one case."""

    oracle: OracleDoctor
    keys: tuple[str, ...]

    @property
    def name(self) -> str:
        """Full name under which it is stored."""
        return self.oracle.name

    async def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Ask about the next item, or close where none is left."""
        asked = sum(turn.role == "doctor" for turn in dialogue)
        keys = ordered(self.keys, self.oracle.order, random.Random(f"{scene.seed}:oracle"))
        text = QUESTION.format(key=keys[asked]) if asked < len(keys) else CLOSING
        yield token("doctor", "dialogue", text)
        yield Said(text)

    def differential(self, scene: Scene, dialogue: Dialogue) -> None:
        """Return nothing: the oracle believes nothing."""


@dataclass(frozen=True)
class Bound:
    """No doctor: the solver sees all of M (``upper``), or the opening request only (``lower``)."""

    side: Literal["upper", "lower"]

    @property
    def name(self) -> str:
        """Full name under which it is stored."""
        return f"reference/{self.side}-bound"


class ReferenceInquirer:
    """The reference doctor, which takes every message of a patient for the reply to a question."""

    name = ReferenceDoctor.name

    def __init__(self, doctor: ReferenceDoctor | None = None) -> None:
        self._doctor = doctor or ReferenceDoctor()

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Ask the next question, or conclude."""
        return self._doctor.ask(scene, greeted(dialogue))

    def differential(self, scene: Scene, dialogue: Dialogue) -> tuple[tuple[str, float], ...]:
        """Return the five likeliest diseases after the dialogue."""
        return self._doctor.differential(scene, greeted(dialogue))


def greeted(dialogue: Dialogue) -> Dialogue:
    """Return the dialogue with a greeting before the patient's opening words, as the reference doctor reads it."""
    return (_GREETING, *dialogue) if dialogue and dialogue[0].role == "patient" else dialogue


_GREETING = Turn("doctor", "Hello, what symptoms bring you in today?")

_WITHOUT_MODEL: tuple[OracleDoctor | Bound, ...] = (*map(OracleDoctor, ORDERS), Bound("upper"), Bound("lower"))
BY_NAME = {doctor.name: doctor for doctor in _WITHOUT_MODEL}
"""Oracle and bounds by their full names."""
