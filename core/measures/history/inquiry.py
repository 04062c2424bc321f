"""A conversation as history taking sees it: the patient's opening words, then queries with their replies.

What counts: a doctor's message before the patient's first one is the greeting and no query. The last message of the
conversation is no query where it is the doctor's and closes (it holds "final diagnosis" or asks nothing); a last
question that nobody answered (a message cap) is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from core.agents.base import Turn
from core.frameworks.conversation import FINAL_DIAGNOSIS


class Exchange(NamedTuple):
    """A query of the doctor and what the patient replied; the reply is empty where none came."""

    query: str
    reply: str


@dataclass(frozen=True)
class Inquiry:
    """``opening`` is the patient's reply to the greeting, or P0; empty where the patient said nothing.

    ``doctor_turns`` counts the doctor's messages after the greeting, a closing one included; ``patient_turns`` all
    messages of the patient.
    """

    opening: str
    exchanges: tuple[Exchange, ...]
    doctor_turns: int
    patient_turns: int

    @property
    def queries(self) -> list[str]:
        """The doctor's queries in order."""
        return [exchange.query for exchange in self.exchanges]


def inquiry_of(dialogue: Sequence[Turn]) -> Inquiry:
    """Return the inquiry of a dialogue."""
    opening: list[str] = []
    exchanges: list[Exchange] = []
    doctor_turns = patient_turns = 0
    for turn in dialogue:
        if turn.role == "patient":
            patient_turns += 1
            if exchanges:
                query, reply = exchanges[-1]
                exchanges[-1] = Exchange(query, f"{reply}\n{turn.text}" if reply else turn.text)
            else:
                opening.append(turn.text)
        elif patient_turns:
            doctor_turns += 1
            exchanges.append(Exchange(turn.text, ""))
    if dialogue and dialogue[-1].role == "doctor" and exchanges and closes(dialogue[-1].text):
        exchanges.pop()
    return Inquiry("\n".join(opening), tuple(exchanges), doctor_turns, patient_turns)


def closes(message: str) -> bool:
    """Say whether a doctor's last message ends the consultation: a diagnosis, or no question at all (CRAFT-MD)."""
    return FINAL_DIAGNOSIS.lower() in message.lower() or "?" not in message
