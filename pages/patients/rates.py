"""Rates on the page Simulated patients: how many conversations hold a hit, by whom or what, as a figure and a table."""

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.figures.marks import Mark, dots
from core.figures.style import RISE, Axis
from core.frameworks.base import title_of
from core.measures.base import Row
from core.measures.patients.rates import By, patient_rates
from core.measures.patients.rules import ABOUT, PRECISE, About
from core.persona import label, parse_persona
from core.store.database import Store
from core.store.queries.scores_of_patients import Kind
from core.store.selection import Selection
from pages.kit.cached import cached_query
from pages.kit.controls import choose
from pages.kit.figures import draw_figure
from pages.kit.names import dataset_name, model_colours, model_name, natural
from pages.kit.navigation import link
from pages.kit.tables import draw_table, percents

Group = tuple[str, str, str, str]
"""What was grouped by, the persona, the protocol and the condition."""
_BY: dict[By, str] = {
    "patient": "Patient", "doctor": "Doctor", "run": "Run", "dataset": "Data set", "specialty": "Specialty",
}  # fmt: skip
_MANY = 6
"""Groups from which on they are lines of the figure, which then shows one kind."""
_LABEL = 22
"""Characters of a label from which on it is broken over lines."""


@cached_query("Resampling the cases…", entries=32)
def rates(wanted: Selection, by: By, *, pooled: bool = False) -> list[Row]:
    """Return the rates of the marked conversations in view, of every kind, grouped."""
    return patient_rates(Store(), by, wanted, pooled=pooled)


def group_of(row: Row) -> Group:
    """Return what tells a row's group from all others."""
    group, condition, persona, protocol, _ = row.label.values()
    return group, "" if persona == "plain" else persona, protocol, condition


def persona_name(persona: str) -> str:
    """Return a persona in words, “plain” for none."""
    return label(parse_persona(persona)) if persona else "plain"


def read_right(about: About) -> str:
    """Return in words how many of a kind's hits were right among those that were read."""
    right, read = about.read
    return f"{right} of {read} read were right" if read else "none to read"


def draw_rates(
    wanted: Selection,
    kinds: Sequence[Kind],
    patients: Mapping[str, str],
    doctors: Mapping[str, str],
    runs: Mapping[str, str],
) -> None:
    """Ask what to group by; draw the figure and its table."""
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
    every = [row for row in rates(wanted, by, pooled=pooled) if row["kind"] in kinds]
    found = [row for row in every if ABOUT[row["kind"]].claimed]
    if not every:
        st.info("No marked conversation fits: mark them, or remove a filter.", icon=":material/filter_alt_off:")
        return
    known: dict[By, Mapping[str, str]] = {"patient": patients, "doctor": doctors, "run": runs}
    names = group_names(found, by, known.get(by, {}))
    found.sort(key=lambda row: list(names).index(group_of(row)))
    draw_chart(found, names, pooled=pooled)
    if found:
        table = pd.DataFrame(
            {
                _BY[by]: names[group_of(row)],
                "Kind": ABOUT[row["kind"]].name,
                "With a hit": row.estimate,
                "Low": row.low,
                "High": row.high,
                "Hits per 100 replies": row["per_100"],
                "Per 100, low": row["per_100_low"],
                "Per 100, high": row["per_100_high"],
                "Conversations": row["n"],
                "Hit": row["with_hit"],
                "Cases": row["cases"],
                "Hits": row["hits"],
                "Replies": row["replies"],
                "Hits right when read": f"{row['read_right']} of {row['read']}" if row["read"] else None,
            }
            for row in found
        )
        formats = st.column_config.NumberColumn
        columns = {
            _BY[by]: st.column_config.TextColumn(width=270),
            **percents("With a hit", "Low", "High"),
            **dict.fromkeys(("Hits per 100 replies", "Per 100, low", "Per 100, high"), formats(format="%.2f")),
            **dict.fromkeys(("Conversations", "Cases", "Hits", "Replies"), formats(format="localized")),
            "Hit": formats(format="localized", help="Conversations with at least one hit"),
        }
        draw_table(table, "patients-rates", columns)
    unclaimed = [kind for kind in ABOUT if not ABOUT[kind].claimed and any(row["kind"] == kind for row in every)]
    if unclaimed:
        listed = "; ".join(
            f"{ABOUT[kind].name.lower()} ({read_right(ABOUT[kind])}), "
            f"{sum(row['hits'] for row in every if row['kind'] == kind):,} hits"
            for kind in unclaimed
        )
        st.caption(
            f"No rate is stated for rules of which fewer than {PRECISE:.0%} of the hits were right when read, or of "
            f"which none could be read: {listed}. Their hits stand under Hits, to be read."
        )
    st.caption("What a patient invents or withholds no rule on words decides; a model judges it on the page Failures.")
    link("failures", "Invented and withheld, as judged", "gavel", failures_tab="Never asked")


