"""Accuracy of models by format, question type, specialty and data set, with intervals."""

from dataclasses import replace

import streamlit as st

from core.datasets.published import printed_sets
from core.events import QUESTION_TYPES
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.measures.accuracy import report
from core.measures.base import Result, Section
from core.measures.compare import LOSSES
from core.measures.extent import on_different_cases
from core.measures.repeatability import POWER, REPEATABILITY
from core.measures.spend import SPEND
from core.store.selection import Selection
from pages.accuracy.endings import draw_endings
from pages.accuracy.published import SHOWN, Shown, draw_published
from pages.kit.choice import draw_chosen
from pages.kit.controls import choose
from pages.kit.empty import draw_empty
from pages.kit.figures import draw_conditions_behind
from pages.kit.look import ASKS_FOR, QUESTION_TYPE, RULE, plain
from pages.kit.names import dataset_name
from pages.kit.navigation import link
from pages.kit.notes import basis
from pages.kit.page import draw_tabs, show
from pages.kit.section import draw_section
from pages.kit.split import SPLIT, ask_split
from pages.kit.view import (
    FilterRow,
    SelectionPart,
    Statistics,
    ask_selection,
    ask_statistics,
    is_pooled,
    narrow,
    offered,
)

FIGURES = Section(
    "Accuracy",
    report,
    {"published": True, "versus_vignette": True},
    series="model",
    place="format",
    panel="group",
    figure="question_type",
    axis="Accuracy",
    caption="Accuracy: mean over a case’s counted trials, then over cases.",
    compared="each format against the same model’s vignette",
    words={rule: RULE[rule] for rule in ("mcq_loose", "mcq_strict")},
    folded=True,
)
STATIC = replace(
    FIGURES,
    title="Static and conversational accuracy",
    options={"published": True, "versus_vignette": True, "by": "dataset", "whole": True},
    series="format",
    place="model",
    figure="",
)
DRAWN = {"auto": "As fits", "bars": "Bars", "dots": "Dots"}
_STATIC = "Static and conversational"
_FEWER_CASES = frozenset({"gpt_4v", "gpt_4v_without_image"})
_GPT_4V_HINT = "GPT-4V answered only 74 cases with images; choose it to see it."


def draw_accuracy() -> None:
    """Ask for filters and options; draw figure, notes and table."""
    row = FilterRow(acc_marks="auto", acc_shared=False)
    selection, statistics = _ask(row, "models", "formats", "questions")
    (case_set,) = selection.case_sets or ("",)
    offer = offered(published=True, pooled=selection.pooled)[case_set]
    with row.own:
        split = ask_split(case_set, offer.datasets)
    with row.popover():
        if split == "specialty":
            selection = narrow(selection, offer, "specialties")
        drawn = choose("Drawn as", list(DRAWN), "acc_marks", names=DRAWN, shape="segments")
        extents = basis(selection).extents
        drawn_extents = [e for e in extents if selection.conditions is None or e.model in selection.conditions]
        shared_cases = bool(on_different_cases(drawn_extents)) and st.toggle(
            "Shared cases only",
            key="acc_shared",
            bind="query-params",
            help="These models have different cases. Leaves out cases that any of them lacks.",
        )
    options = {**FIGURES.options, "by": split, **_computed(statistics), "shared_cases": shared_cases}
    result = draw_section(replace(FIGURES, kind=drawn), selection, options=options, name="accuracy", titled=False)
    if selection.conditions is None and selection.has_published and _FEWER_CASES & set(offer.models):
        st.caption(_GPT_4V_HINT)
    _draw_what_is_behind(result, selection)


def draw_static() -> None:
    """Draw what each model loses from the vignette to the conversation, then its accuracy on both by data set."""
    row = FilterRow()
    selection, statistics = _ask(row, "models")
    (case_set,) = selection.case_sets or ("",)
    offer = offered(published=True, pooled=selection.pooled)[case_set]
    with row.own:
        types = tuple(question for question in QUESTION_TYPES if question in offer.questions)
        question = choose("Question", types, "acc_static_question", names=QUESTION_TYPE, width=160)
        split = choose("Losses", ("all", "specialty"), "acc_losses", names=SPLIT, width=160)
    selection = replace(selection, formats=("vignette", "multi_turn"), question_types=(question,))
    _draw_losses(selection, statistics, by_specialty=split == "specialty")
    by = "dataset" if len(offer.datasets) > 1 else None
    options = {**STATIC.options, "by": by, **_computed(statistics)}
    result = draw_section(STATIC, selection, options=options, name="accuracy_static", titled=False)
    _draw_what_is_behind(result, selection)


def _draw_losses(selection: Selection, statistics: Statistics, *, by_specialty: bool) -> None:
    section = replace(LOSSES, series="model", place="specialty") if by_specialty else LOSSES
    options = {"by": "specialty" if by_specialty else None, "correction": statistics.correction}
    result = draw_section(section, selection, options=options, name="losses", titled=False)
    if result and not any(row.source for row in result.figures):
        (printed, *_) = printed_sets()
        st.caption("No figure of a publication stands here: it has other cases, or none of this selection.")
        link(
            "accuracy",
            f"Cases with published figures: {plain(dataset_name(printed))}",
            "menu_book",
            cases=printed,
            acc_tab=_STATIC,
        )


def draw_publications() -> None:
    row = FilterRow()
    with row.own:
        shown: Shown = choose("Publication", list(SHOWN), "acc_published", names=SHOWN, width=360)
    selection, statistics = _ask(row, "source")
    draw_published(shown, replace(selection, pooled=False), statistics)


def _ask(row: FilterRow, *parts: SelectionPart) -> tuple[Selection, Statistics]:
    """Ask for the case set, ``parts``, what questions ask for, merged conditions, and how figures are computed."""
    selection = ask_selection(offered(published=True, pooled=is_pooled()), *parts, "asks_for", "pooled", row=row)
    statistics = ask_statistics(row.popover())
    return replace(selection, mcq_rule=statistics.rule), statistics


def _computed(statistics: Statistics) -> dict[str, str]:
    return {"interval": statistics.interval, "correction": statistics.correction}


def _draw_what_is_behind(result: Result | None, selection: Selection) -> None:
    """Draw how to get answers if there are none, then the conditions behind the rows."""
    stored_rows = [row for row in result.figures if not row.source] if result else []
    if result and not stored_rows:
        draw_empty(
            "These are the **published** figures. To test a model, start a campaign; the program’s rules need no key.",
            CAMPAIGN,
            RELEASE,
            icon="menu_book",
        )
    if selection.asks_for:
        kinds = " or ".join(ASKS_FOR[kind].lower() for kind in selection.asks_for)
        st.caption(
            f"Only cases whose question asks for: {kinds}. Published figures cover all questions and are not shown."
        )
    if result is not None:
        draw_conditions_behind({row.label["model"] for row in stored_rows}, selection)


TABS = {
    "Figures": draw_accuracy,
    _STATIC: draw_static,
    "Published": draw_publications,
    "Endings and what-if": draw_endings,
    "Repeatability, power, cost": lambda: draw_chosen((REPEATABILITY, POWER, SPEND)),
}


if __name__ == "__main__":
    show("Accuracy", lambda: draw_tabs(TABS, "acc_tab"))
