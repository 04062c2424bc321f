"""A long list by pages, and the way along what it holds; where one is stands in the address."""

from collections.abc import Sequence

import streamlit as st

_DIGITS = 9
"""Digits from which on a number in the address is no page."""


def page_asked(name: str) -> int:
    """Return the page, counted from 1, that the address asks for under ``name``; the first where it asks for none."""
    asked = st.query_params.get(name, "1")
    return max(1, int(asked)) if asked.isdecimal() and asked.isascii() and len(asked) < _DIGITS else 1


def draw_pager(name: str, page: int, pages: int) -> None:
    """Let another page be chosen, where there are several; the address says which, so that filters can begin anew."""
    key = f"{name}s_{pages}_{page}"

    def turn() -> None:
        st.query_params[name] = str(st.session_state[key])

    if pages > 1:
        st.pagination(pages, default=page, key=key, on_change=turn)


def draw_steps(found: Sequence[str], shown: str, name: str, page_name: str, rows: int) -> None:
    """Draw the way back to the list, at the page of so many ``rows`` that holds what is shown, and the ways along it.

    What is ``shown`` stands in the address under ``name``, the page under ``page_name``.
    """
    place = found.index(shown) if shown in found else None

    def back() -> None:
        st.query_params.pop(name, None)
        if place is not None:
            st.query_params[page_name] = str(place // rows + 1)

    st.button("Back to the list", icon=":material/arrow_back:", on_click=back)
    step_buttons(found, place, name)
    words = f"{place + 1:,} of {len(found):,} found" if place is not None else "Not among those found"
    st.markdown(f":gray[{words}]", width="content")


def step_buttons(
    found: Sequence[str], place: int | None, name: str, *, more: Sequence[tuple[str, str, str, str | None]] = ()
) -> None:
    """Draw the buttons that lead from a place to what comes before and after it, which letters press as well.

    ``more`` are further ones: label, icon, letter, and what is put into the address under ``name``.
    """
    before = found[place - 1] if place else None
    after = found[place + 1] if place is not None and place + 1 < len(found) else None

    def go(target: str) -> None:
        st.query_params[name] = target

    steps = (("Previous", "keyboard_arrow_up", "k", before), ("Next", "keyboard_arrow_down", "j", after), *more)
    for label, icon, letter, target in steps:
        st.button(
            label, icon=f":material/{icon}:", shortcut=letter, disabled=target is None, on_click=go, args=(target,)
        )
