"""The matrix of a bench run: arms × trials as verdicts in words and colour, filled while it runs; a cell is chosen."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st
from pandas.io.formats.style import Styler

from core.debugger.run import BenchRun, Cell, Row
from core.events import Called, Rule, Verdict
from core.frameworks.base import Arm
from pages.parts.accuracy_view import is_dark
from pages.parts.debug_runs import Place, Shown, cells_of, chosen_place, from_address, preset, to_address
from pages.parts.look import FORMAT, QUESTION_TYPE, RULE, VERDICT, arm, money

_REDRAW_S = 0.7
_ROW_PX = 31
MARK: dict[Verdict, str] = {
    "correct": "✓ Correct", "incorrect": "✗ Incorrect", "no_diagnosis": "? No diagnosis", "multiple": "≡ Several",
    "ungradable": "– Ungradable", "refused": "– Refused", "provider_error": "– Provider failed",
    "not_applicable": "– Not applicable",
}  # fmt: skip
"""Verdicts as short words with a mark, so that colour is never needed to read them."""
_INK = {
    "green": ("#00694A", "#3DCB9B"), "red": ("#B03A00", "#FF8A50"), "orange": ("#8A5A00", "#EDB84A"),
    "gray": ("#667777", "#8FA3A2"),
}  # fmt: skip
"""Colour of a verdict on a light and on a dark page."""
_RULES: dict[str, str] = {"mcq_loose": "Paper’s rule", "mcq_strict": "Strict rule"}


def mark(cell: Cell, rule: Rule) -> str:
    """Return a cell as a mark and a word."""
    verdict = cell.verdict(rule)
    if verdict is not None:
        return MARK[verdict]
    return "… being judged" if cell.state == "answered" else "·"


def matrix_frame(rows: Sequence[Row], rule: Rule) -> pd.DataFrame:
    """Return the matrix in words: a row for each arm, a column for each trial, and how many of them are correct."""
    return pd.DataFrame(
        [
            {
                "Doctor is shown": FORMAT[row.format],
                "Asked": QUESTION_TYPE[row.question_type],
                **{_trial(cell.trial): mark(cell, rule) for cell in row.cells},
                "Correct": _share(*row.correct(rule)),
            }
            for row in rows
        ]
    )


def _share(correct: int, counted: int) -> str:
    return f"{correct} of {counted}" if counted else "–"


def cells_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Return every cell as one row, for a download."""
    return pd.DataFrame(
        [
            {
                "format": cell.format, "question_type": cell.question_type, "trial": cell.trial + 1,
                "state": cell.state, "response": cell.response, "extracted": cell.extracted, "grader": cell.grader,
                **dict.fromkeys(RULE), **cell.verdicts, "reason": cell.reason, "detail": cell.detail,
            }
            for cell in cells_of(rows)
        ]
    )  # fmt: skip


def draw_matrix(shown: Shown) -> Place | None:
    """Draw the matrix and return the chosen cell; while the run is under way it is redrawn by itself."""
    was_running = shown.running

    @st.fragment(run_every=_REDRAW_S if was_running else None)
    def live() -> None:
        if was_running:
            _progress(shown)
        rule = _ask_rule()
        rows = shown.rows
        place = chosen_place(rows, rule, running=was_running)
        _table(rows, rule, place, shown.header.run_id)
        _pickers(rows, place)
        if not was_running:
            _take_away(shown)
        if st.session_state.pop("debug_picked", False) or (was_running and not shown.running):
            st.rerun()  # what stands beside the matrix belongs to the whole page

    live()
    return chosen_place(shown.rows, _rule(), running=was_running)


def _rule() -> Rule:
    return "mcq_strict" if st.query_params.get("rule") == "mcq_strict" else "mcq_loose"


def _ask_rule() -> Rule:
    from_address("rule", "debug_rule", _RULES, "mcq_loose")

    def change() -> None:
        to_address("rule", "debug_rule")
        st.session_state["debug_picked"] = True

    st.segmented_control(
        "Choices are judged by", list(_RULES), required=True, key="debug_rule", on_change=change,
        format_func=_RULES.__getitem__,
        help="Paper’s rule: the answer occurs in the response, which also counts a response that lists all choices. "
        "Strict rule: exactly one choice is named.",
    )  # fmt: skip
    return _rule()


