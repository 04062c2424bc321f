"""Points out words that may identify a person: names, dates, numbers, addresses of e-mail. This is no anonymisation.

The rules find what is written in a usual form. In 47 invented sentences that were written after them they point out 19
of 27 identifying words, and one that identifies nobody (``tests/core/datasets/test_own_conversations.py``). Places,
rare diseases, employers, names without a title and everything in other languages are not looked for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_CAPITAL = r"[A-ZÀ-ÖØ-Þ][\w'’-]+"
_RULE = re.compile(
    # anna.berg@example.org; it begins nowhere within a word, so that a long word is read once
    r"(?P<email>(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
    # 12.03.1961, 1961-03-12, 12th of March 1961, March 12, 1961; not 120/80
    r"|(?P<date>\b\d{1,2}(?P<sign>[./-])\d{1,2}(?P=sign)(?:(?:19|20)\d\d|\d\d)\b|\b(?:19|20)\d\d-\d\d-\d\d\b"
    rf"|\b{_DAY}(?: of)? {_MONTH}(?:,? (?:19|20)\d\d)?(?!\w)|\b{_MONTH} {_DAY},? (?:19|20)\d\d\b)"
    # +44 20 7946 0958, 0171 234 5678, (555) 010-4477, 123-45-6789, MRN 55-0192, 4857736209
    r"|(?P<number>\+\d{1,3}(?:[ -]?\(?\d{2,4}\)?){2,5}|\(?\b0\d{2,4}\)?[ -]\d{3,4}[ -]?\d{3,4}\b"
    r"|\(?\b\d{3}\)?[ -]\d{3}[ -]\d{4}\b|\b\d{3}-\d{2}-\d{4}\b|\b\d{8,}\b"
    r"|\b(?:MRN|NHS|SSN|[Rr]ecord|[Pp]olicy|[Pp]assport|[Ii]nsurance|[Pp]atient)(?: number| no\.?| ID)?:? "
    r"[A-Z]{0,3}\d[\d -]{3,}\d\b)"
    # Mrs Okoro, Dr. Lena Vogt, my name is Tom Reyes, Name: Ada Lund
    r"|(?:\b(?:Mr|Mrs|Ms|Miss|Dr|Prof|Herr|Frau)\.? |\b[Mm]y name(?: is|'s|’s) |\bI am called |\bName: )"
    rf"(?P<name>{_CAPITAL}(?: {_CAPITAL})?)"
)


def pointers(text: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, words) of what the rules find in a text, in its order and without overlap."""
    for match in _RULE.finditer(text):
        yield match.lastgroup or "", match[match.lastgroup or 0]


def masked(text: str) -> str:
    """Return a text with the kind, in brackets, in place of the words that the rules find."""
    return _RULE.sub(lambda match: f"{match[0].removesuffix(match[match.lastgroup or 0])}[{match.lastgroup}]", text)


def pointed_out(texts: Iterable[str]) -> dict[str, Counter[str]]:
    """Return kind → the words that were found, with their number."""
    found: dict[str, Counter[str]] = {}
    for kind, words in chain.from_iterable(map(pointers, texts)):
        found.setdefault(kind, Counter())[words] += 1
    return found


def in_words(found: Mapping[str, Counter[str]], *, masking: bool) -> str:
    """Return the sentence that goes with every list of such words."""
    number = sum(words.total() for words in found.values())
    places = f"{number:,} {'place' if number == 1 else 'places'} may identify a person"
    state = "they are replaced" if masking else "masking is off"
    return f"{places}, by rules that miss many; {state}. This is no anonymisation."
