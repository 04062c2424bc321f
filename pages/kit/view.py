"""The view: one set of filters for every page, of which a page names the parts it uses. It stands in the address."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
import streamlit as st

from core.case import SPECIALTIES
from core.events import FORMATS, QUESTION_TYPES
from core.measures.compare import DifferenceInterval
from core.questions import AsksFor
from core.stats.corrections import LABELS, Correction
from core.store.queries.answers import CaseScore
from core.store.selection import McqRule
from pages.kit.controls import UNKNOWN, choose, choose_several
from pages.kit.look import ASKS_FOR, FORMAT, QUESTION_TYPE, RULE, plain
from pages.kit.names import dataset_name, unique_names

Part = Literal["models", "formats", "questions", "datasets", "specialties", "asks_for", "rule", "statistics", "pooled"]
RULES: tuple[McqRule, ...] = ("usual", "mcq_loose", "mcq_strict")
INTERVALS: dict[DifferenceInterval, str] = {
    "smoothed": "Smoothed bootstrap",
    "bootstrap": "Bootstrap",
    "normal": "Normal theory (t)",
}
_RULE_HELP = (
    "Usual: each framework’s own rule, and the grader’s verdict for many choices. The paper’s rule: the answer occurs "
    "in the response, which also counts a response that lists all. Strict: exactly one choice is named."
)
_CHOSEN = "_chosen"
_WIDTH = 224
"""Pixels of a control: four stand beside one another."""


@dataclass(frozen=True)
class Offer:
    """What a case set can be narrowed by; models are conditions by name."""

    models: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    specialties: tuple[str, ...] = ()
    asks_for: tuple[AsksFor, ...] = ()
    several_conditions: bool = False
    """Whether some doctor has several, so that there is something to pool."""


@dataclass(frozen=True)
class View:
    """What is looked at, and under which statistics. An empty part is no restriction, an empty case set all of them."""

    case_set: str
    models: tuple[str, ...] = ()
    """Conditions by name."""
    formats: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    specialties: tuple[str, ...] = ()
    asks_for: tuple[AsksFor, ...] = ()
    rule: McqRule = "usual"
    interval: DifferenceInterval = "smoothed"
    correction: Correction = "holm"
    pooled: bool = False
    """Whether a doctor's conditions are put together on purpose."""
    shared_cases: bool = False
    """Whether figures of several conditions stand on the cases that all of ``models`` were asked."""
    without_blank: bool = False
    """Whether blank answers are left out; they count as not correct."""
    names: Mapping[str, str] = field(default_factory=dict, compare=False, hash=False)
    """Condition → its name as this page shows it, of all on offer."""

    def has(
        self,
        model: str | None = None,
        case_key: str | None = None,
        dataset: str | None = None,
        specialty: str | None = None,
        format: str | None = None,
        question_type: str | None = None,
    ) -> bool:
        """Say whether something is looked at; what is not given does not matter, except where it is asked for."""
        return (
            (case_key is None or not self.case_set or case_key.partition("/")[0] == self.case_set)
            and (not self.models or model in self.models)
            and (not self.datasets or dataset in self.datasets)
            and (not self.specialties or specialty in self.specialties)
            and (format is None or not self.formats or format in self.formats)
            and (question_type is None or not self.questions or question_type in self.questions)
        )

    def in_words(self) -> str:
        """Return the cases and what they and their answers are narrowed by, for a caption."""
        parts = (
            [dataset_name(self.case_set)],
            [self.names.get(model, model) for model in self.models],
            [FORMAT.get(one, one) for one in self.formats],  # type: ignore[call-overload]
            [QUESTION_TYPE.get(one, one) for one in self.questions],  # type: ignore[call-overload]
            map(dataset_name, self.datasets),
            self.specialties,
        )
        return "; ".join(filter(None, map(", ".join, parts)))

    def rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of a table with model, case_key, dataset and specialty that are looked at."""
        kept = np.ones(len(table), dtype=bool)
        if self.case_set:
            kept &= table["case_key"].astype(str).str.startswith(f"{self.case_set}/").to_numpy(dtype=bool)
        for name, wanted in (("model", self.models), ("dataset", self.datasets), ("specialty", self.specialties)):
            if wanted:
                kept &= table[name].isin(wanted).to_numpy(dtype=bool)
        return table[kept]


def offers_of(scores: Iterable[CaseScore]) -> dict[str, Offer]:
    """Return case set → what its scores can be narrowed by; the case set with most cases comes first."""
    by_set: dict[str, list[CaseScore]] = {}
    for score in scores:
        by_set.setdefault(score.case_key.partition("/")[0], []).append(score)
    found: dict[str, Offer] = {}
    for name, rows in sorted(by_set.items(), key=lambda held: -len({row.case_key for row in held[1]})):
        formats, questions = {row.format for row in rows}, {row.question_type for row in rows}
        found[name] = Offer(
            tuple(dict.fromkeys(row.model for row in rows if row.model)),
            tuple(f for f in FORMATS if f in formats),
            tuple(q for q in QUESTION_TYPES if q in questions),
            tuple(sorted({row.dataset for row in rows if row.dataset})),
            in_order({row.specialty for row in rows if row.specialty}),
        )
    return found


def offers_in(table: pd.DataFrame, case_sets: Iterable[str]) -> dict[str, Offer]:
    """Return case set → what the rows of a table with model, case_key, dataset and specialty can be narrowed by.

    Conditions keep the order in which they come. The case set "" holds all rows.
    """
    own = table["case_key"].astype(str).str.split("/", n=1).str[0]
    held = {name: table[own == name] if name else table for name in case_sets}
    return {
        name: Offer(
            tuple(rows["model"].astype(str).unique()),
            datasets=tuple(sorted(rows["dataset"].dropna().unique())),
            specialties=in_order(rows["specialty"].dropna().unique()),
        )
        for name, rows in held.items()
    }


def in_order(specialties: Iterable[str]) -> tuple[str, ...]:
    """Return specialties as the publication lists them, then others by name."""
    found = set(specialties)
    return (*(s for s in SPECIALTIES if s in found), *sorted(found - set(SPECIALTIES)))


def ask_view(offers: Mapping[str, Offer], *parts: Part) -> View:
    """Ask for the case set, and for the named parts of the view in their order; raises no error on an empty offer.

    An offer under "" is of all case sets, which conditions tell apart by their names: none is asked for.
    """
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        case_set = (
            ""
            if "" in offers
            else choose(
                "Cases",
                list(offers),
                "cases",
                names=dataset_name,
                help="Figures on different cases are never mixed.",
                width=_WIDTH,
            )
        )
        offer = offers[case_set]
        names = unique_names(offer.models, case_set or None)
        travelling: dict[Part, tuple[str, Sequence[str], Any]] = {
            "models": ("Models", list(names), names),
            "formats": ("Formats", offer.formats, FORMAT),
            "questions": ("Questions", offer.questions, QUESTION_TYPE),
            "datasets": ("Data sets", offer.datasets, dataset_name),
            "specialties": ("Specialties", offer.specialties, None),
        }
        held: dict[str, Any] = {}
        for part in parts:
            if part in travelling:
                held[part] = _ask_travelling(part, *travelling[part])
            elif part == "rule":
                held[part] = choose("Right choice", RULES, part, names=RULE, help=_RULE_HELP, width=_WIDTH)
            elif part == "statistics":
                held |= _ask_statistics()
            elif part == "pooled":
                held[part] = offer.several_conditions and st.toggle(
                    "Pool conditions",
                    key=part,
                    bind="query-params",
                    help="Bars never mix answers that are not comparable: a model whose runs differ in patient, "
                    "prompts, cap, grader … has a bar for each. This puts them together on purpose, under a name "
                    "that says so.",
                )
            elif len(offer.asks_for) > 1:
                kinds = choose_several("Asks for", offer.asks_for, part, names=ASKS_FOR, width=_WIDTH)
                held[part] = tuple(kind for kind in offer.asks_for if kind in kinds)
    if unknown := st.session_state.get(UNKNOWN):
        words = plain("; ".join(unknown.values()))
        st.caption(f":material/link_off: The link asks for what is not here, and is left out: {words}.")
    return View(case_set, **held, names=names)


def _ask_travelling(part: Part, label: str, offered: Sequence[str], names: Any) -> tuple[str, ...]:
    """Ask for a part that holds from page to page, where both have it: Streamlit sees to that only for neighbours.

    A control that is new here begins with what was chosen on another page and is on offer here. What is not on offer
    here is not forgotten: the next page may have it.
    """
    kept = tuple(value for value in st.session_state.get(_CHOSEN, {}).get(part, ()) if value in offered)
    if kept and part not in st.session_state and part not in st.query_params:
        st.session_state[part] = list(kept)
    chosen = choose_several(label, offered, part, names=names, width=_WIDTH)
    if chosen != kept:
        st.session_state.setdefault(_CHOSEN, {})[part] = chosen
    return chosen


def _ask_statistics() -> dict[str, Any]:
    with st.popover("Statistics", icon=":material/functions:", help="Interval, correction, rule for choices."):
        return {
            "interval": choose(
                "95 % interval",
                list(INTERVALS),
                "interval",
                names=INTERVALS,
                shape="segments",
                help="Smoothed bootstrap: cases are resampled with a pseudo-case at 0 and at 1, so that it holds near "
                "these. Bootstrap: percentiles, with a correction for few cases. Normal theory: mean ± t · sd / √n.",
            ),
            "correction": choose(
                "Correction of p",
                list(LABELS),
                "correction",
                names=LABELS,
                shape="segments",
                help="Over all comparisons shown. The publication names Holm; its tables hold Benjamini–Hochberg.",
            ),
            "rule": choose("Right choice", RULES, "rule", names=RULE, shape="segments", help=_RULE_HELP),
        }
