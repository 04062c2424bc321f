"""Asks which conversations to find; every choice stands in the address."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from core.case import SPECIALTIES
from core.events import FORMATS, QUESTION_TYPES, Speaker
from core.store.queries.conversations import Offer
from core.store.selection import McqRule, Selection
from pages.parts.endings_charts import REASON
from pages.parts.figure_controls import ask_several, dataset_name, keep_valid, unique_names
from pages.parts.look import VERDICT, arm

PAGE_NAME = "transcripts_page"
"""Where the page of the list stands in the address."""
_ARM = "transcripts_arm"
_BY: dict[str, str] = {
    "mcq_loose": "Paper’s", "mcq_strict": "Strict", "differ": "Differ",
}  # fmt: skip
_SAYS: dict[str, str] = {"anyone": "Anyone", "doctor": "Doctor", "patient": "Patient", "staff": "Staff"}
_VERDICTS: dict[str, str] = {**{verdict: words[0] for verdict, words in VERDICT.items()}, "ungraded": "Not graded yet"}


def first_page() -> None:
    """Go back to the first page: another list is about to be shown."""
    st.query_params.pop(PAGE_NAME, None)


def ask_filter(held: Offer) -> Selection:
    """Ask for the filter; what was chosen before and is gone now is forgotten."""
    names = unique_names(held.models)
    top = st.columns(4)
    models = _several(top[0], "Models", "models", held.models, names)
    case = top[1].text_input(
        "Case or right answer", key="transcripts_case", bind="query-params", type="search", on_change=first_page,
        placeholder="case_12, psoriasis …", help="The id of a case; or a part of ids or of right answers.",
    )  # fmt: skip
    specialties = _several(top[2], "Specialties", "specialties", _ordered(held.specialties), {})
    ended = _several(top[3], "Ended by", "ends", list(held.end_reasons), REASON)
    reasons = [reason for reason in held.end_reasons if reason in ended]
    low = st.columns(4)
    with low[0]:
        text, speaker = _ask_words()
    with low[1]:
        arm_, rule, verdicts, differ = _ask_verdict(held)
    datasets = _several(
        low[2], "Data sets", "datasets", list(held.datasets), {name: dataset_name(name) for name in held.datasets}
    )
    runs = _several(
        low[3], "Runs", "runs", list(held.runs), {run: f"{names[model]} · {run}" for run, model in held.runs.items()}
    )
    return Selection(
        runs=runs or None, models=models or None, case=(case or "").strip() or None, datasets=datasets or None,
        specialties=specialties or None, end_reasons=reasons or None, verdicts=verdicts, arm=arm_, mcq_rule=rule,
        rules_differ=differ, text=text or None, speaker=speaker,
    )  # fmt: skip


def _several(
    column: st.delta_generator.DeltaGenerator, label: str, name: str, options: Sequence[str], words: Mapping[Any, str]
) -> tuple[str, ...]:
    return ask_several(column, label, f"transcripts_{name}", options, words, first_page)


def _ask_words() -> tuple[str, Speaker | None]:
    text = st.text_input(
        "Words said", key="transcripts_words", bind="query-params", type="search", on_change=first_page,
        placeholder="itchy, do you smoke …", help="These words as they stand, in any case of letters, in one message.",
    )  # fmt: skip
    speaker = st.segmented_control(
        "By whom", list(_SAYS), default="anyone", required=True, format_func=_SAYS.__getitem__, key="transcripts_by",
        bind="query-params", on_change=first_page, label_visibility="collapsed",
        help="Staff: the clinical staff, where there is one.",
    )  # fmt: skip
    return (text or "").strip(), None if speaker in (None, "anyone") else speaker


def _ask_verdict(held: Offer) -> tuple[str, McqRule, tuple[str, ...] | None, bool]:
    """Ask for an arm and what its answer came to."""
    arms = [f"{f}:{q}" for f in FORMATS for q in QUESTION_TYPES if f"{f}:{q}" in held.arms]
    if not arms:
        return "multi_turn:frq", "mcq_loose", None, False
    keep_valid(_ARM, arms)
    index = arms.index("multi_turn:frq") if "multi_turn:frq" in arms else 0
    chosen = st.selectbox(
        "Answer in the arm", arms, index=index, format_func=lambda a: arm(*a.split(":")), key=_ARM,
        bind="query-params", on_change=first_page,
        help="Choices are judged by the paper’s rule or the strict one; or find the answers on which these differ.",
    ) or arms[index]  # fmt: skip
    rule = "mcq_loose"
    if chosen.partition(":")[2].startswith("mcq"):
        rule = st.segmented_control(
            "Judged by", list(_BY), default="mcq_loose", required=True, format_func=_BY.__getitem__,
            key="transcripts_rule", bind="query-params", on_change=first_page, label_visibility="collapsed", wrap=True,
        ) or rule  # fmt: skip
    verdicts = st.multiselect(
        "Verdict", list(_VERDICTS), format_func=_VERDICTS.__getitem__, key="transcripts_verdicts",
        placeholder="Any verdict", bind="query-params", on_change=first_page, label_visibility="collapsed",
    )  # fmt: skip
    strict: McqRule = "mcq_strict" if rule == "mcq_strict" else "mcq_loose"
    return chosen, strict, tuple(verdicts) or None, rule == "differ"


def _ordered(specialties: Sequence[str]) -> list[str]:
    known = [name for name in SPECIALTIES if name in specialties]
    return [*known, *(name for name in specialties if name not in known)]
