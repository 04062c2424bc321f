"""How many cases of a data set suit a consultation, why others do not, profile fields, and making profiles."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.case import Case
from core.datasets.published import rows
from core.figures.heat import AGREEMENT, HeatCell, heat
from core.figures.shares import Segment, stacked
from core.figures.style import INK
from core.frameworks.automedic.measures.published import PAPER
from core.frameworks.automedic.measures.suitability import (
    FIELDS,
    FIELDS_BY_SET,
    OUTCOMES_BY_SET,
    REASONS,
    SUITABLE,
    field_rows,
    outcome_rows,
    reason_rows,
)
from core.frameworks.base import publisher
from core.jobs.profiling import Profiling
from core.measures.base import Result, Row, Section
from core.text.profiles import STATES, WITHOUT_PROFILE, State
from pages.data.sets import CaseEntry, coverage_of
from pages.kit.controls import choose_several
from pages.kit.jobs import draw_job, draw_start
from pages.kit.look import FIELD, FROM_DATA_SET, REASON, REASON_HELP, STATE, maker_words, plain, reason_words
from pages.kit.names import dataset_name
from pages.kit.seats import OTHER, ask_address, ask_seat, registry
from pages.kit.section import Chart, draw_result

_COLOUR: dict[State, dict[bool, str]] = {
    "present": {False: "#0072B2", True: "#56B4E9"},
    "imputed": {False: "#E69F00", True: "#E69F00"},
    "absent": {False: "#DDE5E4", True: "#33474A"},
}
"""State of a field → colour, by whether the page is dark."""
_BAR_HEIGHT = 26


def reasons_chart(rows: Sequence[Row], names: Mapping[str, str], dark: bool) -> go.Figure:
    """Return a bar for each reason, as a share of all assessed cases."""
    shares, counts = [row.estimate or 0.0 for row in rows], [row["cases"] for row in rows]
    segment = Segment("Not suitable", "#D55E00", "white", shares, counts)
    labels = [names[row.label["reason"]] for row in rows]
    figure = stacked(labels, [segment], REASONS.axis, "cases", whole=False, row=_BAR_HEIGHT, dark=dark)
    return figure.update_layout(showlegend=False)


def fields_chart(rows: Sequence[Row], names: Mapping[str, str], dark: bool) -> go.Figure:
    """Return a stacked bar for each profile field: the share of suitable cases in each state of the field."""
    segments = []
    for state in STATES:
        shares = [row[state] or 0.0 for row in rows]
        counts = [round(share * (row.n or 0)) for share, row in zip(shares, rows, strict=True)]
        ink = INK[dark if state == "absent" else False]
        segments.append(Segment(STATE[state], _COLOUR[state][dark], ink, shares, counts))
    labels = [names[row.label["field"]] for row in rows]
    return stacked(labels, segments, FIELDS.axis, "cases", row=_BAR_HEIGHT, percent=True, dark=dark)


def outcomes_chart(rows: Sequence[Row], names: Mapping[str, str], dark: bool) -> go.Figure:
    """Return a bar for each data set: its suitable cases, and the others by reason, as shares of all assessed cases."""
    by_set: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_set.setdefault(row.label["dataset"], {})[row.label["reason"]] = row
    segments = []
    for outcome, (colour, ink) in _OUTCOME_COLOUR.items():
        shares = [of_set[outcome].estimate or 0.0 if outcome in of_set else 0.0 for of_set in by_set.values()]
        counts = [of_set[outcome]["cases"] if outcome in of_set else 0 for of_set in by_set.values()]
        segments.append(Segment(names.get(outcome, outcome), colour, ink, shares, counts))
    labels = [f"{names.get(name, name)}<br>n = {of_set[SUITABLE].n:,}" for name, of_set in by_set.items()]
    return stacked(labels, segments, OUTCOMES_BY_SET.axis, "cases", percent=True, dark=dark)


def fields_by_set_chart(rows: Sequence[Row], names: Mapping[str, str], dark: bool) -> go.Figure:
    """Return a row for each profile field and a column for each data set: how often the field is present."""
    sets, fields = (list(dict.fromkeys(row.label[part] for row in rows)) for part in ("dataset", "field"))
    by_place = {(row.label["field"], row.label["dataset"]): row for row in rows}

    def cell(row: Row) -> HeatCell:
        if row.estimate is None:
            return HeatCell(None, "–", "No suitable case.")
        states = ", ".join(f"{STATE[state].lower()} {row[state]:.0%}" for state in STATES)
        imputed = f" ({row['imputed']:.0%})" if row["imputed"] else ""
        words = f"{names[row.label['field']]}, {names[row.label['dataset']]}: {states}; {row.n:,} suitable cases"
        return HeatCell(row.estimate, f"{row.estimate:.0%}{imputed}", words)

    cells = [[cell(by_place[field, dataset]) for dataset in sets] for field in fields]
    columns = [names[dataset] for dataset in sets]
    return heat(cells, columns, [names[field] for field in fields], AGREEMENT, row=_BAR_HEIGHT, dark=dark)


_DARK_INK = INK[False]
_OUTCOME_COLOUR: dict[str, tuple[str, str]] = {
    SUITABLE: ("#0072B2", "white"),
    "general_knowledge": ("#E69F00", _DARK_INK),
    "abstract_concept": ("#CC79A7", _DARK_INK),
    "research_setting": ("#6A51A3", "white"),
    "image_dependent": ("#56B4E9", _DARK_INK),
    "details_in_choices": ("#8C8C8C", _DARK_INK),
}
CHARTS: dict[str, Chart] = {
    "reasons": reasons_chart,
    "fields": fields_chart,
    "outcomes": outcomes_chart,
    "fields_by_set": fields_by_set_chart,
}


def draw_suitability_by_set(assessed: Sequence[str]) -> None:
    """Draw the suitability and the profile fields of several data sets next to each other."""
    sets = {name: dataset_name(name) for name in assessed}
    st.header(OUTCOMES_BY_SET.title, anchor=False)
    chosen = choose_several("Data sets", list(sets), "data_suitable_sets", names=sets) or list(sets)
    counts = {name: coverage_of(name) for name in chosen}
    words = {**sets, **REASON, **{str(field): words for field, words in FIELD.items()}}
    outcomes = [row for name in chosen for row in outcome_rows(name, counts[name])]
    fields = [row for name in chosen for row in field_rows(name, counts[name])]
    caption = "Assessed cases; a case’s newest profile counts."
    draw_result(
        replace(OUTCOMES_BY_SET, caption=caption),
        Result(OUTCOMES_BY_SET.title, tuple(outcomes)),
        words,
        name="data-outcomes",
        charts=CHARTS,
        titled=False,
    )
    draw_result(
        FIELDS_BY_SET, Result(FIELDS_BY_SET.title, tuple(fields)), words, name="data-fields-by-set", charts=CHARTS
    )


def draw_making(name: str, entries: Sequence[CaseEntry]) -> None:
    """Draw the job that makes profiles for this data set while it runs, otherwise its last result and the form."""
    if draw_job(Profiling, "data_make", name):
        return
    looked_at = any(entry.generated is not None for entry in entries)
    with st.expander("Make profiles", icon=":material/person_add:", expanded=not looked_at, key="data_make_box"):
        _ask_maker([entry.case for entry in entries])


def _ask_maker(cases: Sequence[Case]) -> None:
    maker_column, address_column = st.columns(2)
    with maker_column:
        maker = ask_seat("data", "profiler", label="Made by", kinds=())
    with address_column:
        address = ask_address("data")
    again = st.checkbox(
        "Make existing ones again",
        key="data_make_again",
        help="Also for cases with a profile by this model; the new one counts.",
    )
    if maker == OTHER:
        st.warning("Name the model first.", icon=":material/key:")
        return
    missing = registry().missing_key(maker, base_url=address)
    problem = f"{maker} needs a key: set {missing} and restart the dashboard."
    job = Profiling(tuple(cases), maker, again, base_url=address)
    draw_start(job, "Make profiles", "person_add", "data_make_go", problem=problem if missing else None)


def draw_suitability(name: str, entries: Sequence[CaseEntry]) -> None:
    """Draw how many cases are suitable, what their profiles contain, and the form to make profiles."""
    draw_making(name, entries)
    assessed = [entry.generated for entry in entries if entry.generated is not None]
    published = published_for(name)
    if published:
        st.info(f"**Published** ({PAPER}): {published_words(published)}.", icon=":material/menu_book:")
    if not assessed:
        st.info(f"Not assessed yet. Played without profiles, {WITHOUT_PROFILE}.", icon=":material/person_search:")
        return
    counts = coverage_of(name)
    low, high = counts.interval.low, counts.interval.high
    with st.container(border=True, horizontal=True):
        st.metric("Suitable", f"{counts.share:.1%}", width="content", help="Share of the assessed cases.")
        st.metric("95 % interval", f"{low:.1%} – {high:.1%}", width="content", help="Wilson.")
        st.metric("Suitable cases", f"{counts.suitable:,}", width="content")
        st.metric("Assessed", f"{counts.n:,} of {len(entries):,}", width="content")
    counted_makers = Counter(maker_words(generated.made_by) for generated in assessed).most_common()
    makers = [f"{maker.lower() if maker == FROM_DATA_SET else maker} ({number:,})" for maker, number in counted_makers]
    st.caption(f"Profiles by maker: {plain(', '.join(makers))}. A case’s newest profile counts.")
    if not counts.reasons:
        st.caption("Every assessed case suits a consultation.")
    caption = f"{dataset_name(name)}, n = {counts.n:,} assessed cases; profiles by {', '.join(makers)}."
    reasons_column, fields_column = st.columns(2, gap="medium") if counts.reasons else (None, st.container())
    if reasons_column is not None:
        rows = [
            replace(row, more={**row.more, "meaning": REASON_HELP[row.label["reason"]]})
            for row in reason_rows(name, counts)
        ]
        with reasons_column:
            _draw(REASONS, rows, {reason: reason_words(reason) for reason in counts.reasons}, name, caption)
    with fields_column:
        if not counts.suitable:
            st.caption("No case is suitable, so there are no profiles.")
            return
        _draw(
            FIELDS, list(field_rows(name, counts)), {str(field): words for field, words in FIELD.items()}, name, caption
        )


def _draw(section: Section, rows: Sequence[Row], words: Mapping[str, str], name: str, caption: str) -> None:
    key = f"{name}-{section.kind}"
    draw_result(replace(section, caption=caption), Result(section.title, tuple(rows)), words, name=key, charts=CHARTS)


_METRIC = {
    "appropriate_pct": "Suitable",
    "n_appropriate": "Suitable items",
    "demographics_present": "With demographics",
    "basic_information_present_pct": "With basic information",
}
_NAME = {
    "medqa": "MedQA", "medbullets": "MedBullets", "medxpertqa": "MedXpertQA", "medmcqa": "MedMCQA",
    "head_qa": "HEAD-QA", "mmlu_pro": "MMLU-Pro",
}  # fmt: skip


@dataclass(frozen=True)
class PublishedFigure:
    """A figure from the paper in words, because it is often a bound such as “more than 90 %”."""

    dataset: str
    metric: str
    value: str


def published_suitability() -> list[PublishedFigure]:
    """Return all figures on suitability in the paper’s text, in order."""
    figures = []
    for row in rows(publisher("care").name):
        if row["section"] == "suitability":
            value = row["value"].replace("-", "–").replace(">", "more than ").replace("<", "less than ")
            words = {"count": f"{int(value):,}" if value.isdecimal() else value, "percent": f"{value} %"}
            metric = _METRIC.get(row["metric"], row["metric"].replace("_", " ").capitalize())
            figures.append(PublishedFigure(row["dataset"], metric, words.get(row["unit"], value)))
    return figures


def published_for(name: str) -> list[PublishedFigure]:
    """Return the paper’s figures for a data set that is called ``name`` or begins with it (medqa-test).

    Separators between the words of a name do not matter.
    """
    words = re.sub(r"[^a-z0-9]+", "_", name.lower())
    return [
        row
        for row in published_suitability()
        if re.fullmatch(rf"({row.dataset}|{row.dataset.replace('_', '')})(_.*)?", words)
    ]


def published_words(figures: Sequence[PublishedFigure]) -> str:
    parts = "; ".join(f"{row.metric.lower()}: {row.value}" for row in figures)
    return f"{_NAME.get(figures[0].dataset, figures[0].dataset)} in the paper: {parts}"


def published_table() -> pd.DataFrame:
    table: dict[str, dict[str, str | None]] = {}
    for row in published_suitability():
        name = _NAME.get(row.dataset, row.dataset)
        table.setdefault(name, {"Data set": name, **dict.fromkeys(_METRIC.values())})[row.metric] = row.value
    return pd.DataFrame(table.values())
