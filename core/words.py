"""The words for formats, question types, verdicts and endings: the same on every page and in every file."""

from __future__ import annotations

from core.events import EndReason, Format, QuestionType, Verdict

FORMAT: dict[Format, str] = {
    "vignette": "Vignette",
    "multi_turn": "Multi-turn",
    "multi_turn_exam": "Multi-turn + exam",
    "single_turn": "Single-turn",
    "summarized": "Summarized",
    "exam_only": "Exam only",
}
QUESTION_TYPE: dict[QuestionType, str] = {
    "mcq": "Four choices",
    "mcq_many": "Many choices",
    "frq": "Free response",
    "frq_top3": "Top three",
}
VERDICT: dict[Verdict, str] = {
    "correct": "Correct",
    "incorrect": "Incorrect",
    "no_diagnosis": "No diagnosis",
    "multiple": "Several diagnoses",
    "ungradable": "Ungradable, excluded",
    "refused": "Refused, excluded",
    "provider_error": "Provider error, excluded",
    "not_applicable": "Not applicable",
}
PROTOCOL: dict[str, str] = {"craftmd": "CRAFT-MD", "consultation": "Consultation", "automedic": "AutoMedic"}
END: dict[EndReason, str] = {
    "final_diagnosis": "the doctor gave a final diagnosis",
    "no_question": "the doctor’s message held no question",
    "turn_cap": "the cap was reached",
    "end_tag": "the doctor wrote the end tag",
    "no_tag": "the doctor’s message held no tag to pass on",
    "refusal": "the provider refused",
    "error": "the provider failed",
}
"""Why a conversation ended, to follow "because"; a protocol caps messages or questions."""


def how_it_ended(reason: EndReason, doctor_turns: int) -> str:
    """Return why a conversation ended and how often the doctor spoke, to follow "because".

    True of every protocol: the opening message is the doctor's greeting, or the patient's request.
    """
    if reason == "no_question" and not doctor_turns:
        return "there was no doctor to ask anything"
    return f"{END[reason]}; the doctor spoke {times(doctor_turns)} after the opening message"


def times(count: int) -> str:
    """Return how often in words."""
    return "once" if count == 1 else f"{count} times"


def arm(format_: Format, question_type: QuestionType) -> str:
    """Return an arm in words."""
    return f"{FORMAT[format_]} · {QUESTION_TYPE[question_type]}"
