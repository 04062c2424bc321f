"""Asks for a case and a cast: the controls that Live and Runs share."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from core.case import Case
from core.datasets.select import cases_of, datasets
from core.errors import AnamnesisError
from core.frameworks.base import framework, kinds_in_words, seat_titles
from core.frameworks.casting import CastNames, full_name, is_model, seated
from core.images import kept
from core.jobs.plan import IMAGES, WITH
from core.models.registry import Registry, load_registry
from core.persona import LANGUAGES, MEMORIES, TEMPERAMENTS, Persona, PersonaSpeaker
from core.prompts import pack_places
from pages.parts.look import plain

OTHER = "another model…"
EFFORTS = ("", "none", "minimal", "low", "medium", "high")
"""Words by which providers are told how much a model is to think; the first leaves it to the model."""
_UNNAMED = ""
_OTHERS = {"reference/profiler": "Rules (no model)", "human": "A human (you)", OTHER: "Another model…"}

_TEMPERAMENT = {
    "plain": "Plain", "anxious": "Anxious", "terse": "Terse", "talkative": "Talkative",
    "distrustful": "Distrustful", "stoic": "Stoic",
}  # fmt: skip
_LANGUAGE = {None: "No stated level", "A": "Basic (A)", "B": "Everyday (B)", "C": "Fluent (C)"}
_MEMORY = {"good": "Good", "vague": "Vague", "poor": "Poor"}
_PICTURES = {"": "Without", WITH: "With"}
_SPEAKER: dict[PersonaSpeaker | None, str] = {
    None: "Whom the case names",
    "patient": "The patient",
    "caregiver": "A caregiver",
}


@dataclass(frozen=True)
class Seats:
    """The cast as chosen, with the address of an OpenAI-compatible server if one was given, and its framework."""

    names: CastNames
    base_url: str | None
    protocol: str = ""


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
    if st.query_params.get("case") in cases:  # a link's case goes before the one that was last looked at
        st.session_state[key] = st.query_params["case"]
    elif st.session_state.get(key) not in cases:
        st.session_state.pop(key, None)

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


def ask_seat(
    page: str, role: str, *, human: bool = False, label: str = "", place: str = "",
    kinds: Sequence[str] | None = None,
    beside: str = "",
) -> str:  # fmt: skip
    """Ask who plays a role; returns the name, ready for a cast, and ``OTHER`` while a model is still to be named.

    ``place`` tells two seats of one role apart. ``kinds`` are the role's reference kinds, the usual one first, where
    they are not the first framework's. ``beside`` is who is in the doctor's seat: then the seat may be left to
    whoever sits there by default, who is shown, and the name is empty.
    """
    key = f"{page}_{role}{place}"
    seat = framework().seat(role)
    kinds = kinds if kinds is not None else seat.rules if seat else ()
    models = [spec.name for spec in registry().specs()]
    left = [_UNNAMED] if beside else []
    options = [*left, *kinds, *(["human"] if human else []), *models, OTHER]
    chosen = st.selectbox(
        label or role.capitalize(), options, key=key, persist_state="session",
        format_func=lambda name: _seat_label(name) if name != _UNNAMED else _default_label(role, beside, kinds),
    )  # fmt: skip
    if chosen != OTHER:
        return chosen
    named = st.text_input(
        f"Name of the {seat_titles().get(role, role).lower()}'s model", key=f"{key}_other", persist_state="session",
        placeholder="openai/my-model",
        help="provider/model, for example openai/llama-3.1-8b on a server of yours, azure/DEPLOYMENT, "
        "or hf/organisation/model for a local model.",
    )  # fmt: skip
    return named.strip() or OTHER


def ask_address(page: str) -> str | None:
    """Ask for the address of an OpenAI-compatible server."""
    text = st.text_input(
        "Server address", key=f"{page}_base_url", persist_state="session", placeholder="http://127.0.0.1:8000/v1",
        help="Of any OpenAI-compatible server (vLLM, Ollama, llama.cpp, TGI…). Empty: the provider's own.",
    )  # fmt: skip
    return text.strip() or None


def ask_pictures(page: str, doctors: Sequence[str], cases: Sequence[Case]) -> str:
    """Ask whether the doctors are shown the pictures of the chosen cases; empty, unasked, where one could not be."""
    pictured = sum(bool(kept(case.images)) for case in cases)
    if not pictured or not all(map(is_model, doctors)):
        return ""
    return st.segmented_control(
        "Pictures", IMAGES, default="", required=True, format_func=_PICTURES.__getitem__, key=f"{page}_images",
        persist_state="session",
        help=f"{pictured:,} of {len(cases):,} cases have a picture. With: the doctor is shown it in every format, and "
        "nobody else is. Such runs are compared with others, never mixed with them.",
    ) or ""  # fmt: skip


def ask_effort(page: str, doctors: Sequence[str]) -> str:
    """Ask how much the doctors' models are to think; empty, unasked, where one of the doctors is no model."""
    if not all(map(is_model, doctors)):
        return ""
    return st.selectbox(
        "Reasoning effort", EFFORTS, key=f"{page}_effort", accept_new_options=True, persist_state="session",
        format_func=lambda effort: effort or "The model’s own",
        help="How much the doctor’s model is to think before it replies, for models that can be told; another word "
        "can be typed in. What it thinks is kept and shown, and never spoken or judged.",
    ) or ""  # fmt: skip


