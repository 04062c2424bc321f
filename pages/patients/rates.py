"""Rates on the page Simulated patients: how many conversations hold a hit, by whom or what, as a figure and a table."""

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import plotly.graph_objects as go
import streamlit as st

from core.asking.persona import label, parse_persona
from core.figures.marks import Mark, dots
from core.figures.style import RISE, Axis
from core.frameworks.base import title_of
from core.measures.base import Row
from core.measures.patients.rates import RATES, By
from core.measures.patients.rules import ABOUT
from core.store.queries.scores_of_patients import Kind
from core.store.selection import Selection
from pages.kit.controls import choose
from pages.kit.names import model_colours, model_name, natural
from pages.kit.navigation import link
from pages.kit.section import draw_result, section_result, words_of

Group = tuple[str, str, str, str]
"""What was grouped by, the persona, the protocol and the condition."""
_BY: dict[By, str] = {
    "patient": "Patient", "doctor": "Doctor", "run": "Run", "dataset": "Data set", "specialty": "Specialty",
}  # fmt: skip
_MANY = 6
"""Groups from which on they are lines of the figure, which then shows one kind."""
_LABEL = 22
"""Characters of a label from which on it is broken over lines."""


def group_of(row: Row) -> Group:
    """Return what tells a row's group from all others."""
    group, condition, persona, protocol, _ = row.label.values()
    return group, "" if persona == "plain" else persona, protocol, condition


def persona_name(persona: str) -> str:
    """Return a persona in words, “plain” for none."""
    return label(parse_persona(persona)) if persona else "plain"


def draw_rates(selection: Selection, kinds: Sequence[Kind], names: Mapping[By, Mapping[str, str]]) -> None:
    """Ask what to group by; draw the figure and its table. ``names`` are those of patients, doctors and runs."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        by: By = choose(
            "Group by",
            list(_BY),
            "patients_by",
            names=_BY,
            shape="segments",
            help="Conversations that are not comparable (another doctor, persona, prompts, cases …) are groups apart.",
        )
        pooled = st.toggle(
            "Pool conditions",
            key="pooled",
            bind="query-params",
            help="Puts a group’s conversations together on purpose, whoever their doctors and prompts are; personas, "
            "frameworks and data sets stay apart.",
        )
    selection = replace(selection, pooled=pooled)
    result = section_result(RATES, selection, {**RATES.options, "by": by})
    if not any(row["kind"] in kinds for row in result.figures):
        st.info("No marked conversation fits: mark them, or remove a filter.", icon=":material/filter_alt_off:")
        return
    rows = tuple(row for row in result.figures if row["kind"] in kinds and ABOUT[row["kind"]].claimed)
    with_hit = [kind for kind in ABOUT if any(row["kind"] == kind and row["hits"] for row in rows)]
    shown = with_hit
    if len({group_of(row) for row in rows}) > _MANY and with_hit:
        names_of_kinds = {kind: ABOUT[kind].name for kind in with_hit}
        shown = [choose("Kind in the figure", with_hit, "patients_kind_shown", names=names_of_kinds, width=320)]
    title = ": ".join(filter(None, [RATES.title, ", ".join(ABOUT[kind].name.lower() for kind in shown)]))
    draw_result(
        replace(
            RATES, title=title, kind="rates" if with_hit else "table", caption=_rests_on(rows, shown, pooled=pooled)
        ),
        replace(result, rows=rows),
        {**words_of(result, selection), **_words(result.figures), **names.get(by, {})},
        name="patients_rates",
        charts={"rates": partial(rates_chart, kinds=shown)},
    )
    never = [ABOUT[kind].name for kind in ABOUT if kind not in with_hit and any(row["kind"] == kind for row in rows)]
    if never:
        st.caption(f"No hit at all: {', '.join(name.lower() for name in never)}.")
    st.caption("What a patient invents or withholds no rule on words decides; a model judges it on the page Failures.")
    link("failures", "Invented and withheld, as judged", "gavel", failures_tab="Never asked")


def _rests_on(rows: Sequence[Row], kinds: Sequence[Kind], *, pooled: bool) -> str:
    """Return how many conversations and replies a kind's rates rest on."""
    of_kind = [row for row in rows if row["kind"] == kinds[0]] if kinds else []
    conversations, replies = sum(row["n"] for row in of_kind), sum(row["replies"] for row in of_kind)
    pool = "; conditions are pooled" if pooled else ""
    return f"{conversations:,} marked conversations with {replies:,} replies{pool}. {RATES.caption}"


