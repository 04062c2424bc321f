"""What a language model says of a conversation: what the patient withheld and invented, and marks beside the rules'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mark = Literal["asked", "volunteered", "never_elicited"]
"""What became of a fact that a patient can tell: told when asked for, told unasked, or never told."""
Fault = Literal["withheld", "invented"]


@dataclass(frozen=True)
class PatientVerdict:
    """One thing that a model says a patient did, with the words that show it; messages count from 0.

    ``turn`` is the patient's reply. An *invented* statement is quoted from it; ``fact`` names what it contradicts, if
    anything. Of a *withheld* fact the doctor's question before it is quoted, and ``fact`` names it. ``fact_text`` is
    the fact in words, as it was when it was judged.
    """

    kind: Fault
    turn: int
    words: str
    fact: str | None = None
    fact_text: str = ""


@dataclass(frozen=True)
class JudgedPatient:
    """A model's judgement of one conversation, under a prompt: what its patient withheld and invented, if anything."""

    judge: str
    prompt_hash: str
    verdicts: tuple[PatientVerdict, ...] = ()
    dropped: int = 0
    """Verdicts that it gave and whose quotation, fact or message is not there: they count as nothing."""

    def of(self, kind: Fault) -> tuple[PatientVerdict, ...]:
        """Return the verdicts of a kind."""
        return tuple(one for one in self.verdicts if one.kind == kind)


@dataclass(frozen=True)
class JudgedFact:
    """What the model says became of a fact: its mark and the turn that told it."""

    id: str
    mark: Mark
    turn: int | None = None


@dataclass(frozen=True)
class Judged:
    """A model's marks of a conversation by fact, and its calls.

    ``unreadable`` says why there are no marks; a model that cannot be read has judged nothing.
    """

    judge: str
    facts: tuple[JudgedFact, ...] = ()
    unreadable: str | None = None
    call_ids: tuple[str, ...] = ()
