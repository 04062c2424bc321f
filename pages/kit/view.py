"""The filters of pages: a ``Selection`` stored in the URL. Each page names the parts that it asks for."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.case import SPECIALTIES, AsksFor
from core.events import FORMATS, QUESTION_TYPES
from core.measures.accuracy import published_rows
from core.measures.comparison import DifferenceInterval
from core.stats.corrections import LABELS, Correction
from core.store.conditions import SEPARATOR
from core.store.queries.case_labels import development_counts
from core.store.queries.cases import kinds_asked_for
from core.store.queries.runs import ORIGINS, Origin
from core.store.sample import SAMPLE
from core.store.selection import McqRule, Selection, case_groups_played, case_sets_played
from pages.kit.cached import ask, cached_query
from pages.kit.controls import UNKNOWN, choose, choose_several
from pages.kit.look import ASKS_FOR, FORMAT, QUESTION_TYPE, RULE, plain
from pages.kit.names import dataset_name, model_name, unique_names
from pages.kit.stored import conditions, known_case_sets, run_casts

SelectionPart = Literal[
    "source", "models", "formats", "questions", "datasets", "specialties", "asks_for", "rule", "pooled"
]
RULES: tuple[McqRule, ...] = ("usual", "mcq_loose", "mcq_strict")
INTERVALS: dict[DifferenceInterval, str] = {
    "smoothed": "Smoothed bootstrap",
    "bootstrap": "Bootstrap",
    "normal": "Normal theory (t)",
}
SOURCE: dict[Origin, str] = {
    "mine": "Mine",
    "sample": "Sample study",
    "published": "Published",
    "imported": "Imported logs",
}
_SOURCE_WORDS: dict[Origin, str] = {
    "mine": "own runs",
    "sample": "the sample study",
    "published": "published figures and releases",
    "imported": "logs of other programs or databases",
}
_RULE_HELP = (
    "Usual: each framework’s own rule, and the grader’s verdict for many choices. Contains the choice: it occurs "
    "in the response, which also counts a response that lists all. Strict: exactly one choice is named."
)
_POOL_HELP = (
    "Bars never mix answers that are not comparable: a model whose runs differ in patient, prompts, grader … has one "
    "bar for each. This merges them, and their name says so."
)
_SHARED_PARTS: dict[SelectionPart, tuple[str, Any]] = {
    "models": ("Models", None),
    "formats": ("Formats", FORMAT),
    "questions": ("Questions", QUESTION_TYPE),
    "datasets": ("Data sets", dataset_name),
    "specialties": ("Specialties", None),
}
"""SelectionPart that keeps its choice across pages → label of its control, and names of its values."""
_EVERYTHING = Selection()
_ICON = ":material/filter_list:"
_CHOSEN = "_chosen"
_WIDTH = 208
"""Width in pixels of a control: four fit into a row."""
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("formats", "questions", "datasets", "specialties", "asks_for", "pooled", "development")),
    "rule": RULES[0],
    "interval": next(iter(INTERVALS)),
    "correction": next(iter(LABELS)),
}
"""Key of a control in the popover of filters → its default."""


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
    development: int = 0
    """Number of cases that were used to write prompts."""


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
            development=ask(development_counts).get(name, 0),
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
        sum(offer.development for offer in all_offers),
    )


def specialties_in_order(specialties: Iterable[str]) -> tuple[str, ...]:
    """Return specialties in the order of the publication, then others by name."""
    names = set(specialties)
    return (*(s for s in SPECIALTIES if s in names), *sorted(names - set(SPECIALTIES)))


class FilterRow:
    """A row of controls: the case set, the models and a page's own controls; the other filters are in a popover.

    The label of the popover counts the filters that are set. ``own`` are the keys of a page's filters in it, with their
    defaults.
    """

    def __init__(self, *, inside: bool = False, **own: Any) -> None:
        with nullcontext() if inside else row_of_controls():
            self.cases = st.container(width=_WIDTH)
            self.models = st.container(width=_WIDTH)
            self.own = st.container(width="content", horizontal=True, vertical_alignment="bottom", gap="small")
            self._place = st.container(width="content")
        self._defaults = {**_DEFAULTS, **own}
        self._popover: DeltaGenerator | None = None

    def popover(self, source: Collection[Origin] = ()) -> DeltaGenerator:
        """Return the popover; ``source`` is the default of its control of that name, if it has one."""
        if self._popover is None:
            count = sum(_is_set(key, default) for key, default in {**self._defaults, "source": source}.items())
            label = f"Filters · {count}" if count else "Filters"
            self._popover = self._place.popover(label, icon=_ICON, key="filters")
        return self._popover


def _is_set(key: str, default: Any) -> bool:
    """Return whether a control that is not drawn yet in this run will differ from its default."""
    if key not in st.session_state:
        return key in st.query_params or bool(st.session_state.get(_CHOSEN, {}).get(key))
    value = st.session_state[key]
    several = isinstance(value, (list, tuple))
    return bool(set(value) != set(default or ()) if several else value and value != default)


def ask_selection(
    offers: Mapping[str, CaseSetOptions],
    *parts: SelectionPart,
    base: Selection = _EVERYTHING,
    inside: bool = False,
    row: FilterRow | None = None,
) -> Selection:
    """Ask for the case set and for ``parts``, in their order, and return ``base`` narrowed by the choices.

    Case set and models are in the row, the rest in its popover. The models bring a choice of their source, if there are
    several: at first the runs made here, if there are any. The URL stores the choices. An offer under "" covers all
    case sets (names of conditions then say the case set), and no case set is asked for. With ``inside`` the caller has
    already opened a row of controls; a page with further filters gives its ``row``.
    """
    controls = row or FilterRow(inside=inside)
    source: tuple[Origin, ...] = ()
    if "models" in parts or "source" in parts:
        source = _ask_source(offers, base, controls.popover)
        offers = _from(offers, source, base) if source else offers
    with controls.cases:
        case_set = _ask_case_set(offers)
    selection = replace(base, case_sets=(case_set,)) if case_set else base
    selection = replace(selection, origins=source) if source else selection
    if "models" in parts:
        with controls.models:
            selection = narrow(selection, offers[case_set], "models")
    if others := [part for part in parts if part not in ("models", "source")]:
        with controls.popover():
            selection = narrow(selection, offers[case_set], *others)
    if marked := offers[case_set].development:
        with controls.popover():
            help_ = f"{marked:,} cases were used to write prompts; figures leave them out."
            if st.toggle("With development cases", key="development", bind="query-params", help=help_):
                selection = replace(selection, development=True)
    _say_unknown()
    return selection


def ask_models_by_source(models: Sequence[str], least: int, row: FilterRow) -> set[str]:
    """Ask in the popover of a row who made the runs of ``models``, and return those of the chosen sources.

    A source with fewer than ``least`` of them is not preselected.
    """
    offers = {"": CaseSetOptions(tuple(models))}
    source = _ask_source(offers, _EVERYTHING, row.popover, least)
    return set(_from(offers, source, _EVERYTHING)[""].models if source else models)


def _ask_source(
    offers: Mapping[str, CaseSetOptions],
    base: Selection,
    popover: Callable[[Sequence[Origin]], DeltaGenerator],
    least: int = 1,
) -> tuple[Origin, ...]:
    """Ask who made the runs, in a popover that is opened with the default; empty if all count, or the same made all."""
    offered_by = {origin: _from(offers, (origin,), base) for origin in ORIGINS}
    available: list[Origin] = [origin for origin in ORIGINS if offered_by[origin]]
    if len(available) < 2:
        return ()

    def enough(origins: Iterable[Origin]) -> bool:
        return sum(len(offer.models) for origin in origins for offer in offered_by[origin].values()) >= least

    default: list[Origin] = ["mine"] if "mine" in available and enough(["mine"]) else []
    choices = st.session_state.setdefault(_CHOSEN, {})
    here = st.session_state.get("_page")
    if "source" not in st.query_params and (choices.get("source_page") != here or "source" not in st.session_state):
        remembered = [origin for origin in choices.get("source", default) if origin in available]
        start = _linked_source(offered_by) or (remembered if enough(remembered) else [])
        st.session_state["source"] = start
        if start != default:  # the control is in a closed popover, so that the browser does not put it into the URL
            st.query_params["source"] = [SOURCE[origin] for origin in start]
    choices["source_page"] = here
    with popover(default):
        chosen = choose_several(
            "Source",
            available,
            "source",
            names=SOURCE,
            default=default,
            shape="pills",
            help="At first only your own runs, if there are any. Published: imported releases, and figures printed in "
            "papers. Imported logs: runs of other programs or databases.",
        )
    if set(chosen) == set(default):  # the default of another page, or of a later moment, may be another one
        choices.pop("source", None)
    else:
        choices["source"] = chosen
    return () if len(chosen) in (0, len(available)) else chosen


def _linked_source(offered_by: Mapping[Origin, Mapping[str, CaseSetOptions]]) -> list[Origin]:
    """Return the sources of the case set and the models in the URL; empty if the URL names none."""
    case_sets, models = (set(st.query_params.get_all(key)) for key in ("cases", "models"))
    linked: list[Origin] = []
    for origin, offers in offered_by.items():
        chosen = [name for name in offers if not case_sets or {name, dataset_name(name)} & case_sets]
        names = {text for name in chosen for pair in names_of(offers[name].models, name).items() for text in pair}
        if chosen and (models & names if models else case_sets):
            linked.append(origin)
    return linked


def _from(
    offers: Mapping[str, CaseSetOptions], source: Collection[Origin], base: Selection
) -> dict[str, CaseSetOptions]:
    """Return the offers with only the models of these sources, without case sets that have none of them."""
    narrowed = {}
    for case_set, offer in offers.items():
        origins = _origins(case_set or _only(base.case_sets), base.frameworks)
        models = tuple(model for model in offer.models if _origin_of(model, origins) in source)
        if models or not offer.models:
            narrowed[case_set] = replace(offer, models=models)
    return narrowed


def _origins(case_set: str | None, frameworks: Sequence[str] | None = None) -> dict[str, Origin]:
    """Return condition → who made its runs, and doctor → who made its runs outside the sample study."""
    stored = conditions(case_set, frameworks)
    own_last = sorted(
        stored, key=lambda condition: ("sample", "published", "imported", "mine").index(condition.newest.origin)
    )
    return {
        **{condition.doctor: condition.newest.origin for condition in own_last},
        **{condition.name: condition.newest.origin for condition in stored},
    }


def _origin_of(model: str, origins: Mapping[str, Origin]) -> Origin:
    """Return who made the runs of a condition, which may be named otherwise here; published if nothing is stored."""
    doctor, *distinctions = model.split(SEPARATOR)
    if model in origins:
        return origins[model]
    return "sample" if SAMPLE in distinctions else origins.get(doctor, "published")


def row_of_controls() -> DeltaGenerator:
    return st.container(horizontal=True, vertical_alignment="bottom", gap="small")


def narrow(base: Selection, offer: CaseSetOptions, *parts: SelectionPart) -> Selection:
    """Ask for parts of an offer on the case set of ``base``, and return ``base`` narrowed by the choices."""
    names = names_of(offer.models, _only(base.case_sets))
    values = {_FIELDS.get(part, part): _ask_part(part, offer, names) for part in parts}
    return replace(base, **{name: value for name, value in values.items() if value})


def names_of(models: Iterable[str], case_set: str | None = None) -> dict[str, str]:
    """Return condition or published model → its name on pages; those made here first, then the sample study."""
    origins = _origins(case_set or None)
    names = unique_names(models, case_set)
    return dict(sorted(names.items(), key=lambda item: ORIGINS.index(_origin_of(item[0], origins))))


_FIELDS: dict[SelectionPart, str] = {"models": "conditions", "questions": "question_types", "rule": "mcq_rule"}
"""SelectionPart → field of ``Selection``, if the names differ."""


def is_pooled() -> bool:
    """Return whether conditions are pooled, before the control that asks for it is drawn."""
    return bool(st.session_state.get("pooled", st.query_params.get("pooled") == "true"))


def ask_statistics(where: DeltaGenerator | None = None) -> Statistics:
    """Ask for interval, correction and the rule that counts multiple choice, in a popover of its own by default."""
    place = where or st.popover("Statistics", icon=":material/functions:", help="Interval, correction, rule.")
    with place:
        return Statistics(
            choose(
                "95 % interval",
                list(INTERVALS),
                "interval",
                names=INTERVALS,
                shape="segments",
                help="Smoothed bootstrap: cases are resampled with a pseudo-case at 0 and one at 1, so that it holds "
                "near these. Bootstrap: percentiles, corrected for few cases. Normal theory: mean ± t · sd / √n.",
            ),
            choose(
                "Correction of p",
                list(LABELS),
                "correction",
                names=LABELS,
                shape="segments",
                help="Over all comparisons shown. The publication names Holm, but its tables use Benjamini–Hochberg.",
            ),
            choose("Right choice", RULES, "rule", names=RULE, shape="segments", help=_RULE_HELP),
        )


def names_on(selection: Selection) -> dict[str, str]:
    """Return condition → its name on pages, for the conditions of a selection's origins on its case sets."""
    case_set = _only(selection.case_sets)
    offered_conditions = conditions(case_set, selection.frameworks, pooled=selection.pooled, origins=selection.origins)
    return names_of((condition.name for condition in offered_conditions), case_set)


def _only(case_sets: Sequence[str] | None) -> str | None:
    """Return the case set if there is just one: names then omit it."""
    return case_sets[0] if case_sets and len(case_sets) == 1 else None


def in_words(selection: Selection) -> str:
    names = names_on(selection)
    parts = (
        map(dataset_name, selection.case_sets or ()),
        [_SOURCE_WORDS[origin] for origin in selection.origins or ()],
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
        several = offer.several_conditions
        return several and st.toggle("Merge conditions", key=part, bind="query-params", help=_POOL_HELP)
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
