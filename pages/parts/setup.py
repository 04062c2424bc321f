"""Asks for a case and a cast: the controls that Live and Runs share."""

from dataclasses import dataclass

import streamlit as st

from core.agents.casting import REFERENCE, CastNames, is_model
from core.case import Case
from core.datasets.select import cases_of, datasets
from core.errors import AnamnesisError
from core.models.registry import Registry, load_registry
from pages.parts.look import plain

OTHER = "another model…"
_REFERENCE_NAMES = {
    REFERENCE["doctor"]: "Reference doctor (rules, no model)",
    REFERENCE["patient"]: "Reference patient (rules, no model)",
    REFERENCE["grader"]: "Reference grader (names and synonyms)",
    REFERENCE["summariser"]: "Reference summariser (quotes the patient)",
    "human": "A human (you)",
    OTHER: "Another model…",
}


@dataclass(frozen=True)
class Seats:
    """The cast as chosen, with the address of an OpenAI-compatible server if one was given."""

    names: CastNames
    base_url: str | None


@st.cache_resource
def registry() -> Registry:
    """Return the registry of models for looking names up (nothing is opened with it)."""
    return load_registry()


def ask_case(page: str) -> Case | None:
    """Ask for a data set and one case of it; the choice stands in the address."""
    names = datasets()
    left, right = st.columns([1, 2])
    with left:
        dataset = st.selectbox("Data set", names, key=f"{page}_dataset", bind="query-params") or names[0]
    try:
        cases = {case.case_key: case for case in cases_of(dataset)}
    except AnamnesisError as error:
        st.error(plain(str(error)))
        return None
    key = f"{page}_case"
    if st.session_state.get(key) not in cases:
        st.session_state.pop(key, None)
        if st.query_params.get("case") in cases:
            st.session_state[key] = st.query_params["case"]

    def keep() -> None:
        st.query_params["case"] = st.session_state[key]

    with right:
        # not bound to the address, which would then hold the label and not the key
        chosen = st.selectbox(
            "Case", list(cases), key=key, format_func=lambda k: case_label(cases[k]), on_change=keep,
            persist_state="session",
        )  # fmt: skip
    return cases.get(chosen) if chosen else None


def case_label(case: Case) -> str:
    """Return a case in a few words that do not give its answer away."""
    who = case.age_and_sex().replace(" years old,", "-year-old")
    return " · ".join(part for part in (case.specialty, who, case.case_key.partition("/")[2]) if part)


def ask_seat(page: str, role: str, *, human: bool = False) -> str:
    """Ask who plays a role; returns the name, ready for a cast."""
    models = [spec.name for spec in registry().specs()]
    options = [REFERENCE[role], *(["human"] if human else []), *models, OTHER]
    chosen = st.selectbox(
        role.capitalize(), options, key=f"{page}_{role}", format_func=_seat_label, persist_state="session"
    )
    if chosen != OTHER:
        return chosen
    return st.text_input(
        f"Name of the {role}'s model", key=f"{page}_{role}_other", persist_state="session",
        placeholder="openai/my-model",
        help="provider/model, for example openai/llama-3.1-8b on a server of yours, azure/DEPLOYMENT, "
        "or hf/organisation/model for a local model.",
    ).strip()  # fmt: skip


def ask_address(page: str) -> str | None:
    """Ask for the address of an OpenAI-compatible server."""
    text = st.text_input(
        "Server address", key=f"{page}_base_url", persist_state="session", placeholder="http://127.0.0.1:8000/v1",
        help="Of any OpenAI-compatible server (vLLM, Ollama, llama.cpp, TGI…). Empty: the provider's own.",
    )  # fmt: skip
    return text.strip() or None


def seat_problem(seats: Seats) -> str | None:
    """Return what keeps a cast from starting (an unknown model, a missing key), or ``None``."""
    for role, name in vars(seats.names).items():
        if not name:
            return f"Name the {role}'s model first."
        if not is_model(name):
            continue
        try:
            missing = registry().missing_key(name, base_url=seats.base_url)
        except AnamnesisError as error:
            return str(error)
        if missing:
            return f"{name} needs a key: set the environment variable {missing} and start the dashboard again."
    return None


def _seat_label(name: str) -> str:
    return _REFERENCE_NAMES.get(name, name)
