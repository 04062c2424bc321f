"""Points out words that may identify a person: names, dates, numbers, addresses of e-mail. This is no anonymisation.

The rules find what is written in a usual form. In 47 invented sentences that were written after them they point out 19
of 27 identifying words, and one that identifies nobody (``tests/core/datasets/test_own_conversations.py``). Places,
rare diseases, employers, names without a title and everything in other languages are not looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Literal, NamedTuple, get_args

Kind = Literal["e-mail", "date", "number", "name"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_CAPITAL = r"[A-ZÀ-ÖØ-Þ][\w'’-]+"
_RULES: Mapping[Kind, re.Pattern[str]] = {
    # anna.berg@example.org
    "e-mail": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    # 12.03.1961, 1961-03-12, 12th of March 1961, March 12, 1961; not 120/80
    "date": re.compile(
        rf"\b\d{{1,2}}(?P<sign>[./-])\d{{1,2}}(?P=sign)(?:(?:19|20)\d\d|\d\d)\b|\b(?:19|20)\d\d-\d\d-\d\d\b"
        rf"|\b{_DAY}(?: of)? {_MONTH}(?:,? (?:19|20)\d\d)?(?!\w)|\b{_MONTH} {_DAY},? (?:19|20)\d\d\b"
    ),
    # +44 20 7946 0958, 0171 234 5678, (555) 010-4477, 123-45-6789, MRN 55-0192, 4857736209
    "number": re.compile(
        r"\+\d{1,3}(?:[ -]?\(?\d{2,4}\)?){2,5}|\(?\b0\d{2,4}\)?[ -]\d{3,4}[ -]?\d{3,4}\b"
        r"|\(?\b\d{3}\)?[ -]\d{3}[ -]\d{4}\b|\b\d{3}-\d{2}-\d{4}\b|\b\d{8,}\b"
        r"|\b(?:MRN|NHS|SSN|[Rr]ecord|[Pp]olicy|[Pp]assport|[Ii]nsurance|[Pp]atient)(?: number| no\.?| ID)?:? "
        r"[A-Z]{0,3}\d[\d -]{3,}\d\b"
    ),
    # Mrs Okoro, Dr. Lena Vogt, my name is Tom Reyes, Name: Ada Lund
    "name": re.compile(
        rf"(?:\b(?:Mr|Mrs|Ms|Miss|Dr|Prof|Herr|Frau)\.? |\b[Mm]y name(?: is|'s|’s) |\bI am called |\bName: )"
        rf"(?P<who>{_CAPITAL}(?: {_CAPITAL})?)"
    ),
}


class Pointer(NamedTuple):
    """Words of a text, characters ``start`` to ``end``, that may identify a person."""

    kind: Kind
    start: int
    end: int
    words: str


def pointers(text: str) -> list[Pointer]:
    """Return what the rules find in a text, in its order and without overlap: the earlier rule wins."""
    found: list[Pointer] = []
    for kind, rule in _RULES.items():
        for match in rule.finditer(text):
            start, end = match.span("who" if kind == "name" else 0)
            if all(end <= other.start or other.end <= start for other in found):
                found.append(Pointer(kind, start, end, text[start:end]))
    return sorted(found, key=lambda pointer: pointer.start)


def masked(text: str) -> str:
    """Return a text with the kind of each pointer, in brackets, in place of its words."""
    parts: list[str] = []
    end = 0
    for pointer in pointers(text):
        parts += text[end : pointer.start], f"[{pointer.kind}]"
        end = pointer.end
    return "".join([*parts, text[end:]])


def pointed_out(texts: Iterable[str]) -> dict[Kind, list[str]]:
    """Return kind → the words that were found, in the order of the texts."""
    found: dict[Kind, list[str]] = {}
    for pointer in chain.from_iterable(map(pointers, texts)):
        found.setdefault(pointer.kind, []).append(pointer.words)
    return {kind: found[kind] for kind in KINDS if kind in found}
