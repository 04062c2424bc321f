"""Judges the criteria of a rubric while a conversation goes on; the verdicts are shown and not stored.

After each message of the doctor one request asks about all criteria that are not met yet. A criterion that is met stays
met: later messages cannot undo it. Stored verdicts come from the job ``rubrics``, which sees the whole conversation.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from core.asking.ask import Parsed, ask, unreadable
from core.asking.calls import Voice
from core.asking.scene import Dialogue
from core.debugger.question import Ask, ask_model, outcome_of
from core.events import Called, Token
from core.live.session import Session
from core.measures.rubrics.judging import CriterionJudgement, rubric_pack, rubric_request
from core.measures.rubrics.rubric import Criterion
from core.prompts import PromptPack


@dataclass(frozen=True)
class JudgedSoFar:
    """The judgements of one request; ``unreadable`` says why there are none."""

    judgements: tuple[CriterionJudgement, ...]
    unreadable: str = ""


@dataclass
class RunningRubric:
    """A rubric that a model fills in during a conversation."""

    model: str
    criteria: Sequence[Criterion]
    base_url: str | None = None
    judgements: dict[str, CriterionJudgement] = field(default_factory=dict)
    """Criterion id → its judgement by the newest request that asked about it."""
    problem: str = ""
    _request: Session | None = None
    _messages: int = 0

    @property
    def running(self) -> bool:
        return self._request is not None and self._request.running

    def update(self, dialogue: Dialogue, *, ended: bool = False) -> None:
        """Take over the newest reply, and ask about the messages that it has not seen, if the doctor spoke last.

        Raises ``AnamnesisError`` if the model is unknown or its key is missing.
        """
        self._take_reply()
        doctor_spoke = bool(dialogue) and dialogue[-1].role not in ("patient", "staff")
        if self.running or len(dialogue) == self._messages or not (doctor_spoke or (ended and dialogue)):
            return
        self._messages = len(dialogue)
        if waiting := [criterion for criterion in self.criteria if not is_met(self.judgements.get(criterion.id))]:
            about = f"rubric {[criterion.hash for criterion in waiting]} {[turn.text for turn in dialogue]}"
            self._request = ask_model(self.model, _asking(dialogue, waiting), about, base_url=self.base_url)

    def _take_reply(self) -> None:
        if self._request is None or self._request.running:
            return
        outcome, self.problem = outcome_of(self._request), self._request.error or ""
        self._request = None
        if isinstance(outcome, JudgedSoFar):
            self.problem = outcome.unreadable
            self.judgements |= {judgement.criterion.id: judgement for judgement in outcome.judgements}


def is_met(judgement: CriterionJudgement | None) -> bool:
    return judgement is not None and judgement.verdict == "met" and not judgement.voided


def _asking(dialogue: Dialogue, criteria: Sequence[Criterion]) -> Ask:
    async def source(voice: Voice, _pack: PromptPack) -> AsyncIterator[Token | Called | JudgedSoFar]:
        pack = rubric_pack()
        async for item in ask(voice, pack, rubric_request(pack, dialogue, criteria)):
            if not isinstance(item, Parsed):
                yield item
            elif item.value is None:
                yield JudgedSoFar((), unreadable(voice, item))
            else:
                yield JudgedSoFar(item.value)

    return source


def changed_criteria(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return (criterion, status before, status after) of the criteria whose status differs."""
    return [(name, before[name], after[name]) for name in before if name in after and before[name] != after[name]]