def _progress(shown: Shown) -> None:
    if shown.bench is None:
        return
    now = shown.bench.progress
    cells = [cell for cell in cells_of(shown.rows) if cell.state != "waiting"]
    total = max(1, len(cells_of(shown.rows)))
    figures = f"{len(cells)} of {total} answers · {now.done} of {now.planned} trials"
    if now.calls:
        figures += f" · {now.calls:,} calls · {now.tokens:,} tokens · {_cost(shown.bench)}"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(min(1.0, len(cells) / total), text=figures.replace("$", r"\$"))
        st.button(
            "Stop", icon=":material/stop:", on_click=shown.bench.stop, key="debug_stop",
            help="Finished trials are kept, and what the others were told: the run can go on later.",
        )  # fmt: skip


def _cost(bench: BenchRun) -> str:
    """Return what the calls cost so far; unknown as soon as one of them has no price."""
    calls = [event.call for events in bench.snapshot().values() for event in events if isinstance(event, Called)]
    if any(call.cost_usd is None and call.error is None for call in calls):
        return "cost unknown"
    return money(bench.progress.cost_usd)


def _table(rows: Sequence[Row], rule: Rule, place: Place | None, run_id: str) -> None:
    frame = matrix_frame(rows, rule)
    key = f"debug_matrix_{run_id}"

    def pick() -> None:
        cells = st.session_state[key].selection.cells
        if cells and cells[0][0] < len(rows):
            row, column = rows[cells[0][0]], str(cells[0][1])
            trials = {_trial(cell.trial): cell.trial for cell in row.cells}
            fallback = place.trial if place else 0
            wanted = Place(trials.get(column, fallback), (row.format, row.question_type))
            if cells != st.session_state.get("debug_matrix_set"):  # the browser also reports what was set here
                _go(wanted)

    if place is not None:
        here = [(_row_of(rows, place), _trial(place.trial))]
        held = st.session_state.get(key)
        if not held or list(held["selection"]["cells"]) != here:
            st.session_state[key] = {"selection": {"rows": [], "columns": [], "cells": here}}
            st.session_state["debug_matrix_set"] = here
    st.dataframe(
        styled(frame, dark=is_dark()), hide_index=True, key=key, on_select=pick, selection_mode="single-cell",
        row_height=_ROW_PX, height="content", alt="Verdicts by format, question type and trial",
        column_config={
            "Doctor is shown": st.column_config.TextColumn(width=112),
            "Asked": st.column_config.TextColumn(width=94),
            "Correct": st.column_config.TextColumn(help="Trials answered correctly, of those that count.", width=60),
            **{_trial(n): st.column_config.TextColumn(width=80) for n in range(len(rows[0].cells) if rows else 0)},
        },
    )  # fmt: skip


def styled(frame: pd.DataFrame, *, dark: bool) -> Styler:
    """Return the matrix with its verdicts in colour."""
    colours = {MARK[verdict]: _INK[VERDICT[verdict][1]][dark] for verdict in MARK}
    trials = [column for column in frame.columns if column.startswith("Trial ")]
    return frame.style.map(
        lambda text: f"color: {colours[text]}" if text in colours else "", subset=pd.IndexSlice[:, trials]
    )


def _pickers(rows: Sequence[Row], place: Place | None) -> None:
    """Ask for arm and trial: the way to a cell by keyboard, and on a narrow screen."""
    if place is None:
        st.caption("Choose a cell to look into it, also while the run goes on.")
        return
    arms: list[Arm] = [(row.format, row.question_type) for row in rows]
    trials = sorted({cell.trial for cell in cells_of(rows)})
    preset("debug_arm", place.arm)
    preset("debug_trial", place.trial)

    def go() -> None:
        _go(Place(st.session_state["debug_trial"], st.session_state["debug_arm"]))

    left, right = st.columns([3, 2])
    left.selectbox("Arm", arms, key="debug_arm", format_func=lambda a: arm(*a), on_change=go)
    right.selectbox("Trial", trials, key="debug_trial", format_func=lambda n: str(n + 1), on_change=go)


def _go(place: Place) -> None:
    st.query_params["cell"] = str(place)
    for name in ("step", "left", "right"):
        st.query_params.pop(name, None)
    st.session_state["debug_picked"] = True


def _take_away(shown: Shown) -> None:
    st.download_button(
        "Download the matrix", lambda: cells_frame(shown.rows).to_csv(index=False).encode(),
        f"{shown.header.run_id}-matrix.csv", "text/csv", icon=":material/download:", on_click="ignore", type="tertiary",
        key="debug_csv", help="Every cell with its response, what was read out of it, and its verdicts, as CSV.",
    )  # fmt: skip


def _row_of(rows: Sequence[Row], place: Place) -> int:
    return next(n for n, row in enumerate(rows) if (row.format, row.question_type) == place.arm)


def _trial(number: int) -> str:
    return f"Trial {number + 1}"
