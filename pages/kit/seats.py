"""Controls for a case, a cast and a framework's options, shared by all pages that start trials."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin

import streamlit as st
from pydantic import SecretStr
from pydantic.fields import FieldInfo
from streamlit.delta_generator import DeltaGenerator

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
    Campaign,
    Framework,
    framework,
    frameworks,
    options_for,
    read_settings,
    seat_of,
    seats_at_work,
    speaking_roles,
    tested_seat,
    title_of,
    usual_arms,
)
from core.frameworks.casting import CastNames, StudyCast, StudySeat, full_name, is_model, is_rule, seated
from core.frameworks.seats import kinds_in_words, seat_titles
from core.frameworks.settings import FrameworkSettings, extra_of, flag_of
from core.images import local_images
from core.jobs.plan import IMAGES, WITH, first_model, in_full, missing_keys, prepared_cases
from core.judging.rules import RULE_JUDGE
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
from pages.kit.look import FORMAT, QUESTION_TYPE, arm, show_errors
from pages.kit.names import case_name, dataset_name
from pages.kit.navigation import link

OTHER = "another model…"
EFFORTS = ("", "none", "minimal", "low", "medium", "high")
"""Reasoning efforts that providers accept; the first leaves the effort to the model."""
RULES = "reference"
"""URL value that puts a seat's rules into the seat, whatever their names."""
_UNNAMED = ""
_NOBODY: Final = CastNames()
_OTHERS = {"human": "A human (you)", OTHER: "Another model…", RULE_JUDGE: "By rule, on words"}

_LANGUAGE = {None: "No stated level", "A": "Basic (A)", "B": "Everyday (B)", "C": "Fluent (C)"}
_PICTURES = {"": "Without", WITH: "With"}
_SPEAKER: dict[PersonaSpeaker | None, str] = {
    None: "As in the case",
    "patient": "The patient",
    "caregiver": "A caregiver",
}


def registry() -> Registry:
    """Return the registry of models from the current files, for looking up names; it opens no connection."""
    return _registry(tuple((str(path), path.stat().st_mtime_ns) for path in default_paths() if path.exists()))


@st.cache_resource(max_entries=4)
def _registry(files: tuple[tuple[str, int], ...]) -> Registry:
    return load_registry()


def ask_case(page: str) -> Case | None:
    """Ask for a data set and one of its cases; the URL stores the choice."""
    dataset_column, case_column = st.columns([1, 2])
    dataset_key = f"{page}_dataset"
    dataset = choose_by_name("Data set", datasets(), dataset_key, dataset_key, names=dataset_name, where=dataset_column)
    cases: dict[str, Case] = {}
    with show_errors():
        cases = {case.case_key: case for case in cases_of(dataset)}
    if not cases:
        return None
    chosen = choose_by_name(
        "Case",
        list(cases),
        "case",
        f"{page}_case",
        names=lambda key: case_label(cases[key]),
        where=case_column,
        persist=True,
    )
    return cases[chosen]


def case_label(case: Case) -> str:
    """Return a short label of a case that does not reveal its answer."""
    name = case.case_key.partition("/")[2]
    if case.dataset in (PASTED, EDITED):  # their names are titles
        parts = [case.specialty.replace("Other", ""), name, "edited" if case.dataset == EDITED else ""]
    else:
        name, patient = case_name(case.case_key, short=True), age_and_sex(case).replace(" years old,", "-year-old")
        subject, _, number = name.rpartition(" ")
        # the library names its cases by specialty and number
        of_specialty = subject and case.specialty.casefold().startswith(subject.casefold())
        parts = [f"{case.specialty} {number}", patient] if of_specialty else [case.specialty, patient, name]
    return " · ".join(filter(None, parts))


