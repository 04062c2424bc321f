"""The notes on the figures of a page. Severe notes are visible without a click and link to a page that shows more."""

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
_VISIBLE = ("excluded", "part", "development")
"""Kinds of notes that are visible although they are not severe."""


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


def warnings_shown() -> str:
    """Return the severe notes drawn so far, for exported pictures and files."""
    return " ".join(st.session_state.get(_SEVERE_TEXTS, ()))


def draw_view_notes(names: Mapping[str, str], conditions: Collection[str] = (), selection: Selection = _ALL) -> None:
    """Draw the notes on the conditions that a page shows: those in ``conditions``, or all in ``names``."""
    draw_notes(
        notes_on(basis(selection), {name: words for name, words in names.items() if name in (conditions or names)})
    )


def draw_notes(notes: Iterable[Note], here: str = "") -> None:
    """Draw the notes that the page does not show yet; severe notes are boxed, with links to pages that show more.

    ``here`` is the current page, which is not linked.
    """
    drawn_texts = st.session_state.setdefault(_DRAWN_TEXTS, [])
    new_notes = [note for note in dict.fromkeys(notes) if note.text not in drawn_texts]
    drawn_texts += [note.text for note in new_notes]
    severe_texts = st.session_state.setdefault(_SEVERE_TEXTS, [])
    severe_texts += [note.text for note in new_notes if note.severity == "high"]
    severe = [note for note in new_notes if note.severity == "high"]
    if severe:
        with st.container(border=True, gap="xsmall"):
            for note in severe:
                st.markdown(f":orange[:material/warning:] {with_commands(note.text)}")
            pages = [page for page in dict.fromkeys(note.page for note in severe) if page in _LINKS and page != here]
            with st.container(horizontal=True, gap="small"):
                for page in pages:
                    link(page, *_LINKS[page])
    others = [note for note in new_notes if note.severity != "high"]
    for note in others:
        if note.kind in _VISIBLE:
            st.caption(with_commands(note.text))
    if folded := [note for note in others if note.kind not in _VISIBLE]:
        with st.expander(f"More notes: {len(folded)}", icon=":material/info:"):
            for note in folded:
                st.caption(with_commands(note.text))


def with_commands(text: str) -> str:
    """Return a text as escaped Markdown in which only the parts between backticks are code."""
    parts = text.split("`")
    return "".join(
        f"`{part}`" if place % 2 and place < len(parts) - 1 else plain(part) for place, part in enumerate(parts)
    )
