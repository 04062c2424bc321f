"""Finds faults of cases before they are run: leaks, missing parts, near duplicates, unknown diseases."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from rapidfuzz import fuzz, process

from core.case import Case
from core.images import Image, local_images
from core.knowledge.base import Knowledge, words_of_name
from core.text.missing_pictures import picture_missing

_ROWS = 256
"""Texts whose letter counts are compared with the others in one step."""
_LETTERS = 64
"""Buckets of letter counts."""
_ROUNDING = 1e-9
_MOST_PAIRS = 5_000_000
"""Most pairs of vignettes that an import compares: about ten seconds."""
_BY_LETTERS = 80
"""Pairs whose letter counts are compared in the time of one comparison letter by letter."""


class TooManyAlike(Exception):
    """Too many texts have similar lengths or letters to compare all of them in a reasonable time."""


def nearest_earlier(texts: Sequence[str], similar: float, most: float = math.inf) -> list[tuple[int, int]]:
    """Return (index, index of the nearest earlier text) of each text with an earlier, nearly equal text.

    The distinct words of texts in alphabetical order are compared by rapidfuzz's ``ratio``; ``similar`` is its smallest
    value (0 to 99). Raises ``TooManyAlike`` if more than ``most`` pairs would have to be compared.
    """
    pairs = 0
    plain = [" ".join(sorted(set(text.lower().split()))) for text in texts]
    score, nearest = np.zeros(len(plain)), np.full(len(plain), -1)
    for index, others in _candidates(plain, 1 - similar / 100, most * _BY_LETTERS):
        if (pairs := pairs + len(others)) > most:
            raise TooManyAlike
        ratios = process.cdist(
            [plain[index]], [plain[i] for i in others], scorer=fuzz.ratio, score_cutoff=similar, dtype=np.float64
        )[0]
        similar_texts = ratios > 0
        for other, ratio in zip(others[similar_texts].tolist(), ratios[similar_texts].tolist(), strict=True):
            later, earlier = max(index, other), min(index, other)
            if (ratio, -earlier) > (score[later], -nearest[later]):
                score[later], nearest[later] = ratio, earlier
    return [(int(later), int(nearest[later])) for later in np.flatnonzero(nearest >= 0)]


def _candidates(texts: Sequence[str], changed: float, most: float) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Yield each text with the texts that may differ from it by at most the share ``changed``.

    The share, times the sum of both lengths, is the largest number of inserted and deleted letters; letter counts
    cannot differ by more. No pair is missed, each pair occurs once, and few pairs remain to be compared letter by
    letter.
    """
    from scipy.spatial.distance import cdist  # type: ignore[import-untyped]  # slow to load

    lengths = np.array([len(text) for text in texts], dtype=float)
    order = np.argsort(lengths, kind="stable")
    codes = (np.frombuffer(texts[i].encode("utf-32-le"), dtype=np.uint32) % _LETTERS for i in order)
    counts = np.array([np.bincount(code, minlength=_LETTERS).astype(float) for code in codes])
    counts = counts.reshape(len(texts), _LETTERS)
    sizes = lengths[order]
    longest = np.searchsorted(sizes, sizes * (1 + changed) / (1 - changed) + _ROUNDING, side="right")
    if (longest - np.arange(len(texts))).sum() > most:
        raise TooManyAlike
    for start in range(0, len(texts), _ROWS):
        stop = min(start + _ROWS, len(texts))
        end = int(longest[stop - 1])
        distances = cdist(counts[start:stop], counts[start:end], "cityblock")
        allowed = changed * (sizes[start:stop, None] + sizes[None, start:end]) + _ROUNDING
        near = distances <= allowed
        for row in range(stop - start):
            columns = np.flatnonzero(near[row, row + 1 :]) + row + 1
            if len(columns):
                yield int(order[start + row]), order[start + columns]


Fault = Literal[
    "answer_not_among_choices",
    "answer_leaked",
    "duplicate",
    "missing_field",
    "unknown_disease",
    "repeated_choice",
    "answer_in_other_choice",
    "bare_question",
    "missing_picture",
]
_NEAR_DUPLICATE = 95.0
"""Similarity in per cent (ratio of insertions and deletions, words sorted) from which vignettes are duplicates."""


@dataclass(frozen=True)
class LintFinding:
    """One fault of one case: ``severe`` faults make results wrong, the others only weaken them."""

    case_key: str
    fault: Fault
    message: str
    severe: bool = True


