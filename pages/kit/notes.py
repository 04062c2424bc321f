"""The notes of figures on a page: severe ones stand out without a click, with the way to the page that shows more."""

from collections.abc import Collection, Iterable, Mapping

import streamlit as st

from core.measures.base import Note
from core.measures.notes import Arm, Basis, in_order, notes_of, read_basis
from core.store.selection import Selection
from pages.kit.cached import read
from pages.kit.look import plain
from pages.kit.names import dataset_name
from pages.kit.navigation import link

_WAYS = {
    "accuracy": ("Endings and what-if", "rule"),
    "compare": ("Compare case by case", "compare_arrows"),
    "data": ("Look at the cases", "dataset"),
    "graders": ("Compare graders", "gavel"),
    "monitoring": ("Compare served versions", "timeline"),
    "runs": ("Look at the runs", "play_arrow"),
}
"""Page that a note names → the words and the icon of the link to it."""
_ALL = Selection()
_SHOWN, _DRAWN = "_notes_shown", "_notes_drawn"
_VISIBLE = ("excluded", "part")
"""Kinds of notes that are in sight although they are not severe."""


def basis(selection: Selection) -> Basis:
    """Return what stands behind the conditions of a selection, also behind those that it does not choose."""
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
    found = notes_of(
        behind,
        names,
        arms,
        compared=compared,
        published=published,
        name=lambda model: names.get(model, model),
        data_set_name=dataset_name,
    )
    return in_order([*more, *found])


def forget_notes() -> None:
    """Begin a page, on which no note is shown yet."""
    st.session_state[_SHOWN], st.session_state[_DRAWN] = [], []


def warnings_shown() -> str:
    """Return the severe notes that the page shows so far: saved pictures and files carry them."""
    return " ".join(st.session_state.get(_SHOWN, ()))


def draw_view_notes(names: Mapping[str, str], shown: Collection[str] = (), selection: Selection = _ALL) -> None:
    """Draw the notes on the conditions that a page shows: those in ``shown``, or all in ``names``."""
    draw_notes(notes_on(basis(selection), {name: words for name, words in names.items() if name in (shown or names)}))


def draw_notes(notes: Iterable[Note], here: str = "") -> None:
    """Draw the notes that the page does not show yet, the severe ones in a box with links to the pages that show more.

    There is no link to the page ``here``.
    """
    drawn = st.session_state.setdefault(_DRAWN, [])
    listed = [note for note in dict.fromkeys(notes) if note.text not in drawn]
    drawn += [note.text for note in listed]
    shown = st.session_state.setdefault(_SHOWN, [])
    shown += [note.text for note in listed if note.severity == "high"]
    severe = [note for note in listed if note.severity == "high"]
    if severe:
        with st.container(border=True, gap="xsmall"):
            for note in severe:
                st.markdown(f":orange[:material/warning:] {with_commands(note.text)}")
            pages = [page for page in dict.fromkeys(note.page for note in severe) if page in _WAYS and page != here]
            with st.container(horizontal=True, gap="small"):
                for page in pages:
                    link(page, *_WAYS[page])
    others = [note for note in listed if note.severity != "high"]
    for note in others:
        if note.kind in _VISIBLE:
            st.caption(with_commands(note.text))
    if folded := [note for note in others if note.kind not in _VISIBLE]:
        with st.expander(f"More notes: {len(folded)}", icon=":material/info:"):
            for note in folded:
                st.caption(with_commands(note.text))


def with_commands(text: str) -> str:
    """Return a text as Markdown with its commands, which stand between backticks, as code."""
    parts = text.split("`")
    return "".join(
        f"`{part}`" if place % 2 and place < len(parts) - 1 else plain(part) for place, part in enumerate(parts)
    )
