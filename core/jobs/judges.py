"""Requests that judge the patient of one conversation, and the checks of their replies.

*Medical terms*: words that lay persons would not use. *Facts*: for each fact that the patient could tell, whether it
was asked for, volunteered or withheld; and what the patient invented. No rule judges facts: on hand-read examples,
rules on words were right in 26 of 78 *never elicited*, 6 of 17 *withheld* and 22 of 75 *invented* marks.

A finding counts only with a quotation. A quoted term or invention that is not in the named message is dropped and
counted. Every fact needs a mark, with a quotation from the reply that tells it or from the question after which it was
withheld; otherwise the request is repeated with the error, as for a reply without JSON. JSON is also found between
other words of a reply.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel

from core.agents.ledger_models import FactMark, PatientVerdict
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
    """The findings of a model in a conversation, in order; ``dropped`` counts findings without a valid quotation."""

    things: tuple[T, ...] = ()
    dropped: int = 0


class _Named(BaseModel):
    turn: int
    words: str


class _Terms(BaseModel):
    terms: list[_Named]


def terms_pack() -> PromptPack:
    return load_pack("patients", ("judge",))


def terms_request(pack: PromptPack, dialogue: Dialogue) -> Request[Found[JudgedTerm]]:
    prompt = instruction_part(pack, "judge", dialogue=shown(dialogue))
    return Request("judge", [prompt], "grader", "judge", lambda text: terms_in(text, dialogue))


def shown(dialogue: Dialogue) -> list[tuple[int | None, str, str]]:
    """Return (number, role, text) of the messages up to the last reply; only messages to judge have a number."""
    replies = set(replies_of(dialogue))
    until = max(replies, default=-1) + 1
    return [(n if n in replies else None, turn.role.capitalize(), turn.text) for n, turn in enumerate(dialogue[:until])]


def terms_in(text: str, dialogue: Dialogue) -> Found[JudgedTerm]:
    """Return the terms of a model's reply that occur in the patient's messages; raise ``ValueError`` without JSON."""
    replies = {number: dialogue[number].text for number in replies_of(dialogue)}
    placed = [_placed(term, replies) for term in read_json(text, _Terms).terms]
    terms = dict.fromkeys(term for term in placed if term is not None)
    return Found(tuple(sorted(terms, key=lambda term: (term.turn, term.start, term.end))), placed.count(None))


def _placed(term: _Named, replies: dict[int, str]) -> JudgedTerm | None:
    """Return the position and spelling of the words in the patient's message; ``None`` if they are not in it."""
    words, reply = term.words.strip(), replies.get(term.turn)
    if not words or reply is None:
        return None
    match = re.search(rf"(?<!\w){re.escape(words)}(?!\w)", reply, re.IGNORECASE)
    return JudgedTerm(term.turn, match[0], match.start(), match.end()) if match else None


class _MarkedFact(BaseModel):
    id: str
    turn: int | None = None
    words: str | None = None
    mark: FactMark


class _Invented(BaseModel):
    turn: int
    words: str
    contradicts: str | None = None


class _Facts(BaseModel):
    facts: list[_MarkedFact]
    invented: list[_Invented]


def facts_pack() -> PromptPack:
    return load_pack("facts", ("patient",))


def facts_request(
    pack: PromptPack, case: Case, facts: Sequence[AtomicFact], dialogue: Dialogue
) -> Request[Found[PatientVerdict]]:
    """Return the request about a conversation up to the patient's last message."""
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
    """Return the marks in the order of the facts, then the inventions by message.

    Raises ``ValueError`` if the text cannot be read, a fact is not marked once, or a mark's quotation is not there.
    """
    facts_by_id = {fact.id: fact for fact in facts if fact.told}
    judged = read_json(text, _Facts)
    marked = {fact.id: fact for fact in judged.facts}
    if marked.keys() != facts_by_id.keys() or len(marked) != len(judged.facts):
        wrong = ", ".join(sorted(marked.keys() ^ facts_by_id.keys())) or "one is there twice"
        raise ValueError(f"it does not mark every fact once ({wrong})")
    marks = [_marked(marked[fact.id], fact, dialogue) for fact in facts_by_id.values()]
    by_id = {fact.id: fact for fact in facts}
    placed = [_invented(invention, by_id, dialogue) for invention in judged.invented]
    inventions = dict.fromkeys(verdict for verdict in placed if verdict is not None)
    return Found((*marks, *sorted(inventions, key=lambda verdict: verdict.turn or 0)), placed.count(None))


def _marked(marked: _MarkedFact, fact: AtomicFact, dialogue: Dialogue) -> PatientVerdict:
    if marked.mark == "never_asked":
        return PatientVerdict("never_asked", None, "", fact.id, fact.text, fact.topic)
    turn = marked.turn
    if turn is None or not _is_reply(turn, dialogue):
        raise ValueError(f"for the fact {fact.id} it names no message of the patient")
    place = turn
    if marked.mark == "withheld":
        place = max((n for n in range(turn) if dialogue[n].role == "doctor"), default=turn)
    words = quoted_words(marked.words or "", dialogue[place].text)
    if words is None:
        raise ValueError(f"the words of the fact {fact.id} do not stand in message {place}: copy them from it")
    if marked.mark == "withheld" and dialogue[place].scripted:
        raise ValueError(f"the greeting does not ask for the fact {fact.id}, so that it is not withheld")
    return PatientVerdict(marked.mark, turn, words, fact.id, fact.text, fact.topic)


def quoted_words(words: str, message: str) -> str | None:
    """Return the words as the message spells them; a bare "No" is a quotation only if it is the whole message."""
    trimmed = message.strip(_TRIM)
    return trimmed if words.strip(_TRIM).lower() == trimmed.lower() != "" else quotation(words, message)


_TRIM = " \n\"'“”.,!"


def _invented(invention: _Invented, facts: dict[str, AtomicFact], dialogue: Dialogue) -> PatientVerdict | None:
    is_spoken = _is_reply(invention.turn, dialogue) and not dialogue[invention.turn].scripted
    words = quotation(invention.words, dialogue[invention.turn].text) if is_spoken else None
    against = facts.get(invention.contradicts or "")
    if words is None:
        return None
    return PatientVerdict(
        "invented", invention.turn, words, against.id if against else None, against.text if against else ""
    )


def _is_reply(turn: int, dialogue: Dialogue) -> bool:
    return 0 <= turn < len(dialogue) and dialogue[turn].role == "patient"
