"""American spelling of British names of diseases, so that both count as one name."""

from __future__ import annotations

import re

_SPELLINGS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("ae", "oe"), r"ae(?=[cdmst]|ro?x)|oe(?=[abdlmst])", "e"),  # anaemia, haemorrhage, paediatric, oesophagus, oedema
    (("our",), r"(?<=[a-z]{2})our(?=s?\b|less)(?<!\bhour)(?<!\bfour)", "or"),  # tumour, colour
    (("ise", "isi", "isa"), r"is(?=(?:e[ds]?|ing|ations?)\b)(?<=(?:al|er|or|ul|ym|im|ic|ot)is)", "iz"),  # generalised
    (("lyse", "lysi"), r"ys(?=e[ds]?\b|ing\b)(?<=lys)", "yz"),  # analyse
    (("ibre", "ntre"), r"(?<=[a-z]{2})re(?=\b)(?<=(?:ib|nt)re)", "er"),  # fibre, centre
    (("rrhoe",), r"rrhoe(?=a|ic)", "rrhe"),  # diarrhoea
    (("sulph",), r"\bsulph", "sulf"),
)
"""Letters that a text must have, ignoring case, for the British spelling; its pattern; the American spelling.

The search for letters takes a hundredth of the time of the search for a pattern.
"""
_PATTERNS = [(letters, re.compile(pattern, re.IGNORECASE), new) for letters, pattern, new in _SPELLINGS]


def american(text: str) -> str:
    """Return a text in lower case in American spelling."""
    for letters, british, spelling in _PATTERNS:
        lowered = text.lower()
        if any(each in lowered for each in letters):
            text = british.sub(spelling, text)
    return text
