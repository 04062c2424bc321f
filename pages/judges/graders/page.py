"""Graders of free responses measured: who agrees with whom, what accuracy each gives, where they differ, who wavers."""

from collections.abc import Mapping

import streamlit as st

from core.frameworks.casting import CastNames, is_model
from core.jobs.regrade import FREE, Regrading
from core.store.selection import Selection
from pages.judges.graders.accuracy import draw_accuracy
from pages.judges.graders.agreement import draw_agreement, draw_contradictions
from pages.judges.graders.data import Graders, graders, offers
from pages.judges.graders.differences import draw_differences
from pages.kit.controls import choose_several
from pages.kit.jobs import ask_budget, draw_job, draw_start
from pages.kit.look import QUESTION_TYPE, plain
from pages.kit.names import model_name, unique_names
from pages.kit.page import draw_sections, say_how_to_begin
from pages.kit.seats import ask_address, ask_seat, packs, seat_problem
from pages.kit.stored import run_casts
from pages.kit.view import ask_selection

_OWN = "each run's own"


def draw_again(_selection: Selection, _of: Graders, _names: Mapping[str, str]) -> None:
    """Draw the form, or how far a re-grading is that is under way."""
    if draw_job(Regrading, "graders_again"):
        return
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
            budget = ask_budget("graders_again_budget")
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
    job = Regrading(tuple(chosen), grader, prompts, tuple(types or FREE), None, fresh, base_url=address)
    draw_start(job, "Grade again", "rule", "graders_again_start", budget)


_TABS = {
    "Agreement": draw_agreement,
    "Accuracy by grader": draw_accuracy,
    "Differences": draw_differences,
    "Contradictions": draw_contradictions,
    "Grade again": draw_again,
}


def draw_graders() -> None:
    """Draw the page, or what to do where nobody has judged a free response."""
    everybody = graders()
    if not everybody:
        say_how_to_begin(
            "No free response has been judged yet. Run a campaign with an arm such as multi-turn free response "
            "(`python -m core run --doctor reference/bayes --arms multi_turn:frq`).",
            icon="rule",
        )
        return
    known = offers()
    offered = {name: offer for name, (offer, _) in known.items()}
    selection = ask_selection(offered, "models", "formats", "questions")
    (case_set,) = selection.case_sets or ("",)
    names = unique_names(one.grader for one in everybody if one.grader in known[case_set][1])
    chosen = choose_several("Graders", list(names), "graders_shown", names=names, width=504)
    draw_sections(_TABS, "graders_tab", selection, chosen or tuple(names), names)
