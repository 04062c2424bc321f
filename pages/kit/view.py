"""The filters of pages: a ``Selection`` that stands in the address; a page names the parts that it asks for."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.case import SPECIALTIES, AsksFor
from core.events import FORMATS, QUESTION_TYPES
from core.measures.accuracy import published_rows
from core.measures.comparison import DifferenceInterval
from core.stats.corrections import LABELS, Correction
from core.store.conditions import SEPARATOR
from core.store.queries.cases import kinds_asked_for
from core.store.selection import McqRule, Selection, case_groups_played, case_sets_played
from pages.kit.cached import ask, cached_query
from pages.kit.controls import UNKNOWN, choose, choose_several
from pages.kit.look import ASKS_FOR, FORMAT, QUESTION_TYPE, RULE, plain
from pages.kit.names import dataset_name, model_name, unique_names
from pages.kit.stored import conditions, known_case_sets, run_casts

Part = Literal["models", "formats", "questions", "datasets", "specialties", "asks_for", "rule", "pooled"]
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
_POOL_HELP = (
    "Bars never mix answers that are not comparable: a model whose runs differ in patient, prompts, cap, grader … has "
    "a bar for each. This puts them together on purpose, under a name that says so."
)
_TRAVELLING: dict[Part, tuple[str, Any]] = {
    "models": ("Models", None),
    "formats": ("Formats", FORMAT),
    "questions": ("Questions", QUESTION_TYPE),
    "datasets": ("Data sets", dataset_name),
    "specialties": ("Specialties", None),
}
"""Part that holds from page to page → the name of its control, and how its values are called."""
_EVERYTHING = Selection()
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


class Statistics(NamedTuple):
    """How figures are computed: interval, correction of p, and the rule by which choices count."""

    interval: DifferenceInterval
    correction: Correction
    rule: McqRule


@cached_query(spinner=False)
def offered(
    frameworks: Sequence[str] | None = None, *, published: bool = False, pooled: bool = False
) -> dict[str, Offer]:
    """Return case set → what its figures can be narrowed by, of some ``frameworks`` or of all.

    ``published``: with the models of published figures, and the case sets that have some.
    """
    groups = ask(case_groups_played)
    sets = known_case_sets() if published else ask(case_sets_played)
    found = {}
    for name in sets:
        behind = [
            condition
            for condition in conditions(name, pooled=pooled)
            if frameworks is None or condition.newest.protocol in frameworks
        ]
        printed = published_rows(name) if published else []
        if not behind and not printed:
            continue
        arms = {arm for one in behind for run in run_casts() if run.run_id in one.runs for arm in run.arms}
        arms |= {(row.label["format"], row.label["question_type"]) for row in printed}
        datasets, specialties = groups.get(name, ([], []))
        found[name] = Offer(
            tuple(dict.fromkeys([*(one.name for one in behind), *(row.label["model"] for row in printed)])),
            tuple(f for f in FORMATS if f in {format_ for format_, _ in arms}),
            tuple(q for q in QUESTION_TYPES if q in {question for _, question in arms}),
            tuple(datasets),
            in_order(specialties or (SPECIALTIES if printed else ())),
            tuple(ask(kinds_asked_for, name)),
            several_conditions=any(SEPARATOR in one.name for one in conditions(name)),
        )
    return found


def union(offers: Iterable[Offer]) -> Offer:
    """Return what any of several case sets offers."""
    known = list(offers)

    def every(part: str) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(value for offer in known for value in getattr(offer, part)))

    return Offer(
        every("models"),
        tuple(f for f in FORMATS if f in every("formats")),
        tuple(q for q in QUESTION_TYPES if q in every("questions")),
        every("datasets"),
        in_order(every("specialties")),
        every("asks_for"),
        any(offer.several_conditions for offer in known),
    )


def offer_in(table: pd.DataFrame) -> Offer:
    """Return what the rows of a table with model, dataset and specialty can be narrowed by, models as they come."""
    return Offer(
        tuple(table["model"].astype(str).unique()),
        datasets=tuple(sorted(table["dataset"].dropna().unique())),
        specialties=in_order(table["specialty"].dropna().unique()),
    )


def in_order(specialties: Iterable[str]) -> tuple[str, ...]:
    """Return specialties as the publication lists them, then others by name."""
    found = set(specialties)
    return (*(s for s in SPECIALTIES if s in found), *sorted(found - set(SPECIALTIES)))


def ask_selection(
    offers: Mapping[str, Offer], *parts: Part, base: Selection = _EVERYTHING, inside: bool = False
) -> Selection:
    """Ask for the case set and for the named parts, in their order, and return ``base`` narrowed by them.

    The choices stand in the address. An offer under "" is of all case sets, which conditions tell apart by their names:
    none is asked for. ``inside``: the page has made a row for the controls.
    """
    with nullcontext() if inside else row_of_controls():
        case_set = _ask_case_set(offers)
        selection = replace(base, case_sets=(case_set,)) if case_set else base
        selection = narrow(selection, offers[case_set], *parts)
    _say_unknown()
    return selection


def row_of_controls() -> DeltaGenerator:
    """Return a row in which controls stand next to one another."""
    return st.container(horizontal=True, vertical_alignment="bottom", gap="small")


def narrow(base: Selection, offer: Offer, *parts: Part) -> Selection:
    """Ask for parts of what is on offer on the case set of ``base``, and return it narrowed by them."""
    names = unique_names(offer.models, _only(base.case_sets))
    values = {_FIELDS.get(part, part): _ask_part(part, offer, names) for part in parts}
    return replace(base, **{name: value for name, value in values.items() if value})


_FIELDS: dict[Part, str] = {"models": "conditions", "questions": "question_types", "rule": "mcq_rule"}
"""Part → the field of a selection, where it is not called so."""


def ask_statistics() -> Statistics:
    """Ask for interval, correction and the rule for choices."""
    return Statistics(**_ask_statistics())


def names_on(selection: Selection) -> dict[str, str]:
    """Return condition → its name as pages show it, of all that the controls offer on a selection's case sets."""
    case_set = _only(selection.case_sets)
    behind = conditions(case_set, selection.frameworks, pooled=selection.pooled)
    return unique_names((condition.name for condition in behind), case_set)


