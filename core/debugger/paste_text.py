"""Cleans pasted text: line ends, blanks, invisible marks, and lines that a mail program or a PDF has broken."""

from __future__ import annotations

import re

_BLANKS = dict.fromkeys(
    map(ord, "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000\t\f\v"),
    " ",
)
_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\u00ad\x00"), None)
_BREAKS = re.compile(r"\r\n|[\r\u2028\u2029\x85]")
_WRAPPED_FROM, _WRAPPED_TO = 60, 130
"""Lengths between which a line looks like one of a block broken at a fixed width."""
_ITEM = re.compile(r"^[*_]{0,2}(?:[-*•–▪◦·]\s|[(\[]?(?:[A-Ja-j]|\d{1,2})[)\].:]\s|[A-Z][A-Za-z0-9 ]{1,30}:)")
_LONE_LETTER = re.compile(r"(?m)^\(?([A-J])[.):]?\n+(?=\S)(?!\(?[A-J][.):]?$)")


def cleaned(text: str) -> str:
    """Return the text with plain line ends and blanks, unbroken paragraphs, and at most one empty line in a row."""
    plain = _BREAKS.sub("\n", text.translate(_INVISIBLE)).translate(_BLANKS)
    lines = [re.sub(r" {2,}", " ", line).strip() for line in plain.split("\n")]
    joined = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    joined = _LONE_LETTER.sub(r"\1. ", joined)
    return "\n\n".join(_unbroken(paragraph) for paragraph in joined.split("\n\n"))


def _unbroken(paragraph: str) -> str:
    """Join the lines of a block that was broken at a fixed width; items of a list keep their lines."""
    kept: list[str] = []
    width = 0
    for line in paragraph.split("\n"):
        complete = kept and (kept[-1].endswith("?") or (kept[-1].endswith(":") and not line[:1].islower()))
        broken = kept and not complete and _WRAPPED_FROM <= width <= _WRAPPED_TO
        if broken and not _ITEM.match(line):
            hyphenated = re.search(r"\w[-‐‑]$", kept[-1]) and line[:1].islower()
            kept[-1] = f"{kept[-1]}{'' if hyphenated else ' '}{line}"
        else:
            kept.append(line)
        width = len(line)
    return "\n".join(kept)
