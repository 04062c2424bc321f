"""Helpers of the tests of agents: a small case, a scripted model, and functions that run an agent to its last item."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.agents.base import Grader, GraderResult, patient_knowledge
from core.asking.calls import Voice
from core.asking.scene import Dialogue, FinalMessage, PatientKnowledge, Scene, Turn
from core.case import Case, Fact, Profile
from core.errors import ProviderError
from core.events import Called
from core.models.base import Completion, Message, Sampling, StreamItem, TextPiece, Usage

GREETING = Turn("doctor", "Hello, what symptoms bring you in today?")
SCENE = Scene("Dermatology", seed=20)


def case_with(answer: str = "Psoriasis", **changes: object) -> Case:
    basic = (
        Fact(key="chief complaint", value="scaly plaques on the elbows", lay="I have scaly patches on my elbows."),
        Fact(key="duration", value="for 3 months", lay="It began three months ago."),
        Fact(key="fever", value="no fever", lay="I haven't had a fever."),
        Fact(key="medication", value="takes lithium", lay="I take lithium for my mood."),
        Fact(key="joint pain", value="joint pain in the fingers", lay="My finger joints hurt."),
    )
    people = (Fact(key="age", value="40-year-old", lay="I'm 40."), Fact(key="sex", value="male", lay="I'm a man."))
    results = (
        Fact(key="nails", value="nail pitting", lay="They saw tiny pits in my nails.", section="examination"),
        Fact(key="biopsy", value="acanthosis", lay="They told me nothing of it.", section="other_tests"),
    )
    fields: dict[str, object] = {
        "case_key": "t/1",
        "dataset": "t",
        "specialty": "Dermatology",
        "answer": answer,
        "age": 40,
        "sex": "male",
        "vignette": "A 40-year-old man has scaly plaques on his elbows. He takes lithium. He denies fever.",
        "question": "What ails him?",
        "choices": (answer, "Eczema", "Tinea corporis", "Scabies"),
        "profile": Profile(demographics=people, basic=basic, optional=results),
    }
    return Case.model_validate({**fields, **changes})


class Cut(str):
    """A reply that was stopped by its limit."""


@dataclass
class Script:
    """A chat model that answers from a script and records its requests."""

    replies: Sequence[str] | Callable[[list[Message]], str] = ("",)
    name: str = "openai/scripted"
    sent: list[list[Message]] = field(default_factory=list)
    samplings: list[Sampling] = field(default_factory=list)
    fail: ProviderError | None = None

    async def stream(self, messages: Sequence[Message], sampling: Sampling) -> AsyncIterator[StreamItem]:
        """Stream the next reply of the script; after the last reply of a sequence, repeat it."""
        self.sent.append(list(messages))
        self.samplings.append(sampling)
        if self.fail is not None:
            raise self.fail
        if callable(self.replies):
            text = self.replies(list(messages))
        else:
            text = self.replies[min(len(self.sent), len(self.replies)) - 1]
        yield TextPiece(text)
        yield Completion(
            text,
            "length" if isinstance(text, Cut) else "stop",
            Usage(3, 2),
            self.name,
            request={"messages": list(messages)},
        )

    async def aclose(self) -> None:
        pass

    def voice(self) -> Voice:
        return Voice(self)

    @property
    def prompts(self) -> list[str]:
        """The contents of all messages of all requests, in order."""
        return [message["content"] for messages in self.sent for message in messages]


def hear(speaking: AsyncIterator[Any]) -> str:
    """Return the text of an agent's final message."""

    async def listen() -> str:
        items = [item async for item in speaking]
        assert isinstance(items[-1], FinalMessage)
        return items[-1].text

    return asyncio.run(listen())


def judge(grader: Grader, case: Case, response: str, top3: bool = False) -> GraderResult:
    """Return a grader's result, and assert that it names every call that was made."""

    async def listen() -> GraderResult:
        items = [item async for item in (grader.grade_top3 if top3 else grader.grade)(case, response)]
        last = items[-1]
        assert isinstance(last, GraderResult)
        # a verdict from the grader's memory names earlier calls as well
        assert {item.call.call_id for item in items if isinstance(item, Called)} <= set(last.call_ids)
        return last

    return asyncio.run(listen())


def consult(doctor: Any, patient: Any, case: Case, seed: int = 20, most: int = 40) -> Dialogue:
    """Return the dialogue of a consultation, up to the doctor's diagnosis or ``most`` messages."""
    scene = Scene("" if case.specialty == "Other" else case.specialty, seed)
    knowledge: PatientKnowledge = patient_knowledge(case)
    dialogue: Dialogue = (GREETING,)
    while len(dialogue) < most:
        dialogue = (*dialogue, Turn("patient", hear(patient.reply(knowledge, scene, dialogue))))
        dialogue = (*dialogue, Turn("doctor", hear(doctor.ask(scene, dialogue))))
        if "Final Diagnosis" in dialogue[-1].text:
            break
    return dialogue
