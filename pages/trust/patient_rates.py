"""How often simulated patients err: the share of conversations with an error, by group, as figure and table."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import plotly.graph_objects as go
import streamlit as st

from core.asking.persona import label, parse_persona
from core.figures.marks import Mark, dots
from core.figures.style import RISE, Axis
from core.frameworks.base import title_of
from core.judging.patient_rule import ABOUT, ReplyMarkKind
from core.measures.base import Row
from core.measures.patients.rates import RATES, By
from core.store.selection import Selection
from pages.kit.controls import choose
from pages.kit.empty import draw_no_match
from pages.kit.names import model_colours, model_name
from pages.kit.navigation import link
from pages.kit.section import draw_result, section_result, words_of

_GROUPINGS: dict[By, str] = {
    "patient": "Patient", "doctor": "Doctor", "run": "Run", "dataset": "Data set", "specialty": "Specialty",
}  # fmt: skip
_MAX_SERIES = 6
"""With more groups, the figure shows one kind, with a line for each group."""
_LABEL_CHARS = 22
"""Longer labels are broken over lines (characters)."""


def persona_name(persona: str) -> str:
    return label(parse_persona(persona)) if persona else "plain"


FILTERS = ("patients_patients", "patients_personas", "patients_doctors", "patients_runs", "patients_kinds")
"""Keys of the page's own filters."""


def draw_rates(selection: Selection, kinds: Sequence[ReplyMarkKind], names: Mapping[By, Mapping[str, str]]) -> None:
    """Ask for the grouping; draw figure and table. ``names`` are those of patients, doctors and runs."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small") as controls:
        by: By = choose(
            "Group by",
            list(_GROUPINGS),
            "patients_by",
            names=_GROUPINGS,
            shape="segments",
            help="Conversations under different conditions (doctor, persona, prompts, cases …) stay separate groups.",
        )
        pooled = st.toggle(
            "Combine conditions",
            key="pooled",
            bind="query-params",
            help="Combines conversations of different doctors and prompts. Personas, frameworks and data sets stay "
            "separate.",
        )
    selection = replace(selection, pooled=pooled)
    result = section_result(RATES, selection, {**RATES.options, "by": by})
    if not any(row["kind"] in kinds for row in result.figures):
        draw_no_match("No conversation with measured replies matches.", *FILTERS)
        return
    rows = tuple(row for row in result.figures if row["kind"] in kinds and ABOUT[row["kind"]].claimed)
    with_hit = [kind for kind in ABOUT if any(row["kind"] == kind and row["hits"] for row in rows)]
    drawn_kinds = with_hit
    if len(groups_of(rows)) > _MAX_SERIES and with_hit:
        names_of_kinds = {kind: ABOUT[kind].name for kind in with_hit}
        drawn_kinds = [
            choose(
                "Kind in the figure", with_hit, "patients_kind_shown", names=names_of_kinds, where=controls, width=224
            )
        ]
    title = ": ".join(filter(None, [RATES.title, ", ".join(ABOUT[kind].name.lower() for kind in drawn_kinds)]))
    draw_result(
        replace(
            RATES,
            title=title,
            kind="rates" if with_hit else "table",
            caption=_rests_on(rows, drawn_kinds, pooled=pooled),
        ),
        replace(result, rows=rows),
        {**words_of(result, selection), **_label_names(result.figures), **names.get(by, {})},
        name="patients_rates",
        charts={"rates": partial(rates_chart, kinds=drawn_kinds)},
    )
    without_hit = [
        ABOUT[kind].name for kind in ABOUT if kind not in with_hit and any(row["kind"] == kind for row in rows)
    ]
    if without_hit:
        st.caption(f"No error: {', '.join(name.lower() for name in without_hit)}.")
    st.caption("Rules do not find invented and withheld facts; a model judges them.")
    link("failures", "Invented and withheld, as judged", "gavel", failures_tab="Never asked")


def _rests_on(rows: Sequence[Row], kinds: Sequence[ReplyMarkKind], *, pooled: bool) -> str:
    """Return how many conversations and replies are behind the rates, for the caption."""
    of_kind = [row for row in rows if row["kind"] == kinds[0]] if kinds else []
    conversations, replies = sum(row["n"] for row in of_kind), sum(row["replies"] for row in of_kind)
    pool = "; conditions are combined" if pooled else ""
    return f"{conversations:,} conversations with {replies:,} replies{pool}. {RATES.caption}"


def _label_names(rows: Sequence[Row]) -> dict[str, str]:
    """Return key → words for the kinds, personas, protocols and conditions of rows."""
    words: dict[str, str] = {kind: about.name for kind, about in ABOUT.items()}
    for row in rows:
        words[row["protocol"]] = title_of(row["protocol"])
        words.setdefault(row["condition"], model_name(row["condition"]))
        if row["persona"] != "plain":
            words[row["persona"]] = persona_name(row["persona"])
    return words


def groups_of(rows: Sequence[Row]) -> dict[tuple[str, ...], list[Row]]:
    """Return the rows by the value of the grouping, the persona if there is any, and what else separates them."""

    def distinct(names: Sequence[str]) -> int:
        return len({tuple(row[name] for name in names) for row in rows})

    parts = [next(iter(rows[0].label))] if rows else []
    if any(row["persona"] != "plain" for row in rows):
        parts.append("persona")
    for part in ("protocol", "condition"):
        if distinct([*parts, part]) > distinct(parts):
            parts.append(part)
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in parts), []).append(row)
    return groups


def rates_chart(
    rows: Sequence[Row], names: Mapping[str, str], dark: bool = False, *, kinds: Sequence[ReplyMarkKind] = ()
) -> go.Figure:
    """Return a line of dots for each of the ``kinds``, one dot for each group; with many groups a line for each."""
    rows = [row for kind in kinds for row in rows if row["kind"] == kind]
    groups = {"|".join(group): (group, of_group) for group, of_group in groups_of(rows).items()}
    by_group = len(groups) > _MAX_SERIES
    marks = [
        Mark(
            key if by_group else row["kind"],
            row.estimate,
            row.low,
            row.high,
            key,
            words=f"{ABOUT[row['kind']].name}<br>{row['with_hit']:,} of {row['n']:,} conversations<br>"
            f"{row['per_100']:.2f} errors per 100 replies",
        )
        for key, (_, of_group) in groups.items()
        for row in of_group
    ]
    series = {
        key: " · ".join(names.get(part, part) or "unknown" for part in group) for key, (group, _) in groups.items()
    }
    labels = series if by_group else {kind: ABOUT[kind].name for kind in kinds}
    places = {key: "<br>".join(textwrap.wrap(words, _LABEL_CHARS)) for key, words in labels.items()}
    most = max((row.high or 0.0 for row in rows), default=1.0) or 1.0
    axis = Axis(
        "Conversations with at least one error",
        (-0.015 * most, 1.04 * most),
        ".0%" if most > 0.1 else ".1%",
        None,
        ".2%",
    )
    inks = dict.fromkeys(series, RISE) if by_group else model_colours(list(series))
    return dots(marks, series, inks, axis, places=places, legend=not by_group, dark=dark)
