"""Rates on the Patients page: how many conversations hold a hit, by whom or what, as a figure and a table."""

from collections import Counter
from collections.abc import Sequence

import streamlit as st

from core.frameworks.base import title_of
from core.measures.patients.figures import By, PatientRate
from core.measures.patients.rules import ABOUT, PRECISE
from core.store.queries.patients import Kind
from pages.parts.failures_show import is_dark
from pages.parts.figure_controls import dataset_name, keep_valid, natural
from pages.parts.figures import model_colours, model_name
from pages.parts.history_shown import draw_figure, draw_table
from pages.parts.navigation import FAILURES
from pages.parts.patients_charts import rates_chart
from pages.parts.patients_controls import persona_name
from pages.parts.patients_data import View, rates
from pages.parts.patients_tables import Group, group_of, rates_table, read_right

_BY: dict[By, str] = {
    "patient": "Patient", "doctor": "Doctor", "run": "Run", "dataset": "Data set", "specialty": "Specialty",
}  # fmt: skip
_MANY = 6
"""Groups from which on they are lines of the figure, which then shows one kind."""


def draw_rates(view: View) -> None:
    """Ask what to group by; draw the figure and its table."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        by = st.segmented_control(
            "Group by", list(_BY), default="patient", required=True, format_func=_BY.__getitem__, key="patients_by",
            bind="query-params",
            help="Conversations that are not comparable (another doctor, persona, prompts, cases …) are groups apart.",
        ) or "patient"  # fmt: skip
        pooled = st.toggle(
            "Pool conditions", key="patients_pool", bind="query-params",
            help="Puts a group’s conversations together on purpose, whoever their doctors and prompts are; personas, "
            "protocols and data sets stay apart.",
        )  # fmt: skip
    every = [row for row in rates(view, by, pooled=pooled) if row.kind in view.kinds]
    found = [row for row in every if ABOUT[row.kind].claimed]
    if not every:
        st.info("No marked conversation fits: mark them, or take a filter away.", icon=":material/filter_alt_off:")
        return
    names = group_names(found, by, view)
    found.sort(key=lambda row: list(names).index(group_of(row)))
    _draw_chart(found, names)
    table = rates_table(found, names, _BY[by])
    if not table.empty:
        draw_table(table, "patients-rates", _columns(_BY[by]))
    _say_what_lacks(every)


def group_names(rows: Sequence[PatientRate], by: By, view: View) -> dict[Group, str]:
    """Return group → its name, in the order of the page.

    Persona and protocol stand where they are not the usual, the condition where a name would stand for several.
    """
    groups = list(dict.fromkeys(group_of(row) for row in rows))
    first = {"patient": view.patients, "doctor": view.doctors, "run": view.runs}.get(by, {})
    protocols = {protocol for _, _, protocol, _ in groups}
    place = {name: number for number, name in enumerate(first)}

    def named(group: Group) -> str:
        value, persona, protocol, _ = group
        name = dataset_name(value) if by == "dataset" else first.get(value, value) or "unknown"
        beside = [persona_name(persona)] if persona else []
        return " · ".join([name, *beside, *([title_of(protocol)] if len(protocols) > 1 else [])])

    order = sorted(groups, key=lambda group: (place.get(group[0], len(place)), natural(group[0]), group[1:]))
    names = {group: named(group) for group in order}
    counts = Counter(names.values())
    return {group: _with_condition(name, group, by) if counts[name] > 1 else name for group, name in names.items()}


def _with_condition(name: str, group: Group, by: By) -> str:
    condition = group[3]
    if by == "doctor" and condition.startswith(group[0]):
        return model_name(condition)
    return f"{name} with {model_name(condition)}" if by == "patient" else f"{name} · {model_name(condition)}"


def _draw_chart(found: Sequence[PatientRate], names: dict[Group, str]) -> None:
    hit = [kind for kind in ABOUT if any(row.kind == kind and row.hits for row in found)]
    never = [ABOUT[row].name for row in ABOUT if row not in hit and any(one.kind == row and one.n for one in found)]
    many = len(names) > _MANY
    shown = [_ask_kind(hit)] if many and hit else hit
    if shown:
        figure = rates_chart(
            [row for kind in shown for row in found if row.kind == kind], names, _colours(names), by_group=many,
            dark=is_dark(),
        )  # fmt: skip
        alt = f"Share of conversations with a hit: {', '.join(ABOUT[kind].name.lower() for kind in shown)}"
        draw_figure(figure, "patients_rates", alt)
    if never:
        st.caption(f"No hit at all: {', '.join(name.lower() for name in never)}.")


def _columns(head: str) -> dict[str, object]:
    number = st.column_config.NumberColumn
    return {
        head: st.column_config.TextColumn(width="medium"),
        **dict.fromkeys(("With a hit", "Low", "High"), number(format="percent")),
        **dict.fromkeys(("Hits per 100 replies", "Per 100, low", "Per 100, high"), number(format="%.2f")),
        **dict.fromkeys(("Conversations", "Cases", "Hits", "Replies"), number(format="localized")),
        "Hit": number(format="localized", help="Conversations with at least one hit"),
    }


def _ask_kind(kinds: Sequence[Kind]) -> Kind:
    keep_valid("patients_kind_shown", kinds)
    return st.selectbox(
        "Kind in the figure", kinds, format_func=lambda kind: ABOUT[kind].name, key="patients_kind_shown",
        bind="query-params", width=320,
    ) or kinds[0]  # fmt: skip


def _colours(names: dict[Group, str]) -> dict[Group, str]:
    """Return a colour for each group; a model's first group has the model's colour on every page."""
    if len(names) > _MANY:
        return dict.fromkeys(names, "#0072B2")
    known: dict[Group, str] = {}
    for group in names:
        known[group] = group[0] if group[0] not in known.values() else "|".join(group)
    colours = model_colours(list(known.values()))
    return {group: colours[name] for group, name in known.items()}


def _say_what_lacks(found: Sequence[PatientRate]) -> None:
    """Name the kinds without rates, and where to look for what no rule decides."""
    open_ = [kind for kind in ABOUT if not ABOUT[kind].claimed and any(row.kind == kind for row in found)]
    if open_:
        listed = "; ".join(
            f"{ABOUT[kind].name.lower()} ({read_right(ABOUT[kind])}), "
            f"{sum(row.hits for row in found if row.kind == kind):,} hits" for kind in open_
        )  # fmt: skip
        st.caption(
            f"No rate is stated for rules of which fewer than {PRECISE:.0%} of the hits were right when read, or of "
            f"which none could be read: {listed}. Their hits stand under Hits, to be read."
        )
    st.caption("What a patient invents or withholds no rule on words decides; a model judges it on the page Failures.")
    st.page_link(FAILURES, label="Invented and withheld, as judged", icon=":material/gavel:",
                 query_params={"failures_tab": "Never asked"})  # fmt: skip
