"""American spelling of British names of diseases, so that both count as one name."""

from __future__ import annotations

import re

_SPELLINGS = (
    (
        re.compile(r"ae(?=[cdmst]|ro?x)|oe(?=[abdlmst])", re.IGNORECASE),
        "e",
    ),  # anaemia, haemorrhage, paediatric, oesophagus, oedema
    (re.compile(r"(?<=[a-z]{2})our(?=s?\b|less)(?<!\bhour)(?<!\bfour)", re.IGNORECASE), "or"),  # tumour, colour
    (
        re.compile(r"is(?=(?:e[ds]?|ing|ations?)\b)(?<=(?:al|er|or|ul|ym|im|ic|ot)is)", re.IGNORECASE),
        "iz",
    ),  # generalised
    (re.compile(r"ys(?=e[ds]?\b|ing\b)(?<=lys)", re.IGNORECASE), "yz"),  # analyse
    (re.compile(r"(?<=[a-z]{2})re(?=\b)(?<=(?:ib|nt)re)", re.IGNORECASE), "er"),  # fibre, centre
    (re.compile(r"rrhoe(?=a|ic)", re.IGNORECASE), "rrhe"),  # diarrhoea
    (re.compile(r"\bsulph", re.IGNORECASE), "sulf"),
)
"""British spellings → the American ones."""


def american(text: str) -> str:
    """Return a text in lower case in American spelling."""
    for british, spelling in _SPELLINGS:
        text = british.sub(spelling, text)
    return text