def ask_persona(page: str) -> Persona:
    """Ask how the patient speaks; the facts of the case stay the same whatever is chosen."""
    left, right = st.columns(2)
    temperament = left.selectbox(
        "Temperament", TEMPERAMENTS, key=f"{page}_temperament", format_func=_TEMPERAMENT.__getitem__,
        persist_state="session", help="How the patient speaks. A persona never adds or removes a medical fact.",
    )  # fmt: skip
    language = right.selectbox(
        "Language level", (None, *LANGUAGES), key=f"{page}_language", format_func=_LANGUAGE.__getitem__,
        persist_state="session", help="By the Common European Framework of Reference: A basic, C proficient.",
    )  # fmt: skip
    memory = left.selectbox(
        "Memory", MEMORIES, key=f"{page}_memory", format_func=_MEMORY.__getitem__, persist_state="session",
        help="A poor memory loses numbers and durations.",
    )  # fmt: skip
    speaker = right.selectbox(
        "Who speaks", tuple(_SPEAKER), key=f"{page}_speaker", format_func=_SPEAKER.__getitem__, persist_state="session"
    )
    return Persona(temperament, language, memory, speaker)


def ask_pack(page: str, protocol: str = "") -> str:
    """Ask for a prompt pack that has the prompts of a framework, by default the first; returns its name."""
    return st.selectbox(
        "Prompt pack", packs(protocol), key=f"{page}_pack", persist_state="session",
        help="The prompts that language models are given. The reference cast reads no instructions. Packs of your own "
        "are made on the Case debugger.",
    )  # fmt: skip


def packs(protocol: str = "") -> list[str]:
    """Return the names of the packs that have a framework's prompts: its own, the project's, then the user's."""
    known = framework(protocol)
    return sorted((place.name for place in pack_places(known.prompts)), key=lambda name: name != known.name)


def seat_problem(seats: Seats) -> str | None:
    """Return what keeps a cast from starting (an unknown model, a missing key), or ``None``."""
    known, names = framework(seats.protocol), seats.names
    named = {**{seat.role: names[seat.role] for seat in known.seats}, **names.extra}
    if OTHER in named.values():
        role = next(role for role, name in named.items() if name == OTHER)
        return f"Name the {seat_titles().get(role, role).lower()}'s model first."
    try:
        tested = _full_name(names[known.tested.role])
        for role, name in named.items():
            seat = known.seat(role)
            who = name or seated(role, role, name, tested, seat.rules if seat else (), registry())
            if not is_model(who):
                continue
            missing = registry().missing_key(who, base_url=seats.base_url if name or who == tested else None)
            if missing:
                return f"{who} needs a key: set the environment variable {missing} and start the dashboard again."
    except AnamnesisError as error:
        return str(error)
    return None


def _default_label(role: str, doctor: str, kinds: Sequence[str]) -> str:
    """Return in words who sits somewhere if nobody is named."""
    if doctor == OTHER:
        return "Default: the doctor’s own model"
    try:
        doctor = _full_name(doctor)
        name = seated(role, role, "", doctor, kinds, registry())
    except AnamnesisError:  # said once, by ``seat_problem``
        name = doctor
    return f"Default: {_seat_label(name)}{' (the doctor’s own model)' if name == doctor else ''}"


def _full_name(name: str) -> str:
    return full_name("doctor", name, registry(), (name,))


def _seat_label(name: str) -> str:
    return {**kinds_in_words(), **_OTHERS}.get(name, name)
