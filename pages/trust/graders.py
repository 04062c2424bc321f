"""The tab Graders: agreement, accuracy by grader, differences, contradictions, choices, and grading again."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations, permutations
from typing import Any

import streamlit as st

from core.events import FORMATS, QUESTION_TYPES
from core.frameworks.casting import CastNames, is_model
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.jobs.regrade import FREE, RULES, Regrading
from core.measures.base import Section
from core.measures.graders.agreement import PANEL
from core.measures.graders.report import (
    ACCURACY,
    AGREEMENT,
    CHOICES_AGREEMENT,
    CHOICES_DIFFERENCES,
    CONTRADICTIONS,
    CROSSED,
    DIFFERENCES,
    JUDGED,
    read_graders,
)
from core.store.database import Store
from core.store.queries.grades import FREE_RESPONSES
from core.store.queries.runs import runs
from core.store.selection import Selection, case_sets_played, conditions
from pages.kit.cached import ask, cached_query, read
from pages.kit.controls import choose, choose_several
from pages.kit.empty import draw_empty
from pages.kit.jobs import ask_budget, draw_job, draw_start
from pages.kit.look import QUESTION_TYPE, plain
from pages.kit.names import model_name, unique_names
from pages.kit.page import draw_shown
from pages.kit.seats import ask_address, ask_seat, packs, seat_problem
from pages.kit.section import draw_section
from pages.kit.stored import run_casts
from pages.kit.view import CaseSetOptions, FilterRow, ask_selection

Names = Mapping[str, str]
"""Grader → its name on the page."""
_NEWEST = "newest"
_RUN_PACK = "each run's own"


@cached_query("Reading the verdicts…", 2)
def _offers() -> dict[str, tuple[CaseSetOptions, tuple[str, ...]]]:
    """Return case set → the filters for its free responses, and their graders; most answers first.

    Models are named by conditions without the grader, because graders are what is compared.
    """
    offers = []
    arms = {run.run_id: {arm for arm in run.arms if arm[1] in FREE_RESPONSES.types} for run in ask(runs) if run.done}
    for name in ask(case_sets_played):
        selection = Selection(case_sets=(name,))
        if graders := read(read_graders, selection):
            behind = {
                condition.name: {arm for run in condition.runs for arm in arms.get(run, ())}
                for condition in conditions(Store(), selection, without=("grader",))
            }
            asked = {part for of_model in behind.values() for arm in of_model for part in arm}
            offer = CaseSetOptions(
                tuple(model for model, of_model in behind.items() if of_model),
                tuple(option for option in FORMATS if option in asked),
                tuple(option for option in QUESTION_TYPES if option in asked),
            )
            offers.append((graders[0]["answers"], name, (offer, tuple(grader["grader"] for grader in graders))))
    return {name: offer for _, name, offer in sorted(offers, key=lambda each: -each[0])}


def _ask_panel(names: Names, row: FilterRow) -> dict[str, Any]:
    panel = choose_several(
        "Panel",
        list(names),
        "graders_panel",
        names=names,
        help="An answer is right if more than half of the panel say so. Ties and answers that not all members judged "
        "are excluded and counted.",
        placeholder="Choose at least two graders",
        where=row.popover(),
    )
    if len(panel) == 1:
        st.info("A panel needs at least two graders; an odd number cannot tie.")
    return {"panel": ",".join(panel) if len(panel) > 1 else None}


def _ask_pair(names: Names, _row: FilterRow) -> dict[str, Any]:
    pairs = {",".join(pair): " and ".join(names[grader] for grader in pair) for pair in combinations(names, 2)}
    pairs[_NEWEST] = "The newest verdict of any grader, and the one before it"
    pair = choose("Compare", list(pairs), "graders_pair", names=pairs)
    return {"panel": None if pair == _NEWEST else pair}


def _draw_tab(
    selection: Selection,
    names: Names,
    row: FilterRow,
    *,
    sections: Mapping[str, Section],
    ask_options: Callable[[Names, FilterRow], dict[str, Any]] | None = None,
) -> None:
    """Draw sections by their keys; ``ask_options`` asks for further options of their metric."""
    options = {"graders": ",".join(names), **(ask_options(names, row) if ask_options else {})}
    groups = [*permutations(names, 2), tuple(names)]  # the metric orders graders by their answers
    in_words = {", ".join(group): " · ".join(names[grader] for grader in group) for group in groups}
    words = {**in_words, **names, PANEL: "Panel (majority)"}
    for number, (key, section) in enumerate(sections.items()):
        draw_section(section, selection, options=options, names=words, name=f"graders_{key}", titled=number > 0)


def _draw_choices(selection: Selection, names: Names, _row: FilterRow) -> None:
    selection = replace(selection, question_types=None)  # the page's filter offers free responses only
    if draw_section(CHOICES_AGREEMENT, selection, names=names, name="graders_choices") is not None:
        nothing = "The grader and the rules agree on every answer."
        draw_section(CHOICES_DIFFERENCES, selection, names=names, name="graders_differing_choices", empty=nothing)


def _draw_regrading(_selection: Selection, _names: Names, _row: FilterRow) -> None:
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
        accepted = st.toggle(
            "Count accepted answers",
            key="graders_again_accepted",
            persist_state="session",
            help="Also counts the further answers that experts accept for a case. These verdicts are a condition of "
            "their own, next to the usual one.",
        )
    pack, address, budget, again = _RUN_PACK, None, None, False
    with right:
        grader = ask_seat("graders", "grader")
        if is_model(grader):
            pack = st.selectbox(
                "Prompts",
                [_RUN_PACK, *packs()],
                key="graders_again_pack",
                persist_state="session",
                help="With other prompts, the grader’s name includes theirs.",
            )
            address = ask_address("graders")
            budget = ask_budget("graders_again_budget")
            again = st.toggle(
                "Grade every answer again",
                key="graders_again_fresh",
                persist_state="session",
                help="Also answers that this grader has judged, to measure the grader against itself.",
            )
    if problem := seat_problem(CastNames("reference", grader=grader), address):
        st.warning(plain(problem), icon=":material/key:")
    elif not chosen:
        st.info("Choose at least one run.", icon=":material/checklist:")
    else:
        prompts = None if pack == _RUN_PACK else pack
        job = Regrading(tuple(chosen), grader, prompts, tuple(types or FREE), None, again, accepted, base_url=address)
        draw_start(job, "Grade again", "rule", "graders_again_start", budget)


_SECTIONS: Mapping[str, Callable[[Selection, Names, FilterRow], None]] = {
    "Agreement": partial(_draw_tab, sections={"agreement": AGREEMENT, "held": JUDGED}),
    "Accuracy by grader": partial(_draw_tab, sections={"accuracy": ACCURACY}, ask_options=_ask_panel),
    "Differences": partial(_draw_tab, sections={"differences": DIFFERENCES, "crossed": CROSSED}, ask_options=_ask_pair),
    "Contradictions": partial(_draw_tab, sections={"flips": CONTRADICTIONS}),
    "Choices": _draw_choices,
    "Grade again": _draw_regrading,
}


def draw_graders() -> None:
    """Draw the tabs, or how to begin if no free response is judged."""
    offers = _offers()
    if not offers:
        draw_empty(
            "No free response has been judged yet: start a campaign, or import the authors’ release.",
            CAMPAIGN,
            RELEASE,
            icon="rule",
        )
        return
    row = FilterRow(graders_panel=None)
    of_sets = {name: offer for name, (offer, _) in offers.items()}
    selection = ask_selection(of_sets, "models", "formats", "questions", row=row)
    (case_set,) = selection.case_sets or ("",)
    unique = unique_names(offers[case_set][1])
    names = {judge: unique[judge] for judge in offers[case_set][1]}  # in the metric’s order
    with row.own:
        chosen = choose_several("Graders", list(names), "graders_shown", names=names, width=224)
    of_chosen = {grader: name for grader, name in names.items() if grader in (chosen or names)}
    draw_shown(_SECTIONS, selection, of_chosen, row, where=row.own)
