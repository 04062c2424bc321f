"""Debug one case: every arm by one click, a matrix of verdicts, what was sent and came back, edits and variants."""

import pandas as pd
import streamlit as st

from core.debugger.run import EDITED
from core.debugger.steps import steps_of_trial
from core.debugger.stored import sessions
from core.debugger.variants import variants_of
from core.events import Finished
from core.frameworks.base import framework, title_of
from core.frameworks.casting import is_model
from core.journal import RunHeader
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.runs import Run
from core.text.questions import question_kind
from core.words import ROLE
from pages.debugger.matrix import Shown, current, draw_matrix, draw_resume, leave
from pages.debugger.setup import ask_and_run
from pages.debugger.step import draw_cell
from pages.debugger.variants import draw_before_after, draw_edit, draw_edit_all, draw_variants
from pages.kit.cached import ask
from pages.kit.campaigns import draw_label, label_of_run
from pages.kit.case.pictures import draw_pictures_folded
from pages.kit.jobs import draw_remembered
from pages.kit.look import ASKS_FOR, counted, plain, when
from pages.kit.names import model_name
from pages.kit.page import show
from pages.kit.seats import case_label
from pages.kit.tables import draw_table

_FEW = 8
"""Sessions up to which the list is shown at full height."""


def draw_page() -> None:
    """Draw the run in the address, or what a new one needs."""
    if (shown := current()) is not None:
        draw_run(shown)
        return
    if "run" in st.query_params or "trial" in st.query_params:
        st.info("The run in this address is not stored here; start a new one.", icon=":material/search_off:")
        draw_resume(st.query_params.get("run", ""))
    else:
        st.caption(
            "Why did it miss this one? Choose or paste a case and run every way of asking at once; then look into "
            "each answer, change what was sent, and run it again. The reference cast needs no key and no network."
        )
    ask_and_run()
    draw_earlier()


def draw_earlier() -> None:
    """List the runs of one case that are stored; a click opens one."""
    fold_if_free(Store())
    if not (found := ask(sessions)):
        return
    st.subheader("Earlier sessions", anchor=False)
    table = pd.DataFrame(
        [
            {
                "Name": label_of_run(run.run_id).name or None,
                "Case": case_label(one.case) + prompts,
                "Played by": players(run),
                "Asked": counted(len(run.arms), "arm"),
                "Trials": f"{run.done} of {run.planned}",
                "When (UTC)": when(run.created_at),
            }
            for one in found
            for run in [one.run]
            for prompts in [" · prompts edited" if one.edited_from and one.case.dataset != EDITED else ""]
        ]
    )
    draw_table(
        table,
        "debug_earlier",
        on_row=lambda row: st.query_params.update(run=found[row].run.run_id),
        height=290 if len(found) > _FEW else "content",
        download="",
        alt="Earlier sessions",
    )
    st.caption("A click opens a session; there it can be given a name.")


def draw_run(shown: Shown) -> None:
    """Draw the matrix, the chosen cell beside it, and the editor of its step below."""
    draw_head(shown)
    draw_before_after(shown)
    left, right = st.columns(2, gap="small")
    with left:
        cell = draw_matrix(shown)
    record = shown.record(cell.trial) if cell else None
    if cell is None or record is None:
        return
    stored = not shown.running and any(isinstance(event, Finished) for event in record.events)
    with right:
        step = draw_cell(cell, record, steps_of_trial(record), stored=stored)
    if step is not None:
        st.divider()
    if step is not None and stored:
        variants = variants_of(record.trial_id, step.key)
        draw_edit(record, step, variants)
        draw_variants(step, variants)
    elif step is not None:
        then = "once the run is over" if shown.running else "only in a trial that came to its end; this one was stopped"
        st.caption(f"Messages can be edited and run again {then}.")
    draw_edit_all(shown)


def draw_head(shown: Shown) -> None:
    """Draw what is shown: the case with its answer, who plays, and how the run ended."""
    header, case, bench = shown.header, shown.case, shown.bench
    name = "" if shown.single else label_of_run(header.run_id).name
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.subheader(plain(name or case_label(case)), anchor=False, width="content")
        with st.container(horizontal=True, width="content"):
            if header.source == "bench" and not shown.single and not shown.running:
                draw_label(header.run_id, f"{case_label(case)}, {players(header)}")
            st.button("Another case", icon=":material/add:", on_click=leave, key="debug_new")
    settings = [
        *([plain(case_label(case))] if name else []),
        title_of(header.protocol),
        f"asks for: {ASKS_FOR[question_kind(case)].lower()}",
        plain(players(header)),
        f"prompts {plain(header.prompt_pack)}",
        f"seed {header.seed}",
    ]
    if persona := str(header.settings.get("persona") or ""):
        settings.append(f"persona {plain(persona)}")
    if header.settings.get("images"):
        settings.append("with pictures")
    st.markdown(f"Right answer **{plain(case.answer)}** :gray[· {' · '.join(settings)}]")
    draw_pictures_folded(case, "debug_run")
    if bench is not None:
        now = bench.progress
        if bench.error:
            st.error(plain(bench.error), icon=":material/cloud_off:")
        elif bench.stopped and not shown.running:
            st.info(f"The run was stopped: {now.done} of {now.planned} trials came to their end and are stored.")
        draw_remembered(now.remembered, now.unused)
    ended = sum(any(isinstance(event, Finished) for event in events) for events in shown.events.values())
    if not shown.running and not shown.single and ended < header.trials:
        draw_resume(header.run_id)


def players(run: RunHeader | Run) -> str:
    """Return who plays in a run, in a few words."""
    roles = [seat.role for seat in framework(run.protocol).seats]
    cast = {role: str(getattr(run, role, None) or run.settings.get(role) or "") for role in roles}
    if not any(map(is_model, cast.values())):
        return "reference cast"
    names = {role: model_name(name) if is_model(name) else "reference" for role, name in cast.items()}
    if len(set(names.values())) == 1:
        return f"{names[roles[0]]} in every seat"
    return ", ".join(f"{ROLE[role].lower()} {name}" for role, name in names.items())


if __name__ == "__main__":
    show("Case debugger", draw_page)
