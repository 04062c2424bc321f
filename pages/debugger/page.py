"""Debug one case: ask about it in every format, read all verdicts, requests and replies, edit, and branch."""

import pandas as pd
import streamlit as st

from core.debugger.run import EDITED
from core.debugger.steps import steps_of_trial
from core.debugger.stored import sessions
from core.events import Finished
from core.frameworks.base import framework, title_of
from core.frameworks.casting import is_model
from core.journal import RunHeader
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.runs import Run
from core.text.questions import question_kind
from core.words import ROLE
from pages.debugger.edit import draw_before_after, draw_edit, draw_edit_all
from pages.debugger.matrix import BenchView, current, draw_matrix, draw_resume, leave
from pages.debugger.setup import ask_and_run
from pages.debugger.step import draw_cell
from pages.kit.cached import ask
from pages.kit.campaigns import draw_label, label_of_run
from pages.kit.case.pictures import draw_pictures_folded
from pages.kit.jobs import draw_reused_replies
from pages.kit.look import ASKS_FOR, plain, when
from pages.kit.names import model_name
from pages.kit.page import show
from pages.kit.seats import case_label
from pages.kit.tables import draw_table

_FULL_HEIGHT = 8
"""A list of at most this many sessions is shown at full height."""


def draw_page() -> None:
    if (view := current()) is not None:
        draw_run(view)
        return
    if "run" in st.query_params or "trial" in st.query_params:
        st.info("The run in this URL is not stored here.", icon=":material/search_off:")
        draw_resume(st.query_params.get("run", ""))
    else:
        st.caption("Run one case, read every request and reply, then branch with a change.")
    ask_and_run()
    draw_earlier()


def draw_earlier() -> None:
    fold_if_free(Store())
    if not (stored := ask(sessions)):
        return
    st.header("Earlier sessions", anchor=False)
    table = pd.DataFrame(
        [
            {
                "Name": label_of_run(run.run_id).name or None,
                "Case": case_label(session.case) + prompts,
                "Players": players(run),
                "Questions": len(run.arms),
                "Trials": f"{run.done} of {run.planned}",
                "When (UTC)": when(run.created_at),
            }
            for session in stored
            for run in [session.run]
            for prompts in [" · prompts edited" if session.edited_from and session.case.dataset != EDITED else ""]
        ]
    )
    draw_table(
        table,
        "debug_earlier",
        on_row=lambda row: st.query_params.update(run=stored[row].run.run_id),
        height=290 if len(stored) > _FULL_HEIGHT else "content",
        download="",
        alt="Earlier sessions",
    )
    st.caption("Click a session to open it.")


def draw_run(view: BenchView) -> None:
    """Draw the matrix, the chosen cell next to it, and the editor of its step below."""
    draw_head(view)
    draw_before_after(view)
    matrix_column, cell_column = st.columns([3, 4], gap="small")
    with matrix_column:
        cell = draw_matrix(view)
    record = view.record(cell.trial) if cell else None
    if cell is None or record is None:
        return
    stored = not view.running and any(isinstance(event, Finished) for event in record.events)
    steps = steps_of_trial(record)
    with cell_column:
        step = draw_cell(cell, record, steps, stored=stored)
    if step is not None:
        st.divider()
    if step is not None and stored:
        draw_edit(record, steps, step)
    elif step is not None:
        condition = "after the run" if view.running else "in a finished trial; this one was stopped"
        st.caption(f"You can branch from a step {condition}.")
    draw_edit_all(view)


def draw_head(view: BenchView) -> None:
    """Draw the case with its answer, the cast and settings, and how the run ended."""
    header, case, bench = view.header, view.case, view.bench
    name = "" if view.single else label_of_run(header.run_id).name
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.header(plain(name or case_label(case)), anchor=False, width="content")
        with st.container(horizontal=True, width="content"):
            if header.source == "bench" and not view.single and not view.running:
                draw_label(header.run_id, f"{case_label(case)}, {players(header)}")
            st.button("Another case", icon=":material/add:", on_click=leave, key="debug_new")
    settings = [
        *([plain(case_label(case))] if name else []),
        title_of(header.protocol),
        f"asks for: {ASKS_FOR[question_kind(case)].lower()}",
        plain(players(header)),
        f"seed {header.seed}",
    ]
    if header.prompt_pack != header.protocol:
        settings.append(f"prompts {plain(header.prompt_pack)}")
    if persona := str(header.settings.get("persona") or ""):
        settings.append(f"persona {plain(persona)}")
    if header.settings.get("images"):
        settings.append("with pictures")
    st.markdown(f"Right answer **{plain(case.answer)}** :gray[· {' · '.join(settings)}]")
    draw_pictures_folded(case, "debug_run")
    if bench is not None:
        progress = bench.progress
        if bench.error:
            st.error(plain(bench.error), icon=":material/cloud_off:")
        elif bench.stopped and not view.running:
            st.info(f"Stopped: {progress.done} of {progress.planned} trials are stored.")
        draw_reused_replies(progress.remembered, progress.unused)
    ended = sum(any(isinstance(event, Finished) for event in events) for events in view.events.values())
    if not view.running and not view.single and ended < header.trials:
        draw_resume(header.run_id)


def players(run: RunHeader | Run) -> str:
    roles = [seat.role for seat in framework(run.protocol).seats]
    cast = {role: str(getattr(run, role, None) or run.settings.get(role) or "") for role in roles}
    if not any(map(is_model, cast.values())):
        return "rules, no model"
    names = {role: model_name(name) if is_model(name) else "reference" for role, name in cast.items()}
    if len(set(names.values())) == 1:
        return f"{names[roles[0]]} in every role"
    return ", ".join(f"{ROLE[role].lower()} {name}" for role, name in names.items())


if __name__ == "__main__":
    show("Case debugger", draw_page)
