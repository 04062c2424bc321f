"""What is behind a mark of a figure: its cases, of which one is chosen, and that case's conversations and ways on."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd
import streamlit as st

from core.store.queries.conversations import Conversation
from pages.kit.look import END_SHORT, VERDICT, badge
from pages.kit.navigation import link
from pages.kit.tables import draw_table

_FEW = 8
"""Rows up to which a list is shown at full height."""
_BEHIND = "behind"
"""Where the address says that a mark was clicked."""
_BESIDE = """<style>
.st-key-behind_beside {
  position: fixed; z-index: 90; overflow-y: auto; right: 0; bottom: 0; top: 3.5rem; width: 26rem;
  padding: 0.75rem 1rem 2rem 1.25rem; background: GROUND; border-left: 1px solid BORDER;
}
.st-key-behind_beside [data-testid="stColumn"] { flex: 1 1 9rem; min-width: 9rem; }
.st-key-behind_beside .st-key-behind_sides [data-testid="stColumn"] { min-width: 100%; }
[data-testid="stMainBlockContainer"] { padding: 3.5rem 27rem 2rem 1.5rem; }
@media (max-width: 1100px) {
  .st-key-behind_beside { top: 40vh; left: 0; width: auto; border-left: none; border-top: 1px solid BORDER; }
  [data-testid="stMainBlockContainer"] { padding: 3.5rem 1rem 65vh; }
}
</style>"""
"""Beside the figures where there is room for both, else over the lower part of the window."""


def open_behind() -> None:
    """Open what is behind the mark that was clicked, beside the figures."""
    st.query_params[_BEHIND] = "yes"


@contextmanager
def behind(title: str, hint: str) -> Iterator[None]:
    """Draw what is behind a mark under its title: below the figures, or beside them from a click on one until closed.

    That it is open stands in the address. The ``hint`` says how to choose.
    """
    beside = _BEHIND in st.query_params
    with st.container(key=f"behind_{'beside' if beside else 'below'}"):
        if beside:
            theme = f"theme.{st.context.theme.type or 'light'}"
            ground, border = (st.get_option(f"{theme}.{part}Color") for part in ("background", "border"))
            st.html(_BESIDE.replace("GROUND", ground).replace("BORDER", border))
        with st.container(horizontal=True, wrap=False, vertical_alignment="center"):
            st.subheader(title, anchor=False, width="stretch")
            if beside:
                st.button("Close", icon=":material/close:", key="behind_close", on_click=forget, args=(_BEHIND,))
        st.caption(hint)
        yield


def choose_case(
    table: pd.DataFrame,
    name: str,
    key: str,
    columns: Mapping[str, Any] | None = None,
    *,
    of: str = "Case",
    ids: Sequence[str] | None = None,
    download: str = "Download these cases as CSV",
) -> str | None:
    """List cases, and return the one that was clicked, if it is still among them; it stands in the address as ``key``.

    ``of`` is the column that names a case; ``ids`` name the rows where no column does.
    """
    named = table[of].astype(str).tolist() if ids is None else list(ids)
    draw_table(
        table,
        name,
        columns,
        on_row=lambda row: st.query_params.update({key: named[row]}),
        height=290 if len(table) > _FEW else "content",
        download=download,
    )
    wanted = st.query_params.get(key)
    return wanted if wanted in named else None


def forget(*keys: str) -> None:
    """Take choices out of the address, because what they were chosen from has changed."""
    for key in keys:
        st.query_params.pop(key, None)


def draw_trials(talks: Sequence[Conversation], arm: str) -> None:
    """Draw a line for each conversation of a case: the way to its transcript, the verdict in an arm, how it ended.

    ``arm`` is "format:question type".
    """
    if not talks:
        st.caption("No trial of this case is stored.")
    for talk in talks:
        with st.container(horizontal=True, vertical_alignment="center"):
            link("transcripts", f"Trial {talk.trial + 1}", "forum", trial=talk.trial_id)
            verdict = talk.verdicts.get(arm)
            st.markdown(badge(verdict) if verdict in VERDICT else ":gray-badge[not graded]")
            turns = f"{talk.doctor_turns} doctor turns" if talk.doctor_turns is not None else "no conversation"
            ended = f", {END_SHORT[talk.end_reason].lower()}" if talk.end_reason else ""
            st.caption(f"{turns}{ended}")


def excluded_in_words(reasons: Mapping[Any, int]) -> str:
    """Return verdicts that do not count, with their numbers; without the remark that they are excluded."""

    def words(reason: Any, count: int) -> str:
        name = VERDICT[reason][0].partition(",")[0].lower() if reason in VERDICT else str(reason)
        return f"{count:,} {name}{'s' if name.endswith('error') and count > 1 else ''}"

    return ", ".join(words(reason, count) for reason, count in reasons.items() if count)


def draw_ways_on(trial_id: str, **cell: str) -> None:
    """Draw the links from a conversation to its transcript and into the case debugger, there to a ``cell`` of it."""
    with st.container(horizontal=True):
        link("transcripts", "Read the transcript", "forum", trial=trial_id)
        link("debugger", "Open in the case debugger", "bug_report", trial=trial_id, **cell)
