"""Graders of free responses measured: who agrees with whom, what accuracy each gives, where they differ, who wavers."""

from collections.abc import Mapping

import streamlit as st

from core.errors import AnamnesisError
from core.frameworks.casting import CastNames, is_model
from core.jobs.estimate import Estimate
from core.jobs.regrade import FREE, Regrading, begin_regrading, estimate, regrading
from core.models.registry import load_registry
from core.store.database import Store
from pages.judges.graders.accuracy import draw_accuracy
from pages.judges.graders.agreement import draw_agreement, draw_contradictions
from pages.judges.graders.data import Graders, graders, offers
from pages.judges.graders.differences import draw_differences
from pages.kit.cached import cached_query
from pages.kit.controls import choose_several
from pages.kit.jobs import draw_estimate, draw_work
from pages.kit.look import QUESTION_TYPE, in_callback, plain
from pages.kit.names import model_name, unique_names
from pages.kit.notes import draw_view_notes
from pages.kit.page import draw_sections, say_how_to_begin
from pages.kit.seats import ask_address, ask_seat, packs, seat_problem
from pages.kit.stored import run_casts
from pages.kit.view import View, ask_view
from pages.kit.visitor import only

_OWN = "each run's own"


def draw_again(_view: View, _of: Graders, _names: Mapping[str, str]) -> None:
    """Draw the form, or how far a re-grading is that is under way."""
    work = regrading()
    if work is not None and work.running:
        st.fragment(draw_work, run_every=1.0)(work, "Grading", "Reading the answers…", "graders_again", "answers")
        return
    if work is not None and work.error:
        st.error(plain(work.error), icon=":material/cloud_off:")
    elif work is not None and (done := work.result) is not None:
        words = f"{done.answers:,} answers graded by {model_name(done.grader)}: {done.changed:,} verdicts changed."
        words += f" {done.failed:,} could not be graded ({done.failure}); they keep their verdicts." * bool(done.failed)
        words += f" {done.stopped} What was graded is kept; the same again goes on." if done.stopped else ""
        (st.warning if done.failed or done.stopped else st.success)(plain(words), icon=":material/rule:")
    st.caption(
        "Every verdict is kept, and the newest counts in all figures. The same words to the same right answer are "
        "asked about once. A provider’s failure replaces no verdict."
    )
    runs = {run.run_id: f"{model_name(run.doctor)} · {run.run_id}" for run in run_casts()}
    left, right = st.columns(2, gap="large")
    with left:
        chosen = choose_several("Runs", list(runs), "graders_again_runs", names=runs, placeholder="Choose runs")
        types = st.pills(
            "Questions",
            list(FREE),
            selection_mode="multi",
            default=list(FREE),
            key="graders_again_types",
            persist_state="session",
            format_func=QUESTION_TYPE.__getitem__,
        )
    pack, address, budget, fresh = _OWN, None, None, False
    with right:
        grader = ask_seat("graders", "grader")
        if is_model(grader):
            pack = st.selectbox(
                "Prompt pack",
                [_OWN, *packs()],
                key="graders_again_pack",
                persist_state="session",
                help="Under another pack the grader is told apart by the pack's name.",
            )
            address = ask_address("graders")
            budget = st.number_input(
                "Stop at US dollars", 0.0, None, None, key="graders_again_budget", placeholder="No limit"
            )
            fresh = st.toggle(
                "Ask about every answer again",
                key="graders_again_fresh",
                persist_state="session",
                help="Also where this grader’s verdict is known: so a grader is measured against itself.",
            )
    if problem := seat_problem(CastNames("reference", grader=grader), address):
        st.warning(plain(problem), icon=":material/key:")
        return
    if not chosen:
        st.info("Choose at least one run.", icon=":material/checklist:")
        return
    prompts = None if pack == _OWN else pack
    wanted = Regrading(chosen, grader, prompts, tuple(types or FREE), None, address, fresh)
    try:
        size = _estimate(wanted)
    except AnamnesisError as error:
        st.info(plain(str(error)), icon=":material/info:")
        return
    draw_estimate(size)
    st.button(
        "Grade again",
        icon=":material/rule:",
        type="primary",
        on_click=in_callback(begin_regrading),
        args=(wanted,),
        kwargs={"budget_usd": budget},
        key="graders_again_start",
        **only("run", disabled=not size.todo),
    )


@cached_query("Counting the answers…")
def _estimate(wanted: Regrading) -> Estimate:
    return estimate(wanted, load_registry(), Store())


_SECTIONS = {
    "Agreement": draw_agreement,
    "Accuracy by grader": draw_accuracy,
    "Differences": draw_differences,
    "Contradictions": draw_contradictions,
    "Grade again": draw_again,
}


def draw_graders() -> None:
    """Draw the page, or what to do where nobody has judged a free response."""
    held = graders()
    if not held:
        say_how_to_begin(
            "No free response has been judged yet. Run a campaign with an arm such as multi-turn free response "
            "(`python -m core run --doctor reference/bayes --arms multi_turn:frq`).",
            icon="rule",
        )
        return
    found = offers()
    view = ask_view({name: offer for name, (offer, _) in found.items()}, "models", "formats", "questions")
    names = unique_names(one.grader for one in held if one.grader in found[view.case_set][1])
    chosen = choose_several("Graders", list(names), "graders_shown", names=names, width=504)
    draw_view_notes(view.names, view.models)
    draw_sections(_SECTIONS, "graders_tab", view, chosen or tuple(names), names)