def ask_seat(
    page: str,
    role: str,
    *,
    human: bool = False,
    label: str = "",
    place: str = "",
    kinds: Sequence[str] | None = None,
    doctor: str = "",
    study: StudySeat | None = None,
) -> str:
    """Ask who plays a role and return the name for a cast; ``OTHER`` as long as a model has no name yet.

    Args:
        page: Prefix of the widget keys.
        role: The role.
        human: Whether a person may play.
        label: Label of the control; by default the role.
        place: Suffix of the keys if a form has two seats for the role.
        kinds: Reference kinds of the role, the default first; by default those of the first framework. If it is empty,
            only a model can play, and the name is empty until one is chosen.
        doctor: Name in the doctor's seat. If given, the seat may keep its default, which is shown; the name is then
            empty.
        study: Who played the role in the study so far.
    """
    key = f"{page}_{role}{place}"
    seat = seat_of(framework(), role)
    kinds = kinds if kinds is not None else seat.rules if seat else ()
    own_models = own_names()
    models = sorted(registry().names(), key=lambda name: name not in own_models)
    unnamed = [_UNNAMED] if doctor or not kinds else []
    requested = st.query_params.get(role) if not place else None
    if requested == RULES and kinds:
        requested = kinds[0]
    if requested in (*kinds, *models):  # a link that fills the seat
        st.session_state[key] = requested
        del st.query_params[role]
    chosen = choose(
        label or role.capitalize(),
        [*unnamed, *kinds, *(["human"] if human else []), *models, OTHER],
        key,
        names=lambda name: _seat_label(name) if name != _UNNAMED else _default_label(role, doctor, kinds, study),
        bound=False,
        persist=True,
    )
    if chosen == OTHER:
        model = st.text_input(
            f"Name of the {seat_titles().get(role, role).lower()}'s model",
            key=f"{key}_other",
            persist_state="session",
            placeholder="openai/my-model",
            help="provider/model, for example openai/llama-3.1-8b on your server, azure/DEPLOYMENT, or "
            "hf/organisation/model for a local model.",
        )
        link("models", "Add it on Models, with its own address and key", "memory")
        chosen = model.strip() or OTHER
    if chosen not in (_UNNAMED, OTHER) and is_model(chosen):
        with suppress(AnamnesisError):  # ``seat_problem`` reports unknown names
            if missing := registry().missing_key(chosen, base_url=st.session_state.get(f"{page}_base_url") or None):
                ask_key(missing, f"{key}_key")
    return chosen


def ask_key(variable: str, key: str) -> None:
    """Ask for the API key of an environment variable; the server keeps it in memory until it stops."""
    if access.refusal("run"):
        return

    def store_key() -> None:
        if typed := str(st.session_state[key]).strip():
            hold(variable, SecretStr(typed))
            st.session_state[key] = ""

    ask_secret(
        f"Key ({variable})",
        key,
        on_change=store_key,
        placeholder="Type or paste it",
        help=f"Kept in memory until the dashboard stops, for {'you alone' if access.visitor().name else 'all users'}. "
        f"Or set {variable} before you start the dashboard.",
    )


def ask_address(page: str) -> str | None:
    """Ask for the address of an OpenAI-compatible server; ``None`` if left empty."""
    text = st.text_input(
        "Server address",
        key=f"{page}_base_url",
        persist_state="session",
        placeholder="http://127.0.0.1:8000/v1",
        help="Address of the tested model on an OpenAI-compatible server (vLLM, Ollama, llama.cpp, TGI…). Empty: the "
        "address on the page Models, which the other roles always use.",
    )
    return text.strip() or None


def ask_pictures(page: str, doctors: Sequence[str], cases: Sequence[Case]) -> str:
    """Ask whether the doctors see the cases' pictures; empty without asking if there are none or no model plays."""
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
        help=f"{pictured:,} of {len(cases):,} cases have a picture. With: only the doctor sees it, in every format. "
        "Runs with and without pictures are never mixed.",
    )


def ask_effort(page: str, doctors: Sequence[str]) -> str:
    """Ask for the doctors' reasoning effort; empty without asking if one of the doctors is not a model."""
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
            help="How much the doctor’s model thinks before it replies, if the model supports it; you can type another "
            "word. Its reasoning is stored and shown, but never spoken or judged.",
        )
        or ""
    )


def plays_persona(fw: Framework, tested: str, patient: str) -> bool:
    """Return whether the patient's player, or the default one if it has no name, takes on a persona: rules do not."""
    seat = seat_of(fw, "patient")
    with suppress(AnamnesisError):  # ``seat_problem`` reports unknown names
        doctor = full_name("doctor", tested, registry(), (tested,))
        patient, _ = seated("patient", "patient", patient, doctor, seat.rules if seat else (), registry())
    return not is_rule(patient)


