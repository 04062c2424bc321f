"""What the Graders page asks: which answers, and by which graders; all in the address."""

from collections.abc import Iterable, Sequence

import streamlit as st

from core.events import FORMATS, QUESTION_TYPES
from core.measures.graders.accuracy import PANEL
from core.store.queries.graders import GraderHeld
from pages.parts.figure_controls import ask_several, dataset_name, keep_valid, unique_names
from pages.parts.figures import model_colours
from pages.parts.graders_data import View, answers_by_set, offer
from pages.parts.look import FORMAT, QUESTION_TYPE


def ask_view(held: Sequence[GraderHeld]) -> View:
    """Ask which cases, graders, models, formats and questions to look at."""
    sets = list(answers_by_set())
    keep_valid("graders_cases", sets)
    columns = st.columns([2, 4, 3, 3, 2], vertical_alignment="bottom")
    case_set = columns[0].selectbox(
        "Cases", sets, format_func=dataset_name, key="graders_cases", bind="query-params",
        help="Figures on different cases are never mixed.",
    ) or sets[0]  # fmt: skip
    on_offer = offer(case_set)
    spoke = [one.grader for one in held if one.grader in on_offer.graders]
    names = grader_names(spoke)
    chosen = ask_several(columns[1], "Graders", "graders_shown", spoke, names)
    models = unique_names(on_offer.models, case_set)
    formats = [f for f in FORMATS if f in on_offer.formats]
    questions = [q for q in QUESTION_TYPES if q in on_offer.question_types]
    return View(
        case_set,
        chosen or tuple(spoke),
        ask_several(columns[2], "Models", "graders_models", list(models), models),
        ask_several(columns[3], "Formats", "graders_formats", formats, {f: FORMAT[f] for f in formats}),
        ask_several(columns[4], "Questions", "graders_questions", questions, {q: QUESTION_TYPE[q] for q in questions}),
        names,
    )


def grader_names(graders: Iterable[str]) -> dict[str, str]:
    """Return grader → its name on the page, in the order of pages."""
    return unique_names(graders)


def judge_names(view: View) -> dict[str, str]:
    """Return the names of the graders of a view, and of the panel."""
    return {**{g: view.names.get(g, g) for g in view.graders}, PANEL: "Panel (majority)"}


def judge_colours(view: View) -> dict[str, str]:
    """Return a colour for every grader and the panel, the same in every section and for every choice."""
    return model_colours([*view.names, PANEL])
