"""What is behind a bar of the Accuracy page: its cases with their scores, then the transcripts of one."""

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from core.case import SPECIALTIES
from core.events import FORMATS, QUESTION_TYPES
from core.measures.accuracy import Cell
from core.store.queries.accuracy import CaseScore
from core.store.queries.conversations import Conversation
from pages.parts.accuracy_charts import key_of
from pages.parts.accuracy_data import View, viewed_scores
from pages.parts.accuracy_tables import cases_table, group_name
from pages.parts.figure_controls import IMPORT_COMMAND, chosen_point, keep_valid, natural
from pages.parts.figures import conditions
from pages.parts.look import END_SHORT, VERDICT, arm, badge, plain
from pages.parts.navigation import TRANSCRIPTS
from pages.parts.stored import case_conversations

MOST_ROWS = 5_000
"""Rows of one table that are sent to a browser at most."""
_KEYS = ("acc_bar_model", "acc_bar_format", "acc_bar_question", "acc_bar_group")
_OUTCOMES: dict[str, Callable[[CaseScore], bool]] = {
    "All": lambda s: True,
    "Always right": lambda s: 0 < s.counted == s.correct,
    "Sometimes right": lambda s: 0 < s.correct < s.counted,
    "Never right": lambda s: s.counted > 0 and not s.correct,
    "Something excluded": lambda s: bool(s.excluded),
}


def take_click(chart: str) -> None:
    """Choose the bar that was clicked."""
    point = chosen_point(st.session_state.get(chart))
    if point:
        for key, value in zip(_KEYS, point[1:5], strict=True):
            st.session_state[key] = value or None
        st.query_params.pop("acc_case", None)


def draw_cases(view: View, cells: Sequence[Cell], names: Mapping[str, str]) -> None:
    """Draw the cases of the chosen bar, and the transcripts of the chosen case."""
    st.subheader("The cases behind a bar", anchor=False)
    st.caption("Click a bar or a dot above, or choose one here; then choose a case to open its transcripts.")
    cell = _ask_cell(cells, names)
    if cell is None:
        st.info("Nothing of this kind is shown above: choose another model, format, question or group.")
        return
    if cell.own is None:
        st.info(
            f"{plain(names[cell.model])} is published here (supplementary table {cell.table}): a figure without cases. "
            f"To read its answers and transcripts, import the authors’ release: `{IMPORT_COMMAND}`.",
            icon=":material/menu_book:",
        )
        return
    found = sorted((s for s in viewed_scores(view) if _is_in(s, cell, view)), key=lambda s: natural(s.case_key))
    keep_valid("acc_outcome", _OUTCOMES)
    outcome = st.segmented_control(
        "Show", list(_OUTCOMES), default="All", required=True, key="acc_outcome", bind="query-params",
        label_visibility="collapsed",
    )  # fmt: skip
    listed = [s for s in found if _OUTCOMES[outcome or "All"](s)]
    _draw_list(listed, len(found), cell)
    wanted = st.query_params.get("acc_case")
    if any(s.case_key == wanted for s in found):
        _draw_trials(view, cell, str(wanted))


def _ask_cell(cells: Sequence[Cell], names: Mapping[str, str]) -> Cell | None:
    options: list[list[str]] = [
        [m for m in names if any(c.model == m for c in cells)],
        [f for f in FORMATS if any(c.format == f for c in cells)],
        [q for q in QUESTION_TYPES if any(c.question_type == q for c in cells)],
        _groups(cells),
    ]
    if not options[0]:
        return None
    # what has cases to show comes first, and is chosen at first
    options[0].sort(key=lambda m: all(c.own is None for c in cells if c.model == m))
    words = [
        lambda m: names[m],
        lambda f: arm(f, "mcq").partition(" · ")[0],
        lambda q: arm("vignette", q).partition(" · ")[2],
        group_name,
    ]
    columns = st.columns(4 if options[3] else 3)
    chosen: list[str | None] = []
    for column, key, label, offered, format_ in zip(
        columns, _KEYS, ("Model", "Format", "Question", "Group"), options, words, strict=False
    ):
        keep_valid(key, offered)
        with column:
            chosen.append(
                st.selectbox(label, offered, format_func=format_, key=key, bind="query-params")
            )  # fmt: skip
    wanted = (chosen[0], chosen[1], chosen[2], chosen[3] if options[3] else None)
    return next((c for c in cells if key_of(c) == wanted), None)


def _groups(cells: Sequence[Cell]) -> list[str]:
    found = {c.group for c in cells if c.group}
    return [*(s for s in SPECIALTIES if s in found), *sorted(found - set(SPECIALTIES))]


def _is_in(score: CaseScore, cell: Cell, view: View) -> bool:
    if (score.model, score.format, score.question_type) != (cell.model, cell.format, cell.question_type):
        return False
    return cell.group is None or cell.group == (score.specialty if view.split == "specialty" else score.dataset)


def _draw_list(listed: list[CaseScore], total: int, cell: Cell) -> None:
    table = cases_table(listed[:MOST_ROWS])
    key = f"acc_rows_{cell.model}_{cell.format}_{cell.question_type}_{cell.group}_{len(listed)}"

    def choose() -> None:
        rows = st.session_state[key].selection.rows
        if rows and rows[0] < len(listed):
            st.query_params["acc_case"] = listed[rows[0]].case_key

    limit = f"; the first {MOST_ROWS:,} are listed" if len(listed) > MOST_ROWS else ""
    st.caption(f"{len(listed):,} of {total:,} cases{limit}.")
    if not listed:
        return
    st.dataframe(
        table, hide_index=True, key=key, on_select=choose, selection_mode="single-row", height=280,
        column_config={
            "Score": st.column_config.ProgressColumn(
                min_value=0, max_value=1, format="%.2f", help="Share of counted trials that were right."
            )
        },
    )  # fmt: skip
    st.download_button(
        "Download these cases as CSV", table.to_csv(index=False), "accuracy-cases.csv", "text/csv",
        icon=":material/download:", key="acc_cases_csv",
    )  # fmt: skip


def _draw_trials(view: View, cell: Cell, case_key: str) -> None:
    behind = conditions(view.case_set, pooled=view.pooled)
    runs = next((one.runs for one in behind if one.name == cell.model), ())
    talks = case_conversations(runs, case_key)
    if not talks:
        st.caption("No trial of this case is stored.")
        return
    right = f" The right answer is **{plain(talks[0].answer)}**." if talks[0].answer else ""
    st.markdown(f"**{plain(case_key)}** under {arm(cell.format, cell.question_type)}.{right}")
    for talk in talks:
        _draw_trial(talk, f"{cell.format}:{cell.question_type}")


def _draw_trial(talk: Conversation, arm_name: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.page_link(
            TRANSCRIPTS, label=f"Trial {talk.trial + 1}", icon=":material/forum:",
            query_params={"trial": talk.trial_id},
        )  # fmt: skip
        verdict = talk.verdicts.get(arm_name)
        st.markdown(badge(verdict) if verdict in VERDICT else ":gray-badge[not graded]")
        turns = f"{talk.doctor_turns} doctor turns" if talk.doctor_turns is not None else "no conversation"
        ended = f", {END_SHORT[talk.end_reason].lower()}" if talk.end_reason else ""
        st.caption(f"{turns}{ended}")