def _only(case_sets: Sequence[str] | None) -> str | None:
    """Return the data set, if there is just one: names do not say it then."""
    return case_sets[0] if case_sets and len(case_sets) == 1 else None


def in_words(selection: Selection) -> str:
    """Return the cases of a selection and what they and their answers are narrowed by, for a caption."""
    names = names_on(selection)
    parts = (
        map(dataset_name, selection.case_sets or ()),
        [names.get(model, model_name(model)) for model in selection.conditions or ()],
        [FORMAT[format_] for format_ in selection.formats or ()],
        [QUESTION_TYPE[question] for question in selection.question_types or ()],
        map(dataset_name, selection.datasets or ()),
        selection.specialties or (),
    )
    return "; ".join(filter(None, map(", ".join, parts)))


def _ask_case_set(offers: Mapping[str, Offer]) -> str:
    if "" in offers:
        return ""
    help_ = "Figures on different cases are never mixed."
    return choose("Cases", list(offers), "cases", names=dataset_name, help=help_, width=_WIDTH)


def _ask_part(part: Part, offer: Offer, names: Mapping[str, str]) -> Any:
    """Ask for a part; what restricts nothing is empty."""
    if part in _TRAVELLING:
        words, shown = _TRAVELLING[part]
        values: Sequence[str] = list(names) if part == "models" else getattr(offer, part)
        return _ask_travelling(part, words, values, names if part == "models" else shown)
    if part == "rule":
        return choose("Right choice", RULES, part, names=RULE, help=_RULE_HELP, width=_WIDTH)
    if part == "pooled":
        return offer.several_conditions and st.toggle("Pool conditions", key=part, bind="query-params", help=_POOL_HELP)
    if len(offer.asks_for) < 2:
        return ()
    kinds = choose_several("Asks for", offer.asks_for, part, names=ASKS_FOR, width=_WIDTH)
    return tuple(kind for kind in offer.asks_for if kind in kinds)


def _say_unknown() -> None:
    if unknown := st.session_state.get(UNKNOWN):
        words = plain("; ".join(unknown.values()))
        st.caption(f":material/link_off: The link asks for what is not here, and is left out: {words}.")


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
