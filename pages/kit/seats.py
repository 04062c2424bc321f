"""Asks for a case, a cast and how it plays: the controls of every page that starts something."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st
from pydantic import SecretStr

from core import access
from core.case import Case
from core.datasets.select import cases_of, datasets
from core.debugger.paste import DATASET as PASTED
from core.debugger.paste import title_of
from core.debugger.run import EDITED
from core.errors import AnamnesisError
from core.frameworks.base import framework
from core.frameworks.casting import CastNames, full_name, is_model, seated
from core.frameworks.seats import kinds_in_words, seat_titles
from core.images import kept
from core.jobs.plan import IMAGES, WITH
from core.models.keys import hold
from core.models.register import listed
from core.models.registry import Registry, load_registry
from core.models.settings import default_paths
from core.persona import LANGUAGES, MEMORIES, TEMPERAMENTS, Persona, PersonaSpeaker
from core.prompts import pack_places
from pages.kit.controls import ask_secret, choose, choose_by_name
from pages.kit.look import plain
from pages.kit.names import dataset_name
from pages.kit.navigation import link

OTHER = "another model…"
EFFORTS = ("", "none", "minimal", "low", "medium", "high")
"""Words by which providers are told how much a model is to think; the first leaves it to the model."""
RULES = "reference"
"""By this word a link puts rules into a seat, whatever they are called there."""
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
    None: "As in the case",
    "patient": "The patient",
    "caregiver": "A caregiver",
}


@dataclass(frozen=True)
class Seats:
    """The cast as chosen, with the address of an OpenAI-compatible server if one was given, and its framework."""

    names: CastNames
    base_url: str | None
    protocol: str = ""


def registry() -> Registry:
    """Return the registry of models for looking names up (nothing is opened with it), as the files are by now."""
    return _registry(tuple((str(path), path.stat().st_mtime_ns) for path in default_paths() if path.exists()))


@st.cache_resource(max_entries=4)
def _registry(files: tuple[tuple[str, int], ...]) -> Registry:
    return load_registry()


def ask_case(page: str) -> Case | None:
    """Ask for a data set and one case of it; the choice stands in the address."""
    left, right = st.columns([1, 2])
    known = f"{page}_dataset"
    dataset = choose_by_name("Data set", datasets(), known, known, names=dataset_name, where=left)
    try:
        cases = {case.case_key: case for case in cases_of(dataset)}
    except AnamnesisError as error:
        st.error(plain(str(error)))
        return None
    chosen = choose_by_name(
        "Case", list(cases), "case", f"{page}_case", names=lambda key: case_label(cases[key]), where=right, persist=True
    )
    return cases[chosen]


def case_label(case: Case) -> str:
    """Return a case in a few words that do not give its answer away."""
    if case.dataset in (PASTED, EDITED):  # a title says who it is
        mark = "edited" if case.dataset == EDITED else ""
        return " · ".join(part for part in (case.specialty.replace("Other", ""), title_of(case), mark) if part)
    who = case.age_and_sex().replace(" years old,", "-year-old")
    return " · ".join(part for part in (case.specialty, who, case.case_key.partition("/")[2]) if part)


def ask_seat(
    page: str,
    role: str,
    *,
    human: bool = False,
    label: str = "",
    place: str = "",
    kinds: Sequence[str] | None = None,
    beside: str = "",
) -> str:
    """Ask who plays a role; returns the name, ready for a cast, and ``OTHER`` while a model is still to be named.

    ``place`` tells two seats of one role apart. ``kinds`` are the role's reference kinds, the usual one first, where
    they are not the first framework's. ``beside`` is who is in the doctor's seat: then the seat may be left to
    whoever sits there by default, who is shown, and the name is empty.
    """
    key = f"{page}_{role}{place}"
    seat = framework().seat(role)
    kinds = kinds if kinds is not None else seat.rules if seat else ()
    models = [one.spec.name for one in listed(registry())]
    left = [_UNNAMED] if beside else []
    asked = st.query_params.get(role) if not place else None
    if asked == RULES and kinds:
        asked = kinds[0]
    if asked in (*kinds, *models):  # a link that says who sits here
        st.session_state[key] = asked
        del st.query_params[role]
    chosen = choose(
        label or role.capitalize(),
        [*left, *kinds, *(["human"] if human else []), *models, OTHER],
        key,
        names=lambda name: _seat_label(name) if name != _UNNAMED else _default_label(role, beside, kinds),
        bound=False,
        persist=True,
    )
    if chosen != OTHER:
        if is_model(chosen) and chosen:
            _ask_key(page, chosen, key)
        return chosen
    named = st.text_input(
        f"Name of the {seat_titles().get(role, role).lower()}'s model",
        key=f"{key}_other",
        persist_state="session",
        placeholder="openai/my-model",
        help="provider/model, for example openai/llama-3.1-8b on a server of yours, azure/DEPLOYMENT, "
        "or hf/organisation/model for a local model.",
    )
    link("models", "Add it on Models, with its own address and key", "memory")
    if named.strip():
        _ask_key(page, named.strip(), key)
    return named.strip() or OTHER


def _ask_key(page: str, model: str, key: str) -> None:
    """Ask for a model's key where it is missing, beside where the model is chosen."""
    try:
        missing = registry().missing_key(model, base_url=st.session_state.get(f"{page}_base_url") or None)
    except AnamnesisError:  # an unknown name is said once, by ``seat_problem``
        return
    if missing:
        ask_key(missing, f"{key}_key")


