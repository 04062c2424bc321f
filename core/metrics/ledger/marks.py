"""The ledger of a conversation: each fact of a case asked for, volunteered or never elicited, and what was invented.

Rules, all on words and therefore reproducible:

- *asked*: the patient told the fact, and the doctor's question before it asked for it (by name, by topic, or openly for
  symptoms, as the greeting does). *volunteered*: told without that. *never elicited*: not told. The first message that
  tells a fact counts.
- *withheld*: the doctor asked for just this fact, or openly for its topic, and the patient did not know, or denied it
  (``core.metrics.ledger.withheld``). It is a flag beside the mark: a withheld fact may be told later.
- *invented*: a statement of the patient that contradicts a fact, or whose clinical words, values or findings no fact of
  the case holds (``core.metrics.ledger.invented``). Not knowing, thanks and small talk invent nothing.
- *leaked*: the patient names the answer (or a synonym) though the vignette does not.

Which words tell a fact: ``core.metrics.ledger.telling``. Comparable to what CRAFT-MD's experts were asked of the
patient (Johri et al. 2025, Methods: is every answer based on the vignette, is it complete) and to Consultation's recall
of information (Liao et al., section on metrics).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from core.agents.base import Turn
from core.case import Case
from core.knowledge.base import knowledge, words_of_name
from core.metrics.ledger.facts import AtomicFact, facts_of
from core.metrics.ledger.invented import Statement, invented_in
from core.metrics.ledger.matching import Known, Pool, asks_for, pool_of
from core.metrics.ledger.replies import Reply, reply_to, without_notes
from core.metrics.ledger.telling import tells
from core.metrics.ledger.withheld import withholds

Mark = Literal["asked", "volunteered", "never_elicited"]


@dataclass(frozen=True)
class FactMark:
    """What became of one fact: turns count the dialogue's messages from 0, the greeting."""

    fact: AtomicFact
    mark: Mark
    turn: int | None = None
    """The patient's message that told it."""
    question_turn: int | None = None
    """The doctor's message that asked for it; ``None`` where it was volunteered."""
    withheld_turn: int | None = None
    """The first message that withheld it though the doctor asked."""


@dataclass(frozen=True)
class Ledger:
    """All marks of one conversation."""

    case_key: str
    turns: int
    """Messages of the dialogue, both sides."""
    marks: tuple[FactMark, ...]
    invented: tuple[Statement, ...]
    leaked: tuple[int, ...]

    def of(self, fact_id: str) -> FactMark:
        """Return the mark of a fact; ``KeyError`` where the case has none of that id."""
        for mark in self.marks:
            if mark.fact.id == fact_id:
                return mark
        raise KeyError(fact_id)


@dataclass(frozen=True)
class _Exchange:
    turn: int
    question_turn: int | None
    question: str
    text: str
    reply: Reply


def ledger(case: Case, dialogue: Sequence[Turn], facts: Sequence[AtomicFact] | None = None) -> Ledger:
    """Mark every fact of a case on a dialogue; ``facts`` replaces the case's own list."""
    pool = pool_of(case, facts_of(case, facts))
    exchanges = list(_exchanges(dialogue))
    marks = tuple(_mark(known, exchanges, pool) for known in pool.known)
    invented = tuple(s for e in exchanges for s in invented_in(e.turn, e.question, e.text, e.reply, pool))
    names = _hidden_names(case)
    leaked = tuple(e.turn for e in exchanges if _names(e.text, names))
    kept = tuple(s for s in invented if not _names(s.text, names))  # naming the diagnosis is a leak, nothing else
    return Ledger(case.case_key, len(dialogue), marks, kept, leaked)


def _exchanges(dialogue: Sequence[Turn]) -> list[_Exchange]:
    found: list[_Exchange] = []
    question, question_turn = "", None
    for number, turn in enumerate(dialogue):
        if turn.role == "doctor":
            question, question_turn = without_notes(turn.text), number
        else:
            found.append(_Exchange(number, question_turn, question, turn.text, reply_to(question, turn.text)))
    return found


def _mark(known: Known, exchanges: Sequence[_Exchange], pool: Pool) -> FactMark:
    withheld: int | None = None
    for exchange in exchanges:
        if tells(exchange.reply, exchange.question, known, exchange.text, pool.cared_for):
            asked = asks_for(exchange.question, known)
            return FactMark(
                known.fact, "asked" if asked else "volunteered", exchange.turn,
                exchange.question_turn if asked else None, withheld,
            )  # fmt: skip
        if withheld is None and withholds(exchange.reply, exchange.question, known, pool):
            withheld = exchange.turn
    return FactMark(known.fact, "never_elicited", withheld_turn=withheld)


@functools.lru_cache(maxsize=4_096)
def _hidden_names(case: Case) -> tuple[str, ...]:
    """Return the names of the answer that the vignette does not contain, spelt plainly."""
    disease = knowledge().disease(case.answer)
    names = {case.answer, *case.synonyms, *(disease.names if disease else ())}
    vignette = f" {' '.join(words_of_name(case.vignette))} "
    spelt = {" ".join(words_of_name(name)) for name in names}
    return tuple(sorted(name for name in spelt if name and f" {name} " not in vignette))


def _names(text: str, names: Sequence[str]) -> bool:
    words = f" {' '.join(words_of_name(text))} "
    return any(f" {name} " in words or f" {name}s " in words for name in names)
