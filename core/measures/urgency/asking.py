"""The request that asks a doctor's model how urgent a stored conversation is, and the check of its reply.

The model receives the dialogue as its own conversation, under the same system prompt whatever the framework, and then
the question. Quotation and reason come before the level. Words that are in no message void the answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from core.asking.ask import Request, read_json
from core.asking.parts import dialogue_parts, prompt_part
from core.asking.scene import Dialogue
from core.events import RoleName
from core.judging.judgement import Quotation
from core.judging.quotations import check_quotation
from core.measures.urgency.levels import LEVELS
from core.prompts import PromptPack, load_pack

SYSTEM, QUESTION = "doctor", "ask"


class UrgencyReply(NamedTuple):
    """A level (1 to 5) with the quotation as it was checked, and the reason."""

    level: int
    quotation: Quotation
    reason: str


class _Reply(BaseModel):
    # the order of the fields is the order in which a server with a schema lets the model write them
    model_config = ConfigDict(extra="ignore")

    quotation: str
    reason: str = ""
    level: int = Field(ge=min(LEVELS), le=max(LEVELS))


def urgency_pack() -> PromptPack:
    return load_pack("urgency", (SYSTEM, QUESTION))


def urgency_request(pack: PromptPack, dialogue: Dialogue, doctor: RoleName, seed: int) -> Request[UrgencyReply]:
    """Return the request; ``doctor`` is the seat whose messages are the model's own, ``seed`` that of the trial."""
    parts = [
        prompt_part(pack, SYSTEM, "system", "system"),
        *dialogue_parts(dialogue, doctor),
        prompt_part(pack, QUESTION, "user", "question"),
    ]
    return Request(QUESTION, parts, doctor, "probe", lambda text: read_urgency(text, dialogue), form=_Reply, seed=seed)


def read_urgency(text: str, dialogue: Dialogue) -> UrgencyReply:
    """Return the level of a reply with its quotation, searched in all messages but a scripted greeting.

    The patient's scripted opening counts: it states the complaint of the case.
    Raises ``ValueError`` if the reply cannot be read or quotes nothing. An invented quotation raises nothing: repeating
    the request would teach the model to quote something.
    """
    reply = read_json(text, _Reply)
    if not reply.quotation.strip():
        raise ValueError("it has no quotation: copy the words of the conversation that decide the level")
    spoken = tuple(replace(turn, text="") if turn.scripted and turn.role != "patient" else turn for turn in dialogue)
    return UrgencyReply(reply.level, check_quotation(None, reply.quotation, spoken), reply.reason.strip())
