"""Makes text safe to display: control characters and changes of the reading order become visible marks.

The JSON format keeps every character.
"""

from __future__ import annotations

import re

_TURNING = {0x202A: "LRE", 0x202B: "RLE", 0x202C: "PDF", 0x202D: "LRO", 0x202E: "RLO"} | {
    0x2066: "LRI",
    0x2067: "RLI",
    0x2068: "FSI",
    0x2069: "PDI",
}
"""Unicode's bidirectional controls, which change the order in which a text is displayed."""
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


def with_visible_marks(text: str) -> str:
    """Return text with a visible mark instead of every control that changes its reading order."""
    return text.translate(_TURNING_MARKS)


def visible(text: str) -> str:
    """Return text with line feeds as its only line breaks and without invisible control characters."""
    return _SURROGATES.sub("\ufffd", _BREAKS.sub("\n", text)).translate(_MARKS)
