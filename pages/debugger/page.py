"""Debug one case: every arm by one click, a matrix of verdicts, what was sent and came back, edits and variants."""

import streamlit as st

from core.debugger.steps import steps_of_trial
from core.debugger.variants import variants_of
from core.events import Finished
from core.frameworks.base import framework, title_of
from core.frameworks.casting import is_model
from core.words import ROLE
from pages.debugger.matrix import Shown, current, draw_matrix, draw_resume, leave
from pages.debugger.setup import ask_and_run
from pages.debugger.step import draw_cell
from pages.debugger.variants import draw_edit, draw_variants
from pages.kit.case.pictures import draw_pictures_folded
from pages.kit.jobs import draw_remembered
from pages.kit.look import ASKS_FOR, plain
from pages.kit.names import model_name
from pages.kit.page import show
from pages.kit.seats import case_label


def draw_page() -> None:
    """Draw the run in the address, or what a new one needs."""
    shown = current()
    if shown is not None:
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


def draw_run(shown: Shown) -> None:
    """Draw the matrix, the chosen cell beside it, and the editor of its step below."""
    draw_head(shown)
    left, right = st.columns(2, gap="small")
    with left:
        cell = draw_matrix(shown)
    record = shown.record(cell.trial) if cell else None
    if cell is None or record is None:
        return
    stored = not shown.running and any(isinstance(event, Finished) for event in record.events)
    with right:
        step = draw_cell(cell, record, steps_of_trial(record), stored=stored)
    if step is None:
        return
    st.divider()
    if not stored:
        when = "once the run is over" if shown.running else "only in a trial that came to its end; this one was stopped"
        st.caption(f"Messages can be edited and run again {when}.")
        return
    variants = variants_of(record.trial_id, step.key)
    draw_edit(record, step, variants)
    draw_variants(step, variants)


def draw_head(shown: Shown) -> None:
    """Draw what is shown: the case with its answer, who plays, and how the run ended."""
    header, case, bench = shown.header, shown.case, shown.bench
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.subheader(plain(case_label(case)), anchor=False, width="content")
        st.button("Another case", icon=":material/add:", on_click=leave, key="debug_new")
    roles = [seat.role for seat in framework(header.protocol).seats]
    cast = {role: str(getattr(header, role, None) or header.settings.get(role) or "") for role in roles}
    who = "reference cast"
    if any(map(is_model, cast.values())):
        names = {role: plain(model_name(name)) if is_model(name) else "reference" for role, name in cast.items()}
        who = ", ".join(f"{ROLE[role].lower()} {name}" for role, name in names.items())
    asked = f"asks for: {ASKS_FOR[case.asks_for].lower()}"
    settings = [title_of(header.protocol), asked, who, f"prompts {plain(header.prompt_pack)}", f"seed {header.seed}"]
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


if __name__ == "__main__":
    show("Case debugger", draw_page)
