"""Puts names and values from a file into a message: short, and in one line."""

from __future__ import annotations

_MOST = 60
"""Characters of a name or value that a message shows."""


def clipped(text: str, most: int = _MOST) -> str:
    """Return a text from a file as a message may show it: no more than ``most`` characters, no control characters."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def in_one_line(error: Exception) -> str:
    """Return what a library says of a fault, without its line breaks."""
    return " ".join(str(error).split()).rstrip(".")
