"""The frame of a page: title, contents, tabs, and what is said where something went wrong or is not there."""

from collections.abc import Callable, Mapping

import streamlit as st

from core.errors import AnamnesisError
from core.store.database import Store
from core.store.fold import fold_if_free
from pages.kit.controls import choose
from pages.kit.look import plain
from pages.kit.names import IMPORT_COMMAND
from pages.kit.navigation import follow, link, require_app
from pages.kit.running import draw_running


def show(title: str, draw: Callable[[], None], caption: str = "") -> None:
    """Draw a page under its title, on what the journals hold by now; a fault of ours is said in its sentence."""
    require_app()
    follow()
    draw_running()
    st.title(title, anchor=False)
    if caption:
        st.caption(caption)
    try:
        fold_if_free(Store())
        draw()
    except AnamnesisError as error:
        st.error(plain(str(error)))


def draw_sections(sections: Mapping[str, Callable[..., None]], key: str, *shown: object) -> None:
    """Draw tabs by their titles, and in the open one its section, which is given what is ``shown``.

    Which one is open stands in the address.
    """
    tabs = st.tabs(list(sections), key=key, on_change="rerun", bind="query-params")
    for tab, draw in zip(tabs, sections.values(), strict=True):
        if tab.open:
            with tab:
                draw(*shown)


def draw_parts(parts: Mapping[str, tuple[Callable[[], None], str]], key: str) -> None:
    """Ask for a part of a page by its title, and draw it below its caption; the choice stands in the address."""
    chosen = choose("Part", list(parts), key, shape="segments", hidden=True)
    draw, caption = parts[chosen]
    if caption:
        st.caption(caption)
    draw()


def say_how_to_begin(
    missing: str, *, release: bool = True, instead: str = "", icon: str = "menu_book", campaign: bool = True
) -> None:
    """Say what is not there yet and lead on: to the authors' release (``release``), and to a run of one's own.

    ``missing`` is a sentence in Markdown; ``instead`` stands for what a run of one's own is good for here.
    """
    words = [missing]
    if release:
        words.append(
            f"Import the authors’ public release: `{IMPORT_COMMAND}`, where PATH is a folder or archive of their "
            "repository."
        )
    if campaign or instead:
        words.append(instead or "Or start a campaign of your own; the reference cast needs no key.")
    st.info(" ".join(words), icon=f":material/{icon}:")
    if campaign:
        link("runs", "Start a campaign", "play_arrow")
