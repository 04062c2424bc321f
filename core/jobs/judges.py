"""What a model is asked about a patient in one conversation, and how what it says is checked.

*Medical terms*: words that lay persons would not use. *Withheld*: the doctor asked for a fact that the patient could
tell, or for its topic, and the patient denied it, did not know it or did not answer, and told it nowhere. *Invented*: a
statement that the case does not support or that it contradicts. Rules on words were right in 6 of 17 and 22 of 75 of
such marks when they were read, and judge neither.

A finding counts only with its words: a term and an invention stand in the reply that is named, a withheld fact is named
by its id and quoted by the doctor's question before the reply. What is quoted and does not stand there, a fact that the
case does not have or that only examination and tests show, and a message that is no reply, are dropped and counted.
What a model writes is data: JSON is looked for in it, also between other words. What cannot be read is asked for again
with what was wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel

from core.agents.ledger_models import PatientVerdict
from core.asking.ask import Request, quotation, read_json
from core.asking.parts import instruction_part
from core.asking.scene import Dialogue
from core.case import Case
from core.measures.patients.rules import replies_of
from core.prompts import PromptPack, load_pack
from core.store.queries.patient_judgements import JudgedTerm
from core.text.facts import AtomicFact

T = TypeVar("T")


@dataclass(frozen=True)
class Found(Generic[T]):
    """What a model found in a conversation, in order; ``dropped`` findings are not where it says that they are."""

    things: tuple[T, ...] = ()
    dropped: int = 0


class _Named(BaseModel):
    turn: int
    words: str


class _Terms(BaseModel):
    terms: list[_Named]


def terms_pack() -> PromptPack:
    """Load the prompt pack."""
    return load_pack("patients", ("judge",))


def terms_request(pack: PromptPack, dialogue: Dialogue) -> Request[Found[JudgedTerm]]:
    """Return what is asked about a conversation."""
    prompt = instruction_part(pack, "judge", dialogue=shown(dialogue))
    return Request("judge", [prompt], "grader", "judge", lambda text: terms_in(text, dialogue))


def shown(dialogue: Dialogue) -> list[tuple[int | None, str, str]]:
    """Return what a model is shown: messages up to the last reply, and a number where one is to be judged."""
    replies = set(replies_of(dialogue))
    until = max(replies, default=-1) + 1
    return [(n if n in replies else None, turn.role.capitalize(), turn.text) for n, turn in enumerate(dialogue[:until])]


def terms_in(text: str, dialogue: Dialogue) -> Found[JudgedTerm]:
    """Return the terms that a model's text names and that are in the replies; raises ``ValueError`` without JSON."""
    replies = {number: dialogue[number].text for number in replies_of(dialogue)}
    placed = [_placed(one, replies) for one in read_json(text, _Terms).terms]
    terms = dict.fromkeys(term for term in placed if term is not None)
    return Found(tuple(sorted(terms, key=lambda term: (term.turn, term.start, term.end))), placed.count(None))


def _placed(one: _Named, replies: dict[int, str]) -> JudgedTerm | None:
    """Return where the words stand in the reply, as they are written there; ``None`` where they do not."""
    words, reply = one.words.strip(), replies.get(one.turn)
    if not words or reply is None:
        return None
    match = re.search(rf"(?<!\w){re.escape(words)}(?!\w)", reply, re.IGNORECASE)
    return JudgedTerm(one.turn, match[0], match.start(), match.end()) if match else None


class _Withheld(BaseModel):
    fact: str
    turn: int
    question: str


class _Invented(BaseModel):
    turn: int
    words: str
    contradicts: str | None = None


class _Facts(BaseModel):
    withheld: list[_Withheld]
    invented: list[_Invented]


def facts_pack() -> PromptPack:
    """Load the prompt pack."""
    return load_pack("facts", ("patient",))


def facts_request(
    pack: PromptPack, case: Case, facts: Sequence[AtomicFact], dialogue: Dialogue
) -> Request[Found[PatientVerdict]]:
    """Return what is asked about a conversation; messages after the patient's last are not shown."""
    until = max((number for number, turn in enumerate(dialogue) if turn.role == "patient"), default=-1) + 1
    prompt = instruction_part(
        pack,
        "patient",
        case=case.vignette,
        facts=[(fact.id, fact.text) for fact in facts if fact.told],
        shown=[fact.text for fact in facts if not fact.told],
        dialogue=[(number, turn.role.capitalize(), turn.text) for number, turn in enumerate(dialogue[:until])],
    )
    return Request("patient", [prompt], "grader", "judge", lambda text: facts_in(text, facts, dialogue))


def facts_in(text: str, facts: Sequence[AtomicFact], dialogue: Dialogue) -> Found[PatientVerdict]:
    """Return the verdicts of a model's text that hold, by message; raises ``ValueError`` where it cannot be read."""
    told = {fact.id: fact for fact in facts if fact.told}
    said = read_json(text, _Facts)
    placed = [_withheld(one, told, dialogue) for one in said.withheld]
    placed += [_invented(one, {fact.id: fact for fact in facts}, dialogue) for one in said.invented]
    kept = dict.fromkeys(one for one in placed if one is not None)
    return Found(tuple(sorted(kept, key=lambda one: (one.turn, one.kind))), placed.count(None))


def _withheld(one: _Withheld, told: dict[str, AtomicFact], dialogue: Dialogue) -> PatientVerdict | None:
    fact = told.get(one.fact)
    if fact is None or not _is_reply(one.turn, dialogue):
        return None
    before = [turn.text for turn in dialogue[: one.turn] if turn.role == "doctor"]
    words = quotation(one.question, before[-1]) if before else None
    return PatientVerdict("withheld", one.turn, words, fact.id, fact.text) if words else None


def _invented(one: _Invented, facts: dict[str, AtomicFact], dialogue: Dialogue) -> PatientVerdict | None:
    words = quotation(one.words, dialogue[one.turn].text) if _is_reply(one.turn, dialogue) else None
    against = facts.get(one.contradicts or "")
    if words is None:
        return None
    return PatientVerdict("invented", one.turn, words, against.id if against else None, against.text if against else "")


def _is_reply(turn: int, dialogue: Dialogue) -> bool:
    return 0 <= turn < len(dialogue) and dialogue[turn].role == "patient"
