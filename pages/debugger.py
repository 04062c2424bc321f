"""Debug one case: every arm by one click, a matrix of verdicts, what was sent and came back, edits and variants."""

import streamlit as st

from core.debugger.steps import steps_of_trial
from core.debugger.variants import variants_of
from core.errors import AnamnesisError
from core.frameworks.base import framework, title_of
from core.frameworks.casting import is_model
from core.journal import RunHeader
from core.words import ROLE
from pages.parts.case_pictures import draw_pictures_folded
from pages.parts.debug_edit import draw_edit
from pages.parts.debug_matrix import draw_matrix
from pages.parts.debug_runs import Shown, asked_for, cell_at, current, draw_resume, leave
from pages.parts.debug_setup import ask_and_run
from pages.parts.debug_step import draw_cell
from pages.parts.debug_variants import draw_variants
from pages.parts.figures import model_name
from pages.parts.look import ASKS_FOR, plain
from pages.parts.navigation import require_app
from pages.parts.setup import case_label
from pages.parts.work_progress import draw_remembered

require_app()


def draw_head(shown: Shown) -> None:
    """Draw what is shown: the case with its answer, and who plays."""
    header, case = shown.header, shown.case
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.subheader(plain(case_label(case)), anchor=False, width="content")
        st.button("Another case", icon=":material/add:", on_click=leave, key="debug_new")
    asked = f"asks for: {ASKS_FOR[case.asks_for].lower()}"
    who = cast_words(header)
    settings = [title_of(header.protocol), asked, who, f"prompts {plain(header.prompt_pack)}", f"seed {header.seed}"]
    persona = str(header.settings.get("persona") or "")
    settings += [f"persona {plain(persona)}"] if persona else []
    settings += ["with pictures"] if header.settings.get("images") else []
    st.markdown(f"Right answer **{plain(case.answer)}** :gray[· {' · '.join(settings)}]")
    draw_pictures_folded(case, "debug_run")
    if shown.bench is not None and shown.bench.error:
        st.error(plain(shown.bench.error), icon=":material/cloud_off:")
    elif shown.bench is not None and shown.bench.stopped and not shown.running:
        now = shown.bench.progress
        st.info(f"The run was stopped: {now.done} of {now.planned} trials came to their end and are stored.")
    if shown.bench is not None:
        draw_remembered(shown.bench.progress.remembered, shown.bench.progress.unused)
    if not shown.running and not shown.complete:
        draw_resume(header.run_id)


def cast_words(header: RunHeader) -> str:
    """Return who plays, in words."""
    roles = [seat.role for seat in framework(header.protocol).seats]
    cast = {role: str(getattr(header, role, None) or header.settings.get(role) or "") for role in roles}
    if not any(map(is_model, cast.values())):
        return "reference cast"
    names = {role: model_name(name) if is_model(name) else "reference" for role, name in cast.items()}
    return ", ".join(f"{ROLE[role].lower()} {plain(name)}" for role, name in names.items())


def draw_run(shown: Shown) -> None:
    """Draw the matrix, the chosen cell beside it, and the editor of its step below."""
    draw_head(shown)
    left, right = st.columns(2, gap="small")
    with left:
        place = draw_matrix(shown)
    record = shown.record(place.trial) if place else None
    if place is None or record is None:
        return
    steps = steps_of_trial(record)
    with right:
        step = draw_cell(cell_at(shown.rows, place), place, record, steps, stored=shown.stored(record))
    if step is None:
        return
    st.divider()
    if not shown.stored(record):
        when = "once the run is over" if shown.running else "only in a trial that came to its end; this one was stopped"
        st.caption(f"Messages can be edited and run again {when}.")
        return
    variants = variants_of(record.trial_id, step.key)
    draw_edit(record, step, variants)
    draw_variants(step, variants)


def draw_page() -> None:
    """Draw the run in the address, and what a new one needs."""
    shown = current()
    if shown is None:
        if asked_for():
            st.info("The run in this address is not stored here; start a new one.", icon=":material/search_off:")
            draw_resume(st.query_params.get("run", ""))
        else:
            st.caption(
                "Why did it miss this one? Choose or paste a case and run every way of asking at once; then look into "
                "each answer, change what was sent, and run it again. The reference cast needs no key and no network."
            )
        ask_and_run()
        return
    draw_run(shown)


st.title("Case debugger", anchor=False)
try:
    draw_page()
except AnamnesisError as error:
    st.error(plain(str(error)))
