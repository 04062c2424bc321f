"""The notes on the figures of a page: the most severe is visible without a click, the others open from its line."""

import textwrap
import zlib
from collections.abc import Collection, Iterable, Mapping

import streamlit as st

from core.measures.base import Note
from core.measures.condition_notes import Arm, Basis, in_order, notes_of, read_basis
from core.store.selection import Selection
from pages.kit.cached import read
from pages.kit.look import plain
from pages.kit.names import dataset_name
from pages.kit.navigation import link

_LINKS = {
    "accuracy": ("Endings and what-if", "rule"),
    "compare": ("Compare case by case", "compare_arrows"),
    "cases": ("Look at the cases", "dataset"),
    "graders": ("Compare graders", "gavel"),
    "monitoring": ("Compare served versions", "timeline"),
    "runs": ("Look at the runs", "play_arrow"),
}
"""Page that a note names → label and icon of the link."""
_ALL = Selection()
_SEVERE_TEXTS, _DRAWN_TEXTS = "_notes_shown", "_notes_drawn"
_LINE = 110
"""Characters of a note that are visible without a click: they fit into a line of a wide window."""


def basis(selection: Selection) -> Basis:
    """Return the data about the conditions of a selection that notes need, also of conditions it does not choose."""
    return read_basis(read, selection.of_conversations)


def notes_on(
    behind: Basis,
    names: Mapping[str, str],
    arms: Collection[Arm] | None = None,
    *,
    compared: bool = True,
    published: bool = False,
    more: Iterable[Note] = (),
) -> tuple[Note, ...]:
    """Return the notes on the conditions in ``names`` (condition → its name on the page), with ``more`` of the page."""
    condition_notes = notes_of(
        behind,
        names,
        arms,
        compared=compared,
        published=published,
        name=lambda model: names.get(model, model),
        data_set_name=dataset_name,
    )
    return in_order([*more, *condition_notes])


def forget_notes() -> None:
    st.session_state[_SEVERE_TEXTS], st.session_state[_DRAWN_TEXTS] = [], []


def first_time(text: str) -> bool:
    """Return whether a note, or a sentence on what is missing, is new on this page."""
    drawn = st.session_state.setdefault(_DRAWN_TEXTS, [])
    new = text not in drawn
    drawn += [text] * new
    return new


def warnings_shown() -> tuple[str, ...]:
    """Return the severe notes drawn so far, for exported pictures and files."""
    return tuple(st.session_state.get(_SEVERE_TEXTS, ()))


def draw_view_notes(names: Mapping[str, str], conditions: Collection[str] = (), selection: Selection = _ALL) -> None:
    """Draw the notes on the conditions that a page shows: those in ``conditions``, or all in ``names``."""
    draw_notes(
        notes_on(basis(selection), {name: words for name, words in names.items() if name in (conditions or names)})
    )


def draw_notes(notes: Iterable[Note], here: str = "") -> None:
    """Draw the notes that the page does not show yet: the most severe in a line, the others open from it.

    Severe notes are also in every file and picture drawn afterwards. ``here`` is the current page, which is not linked.
    """
    new_notes = [note for note in dict.fromkeys(notes) if first_time(note.text)]
    new_notes.sort(key=lambda note: note.severity != "high")
    severe = [note for note in new_notes if note.severity == "high"]
    st.session_state.setdefault(_SEVERE_TEXTS, []).extend(note.text for note in severe)
    if not new_notes:
        return
    first, *others = new_notes
    line = textwrap.shorten(first.text, _LINE, placeholder=" …")
    listed = others if line == first.text else new_notes
    pages = [page for page in dict.fromkeys(note.page for note in severe) if page in _LINKS and page != here]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        (st.markdown if severe else st.caption)(_in_words(first, line), width="content")
        if not (listed or pages):
            return
        more = f"and {len(others)} more note{'s' * (len(others) > 1)}" if others else "more"
        with st.popover(more, type="tertiary", key=f"notes_{zlib.crc32(first.text.encode()):08x}"):
            for note in listed:
                st.markdown(_in_words(note, note.text))
            for page in pages:
                link(page, *_LINKS[page])


def _in_words(note: Note, text: str) -> str:
    icon = ":orange[:material/warning:]" if note.severity == "high" else ":material/info:"
    return f"{icon} {with_commands(text)}"


def with_commands(text: str) -> str:
    """Return a text as escaped Markdown in which only the parts between backticks are code."""
    parts = text.split("`")
    return "".join(
        f"`{part}`" if place % 2 and place < len(parts) - 1 else plain(part) for place, part in enumerate(parts)
    )
