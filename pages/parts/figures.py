"""Scores for the pages of figures: read once for each state of the database, then only filtered in memory."""

from collections.abc import Iterable
from dataclasses import replace

import streamlit as st

from core.frameworks.base import kinds_in_words
from core.measures.accuracy import read_scores
from core.models.registry import load_registry
from core.questions import AsksFor
from core.store.conditions import SEPARATOR, Condition, doctor_of
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.accuracy import CaseScore
from core.store.selection import McqRule, Selection, case_sets_played
from core.store.selection import conditions as select_conditions

_OKABE_ITO = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#7A6A00",
    "#6A51A3",
    "#8C8C8C",
    "#1B4F4A",
)
_FIXED = {
    "gpt_4": "#0072B2", "gpt_3_5": "#56B4E9", "mistral_v1_7b": "#E69F00", "mistral_v2_7b": "#D55E00",
    "llama_2_7b": "#009E73", "reference/bayes": "#8C8C8C",
}  # fmt: skip
"""The papers' models keep their colour on every page."""
_SHOWN = {
    "gpt_4": "GPT-4", "gpt_3_5": "GPT-3.5", "mistral_v1_7b": "Mistral v1 7B", "mistral_v2_7b": "Mistral v2 7B",
    "llama_2_7b": "LLaMA-2 7B", "gpt_4v": "GPT-4V", "gpt_4v_without_image": "GPT-4V without image",
    **{kind: words.partition(":")[0].partition(" (")[0] for kind, words in kinds_in_words().items()},
}  # fmt: skip
_SEATS = ("patient", "summariser", "solver", "staff", "grader")
"""Seats whose holder the name of a condition may say."""


def scores(
    mcq_rule: McqRule = "mcq_loose", case_set: str | None = None, asks_for: tuple[AsksFor, ...] = (), *,
    pooled: bool = False,
) -> list[CaseScore]:  # fmt: skip
    """Return the scores of all campaigns and releases, on one case set or all; a shared object, never to be changed.

    On one case set the names of conditions do not say which it is. ``asks_for`` keeps the cases whose question asks for
    one of these kinds; of all where there is none.
    """
    store = Store()
    fold_if_free(store)
    return _scores(str(store.path), store.version, mcq_rule, case_set, asks_for, pooled)


def case_sets() -> dict[str, int]:
    """Return case set → how many of its cases campaigns and releases have played, the largest first."""
    store = Store()
    fold_if_free(store)
    return _case_sets(str(store.path), store.version)


def conditions(case_set: str | None = None, framework: str | None = None, *, pooled: bool = False) -> list[Condition]:
    """Return the conditions that figures show, by doctor, the newest first; a shared object, never to be changed."""
    store = Store()
    return _conditions(str(store.path), store.version, case_set, framework, pooled)


@st.cache_resource(max_entries=12, show_spinner="Reading the answers…")
def _scores(
    path: str, version: str, mcq_rule: McqRule, case_set: str | None, asks_for: tuple[AsksFor, ...], pooled: bool
) -> list[CaseScore]:
    wanted = replace(_selection(case_set, None, pooled), asks_for=asks_for or None)
    return read_scores(Store(), wanted, mcq_rule)


@st.cache_resource(max_entries=4, show_spinner=False)
def _case_sets(path: str, version: str) -> dict[str, int]:
    with Store().read() as cursor:
        return case_sets_played(cursor)


@st.cache_resource(max_entries=16, show_spinner=False)
def _conditions(path: str, version: str, case_set: str | None, framework: str | None, pooled: bool) -> list[Condition]:
    return select_conditions(Store(), _selection(case_set, framework, pooled))


def _selection(case_set: str | None, framework: str | None, pooled: bool) -> Selection:
    return Selection(
        case_sets=None if case_set is None else (case_set,), frameworks=None if framework is None else (framework,),
        pooled=pooled,
    )  # fmt: skip


@st.cache_resource
def _labels() -> dict[str, str]:
    """Return full model name → the label of the papers, where there is one."""
    return {full: alias for alias, full in load_registry().aliases.items() if alias in _SHOWN}


def label_of(model: str) -> str:
    """Return the papers' label of a model or of a condition's doctor, or its full name."""
    doctor = doctor_of(model)
    return _labels().get(doctor, doctor)


def model_name(model: str) -> str:
    """Return the name of a model or condition as pages show it."""
    doctor, *apart = model.split(SEPARATOR)
    label = label_of(doctor)
    return SEPARATOR.join([_SHOWN.get(label, label), *map(_with_names, apart)])


def _with_names(words: str) -> str:
    """Return what tells a condition apart with the names of models as pages show them."""
    seat, _, rest = words.partition(" ")
    who, covers, share = rest.partition(" (")
    return f"{seat} {model_name(who)}{covers}{share}" if seat in _SEATS else words


def model_colours(models: Iterable[str]) -> dict[str, str]:
    """Return model or condition → colour: the papers' models always the same, others in order from what is left.

    Of the conditions of one doctor the first has the doctor's colour.
    """
    first: dict[str, str] = {}
    for model in models:
        first.setdefault(doctor_of(model), model)
    fixed = {m: _FIXED[label_of(m)] for m in first.values() if label_of(m) in _FIXED}
    free = iter([c for c in _OKABE_ITO if c not in fixed.values()] * 10)
    others = [m for m in models if m not in fixed]
    return {**fixed, **{m: next(free) for m in sorted(others)}}