def group_names(rows: Sequence[Row], by: By, first: Mapping[str, str]) -> dict[Group, str]:
    """Return group → its name, in the order of the page; ``first`` are the names of those that have one, in order.

    Persona and protocol stand where they are not the usual, the condition where a name would stand for several.
    """
    groups = list(dict.fromkeys(group_of(row) for row in rows))
    protocols = {protocol for _, _, protocol, _ in groups}
    place = {name: place for place, name in enumerate(first)}
    names: dict[Group, str] = {}
    for group in sorted(groups, key=lambda group: (place.get(group[0], len(place)), natural(group[0]), group[1:])):
        value, persona, protocol, _ = group
        name = dataset_name(value) if by == "dataset" else first.get(value, value) or "unknown"
        beside = [persona_name(persona)] if persona else []
        names[group] = " · ".join([name, *beside, *([title_of(protocol)] if len(protocols) > 1 else [])])
    counts = Counter(names.values())
    for group, name in names.items():
        if counts[name] > 1:
            condition = model_name(group[3])
            own = by == "doctor" and group[3].startswith(group[0])
            names[group] = condition if own else f"{name}{' with ' if by == 'patient' else ' · '}{condition}"
    return names


def draw_chart(found: Sequence[Row], names: Mapping[Group, str], *, pooled: bool) -> None:
    """Draw the kinds with a hit; of many groups one kind, which is asked for."""
    hit = [kind for kind in ABOUT if any(row["kind"] == kind and row["hits"] for row in found)]
    never = [ABOUT[kind].name for kind in ABOUT if kind not in hit and any(r["kind"] == kind for r in found)]
    many = len(names) > _MANY
    colours: dict[Group, str] = dict.fromkeys(names, RISE)
    if many and hit:
        title = choose("Kind in the figure", hit, "patients_kind_shown", names=lambda k: ABOUT[k].name, width=320)
        hit = [title]
    elif not many:
        known: dict[Group, str] = {}
        for group in names:  # a model's first group has the model's colour on every page
            known[group] = group[0] if group[0] not in known.values() else "|".join(group)
        of_models = model_colours(list(known.values()))
        colours = {group: of_models[name] for group, name in known.items()}
    if hit:
        rows = [row for kind in hit for row in found if row["kind"] == kind]
        first = [row for row in rows if row["kind"] == hit[0]]
        draw_figure(
            lambda dark: rates_chart(rows, names, colours, by_group=many, dark=dark),
            "patients_rates",
            f"Conversations with a hit: {', '.join(ABOUT[kind].name.lower() for kind in hit)}",
            f"{sum(row['n'] for row in first):,} marked conversations with "
            f"{sum(row['replies'] for row in first):,} replies"
            f"{'; conditions are pooled' if pooled else ''}. 95 % intervals, cases resampled; Wilson’s where each case "
            "has one conversation.",
        )
    if never:
        st.caption(f"No hit at all: {', '.join(name.lower() for name in never)}.")


def rates_chart(
    rows: Sequence[Row],
    names: Mapping[Group, str],
    colours: Mapping[Group, str],
    *,
    by_group: bool = False,
    dark: bool = False,
) -> go.Figure:
    """Return a line of dots for each kind, one for each group; or, ``by_group``, a line for each group."""
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
    series = {str(group): name for group, name in names.items()}
    labels = series if by_group else {row["kind"]: ABOUT[row["kind"]].name for row in rows}
    places = {
        key: "<br>".join(textwrap.wrap(label, _LABEL))
        for key, label in labels.items()
        if any(mark.place == key for mark in marks)
    }
    most = max((row.high or 0.0 for row in rows), default=1.0) or 1.0
    axis = Axis(
        "Conversations with at least one hit", (-0.015 * most, 1.04 * most), ".0%" if most > 0.1 else ".1%", None, ".2%"
    )
    inks = {str(group): colour for group, colour in colours.items()}
    return dots(marks, series, inks, axis, places=places, legend=not by_group, dark=dark)
