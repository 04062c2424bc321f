"""The views of History taking that show figures."""

from dataclasses import replace

import streamlit as st

from core.frameworks.consultation.measures.published import HISTORY_SETS, HistorySet
from core.frameworks.consultation.measures.sections import (
    BY_ITEMS,
    CHANGE,
    CURVES,
    FIGURES,
    MEASURE,
    ORDER,
    PATIENT,
    TOLD,
    UNCOVERED,
    VIRTUE_RULES,
)
from core.frameworks.consultation.measures.summary import Speaker, read_history
from core.stats.corrections import LABELS
from core.store.selection import Selection
from pages.kit.cached import read
from pages.kit.controls import choose
from pages.kit.empty import draw_no_match
from pages.kit.figures import draw_conditions
from pages.kit.names import model_name
from pages.kit.navigation import link
from pages.kit.notes import basis
from pages.kit.section import draw_section
from pages.kit.view import FilterRow, names_on
from pages.quality.asked import draw_words, history
from pages.quality.history.charts import differences_chart, groups_chart, recall_chart
from pages.quality.history.solving import draw_solving
from pages.quality.history.tables import draw_doctors

_SPEAKERS: dict[Speaker, str] = {
    "patient": "The patient’s, against the items",
    "doctor": "The doctor’s, against their keys",
}
_SETS: dict[str, str] = {**HISTORY_SETS, "none": "None"}


def draw_overview(selection: Selection, row: FilterRow) -> None:
    """Draw information uncovered against accuracy, what each doctor asked in words, and the table of doctors."""
    published = ask_published(row)
    with row.popover():
        bounds = st.toggle("Intervals", key="history_bounds", bind="query-params", help="95 %, by resampling cases.")
    options = {**FIGURES.options, "published": published}
    charts = {"reached": recall_chart}
    result = draw_section(FIGURES, selection, options=options, charts=charts, name="history_reached", titled=False)
    if result is None:
        return
    names = names_on(selection)
    stored = [row for row in result.figures if not row.source]
    own = {model: [row for row in stored if row.label["model"] == model] for model in names}
    draw_words({model: history(rows) for model, rows in own.items() if rows}, result, selection)
    conditions = basis(selection).conditions
    draw_doctors(result.figures, names, conditions, bounds=bounds)
    models = {row.label["model"] for row in result.figures}
    draw_conditions({model: name for model, name in names.items() if model in models}, conditions)
    empty = "No answer to the question with its choices counts after these conversations yet."
    draw_section(UNCOVERED, selection, name="history_uncovered", empty=empty)


def ask_published(row: FilterRow) -> HistorySet | None:
    """Ask which published figures are shown next to the stored ones."""
    with row.popover():
        dataset = choose(
            "Published figures",
            list(_SETS),
            "history_published",
            names=_SETS,
            shape="segments",
            help="Liao et al. (arXiv 2309.02077), tables 2 and 3. They used other cases and items made by a model, so "
            "compare only the order of doctors.",
        )
    return None if dataset == "none" else dataset  # type: ignore[return-value]


def draw_course(selection: Selection, row: FilterRow) -> None:
    """Draw how the history unfolds: curves, order of topics, and longer against shorter histories."""
    with row.popover():
        speaker = choose("Whose words", list(_SPEAKERS), "history_who", names=_SPEAKERS, shape="segments")
    draw_section(CURVES, selection, options={"speaker": speaker}, name="history_curve", titled=False)
    draw_solving(selection)
    for section in (ORDER, TOLD):
        draw_section(section, selection, name=f"history_{section.estimate or 'order'}")
    measure = choose("Measure", list(MEASURE), "history_group_measure", names=lambda m: MEASURE[m][0], width=224)
    name, meaning = MEASURE[measure]
    section = replace(BY_ITEMS, title=f"{BY_ITEMS.title}: {name}", help=f"{BY_ITEMS.help} {meaning}")
    chart = groups_chart(measure)
    empty = "No selected case has items."
    draw_section(section, selection, charts={"groups": chart}, name=f"history_groups_{measure}", empty=empty)


def draw_comparison(selection: Selection, row: FilterRow) -> None:
    models = set(read(read_history, replace(selection, mcq_rule="usual"))["model"])
    names = {model: name for model, name in names_on(selection).items() if model in models}
    if len(names) < 2:
        draw_no_match("A comparison needs two doctors on the same cases. Remove a filter, or run another doctor.")
        return
    with row.own:
        first = choose("First doctor", list(names), "history_first", names=names, width=200)
        second = choose("Second doctor", list(names), "history_second", names=names, default=list(names)[1], width=200)
    help_ = "Over all measures compared."
    correction = choose("Correction of p", list(LABELS), "correction", names=LABELS, help=help_, where=row.popover())
    if first == second:
        st.info("Choose two different doctors.")
        return
    section = replace(
        CHANGE,
        help=f"{CHANGE.help} Colour: p ≤ .05 after {LABELS[correction]}.",
        title=f"{names[first]} minus {names[second]}",
        heads={
            **CHANGE.heads,
            "after": names[first],
            "before": names[second],
            f"p_{correction}": f"p ({LABELS[correction]})",
        },
    )
    compared = replace(selection, conditions=(second, first))
    draw_section(
        section,
        compared,
        options={"correction": correction},
        charts={"shares": differences_chart},
        name="history_differences",
        titled=False,
    )
    draw_conditions({model: names[model] for model in (first, second)}, basis(compared).conditions, "these two")


def draw_patients(selection: Selection) -> None:
    """Draw the quality of the patient in each doctor’s conversations."""
    empty = "These conversations have no reply of the patient, or are not measured yet."
    patients = [condition.newest.patient for condition in basis(selection).conditions]
    section = replace(PATIENT, words={**PATIENT.words, **{patient: model_name(patient) for patient in patients}})
    draw_section(section, selection, name="history_virtues", empty=empty, titled=False)
    with st.expander("How these are measured", icon=":material/rule:"):
        st.markdown(VIRTUE_RULES)
    link(
        "experts",
        "Let people judge the patient’s speech",
        "rate_review",
        help="Plan a review with the form “The patient’s speech”: the same three questions, answered by annotators.",
    )