def ask_key(variable: str, key: str) -> None:
    """Ask for the key that a variable would hold; it is kept by this server until it ends, and never written."""
    if access.refusal("run"):
        return

    def keep() -> None:
        if typed := str(st.session_state[key]).strip():
            hold(variable, SecretStr(typed))
            st.session_state[key] = ""

    ask_secret(
        f"Key ({variable})",
        key,
        on_change=keep,
        placeholder="Type or paste it",
        help=f"Kept until the dashboard stops, for {'you alone' if access.visitor().name else 'all who use it'}, and "
        f"never written down. Or set {variable} "
        "before you start it.",
    )


def ask_address(page: str) -> str | None:
    """Ask for the address of an OpenAI-compatible server."""
    text = st.text_input(
        "Server address",
        key=f"{page}_base_url",
        persist_state="session",
        placeholder="http://127.0.0.1:8000/v1",
        help="Of the tested model, on any OpenAI-compatible server (vLLM, Ollama, llama.cpp, TGI…). Empty: the model’s "
        "own, as the page Models has it. Models of other seats keep their own.",
    )
    return text.strip() or None


def ask_pictures(page: str, doctors: Sequence[str], cases: Sequence[Case]) -> str:
    """Ask whether the doctors are shown the pictures of the chosen cases; empty, unasked, where one could not be."""
    pictured = sum(bool(kept(case.images)) for case in cases)
    if not pictured or not all(map(is_model, doctors)):
        return ""
    return choose(
        "Pictures",
        IMAGES,
        f"{page}_images",
        names=_PICTURES,
        default="",
        shape="segments",
        bound=False,
        persist=True,
        help=f"{pictured:,} of {len(cases):,} cases have a picture. With: the doctor is shown it in every format, and "
        "nobody else is. Such runs are compared with others, never mixed with them.",
    )


def ask_effort(page: str, doctors: Sequence[str]) -> str:
    """Ask how much the doctors' models are to think; empty, unasked, where one of the doctors is no model."""
    if not all(map(is_model, doctors)):
        return ""
    return (
        st.selectbox(
            "Reasoning effort",
            EFFORTS,
            key=f"{page}_effort",
            accept_new_options=True,
            persist_state="session",
            format_func=lambda effort: effort or "The model’s own",
            help="How much the doctor’s model is to think before it replies, for models that can be told; another word "
            "can be typed in. What it thinks is kept and shown, and never spoken or judged.",
        )
        or ""
    )


def ask_persona(page: str) -> Persona:
    """Ask how the patient speaks; the facts of the case stay the same whatever is chosen."""
    left, right = st.columns(2)
    ask = partial(choose, bound=False, persist=True)
    words = "How the patient speaks. A persona never adds or removes a medical fact."
    temperament = ask("Temperament", TEMPERAMENTS, f"{page}_temperament", names=_TEMPERAMENT, where=left, help=words)
    words = "By the Common European Framework of Reference: A basic, C proficient."
    language = ask("Language level", (None, *LANGUAGES), f"{page}_language", names=_LANGUAGE, where=right, help=words)
    words = "A poor memory loses numbers and durations."
    memory = ask("Memory", MEMORIES, f"{page}_memory", names=_MEMORY, where=left, help=words)
    speaker = ask("Who speaks", tuple(_SPEAKER), f"{page}_speaker", names=_SPEAKER, where=right)
    return Persona(temperament, language, memory, speaker)


def ask_pack(page: str, protocol: str = "") -> str:
    """Ask for a prompt pack that has the prompts of a framework, by default the first; returns its name."""
    return choose(
        "Prompt pack",
        packs(protocol),
        f"{page}_pack",
        bound=False,
        persist=True,
        help="The prompts that language models are given. The reference cast reads no instructions. Packs of your own "
        "are made on the Case debugger.",
    )


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
        tested = full_name("doctor", names[known.tested.role], registry(), (names[known.tested.role],))
        for role, name in named.items():
            seat = known.seat(role)
            who = name or seated(role, role, name, tested, seat.rules if seat else (), registry())
            if not is_model(who):
                continue
            missing = registry().missing_key(who, base_url=seats.base_url if goes_there(who, tested) else None)
            if missing:
                return f"{who} needs a key: type it above, or set the environment variable {missing} and start anew."
    except AnamnesisError as error:
        return str(error)
    return None


def goes_there(who: str, tested: str) -> bool:
    """Say whether a model is asked at the address that was typed, which is the tested model's.

    So is another of its provider of which nothing else is known; beside rules or a person, whoever is named.
    """
    if who == tested or not is_model(tested):
        return True
    return who.partition("/")[0] == tested.partition("/")[0] and not registry().has_own_address(who)


def _default_label(role: str, doctor: str, kinds: Sequence[str]) -> str:
    """Return in words who sits somewhere if nobody is named."""
    if doctor == OTHER:
        return "Default: the doctor’s own model"
    try:
        doctor = full_name("doctor", doctor, registry(), (doctor,))
        name = seated(role, role, "", doctor, kinds, registry())
    except AnamnesisError:  # said once, by ``seat_problem``
        name = doctor
    return f"Default: {_seat_label(name)}{' (the doctor’s own model)' if name == doctor else ''}"


def _seat_label(name: str) -> str:
    return {**kinds_in_words(), **_OTHERS}.get(name, name)
