"""What is behind a mark of a figure: the list of its cases, and the conversations of the chosen case."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd
import streamlit as st

from core.store.queries.trials import Conversation
from pages.kit.controls import choose
from pages.kit.look import VERDICT, draw_style
from pages.kit.tables import draw_table

_FEW = 8
"""Rows up to which a list is shown at full height."""
_BEHIND = "behind"
"""URL parameter that is set when a mark was clicked."""
_SIDE_PANEL_STYLE = """<style>
.st-key-behind_beside {
  position: fixed; z-index: 90; overflow-y: auto; right: 0; bottom: 0; top: 3.5rem; width: 26rem;
  padding: 0.75rem 1rem 2rem 1.25rem; background: GROUND; border-left: 1px solid BORDER;
}
.st-key-behind_beside [data-testid="stColumn"] { flex: 1 1 9rem; min-width: 9rem; }
.st-key-behind_beside [class*="_sides"] [data-testid="stColumn"] { min-width: 100%; }
[data-testid="stMainBlockContainer"] { padding: 3.5rem 27rem 2rem 1.5rem; }
@media (max-width: 1100px) {
  .st-key-behind_beside { top: 40vh; left: 0; width: auto; border-left: none; border-top: 1px solid BORDER; }
  [data-testid="stMainBlockContainer"] { padding: 3.5rem 1rem 65vh; }
}
</style>"""
"""The panel stands next to the figures in a wide window, otherwise over the lower part of the window."""


def open_behind() -> None:
    st.query_params[_BEHIND] = "yes"


@contextmanager
def behind(title: str, hint: str) -> Iterator[None]:
    """Draw the panel behind a mark under its title: below the figures, or next to them after a click until closed.

    The URL stores whether the panel is open. The ``hint`` says how to choose a mark.
    """
    is_open = _BEHIND in st.query_params
    with st.container(key=f"behind_{'beside' if is_open else 'below'}"):
        if is_open:
            draw_style(_SIDE_PANEL_STYLE)
        with st.container(horizontal=True, wrap=False, vertical_alignment="center"):
            st.header(title, anchor=False, width="stretch")
            if is_open:
                st.button(
                    "Close", icon=":material/close:", key="behind_close", on_click=clear_parameters, args=(_BEHIND,)
                )
        st.caption(hint)
        yield


def choose_case(
    table: pd.DataFrame,
    name: str,
    key: str,
    columns: Mapping[str, Any] | None = None,
    *,
    ids: Sequence[str] | None = None,
    download: str = "Download these cases as CSV",
) -> str | None:
    """List cases and return the clicked one, if it is still listed; the URL parameter ``key`` stores the choice.

    ``ids`` replace the names of the cases if these do not identify the rows.
    """
    row_ids = table["Case"].astype(str).tolist() if ids is None else list(ids)
    place = row_ids.index(chosen) if (chosen := st.query_params.get(key)) in row_ids else None
    draw_table(
        table,
        name,
        columns,
        on_row=lambda row: st.query_params.update({key: row_ids[row]}),
        marked=place,
        height=290 if len(table) > _FEW else "content",
        download=download,
        noted=False,
    )
    return None if place is None else row_ids[place]


def clear_parameters(*keys: str) -> None:
    for key in keys:
        st.query_params.pop(key, None)


def excluded_in_words(reasons: Mapping[Any, int]) -> str:
    """Return the excluded verdicts with their counts, as a list in words."""

    def words(reason: Any, count: int) -> str:
        name = VERDICT[reason][0].partition(",")[0].lower() if reason in VERDICT else str(reason)
        return f"{count:,} {name}{'s' if name.endswith('error') and count > 1 else ''}"

    return ", ".join(words(reason, count) for reason, count in reasons.items() if count)


def choose_trial(conversations: Sequence[Conversation], key: str) -> Conversation:
    """Ask for one of a case's conversations if it has several; the URL parameter ``key`` stores the choice."""
    several = len({conversation.run_id for conversation in conversations}) > 1
    labels = {
        conversation.trial_id: f"Trial {conversation.trial + 1}{f' · {conversation.run_id[-8:]}' * several}"
        for conversation in conversations
    }
    if len(conversations) == 1:
        return conversations[0]
    chosen = choose("Conversation", list(labels), key, names=labels, shape="segments")
    return next(conversation for conversation in conversations if conversation.trial_id == chosen)
