"""The words for formats, question types, verdicts, endings, money and time, the same everywhere."""

from __future__ import annotations

from pydantic import ValidationError

from core.case import AsksFor
from core.events import EndReason, Format, QuestionType, RoleName, Verdict

FORMAT: dict[Format, str] = {
    "vignette": "Vignette",
    "multi_turn": "Multi-turn",
    "multi_turn_exam": "Multi-turn + exam",
    "single_turn": "Single-turn",
    "summarized": "Summarized",
    "exam_only": "Exam only",
    "closing": "Closing diagnosis",
}
QUESTION_TYPE: dict[QuestionType, str] = {
    "mcq": "Multiple choice",
    "mcq_many": "Many choices",
    "mcq_answers": "Many answers",
    "frq": "Free response",
    "frq_top3": "Top three",
}
_ANSWERED_FROM: dict[Format, str] = {
    "vignette": "the whole case in writing",
    "multi_turn": "the conversation",
    "multi_turn_exam": "the conversation and the examination",
    "single_turn": "the patient’s first reply alone",
    "summarized": "a summary of what the patient said",
    "exam_only": "age, sex and the examination alone",
    "closing": "the message that ended the conversation, without another question",
}
_ANSWERED_WITH: dict[QuestionType, str] = {
    "mcq": "one of the choices",
    "mcq_many": "one of all choices of the data set",
    "mcq_answers": "one of all right answers of the data set",
    "frq": "a diagnosis in words of one’s own",
    "frq_top3": "up to three diagnoses, the likeliest first",
}
ASKS_FOR: dict[AsksFor, str] = {
    "diagnosis": "Diagnosis",
    "test": "Test or next step in diagnosis",
    "treatment": "Treatment or next step in management",
    "organism": "Organism",
    "mechanism": "Mechanism or cause",
    "finding": "Finding, risk or association",
    "other": "Something else",
}
VERDICT: dict[Verdict, str] = {
    "correct": "Correct",
    "incorrect": "Incorrect",
    "no_diagnosis": "No diagnosis",
    "multiple": "Several diagnoses",
    "refused_in_words": "Refused in words",
    "empty": "Blank answer",
    "ungradable": "Ungradable, excluded",
    "refused": "Refused, excluded",
    "cut": "Cut at its limit, excluded",
    "provider_error": "Provider error, excluded",
    "not_applicable": "Not applicable",
}
END: dict[EndReason, str] = {
    "final_diagnosis": "the doctor gave a final diagnosis",
    "no_question": "the doctor’s message had no question",
    "turn_cap": "the message limit was reached",
    "end_tag": "the doctor closed it",
    "no_tag": "the doctor’s message could not be passed on",
    "refusal": "the provider refused",
    "error": "the provider failed",
    "not_recorded": "of a reason that the imported log does not record",
}
"""Reason of the end in words, to follow "because"; a protocol limits messages or questions."""


class _Roles(dict[RoleName, str]):
    """Words for roles; a role of a framework that is not listed has its own name."""

    def __missing__(self, role: RoleName) -> str:
        return role.replace("_", " ").capitalize()


ROLE = _Roles(
    {
        "doctor": "Doctor",
        "patient": "Patient",
        "staff": "Clinical staff",
        "grader": "Grader",
        "summariser": "Summariser",
        "solver": "Solver",
        "profiler": "Profiler",
    }
)


def how_it_ended(reason: EndReason, doctor_turns: int) -> str:
    """Return why a conversation ended and the doctor's number of messages, to follow "because".

    The opening message is the doctor's greeting or the patient's request.
    """
    if reason == "no_question" and not doctor_turns:
        return "there was no doctor to ask anything"
    return f"{END[reason]}; the doctor spoke {times(doctor_turns)} after the opening message"


def fault_of(error: Exception, subject: str) -> str:
    """Return an error message in one line, starting with the invalid field, or ``subject`` if there is none."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'])) or subject}: {first['msg'].removeprefix('Value error, ')}"
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def arm(format_: Format, question_type: QuestionType) -> str:
    return f"{FORMAT[format_]} · {QUESTION_TYPE[question_type]}"


def arm_explained(format_: Format, question_type: QuestionType) -> str:
    """Return an arm in words, with the sources and the form of its answer."""
    return f"{arm(format_, question_type)}: from {_ANSWERED_FROM[format_]}, with {_ANSWERED_WITH[question_type]}"


def money(usd: float) -> str:
    """Return US dollars as text; amounts below one dollar with four decimals."""
    return f"${usd:,.2f}" if usd >= 1 or usd == 0 else f"${usd:.4f}"


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def counted(number: int, singular: str, plural: str = "") -> str:
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"
