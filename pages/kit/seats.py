"""Asks for a case, a cast and how it plays, as a framework says what it has: on every page that starts something."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, get_args, get_origin

import streamlit as st
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from core import access
from core.asking.persona import LANGUAGES, MEMORIES, TEMPERAMENTS, Persona, PersonaSpeaker
from core.case import Case
from core.datasets.select import cases_of, datasets
from core.debugger.paste import DATASET as PASTED
from core.debugger.run import EDITED
from core.errors import AnamnesisError, UsageError
from core.events import FORMATS, QUESTION_TYPES
from core.frameworks.base import (
    Arm,
    Framework,
    framework,
    frameworks,
    options_for,
    read_settings,
    seat_of,
    tested_seat,
    title_of,
    usual_arms,
)
from core.frameworks.casting import CastNames, StudyCast, StudySeat, full_name, is_model, seated
from core.frameworks.seats import kinds_in_words, seat_titles
from core.frameworks.settings import FrameworkSettings, extra_of, flag_of
from core.images import local_images
from core.jobs.plan import IMAGES, WITH, prepared_cases
from core.models.keys import hold
from core.models.register import own_names
from core.models.registry import Registry, load_registry
from core.models.settings import default_paths
from core.prompts import pack_places
from core.text.demographics import age_and_sex
from core.text.profiles import Prepared
from core.words import arm_explained
from pages.kit.cached import cached_query
from pages.kit.controls import ask_secret, choose, choose_by_name, choose_several
from pages.kit.look import FORMAT, QUESTION_TYPE, arm, faults_said
from pages.kit.names import dataset_name
from pages.kit.navigation import link

OTHER = "another model…"
EFFORTS = ("", "none", "minimal", "low", "medium", "high")
"""Words by which providers are told how much a model is to think; the first leaves it to the model."""
RULES = "reference"
"""By this word a link puts rules into a seat, whatever they are called there."""
_UNNAMED = ""
_OTHERS = {"human": "A human (you)", OTHER: "Another model…"}

_LANGUAGE = {None: "No stated level", "A": "Basic (A)", "B": "Everyday (B)", "C": "Fluent (C)"}
_PICTURES = {"": "Without", WITH: "With"}
_SPEAKER: dict[PersonaSpeaker | None, str] = {
    None: "As in the case",
    "patient": "The patient",
    "caregiver": "A caregiver",
}


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
    cases: dict[str, Case] = {}
    with faults_said():
        cases = {case.case_key: case for case in cases_of(dataset)}
    if not cases:
        return None
    chosen = choose_by_name(
        "Case", list(cases), "case", f"{page}_case", names=lambda key: case_label(cases[key]), where=right, persist=True
    )
    return cases[chosen]


def case_label(case: Case) -> str:
    """Return a case in a few words that do not give its answer away."""
    name = case.case_key.partition("/")[2]
    if case.dataset in (PASTED, EDITED):  # a title says who it is
        parts = (case.specialty.replace("Other", ""), name, "edited" if case.dataset == EDITED else "")
    else:
        parts = (case.specialty, age_and_sex(case).replace(" years old,", "-year-old"), name)
    return " · ".join(filter(None, parts))


def ask_seat(
    page: str,
    role: str,
    *,
    human: bool = False,
    label: str = "",
    place: str = "",
    kinds: Sequence[str] | None = None,
    beside: str = "",
    study: StudySeat | None = None,
) -> str:
    """Ask who plays a role; returns the name, ready for a cast, and ``OTHER`` while a model is still to be named.

    ``place`` tells two seats of one role apart. ``kinds`` are the role's reference kinds, the usual one first, where
    they are not the first framework's. ``beside`` is who is in the doctor's seat: then the seat may be left to
    whoever sits there by default, who is shown, and the name is empty; ``study`` is who sat there in the study so far.
    """
    key = f"{page}_{role}{place}"
    seat = seat_of(framework(), role)
    kinds = kinds if kinds is not None else seat.rules if seat else ()
    own = own_names()
    models = sorted(registry().names(), key=lambda name: name not in own)
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
        names=lambda name: _seat_label(name) if name != _UNNAMED else _default_label(role, beside, kinds, study),
        bound=False,
        persist=True,
    )
    if chosen == OTHER:
        named = st.text_input(
            f"Name of the {seat_titles().get(role, role).lower()}'s model",
            key=f"{key}_other",
            persist_state="session",
            placeholder="openai/my-model",
            help="provider/model, for example openai/llama-3.1-8b on a server of yours, azure/DEPLOYMENT, "
            "or hf/organisation/model for a local model.",
        )
        link("models", "Add it on Models, with its own address and key", "memory")
        chosen = named.strip() or OTHER
    if chosen not in (_UNNAMED, OTHER) and is_model(chosen):
        with suppress(AnamnesisError):  # an unknown name is said once, by ``seat_problem``
            if missing := registry().missing_key(chosen, base_url=st.session_state.get(f"{page}_base_url") or None):
                ask_key(missing, f"{key}_key")
    return chosen


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
    pictured = sum(bool(local_images(case.images)) for case in cases)
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
    return Persona(
        ask(
            "Temperament",
            TEMPERAMENTS,
            f"{page}_temperament",
            names=str.capitalize,
            where=left,
            help="How the patient speaks. A persona never adds or removes a medical fact.",
        ),
        ask(
            "Language level",
            (None, *LANGUAGES),
            f"{page}_language",
            names=_LANGUAGE,
            where=right,
            help="By the Common European Framework of Reference: A basic, C proficient.",
        ),
        ask(
            "Memory",
            MEMORIES,
            f"{page}_memory",
            names=str.capitalize,
            where=left,
            help="A poor memory loses numbers and durations.",
        ),
        ask("Who speaks", tuple(_SPEAKER), f"{page}_speaker", names=_SPEAKER, where=right),
    )


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


def seat_problem(
    names: CastNames, base_url: str | None, protocol: str = "", study: StudyCast | None = None
) -> str | None:
    """Return what keeps a cast from starting (an unknown model, a missing key), or ``None``.

    ``base_url`` is the address of an OpenAI-compatible server, if one was given; ``study`` the cast of the study.
    """
    known = framework(protocol)
    named = {**{seat.role: names[seat.role] for seat in known.seats}, **names.extra}
    if OTHER in named.values():
        role = next(role for role, name in named.items() if name == OTHER)
        return f"Name the {seat_titles().get(role, role).lower()}'s model first."
    try:
        tested = full_name("doctor", names[tested_seat(known).role], registry(), (names[tested_seat(known).role],))
        for role, name in named.items():
            seat = seat_of(known, role)
            who = name
            if not name:
                rules = seat.rules if seat else ()
                who, why = seated(role, role, name, tested, rules, registry(), (study or {}).get(role))
                if why == "study":  # it is asked where it was asked before, with the key that it has
                    continue
            address = base_url if goes_there(who, tested) else None
            if is_model(who) and (missing := registry().missing_key(who, base_url=address)):
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


def _default_label(role: str, doctor: str, kinds: Sequence[str], study: StudySeat | None = None) -> str:
    """Return in words who sits somewhere if nobody is named, and why."""
    if doctor == OTHER:
        return "Default: the doctor’s own model"
    reason = ""
    try:
        doctor = full_name("doctor", doctor, registry(), (doctor,))
        name, why = seated(role, role, "", doctor, kinds, registry(), study)
    except AnamnesisError:  # said once, by ``seat_problem``
        name, why = doctor, "own"
    if why == "study" and study is not None:
        reason = f"as in run {study.run_id} of {study.doctor}"
    elif why == "own" or name == doctor:
        reason = "the doctor’s own model"
        if study is not None and study.problem:
            reason += f"; {study.name} of run {study.run_id} cannot be asked: {study.problem}"
    return f"Default: {_seat_label(name)}{f' ({reason})' if reason else ''}"


def _seat_label(name: str) -> str:
    return {**kinds_in_words(), **_OTHERS}.get(name, name)


def ask_framework(page: str, help_: str) -> Framework:
    """Ask under which framework is played; the choice stands in the address."""
    known = frameworks()
    return known[choose("Framework", list(known), f"{page}_protocol", names=title_of, shape="segments", help=help_)]


def ask_player(
    page: str,
    known: Framework,
    role: str,
    *,
    human: bool = False,
    beside: str = "",
    study: StudyCast | None = None,
    **more: str,
) -> str:
    """Ask who sits in a seat of a framework; a person only where ``human`` allows one and the seat does."""
    seat = seat_of(known, role)
    assert seat is not None, f"{known.name} has no {role}"
    label = more.pop("label", "") or seat.title.capitalize()
    return ask_seat(
        page,
        role,
        label=label,
        human=human and not seat.no_human,
        kinds=seat.rules,
        beside=beside,
        study=(study or {}).get(role),
        **more,
    )


def ask_arms(page: str, known: Framework, usual: Sequence[Arm] = ()) -> tuple[Arm, ...]:
    """Ask for the arms of a campaign: formats and question types where it asks every pair of them, else pairs.

    At first the ``usual`` ones are chosen, by default the framework's own.
    """
    usual = usual or usual_arms(known)
    formats = [f for f in FORMATS if any(one[0] == f for one in known.arms)]
    types = [q for q in QUESTION_TYPES if any(one[1] == q for one in known.arms)]
    if len(known.arms) < len(formats) * len(types):
        return ask_pairs(page, known, known.arms, usual)
    asked = st.container()
    pills = partial(choose_several, shape="pills", where=asked, bound=False, persist=True)
    first, second = ([*dict.fromkeys(part)] for part in zip(*usual, strict=True))
    shown = tuple(formats)
    if len(formats) > 1:
        help_ = "What the doctor is shown before the question."
        shown = pills("Formats", formats, f"{page}_formats_{known.name}", names=FORMAT, default=first, help=help_)
    help_ = "Many choices: every answer of the data set; for a pasted case, the library’s and its own."
    kinds = pills(
        "Question types", types, f"{page}_types_{known.name}", names=QUESTION_TYPE, default=second, help=help_
    )
    return tuple((f, q) for f in shown for q in kinds)


def ask_pairs(page: str, known: Framework, offered: Sequence[Arm], usual: Sequence[Arm]) -> tuple[Arm, ...]:
    """Ask for arms one by one."""
    alone = len({format_ for format_, _ in offered}) == 1
    return choose_several(
        "What is asked",
        offered,
        f"{page}_arms_{known.name}",
        names=lambda one: QUESTION_TYPE[one[1]] if alone else arm(*one),
        default=[one for one in usual if one in offered],
        shape="pills",
        bound=False,
        persist=True,
        help="  \n".join(arm_explained(*one) for one in offered),
    )


def single_arms(known: Framework) -> list[Arm]:
    """Return what one case alone can be asked: many choices are the answers of a whole data set."""
    return [one for one in known.arms if one[1] not in ("mcq_many", "mcq_answers")]


def ask_options(
    page: str, known: Framework, tested: str, *places: str, usual: FrameworkSettings | None = None
) -> dict[str, object]:
    """Ask for the framework's options of some places of the form, those that mean anything beside who is tested.

    They begin with ``usual``, by default the framework's own.
    """
    first = usual or known.settings()
    asked = {name: info for name, info in options_for(known, tested).items() if extra_of(info, "place") in places}
    return {name: _ask_option(page, name, info, getattr(first, name)) for name, info in asked.items()}


def has_options(known: Framework, tested: str, place: str) -> bool:
    """Say whether any of the framework's options stands in a place of the form."""
    return any(extra_of(info, "place") == place for info in options_for(known, tested).values())


