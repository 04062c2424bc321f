"""What the pages of figures ask alike: rule for choices, interval, correction; and names that are unique."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from core.frameworks.base import publisher
from core.measures.compare import DifferenceInterval
from core.stats.corrections import LABELS, Correction
from core.store.conditions import SEPARATOR, doctor_of
from core.store.selection import McqRule
from pages.parts.figures import label_of, model_name
from pages.parts.look import RULE

RELEASED = publisher("accuracy")
"""The framework whose authors released their conversations; the release bears its name."""
DATASET = {
    "MedQA_USMLE": "MedQA-USMLE", "dermatology_public": "Derm-Public", "dermatology_private": "Derm-Private",
    RELEASED.name: RELEASED.title, "library": "Library",
}  # fmt: skip
"""Data sets as pages show them; others by their own name."""
_PLACE = {
    label: place for place, label in enumerate(("gpt_4", "gpt_3_5", "mistral_v1_7b", "mistral_v2_7b", "llama_2_7b"))
}
"""The papers' models come first, in this order."""
_DIGITS = re.compile(r"(\d+)")
RULES: tuple[McqRule, ...] = ("mcq_loose", "mcq_strict")
CORRECTIONS: tuple[Correction, ...] = ("holm", "bh", "none")
INTERVALS: tuple[DifferenceInterval, ...] = ("bootstrap", "normal")
INTERVAL: dict[str, str] = {"bootstrap": "Bootstrap", "normal": "Normal theory (t)"}
CHART = {"displaylogo": False, "showSendToCloud": False}
STARS = "\\*\\*\\*\\* p ≤ .0001, \\*\\*\\* ≤ .001, \\*\\* ≤ .01, \\* ≤ .05, ns above"
IMPORT_COMMAND = f"python -m core import {RELEASED.name} PATH"
RELEASE = f"{RELEASED.title} authors’ release"
"""What the command brings in, in words."""


@dataclass(frozen=True)
class Statistics:
    """How figures are computed: 95 % interval, correction for multiplicity, rule for multiple choice."""

    interval: DifferenceInterval
    correction: Correction
    rule: McqRule


def ask_statistics(page: str) -> Statistics:
    """Ask for interval, correction and rule; all three stand in the address."""
    with st.popover("Statistics", icon=":material/functions:", help="Interval, correction, rule for choices."):
        interval = st.segmented_control(
            "95 % interval", INTERVALS, default="bootstrap", required=True, format_func=INTERVAL.__getitem__,
            key=f"{page}_interval", bind="query-params",
            help="Bootstrap: cases are resampled, with a correction for few cases. Normal theory: mean ± t · sd / √n.",
        )  # fmt: skip
        correction = st.segmented_control(
            "Correction of p", CORRECTIONS, default="holm", required=True, format_func=LABELS.__getitem__,
            key=f"{page}_correction", bind="query-params",
            help="Over all comparisons shown. The publication names Holm; its tables hold Benjamini–Hochberg.",
        )  # fmt: skip
        rule = st.segmented_control(
            "Right choice", RULES, default="mcq_loose", required=True,
            format_func=RULE.__getitem__, key=f"{page}_rule", bind="query-params",
            help="The paper’s rule: the answer occurs in the response, which also counts a response that lists all.",
        )  # fmt: skip
    return Statistics(interval or "bootstrap", correction or "holm", rule or "mcq_loose")


def three_decimals(table: pd.DataFrame) -> dict[str, Any]:
    """Return the settings of a shown table by which its fractions line up."""
    fractions = table.select_dtypes("float").columns
    return {name: st.column_config.NumberColumn(format="%.3f") for name in fractions}


def keep_valid(key: str, options: Iterable[Any]) -> None:
    """Let a control go back to its default where what it holds is no longer on offer."""
    held, offered = st.session_state.get(key), list(options)
    values = held if isinstance(held, list) else [held]
    if held is not None and any(value not in offered for value in values):
        del st.session_state[key]


def unique_names(models: Iterable[str], case_set: str | None = None) -> dict[str, str]:
    """Return model or condition → its name, in the order of pages; the full name where two would read alike.

    Conditions of one doctor keep the order in which they come. Where one ``case_set`` is shown, names do not say it.
    """
    ordered = sorted(dict.fromkeys(models), key=lambda m: (_PLACE.get(label_of(m), len(_PLACE)), doctor_of(m)))
    names = {model: model_name(model).replace(f"{SEPARATOR}{case_set}", "") for model in ordered}
    counts = Counter(names.values())
    return {m: name if counts[name] == 1 or name == m else f"{name} ({m})" for m, name in names.items()}


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts case_2 before case_10."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(text) if part)


def dataset_name(name: str | None) -> str:
    """Return a data set's name as pages show it."""
    return DATASET.get(name or "", name or "unknown")


def chosen_point(state: Any) -> Sequence[Any] | None:
    """Return the custom data of the mark that was clicked, or ``None``."""
    points = state.get("selection", {}).get("points", []) if isinstance(state, Mapping) else []
    data = points[0].get("customdata") if points else None
    return list(data.values()) if isinstance(data, Mapping) else data


def ask_several(
    column: st.delta_generator.DeltaGenerator,
    label: str,
    key: str,
    options: Sequence[str],
    names: Mapping[Any, str],
    on_change: Callable[[], None] | None = None,
) -> tuple[str, ...]:
    """Ask for some of several; none is all. The choice stands in the address, where what is no option is dropped."""
    keep_valid(key, options)
    chosen = column.multiselect(
        label, list(options), format_func=lambda o: names.get(o, o), key=key, bind="query-params", placeholder="All",
        on_change=on_change,
    )  # fmt: skip
    return tuple(chosen)