def ask_persona(page: str, *, plays: bool) -> Persona:
    """Ask how the patient speaks, if its player ``plays`` a persona; no choice changes the facts of the case."""
    if not plays:
        st.caption("The reference patient plays no persona. Choose a model for the patient to choose how it speaks.")
        return Persona()
    left_column, right_column = st.columns(2)
    ask = partial(choose, bound=False, persist=True)
    return Persona(
        ask(
            "Temperament",
            TEMPERAMENTS,
            f"{page}_temperament",
            names=str.capitalize,
            where=left_column,
            help="How the patient speaks. A persona never adds or removes a medical fact.",
        ),
        ask(
            "Language level",
            (None, *LANGUAGES),
            f"{page}_language",
            names=_LANGUAGE,
            where=right_column,
            help="By the Common European Framework of Reference: A basic, C proficient.",
        ),
        ask(
            "Memory",
            MEMORIES,
            f"{page}_memory",
            names=str.capitalize,
            where=left_column,
            help="A poor memory loses numbers and durations.",
        ),
        ask("Who speaks", tuple(_SPEAKER), f"{page}_speaker", names=_SPEAKER, where=right_column),
    )


def ask_pack(page: str, protocol: str = "") -> str:
    """Ask for a prompt pack with a framework's prompts and return its name; the framework's own is the default."""
    return choose(
        "Prompts",
        packs(protocol),
        f"{page}_pack",
        bound=False,
        persist=True,
        help="The prompts of language models; rules read none. The Case debugger makes others.",
    )


def packs(protocol: str = "") -> list[str]:
    """Return the names of the packs with a framework's prompts: the framework's, the project's, the user's."""
    fw = framework(protocol)
    return sorted((place.name for place in pack_places(fw.prompts)), key=lambda name: name != fw.name)


def seat_problem(
    names: CastNames, base_url: str | None, protocol: str = "", study: StudyCast | None = None
) -> str | None:
    """Return why a cast cannot start (an unknown model, a missing key), or ``None``.

    ``base_url`` is the typed address of an OpenAI-compatible server; ``study`` is the cast of the study so far.
    """
    unnamed = next((role for role, name in names.items() if name == OTHER), "")
    if unnamed:
        return f"Name the {seat_titles().get(unnamed, unnamed).lower()}'s model first."
    settings = framework(protocol).settings(base_url=base_url)
    try:
        campaign = in_full(Campaign(names, (), arms=(), protocol=protocol, settings=settings), registry(), study)
        missing = missing_keys(campaign, registry())
    except AnamnesisError as error:
        return str(error)
    return next(
        (f"{key.model} needs a key: type it above, or set {key.variable} and restart." for key in missing), None
    )


def _default_label(role: str, doctor: str, kinds: Sequence[str], study: StudySeat | None = None) -> str:
    """Return in words the default player of a seat, and the reason; a seat without a default asks for a model."""
    if not doctor:
        return "Choose a model"
    if doctor == OTHER:
        return "Default: the doctor’s own model"
    reason = ""
    try:
        doctor = full_name("doctor", doctor, registry(), (doctor,))
        name, why = seated(role, role, "", doctor, kinds, registry(), study)
    except AnamnesisError:  # ``seat_problem`` reports it
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
    by_name = frameworks()
    return by_name[choose("Framework", list(by_name), f"{page}_protocol", names=title_of, shape="segments", help=help_)]


def ask_player(
    page: str,
    fw: Framework,
    role: str,
    *,
    human: bool = False,
    doctor: str = "",
    study: StudyCast | None = None,
    **more: str,
) -> str:
    """Ask who plays a seat of a framework; a person may only if both ``human`` and the seat allow it."""
    seat = seat_of(fw, role)
    assert seat is not None, f"{fw.name} has no {role}"
    label = more.pop("label", "") or seat.title.capitalize()
    return ask_seat(
        page,
        role,
        label=label,
        human=human and not seat.no_human,
        kinds=seat.rules,
        doctor=doctor,
        study=(study or {}).get(role),
        **more,
    )