def _words(rows: Sequence[Row]) -> dict[str, str]:
    """Return the kinds, personas, protocols and conditions of rows in words."""
    words: dict[str, str] = {kind: about.name for kind, about in ABOUT.items()}
    for row in rows:
        words[row["protocol"]] = title_of(row["protocol"])
        words.setdefault(row["condition"], model_name(row["condition"]))
        if row["persona"] != "plain":
            words[row["persona"]] = persona_name(row["persona"])
    return words


def group_names(rows: Sequence[Row], names: Mapping[str, str]) -> dict[Group, str]:
    """Return group → its name, in the order of the page; ``names`` are those of the values that have one, in order.

    Persona and protocol stand where they are not the usual, the condition where a name would stand for several.
    """
    by = next(iter(rows[0].label)) if rows else ""
    groups = list(dict.fromkeys(group_of(row) for row in rows))
    protocols = {protocol for _, _, protocol, _ in groups}
    place = {name: place for place, name in enumerate(names)}
    found: dict[Group, str] = {}
    for group in sorted(groups, key=lambda group: (place.get(group[0], len(place)), natural(group[0]), group[1:])):
        value, persona, protocol, _ = group
        parts = [names.get(value, value) or "unknown", *([persona_name(persona)] if persona else [])]
        found[group] = " · ".join([*parts, *([title_of(protocol)] if len(protocols) > 1 else [])])
    counts = Counter(found.values())
    for group, name in found.items():
        if counts[name] > 1:
            condition = model_name(group[3])
            own = by == "doctor" and group[3].startswith(group[0])
            found[group] = condition if own else f"{name}{' with ' if by == 'patient' else ' · '}{condition}"
    return found


def rates_chart(
    rows: Sequence[Row], names: Mapping[str, str], dark: bool = False, *, kinds: Sequence[Kind] = ()
) -> go.Figure:
    """Return a line of dots for each of the ``kinds``, one dot for each group; of many groups a line for each."""
    rows = [row for kind in kinds for row in rows if row["kind"] == kind]
    groups = group_names(rows, names)
    by_group = len(groups) > _MANY
    marks = [
        Mark(
            str(group_of(row)) if by_group else row["kind"],
            row.estimate,
            row.low,
            row.high,
            str(group_of(row)),
            words=f"{ABOUT[row['kind']].name}<br>{row['with_hit']:,} of {row['n']:,} conversations<br>"
            f"{row['per_100']:.2f} hits per 100 replies",
        )
        for row in rows
    ]
    series = {str(group): name for group, name in groups.items()}
    labels = series if by_group else {row["kind"]: ABOUT[row["kind"]].name for row in rows}
    places = {key: "<br>".join(textwrap.wrap(words, _LABEL)) for key, words in labels.items()}
    most = max((row.high or 0.0 for row in rows), default=1.0) or 1.0
    axis = Axis(
        "Conversations with at least one hit", (-0.015 * most, 1.04 * most), ".0%" if most > 0.1 else ".1%", None, ".2%"
    )
    inks = dict.fromkeys(series, RISE) if by_group else _colours(groups)
    return dots(marks, series, inks, axis, places=places, legend=not by_group, dark=dark)


def _colours(groups: Mapping[Group, str]) -> dict[str, str]:
    """Return group → colour: a model's first group has the model's colour on every page."""
    keys: dict[Group, str] = {}
    for group in groups:
        keys[group] = group[0] if group[0] not in keys.values() else "|".join(group)
    colours = model_colours(list(keys.values()))
    return {str(group): colours[key] for group, key in keys.items()}
