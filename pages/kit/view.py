"""The filters of pages: a ``Selection`` stored in the URL. Each page names the parts that it asks for."""

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

SelectionPart = Literal["models", "formats", "questions", "datasets", "specialties", "asks_for", "rule", "pooled"]
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
    "one bar for each. Pooling merges these bars, and their name says so."
)
_SHARED_PARTS: dict[SelectionPart, tuple[str, Any]] = {
    "models": ("Models", None),
    "formats": ("Formats", FORMAT),
    "questions": ("Questions", QUESTION_TYPE),
    "datasets": ("Data sets", dataset_name),
    "specialties": ("Specialties", None),
}
"""Part that keeps its choice across pages → label of its control, and names of its values."""
_EVERYTHING = Selection()
_CHOSEN = "_chosen"
_WIDTH = 224
"""Width in pixels of a control: four fit into a row."""


@dataclass(frozen=True)
class CaseSetOptions:
    """The values by which a case set can be narrowed; models are names of conditions."""

    models: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    specialties: tuple[str, ...] = ()
    asks_for: tuple[AsksFor, ...] = ()
    several_conditions: bool = False
    """Whether a doctor has several conditions, so that they can be pooled."""


class Statistics(NamedTuple):
    """How figures are computed: interval, correction of p, and the rule that counts multiple choice."""

    interval: DifferenceInterval
    correction: Correction
    rule: McqRule


@cached_query(spinner=False)
def offered(
    frameworks: Sequence[str] | None = None, *, published: bool = False, pooled: bool = False
) -> dict[str, CaseSetOptions]:
    """Return case set → the values by which its figures can be narrowed, for some ``frameworks`` or all.

    ``published`` adds the models and case sets of published figures.
    """
    groups = ask(case_groups_played)
    sets = known_case_sets() if published else ask(case_sets_played)
    offers = {}
    for name in sets:
        case_conditions = [
            condition
            for condition in conditions(name, pooled=pooled)
            if frameworks is None or condition.newest.protocol in frameworks
        ]
        printed = published_rows(name) if published else []
        if not case_conditions and not printed:
            continue
        arms = {
            arm
            for condition in case_conditions
            for run in run_casts()
            if run.run_id in condition.runs
            for arm in run.arms
        }
        arms |= {(row.label["format"], row.label["question_type"]) for row in printed}
        datasets, specialties = groups.get(name, ([], []))
        offers[name] = CaseSetOptions(
            tuple(
                dict.fromkeys(
                    [*(condition.name for condition in case_conditions), *(row.label["model"] for row in printed)]
                )
            ),
            tuple(f for f in FORMATS if f in {format_ for format_, _ in arms}),
            tuple(q for q in QUESTION_TYPES if q in {question for _, question in arms}),
            tuple(datasets),
            specialties_in_order(specialties or (SPECIALTIES if printed else ())),
            tuple(ask(kinds_asked_for, name)),
            several_conditions=any(SEPARATOR in condition.name for condition in conditions(name)),
        )
    return offers


def union(offers: Iterable[CaseSetOptions]) -> CaseSetOptions:
    all_offers = list(offers)

    def every(part: str) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(value for offer in all_offers for value in getattr(offer, part)))

    return CaseSetOptions(
        every("models"),
        tuple(f for f in FORMATS if f in every("formats")),
        tuple(q for q in QUESTION_TYPES if q in every("questions")),
        every("datasets"),
        specialties_in_order(every("specialties")),
        every("asks_for"),
        any(offer.several_conditions for offer in all_offers),
    )


def offer_in(table: pd.DataFrame) -> CaseSetOptions:
    """Return the offer of a table with the columns model, dataset and specialty; models keep their order."""
    return CaseSetOptions(
        tuple(table["model"].astype(str).unique()),
        datasets=tuple(sorted(table["dataset"].dropna().unique())),
        specialties=specialties_in_order(table["specialty"].dropna().unique()),
    )


def specialties_in_order(specialties: Iterable[str]) -> tuple[str, ...]:
    """Return specialties in the order of the publication, then others by name."""
    names = set(specialties)
    return (*(s for s in SPECIALTIES if s in names), *sorted(names - set(SPECIALTIES)))


