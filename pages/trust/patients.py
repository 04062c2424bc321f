"""The tab Simulated patients: how often and where they err, and the rules compared with experts."""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd
import streamlit as st

from core.asking.persona import label, parse_persona
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.jobs.judge import Judging
from core.judging.patient_rule import ABOUT
from core.measures.patients import AGAINST_EXPERTS, AGAINST_MODELS, HITS, RATES, RULES_READ, TERMS_FORM, By
from core.store.queries.scores_of_patients import offer
from core.store.selection import Selection
from pages.kit.cached import ask
from pages.kit.controls import choose, choose_several, filter_popover
from pages.kit.conversation_list import Line, Names, draw_list
from pages.kit.empty import draw_empty, draw_no_match
from pages.kit.jobs import draw_judging
from pages.kit.look import plain
from pages.kit.names import dataset_name, unique_names
from pages.kit.navigation import link
from pages.kit.page import draw_folds
from pages.kit.section import draw_filled, draw_section, section_result
from pages.kit.view import row_of_controls

_GROUPINGS: dict[By, str] = {
    "patient": "Patient", "doctor": "Doctor", "run": "Run", "dataset": "Data set", "specialty": "Specialty",
}  # fmt: skip
_WIDTH = 224
"""Width of a control in the row, in pixels."""


def draw_patients() -> None:
    """Draw the sections, or how to begin if no conversation has a patient."""
    available = ask(offer)
    if available["patient"].isna().all():
        draw_empty("No conversation with a patient is stored yet.", CAMPAIGN, RELEASE, icon="personal_injury")
        return
    sections = {"How often": draw_rates, "Where": draw_hits, "Against experts": draw_experts, "Rules": draw_rules}
    draw_folds(sections, *ask_patients(available))


def ask_patients(available: pd.DataFrame) -> tuple[Selection, Names]:
    """Ask for the conversations; return them, and the names of patients, personas, doctors and runs."""
    values = {name: sorted(column.dropna().unique()) for name, column in available.items()}
    patients, doctors = unique_names(values["patient"]), unique_names(values["doctor"])
    of_runs = dict(zip(available["run_id"], available["doctor"], strict=True))
    runs = {run: f"{doctors[doctor]} · {run}" for run, doctor in of_runs.items()}
    personas = {name: label(parse_persona(name)) if name else "plain" for name in values["persona"]}
    parts: dict[str, tuple[str, str, Mapping[str, str]]] = {
        "patients": ("Patients", "patients_patients", patients),
        "personas": ("Personas", "patients_personas", personas if len(personas) > 1 else {}),
        "models": ("Doctors", "patients_doctors", doctors),
        "runs": ("Runs", "patients_runs", runs),
        "datasets": ("Data sets", "datasets", {name: dataset_name(name) for name in values["dataset"]}),
        "specialties": ("Specialties", "specialties", {name: name for name in values["specialty"]}),
    }
    chosen: dict[str, tuple[str, ...]] = {}
    with row_of_controls():
        first = st.container(width=_WIDTH)
        more = filter_popover((key for part, (_, key, _) in parts.items() if part != "patients"), "patients_more")
    for part, (head, key, names) in parts.items():
        if names:
            where = first if part == "patients" else more
            chosen[part] = choose_several(head, list(names), key, names=names, where=where)
    selection = Selection(**{part: values for part, values in chosen.items() if values})  # type: ignore[arg-type]
    return selection, {**patients, **doctors, **runs, **personas}


def draw_rates(selection: Selection, names: Names) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        by: By = choose(
            "Group by",
            list(_GROUPINGS),
            "patients_by",
            names=_GROUPINGS,
            shape="segments",
            help="Conversations under different settings (doctor, persona, prompts, cases …) stay separate groups.",
        )
        pooled = st.toggle(
            "Combine conditions",
            key="pooled",
            bind="query-params",
            help="Combines conversations of different doctors and prompts. Personas, frameworks and data sets stay "
            "separate.",
        )
    draw_section(
        RATES, replace(selection, pooled=pooled), options={"by": by}, names=names, name="patients_rates", titled=False
    )
    st.caption("Invented and withheld facts are not found by rules. A model judges them on the page Failures.")
    link("failures", "Invented and withheld, as judged", "gavel", failures_tab="Never asked")


def draw_hits(selection: Selection, _names: Names) -> None:
    """Ask for words, list the errors, and draw the conversation of the chosen one."""
    words = st.text_input(
        "Words of the error",
        key="patients_words",
        bind="query-params",
        type="search",
        placeholder="vignette, pruritus …",
        width=320,
    ).strip()

    def note(line: Line, names: Names) -> str:
        why = " · ".join(filter(None, [ABOUT[line["kind"]].name, plain(line["detail"])]))
        who = f"**{plain(names[line['patient']])}** as the patient of **{plain(names[line['doctor']])}**"
        return f"{who} :orange-badge[{why}]"

    options = {"words": words or None}
    if not section_result(HITS, selection, {**HITS.options, **options}).rows:
        draw_no_match("No error matches.", "patients_words")
        return
    listed = replace(HITS, narrowed=("kind",), row_id=("trial_id", "turn", "kind"))
    draw_list(listed, selection, options, "patients_hit", note)


def draw_experts(selection: Selection, _names: Names) -> None:
    """Draw the rules, the experts and judging models on the same conversations."""
    draw_filled({"experts": AGAINST_EXPERTS}, Selection(), "patients")
    draw_filled({"judges": AGAINST_MODELS}, selection, "patients")
    with st.expander("Have a model judge these patients", icon=":material/gavel:"):
        draw_judging(Judging(TERMS_FORM, conversations=selection), "patients_terms")


def draw_rules(_selection: Selection, _names: Names) -> None:
    draw_section(RULES_READ, Selection(), name="patients-rules")
