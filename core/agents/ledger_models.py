"""The facts ledger by a language model: a splitter of vignettes, and a judge that marks a conversation.

Both ask for JSON (``core.asking.ask``) and check it. What a model writes is data: a fact whose words the vignette does
not hold is rejected and counted, a mark for an unknown fact or turn, or on words that nobody said, is unreadable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from pydantic import BaseModel

from core.asking.ask import Asked, Request, ask, quotation, read_json, unreadable
from core.asking.calls import ModelAgent
from core.asking.parts import instruction_part
from core.asking.scene import Dialogue
from core.case import Case
from core.events import Called, Token
from core.text.claims import in_vignette
from core.text.facts import AtomicFact, with_ids
from core.text.topics import TOPICS, Topic

Mark = Literal["asked", "volunteered", "never_elicited"]
"""What became of a fact that a patient can tell: told when asked for, told unasked, or never told."""
Fault = Literal["withheld", "invented"]


@dataclass(frozen=True)
class PatientVerdict:
    """One thing that a model says a patient did, with the words that show it; messages count from 0.

    ``turn`` is the patient's reply. An *invented* statement is quoted from it; ``fact`` names what it contradicts, if
    anything. Of a *withheld* fact the doctor's question before it is quoted, and ``fact`` names it. ``fact_text`` is
    the fact in words, as it was when it was judged.
    """

    kind: Fault
    turn: int
    words: str
    fact: str | None = None
    fact_text: str = ""


@dataclass(frozen=True)
class JudgedPatient:
    """A model's judgement of one conversation, under a prompt: what its patient withheld and invented, if anything."""

    judge: str
    prompt_hash: str
    verdicts: tuple[PatientVerdict, ...] = ()
    dropped: int = 0
    """Verdicts that it gave and whose quotation, fact or message is not there: they count as nothing."""

    def of(self, kind: Fault) -> tuple[PatientVerdict, ...]:
        """Return the verdicts of a kind."""
        return tuple(one for one in self.verdicts if one.kind == kind)


@dataclass(frozen=True)
class JudgedFact:
    """What the model says became of a fact: its mark, and the turn that told it with the words that did."""

    id: str
    mark: Mark
    turn: int | None = None
    words: str = ""


@dataclass(frozen=True)
class Judged:
    """A model's marks of a conversation by fact, and its calls.

    ``unreadable`` says why there are no marks; a model that cannot be read has judged nothing.
    """

    judge: str
    facts: tuple[JudgedFact, ...] = ()
    unreadable: str | None = None
    call_ids: tuple[str, ...] = ()


class _SplitFact(BaseModel):
    text: str
    lay: str
    topic: Topic
    told: bool


class _MarkedFact(BaseModel):
    id: str
    turn: int | None = None
    words: str | None = None
    mark: Mark


class _Marked(BaseModel):
    facts: list[_MarkedFact]


class _Split(BaseModel):
    facts: list[_SplitFact]


@dataclass(frozen=True)
class SplitFacts:
    """What a splitter made of a case: facts, how many it invented and were rejected, and why nothing could be read."""

    facts: tuple[AtomicFact, ...]
    rejected: tuple[str, ...] = ()
    unreadable: str | None = None
    call_ids: tuple[str, ...] = ()


class FactSplitter(ModelAgent):
    """Takes vignettes apart."""

    async def split(self, case: Case) -> AsyncIterator[Token | Called | SplitFacts]:
        """Yield the calls and at last the facts; raises ``CallFailed`` where the provider fails."""
        prompt = instruction_part(self._pack, "facts", vignette=case.vignette, topics=list(TOPICS))
        request = Request("facts", [prompt], "grader", "judge", partial(read_json, form=_Split), form=_Split)
        async for item in ask(self._voice, self._pack, request):
            if not isinstance(item, Asked):
                yield item
            elif item.value is None:
                yield SplitFacts((), (), unreadable(self._voice, item), item.call_ids)
            else:
                kept = [fact for fact in item.value.facts if in_vignette(fact.text, case.vignette)]
                rejected = tuple(fact.text for fact in item.value.facts if fact not in kept)
                facts = with_ids(
                    AtomicFact(id=f.text, key=f.topic, text=f.text, lay=f.lay or f.text, told=f.told, topic=f.topic)
                    for f in kept
                )
                yield SplitFacts(facts, rejected, None, item.call_ids)


class FactJudge(ModelAgent):
    """Marks a conversation."""

    async def judge(self, facts: Sequence[AtomicFact], dialogue: Dialogue) -> AsyncIterator[Token | Called | Judged]:
        """Yield the calls and at last the marks; raises ``CallFailed`` where the provider fails."""
        lines = [(number, turn.role, turn.text) for number, turn in enumerate(dialogue)]
        shown = [(f.id, f.text) for f in facts]
        prompt = instruction_part(self._pack, "judge_facts", facts=shown, dialogue=lines)
        ids = {fact.id for fact in facts}
        replies = {number: turn.text for number, turn in enumerate(dialogue) if turn.role == "patient"}
        request = Request(
            "judge_facts", [prompt], "grader", "judge", lambda text: _marks(text, ids, replies), form=_Marked
        )
        async for item in ask(self._voice, self._pack, request):
            if not isinstance(item, Asked):
                yield item
            elif item.value is None:
                yield Judged(self.name, unreadable=unreadable(self._voice, item), call_ids=item.call_ids)
            else:
                marks = tuple(JudgedFact(f.id, f.mark, f.turn, f.words or "") for f in item.value.facts)
                yield Judged(self.name, marks, None, item.call_ids)


def _marks(text: str, ids: set[str], replies: Mapping[int, str]) -> _Marked:
    """Read the marks; ``ValueError`` where one is missing, or where what it rests on does not stand where it says."""
    marked = read_json(text, _Marked)
    named = [fact.id for fact in marked.facts]
    if set(named) != ids or len(named) != len(ids):
        raise ValueError("it does not mark every fact once")
    for fact in marked.facts:
        if fact.mark == "never_elicited":
            continue
        reply = replies.get(-1 if fact.turn is None else fact.turn)
        if reply is None:
            raise ValueError("it names a turn in which the patient does not speak")
        words = fact.words or ""
        # a bare "No" is too short for a quotation, unless it is all that was said
        whole = words.strip(_TRIM).lower() == reply.strip(_TRIM).lower() != ""
        if not whole and quotation(words, reply) is None:
            raise ValueError(f"the words of the fact {fact.id} do not stand in message {fact.turn}: copy them from it")
    return marked


_TRIM = " \n\"'“”.,!"
