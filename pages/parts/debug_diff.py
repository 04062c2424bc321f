"""Two texts beside each other with the words that only one of them has: struck out or underlined, and coloured."""

import html
from collections.abc import Sequence

import streamlit as st

from core.debugger.diff import Op, Piece, word_diff

_MARKED: dict[Op, tuple[str, str]] = {
    "delete": ("del", "background: rgba(213, 94, 0, .2); text-decoration: line-through"),
    "insert": ("ins", "background: rgba(0, 114, 178, .2); text-decoration: underline"),
}
_TEXT = "white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.5; font-size: .93rem"


def draw_texts(before: str | None, after: str | None, missing: str = "nothing") -> None:
    """Draw two texts beside each other, word by word; ``None`` where a side has none."""
    pieces = word_diff(before or "", after or "")
    for column, text, op in zip(st.columns(2, gap="medium"), (before, after), ("delete", "insert"), strict=True):
        with column, st.container(border=True):
            if text is None:
                st.caption(missing)
            else:
                st.html(one_side(pieces, op))


def one_side(pieces: Sequence[Piece], op: Op) -> str:
    """Return one side of a difference as HTML: every text is escaped, so that it stays a text.

    Markdown has no underline and would swallow white space, which matters in a prompt.
    """
    shown = [piece for piece in pieces if piece.op in ("equal", op)]
    return f'<div style="{_TEXT}">{"".join(_piece(piece) for piece in shown)}</div>'


def _piece(piece: Piece) -> str:
    text = html.escape(piece.text)
    if piece.op == "equal":
        return text
    tag, style = _MARKED[piece.op]
    return f'<{tag} style="{style}">{text}</{tag}>'
