"""Links from a row of a result to exactly the conversations that it counts, and what their page says about the row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import streamlit as st

from core.errors import UsageError
from core.measures.base import Counted, MetricRequest, Side
from core.measures.behind import Behind, Part, Trials, read_address, trials_behind
from core.store.database import Store
from core.store.selection import Selection
from pages.kit.cached import read
from pages.kit.cases import clear_parameters
from pages.kit.controls import choose
from pages.kit.look import END_SHORT, arm, counted, plain
from pages.kit.names import case_name, dataset_name
from pages.kit.view import names_on

LISTED = {"conversations_part": "Conversations"}
"""URL parameter with which the page Conversations opens its list."""
_ROW = "row"
_PART = "row_part"
_PAGE = "conversations_page"
_PARTS: Mapping[Part, str] = {
    "counted": "All that count",
    "right": "Right",
    "wrong": "Wrong",
    "excluded": "Excluded",
    "became_wrong": "Right before, wrong after",
    "became_right": "Wrong before, right after",
    "regressed": "Regressed",
    "improved": "Improved",
    "equal": "Equal",
    "concluded": "With a final diagnosis",
    "without_diagnosis": "Without a final diagnosis",
}


class ChosenRow(NamedTuple):
    """The row in the URL, and the part of its conversations that is shown."""

    behind: Behind
    part: Part

    @property
    def arm(self) -> str:
        """The arm of the counted answers, as "format:question type"; empty if the row counts conversations."""
        return ":".join(self.behind.counts.sides[-1].arm or ())

    def within(self, selection: Selection) -> Selection:
        """Return a selection of conversations, restricted to those behind the row."""
        return replace(selection, trials=tuple(read(_trials, self.behind)[self.part]))


def behind_row(selection: Selection, counts: Counted, part: Part = "counted") -> dict[str, str]:
    """Return the URL parameters with which Conversations lists the conversations that a row on a selection counts."""
    address = Behind(selection, counts).address
    # by its label: the browser would put it into the address instead of a value, and Back would lead to the value
    return {**LISTED, _ROW: address, **({} if part == "counted" else {_PART: _PARTS[part]})}


def ask_row() -> ChosenRow | None:
    """Say which row the URL names, and ask for a part of its conversations; ``None`` if it names none."""
    if not (address := st.query_params.get(_ROW)):
        return None
    try:
        behind = read_address(address)
        trials = read(_trials, behind)
    except UsageError as error:
        st.warning(plain(str(error)), icon=":material/link_off:")
        return None
    parts = [part for part, ids in trials.items() if ids or part == "counted"]
    cases = len(set(trials["counted"].values()))
    extent = f"{counted(len(trials['counted']), 'conversation')} on {counted(cases, 'case')}"
    numbers = ", ".join(f"{_PARTS[part].lower()}: {len(trials[part]):,}" for part in parts if part != "counted")
    with st.container(border=True):
        st.markdown(f"**{extent}** behind the row {plain(_in_words(behind))}. :gray[{numbers}]")
        with st.container(horizontal=True, vertical_alignment="center"):
            part = choose(
                "Behind the row",
                parts,
                _PART,
                names=_PARTS,
                shape="segments",
                hidden=True,
                on_change=partial(clear_parameters, _PAGE),
            )
            st.button("Show all conversations", icon=":material/filter_alt_off:", key="behind_all", on_click=_leave)
    return ChosenRow(behind, part)


def _trials(store: Store, behind: Behind) -> Trials:
    return trials_behind(MetricRequest(store, behind.selection, query=read), behind.counts)


def _leave() -> None:
    clear_parameters(_ROW, _PART, _PAGE)
    st.query_params.update(LISTED)


def _in_words(behind: Behind) -> str:
    counts = behind.counts
    names = names_on(behind.selection)

    def side_in_words(side: Side) -> str:
        return ", ".join([names.get(side.model, side.model), *([arm(*side.arm)] if side.arm else [])])

    words = [
        " → ".join(map(side_in_words, counts.sides)),
        *map(case_name, behind.selection.cases or ()),
        "" if counts.group is None else dataset_name(counts.group) if counts.group else "no group stated",
        END_SHORT[counts.end_reason] if counts.end_reason else "",
        "" if counts.turns is None else f"{counts.turns} doctor turns",
    ]
    return "; ".join(filter(None, words))
