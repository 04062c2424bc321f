"""The ledger of a conversation: each fact of a case asked for, volunteered or never elicited, and leaks.

Rules, all on words and therefore reproducible:

- *asked*: the patient told the fact, and the doctor's question before it asked for it (by name, by topic, or openly for
  symptoms, as the greeting does). *volunteered*: told without that. *never elicited*: not told. The first message that
  tells a fact counts. How often these are right: ``MEASURED``.
- A fact that never came up may have been asked for: the first question that names it, or asks for its topic alone, is
  kept with it. Whether the patient withheld it then is not decided here, nor what the patient invented: rules on words
  were right too seldom, and a model judges both (``core.jobs.judges``).
- *leaked*: the patient names the answer (or a synonym) though the vignette does not.

Which words tell a fact: ``core.measures.ledger.replies``. Comparable to Liao et al.'s share of information
uncovered (Liao et al., arXiv 2309.02077, metrics), which counts words; here facts are counted.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from core.agents.ledger_models import Judged, Mark
from core.asking.scene import Turn
from core.case import Case
from core.knowledge.base import knowledge, words_of_name
from core.measures.ledger.replies import Reply, reply_to, tells, without_notes
from core.text.facts import AtomicFact
from core.text.matching import Known, Pool, asks_by_name, asks_for, pool_of


@dataclass(frozen=True)
class Measured:
    """How the rules for a mark did on marks by hand: ``right`` of the ``by_hand`` ones found, and of ``by_rule``."""

    right: int
    by_hand: int
    by_rule: int

    @property
    def recall(self) -> float:
        """Share (0 to 1) of what people mark so that the rules find."""
        return self.right / self.by_hand

    @property
    def precision(self) -> float:
        """Share (0 to 1) of what the rules mark so that people do too."""
        return self.right / self.by_rule


MEASURED: dict[Mark, Measured] = {
    "asked": Measured(37, 98, 41),
    "volunteered": Measured(3, 6, 16),
    "never_elicited": Measured(26, 31, 78),
}
"""On the 135 facts that a patient can tell of eight held-out dialogues, which no rule was made for; tests measure anew.

Their patients avoid the vignette's words on purpose, so that talk of models is easier. Who volunteered a fact and who
was asked is the weaker half: 52 of the 57 facts that the rules say were told were told.
"""


@dataclass(frozen=True)
class FactMark:
    """What became of one fact: turns count the dialogue's messages from 0, the greeting."""

    fact: AtomicFact
    mark: Mark
    turn: int | None = None
    """The patient's message that told it."""
    question_turn: int | None = None
    """The doctor's message that asked for it; of a fact that never came up, the first that asked for just this.

    ``None`` where it was volunteered, or never came up and nobody asked for it.
    """


@dataclass(frozen=True)
class Ledger:
    """All marks of one conversation."""

    case_key: str
    turns: int
    """Messages of the dialogue, both sides."""
    marks: tuple[FactMark, ...]
    leaked: tuple[int, ...]


@dataclass(frozen=True)
class _Exchange:
    turn: int
    question_turn: int | None
    question: str
    text: str
    reply: Reply


def ledger(case: Case, dialogue: Sequence[Turn], facts: Sequence[AtomicFact] | None = None) -> Ledger:
    """Mark every fact of a case on a dialogue; ``facts`` replaces the case's own list."""
    pool = pool_of(case, None if facts is None else tuple(facts))
    exchanges: list[_Exchange] = []
    question, question_turn = "", None
    for number, turn in enumerate(dialogue):
        if turn.role == "doctor":
            question, question_turn = without_notes(turn.text), number
        else:
            exchanges.append(_Exchange(number, question_turn, question, turn.text, reply_to(question, turn.text)))
    marks = tuple(_mark(known, exchanges, pool) for known in pool.known)
    names = _hidden_names(case)
    return Ledger(case.case_key, len(dialogue), marks, tuple(e.turn for e in exchanges if _names(e.text, names)))


def _mark(known: Known, exchanges: Sequence[_Exchange], pool: Pool) -> FactMark:
    for exchange in exchanges:
        if tells(exchange.reply, exchange.question, known, exchange.text, pool.cared_for):
            asked = asks_for(exchange.question, known)
            return FactMark(
                known.fact,
                "asked" if asked else "volunteered",
                exchange.turn,
                exchange.question_turn if asked else None,
            )
    named = (exchange.question_turn for exchange in exchanges if asks_by_name(exchange.question, known))
    return FactMark(known.fact, "never_elicited", question_turn=next(named, None))


@functools.lru_cache(maxsize=4_096)
def _hidden_names(case: Case) -> tuple[str, ...]:
    """Return the names of the answer that the vignette does not contain, spelt plainly."""
    disease = knowledge().disease(case.answer)
    names = {case.answer, *case.synonyms, *(disease.names if disease else ())}
    vignette = f" {' '.join(words_of_name(case.vignette))} "
    spelt = {" ".join(words_of_name(name)) for name in names}
    return tuple(sorted(name for name in spelt if name and f" {name} " not in vignette))


def _names(text: str, names: Sequence[str]) -> bool:
    words = f" {' '.join(words_of_name(text))} " if names else ""
    return any(f" {name} " in words or f" {name}s " in words for name in names)


@dataclass(frozen=True)
class Disagreement:
    """One fact, by id, on which rules and model differ."""

    fact_id: str
    turn: int | None
    rules: str
    judge: str


def disagreements(of: Ledger, judged: Judged) -> list[Disagreement]:
    """Return where rules and model differ, in the order of the facts.

    Facts of which the model said nothing count as a difference. Nothing can differ from an unreadable judgement.
    """
    if judged.unreadable is not None:
        return []
    said = {fact.id: fact for fact in judged.facts}
    found = []
    for mark in of.marks:
        theirs = said.get(mark.fact.id)
        if theirs is None or theirs.mark != mark.mark:
            turn = mark.turn if mark.turn is not None else theirs.turn if theirs else None
            found.append(Disagreement(mark.fact.id, turn, mark.mark, theirs.mark if theirs else "no mark"))
    return found


def coverage(of: Ledger) -> list[tuple[int, float]]:
    """Return (turn, share of the facts told up to it), one point a message; empty where there is no fact.

    Without what only examination and tests show.
    """
    turns = [mark.turn for mark in of.marks if mark.fact.told]
    if not turns:
        return []
    told = [turn for turn in turns if turn is not None]
    return [(number, sum(turn <= number for turn in told) / len(turns)) for number in range(of.turns)]


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
