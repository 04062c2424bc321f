"""The form that has stored free responses graded again: by whom, under which prompts, what it takes; progress, stop."""

import streamlit as st

from core.errors import AnamnesisError
from core.frameworks.casting import CastNames, is_model
from core.jobs.estimate import Estimate
from core.jobs.regrade import FREE, Regraded, Regrading, begin_regrading, estimate, regrading
from core.models.registry import load_registry
from core.store.database import Store
from core.store.runs import Run
from core.work import Work
from pages.parts.figures import model_name
from pages.parts.graders_data import View
from pages.parts.look import QUESTION_TYPE, plain
from pages.parts.setup import Seats, ask_address, ask_seat, packs, seat_problem
from pages.parts.stored import run_casts
from pages.parts.work_progress import draw_estimate, draw_work

_OWN = "each run's own"
_CONCURRENCY = 16


def draw_again(view: View) -> None:
    """Draw the form, or how far a re-grading is that is under way."""
    work = regrading()
    if work is not None and work.running:
        st.fragment(draw_work, run_every=1.0)(work, "Grading", "Reading the answers…", "graders_again", "answers")
        return
    if work is not None:
        _tell_end(work)
    st.caption(
        "Every verdict is kept, and the newest counts in all figures. The same words to the same right answer are "
        "asked about once. A provider’s failure replaces no verdict."
    )
    wanted, budget, problem = _ask()
    if problem:
        st.warning(plain(problem), icon=":material/key:")
        return
    if not wanted.run_ids:
        st.info("Choose at least one run.", icon=":material/checklist:")
        return
    _offer_start(wanted, budget)


def _ask() -> tuple[Regrading, float | None, str | None]:
    runs = {run.run_id: run for run in run_casts()}
    left, right = st.columns(2, gap="large")
    with left:
        chosen = st.multiselect(
            "Runs", list(runs), format_func=lambda run: _run_label(runs[run]), key="graders_again_runs",
            persist_state="session",
            placeholder="Choose runs",
        )  # fmt: skip
        types = st.pills(
            "Questions", list(FREE), selection_mode="multi", default=list(FREE), key="graders_again_types",
            persist_state="session",
            format_func=QUESTION_TYPE.__getitem__,
        )  # fmt: skip
    with right:
        grader = ask_seat("graders", "grader")
        prompts, address, budget, fresh = _ask_how() if is_model(grader) else (None, None, None, False)
    wanted = Regrading(tuple(chosen), grader, prompts, tuple(types or FREE), None, address, fresh)
    return wanted, budget, seat_problem(Seats(CastNames("reference", grader=grader), address))


def _ask_how() -> tuple[str | None, str | None, float | None, bool]:
    """Ask what only a model needs: its prompts, its address, what it may cost, whether it is asked about repeats."""
    pack = st.selectbox(
        "Prompt pack", [_OWN, *packs()], key="graders_again_pack", persist_state="session",
        help="Under another pack the grader is told apart by the pack's name.",
    )  # fmt: skip
    address = ask_address("graders")
    budget = st.number_input("Stop at US dollars", 0.0, None, None, key="graders_again_budget", placeholder="No limit")
    fresh = st.toggle(
        "Ask about every answer again", key="graders_again_fresh", persist_state="session",
        help="Also where this grader’s verdict is known: so a grader is measured against itself.",
    )  # fmt: skip
    return None if pack == _OWN else pack, address, budget, fresh


def _offer_start(wanted: Regrading, budget: float | None) -> None:
    """Say what it takes and offer to start, where there is anything to do."""
    store = Store()
    try:
        size = _estimate(str(store.path), store.version, wanted)
    except AnamnesisError as error:
        st.info(plain(str(error)), icon=":material/info:")
        return
    draw_estimate(size)
    st.button(
        "Grade again", icon=":material/rule:", type="primary", on_click=_begin, args=(wanted, budget),
        key="graders_again_start", disabled=not size.todo,
    )  # fmt: skip


@st.cache_data(max_entries=16, show_spinner="Counting the answers…")
def _estimate(path: str, version: str, wanted: Regrading) -> Estimate:
    return estimate(wanted, load_registry(), Store(), _CONCURRENCY)


def _begin(wanted: Regrading, budget: float | None) -> None:
    begin_regrading(wanted, concurrency=_CONCURRENCY, budget_usd=budget)


def _tell_end(work: Work[Regraded]) -> None:
    """Say how the last re-grading of this server went."""
    if work.error:
        st.error(plain(work.error), icon=":material/cloud_off:")
    elif work.result is not None:
        done = work.result
        words = f"{done.answers:,} answers graded by {model_name(done.grader)}: {done.changed:,} verdicts changed."
        words += f" {done.failed:,} could not be graded ({done.failure}); they keep their verdicts." * bool(done.failed)
        words += f" {done.stopped} What was graded is kept; the same again goes on." if done.stopped else ""
        (st.warning if done.failed or done.stopped else st.success)(plain(words), icon=":material/rule:")


def _run_label(run: Run) -> str:
    return f"{model_name(run.doctor)} · {run.run_id}"