def lint(cases: Iterable[Case], knowledge: Knowledge | None = None) -> list[LintFinding]:
    """Return all faults of a set of cases; with ``knowledge`` also choices that it does not know."""
    all_cases = list(cases)
    return [*(finding for case in all_cases for finding in _faults(case, knowledge)), *_duplicates(all_cases)]


def _faults(case: Case, knowledge: Knowledge | None) -> Iterator[LintFinding]:
    key, profile = case.case_key, case.profile
    lowered = [choice.lower() for choice in case.choices]
    if case.choices and case.answer.lower() not in lowered:
        yield LintFinding(key, "answer_not_among_choices", f"the answer {case.answer!r} is no choice")
    if len(set(lowered)) < len(lowered):
        yield LintFinding(key, "repeated_choice", "a choice occurs twice")
    answer = case.answer.lower()
    if answer in lowered:
        for choice in case.choices:
            if answer in choice.lower() and answer != choice.lower():
                overlap = f"the answer {case.answer!r} is part of the choice {choice!r}"
                yield LintFinding(
                    key, "answer_in_other_choice", f"{overlap}: a rule that looks for the answer counts both", False
                )
    if not case.choices:
        yield LintFinding(key, "missing_field", "there are no choices: mcq cannot be asked", False)
    if case.vignette == case.question:
        yield LintFinding(key, "bare_question", "it is a bare question: there is no patient to ask", False)
    elif "?" in case.vignette:
        yield LintFinding(key, "missing_field", "the vignette contains a question", False)
    if profile is not None and not (profile.demographics and profile.basic):
        yield LintFinding(key, "missing_field", "the profile lacks demographics or basic facts")
    if profile is not None and (case.age is None or case.sex is None):
        yield LintFinding(key, "missing_field", "age or sex is missing")
    # the case cannot be solved without its picture, and the file was not imported
    if not local_images(case.images) and picture_missing(case):
        url_only = "the picture that it mentions is only a URL"
        yield LintFinding(
            key, "missing_picture", url_only if case.images else "it mentions a picture but has none", False
        )
    # the patient knows the answer or a synonym
    facts = profile.facts if profile is not None else ()
    texts = [("vignette", case.vignette), *((f"fact {fact.key!r}", f"{fact.value}. {fact.lay}") for fact in facts)]
    plain = [(where, f" {' '.join(words_of_name(text))} ") for where, text in texts]
    for name in (case.answer, *case.synonyms):
        words = words_of_name(name)
        if not words or len("".join(words)) < 4:
            continue
        for where, text in plain:
            if f" {' '.join(words)} " in text:
                yield LintFinding(key, "answer_leaked", f"{name!r} stands in the {where}")
    for choice in case.choices or (case.answer,):
        if knowledge is not None and knowledge.disease(choice) is None:
            yield LintFinding(key, "unknown_disease", f"data/knowledge has no disease {choice!r}", False)


def _duplicates(cases: list[Case]) -> list[LintFinding]:
    """Return findings of cases with the key of an earlier case, or with nearly its vignette and the same pictures."""
    findings: list[LintFinding] = []
    keys: set[str] = set()
    for case in cases:
        if case.case_key in keys:
            findings.append(LintFinding(case.case_key, "duplicate", "the case key occurs twice"))
        keys.add(case.case_key)
    by_images: dict[tuple[Image, ...], list[Case]] = {}  # equal words with different pictures are different cases
    for case in cases:
        by_images.setdefault(case.images, []).append(case)
    for group in by_images.values():
        texts = [case.vignette for case in group]
        nearly = "nearly "
        try:
            pairs = nearest_earlier(texts, _NEAR_DUPLICATE, _MOST_PAIRS)
        except TooManyAlike:
            first: dict[str, int] = {}
            pairs = [(n, first[text]) for n, text in enumerate(texts) if first.setdefault(text, n) != n]
            reason = f"too many of the {len(group):,} vignettes have similar lengths or letters"
            message = f"{reason}: only equal ones were searched"
            findings.append(LintFinding(group[0].case_key, "duplicate", message, severe=False))
            nearly = ""
        for later, earlier in pairs:
            if (other := group[earlier].case_key) != (key := group[later].case_key):
                findings.append(LintFinding(key, "duplicate", f"{nearly}the same vignette as {other}"))
    return findings
