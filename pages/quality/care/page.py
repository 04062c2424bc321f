"""CARE: accuracy, efficiency, empathy and robustness of conversations, down to the message."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.frameworks.automedic.measures.across import across_data_sets, names_across
from core.frameworks.automedic.measures.profile import EarlyEnd, clean_early_ends, read_care
from core.frameworks.automedic.measures.report import (
    ACCURACIES,
    BY_DATASET,
    EARLY_END_WORDS,
    ENDINGS,
    FAILED,
    FITS,
    HABITS,
    KINDS,
    MISUSES,
    NORMALISED,
    POINTS,
    PROFILE,
    QUERIES,
    RATINGS,
    SUMMARY,
)
from core.frameworks.automedic.queries import RULES, CareQuestion
from core.frameworks.base import publisher
from core.frameworks.starts import campaign_of
from core.measures.base import Result, Row, Section
from core.measures.choice_rules import RULE_WORDS
from core.store.selection import Selection, case_groups_played, staffed
from pages.kit.cached import ask, read
from pages.kit.cases import clear_parameters
from pages.kit.controls import choose
from pages.kit.empty import draw_empty, draw_no_match
from pages.kit.figures import draw_conditions_behind
from pages.kit.look import arm, counted
from pages.kit.names import dataset_name, model_colours
from pages.kit.section import Chart, draw_section, section_result
from pages.kit.stored import conditions, run_casts
from pages.kit.view import CaseSetOptions, FilterRow, ask_selection, names_of, specialties_in_order
from pages.kit.visitor import draw_control
from pages.quality.asked import draw_asked, draw_consultations
from pages.quality.care.charts import LinesBy, part_chart, scatter_chart
from pages.quality.care.conversations import draw_case_conversations, draw_failed, draw_ratings
from pages.quality.care.studies import draw_composite, draw_studies

_QUESTION: dict[CareQuestion, str] = {"mcq": "With choices", "frq": "Free response"}
_HOW = {"all": "Over all", "dataset": "By data set", "normalised": "Normalised"}
_LINES: dict[LinesBy, str] = {"all": "All models", "group": "By group of models", "dataset": "By data set"}


@dataclass(frozen=True)
class CareView:
    """The trials and options from which the page’s sections are drawn; ``rests`` is their caption.

    ``row`` has the controls.
    """

    selection: Selection
    options: Mapping[str, Any]
    row: FilterRow
    rests: str = ""

    def draw(self, section: Section, **arguments: Any) -> Result | None:
        """Draw a section; ``arguments`` are further arguments of ``draw_section``."""
        options = {**self.options, **arguments.pop("options", {})}
        section = replace(section, caption=" ".join(filter(None, [self.rests, section.caption])))
        name = f"care_{section.options['part']}"
        return draw_section(section, self.selection, options=options, name=name, **arguments)

    def result(self, section: Section, options: Mapping[str, Any] | None = None) -> Result:
        return section_result(section, self.selection, {**section.options, **self.options, **(options or {})})


def draw_profile(view: CareView) -> None:
    """Draw the four parts of every model, what happened in words, and the table behind them."""
    with view.row.popover():
        aggregation = choose(
            "Figures",
            list(_HOW),
            "care_how",
            names=_HOW,
            shape="segments",
            help="Normalised: within each data set from 0 (the lowest model) to 1 (the highest), then the mean over "
            "data sets.",
        )
        published = draw_control(
            st.toggle,
            "Published figures",
            "Normalised are the stored conversations alone." if aggregation == "normalised" else "",
            value=True,
            key="care_published",
            bind="query-params",
        )
    if aggregation == "normalised":
        draw_normalised(view)
        return
    options = {"by": aggregation, "published": published}
    section = BY_DATASET if aggregation == "dataset" else PROFILE
    charts = {"dots": across_chart(part_chart, view)} if aggregation == "dataset" else {}
    result = view.draw(section, options=options, titled=False, charts=charts)
    if result is None:
        return
    draw_consultations(view.result(SUMMARY, {"by": "all", "published": False}), view.result(HABITS), view.selection)
    view.draw(SUMMARY, options=options)
    if any(not row.source for row in result.figures):
        view.draw(ACCURACIES, options={"by": aggregation})
        draw_conditions_behind({row.label["model"] for row in result.figures}, view.selection)


def across_chart(chart: Callable[..., go.Figure], view: CareView) -> Chart:
    """Return the chart in which corresponding conditions on several data sets are one series."""
    joined = ask(across_data_sets, view.selection)
    named = names_of(joined.values())  # read before: what a figure is drawn from is what it closes over

    def draw(rows: Sequence[Row], names: Mapping[str, str], dark: bool) -> go.Figure:
        shared = names_across(rows, joined)
        by_series = [
            replace(row, label={**row.label, "model": shared[row.label["model"], row.label["dataset"]]}) for row in rows
        ]
        names = {**named, **names}
        models = [name for name in names if any(row.label["model"] == name for row in by_series)]
        return chart(by_series, names=names, colours=model_colours(models), dark=dark)

    return draw


def draw_normalised(view: CareView) -> None:
    """Draw the parts scaled within each data set from 0 to 1, as means over data sets."""
    rows = view.result(NORMALISED).figures
    if all(row.estimate is None for row in rows):
        st.info("Normalising needs two models with different figures on the same data set.")
        return
    heads = {**NORMALISED.heads, **{name: dataset_name(name) for name in rows[0].more}}
    view.draw(replace(NORMALISED, heads=heads), titled=False)


def draw_scatter(view: CareView) -> None:
    """Draw accuracy after the conversation against accuracy on the whole question."""
    if not view.result(POINTS).rows:
        arms = " and ".join(arm(format_, view.options["question_type"]) for format_ in ("vignette", "multi_turn"))
        draw_empty(f"No case has both answers: run a doctor with {arms}.", campaign_of(publisher("care").name))
        return
    line: LinesBy = choose(
        "Fitted line",
        list(_LINES),
        "care_line",
        names=_LINES,
        help="The group in a model’s entry in models.toml, otherwise its provider. By data set: a panel for each.",
        where=view.row.popover(),
    )
    by = "dataset" if line == "dataset" else "group"
    rows = view.result(FITS, {"line": by}).figures
    fits = [row for row in rows if (line == "all") == (row.label[by] == "all")]
    chart = across_chart(partial(scatter_chart, fits=fits, by=line), view)
    view.draw(POINTS, charts={"scatter": chart}, titled=False)
    words = {"all": "All data sets"} if by == "dataset" else FITS.words
    view.draw(replace(FITS, words=words), options={"line": by})


def draw_failures(view: CareView) -> None:
    def list_failures(row: Row) -> None:
        st.session_state["care_failed_models"] = [row.label["model"]]
        st.session_state["care_causes"] = [row.label["cause"]]
        clear_parameters("care_failure")

    view.draw(KINDS, titled=False, on_row=list_failures)
    view.draw(FAILED)
    draw_failed(view.selection, view.options)


def draw_empathy(view: CareView) -> None:
    view.draw(RATINGS, titled=False)
    draw_ratings(view.selection, view.options)


def draw_habits(view: CareView) -> None:
    for section in (QUERIES, ENDINGS, MISUSES, HABITS):
        view.draw(section, titled=section is not QUERIES)


_VIEWS: dict[str, Callable[[CareView], None]] = {
    "Profile": draw_profile,
    "Asked and missed": lambda view: draw_asked(view.selection),
    "Static and conversation": draw_scatter,
    "Failures": draw_failures,
    "Empathy": draw_empathy,
    "Habits": draw_habits,
    "Composite": lambda view: draw_composite(view.draw, view.row),
    "Studies by experts": lambda view: draw_studies(),
    "Cases": lambda view: draw_case_conversations(view.selection, view.options),
}


def draw_care() -> None:
    """Draw the chosen figures; without conversations, the published figures and how to begin."""
    offers = {question: offer for question in RULES if (offer := _offer(question)).models}
    all_staffed = Selection(frameworks=tuple(staffed()))
    row = FilterRow(care_how="all", care_published=True, care_without_blank=False)
    if not offers:
        view = CareView(all_staffed, {"by": "all", "published": True}, row)
        for section in (PROFILE, SUMMARY):
            view.draw(section, titled=False)
        care = publisher("care")
        draw_empty(
            f"These are the **published** figures; no conversation of {care.title} is stored yet. The reference "
            "patient and staff need no key.",
            campaign_of(care.name),
            icon="menu_book",
        )
        draw_studies()
        return
    question = next(iter(offers))
    with row.own:
        shown = choose("Show", list(_VIEWS), "care_tab", width=224)
        if len(offers) > 1:
            question = choose(
                "Question",
                list(offers),
                "care_questions",
                names=_QUESTION,
                width=160,
                help="With choices, an answer must name exactly one. Without, the grader judges it.",
            )
    # no case set is chosen, because figures of several data sets are shown side by side
    selection = ask_selection({"": offers[question]}, "datasets", "models", "specialties", base=all_staffed, row=row)
    trials = read(read_care, question, selection)
    if trials.empty:
        draw_no_match("No conversation fits these filters.")
        return
    blank = int((trials["conv"] == "empty").sum() + (trials["static"] == "empty").sum())
    with row.popover():
        blanks_excluded = bool(blank) and st.toggle(
            f"Exclude {counted(blank, 'blank answer')}",
            key="care_without_blank",
            bind="query-params",
            help="A blank answer ended normally without words. It counts as not correct, and after a conversation also "
            "as invalid, which lowers robustness.",
        )
        rule = _ask_early_end(trials)
    options = {
        "question_type": question,
        "blank": "excluded" if blanks_excluded else "failed",
        "early_end": rule or "failed",
    }
    rests = _rests(trials, selection, question) + (f" {EARLY_END_WORDS[rule]}." if rule else "")
    _VIEWS[shown](CareView(selection, options, row, rests))


def _ask_early_end(trials: pd.DataFrame) -> EarlyEnd | None:
    """Ask whether a clean early end is a failure; ``None`` if no doctor ended a conversation so."""
    clean = int(clean_early_ends(trials).sum())
    if not clean:
        return None
    return choose(
        f"Clean early ends ({clean:,})",
        list(EARLY_END_WORDS),
        "care_early_end",
        names=EARLY_END_WORDS,
        help="The doctor sent the end tag alone after one to three queries. The paper’s rule, an end within three "
        "turns for want of tags or by a misplaced end tag, is read here as counting it. An end before any query, "
        "without a tag or next to other words is abrupt under both rules.",
    )


def _offer(question: CareQuestion) -> CaseSetOptions:
    """Return the filters for the conversations of runs with this question."""
    arms = {f"{form}:{question}" for form in ("vignette", "multi_turn")}
    asking_runs = {run.run_id for run in run_casts() if arms & {":".join(arm) for arm in run.arms}}
    asking_conditions = [
        condition for condition in conditions(frameworks=tuple(staffed())) if asking_runs.intersection(condition.runs)
    ]
    groups = ask(case_groups_played)
    played = [
        groups[data_set]
        for data_set in {condition.newest.data_set for condition in asking_conditions}
        if data_set in groups
    ]
    return CaseSetOptions(
        tuple(condition.name for condition in asking_conditions),
        datasets=tuple(sorted({dataset for datasets, _ in played for dataset in datasets})),
        specialties=specialties_in_order(specialty for _, specialties in played for specialty in specialties),
    )


def _rests(trials: pd.DataFrame, selection: Selection, question: CareQuestion) -> str:
    sets = ", ".join(map(dataset_name, sorted(trials["dataset"].dropna().unique())))
    chosen = f"; {', '.join(selection.specialties)}" if selection.specialties else ""
    rule = RULE_WORDS.get(RULES[question])
    rule_words = f", choices by {rule}" if rule else ""
    return f"{len(trials):,} conversations on {trials['case_key'].nunique():,} cases ({sets}{chosen}{rule_words})."
