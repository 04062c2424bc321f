"""What the attribution of a wrong answer needs of a conversation's facts ledger (``core.measures.ledger``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.agents.base import Turn
from core.case import Case
from core.measures.ledger.marks import Ledger, ledger
from core.text.facts import AtomicFact


@dataclass(frozen=True)
class LedgerFacts:
    """The ledger of a conversation in short; turns are numbers of messages, 0 is the greeting.

    ``never``: facts that the patient could tell and that never came up; ``unasked`` of them no question asked for,
    neither by name nor by their topic alone. ``leaked``: turns at which the patient named the diagnosis. ``coverage``:
    share (0 to 1) of the facts that the patient could tell that came up; 1 where there are none. ``turns``: messages in
    all.
    """

    never: int = 0
    unasked: int = 0
    leaked: tuple[int, ...] = ()
    coverage: float = 1.0
    turns: int = 0


def ledger_facts(case: Case, dialogue: Sequence[Turn], facts: Sequence[AtomicFact] | None = None) -> LedgerFacts:
    """Return what the attribution needs of a dialogue; ``facts`` replaces the case's own list."""
    return in_short(ledger(case, dialogue, facts))


def in_short(found: Ledger) -> LedgerFacts:
    """Return what the attribution needs of a ledger."""
    tellable = [mark for mark in found.marks if mark.fact.told]
    hidden = [mark for mark in tellable if mark.mark == "never_elicited"]
    return LedgerFacts(
        never=len(hidden),
        unasked=sum(mark.question_turn is None for mark in hidden),
        leaked=found.leaked,
        coverage=1 - len(hidden) / len(tellable) if tellable else 1.0,
        turns=found.turns,
    )
