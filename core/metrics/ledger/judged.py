"""A language model's marks of a conversation, and where they differ from the rules'."""

from __future__ import annotations

from dataclasses import dataclass

from core.metrics.ledger.marks import Ledger, Mark


@dataclass(frozen=True)
class JudgedFact:
    """What the model says became of a fact: its mark and the turn that told it."""

    id: str
    mark: Mark
    turn: int | None = None


@dataclass(frozen=True)
class Judged:
    """A model's reading of a conversation: marks by fact, invented statements by turn, and its calls.

    ``unreadable`` says why there are no marks; a model that cannot be read has judged nothing.
    """

    judge: str
    facts: tuple[JudgedFact, ...] = ()
    invented: tuple[tuple[int, str], ...] = ()
    unreadable: str | None = None
    call_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Disagreement:
    """One point on which rules and model differ: a fact's mark (by id), or an invented statement of a turn."""

    fact_id: str | None
    turn: int | None
    rules: str
    judge: str


def disagreements(of: Ledger, judged: Judged) -> list[Disagreement]:
    """Return where rules and model differ: marks in the order of the facts, then turns with an invention.

    Facts of which the model said nothing count as a difference; turns are compared by whether anything in them was
    invented, plain denials aside. Nothing can differ from an unreadable judgement.
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
    ours = {s.turn for s in of.invented if not s.denial}
    model = {turn for turn, _ in judged.invented}
    for turn in sorted(ours ^ model):
        rules = "invented" if turn in ours else "nothing invented"
        found.append(Disagreement(None, turn, rules, "invented" if turn in model else "nothing invented"))
    return found
