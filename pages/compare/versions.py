"""Versions of one model in order: accuracy, the change at each step, and what rose and fell."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from core.datasets.published import printed_sets
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.measures.accuracy import report as accuracy
from core.measures.base import MetricRequest, Row, Section
from core.measures.compare import report_monitor
from core.measures.endings import REASONS, WITHOUT_DIAGNOSIS
from core.stats.corrections import LABELS
from core.store.queries.answers import answered_cases
from core.store.selection import Selection
from pages.compare.lineage import PUBLISHED, by_label, lineages, published_table, several_served
from pages.kit.cached import ask
from pages.kit.controls import choose, choose_several
from pages.kit.empty import draw_empty
from pages.kit.figures import draw_conditions_behind
from pages.kit.look import END_SHORT, arm
from pages.kit.names import RELEASED, label_of, model_name
from pages.kit.section import draw_result, draw_section, section_result, words_of
from pages.kit.stored import known_case_sets
from pages.kit.tables import draw_table
from pages.kit.view import CaseSetOptions, FilterRow, ask_selection


def in_order(rows: Sequence[Row], request: MetricRequest, options: Mapping[str, Any]) -> Sequence[Row]:
    """Return rows in the order in which the selection names their versions."""
    places = {version: place for place, version in enumerate(request.selection.conditions or ())}
    return sorted(rows, key=lambda row: places.get(row.label["model"], 0))


ACCURACY = Section(
    "Accuracy of each version by format and question",
    accuracy,
    {"published": True},
    kind="bars",
    series="model",
    place="format",
    panel="question_type",
    axis="Accuracy",
    caption="Each version on its own cases. Hatched: published.",
    folded=True,
    drawn=in_order,
)
BY_SPECIALTY = Section(
    "By specialty",
    report_monitor,
    {"by": "specialty"},
    kind="dots",
    series="specialty",
    place="specialty",
    figure="second",
    by_size=True,
    axis="Difference of accuracy",
    caption="Blue rose and orange fell at adjusted p ≤ .05.",
    columns=("second", "specialty", "difference", "ci_low", "ci_high", "p_adjusted", "n_cases"),
    heads={"second": "Step"},
    folded=True,
)
STEPS = Section(
    "What each step changed",
    report_monitor,
    kind="dots",
    series="second",
    place="format",
    panel="question_type",
    axis="Difference",
    caption="Later minus earlier version, paired by case. Filled: adjusted p ≤ .05.",
    columns=(
        "first",
        "second",
        "format",
        "question_type",
        "first_mean",
        "second_mean",
        "difference",
        "ci_low",
        "ci_high",
        "p_adjusted",
        "change",
        "n_cases",
        "improved",
        "regressed",
        "equal",
        "invalid_first",
        "invalid_second",
    ),
    heads={
        "first": "From",
        "second": "To",
        "first_mean": "Before",
        "second_mean": "After",
        "improved": "Cases improved",
        "regressed": "Cases regressed",
        "equal": "Cases equal",
        "invalid_first": "Invalid before",
        "invalid_second": "Invalid after",
    },
    help="p by the sign-flip test, corrected over all rows. Before and after: on cases with a counted answer of both "
    "versions; the bars above use all cases of a version.",
)


def draw_versions() -> None:
    """Ask for versions in order; draw their accuracy, the change at each step, and the course of conversations."""
    row = FilterRow(monitoring_served=False)
    sets = known_case_sets()
    with_steps = (
        name for name in sets if len(ask(answered_cases, Selection(case_sets=(name,)))) > 1 or several_served(name)
    )
    default_set = next(with_steps, printed_sets()[0])
    offers = {name: CaseSetOptions() for name in dict.fromkeys([default_set, *sets])}
    selection = ask_selection(offers, "rule", row=row)
    (case_set,) = selection.case_sets or ("",)
    with row.popover():
        correction = choose("Correction of p", list(LABELS), "correction", names=LABELS)
        served = several_served(case_set)
        split = bool(served) and st.toggle(
            "Split by served model",
            key="monitoring_served",
            bind="query-params",
            help="Providers change the model behind a name. Each served name becomes a version, in the order of first "
            "use.",
        )
    n_scores = ask(answered_cases, selection)
    version_of = by_label(list(n_scores))
    default = [next((label for label in version_of if label_of(version_of[label]) == name), "") for name in PUBLISHED]
    if split:
        default = [label for label, version in version_of.items() if version in served]
    elif all(label in PUBLISHED for label in default):  # only published figures have these names
        default = max(
            lineages(version_of),
            key=lambda labels: min(n_scores[version_of[label]] for label in labels),
            default=default,
        )
    with row.own:
        labels = choose_several(
            "Models" if split else "Versions, oldest first",
            list(version_of),
            "monitoring_served_versions" if split else "monitoring_versions",
            names=model_name,
            default=default,
            placeholder="None",
            width=480,
        )
    if len(labels) < 2 - split:
        st.info("Choose at least two versions.", icon=":material/timeline:")
        return
    versions = tuple(version_of[label] for label in labels)
    of_versions = replace(selection, conditions=versions)
    bars, by = (replace(ACCURACY, series="group"), "served") if split else (ACCURACY, None)
    figures = draw_section(bars, of_versions, options={"by": by}, name="monitoring_accuracy", titled=False)
    if figures and any(bar.source for bar in figures.figures):
        draw_empty(
            f"Hatched bars are the published figures of {RELEASED.title}. To test differences and read conversations, "
            "import the authors’ release, or run the models.",
            RELEASE,
            CAMPAIGN,
            icon="menu_book",
        )
        draw_table(published_table(case_set, versions), "monitoring_published")
    stored = replace(selection, conditions=tuple(version for version in versions if version in n_scores))
    if len(stored.conditions or ()) < 2 - split:
        return
    options = {"by": by, "correction": correction}
    if draw_section(STEPS, stored, options=options, name="monitoring") is None or split:
        return
    for section in (REASONS, WITHOUT_DIAGNOSIS):
        name = f"monitoring_{section.options['part']}"
        draw_section(replace(section, drawn=in_order), of_versions, names=END_SHORT, name=name)
    draw_conditions_behind(versions, of_versions, "these versions")
    changes = section_result(BY_SPECIALTY, stored, {**BY_SPECIALTY.options, "correction": correction})
    answers = list(dict.fromkeys((change["format"], change["question_type"]) for change in changes.figures))
    st.header(BY_SPECIALTY.title, anchor=False)
    answer = choose("Answer", answers, "monitoring_arm", names=lambda key: arm(*key), width=360)
    rows = tuple(change for change in changes.figures if (change["format"], change["question_type"]) == answer)
    steps = {change["second"]: " → ".join(map(model_name, (change["first"], change["second"]))) for change in rows}
    draw_result(
        replace(BY_SPECIALTY, help=f"p corrected by {LABELS[correction]} over all {len(changes.rows)} tests."),
        replace(changes, rows=rows),
        {**words_of(changes, stored), **steps},
        name="monitoring_groups",
        selection=stored,
        titled=False,
    )
