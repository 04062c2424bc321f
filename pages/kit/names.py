"""Names and colours of models, conditions and data sets, the same on every page."""

import re
from collections import Counter
from collections.abc import Iterable

import streamlit as st

from core.figures.style import PALETTE
from core.frameworks.base import publisher
from core.frameworks.seats import kinds_in_words
from core.models.registry import load_registry
from core.store.conditions import SEPARATOR, doctor_of

_FIXED = {
    "gpt_4": "#0072B2", "gpt_3_5": "#56B4E9", "mistral_v1_7b": "#E69F00", "mistral_v2_7b": "#D55E00",
    "llama_2_7b": "#009E73", "reference/bayes": "#8C8C8C",
}  # fmt: skip
"""The papers' models keep their colour on every page."""
_SHOWN = {
    "gpt_4": "GPT-4",
    "gpt_3_5": "GPT-3.5",
    "mistral_v1_7b": "Mistral v1 7B",
    "mistral_v2_7b": "Mistral v2 7B",
    "llama_2_7b": "LLaMA-2 7B",
    "gpt_4v": "GPT-4V",
    "gpt_4v_without_image": "GPT-4V without image",
    "hf/smollm2-135m": "SmolLM2 135M",
    "hf/smollm2-135m-history": "SmolLM2 135M history",
    "human": "A person",
    **{kind: words.partition(":")[0].partition(" (")[0] for kind, words in kinds_in_words().items()},
}
_SEATS = ("patient", "summariser", "solver", "staff", "grader")
"""Seats whose model may be part of a condition's name."""


RELEASED = publisher("accuracy")
"""The framework whose authors released their conversations; the release has its name."""
DATASET = {
    "MedQA_USMLE": "MedQA-USMLE", "dermatology_public": "Derm-Public", "dermatology_private": "Derm-Private",
    RELEASED.name: RELEASED.title, "library": "Library",
}  # fmt: skip
"""Data set → its name on pages; others keep their name."""
_PLACE = {
    label: place for place, label in enumerate(("gpt_4", "gpt_3_5", "mistral_v1_7b", "mistral_v2_7b", "llama_2_7b"))
}
"""The papers' models come first, in this order."""
_DIGITS = re.compile(r"(\d+)")
_SIDE = re.compile(r"(train|test)@.+")
_NUMBERED = re.compile(r"[_-](?=\d+$)")
IMPORT_COMMAND = f"python -m core import {RELEASED.name} PATH"
RELEASE = f"{RELEASED.title} authors’ release"
"""What the command imports, in words."""


@st.cache_resource
def _labels() -> dict[str, str]:
    """Return full model name → its label in the papers, for the models that have one."""
    return {full: alias for alias, full in load_registry().aliases.items() if alias in _SHOWN}


def label_of(model: str) -> str:
    """Return the papers' label of a model or of a condition's doctor; without one, the full name."""
    doctor = doctor_of(model)
    return _labels().get(doctor, doctor)


def model_name(model: str) -> str:
    doctor, *distinctions = model.split(SEPARATOR)
    label = label_of(doctor)
    return SEPARATOR.join([_SHOWN.get(label, label), *map(_with_names, distinctions)])


def _with_names(words: str) -> str:
    """Return one distinction of a condition with model names as on pages."""
    seat, _, remainder = words.partition(" ")
    holder, covers, share = remainder.partition(" (")
    return f"{seat} {model_name(holder)}{covers}{share}" if seat in _SEATS else words


def model_colours(models: Iterable[str]) -> dict[str, str]:
    """Return model or condition → colour: fixed for the papers' models, otherwise the next free colour by name.

    Of the conditions of one doctor the first has the doctor's colour.
    """
    first: dict[str, str] = {}
    for model in models:
        first.setdefault(doctor_of(model), model)
    fixed = {m: _FIXED[label_of(m)] for m in first.values() if label_of(m) in _FIXED}
    free = iter([c for c in PALETTE if c not in fixed.values()] * 10)
    others = [m for m in models if m not in fixed]
    return {**fixed, **{m: next(free) for m in sorted(others)}}


def unique_names(models: Iterable[str], case_set: str | None = None) -> dict[str, str]:
    """Return model or condition → its name, in display order; the full name is added if two names are equal.

    Conditions of one doctor keep their order. If a single ``case_set`` is shown, names omit it.
    """
    ordered = sorted(dict.fromkeys(models), key=lambda m: (_PLACE.get(label_of(m), len(_PLACE)), doctor_of(m)))
    names = {model: model_name(model).replace(f"{SEPARATOR}{case_set}", "") for model in ordered}
    counts = Counter(names.values())
    return {m: name if counts[name] == 1 or name == m else f"{name} ({m})" for m, name in names.items()}


def natural(text: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(text) if part)


def dataset_name(name: str | None) -> str:
    """Return a data set's name on pages, ``unknown`` if it has none."""
    return DATASET.get(name or "", name or "unknown")


def case_name(case_key: str) -> str:
    """Return a case's key on pages: the data set and the case, for example "Library · cardiology 1"."""
    dataset, _, name = case_key.partition("/")
    return f"{dataset_name(dataset)}{SEPARATOR}{short_case_name(name)}" if name else case_key


def short_case_name(name: str) -> str:
    """Return the part of a case's key after the data set in words: "case_5" is "case 5"."""
    return _NUMBERED.sub(" ", name).replace("_", " ")


def case_set_in_words(case_set: str, data_set: str = "") -> str:
    """Return a case set in words: "library:test@golden (first 5)" is "Library, test cases (first 5)"."""
    selection, bracket, size = case_set.partition(" (")
    data_set = data_set or selection.partition(":")[0]
    part = selection.removeprefix(data_set).removeprefix(":")
    if side := _SIDE.fullmatch(part):
        part = f"{side[1]} cases"
    elif "," in part:
        part = f"{len(part.split(','))} cases"
    return ", ".join(filter(None, (dataset_name(data_set), short_case_name(part)))) + bracket + size
