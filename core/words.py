"""The words for formats, question types, verdicts, endings, tags, money and time: everywhere the same."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from core.events import EndReason, Format, QuestionType, Rated, RoleName, TagMisuse, Verdict
from core.questions import AsksFor

FORMAT: dict[Format, str] = {
    "vignette": "Vignette",
    "multi_turn": "Multi-turn",
    "multi_turn_exam": "Multi-turn + exam",
    "single_turn": "Single-turn",
    "summarized": "Summarized",
    "exam_only": "Exam only",
}
QUESTION_TYPE: dict[QuestionType, str] = {
    "mcq": "Multiple choice",
    "mcq_many": "Many choices",
    "mcq_answers": "Many answers (0.4)",
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
    "no_question": "the doctor’s message held no question",
    "turn_cap": "the cap was reached",
    "end_tag": "the doctor wrote the end tag",
    "no_tag": "the doctor’s message held no tag to pass on",
    "refusal": "the provider refused",
    "error": "the provider failed",
}
"""Why a conversation ended, to follow "because"; a protocol caps messages or questions."""


class _Roles(dict[RoleName, str]):
    """Words for roles; one that only its framework knows is called by its own name."""

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
MISUSE: dict[TagMisuse, str] = {
    "no_tag": "it holds no query in a tag, so that nothing could be passed on",
    "text_outside": "it has words outside the tags, which were not passed on",
    "several_queries": "it asks several queries, of which only the first was passed on then",
    "unclosed": "it leaves a tag open",
    "nested": "it puts one tag inside another",
    "empty": "it holds an empty tag",
    "unknown_tag": "it uses a tag that there is not",
    "end_with_query": "it writes the end tag beside other words, which ends the consultation",
    "speaks_for_others": "it speaks for the patient or the clinical staff itself",
}
"""What breaks a tag protocol, to follow a message and a colon."""
CARE_FAILURE = {
    "role_breaking": "Role-breaking",
    "abrupt_termination": "Abrupt end",
    "invalid_answer": "Invalid answer",
}
"""Kind of failure in CARE (``core.frameworks.automedic.queries.FailureKind``) → its name."""


def how_it_ended(reason: EndReason, doctor_turns: int, *, tagged: bool = False) -> str:
    """Return why a conversation ended and how often the doctor spoke, to follow "because".

    True of every protocol: the opening message is the doctor's greeting, or the patient's request. Where the doctor
    addresses each message (``tagged``) there is none, and what counts is the queries that were passed on.
    """
    if tagged:
        return f"{END[reason]}; {doctor_turns} {'query was' if doctor_turns == 1 else 'queries were'} passed on"
    if reason == "no_question" and not doctor_turns:
        return "there was no doctor to ask anything"
    return f"{END[reason]}; the doctor spoke {times(doctor_turns)} after the opening message"


def fault_of(error: Exception, whole: str) -> str:
    """Return in a line what makes a text unreadable; a fault of all of it, and of no field, is one of the ``whole``."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'])) or whole}: {first['msg']}"
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__


def times(count: int) -> str:
    """Return how often in words."""
    return "once" if count == 1 else f"{count} times"


def misused(kinds: Sequence[TagMisuse]) -> str:
    """Return in a sentence what a message did against the tag protocol."""
    return f"Against the tag protocol: {'; '.join(MISUSE[kind] for kind in kinds)}."


def rated(rating: Rated) -> str:
    """Return the patient's rating of the doctor as a heading of the rater's own words."""
    if rating.rating is None:
        return f"{rating.quality.capitalize()} not rated by {rating.rater} as the patient"
    return f"{rating.quality.capitalize()} {rating.rating} of 5, rated by {rating.rater} as the patient"


def arm(format_: Format, question_type: QuestionType) -> str:
    """Return an arm in words."""
    return f"{FORMAT[format_]} · {QUESTION_TYPE[question_type]}"


def arm_explained(format_: Format, question_type: QuestionType) -> str:
    """Return an arm in words, with what is answered from and with."""
    return f"{arm(format_, question_type)}: from {_ANSWERED_FROM[format_]}, with {_ANSWERED_WITH[question_type]}"


def money(usd: float) -> str:
    """Return US dollars, to a hundredth of a cent where it is little."""
    return f"${usd:,.2f}" if usd >= 1 or usd == 0 else f"${usd:.4f}"


def duration(seconds: float) -> str:
    """Return a rough duration in words."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
