"""Everything that the rules find in one conversation's replies.

A reply is a patient's message after the doctor's first. Kinds and rules: medical terms below, leaks in
``core.measures.patients.leaks``, the rest in ``core.measures.patients.roles``. What experts were asked of the patient:
Johri et al. 2025, Methods. What a patient invents no rule decides: a model judges it (``core.jobs.fact_judge``).

A *medical term* is a term of the lexicon (``core.text.patient_terms``) that the doctor has not said in any form
before; it counts where the patient first uses it, and not where it is part of the diagnosis that is given away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from core.agents.base import Turn
from core.case import Case
from core.measures.patients.leaks import Name, hidden_names, leak_in
from core.measures.patients.roles import broken_in
from core.store.queries.patients import Mark
from core.text.patient_terms import lexicon, lexicon_hash

RULES = "1"
"""Version of the rules; a new one marks every conversation anew."""


def rules_version() -> str:
    """Return what marks are kept under: the version of the rules and the hash of the lexicon."""
    return f"{RULES}:{lexicon_hash()}"


def replies_of(dialogue: Sequence[Turn]) -> list[int]:
    """Return the numbers of the messages in which a patient replies to a doctor."""
    first = next((number for number, turn in enumerate(dialogue) if turn.role == "doctor"), len(dialogue))
    return [number for number, turn in enumerate(dialogue) if turn.role == "patient" and number > first]


def marks_in(case: Case, dialogue: Sequence[Turn]) -> list[Mark]:
    """Return the marks of a conversation in the order of its words."""
    return sorted(_marks(hidden_names(case), dialogue), key=lambda mark: (mark.turn, mark.start, mark.end))


def terms_in(dialogue: Sequence[Turn]) -> list[Mark]:
    """Return the marks of medical terms alone, for a conversation whose case is not known."""
    return [mark for mark in _marks((), dialogue) if mark.kind == "medical_term"]


def _marks(names: Sequence[Name], dialogue: Sequence[Turn]) -> Iterator[Mark]:
    said: set[str] = set()
    open_names, replies, question = list(names), set(replies_of(dialogue)), ""
    for number, turn in enumerate(dialogue):
        if number in replies:
            yield from _marks_of_reply(number, question, turn.text, said, open_names)
        else:
            said |= lexicon().named_in(turn.text)
            question = turn.text if turn.role == "doctor" else question
        lower = turn.text.lower()
        open_names = [name for name in open_names if name.clue not in lower or not name.pattern.search(turn.text)]


def _marks_of_reply(number: int, question: str, text: str, said: set[str], names: Sequence[Name]) -> Iterator[Mark]:
    """Yield what one reply breaks; terms that it holds are added to those said."""
    for broken in broken_in(text, question):
        yield Mark(number, broken.kind, text[broken.start : broken.end], broken.start, broken.end, broken.detail)
    leak = leak_in(text, names)
    if leak is not None:
        yield Mark(number, "leak", text[leak.start : leak.end], leak.start, leak.end, leak.how)
    if not lexicon().named_in(text):
        return
    for term, start, end in lexicon().find(text):
        inside = leak is not None and leak.start <= start and end <= leak.end
        if term.name not in said and not inside:
            yield Mark(number, "medical_term", text[start:end], start, end, term.plain)
        said.add(term.name)