def ask_selection(
    offers: Mapping[str, CaseSetOptions], *parts: SelectionPart, base: Selection = _EVERYTHING, inside: bool = False
) -> Selection:
    """Ask for the case set and for ``parts``, in their order, and return ``base`` narrowed by the choices.

    The URL stores the choices. An offer under "" covers all case sets (names of conditions then say the case set), and
    no case set is asked for. With ``inside`` the caller has already opened a row of controls.
    """
    with nullcontext() if inside else row_of_controls():
        case_set = _ask_case_set(offers)
        selection = replace(base, case_sets=(case_set,)) if case_set else base
        selection = narrow(selection, offers[case_set], *parts)
    _say_unknown()
    return selection


def row_of_controls() -> DeltaGenerator:
    return st.container(horizontal=True, vertical_alignment="bottom", gap="small")


def narrow(base: Selection, offer: CaseSetOptions, *parts: SelectionPart) -> Selection:
    """Ask for parts of an offer on the case set of ``base``, and return ``base`` narrowed by the choices."""
    names = unique_names(offer.models, _only(base.case_sets))
    values = {_FIELDS.get(part, part): _ask_part(part, offer, names) for part in parts}
    return replace(base, **{name: value for name, value in values.items() if value})


_FIELDS: dict[SelectionPart, str] = {"models": "conditions", "questions": "question_types", "rule": "mcq_rule"}
"""Part → field of ``Selection``, if the names differ."""


def ask_statistics() -> Statistics:
    """Ask for interval, correction and the rule that counts multiple choice."""
    return Statistics(**_ask_statistics())


def names_on(selection: Selection) -> dict[str, str]:
    """Return condition → its name on pages, for all conditions on a selection's case sets."""
    case_set = _only(selection.case_sets)
    offered_conditions = conditions(case_set, selection.frameworks, pooled=selection.pooled)
    return unique_names((condition.name for condition in offered_conditions), case_set)


def _only(case_sets: Sequence[str] | None) -> str | None:
    """Return the case set if there is just one: names then omit it."""
    return case_sets[0] if case_sets and len(case_sets) == 1 else None


def in_words(selection: Selection) -> str:
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


def _ask_case_set(offers: Mapping[str, CaseSetOptions]) -> str:
    if "" in offers:
        return ""
    help_ = "Figures on different cases are never mixed."
    return choose("Cases", list(offers), "cases", names=dataset_name, help=help_, width=_WIDTH)


def _ask_part(part: SelectionPart, offer: CaseSetOptions, names: Mapping[str, str]) -> Any:
    """Ask for a part and return the choice; empty if it restricts nothing."""
    if part in _SHARED_PARTS:
        label, value_names = _SHARED_PARTS[part]
        values: Sequence[str] = list(names) if part == "models" else getattr(offer, part)
        return _ask_shared_part(part, label, values, names if part == "models" else value_names)
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
        st.caption(f":material/link_off: The link asks for values that do not exist here: {words}.")


def _ask_shared_part(part: SelectionPart, label: str, offered: Sequence[str], names: Any) -> tuple[str, ...]:
    """Ask for a part that keeps its choice across pages, which Streamlit does only for pages visited in succession.

    A new control starts with the choice of another page, as far as it is offered here. Values that are not offered here
    are remembered for the next page.
    """
    remembered = tuple(value for value in st.session_state.get(_CHOSEN, {}).get(part, ()) if value in offered)
    if remembered and part not in st.session_state and part not in st.query_params:
        st.session_state[part] = list(remembered)
    chosen = choose_several(label, offered, part, names=names, width=_WIDTH)
    if chosen != remembered:
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
                help="Smoothed bootstrap: cases are resampled with a pseudo-case at 0 and one at 1, so that it holds "
                "near these. Bootstrap: percentiles, corrected for few cases. Normal theory: mean ± t · sd / √n.",
            ),
            "correction": choose(
                "Correction of p",
                list(LABELS),
                "correction",
                names=LABELS,
                shape="segments",
                help="Over all comparisons shown. The publication names Holm, but its tables use Benjamini–Hochberg.",
            ),
            "rule": choose("Right choice", RULES, "rule", names=RULE, shape="segments", help=_RULE_HELP),
        }