def ask_more_doctors(page: str, fw: Framework, doctor: str) -> tuple[str, ...]:
    """Ask for further doctors of a campaign, next to the first ``doctor``."""
    seat, own_models = tested_seat(fw), own_names()
    models = sorted(registry().names(), key=lambda name: name not in own_models)
    return choose_several(
        f"More {seat.title}s",
        [name for name in (*seat.rules, *models) if name != doctor],
        f"{page}_more_{seat.role}s",
        names=_seat_label,
        placeholder="None",
        bound=False,
        persist=True,
        help=f"Each {seat.title} has its own run on the same cases, with the same seeds and the same other roles.",
    )


def ask_arms(page: str, fw: Framework, usual: Sequence[Arm] = ()) -> tuple[Arm, ...]:
    """Ask for the arms of a campaign: formats and question types if the framework has their pairs, otherwise pairs.

    The ``usual`` arms are preselected, by default the framework's.
    """
    usual = usual or usual_arms(fw)
    formats = [f for f in FORMATS if any(arm_[0] == f for arm_ in fw.arms)]
    types = [q for q in QUESTION_TYPES if any(arm_[1] == q for arm_ in fw.arms)]
    with_all_types = [f for f in formats if all((f, q) in fw.arms for q in types)]
    if len(with_all_types) < 2 and len(fw.arms) < len(formats) * len(types):
        return ask_pairs(page, fw, fw.arms, usual)
    box = st.container()
    pills = partial(choose_several, shape="pills", where=box, bound=False, persist=True)
    usual_formats, usual_types = ([*dict.fromkeys(part)] for part in zip(*usual, strict=True))
    chosen_formats = tuple(formats)
    if len(formats) > 1:
        help_ = "What the doctor reads before the question."
        chosen_formats = pills(
            "Formats", formats, f"{page}_formats_{fw.name}", names=FORMAT, default=usual_formats, help=help_
        )
    help_ = "Many choices: every answer of the data set; for a pasted case those of the library and its own."
    chosen_types = pills(
        "Question types", types, f"{page}_types_{fw.name}", names=QUESTION_TYPE, default=usual_types, help=help_
    )
    return tuple((f, q) for f in chosen_formats for q in chosen_types if (f, q) in fw.arms)


def ask_pairs(page: str, fw: Framework, offered: Sequence[Arm], usual: Sequence[Arm]) -> tuple[Arm, ...]:
    """Ask for single arms; the ``usual`` ones among those ``offered`` are preselected."""
    one_format = len({format_ for format_, _ in offered}) == 1
    return choose_several(
        "Questions",
        offered,
        f"{page}_arms_{fw.name}",
        names=lambda pair: QUESTION_TYPE[pair[1]] if one_format else arm(*pair),
        default=[pair for pair in usual if pair in offered],
        shape="pills",
        bound=False,
        persist=True,
        help="  \n".join(arm_explained(*pair) for pair in offered),
    )


def single_arms(fw: Framework) -> list[Arm]:
    """Return the arms for a single case: many choices need the answers of a whole data set."""
    return [pair for pair in fw.arms if pair[1] not in ("mcq_many", "mcq_answers")]


def ask_options(
    page: str, fw: Framework, tested: str, *places: str, usual: FrameworkSettings | None = None, patient: str = ""
) -> dict[str, object]:
    """Ask for the options in some ``places`` of the form, without those that do not apply to the tested player.

    Their first values are those of ``usual``, by default the framework's. ``patient`` is the name in that seat.
    """
    initial = usual or fw.settings()
    fields = {name: info for name, info in options_for(fw, tested).items() if extra_of(info, "place") in places}
    values: dict[str, object] = {}
    for name, info in fields.items():
        if name == "persona":
            values[name] = str(ask_persona(page, plays=plays_persona(fw, tested, patient)))
        else:
            values[name] = _ask_option(page, name, info, getattr(initial, name))
    return values


