"""Warnings about the wording of rubrics. A rule here only warns; it changes no rubric and no verdict.

Published rubrics have such faults, too: about 1 to 2 % of HealthBench's criteria are wrong or contradictory. Rules on
words miss faults and warn without cause, so a person decides.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Literal, NamedTuple

from rapidfuzz import fuzz

from core.case import Case
from core.measures.rubrics.rubric import AXES, Criterion, Rubric, Scoped

Fault = Literal["sign", "two in one", "duplicate", "not observable", "gives the answer away", "axis", "no such case"]

_ALIKE = 90
"""Similarity (0 to 100) of two criteria of one case from which they count as duplicates."""
_LONGEST = 400
"""Criteria with more characters are not compared: they are no duplicates by accident."""

_NEGATED = re.compile(
    r"\b(?:(?:does|do|did|is|are|has|have) not|doesn.t|didn.t|never|fails? to|without|avoids?|omits?)\b", re.I
)
_HARM = re.compile(
    r"\b(?:wrongly|incorrect(?:ly)?|inaccurate(?:ly)?|harmful(?:ly)?|dangerously|inappropriate(?:ly)?|"
    r"unnecessar(?:y|ily)|dismiss(?:es|ed)?|fabricates?|invents?|misleads?|misleading|false(?:ly)?|ignores?|"
    r"contraindicated|fails? to|omits?|neglects?)\b",
    re.I,
)
_TWO = re.compile(
    r"\band (?:also )?(?:then )?(?:asks?|advises?|explains?|tells?|recommends?|orders?|names?|says?|states?|offers?|"
    r"checks?|arranges?|reassures?|refers?|gives?|suggests?|prescribes?|mentions?|provides?|includes?)\b"
    r"|\bas well as\b|;",
    re.I,
)
_UNSEEN = re.compile(
    r"\b(?:eye contact|body language|facial expression|tone of voice|posture|nods?|smiles?|washes|hand hygiene|knocks|"
    r"shakes hands|examines the patient|palpates|auscultates|thinks|feels|believes|understands|realises|realizes|"
    r"is aware|knows|considers|intends|writes? (?:in|to) the (?:chart|record)|documents)\b",
    re.I,
)
# the patient's understanding and feelings may be the subject of a question
_ABOUT_PATIENT = re.compile(r"\b(?:patient|parent|carer|caregiver|he|she|they)\b[^.]{0,40}$", re.I)
_NAMES_ANSWER = ("reasoning", "management", "accuracy")
"""Axes whose criteria may name the answer of the case."""


class RubricWarning(NamedTuple):
    """A possible fault of a criterion; ``scope`` is a case key, a specialty or "all"."""

    scope: str
    criterion: str
    fault: Fault
    message: str


def lint_rubric(rubric: Rubric, cases: Mapping[str, Case] | None = None) -> list[RubricWarning]:
    """Return warnings in the order of the criteria.

    ``cases`` by key are needed for two rules: criteria that give the answer away, and keys that no case has.
    """
    warnings: list[RubricWarning] = []
    for scoped in rubric.scoped():
        scope = scoped.name or "all"
        case = (cases or {}).get(scoped.name) if scoped.kind == "case" else None
        for fault, message in _faults(scoped.criterion, case):
            warnings.append(RubricWarning(scope, scoped.criterion.id, fault, message))
    for name in rubric.cases:
        if cases is not None and name not in cases:
            warnings.append(RubricWarning(name, "", "no such case", "no case has this key"))
    return [*warnings, *_duplicates(rubric)]


def _faults(criterion: Criterion, case: Case | None) -> Iterator[tuple[Fault, str]]:
    text = criterion.criterion
    if criterion.points < 0 and _NEGATED.search(text) and not _HARM.search(_NEGATED.sub("", text)):
        # "does not ask" with negative points is read by some judges as fulfilled if the doctor does ask
        yield (
            "sign",
            "negative points for something that is not done: say what the doctor does, or give points for doing it",
        )
    if criterion.points > 0 and _HARM.search(text) and not _NEGATED.search(text):
        yield "sign", f"positive points for something that sounds harmful ({_HARM.search(text)[0]})"  # type: ignore[index]
    if match := _TWO.search(text):
        yield "two in one", f"it may ask for two things ({match[0].strip()}): a judge cannot say half"
    if (match := _UNSEEN.search(text)) and not _ABOUT_PATIENT.search(text[: match.start()]):
        yield "not observable", f"messages do not show it ({match[0]})"
    if case is not None and criterion.axis not in _NAMES_ANSWER and criterion.points > 0:
        names = [case.answer, *case.synonyms]
        if name := next((name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.I)), None):
            yield "gives the answer away", f"it names the answer of the case ({name}) on the axis {criterion.axis}"
    if criterion.axis not in AXES and (close := difflib.get_close_matches(criterion.axis, AXES, n=1, cutoff=0.8)):
        yield "axis", f"{criterion.axis!r} is probably {close[0]!r}"


def _duplicates(rubric: Rubric) -> Iterator[RubricWarning]:
    """Yield a warning for each pair of similar criteria that can meet in one conversation."""
    shared = [scoped for scoped in rubric.scoped() if scoped.kind != "case"]
    by_case: dict[str, list[Scoped]] = {"": shared}
    for scoped in rubric.scoped():
        if scoped.kind == "case":
            by_case.setdefault(scoped.name, []).append(scoped)
    for name, group in by_case.items():
        pairs = (
            combinations(group, 2) if not name else ((a, b) for b in group for a in (*shared, *group[: group.index(b)]))
        )
        for first, second in pairs:
            texts = first.criterion.criterion, second.criterion.criterion
            if max(map(len, texts)) > _LONGEST or first.criterion.when != second.criterion.when:
                continue
            if fuzz.token_sort_ratio(*texts, processor=str.lower) >= _ALIKE:
                message = f"it says nearly the same as {first.criterion.id}: one event counts twice"
                yield RubricWarning(second.name or "all", second.criterion.id, "duplicate", message)
