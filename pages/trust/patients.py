"""The tab Simulated patients: how often and where they err, and the rules compared with experts."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import streamlit as st

from core.asking.persona import label, parse_persona
from core.frameworks.base import frameworks
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.jobs.judge import Judging
from core.judging.patient_rule import ABOUT
from core.measures.patients import AGAINST_EXPERTS, AGAINST_MODELS, HITS, RATES, RULES_READ, TERMS_FORM, By
from core.store.queries.scores_of_patients import offer
from core.store.selection import Selection
from pages.kit.cached import ask
from pages.kit.controls import choose, choose_several
from pages.kit.conversation_list import Line, Names, draw_list
from pages.kit.empty import draw_empty, draw_no_match
from pages.kit.jobs import draw_judging
from pages.kit.look import plain
from pages.kit.names import dataset_name, unique_names
from pages.kit.navigation import link
from pages.kit.page import draw_shown
from pages.kit.section import draw_filled, draw_section, section_result
from pages.kit.view import FilterRow

_GROUPINGS: dict[By, str] = {
    "patient": "Patient", "doctor": "Doctor", "run": "Run", "dataset": "Data set", "specialty": "Specialty",
}  # fmt: skip
_GROUPED = "Conversations under different settings (doctor, persona, prompts, cases …) stay separate groups."
_COMBINED = "Combines conversations of different doctors and prompts, but not of personas, frameworks or data sets."


def draw_patients() -> None:
    """Draw the sections, or how to begin if no conversation has a patient."""
    available = ask(offer)
    if available["patient"].isna().all():
        draw_empty("No conversation with a patient is stored yet.", CAMPAIGN, RELEASE, icon="personal_injury")
        return
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
    row = FilterRow(patients_by="patient", patients_personas=None, patients_doctors=None, patients_runs=None)
    chosen = {
        part: choose_several(
            head, list(names), key, names=names, where=row.models if part == "patients" else row.popover()
        )
        for part, (head, key, names) in parts.items()
        if names
    }
    with row.popover():
        by: By = choose("Group by", list(_GROUPINGS), "patients_by", names=_GROUPINGS, help=_GROUPED)
        pooled = st.toggle("Combine conditions", key="pooled", bind="query-params", help=_COMBINED)
    selection = Selection(**{part: values for part, values in chosen.items() if values})  # type: ignore[arg-type]
    sections: dict[str, Callable[..., None]] = {
        "How often": partial(draw_rates, by, pooled),
        "Where": draw_hits,
        "Against experts": draw_experts,
        "Rules": lambda *_: draw_filled({"rules": RULES_READ}, Selection(), "patients"),
    }
    frameworks_by_name = {name: framework.title for name, framework in frameworks().items()}
    names = {**patients, **doctors, **runs, **personas, **frameworks_by_name}
    draw_shown(sections, selection, names, where=row.own)


def draw_rates(by: By, pooled: bool, selection: Selection, names: Names) -> None:
    options = {"by": by}
    draw_section(
        RATES, replace(selection, pooled=pooled), options=options, names=names, name="patients_rates", titled=False
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
