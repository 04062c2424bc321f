"""Checks that the words which a judge quotes are in the messages.

A few words are in many conversations: of single words taken from one conversation of the release of Johri et al. 2025,
39 % are also in one about another case, of two words 29 %, of four words 17 %. So up to three words count only in the
message that the judge names (25 % and 19 % by chance), and words such as *yes* or *you have* only as a whole message.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from core.asking.ask import quotation
from core.asking.scene import Dialogue, Turn
from core.judging.judgement import Quotation
from core.text.negation import NEGATORS, words_in

_OMISSION = re.compile(r"\s*(?:\[?\.\.\.\]?|\[?…\]?)\s*")
_SENTENCE_END = re.compile(r"[.!?](?=\s|\Z)")
_NEGATIONS = NEGATORS | {"nor", "nobody", "nothing", "none", "hardly", "barely", "rarely", "cannot"}
_PREFIX = re.compile(r"^(?:\[\d+\]\s*)?(?:(?:Doctor|Patient|Staff):\s*)?")
"""The number and role with which the prompt begins a message; some judges quote them, too."""
_TRIM = " \n\"'“”‘’"
_SHORTEST = 3
"""Minimum number of letters and digits of a quotation that is not a whole message or an abbreviation."""
_ABBREVIATION = re.compile(r"[A-Z]{2}")  # such as "MI"
_TOKEN = re.compile(r"[^\W_]+")
_FEW_WORDS = 3
"""Up to so many words are searched only in the message that the judge names."""
_DENYING = _NEGATIONS | {"afebrile", "free", "normal", "ruled", "unremarkable"}
_COMMON = frozenset(
    "yes yeah no not ok okay well so and or but if the a an this that it is are was were be been do does did have has "
    "had i you he she we they my your his her their me him them of in on at to for from with about as by any some what "
    "when where how who which can could would will please thanks thank".split()
)
"""Words that nearly every conversation has."""


def check_quotation(
    message: int | None, words: str, dialogue: Dialogue, *, span_of: Callable[[Turn], bool] | None = None
) -> Quotation:
    """Search quoted words in the named message, then in the others, first letter for letter, then normalised.

    A scripted message comes last, because it is evidence of nothing that a player does.
    Without a number, the words are verified in any message; -1 is the number of words that are in none. Normalising
    ignores spaces, case, quotation marks and a final full stop, and reads an omission (…) as any words. A few words are
    searched only in the named message, common words only as a whole message.

    A span is the answer itself, no evidence of another one, so that a few words count in any message; ``span_of`` tells
    the messages in which it may be, which come first.
    """
    words = words.strip()
    exact = _PREFIX.sub("", words).strip(_TRIM)
    tokens = _TOKEN.findall(exact.lower())
    numbers = sorted(range(len(dialogue)), key=lambda number: (dialogue[number].scripted, number != message))
    if span_of is not None:
        numbers.sort(key=lambda number: not span_of(dialogue[number]))
    elif message is not None and len(tokens) <= _FEW_WORDS:
        numbers = [number for number in numbers if number == message]
    for number in numbers:
        text = dialogue[number].text
        if _COMMON.issuperset(tokens) and tokens != _TOKEN.findall(text.lower()):
            continue
        spelled = exact if _stands_in(exact, text) else _normalised(exact, text)
        if spelled is None:
            continue
        if message in (number, None) and spelled == exact:
            return Quotation(number, spelled, "verified")
        return Quotation(number, spelled, "repaired", words if message is None else f"[{message}] {words}")
    return Quotation(-1 if message is None else message, words, "unverified")


def _stands_in(words: str, text: str) -> bool:
    if words == text.strip(_TRIM):
        return words != ""
    long_enough = sum(map(str.isalnum, words)) >= _SHORTEST or _ABBREVIATION.fullmatch(words) is not None
    return long_enough and re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text) is not None


def _normalised(words: str, text: str) -> str | None:
    """Return the words as the text spells them, from the first piece to the last if some are omitted."""
    if words.strip(_TRIM + ".,!?").lower() == text.strip(_TRIM + ".,!?").lower() != "":
        return text.strip()
    opened, *others = _OMISSION.split(words)
    pieces = [piece for piece in (opened, *others) if piece.strip(_TRIM)]
    start, end = -1, 0
    for piece in pieces:
        spelled = quotation(piece, text[end:])
        if spelled is None:
            return None
        at = text.index(spelled, end)
        if (start >= 0 or not opened.strip(_TRIM)) and _hides_negation(text[end:at]):
            return None
        start, end = at if start < 0 else start, at + len(spelled)
    return text[start:end] if start >= 0 else None


def _hides_negation(omitted: str) -> bool:
    """Return whether omitted words deny what a sentence of the quotation says; whole omitted sentences do not."""
    parts = _SENTENCE_END.split(omitted)
    return any(not _NEGATIONS.isdisjoint(words_in(part)) for part in (parts[0], parts[-1]))


def has_denial(words: str) -> bool:
    """Return whether words can deny a finding: “no fever”, “afebrile”, “free of pain”."""
    return not _DENYING.isdisjoint(words_in(words))
