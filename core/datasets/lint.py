"""Finds what is wrong with cases before they are run: leaks, missing parts, duplicates, unknown diseases."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from core.case import Case
from core.datasets.near_duplicates import nearest_earlier
from core.images import Image, kept
from core.knowledge.base import Knowledge, words_of_name
from core.text.suitability import picture_missing

Fault = Literal[
    "answer_not_among_choices", "answer_leaked", "duplicate", "missing_field", "unknown_disease", "repeated_choice",
    "bare_question", "missing_picture",
]  # fmt: skip
_NEAR_DUPLICATE = 95.0
"""Similarity in per cent (ratio of insertions and deletions, words sorted) from which two vignettes count as one."""


@dataclass(frozen=True)
class Finding:
    """One fault of one case: ``severe`` faults make results wrong, the others only weaken them."""

    case_key: str
    fault: Fault
    message: str
    severe: bool = True


def lint(cases: Iterable[Case], knowledge: Knowledge | None = None) -> list[Finding]:
    """Return all faults of a set of cases; with ``knowledge``, choices it does not know are named too."""
    listed = list(cases)
    found = [finding for case in listed for finding in _lint_case(case, knowledge)]
    return [*found, *_duplicates(listed)]


def _lint_case(case: Case, knowledge: Knowledge | None) -> list[Finding]:
    known = _unknown(case, knowledge) if knowledge else []
    return [*_choices(case), *_missing(case), *_picture(case), *_leaks(case), *known]


def _choices(case: Case) -> list[Finding]:
    lowered = [choice.lower() for choice in case.choices]
    found = []
    if case.choices and case.answer.lower() not in lowered:
        found.append(Finding(case.case_key, "answer_not_among_choices", f"the answer {case.answer!r} is no choice"))
    if len(set(lowered)) < len(lowered):
        found.append(Finding(case.case_key, "repeated_choice", "a choice stands there twice"))
    return found


def _missing(case: Case) -> list[Finding]:
    found = []
    if not case.choices:
        found.append(Finding(case.case_key, "missing_field", "there are no choices: mcq cannot be asked", False))
    if case.vignette == case.question:
        message = "it is a bare question: there is no patient to ask"
        found.append(Finding(case.case_key, "bare_question", message, False))
    elif "?" in case.vignette:
        found.append(Finding(case.case_key, "missing_field", "the vignette still holds a question", False))
    profile = case.profile
    if profile is not None and not (profile.demographics and profile.basic):
        found.append(Finding(case.case_key, "missing_field", "the profile lacks demographics or basic facts"))
    if profile is not None and (case.age is None or case.sex is None):
        found.append(Finding(case.case_key, "missing_field", "age or sex is missing"))
    return found


def _picture(case: Case) -> list[Finding]:
    """Name a case that nobody can solve without a picture, where its file was not brought along."""
    if kept(case.images) or not picture_missing(case):
        return []
    what = "the picture that it speaks of is only an address" if case.images else "it speaks of a picture and has none"
    return [Finding(case.case_key, "missing_picture", what, severe=False)]


def _leaks(case: Case) -> list[Finding]:
    """Look for the answer, or a synonym, in what the patient holds."""
    texts = [("vignette", case.vignette)]
    if case.profile is not None:
        texts += [(f"fact {fact.key!r}", f"{fact.value}. {fact.lay}") for fact in case.profile.facts]
    found = []
    for name in (case.answer, *case.synonyms):
        words = words_of_name(name)
        if not words or len("".join(words)) < 4:
            continue
        pattern = re.compile(rf"\b{' '.join(map(re.escape, words))}\b")
        for where, text in texts:
            if pattern.search(" ".join(words_of_name(text))):
                found.append(Finding(case.case_key, "answer_leaked", f"{name!r} stands in the {where}"))
    return found


def _unknown(case: Case, knowledge: Knowledge) -> list[Finding]:
    return [
        Finding(case.case_key, "unknown_disease", f"data/knowledge has no disease {choice!r}", False)
        for choice in case.choices or (case.answer,)
        if knowledge.disease(choice) is None
    ]


def _duplicates(cases: list[Case]) -> list[Finding]:
    """Name each later case whose key, or nearly whose vignette with the same pictures, stands earlier in the list."""
    found: list[Finding] = []
    keys: set[str] = set()
    for case in cases:
        if case.case_key in keys:
            found.append(Finding(case.case_key, "duplicate", "the case key stands there twice"))
        keys.add(case.case_key)
    alike: dict[tuple[Image, ...], list[Case]] = {}  # the same words with another picture are another case
    for case in cases:
        alike.setdefault(case.images, []).append(case)
    for group in alike.values():
        for later, earlier in nearest_earlier([case.vignette for case in group], _NEAR_DUPLICATE):
            if (other := group[earlier].case_key) != (key := group[later].case_key):
                found.append(Finding(key, "duplicate", f"nearly the same vignette as {other}"))
    return found