def _ask_option(page: str, name: str, info: FieldInfo, first: Any) -> object:
    if name == "persona":
        return str(ask_persona(page))
    shared: dict[str, Any] = {
        "label": extra_of(info, "label") or name.replace("_", " ").capitalize(),
        "key": f"{page}_{name}",
        "help": info.description,
    }
    kinds = get_args(info.annotation) or (info.annotation,)
    if get_origin(info.annotation) is Literal:
        offered = [value for value in kinds if value != ""]
        first = first if first in offered else info.default
        return choose(
            options=offered,
            default=first,
            names=lambda value: str(value).capitalize(),
            shape="segments",
            bound=False,
            persist=True,
            **shared,
        )
    shared["persist_state"] = "session"
    if bool in kinds:
        return st.toggle(value=bool(first), **shared)
    if int in kinds or float in kinds:
        number = int if int in kinds else float
        least, most = (
            next((number(getattr(one, rule)) for one in info.metadata if hasattr(one, rule)), None)
            for rule in ("ge", "le")
        )
        if not first and info.default is not None:
            first = info.default if least else 0  # no cap, where that can be asked for
        shared |= {
            "min_value": number(0) if least is None else least,
            "max_value": most,
            "step": 1 if number is int else 0.1,
            "value": None if first is None else number(first),
        }
        return st.number_input(placeholder="left to the model" if info.default is None else None, **shared)
    return st.text_input(value=str(first), **shared)


def read_options(known: Framework, values: dict[str, object]) -> tuple[FrameworkSettings, str | None]:
    """Return the settings that were asked for, or the defaults with what is wrong in the words of the form."""
    try:
        return read_settings(known, values), None
    except UsageError as error:
        problem = str(error)
        for name, info in known.settings.model_fields.items():
            problem = problem.replace(flag_of(name, info), extra_of(info, "label") or name)
        return known.settings(), problem


@cached_query("Looking which cases can become a patient…")
def prepared(name: str, case_set: int, _cases: tuple[Case, ...]) -> Prepared:
    """Return cases, known by their hash, as the framework of this name plays them, with profiles and those left out.

    A profile that is saved meanwhile counts at the next look.
    """
    return prepared_cases(_cases, framework(name))
