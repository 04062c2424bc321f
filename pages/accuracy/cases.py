"""What is behind a bar of the Accuracy page: its cases with their scores, then the trials of one."""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from core.events import FORMATS, QUESTION_TYPES
from core.measures.accuracy import Cell, Split
from core.store.queries.answers import CaseScore
from pages.accuracy.data import group_name, viewed_scores
from pages.kit.cases import behind, choose_case, draw_trials, excluded_in_words, forget, open_behind
from pages.kit.controls import choose
from pages.kit.look import FORMAT, QUESTION_TYPE, arm, plain
from pages.kit.names import IMPORT_COMMAND, dataset_name, natural
from pages.kit.stored import case_conversations, conditions, runs_behind
from pages.kit.view import View, in_order

_KEYS = ("acc_bar_model", "acc_bar_format", "acc_bar_question", "acc_bar_group")
_OUTCOMES: dict[str, Callable[[CaseScore], bool]] = {
    "All": lambda s: True,
    "Always right": lambda s: 0 < s.counted == s.correct,
    "Sometimes right": lambda s: 0 < s.correct < s.counted,
    "Never right": lambda s: s.counted > 0 and not s.correct,
    "Something excluded": lambda s: bool(s.excluded),
}


def take_bar(data: Sequence[Any]) -> None:
    """Choose the bar that was clicked, and open the cases behind it."""
    for key, value in zip(_KEYS, data[1:5], strict=True):
        st.session_state[key] = value or None
    forget("acc_case")
    open_behind()


def draw_cases(view: View, split: Split, cells: Sequence[Cell]) -> None:
    """Draw the cases of the chosen one of the cells that are shown, and the trials of the chosen case."""
    hint = "Click a bar or a dot, or choose one here; then choose a case to open its transcripts."
    with behind("The cases behind a bar", hint):
        _draw_cell(_ask_cell(cells, view), view, split)


def _draw_cell(cell: Cell, view: View, split: Split) -> None:
    if cell.own is None:
        st.info(
            f"{plain(view.names[cell.model])} is published here ({cell.source}): a figure without "
            f"cases. To read its answers and transcripts, import the authors’ release: `{IMPORT_COMMAND}`.",
            icon=":material/menu_book:",
        )
        return
    found = [
        score
        for score in viewed_scores(view, split)
        if (score.model, score.format, score.question_type) == (cell.model, cell.format, cell.question_type)
        and cell.group in (None, score.specialty if split == "specialty" else score.dataset)
    ]
    outcome = choose("Show", list(_OUTCOMES), "acc_outcome", shape="segments", hidden=True)
    listed = sorted((score for score in found if _OUTCOMES[outcome](score)), key=lambda s: natural(s.case_key))
    st.caption(f"{len(listed):,} of {len(found):,} cases.")
    if not listed:
        return
    score = st.column_config.ProgressColumn(
        min_value=0, max_value=1, format="%.2f", help="Share of counted trials that were right."
    )
    table = pd.DataFrame(
        {
            "Case": s.case_key,
            "Specialty": s.specialty,
            "Data set": dataset_name(s.dataset),
            "Score": s.score,
            "Right": s.correct,
            "Counted": s.counted,
            "Excluded": sum(s.excluded.values()),
            "Why": excluded_in_words(s.excluded),
        }
        for s in listed
    )
    case_key = choose_case(table, "accuracy_cases", "acc_case", {"Score": score})
    if case_key is None:
        return
    talks = case_conversations(runs_behind(conditions(view.case_set, pooled=view.pooled), cell.model), case_key)
    right = f" The right answer is **{plain(talks[0].answer)}**." if talks and talks[0].answer else ""
    st.markdown(f"**{plain(case_key)}** under {arm(cell.format, cell.question_type)}.{right}")
    draw_trials(talks, f"{cell.format}:{cell.question_type}")


def _ask_cell(cells: Sequence[Cell], view: View) -> Cell:
    """Ask for one of the cells; each part has what goes with the parts before it, what has cases to show first."""
    held = sorted(cells, key=lambda cell: cell.own is None)
    orders: Sequence[Sequence[str | None]] = (
        list(dict.fromkeys(cell.model for cell in held)),
        FORMATS,
        QUESTION_TYPES,
        [None, *in_order(cell.group for cell in cells if cell.group)],
    )
    labels = ("Model", "Format", "Question", "Group")
    names = (view.names, FORMAT, QUESTION_TYPE, group_name)
    parts = ("model", "format", "question_type", "group")
    columns = st.columns(4 if any(cell.group for cell in cells) else 3)
    for column, label, part, key, order, words in zip(columns, labels, parts, _KEYS, orders, names, strict=False):
        options = [one for one in order if any(getattr(cell, part) == one for cell in held)]
        chosen = choose(label, options, key, names=words, where=column)
        held = [cell for cell in held if getattr(cell, part) == chosen]
    return held[0]