def _ask_option(page: str, name: str, info: FieldInfo, initial: Any) -> object:
    shared: dict[str, Any] = {
        "label": extra_of(info, "label") or name.replace("_", " ").capitalize(),
        "key": f"{page}_{name}",
        "help": info.description,
    }
    kinds = get_args(info.annotation) or (info.annotation,)
    if get_origin(info.annotation) is Literal:
        offered = [value for value in kinds if value != ""]
        initial = initial if initial in offered else info.default
        return choose(
            options=offered,
            default=initial,
            names=lambda value: str(value).capitalize(),
            shape="segments",
            bound=False,
            persist=True,
            **shared,
        )
    shared["persist_state"] = "session"
    if bool in kinds:
        return st.toggle(value=bool(initial), **shared)
    if int in kinds or float in kinds:
        number = int if int in kinds else float
        least, most = (
            next((number(getattr(constraint, rule)) for constraint in info.metadata if hasattr(constraint, rule)), None)
            for rule in ("ge", "le")
        )
        if not initial and info.default is not None:
            initial = info.default if least else 0  # 0 means no cap, if the option allows it
        shared |= {
            "min_value": number(0) if least is None else least,
            "max_value": most,
            "step": 1 if number is int else 0.1,
            "value": None if initial is None else number(initial),
        }
        return st.number_input(placeholder="the model’s default" if info.default is None else None, **shared)
    return st.text_input(value=str(initial), **shared)


def read_options(fw: Framework, values: dict[str, object]) -> tuple[FrameworkSettings, str | None]:
    """Return the chosen settings and ``None``, or the defaults and what is wrong, with the labels of the form."""
    try:
        return read_settings(fw, values), None
    except UsageError as error:
        problem = str(error)
        for name, info in fw.settings.model_fields.items():
            problem = problem.replace(flag_of(name, info), extra_of(info, "label") or name)
        return fw.settings(), problem


class Cast(NamedTuple):
    """Who plays, and how, as a form asks for it.

    ``names`` has a cast for each doctor; ``asked`` are the settings that the form asks for; ``problem`` is why the cast
    cannot start, or ``None``.
    """

    names: list[CastNames]
    prompts: str
    settings: FrameworkSettings
    asked: tuple[str, ...]
    problem: str | None


def ask_cast(
    page: str,
    fw: Framework,
    doctors: Sequence[str],
    arms: Sequence[Arm],
    speaking: Sequence[DeltaGenerator],
    columns: Sequence[DeltaGenerator],
    *places: str,
    human: bool = False,
    lead: str = "",
    images: str | None = None,
    usual: FrameworkSettings | None = None,
    study: StudyCast | None = None,
    seated: CastNames = _NOBODY,
) -> Cast:
    """Ask for the other seats at work, prompts, address and settings.

    Args:
        page: Prefix of the widget keys.
        fw: The framework.
        doctors: Names in the tested seat, each of another cast.
        arms: What the doctors are asked.
        speaking: A column for each of the other roles that speak; without them these seats are among the others.
        columns: Two columns: for seats that do not speak, and for settings.
        places: Parts of the form whose options are asked for; ``patient`` only if it is at work.
        human: Whether a person may speak.
        lead: The doctor on whom the defaults of the other seats depend; by default the first that is a model.
        images: The setting for pictures, if it was asked for.
        usual: First values of the settings; by default the framework's.
        study: Who played these seats in the study so far.
        seated: Who has a seat that is not at work.
    """
    tested, role = first_model(doctors), tested_seat(fw).role
    lead, players = lead or tested, dict[str, str]()
    column_of = dict(zip(speaking_roles(fw), speaking, strict=False))
    for seat in seats_at_work(fw, tested, arms):
        with column_of.get(seat, columns[0]):
            players[seat] = ask_player(page, fw, seat, human=human and seat in column_of, doctor=lead, study=study)
    with columns[0]:
        prompts, address = ask_pack(page, fw.name), ask_address(page)
    with columns[1]:
        places = tuple(place for place in places if place != "patient" or "patient" in players)
        values = ask_options(page, fw, tested, *places, usual=usual, patient=players.get("patient", ""))
        values |= {"base_url": address, "reasoning_effort": ask_effort(page, doctors)}
        values |= {} if images is None else {"images": images}
    settings, problem = read_options(fw, values)
    casts = [seated.but(**{role: doctor, **players}) for doctor in doctors]
    problems = (seat_problem(names, address, fw.name, study) for names in casts)
    return Cast(casts, prompts, settings, tuple(values), problem or next(filter(None, problems), None))


@cached_query("Checking which cases can become a patient…")
def prepared(name: str, case_set: int, _cases: tuple[Case, ...]) -> Prepared:
    """Return the cases that the framework ``name`` can play, with profiles, and those that it leaves out.

    ``case_set`` is the hash of the cases and the cache key. A saved profile changes the store, and so this result.
    """
    return prepared_cases(_cases, framework(name))
