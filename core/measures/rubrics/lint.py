"""Warnings about the wording of rubrics. A rule here only warns; it changes no rubric and no verdict.

Published rubrics have such faults, too: about 1 to 2 % of HealthBench's criteria are wrong or contradictory. Rules on
words miss up to half of the faults and sometimes warn without cause, so a person decides. Negative points for what a
doctor should do are not noticed: of the warnings of such a rule only half were right.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from core.case import Case
from core.judging.form import Form, FormQuestion
from core.judging.rubric import AXES, cases_of_rubric
from core.text.negation import stem_of, words_in

Fault = Literal[
    "sign", "two in one", "duplicate", "not observable", "gives the answer away", "axis", "points", "no such case"
]

_SUBJECT = r"^(?:the )?(?:doctor|clinician|physician|assistant|model|response|answer)?\s*"
_NEGATED = re.compile(
    r"\b(?:not|doesn.t|didn.t|never|no|nothing|fails? to|without|avoids?|omits?|refrains?|instead of|rather than|"
    r"free of)\b",
    re.I,
)
_BAD_ACT = re.compile(
    rf"{_SUBJECT}(?:(?:wrongly|incorrectly|inaccurately|falsely|inappropriately|unnecessarily|dangerously) \w+|"
    r"dismisses|fabricates|invents|misleads|ignores|omits|fails to|neglects|forgets to|"
    r"(?:never|does not|doesn.t) (?:(?:ever )?(?:asks?|explains?|mentions?|warns?) (?:about|whether|if|when|which|that|"
    r"the)|greets?|thanks?|introduces?))\b",
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
    r"is aware|knows|intends|writes? (?:in|to) the (?:chart|record)|documents)\b",
    re.I,
)
# the patient's understanding and feelings may be the subject of a question
_ABOUT_PATIENT = re.compile(r"\b(?:patient|parent|carer|caregiver|he|she|they)\b[^.]{0,40}$", re.I)
_ASKS = re.compile(r"\b(?:asks?|enquires?|inquires?|explores?|elicits?|finds? out|clarif(?:y|ies))\b", re.I)
_SAYS = re.compile(
    r"\b(?:asks?|enquires?|inquires?|says?|tells?|states?|explains?|writes|recommends?|suggests?|advises?|describes?|"
    r"mentions?|points? out|warns?|corrects?|clarif(?:y|ies)|requests?|encourages?|acknowledges?|expresses)\b",
    re.I,
)
"""What follows is the content of a message."""
_NAMES_ANSWER = ("reasoning", "management", "accuracy")
"""Axes whose criteria may name the answer of the case."""
_ACTS = {
    **dict.fromkeys(("asks", "ask", "enquires", "inquires"), "ask"),
    **dict.fromkeys(("recommends", "suggests", "advises"), "recommend"),
    **dict.fromkeys(("names", "states", "says", "mentions"), "say"),
    **dict.fromkeys(("gives", "provides", "offers"), "give"),
}
"""Verb of a criterion → a verb with the same meaning."""
_EMPTY = frozenset(
    "the a an of in on at to for from with about whether if that is are was were be been there has have had any some "
    "few doctor patient clinician physician their his her as by it its or and over".split()
)
"""Words that do not tell criteria apart."""


class RubricWarning(NamedTuple):
    """A possible fault of a criterion; ``scope`` is a case key, a specialty or "all"."""

    scope: str
    criterion: str
    fault: Fault
    message: str


def lint_rubric(rubric: Form, cases: Mapping[str, Case] | None = None) -> list[RubricWarning]:
    """Return warnings in the order of the criteria.

    ``cases`` by key are needed for two rules: criteria that give the answer away, and keys that no case has.
    """
    own, by_key = cases_of_rubric(rubric), cases or {}
    faults = [
        RubricWarning(_scope(criterion), criterion.id, fault, message)
        for criterion in rubric.questions
        for fault, message in _faults(criterion, by_key.get(criterion.cases[0]) if criterion.cases else None)
    ]
    unknown = [name for name in own if name not in by_key] if cases is not None else []
    missing = [RubricWarning(name, "", "no such case", "no case has this key") for name in unknown]
    return [*faults, *missing, *_points(rubric, own), *_duplicates(rubric)]


def _scope(criterion: FormQuestion) -> str:
    return next(iter((*criterion.cases, *criterion.specialties)), "all")


_HEAVY = 0.5
"""Share of the attainable points from which a criterion outweighs the others."""


def _points(rubric: Form, cases: Sequence[str]) -> Iterator[RubricWarning]:
    """Yield warnings for cases that have no score, and whose score is nearly that of one criterion."""
    for case in cases or [""]:
        if not (criteria := rubric.questions_for(case, "")):
            continue
        points = {criterion.id: criterion.points or 0.0 for criterion in criteria}
        attainable = sum(max(0.0, of_one) for of_one in points.values())
        if not attainable:
            yield RubricWarning(case or "all", "", "points", "no criterion has positive points: there is no score")
        elif len(criteria) > 2:
            for name, of_one in points.items():
                if (share := of_one / attainable) > _HEAVY:
                    yield RubricWarning(case or "all", name, "points", f"it has {share:.0%} of all positive points")


def _faults(criterion: FormQuestion, case: Case | None) -> Iterator[tuple[Fault, str]]:
    text, points = criterion.wording, criterion.points or 0.0
    bad = _BAD_ACT.match(text)
    if bad and points > 0 and not _NEGATED.search(text[bad.end() :]):
        yield "sign", f"positive points for something that a doctor should not do ({bad[0]})"
    if match := _TWO.search(text):
        yield "two in one", f"it may ask for two things ({match[0].strip()}): a judge cannot say half"
    if match := _UNSEEN.search(text):
        before = text[: match.start()]
        if not _ABOUT_PATIENT.search(before) and not _SAYS.search(before):
            yield "not observable", f"messages do not show it ({match[0]})"
    if case is not None and criterion.axis not in _NAMES_ANSWER and points > 0 and _ASKS.search(text):
        names = [case.answer, *case.synonyms]
        if name := next((name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.I)), None):
            yield "gives the answer away", f"a question names the answer of the case ({name})"
    if criterion.axis not in AXES and (close := difflib.get_close_matches(criterion.axis, AXES, n=1, cutoff=0.8)):
        yield "axis", f"{criterion.axis!r} is probably {close[0]!r}"


def _duplicates(rubric: Form) -> Iterator[RubricWarning]:
    """Yield a warning for each pair of criteria with the same content that can meet in one conversation."""
    seen: dict[tuple[str, str, frozenset[str]], FormQuestion] = {}
    for criterion in sorted(rubric.questions, key=lambda criterion: bool(criterion.cases)):
        about = (criterion.when, _content(criterion.wording))
        case = next(iter(criterion.cases), "")
        if (first := seen.get(("", *about)) or seen.get((case, *about))) is not None:
            message = f"it says the same as {first.id}: one event counts twice"
            yield RubricWarning(_scope(criterion), criterion.id, "duplicate", message)
        seen.setdefault((case, *about), criterion)


def _content(text: str) -> frozenset[str]:
    """Return the stems of the words that tell a criterion apart from others."""
    words = [_ACTS.get(word, word) for word in words_in(text) if word[0].isalnum() and word not in _EMPTY]
    return frozenset(map(stem_of, words))
