"""Runs: the form for a campaign, the list of runs, and the chosen run."""

import datetime
from collections.abc import Callable
from typing import Final

import pandas as pd
import streamlit as st

from core.frameworks.base import title_of
from core.jobs.progress import run_state
from core.store.queries.runs import RunProgress
from core.study.process import log_path
from pages.kit.campaigns import campaigns, cost_in_words, draw_damage, label_of_run
from pages.kit.look import draw_refused
from pages.kit.names import case_set_name, unique_names
from pages.kit.navigation import follow
from pages.kit.page import show
from pages.kit.tables import draw_table
from pages.runs.form import STARTED, ask_campaign, form_is_open
from pages.runs.run import draw_run, share_of
from pages.runs.study import ask_study, askable_models, draw_decision, draw_steps

_BUSY_S, _IDLE_S = 2.0, 5.0
"""Seconds between two redraws of the runs, also when idle: another process may start a run at any time."""
FORMS: Final[tuple[tuple[str, Callable[[], None]], ...]] = (
    ("New study: is another model better, or as good?", ask_study),
    ("New campaign", ask_campaign),
)
"""Title of each form, and the function that draws it."""
_ROWS = 5
"""Rows that are visible without scrolling."""


def draw_runs() -> None:
    """Draw the form for a campaign, and the list with the chosen run, redrawn every few seconds."""
    draw_damage()
    runs_before = campaigns()
    busy = any(run_state(run) == "running" for run in runs_before)
    form_open = False
    models, wanted = askable_models(), form_is_open()
    first = 0 if models and not wanted else 1
    for number, (title, draw) in enumerate(FORMS):
        box = st.expander(
            title,
            icon=":material/add:",
            expanded=number == first and (wanted or not runs_before),
            # a start, and the first run of another process, fold it: a new key takes the default
            key=f"runs_form_{number}_{st.session_state.get(STARTED, 0)}_{bool(runs_before)}",
            on_change="rerun",
        )
        with box:
            draw()
        form_open = form_open or bool(box.open)

    @st.fragment(run_every=_BUSY_S if busy else _IDLE_S)
    def watch() -> None:
        follow()
        draw_refused()
        draw_decision()
        runs = campaigns()
        if log_path().exists():
            draw_steps()
        elif not runs:
            without = "No model can be asked: add one on Models, or start the reference doctor above, which needs none."
            st.info(f"No run yet. {'Start one above.' if models else without}")
        if not runs:
            return
        if busy != any(run_state(run) == "running" for run in runs):
            st.rerun()
        run_id = st.query_params.get("run")
        chosen = next((run for run in runs if run.run_id == run_id), None)
        if run_id and chosen is None:
            st.info("This run is not stored here. The newest run is shown.", icon=":material/search_off:")
        if chosen is None and not form_open:  # below an open form, an old run would look like the campaign asked for
            chosen = runs[0]
        draw_run_list(runs, chosen)
        if chosen is not None:
            draw_run(chosen)

    watch()


def draw_run_list(runs: list[RunProgress], chosen: RunProgress | None) -> None:
    """Draw the list of runs; a click on a row stores that run in the URL."""
    names = unique_names(run.doctor for run in runs)
    table = pd.DataFrame(
        [
            {
                "State": run_state(run).capitalize(),
                "Name": label_of_run(run.run_id).name,
                "Done": None if (share := share_of(run)) is None else round(share, 2),
                "Framework": title_of(run.protocol),
                "Doctor": names[run.doctor],
                "Cases": case_set_name(run.case_set),
                "Trials": f"{run.done:,} of {format(run.planned, ',') if run.planned else '?'}",
                "Excluded": run.excluded,
                "Cost": cost_in_words(run),
                "Started": datetime.datetime.fromtimestamp(run.created_at, tz=datetime.UTC),
                "Run": run.run_id,
            }
            for run in runs
        ]
    )
    if not table["Name"].any():
        table = table.drop(columns="Name")
    if (table["Done"] == 1).all():
        table = table.drop(columns="Done")
    draw_table(
        table,
        "runs_list",
        {
            "Done": st.column_config.ProgressColumn(min_value=0, max_value=1, format="percent", width="small"),
            "Started": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm", help="Time in UTC."),
            "State": st.column_config.TextColumn(width="small"),
            "Excluded": st.column_config.NumberColumn(help="Answers that do not count; the reasons are below."),
        },
        on_row=lambda row: st.query_params.update(run=runs[row].run_id),
        marked=runs.index(chosen) if chosen else None,
        ids=[run.run_id for run in runs],
        height="content" if len(runs) <= _ROWS else 35 * (_ROWS + 1),
        download="",
    )


if __name__ == "__main__":
    show("Runs", draw_runs)
