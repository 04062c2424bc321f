"""The cases behind a bar of the Accuracy page with their scores, then the trials of one case."""

from collections.abc import Callable, Sequence

import pandas as pd
import streamlit as st

from core.events import FORMATS, QUESTION_TYPES
from core.frameworks.starts import RELEASE
from core.measures.base import MetricRequest, Result, Row
from core.measures.behind import scores_of_side
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.selection import Selection
from pages.kit.behind import behind_row
from pages.kit.cached import read
from pages.kit.cases import behind, choose_case, clear_parameters, draw_trials, excluded_in_words, open_behind
from pages.kit.controls import choose
from pages.kit.empty import draw_empty
from pages.kit.look import FORMAT, QUESTION_TYPE, arm, plain
from pages.kit.names import case_name, dataset_name, natural
from pages.kit.navigation import link
from pages.kit.section import words_of
from pages.kit.stored import case_conversations, conditions, runs_behind
from pages.kit.view import specialties_in_order

_KEYS = {
    "model": "acc_bar_model",
    "format": "acc_bar_format",
    "question_type": "acc_bar_question",
    "group": "acc_bar_group",
}
"""Part of a row’s label → widget key and URL parameter."""
_OUTCOMES: dict[str, Callable[[CaseScore], bool]] = {
    "All": lambda s: True,
    "Always right": lambda s: 0 < s.counted == s.correct,
    "Sometimes right": lambda s: 0 < s.correct < s.counted,
    "Never right": lambda s: s.counted > 0 and not s.correct,
    "Something excluded": lambda s: bool(s.excluded),
}


def choose_bar(row: Row) -> None:
    for part, key in _KEYS.items():
        st.session_state[key] = row.label.get(part)
    clear_parameters("acc_case")
    open_behind()


def draw_cases_behind(result: Result, selection: Selection) -> None:
    """Draw the cases of the chosen row, and the trials of the chosen case."""
    hint = "Click a bar or a dot, or choose one here. Then choose a case to open its transcripts."
    names = words_of(result, selection)
    with behind("The cases behind a bar", hint):
        row = _choose_row(result.figures, names)
        if row.source:
            draw_empty(
                f"{plain(names[row.label['model']])} is a published figure ({row.source}) without cases. To read its "
                "answers and transcripts, import the authors’ release.",
                RELEASE,
                icon="menu_book",
            )
            return
        _draw_scores(row, selection)


def _draw_scores(row: Row, selection: Selection) -> None:
    format_, question_type = row.label["format"], row.label["question_type"]
    assert row.counts is not None
    request = MetricRequest(Store(), selection, query=read)
    scores = list(scores_of_side(request, row.counts, row.counts.sides[0]).values())
    link("transcripts", "Read its conversations", "forum", **behind_row(selection, row.counts))
    outcome = choose("Show", list(_OUTCOMES), "acc_outcome", shape="segments", hidden=True)
    listed = sorted((score for score in scores if _OUTCOMES[outcome](score)), key=lambda s: natural(s.case_key))
    st.caption(f"{len(listed):,} of {len(scores):,} cases.")
    if not listed:
        return
    progress = st.column_config.ProgressColumn(
        min_value=0, max_value=1, format="%.2f", help="Share of counted trials that were right."
    )
    table = pd.DataFrame(
        {
            "Case": score.case_key,
            "Specialty": score.specialty,
            "Data set": dataset_name(score.dataset),
            "Score": score.score,
            "Right": score.correct,
            "Counted": score.counted,
            "Excluded": sum(score.excluded.values()),
            "Why": excluded_in_words(score.excluded),
        }
        for score in listed
    )
    case_key = choose_case(table, "accuracy_cases", "acc_case", {"Score": progress})
    if case_key is None:
        return
    (case_set,) = selection.case_sets or (None,)
    runs = runs_behind(conditions(case_set, pooled=selection.pooled), row.label["model"])
    conversations = case_conversations(runs, case_key)
    right = (
        f" The right answer is **{plain(conversations[0].answer)}**."
        if conversations and conversations[0].answer
        else ""
    )
    st.markdown(f"**{plain(case_name(case_key))}** under {arm(format_, question_type)}.{right}", help=plain(case_key))
    draw_trials(conversations, f"{format_}:{question_type}")


def _choose_row(rows: Sequence[Row], names: dict[str, str]) -> Row:
    """Ask for one row, part by part; each part offers only values that fit the parts before it."""
    remaining = sorted(rows, key=lambda row: bool(row.source))
    groups = list(dict.fromkeys(row.label["group"] for row in rows if "group" in row.label))
    orders = {
        "model": list(dict.fromkeys(row.label["model"] for row in remaining)),
        "format": FORMATS,
        "question_type": QUESTION_TYPES,
        **({"group": specialties_in_order(groups)} if groups else {}),
    }
    labels = {"model": "Model", "format": "Format", "question_type": "Question", "group": "Group"}
    words = {"model": names, "format": FORMAT, "question_type": QUESTION_TYPE, "group": names}
    for column, (part, order) in zip(st.columns(len(orders)), orders.items(), strict=True):
        options = [value for value in order if any(row.label.get(part) == value for row in remaining)]
        chosen = choose(labels[part], options, _KEYS[part], names=words[part], where=column)  # type: ignore[arg-type]
        remaining = [row for row in remaining if row.label.get(part) == chosen]
    return remaining[0]
