"""What the Accuracy page asks: which cases, split how, which models, formats, questions; all in the address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from core.case import SPECIALTIES
from core.datasets.published import printed_sets
from core.events import FORMATS, QUESTION_TYPES
from core.measures.accuracy import Cell, Split
from core.store.conditions import SEPARATOR
from pages.parts.accuracy_data import View, kinds_asked, known_case_sets
from pages.parts.figure_controls import ask_several, ask_statistics, dataset_name, keep_valid
from pages.parts.figures import conditions
from pages.parts.look import ASKS_FOR, FORMAT, QUESTION_TYPE

SPLIT: dict[Split, str] = {
    "all": "All together",
    "specialty": "Specialty",
    "dataset": "Data set",
    "dermatology": "Dermatology by data set",
    "single": "Dermatology, single diagnosis",
}
_OWN_SPLITS: list[Split] = ["all", "specialty"]
_NOT_AT_FIRST = ("gpt_4v", "gpt_4v_without_image")
"""Published on 74 cases with images, not on the 2,004: shown when asked for."""


@dataclass(frozen=True)
class Shown:
    """Which of a view's cells are shown."""

    models: Sequence[str]
    formats: Sequence[str]
    question_types: Sequence[str]
    groups: Sequence[str] | None

    def has(self, model: str, format_: str | None, question_type: str, group: str | None) -> bool:
        """Say whether something is shown; ``format_`` ``None`` is any."""
        return (
            model in self.models
            and (format_ is None or format_ in self.formats)
            and question_type in self.question_types
            and (self.groups is None or group in self.groups)
        )

    def cells(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return the cells that are shown."""
        return [c for c in cells if self.has(c.model, c.format, c.question_type, c.group)]


def ask_view() -> View:
    """Ask for the cases, how they are split, and the statistics."""
    sets = known_case_sets()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        keep_valid("acc_cases", sets)
        case_set = st.segmented_control(
            "Cases", list(sets), default=next(iter(sets)), required=True, format_func=dataset_name, key="acc_cases",
            bind="query-params", help="Figures on different cases are never mixed.",
        )  # fmt: skip
        case_set = case_set or next(iter(sets))
        splits = list(SPLIT) if case_set in printed_sets() else _OWN_SPLITS
        keep_valid("acc_split", splits)
        split = st.segmented_control(
            "Split by", splits, default="all", required=True, format_func=SPLIT.__getitem__, key="acc_split",
            bind="query-params",
        )  # fmt: skip
        statistics = ask_statistics("acc")
        kinds = kinds_asked(case_set)
        asked = ask_several(st.container(width=280), "Asks for", "acc_asks_for", kinds, ASKS_FOR) if kinds[1:] else ()
        several = any(SEPARATOR in one.name for one in conditions(case_set))
        pooled = several and st.toggle(
            "Pool conditions", key="acc_pool", bind="query-params",
            help="Bars never mix answers that are not comparable: a model whose runs differ in patient, prompts, cap, "
            "grader … has a bar for each. This puts them together on purpose, under a name that says so.",
        )  # fmt: skip
    return View(case_set, split or "all", statistics, pooled, tuple(kind for kind in kinds if kind in asked))


def ask_shown(view: View, cells: Sequence[Cell], names: dict[str, str]) -> Shown:
    """Ask which models, formats, questions and specialties of a view are shown."""
    models = list(names)
    own = {cell.model for cell in cells if cell.own}
    formats = [f for f in FORMATS if any(cell.format == f for cell in cells)]
    types = [q for q in QUESTION_TYPES if any(cell.question_type == q for cell in cells)]
    first = [m for m in models if m in own or m not in _NOT_AT_FIRST]
    chosen = _pills("Models", models, first, names, "acc_models")
    with st.container(horizontal=True, gap="medium"):
        chosen_formats = _pills("Formats", formats, formats, FORMAT, "acc_formats")
        chosen_types = _pills("Questions", types, types, QUESTION_TYPE, "acc_questions")
    groups = None
    if view.split == "specialty":
        known = {cell.group for cell in cells}
        found = [s for s in SPECIALTIES if s in known]
        groups = st.multiselect(
            "Specialties", found, key="acc_specialties", bind="query-params", placeholder="all"
        ) or found  # fmt: skip
    return Shown(chosen, chosen_formats, chosen_types, groups)


def _pills(label: str, options: list[Any], default: list[Any], names: Mapping[Any, str], key: str) -> list[str]:
    keep_valid(key, options)
    return st.pills(
        label, options, selection_mode="multi", default=default, format_func=names.__getitem__, key=key,
        bind="query-params",
    )  # fmt: skip
