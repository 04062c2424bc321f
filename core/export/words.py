"""The words of a document for formats, question types, rules, verdicts, endings and roles."""

from __future__ import annotations

from core.events import Graded, Rule
from core.words import END, FORMAT, QUESTION_TYPE, ROLE, VERDICT, arm, how_it_ended, misused, rated

RULE: dict[Rule, str] = {"mcq_loose": "paper’s rule", "mcq_strict": "strict rule", "frq": "", "frq_top3": ""}
RULES_EXPLAINED = (
    "Paper’s rule: the right answer occurs in the response. Strict rule: exactly one choice is named, and it is the "
    "right one. Free responses are compared by the grader; of the top three, any may be right. An excluded answer is "
    "not counted as wrong."
)


def judged(grade: Graded) -> str:
    """Return by which rule or by whom an answer was judged, and what was read out of it."""
    by = RULE[grade.rule] or f"judged by {grade.grader}"
    return f"{by}, read as “{grade.extracted}”" if grade.extracted else by


def role(name: str) -> str:
    """Return who speaks or is called, as a heading."""
    known = {str(role): words for role, words in ROLE.items()}
    return known.get(name, name[:1].upper() + name[1:].replace("_", " "))


def place(where: str) -> str:
    """Return what broke in words: a role, and the arm where it was at work on one."""
    who, _, at = where.partition(" ")
    format_, _, question_type = at.partition(":")
    if format_ in FORMAT and question_type in QUESTION_TYPE:
        return f"{role(who)} ({arm(format_, question_type)})"
    return role(where)


__all__ = [
    "END",
    "FORMAT",
    "QUESTION_TYPE",
    "RULE",
    "RULES_EXPLAINED",
    "VERDICT",
    "arm",
    "how_it_ended",
    "judged",
    "misused",
    "rated",
    "role",
]
