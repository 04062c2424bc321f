"""The names of models, conditions, data sets and cases as people read them, the same on pages, in figures and notes.

Names in the database are for programs: ``hf/smollm2-135m-history``, ``library:test@golden (first 5)``,
``library/neurology-5``. Names that users gave, and ``provider/model`` of a remote provider, are shown as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import PurePath

from core.case import SPECIALTIES, data_set_of
from core.frameworks.base import publisher
from core.frameworks.seats import kinds_in_words
from core.models.registry import load_registry
from core.store.conditions import SEPARATOR, doctor_of

_RELEASED = publisher("accuracy")
_LIBRARY = "library"
DATA_SETS = {
    "MedQA_USMLE": "MedQA-USMLE", "dermatology_public": "Derm-Public", "dermatology_private": "Derm-Private",
    _RELEASED.name: _RELEASED.title, _LIBRARY: "Library",
}  # fmt: skip
"""Data set → its display name; others keep their name."""
PAPER_MODELS = {
    "gpt_4": "GPT-4",
    "gpt_3_5": "GPT-3.5",
    "mistral_v1_7b": "Mistral v1 7B",
    "mistral_v2_7b": "Mistral v2 7B",
    "llama_2_7b": "LLaMA-2 7B",
    "gpt_4v": "GPT-4V",
    "gpt_4v_without_image": "GPT-4V without image",
}
"""Label of a model in the papers → its display name, in display order."""
_HOUSE_MODELS = {"hf/smollm2-135m": "SmolLM2 135M", "hf/smollm2-135m-history": "SmolLM2 135M history"}
_PERSON = {"human": "A person"}
_ON_THIS_SIDE = ("hf", "server")
"""Providers that only say how a model is reached: its display name is the last part of its name."""
_SEATS = ("patient", "summariser", "solver", "staff", "grader")
"""Seats whose model may be part of a condition's name."""
_PART = re.compile(r"(?P<selection>.+?)(?: \((?P<size>first [\d]+|sample of \d+, seed \d+)\))?")
_SIDE = re.compile(r"(?P<side>train|test)@(?P<folder>.+)")
_NUMBERED = re.compile(r"case_(\d+)")


@cache
def _paper_labels() -> dict[str, str]:
    """Return full model name → its label in the papers, for the models that have one."""
    return {full: alias for alias, full in load_registry().aliases.items() if alias in PAPER_MODELS}


@cache
def _fixed_names() -> dict[str, str]:
    rules = {kind: words.partition(":")[0].partition(" (")[0] for kind, words in kinds_in_words().items()}
    return {**PAPER_MODELS, **_HOUSE_MODELS, **_PERSON, **rules}


def label_of(model: str) -> str:
    """Return the papers' label of a model or of a condition's doctor; without one, the full name."""
    doctor = doctor_of(model)
    return _paper_labels().get(doctor, doctor)


def model_name(model: str) -> str:
    doctor, *distinctions = model.split(SEPARATOR)
    label = label_of(doctor)
    provider, _, name = label.partition("/")
    short = name.rpartition("/")[2] if provider in _ON_THIS_SIDE and name else label
    return SEPARATOR.join([_fixed_names().get(label, short), *map(_distinction, distinctions)])


def _distinction(words: str) -> str:
    """Return one distinction of a condition with display names in it."""
    seat, _, remainder = words.partition(" ")
    if seat in _SEATS:
        holder, covers, share = remainder.partition(" (")
        return f"{seat} {model_name(holder)}{covers}{share}"
    return case_set_name(words) if data_set_of(words) in DATA_SETS else words


def unique_names(models: Iterable[str], case_set: str | None = None) -> dict[str, str]:
    """Return model or condition → its display name, in display order; the full name is added if two names are equal.

    The papers' models come first. Conditions of one doctor keep their order. Names omit ``case_set``, if it is the only
    one that is shown.
    """
    places = {label: place for place, label in enumerate(PAPER_MODELS)}
    ordered = sorted(dict.fromkeys(models), key=lambda m: (places.get(label_of(m), len(places)), doctor_of(m)))
    parts = {model: [part for part in model.split(SEPARATOR) if part != case_set] for model in ordered}
    names = {model: model_name(SEPARATOR.join(parts[model])) for model in ordered}
    counts = Counter(names.values())
    return {m: name if counts[name] == 1 or name == m else f"{name} ({m})" for m, name in names.items()}


def dataset_name(name: str | None) -> str:
    """Return a data set's display name, ``unknown`` if it has none."""
    return DATA_SETS.get(name or "", name or "unknown")


def case_set_name(name: str) -> str:
    """Return the display name of a run's cases: the data set, and which part of it."""
    match = _PART.fullmatch(name)
    selection, size = (match["selection"], match["size"]) if match else (name, None)
    data_set, _, part = selection.partition(":")
    if side := _SIDE.fullmatch(part):
        part = f"{'test' if side['side'] == 'test' else 'training'} cases of {PurePath(side['folder']).name}"
    elif part:
        specialty = next((s for s in SPECIALTIES if s.lower() == part.strip().lower()), None)
        ids = [case.strip() for case in part.split(",") if case.strip()]
        part = specialty or (case_name(f"{data_set}/{ids[0]}", short=True) if len(ids) == 1 else f"{len(ids)} cases")
    return ", ".join(filter(None, (dataset_name(data_set), part, size)))


def case_name(case_key: str, *, short: bool = False) -> str:
    """Return the display name of a case of the library or a release; other keys keep the names that users gave.

    ``short`` omits the data set.
    """
    data_set, _, case = case_key.rpartition("/")
    if data_set == _LIBRARY:
        topic, dash, number = case.rpartition("-")
        return f"{topic.replace('_', ' ').capitalize()} {number}" if dash else case
    if (match := _NUMBERED.fullmatch(case)) and data_set in ("", *DATA_SETS):
        return f"{dataset_name(data_set)} case {match[1]}" if data_set and not short else f"case {match[1]}"
    return case if short else case_key
