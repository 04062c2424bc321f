"""The two rules that judge a multiple-choice response.

``mcq_loose`` is the paper's: the answer, lower-cased, occurs in the response, lower-cased; it also counts a
response that lists every choice. ``mcq_strict`` wants exactly one choice, by name or by letter.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

from core.agents.base import Judgement
from core.events import Verdict

# possessive or bounded: a reply of thousands of blank lines must not be tried over and over
_LETTER = re.compile(
    r"^\W*+(?:(?:the )?(?:final |correct |best |most likely )?(?:diagnosis|answer|option|choice)(?: is)?)?\W*+"
    r"([A-Za-z])\)?\s*(?:[.):*,]|$)",
    re.IGNORECASE,
)
_MARKER = re.compile(r"\*{0,2}\s{0,9}final diagnosis\s*:?\s*\*{0,2}\s*:?", re.IGNORECASE)


def judge_loose(response: str, answer: str) -> Judgement:
    """Judge by the paper's substring rule."""
    verdict: Verdict = "correct" if answer.lower() in response.lower() else "incorrect"
    return Judgement("mcq_loose", None, verdict)


def judge_strict(response: str, answer: str, choices: Sequence[str]) -> Judgement:
    """Judge by the one choice that the response names; none or several are no correct answer."""
    named = named_choices(response, choices)
    if len(named) > 1:
        return Judgement("mcq_strict", ", ".join(named), "multiple")
    if not named:
        return Judgement("mcq_strict", None, "no_diagnosis")
    return Judgement("mcq_strict", named[0], "correct" if named[0].lower() == answer.lower() else "incorrect")


def named_choices(response: str, choices: Sequence[str]) -> list[str]:
    """Return the choices that a response names.

    A name inside a longer name that is also there ("migraine" in "migraine with aura") does not count by
    itself. Where no name occurs, a letter that stands alone at the start is read.
    """
    lowered = _plain(response)
    there = [pair for pair in _names(tuple(choices)) if pair[1] in lowered]
    spans = [(*span, choice) for choice, name in there for span in _whole_words(name, lowered)]
    if len(spans) == 1:
        return [spans[0][2]]
    outer = _outermost({span[:2] for span in spans})
    named = [c for start, end, c in spans if (start, end) in outer]
    if named:
        return list(dict.fromkeys(named))
    text = _MARKER.sub("", response).strip()
    found = _LETTER.match(text)
    index = ord(found[1].upper()) - ord("A") if found else len(choices)
    return [choices[index]] if index < len(choices) else []


@functools.lru_cache(maxsize=1024)
def _names(choices: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return each choice with its name as it is looked for."""
    return tuple((choice, _plain(choice)) for choice in choices)


def _whole_words(name: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield where ``name`` stands in ``text`` with no letter, digit or underscore next to it."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        whole = not (start and _in_word(text[start - 1])) and not (end < len(text) and _in_word(text[end]))
        if whole:
            yield start, end
        start = text.find(name, end if whole and name else start + 1)


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _plain(text: str) -> str:
    return text.lower().replace("’", "'")


def _outermost(spans: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the spans that lie in no other."""
    kept: set[tuple[int, int]] = set()
    reached = -1
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if end > reached:
            kept.add((start, end))
            reached = end
    return kept
