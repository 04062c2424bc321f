"""The part Graders: agreement, accuracy by grader, differences, contradictions, and grading again."""

from collections.abc import Mapping

import streamlit as st

from core.frameworks.casting import CastNames, is_model
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.jobs.regrade import FREE, RULES, Regrading
from core.store.selection import Selection
from pages.judges.graders.accuracy import draw_accuracy
from pages.judges.graders.agreement import draw_agreement, draw_contradictions
from pages.judges.graders.choices import draw_choices
from pages.judges.graders.data import Graders, graders, offers
from pages.judges.graders.differences import draw_differences
from pages.kit.controls import choose_several
from pages.kit.empty import draw_empty
from pages.kit.jobs import ask_budget, draw_job, draw_start
from pages.kit.look import QUESTION_TYPE, plain
from pages.kit.names import model_name, unique_names
from pages.kit.page import draw_sections
from pages.kit.seats import ask_address, ask_seat, packs, seat_problem
from pages.kit.stored import run_casts
from pages.kit.view import ask_selection

_RUN_PACK = "each run's own"


def draw_regrading(_selection: Selection, _graders: Graders, _names: Mapping[str, str]) -> None:
    """Draw the form for grading again, or the progress while it runs."""
    if draw_job(Regrading, "graders_again"):
        return
    st.caption(
        "Every verdict is stored, and the newest counts in all figures. Identical responses to the same right answer "
        "are graded once."
    )
    runs = {run.run_id: f"{model_name(run.doctor)} · {run.run_id}" for run in run_casts()}
    left, right = st.columns(2, gap="large")
    with left:
        chosen = choose_several("Runs", list(runs), "graders_again_runs", names=runs, placeholder="Choose runs")
        types = st.pills(
            "Questions",
            list(RULES),
            selection_mode="multi",
            default=list(FREE),
            key="graders_again_types",
            persist_state="session",
            format_func=QUESTION_TYPE.__getitem__,
            help="A grader’s verdict on four choices counts in no accuracy; see it under Choices.",
        )
    pack, address, budget, fresh = _RUN_PACK, None, None, False
    with left:
        accepted = st.toggle(
            "Count accepted answers",
            key="graders_again_accepted",
            persist_state="session",
            help="Also counts the further answers that experts accept for a case. These verdicts are a condition of "
            "their own, next to the usual one.",
        )
    with right:
        grader = ask_seat("graders", "grader")
        if is_model(grader):
            pack = st.selectbox(
                "Prompt pack",
                [_RUN_PACK, *packs()],
                key="graders_again_pack",
                persist_state="session",
                help="With another pack, the grader’s name includes the pack’s name.",
            )
            address = ask_address("graders")
            budget = ask_budget("graders_again_budget")
            fresh = st.toggle(
                "Grade every answer again",
                key="graders_again_fresh",
                persist_state="session",
                help="Also answers that this grader has judged, to measure the grader against itself.",
            )
    if problem := seat_problem(CastNames("reference", grader=grader), address):
        st.warning(plain(problem), icon=":material/key:")
        return
    if not chosen:
        st.info("Choose at least one run.", icon=":material/checklist:")
        return
    prompts = None if pack == _RUN_PACK else pack
    job = Regrading(tuple(chosen), grader, prompts, tuple(types or FREE), None, fresh, accepted, base_url=address)
    draw_start(job, "Grade again", "rule", "graders_again_start", budget)


_TABS = {
    "Agreement": draw_agreement,
    "Accuracy by grader": draw_accuracy,
    "Differences": draw_differences,
    "Contradictions": draw_contradictions,
    "Choices": draw_choices,
    "Grade again": draw_regrading,
}


def draw_graders() -> None:
    """Draw the tabs, or how to begin if no free response is judged."""
    all_graders = graders()
    if not all_graders:
        draw_empty(
            "No free response has been judged yet: run a campaign with an arm such as multi-turn free response, or "
            "import the authors’ release.",
            CAMPAIGN,
            RELEASE,
            icon="rule",
        )
        return
    by_case_set = offers()
    offer_of = {name: offer for name, (offer, _) in by_case_set.items()}
    selection = ask_selection(offer_of, "models", "formats", "questions")
    (case_set,) = selection.case_sets or ("",)
    names = unique_names(grader.grader for grader in all_graders if grader.grader in by_case_set[case_set][1])
    chosen = choose_several("Graders", list(names), "graders_shown", names=names, width=504)
    draw_sections(_TABS, "graders_tab", selection, chosen or tuple(names), names)
