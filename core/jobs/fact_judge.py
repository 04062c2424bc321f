"""Asks a model what a patient withheld and invented in one conversation, and checks what it says.

*Withheld*: the doctor asked for a fact that the patient could tell, or for its topic, and the patient denied it, did
not know it or did not answer, and told it nowhere. *Invented*: a statement that the case does not support or that it
contradicts. Rules on words were right in 6 of 17 and 22 of 75 of such marks when they were read, and judge neither.

A verdict counts only with its words: an invention is quoted from the patient's reply, a withheld fact is named by its
id and quoted by the doctor's question before the reply. What is quoted and does not stand there, a fact that the case
does not have or that only examination and tests show, and a message that is no reply, are dropped and counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from core.agents.base import Dialogue
from core.case import Case
from core.jobs.judging import Found, Task, last_object
from core.prompts import PromptPack, load_pack
from core.text.facts import AtomicFact
from core.text.judged import PatientVerdict

PACK = "facts"
_PROMPT, _AGAIN = "patient", "again"
_SHORTEST = 3
"""Letters and digits that a quotation has at least; a name of one letter quotes nothing."""
_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"'})


class _Withheld(BaseModel):
    model_config = ConfigDict(extra="ignore")

    fact: str
    turn: int
    question: str


class _Invented(BaseModel):
    model_config = ConfigDict(extra="ignore")

    turn: int
    words: str
    contradicts: str | None = None


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore")

    withheld: list[_Withheld]
    invented: list[_Invented]


def facts_pack(name_or_folder: str = PACK) -> PromptPack:
    """Load the prompt pack."""
    return load_pack(name_or_folder, (_PROMPT, _AGAIN))


def task_of(
    pack: PromptPack, trial_id: str, case: Case, facts: Sequence[AtomicFact], dialogue: Dialogue
) -> Task[PatientVerdict]:
    """Return what is asked about a conversation; messages after the patient's last are not shown."""
    until = max((number for number, turn in enumerate(dialogue) if turn.role == "patient"), default=-1) + 1
    prompt = pack.render(
        _PROMPT, case=case.vignette, facts=[(fact.id, fact.text) for fact in facts if fact.told],
        shown=[fact.text for fact in facts if not fact.told],
        dialogue=[(number, turn.role.capitalize(), turn.text) for number, turn in enumerate(dialogue[:until])],
    )  # fmt: skip
    return Task(trial_id, prompt, lambda text: found_in(text, facts, dialogue))


def found_in(text: str, facts: Sequence[AtomicFact], dialogue: Dialogue) -> Found[PatientVerdict]:
    """Return the verdicts of a model's text that hold, by message; raises ``ValueError`` where it cannot be read."""
    told = {fact.id: fact for fact in facts if fact.told}
    said = last_object(text, _Reply)
    placed = [_withheld(one, told, dialogue) for one in said.withheld]
    placed += [_invented(one, {fact.id: fact for fact in facts}, dialogue) for one in said.invented]
    kept = dict.fromkeys(one for one in placed if one is not None)
    return Found(tuple(sorted(kept, key=lambda one: (one.turn, one.kind))), placed.count(None))


def _withheld(one: _Withheld, told: dict[str, AtomicFact], dialogue: Dialogue) -> PatientVerdict | None:
    fact = told.get(one.fact)
    if fact is None or not _is_reply(one.turn, dialogue):
        return None
    before = [turn.text for turn in dialogue[: one.turn] if turn.role == "doctor"]
    words = _quoted(one.question, before[-1]) if before else None
    return PatientVerdict("withheld", one.turn, words, fact.id, fact.text) if words else None


def _invented(one: _Invented, facts: dict[str, AtomicFact], dialogue: Dialogue) -> PatientVerdict | None:
    words = _quoted(one.words, dialogue[one.turn].text) if _is_reply(one.turn, dialogue) else None
    against = facts.get(one.contradicts or "")
    if words is None:
        return None
    return PatientVerdict("invented", one.turn, words, against.id if against else None, against.text if against else "")


def _is_reply(turn: int, dialogue: Dialogue) -> bool:
    return 0 <= turn < len(dialogue) and dialogue[turn].role == "patient"


def _quoted(words: str, text: str) -> str | None:
    """Return the words as they stand in a text, whatever their quotes, spaces and case of letters; else ``None``."""
    parts = words.translate(_QUOTES).strip(" \n\"'….").split()
    if sum(map(str.isalnum, "".join(parts))) < _SHORTEST:
        return None
    pattern = r"\s+".join(re.escape(part) for part in parts)
    match = re.search(rf"(?<!\w){pattern}(?!\w)", text.translate(_QUOTES), re.IGNORECASE)
    return text[match.start() : match.end()] if match else None
