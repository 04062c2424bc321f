"""Two texts side by side, with the words that only one of them has."""

import html
from collections.abc import Sequence

import streamlit as st

from core.debugger.diff import DiffPiece, Op, word_diff

_DIFF_STYLE: dict[Op, tuple[str, str]] = {
    "delete": ("del", "background: rgba(213, 94, 0, .2); text-decoration: line-through"),
    "insert": ("ins", "background: rgba(0, 114, 178, .2); text-decoration: underline"),
}
_TEXT_STYLE = "white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.5; font-size: .93rem"


def draw_texts(before: str | None, after: str | None, missing: str = "nothing") -> None:
    """Draw two texts side by side, word by word; ``missing`` is shown for a text that is ``None``."""
    sides: tuple[Op, Op] = ("delete", "insert")
    pieces = word_diff(before or "", after or "")
    for column, text, op in zip(st.columns(2, gap="medium"), (before, after), sides, strict=True):
        with column, st.container(border=True):
            if text is None:
                st.caption(missing)
            else:
                st.html(one_side(pieces, op))


def one_side(pieces: Sequence[DiffPiece], op: Op) -> str:
    """Return one side of a difference as HTML, with every text escaped.

    Not Markdown: it has no underline and drops white space, which matters in a prompt.
    """
    tag, style = _DIFF_STYLE[op]
    side = [(piece.op, html.escape(piece.text)) for piece in pieces if piece.op in ("equal", op)]
    marked = [text if kind == "equal" else f'<{tag} style="{style}">{text}</{tag}>' for kind, text in side]
    return f'<div style="{_TEXT_STYLE}">{"".join(marked)}</div>'
