"""Scores for the pages of figures: read once for each state of the database, then only filtered in memory."""

import streamlit as st

from core.agents.oracle import ORDERS
from core.metrics.scores import read_scores
from core.models.registry import load_registry
from core.questions import AsksFor
from core.store.database import Store
from core.store.figures import CaseScore, McqRule, Selection
from core.store.fold import fold_if_free

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
    "reference/bayes": "Reference doctor", "reference/profile": "Reference patient",
    "reference/names": "Reference grader",
    "reference/upper-bound": "Upper bound", "reference/lower-bound": "Lower bound",
    **{f"reference/oracle-{order}": f"Oracle, {order} order" for order in ORDERS},
}  # fmt: skip


def scores(mcq_rule: McqRule = "mcq_loose", asks_for: tuple[AsksFor, ...] = ()) -> list[CaseScore]:
    """Return the scores of all campaigns and releases; a shared object, never to be changed.

    ``asks_for`` keeps the cases whose question asks for one of these kinds; of all where there is none.
    """
    store = Store()
    fold_if_free(store)
    return _scores(str(store.path), store.version, mcq_rule, asks_for)


@st.cache_resource(max_entries=4, show_spinner="Reading the answers…")
def _scores(path: str, version: str, mcq_rule: McqRule, asks_for: tuple[AsksFor, ...]) -> list[CaseScore]:
    return read_scores(Store(), Selection(asks_for=asks_for or None), mcq_rule)


@st.cache_resource
def _labels() -> dict[str, str]:
    """Return full model name → the label of the papers, where there is one."""
    return {full: alias for alias, full in load_registry().aliases.items() if alias in _SHOWN}


def label_of(model: str) -> str:
    """Return the papers' label of a model, or its full name."""
    return _labels().get(model, model)


def model_name(model: str) -> str:
    """Return a model's name as pages show it."""
    label = label_of(model)
    return _SHOWN.get(label, label)


def model_colours(models: list[str]) -> dict[str, str]:
    """Return model → colour: the papers' models always the same, others in order from what is left."""
    taken = {_FIXED[label_of(m)] for m in models if label_of(m) in _FIXED}
    free = iter([c for c in _OKABE_ITO if c not in taken] * 10)
    return {m: _FIXED[label_of(m)] if label_of(m) in _FIXED else next(free) for m in sorted(models)}
