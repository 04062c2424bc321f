"""The run of one case in the URL, and its matrix of verdicts (arms × trials) with one chosen cell."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd
import streamlit as st

from core import access
from core.case import Case
from core.debugger.run import BenchRun, MatrixCell, MatrixRow, matrix, resume_bench
from core.debugger.steps import TrialRecord
from core.debugger.stored import load_bench, load_record
from core.events import COUNTED, Called, Event, Rule, Verdict
from core.frameworks.base import Arm
from core.jobs.plan import trials_of
from core.jobs.progress import is_running
from core.journal import RunHeader, done_trials, journal_path, read_header
from pages.kit.cached import cached_query
from pages.kit.cases import clear_parameters
from pages.kit.controls import choose_by_name
from pages.kit.figures import is_dark
from pages.kit.look import FORMAT, QUESTION_TYPE, RULE, VERDICT, arm, cost_of, counted, in_callback, verdict_in_brief
from pages.kit.tables import offer_csv
from pages.kit.visitor import only

_BENCH = re.compile(r"bench-[\w-]+")
_MAX_RUNS = 30
"""Runs kept in memory; the oldest finished runs are dropped."""
_stored = cached_query()(load_bench)
_record = cached_query(entries=64)(load_record)


@dataclass(frozen=True)
class BenchView:
    """A run of one case: trial number → the trial’s id and events.

    ``bench`` is the run if it was started in this process. ``single``: only one trial of the run is shown.
    """

    header: RunHeader
    case: Case
    events: Mapping[int, Sequence[Event]]
    trial_ids: Mapping[int, str]
    bench: BenchRun | None = None
    single: bool = False

    @property
    def running(self) -> bool:
        return self.bench is not None and self.bench.running

    @property
    def rows(self) -> list[MatrixRow]:
        if self.bench is not None:
            return self.bench.matrix()
        arms: list[Arm] = [(format_, kind) for format_, kind in self.header.arms]  # type: ignore[misc]
        return matrix(self.events, None if self.single else arms)

    def record(self, number: int) -> TrialRecord | None:
        """Return a trial for the debugger, or ``None`` if it is no longer stored."""
        return self.bench.record(number) if self.bench is not None else _record(self.trial_ids[number])


@st.cache_resource
def _benches() -> dict[str, BenchRun]:
    return {}


def adopt(bench: BenchRun) -> None:
    """Put a run into the URL, keep it in memory for all sessions with that URL, and rerun the page."""
    benches = _benches()
    for key in [key for key, run in benches.items() if not run.running][: max(0, len(benches) - _MAX_RUNS)]:
        del benches[key]
    benches[bench.run_id] = bench
    leave()
    st.query_params["run"] = bench.run_id
    st.rerun()


leave = partial(clear_parameters, "run", "trial", "cell", "step", "view")


def draw_resume(run_id: str) -> None:
    """Offer to resume a run of this page that was stopped or broke off, if it exists."""
    if not _BENCH.fullmatch(run_id) or not (path := journal_path(run_id)).exists() or is_running(run_id):
        return
    missing = len(trials_of(read_header(path))) - len(done_trials(path))
    if missing and st.button(
        f"Resume: {counted(missing, 'trial is', 'trials are')} missing",
        icon=":material/resume:",
        key="debug_go_on",
        **only("run", help="Stored replies are reused."),
    ):
        adopt(resume_bench(run_id))


def current() -> BenchView | None:
    """Return the run or trial in the URL, or ``None`` if there is none or it is not stored here."""
    if not (trial_id := st.query_params.get("trial")):
        return session_of(st.query_params.get("run", ""))
    if (record := _record(trial_id)) is None:
        return None
    return BenchView(record.header, record.case, {record.number: record.events}, {record.number: trial_id}, single=True)


def session_of(run_id: str) -> BenchView | None:
    """Return a run of one case, from this process or stored, or ``None``."""
    if not run_id:
        return None
    if (bench := _benches().get(run_id)) is not None and access.may_see(bench.header.owner):
        return BenchView(bench.header, bench.case, bench.snapshot(), {}, bench)
    stored = _stored(run_id)
    return BenchView(stored.header, stored.case, stored.events, stored.trial_ids) if stored else None


_REDRAW_S = 0.7
_ROW_PX = 31
_PENDING = {"answered": "… Grading"}
_INK = {
    "green": ("#00694A", "#3DCB9B"), "red": ("#B03A00", "#FF8A50"), "orange": ("#8A5A00", "#EDB84A"),
    "gray": ("#667777", "#8FA3A2"),
}  # fmt: skip
"""Colour of a verdict on a light and on a dark page."""
_RULES = ("mcq_loose", "mcq_strict")
_WRONG: tuple[Verdict, ...] = tuple(verdict for verdict in COUNTED if verdict != "correct")


def matrix_frame(rows: Sequence[MatrixRow], rule: Rule) -> pd.DataFrame:
    """Return the matrix in words: a row for each arm, a column for each trial, and the number of correct trials."""
    return pd.DataFrame(
        [
            {
                "Format": FORMAT[row.format],
                "Question": QUESTION_TYPE[row.question_type],
                **{
                    _trial(cell.trial): verdict_in_brief(cell.verdict(rule)) or _PENDING.get(cell.state, "·")
                    for cell in row.cells
                },
                "Correct": f"{correct} of {counted}" if counted else "–",
            }
            for row in rows
            for correct, counted in [row.correct(rule)]
        ]
    )


def before_after_frame(before: Sequence[MatrixRow], after: Sequence[MatrixRow], rule: Rule) -> pd.DataFrame:
    """Return one row for each arm: correct trials before and after an edit, and the verdicts that changed."""
    row_before = {(row.format, row.question_type): row for row in before}
    rows = []
    for row in after:
        previous = row_before.get((row.format, row.question_type))
        counts = [arm_row.correct(rule) if arm_row else (0, 0) for arm_row in (previous, row)]
        old_verdicts = {cell.trial: cell.verdict(rule) for cell in previous.cells} if previous else {}
        changes = [
            f"{_trial(cell.trial)}: {verdict_in_brief(old)} → {verdict_in_brief(new)}"
            for cell in row.cells
            if (old := old_verdicts.get(cell.trial)) and (new := cell.verdict(rule)) and old != new
        ]
        texts = [f"{correct} of {counted}" if counted else "–" for correct, counted in counts]
        rows.append(
            {
                "Format": FORMAT[row.format],
                "Question": QUESTION_TYPE[row.question_type],
                "Correct before": texts[0],
                "Correct after": texts[1],
                "Changed verdicts": "; ".join(changes) or "none",
            }
        )
    return pd.DataFrame(rows)


def cells_frame(rows: Sequence[MatrixRow]) -> pd.DataFrame:
    cells = [cell for row in rows for cell in row.cells]
    return pd.DataFrame(
        [{**vars(cell), "trial": cell.trial + 1, **dict.fromkeys(RULE), **cell.verdicts} for cell in cells]
    ).drop(columns="verdicts", errors="ignore")


def draw_matrix(view: BenchView) -> MatrixCell | None:
    """Draw the matrix and return the chosen cell; it redraws itself while the run is running."""
    was_running = view.running

    @st.fragment(run_every=_REDRAW_S if was_running else None)
    def live() -> None:
        if was_running and view.bench is not None:
            _draw_progress(view.bench, view.rows)
        choose_by_name(
            "Rule for choices",
            _RULES,
            "rule",
            "debug_rule",
            default="mcq_loose",
            names=RULE,
            shape="segments",
            on_change=_redraw,
            help="Whether a reply counts as right that contains the right choice, even in a list of all, or only "
            "one that names exactly one choice.",
        )
        rows = view.rows
        cell = chosen_cell(rows, running=was_running)
        _draw_table(rows, cell, view.header.run_id)
        if cell is None:
            st.caption("Choose a cell to see its details.")
        else:
            cells = {address_of(other): other for row in rows for other in row.cells}
            # the way to a cell by keyboard and on a narrow screen
            choose_by_name(
                "Answer",
                list(cells),
                "cell",
                "debug_cell",
                default=address_of(cell),
                clears=("step",),
                names={address: cell_label(other) for address, other in cells.items()},
                on_change=_redraw,
            )
        if not was_running:
            offer_csv(lambda: cells_frame(view.rows), f"{view.header.run_id}-matrix", "Download the matrix")
        if st.session_state.pop("debug_picked", False) or (was_running and not view.running):
            st.rerun()  # the panel next to the matrix is outside this fragment

    live()
    return chosen_cell(view.rows, running=was_running)


def chosen_cell(rows: Sequence[MatrixRow], *, running: bool) -> MatrixCell | None:
    """Return the cell in the URL; otherwise, after the run, the first wrong answer or the first cell."""
    cells = [cell for row in rows for cell in row.cells]
    in_url = next((cell for cell in cells if address_of(cell) == st.query_params.get("cell")), None)
    if in_url is not None or running:
        return in_url
    return next((cell for cell in cells if cell.verdict(chosen_rule()) in _WRONG), cells[0] if cells else None)


def address_of(cell: MatrixCell) -> str:
    """Return a cell as a URL parameter; its trial is counted from 1."""
    return f"{cell.trial + 1}:{cell.format}:{cell.question_type}"


def chosen_rule() -> Rule:
    """Return the rule by which answers with choices are judged on this page."""
    return "mcq_strict" if st.query_params.get("rule") == "mcq_strict" else "mcq_loose"


def _redraw() -> None:
    st.session_state["debug_picked"] = True


def _draw_progress(bench: BenchRun, rows: Sequence[MatrixRow]) -> None:
    progress = bench.progress
    cells = [cell.state != "waiting" for row in rows for cell in row.cells]
    figures = f"{sum(cells)} of {max(1, len(cells))} answers · {progress.done} of {progress.planned} trials"
    if progress.calls:
        calls = [event.call for events in bench.snapshot().values() for event in events if isinstance(event, Called)]
        figures += f" · {progress.calls:,} calls · {progress.tokens:,} tokens · cost {cost_of(calls)}"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(min(1.0, sum(cells) / max(1, len(cells))), text=figures.replace("$", r"\$"))
        st.button(
            "Stop",
            icon=":material/stop:",
            on_click=in_callback(bench.stop),
            key="debug_stop",
            **only("run", help="All replies are stored, so the run can be resumed."),
        )


def _draw_table(rows: Sequence[MatrixRow], cell: MatrixCell | None, run_id: str) -> None:
    """Draw the verdicts; a click on a verdict chooses its cell, a click next to the verdicts its question."""
    key = f"debug_matrix_{run_id}"

    def pick() -> None:
        clicked = st.session_state[key].selection.cells
        # the browser also reports a selection that this page has set
        if clicked and clicked[0][0] < len(rows) and clicked != st.session_state.get("debug_matrix_set"):
            row, column = rows[clicked[0][0]], str(clicked[0][1])
            wanted = column if column in trials else _trial(cell.trial if cell else 0)
            target = next((other for other in row.cells if _trial(other.trial) == wanted), row.cells[0])
            st.query_params["cell"] = address_of(target)
            clear_parameters("step")
            _redraw()

    if cell is not None:
        row_number = next(n for n, row in enumerate(rows) if cell in row.cells)
        selected = [(row_number, _trial(cell.trial))]
        state = st.session_state.get(key)
        if not state or list(state["selection"]["cells"]) != selected:
            st.session_state[key] = {"selection": {"rows": [], "columns": [], "cells": selected}}
            st.session_state["debug_matrix_set"] = selected
    frame = matrix_frame(rows, chosen_rule())
    trials = [column for column in frame.columns if column.startswith("Trial ")]
    colours = {verdict_in_brief(verdict): _INK[colour][is_dark()] for verdict, (_, colour, _) in VERDICT.items()}
    st.dataframe(
        frame.style.map(
            lambda text: f"color: {colours[text]}" if text in colours else "", subset=pd.IndexSlice[:, trials]
        ),
        hide_index=True,
        key=key,
        on_select=pick,
        selection_mode="single-cell",
        row_height=_ROW_PX,
        height="content",
        alt="Verdicts by format, question type and trial",
        column_config={
            "Format": st.column_config.TextColumn(width=112),
            "Question": st.column_config.TextColumn(width=94),
            "Correct": st.column_config.TextColumn(help="Of the trials that count.", width=60),
            **{_trial(n): st.column_config.TextColumn(width=104) for n in range(len(rows[0].cells) if rows else 0)},
        },
    )


def cell_label(cell: MatrixCell) -> str:
    return f"{arm(cell.format, cell.question_type)} · trial {cell.trial + 1}"


def _trial(number: int) -> str:
    return f"Trial {number + 1}"
