"""What the attribution of a wrong answer needs of a conversation's facts ledger (``core.metrics.ledger``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.agents.base import Turn
from core.case import Case
from core.metrics.ledger.facts import AtomicFact
from core.metrics.ledger.marks import Ledger, ledger


@dataclass(frozen=True)
class LedgerFacts:
    """The ledger of a conversation in short; turns are numbers of messages, 0 is the greeting.

    ``never``: facts that the patient could tell and that never came up. ``withheld``: turns at which the patient was
    asked for a fact, did not tell it, and never told it later. ``invented`` and ``leaked``: turns at which the patient
    said what the case does not hold (plain denials of what it is silent about are left out), or named the diagnosis.
    ``coverage``: share (0 to 1) of the facts that the patient could tell that came up; 1 where there are none.
    ``turns``: messages in all.
    """

    never: int = 0
    withheld: tuple[int, ...] = ()
    invented: tuple[int, ...] = ()
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
        withheld=tuple(sorted({m.withheld_turn for m in hidden if m.withheld_turn is not None})),
        invented=tuple(sorted({statement.turn for statement in found.invented if not statement.denial})),
        leaked=found.leaked,
        coverage=1 - len(hidden) / len(tellable) if tellable else 1.0,
        turns=found.turns,
    )
