"""Replacement of look-alike letters of other scripts, and of full-width letters, by Latin letters.

Look-alikes are replaced only in words that mix scripts: no language writes “Nо” with a Cyrillic о, but “В” alone may be
a real Cyrillic letter (the third choice of a Russian list) and stays.
"""

from __future__ import annotations

import re
import unicodedata

_CYRILLIC = dict(zip("АВЕЅІЈКМНОРСТХУаеѕіјорсху", "ABESIJKMHOPCTXYaesijopcxy", strict=True))
_GREEK = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧο", "ABEZHIKMNOPTYXo", strict=True))
_LATIN_OF = {**_CYRILLIC, **_GREEK}
_LATIN = str.maketrans(_LATIN_OF)
_WORD = re.compile(r"[^\W\d_]+")
_FULL_WIDTH = re.compile("[\uff01-\uff5e]+")


def in_latin(text: str) -> str:
    """Return the text with Latin letters in place of full-width letters and of look-alikes in mixed words."""
    if text.isascii():
        return text
    text = _FULL_WIDTH.sub(lambda signs: unicodedata.normalize("NFKC", signs[0]), text)
    if _LATIN_OF.keys().isdisjoint(text):
        return text
    return _WORD.sub(lambda word: word[0].translate(_LATIN) if _is_mixed(word[0]) else word[0], text)


def _is_mixed(word: str) -> bool:
    return not word.isascii() and any(letter.isascii() for letter in word)
