"""Asks a model which medical terms a patient uses in one conversation, and checks what it says.

A term counts only where its words stand, as whole words, in the reply that it names.
"""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict

from core.agents.base import Dialogue
from core.jobs.judging import Found, Task, last_object
from core.measures.patients.rules import replies_of
from core.prompts import PromptPack, load_pack
from core.store.queries.patients import JudgedTerm

PACK = "patients"
_PROMPT, _AGAIN = "judge", "again"


class _Named(BaseModel):
    model_config = ConfigDict(extra="ignore")

    turn: int
    words: str


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore")

    terms: list[_Named]


def judging_pack(name_or_folder: str = PACK) -> PromptPack:
    """Load the prompt pack."""
    return load_pack(name_or_folder, (_PROMPT, _AGAIN))


def task_of(pack: PromptPack, trial_id: str, dialogue: Dialogue) -> Task[JudgedTerm]:
    """Return what is asked about a conversation."""
    return Task(trial_id, pack.render(_PROMPT, dialogue=shown(dialogue)), lambda text: found_in(text, dialogue))


def shown(dialogue: Dialogue) -> list[tuple[int | None, str, str]]:
    """Return what a model is shown: messages up to the last reply, and a number where one is to be judged."""
    replies = set(replies_of(dialogue))
    until = max(replies, default=-1) + 1
    return [(n if n in replies else None, turn.role.capitalize(), turn.text) for n, turn in enumerate(dialogue[:until])]


def found_in(text: str, dialogue: Dialogue) -> Found[JudgedTerm]:
    """Return the terms that a model's text names and that are in the replies; raises ``ValueError`` without JSON."""
    replies = {number: dialogue[number].text for number in replies_of(dialogue)}
    placed = [_placed(one, replies) for one in last_object(text, _Reply).terms]
    terms = dict.fromkeys(term for term in placed if term is not None)
    return Found(tuple(sorted(terms, key=lambda term: (term.turn, term.start, term.end))), placed.count(None))


def _placed(one: _Named, replies: dict[int, str]) -> JudgedTerm | None:
    """Return where the words stand in the reply, as they are written there; ``None`` where they do not."""
    words, reply = one.words.strip(), replies.get(one.turn)
    if not words or reply is None:
        return None
    match = re.search(rf"(?<!\w){re.escape(words)}(?!\w)", reply, re.IGNORECASE)
    return JudgedTerm(one.turn, match[0], match.start(), match.end()) if match else None
