"""Makes text safe to look at: characters that steer a screen or turn reading order around become visible marks.

The JSON form keeps every character as it was.
"""

from __future__ import annotations

import re

_TURNING = {0x202A: "LRE", 0x202B: "RLE", 0x202C: "PDF", 0x202D: "LRO", 0x202E: "RLO"} | {
    0x2066: "LRI",
    0x2067: "RLI",
    0x2068: "FSI",
    0x2069: "PDI",
}
"""Unicode's bidirectional controls, with which a text can show another order than it has."""
_CONTROLS = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"}
_TURNING_MARKS: dict[int, str] = {code: f"[{name}]" for code, name in _TURNING.items()}
_MARKS: dict[int, str] = {
    **_CONTROLS,
    0x7F: "\u2421",
    **{code: "\ufffd" for code in range(0x80, 0xA0)},
    **_TURNING_MARKS,
}
_BREAKS = re.compile(r"\r\n?|[\x85\u2028\u2029]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def in_order(text: str) -> str:
    """Return text with every control that would turn its reading order around as a mark."""
    return text.translate(_TURNING_MARKS)


def visible(text: str) -> str:
    """Return text with only line feeds as line breaks and no character that acts unseen on what is around it."""
    return _SURROGATES.sub("\ufffd", _BREAKS.sub("\n", text)).translate(_MARKS)
