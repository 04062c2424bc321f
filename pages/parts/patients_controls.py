"""What the Patients page asks: whose conversations, and which kinds of hits; all in the address."""

import streamlit as st

from core.measures.patients.rules import ABOUT
from core.persona import label, parse_persona
from core.store.queries.patients import KINDS, Kind, PatientOffer
from core.store.selection import Selection
from pages.parts.figure_controls import ask_several, dataset_name, keep_valid, unique_names
from pages.parts.patients_data import View
from pages.parts.patients_tables import read_right

PAGE_NAME = "patients_page"
"""Where the page of the list of hits stands in the address."""


def ask_view(held: PatientOffer) -> View:
    """Ask which conversations and which kinds of hits to look at."""
    columns = iter(st.columns(6 if len(held.personas) > 1 else 5, vertical_alignment="bottom"))
    patients, doctors = unique_names(held.patients), unique_names(held.doctors)
    runs = {run: f"{doctors[doctor]} · {run}" for run, doctor in held.runs.items()}
    wanted = Selection(
        patients=_ask(next(columns), "Patients", patients),
        personas=_ask(next(columns), "Personas", {p: persona_name(p) for p in held.personas})
        if len(held.personas) > 1 else None,
        models=_ask(next(columns), "Doctors", doctors),
        runs=_ask(next(columns), "Runs", runs),
        datasets=_ask(next(columns), "Data sets", {name: dataset_name(name) for name in held.datasets}),
        specialties=_ask(next(columns), "Specialties", {name: name for name in held.specialties}),
    )  # fmt: skip
    return View(wanted, _ask_kinds(), patients, doctors, runs)


def persona_name(persona: str) -> str:
    """Return a persona in words, “plain” for none."""
    return label(parse_persona(persona)) if persona else "plain"


def first_page() -> None:
    """Go back to the first page of the hits: another list is about to be shown."""
    st.query_params.pop(PAGE_NAME, None)


def _ask(column: st.delta_generator.DeltaGenerator, name: str, options: dict[str, str]) -> tuple[str, ...] | None:
    key = f"patients_{name.lower().replace(' ', '_')}"
    return ask_several(column, name, key, list(options), options, first_page) or None


def _ask_kinds() -> tuple[Kind, ...]:
    keep_valid("patients_kinds", KINDS)
    chosen = st.pills(
        "Kinds of hits", KINDS, selection_mode="multi", key="patients_kinds", bind="query-params",
        format_func=lambda kind: ABOUT[kind].name, on_change=first_page,
        help="How often the hits of a sample were right; what each rule says stands under **Rules**.\n\n"
        + "\n".join(f"- {about.name}: {read_right(about)}" for about in ABOUT.values()),
    )  # fmt: skip
    return tuple(kind for kind in KINDS if kind in chosen) or KINDS
