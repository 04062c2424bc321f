"""Helpers that play trials at a fake provider: each role is a separate model, and the provider answers by role.

The doctor asks ``questions`` and then concludes. Each line of the script can be a text, a ``Reply`` or a function of
the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from core.case import Case, Fact, Profile
from core.events import Answered, Called, CallRecord, Ended, Event, Graded, Utterance
from core.frameworks.base import Arm, default_pack
from core.frameworks.casting import Casting, CastNames
from core.frameworks.craftmd import PAPER_ARMS
from core.models.base import Sampling
from core.models.failures import RetryPolicy
from core.models.registry import load_registry
from core.models.settings import SHIPPED
from tests.support.fake_provider import FakeProvider
from tests.support.playing import play_case
from tests.support.replies import Reply

OVER = "The conversation with the patient is over. Ask nothing more, and answer from what you know by now."
"""The text between a conversation and the question about it."""
GREETING = "Hello, what symptoms bring you in today?"
ROLES = ("doctor", "patient", "grader", "summariser")
NAMES = CastNames(*(f"openai/{role}" for role in ROLES))
QUICK = RetryPolicy(attempts=3, base_s=0.001, cap_s=0.002, max_wait_s=0.1)
SEED = 4711

CASE = Case(
    case_key="stage/1",
    dataset="stage",
    specialty="Dermatology",
    vignette=(
        "A 30-year-old woman has had an itchy rash on both hands for two days since she bought new gloves. "
        "Temperature is 36.8 °C. Vesicles cover the backs of both hands."
    ),
    question="Which of the following is the most likely diagnosis?",
    choices=("Scabies", "Psoriasis", "Allergic contact dermatitis", "Tinea manuum"),
    answer="Allergic contact dermatitis",
    synonyms=("allergic contact eczema",),
    age=30,
    sex="female",
    profile=Profile(
        demographics=(Fact(key="age", value="30-year-old", lay="I'm 30."),),
        basic=(Fact(key="rash", value="itchy rash for two days", lay="My hands have itched for two days."),),
        optional=(
            Fact(key="temperature", value="36.8 °C", lay="It was normal.", section="vital_signs"),
            Fact(key="skin", value="vesicles on both hands", lay="There are blisters.", section="examination"),
            Fact(key="patch test", value="reacts to thiuram", lay="One patch went red.", section="laboratory"),
        ),
    ),
)
EXAMINATION = "Temperature: 36.8 °C. Skin: vesicles on both hands. Patch test: reacts to thiuram."

Line = str | Reply
Speaks = Callable[[dict[str, Any]], Line]
E = TypeVar("E")


def role_of(body: dict[str, Any]) -> str:
    return str(body["model"])


def last(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


def is_answer(body: dict[str, Any]) -> bool:
    """Whether the request is for the doctor's answer, and not for its next message in the conversation."""
    return "beginning with **Final " in last(body)


def is_extraction(body: dict[str, Any]) -> bool:
    return last(body).startswith("Below is what a doctor wrote")


def question_type(body: dict[str, Any]) -> str:
    text = last(body)
    if "numbered 1. to 3." in text:
        return "frq_top3"
    if "from this list" in text:
        return "mcq_many"
    return "mcq" if "Choose exactly one" in text else "frq"


@dataclass
class Actors:
    """The script of a fake provider that plays all four roles."""

    questions: list[Line] = field(default_factory=lambda: ["How old are you?", "Since when does it itch?"])
    conclusion: Line = "**Final Diagnosis:** Scabies"
    answer: Line | Speaks = "**Final Diagnosis:** Allergic contact dermatitis"
    patient: Line | Speaks | None = None
    extract: Line | Speaks = "Allergic contact dermatitis"
    judge: Line | Speaks = "Yes"
    summary: Line | Speaks = "A woman has an itchy rash."
    fault: Callable[[dict[str, Any]], Reply | None] = lambda body: None
    """Takes precedence: a reply that it returns is sent instead of the role's line."""

    def __call__(self, body: dict[str, Any]) -> Line:
        return self.fault(body) or self._line(body)

    def _line(self, body: dict[str, Any]) -> Line:
        role = role_of(body)
        if role == "doctor" and not is_answer(body):
            questions_so_far = sum(m["role"] == "assistant" for m in body["messages"]) - 1
            return self.questions[questions_so_far] if questions_so_far < len(self.questions) else self.conclusion
        if role == "patient":
            replies = sum(m["role"] == "assistant" for m in body["messages"]) + 1
            return _spoken(self.patient or f"This is reply {replies}.", body)
        if role == "grader":
            return _spoken(self.extract if is_extraction(body) else self.judge, body)
        return _spoken(self.answer if role == "doctor" else self.summary, body)


def _spoken(line: Line | Speaks, body: dict[str, Any]) -> Line:
    return line(body) if callable(line) else line


@dataclass(frozen=True)
class Rules:
    """The arms and the settings of a trial."""

    arms: tuple[Arm, ...] = PAPER_ARMS
    max_messages: int | None = 30
    many_choices: tuple[str, ...] = ()
    probe: bool = False
    pictures: bool = False


async def play(
    provider: FakeProvider,
    rules: Rules,
    case: Case = CASE,
    *,
    names: CastNames = NAMES,
    sampling: Sampling | None = None,
    seed: int = SEED,
    models: Iterable[Path] = (),
) -> list[Event]:
    """Return the events of one trial whose models are all at the provider."""
    async with load_registry([SHIPPED, *models], retry=QUICK) as registry:
        casting = Casting(registry, default_pack(), sampling or Sampling(), provider.base_url)
        return await played(casting, names, rules, case, seed)


async def played(casting: Casting, names: CastNames, rules: Rules, case: Case = CASE, seed: int = SEED) -> list[Event]:
    """Return the events of one trial with a cast of these names."""
    return await play_case(
        casting,
        names,
        case,
        rules.arms,
        seed=seed,
        many_choices=rules.many_choices,
        probe=rules.probe,
        max_messages=rules.max_messages,
        images="with" if rules.pictures else "",
    )


def of(events: Iterable[Event], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def sent_to(provider: FakeProvider, role: str) -> list[dict[str, Any]]:
    return [body for body in provider.bodies if role_of(body) == role]


def answers_asked(provider: FakeProvider) -> list[dict[str, Any]]:
    """Return the requests for the doctor's answers."""
    return [body for body in sent_to(provider, "doctor") if is_answer(body)]


def conversation(provider: FakeProvider) -> list[dict[str, Any]]:
    """Return the requests for the doctor's messages in the conversation."""
    return [body for body in sent_to(provider, "doctor") if not is_answer(body)]


def calls(events: Iterable[Event]) -> list[CallRecord]:
    return [event.call for event in of(events, Called)]


def ended(events: Iterable[Event]) -> Ended:
    (event,) = of(events, Ended)
    return event


def messages_of(events: Iterable[Event]) -> list[tuple[str, str]]:
    return [(u.role, u.text) for u in of(events, Utterance)]


def verdicts(events: list[Event]) -> dict[str, list[str]]:
    """Return the verdicts of each arm's answer, one for each rule, or the reason why the answer is excluded."""
    by_arm: dict[str, list[str]] = {}
    for event in events:
        if isinstance(event, Answered) and event.reason:
            by_arm.setdefault(f"{event.format}:{event.question_type}", []).append(event.reason)
        elif isinstance(event, Graded):
            by_arm.setdefault(f"{event.format}:{event.question_type}", []).append(event.verdict)
    return by_arm
