"""Asks a model which medical terms a patient uses in one conversation, and checks what it says.

What a model writes is data: JSON is looked for in it, also between other words, and a term counts only where its words
stand, as whole words, in the reply that it names. A reply that cannot be read is asked for again.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from core.agents.base import Dialogue, Said
from core.agents.calls import Voice, call
from core.agents.ledger_models import MAX_ASKS, fault_of
from core.events import Called
from core.metrics.patients.rules import replies_of
from core.models.base import Message
from core.prompts import PromptPack, load_pack
from core.store.patient_judgements import JudgedTerm

PACK = "patients"
_PROMPT, _AGAIN = "judge", "again"


class _Named(BaseModel):
    model_config = ConfigDict(extra="ignore")

    turn: int
    words: str


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore")

    terms: list[_Named]


@dataclass(frozen=True)
class TermsFound:
    """What a model found in a conversation: terms in the order of its words, how many it named that are not there.

    ``unreadable`` says why there is no judgement at all.
    """

    terms: tuple[JudgedTerm, ...] = ()
    dropped: int = 0
    unreadable: str | None = None


def judging_pack(name_or_folder: str = PACK) -> PromptPack:
    """Load the prompt pack."""
    return load_pack(name_or_folder, (_PROMPT, _AGAIN))


async def judge_terms(voice: Voice, pack: PromptPack, dialogue: Dialogue) -> AsyncIterator[Called | TermsFound]:
    """Yield the calls, at most ``MAX_ASKS``, and what was found; raises ``CallFailed`` where the provider fails."""
    messages: list[Message] = [{"role": "user", "content": pack.render(_PROMPT, dialogue=shown(dialogue))}]
    fault = ""
    for _ in range(MAX_ASKS):
        text = ""
        async for item in call(voice, messages, "grader", "judge"):
            if isinstance(item, Called):
                yield item
            elif isinstance(item, Said):
                text = item.text
        try:
            yield found_in(text, dialogue)
            return
        except ValueError as error:  # pydantic's ValidationError is one
            fault = fault_of(error)
        again: list[Message] = [
            {"role": "assistant", "content": text},
            {"role": "user", "content": pack.render(_AGAIN, fault=fault)},
        ]
        messages = messages[:1] + again
    yield TermsFound(unreadable=f"{voice.model.name} gave no readable answer in {MAX_ASKS} tries: {fault}.")


def shown(dialogue: Dialogue) -> list[tuple[int | None, str, str]]:
    """Return what a model is shown: messages up to the last reply, and a number where one is to be judged."""
    replies = set(replies_of(dialogue))
    until = max(replies, default=-1) + 1
    return [(n if n in replies else None, turn.role.capitalize(), turn.text) for n, turn in enumerate(dialogue[:until])]


def found_in(text: str, dialogue: Dialogue) -> TermsFound:
    """Return the terms that a model's text names and that are in the replies; raises ``ValueError`` without JSON."""
    replies = {number: dialogue[number].text for number in replies_of(dialogue)}
    named = _read(text).terms
    placed = [_placed(one, replies) for one in named]
    terms = dict.fromkeys(term for term in placed if term is not None)
    return TermsFound(tuple(sorted(terms, key=lambda term: (term.turn, term.start, term.end))), placed.count(None))


def _read(text: str) -> _Reply:
    """Return the last object of the form that was asked for: what comes before it may be thought aloud."""
    fault: ValueError = ValueError("it holds no JSON object")
    for piece in reversed(list(_objects(text))):
        try:
            return _Reply.model_validate(piece)
        except ValidationError as error:
            fault = error
    raise fault


def _objects(text: str) -> Iterable[object]:
    """Yield the outermost JSON objects of a text."""
    position = text.find("{")
    while position >= 0:
        try:
            piece, position = json.JSONDecoder().raw_decode(text, position)
            yield piece
        except RecursionError:
            raise ValueError("its JSON is nested too deeply") from None
        except json.JSONDecodeError:
            position += 1
        position = text.find("{", position)


def _placed(one: _Named, replies: dict[int, str]) -> JudgedTerm | None:
    """Return where the words stand in the reply, as they are written there; ``None`` where they do not."""
    words, reply = one.words.strip(), replies.get(one.turn)
    if not words or reply is None:
        return None
    match = re.search(rf"(?<!\w){re.escape(words)}(?!\w)", reply, re.IGNORECASE)
    return JudgedTerm(one.turn, match[0], match.start(), match.end()) if match else None
