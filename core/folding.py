"""Texts in one spelling: plain letters, whatever accents, widths, look-alikes and invisible characters they have."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

_LOOK_ALIKES = str.maketrans(
    "аеорсухіјѕһԁԛԝвнкмтɑɡıςαορνικτχβγευ" + "’‘ʼ“”„«»‐‑‒–—−",
    "aeopcyxijshdqwbhkmtagicaopviktxbyeu" + '\'\'\'"""""------',
)
"""Cyrillic, Greek and other letters → the Latin letters that they look like; quotes and dashes → their plain form."""


def folded(text: str) -> tuple[str, list[int]]:
    """Return a text with plain letters and single spaces, and the position in ``text`` of each of its characters."""
    letters, positions, after_space = list[str](), list[int](), True
    for position, character in enumerate(text):
        for letter in _folded_character(character):
            if not (letter == " " and after_space):
                letters.append(letter)
                positions.append(position)
            after_space = letter == " "
    return "".join(letters), positions


@lru_cache(maxsize=20_000)
def _folded_character(character: str) -> str:
    """Return a character in lower case without its accents, as the Latin letters that it looks like."""
    if character.isspace():
        return " "
    if unicodedata.category(character) == "Cf":  # a soft hyphen or a character of no width
        return ""
    plain = unicodedata.normalize("NFKD", character).lower().translate(_LOOK_ALIKES)
    return "".join(" " if letter.isspace() else letter for letter in plain if not "\u0300" <= letter <= "\u036f")
