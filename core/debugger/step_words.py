"""What a step is called, and what is said of messages that nobody was sent."""

from __future__ import annotations

from core.debugger.steps import Step, StepKind
from core.events import Answered, RoleName
from core.frameworks.casting import is_model

_BY_RULE: dict[RoleName, str] = {
    "doctor": "The reference doctor reads the case and the dialogue in these messages, not the instructions.",
    "patient": "The reference patient reads the case's profile and the dialogue, not the instructions.",
    "summariser": "The reference summariser quotes the patient's lines; a model would be sent this.",
    "grader": "The reference grader compares names; a model would be sent this.",
}
_HUMAN = "A person spoke here; a model would be sent this."
_REMEMBERED = "The grader had judged the same pair before in this run: it was not asked again."


def title_of(kind: StepKind, turn: int | None, about: Answered | Step | None) -> str:
    """Return a step's title; ``about`` is the answer that it gives or grades."""
    arm = f"{about.format} {about.question_type}".replace("_", " ") if about else ""
    return {
        "ask": f"Doctor's message {turn}",
        "reply": f"Patient's reply {turn}",
        "summarise": "Summary of the patient's lines",
        "answer": f"Answer, {arm}",
        "extract": f"Grader reads the answer, {arm}",
        "judge": f"Grader compares it with the right answer, {arm}",
        "probe": f"Belief after message {turn}",
    }[kind]


def note_of(role: RoleName, player: str, about_prompts: str, *, called: bool, remembered: bool) -> str:
    """Return what to know of a step's messages: who read them how, and what ``about_prompts`` says of their files."""
    if called:
        return about_prompts
    if player == "human" or not is_model(player):
        return " ".join(filter(None, (_HUMAN if player == "human" else _BY_RULE[role], about_prompts)))
    return _REMEMBERED if remembered else about_prompts
