"""The cases of a comparison by what became of them, and one of them with both transcripts side by side."""

from collections.abc import Callable, Sequence

import pandas as pd
import streamlit as st

from core.events import Answered, Event, Graded, Summarised, Utterance
from core.measures.compare import PairedCase
from core.store.queries.conversations import Conversation
from pages.parts.accuracy_cases import MOST_ROWS
from pages.parts.compare_data import Scope, Side, case_pairs, runs_of
from pages.parts.figure_controls import dataset_name, keep_valid, natural, three_decimals
from pages.parts.look import RULE, RULE_SHORT, arm, badge, plain
from pages.parts.navigation import TRANSCRIPTS
from pages.parts.stored import case_conversations, events_of, stored_case
from pages.parts.transcript import draw_chat, message

_SHORT = 6
"""Rows up to which the list of cases is shown whole."""
_GROUPS: dict[str, Callable[[PairedCase], bool]] = {
    "Flipped": lambda c: c.outcome in ("first_only", "second_only"),
    "Became right": lambda c: c.outcome == "second_only",
    "Became wrong": lambda c: c.outcome == "first_only",
    "Improved": lambda c: c.change > 0,
    "Regressed": lambda c: c.change < 0,
    "Both right": lambda c: c.outcome == "both",
    "Both wrong": lambda c: c.outcome == "neither",
    "All": lambda c: True,
}


def draw_cases(first: Side, second: Side, scope: Scope, labels: tuple[str, str]) -> None:
    """Draw the list of cases, and the chosen one."""
    st.subheader("The cases", anchor=False)
    pairs = case_pairs(first, second, scope)
    keep_valid("cmp_group", _GROUPS)
    group = st.segmented_control(
        "Which cases", list(_GROUPS), default="Flipped", required=True, key="cmp_group", bind="query-params",
        label_visibility="collapsed",
    )  # fmt: skip
    listed = sorted(
        (c for c in pairs if _GROUPS[group or "Flipped"](c)),
        key=lambda c: (-abs(c.second - c.first), natural(c.case_key)),
    )
    wanted = st.query_params.get("cmp_case")
    _draw_list(listed, len(pairs), labels)
    chosen = next((c for c in pairs if c.case_key == wanted), None)
    if chosen is not None:
        _draw_case(chosen, (first, second), scope, labels)
    elif listed:
        st.caption("Choose a case to open both transcripts side by side.")


def pairs_table(pairs: Sequence[PairedCase], labels: tuple[str, str]) -> pd.DataFrame:
    """Return the cases with the score of either side, under its label."""
    return pd.DataFrame(
        [
            {
                "Case": c.case_key,
                "Specialty": c.specialty,
                "Data set": dataset_name(c.dataset),
                labels[0]: round(c.first, 3),
                labels[1]: round(c.second, 3),
                "Change": round(c.second - c.first, 3),
            }
            for c in pairs
        ],
        columns=["Case", "Specialty", "Data set", *labels, "Change"],
    )


def _draw_list(listed: list[PairedCase], total: int, labels: tuple[str, str]) -> None:
    limit = f"; the first {MOST_ROWS:,} are listed" if len(listed) > MOST_ROWS else ""
    st.caption(f"{len(listed):,} of {total:,} cases{limit}, those that changed most first.")
    if not listed:
        return
    # a table of its own for each list, because rows are known by number
    key = f"cmp_rows_{listed[0].case_key}_{listed[-1].case_key}_{len(listed)}"

    def choose() -> None:
        rows = st.session_state[key].selection.rows
        if rows and rows[0] < len(listed):
            st.query_params["cmp_case"] = listed[rows[0]].case_key

    table = pairs_table(listed[:MOST_ROWS], labels)
    st.dataframe(
        table, hide_index=True, key=key, on_select=choose, selection_mode="single-row",
        height=280 if len(table) > _SHORT else "content",
        column_config=three_decimals(table),
    )  # fmt: skip
    st.download_button(
        "Download these cases as CSV", table.to_csv(index=False), "comparison-cases.csv", "text/csv",
        icon=":material/download:", key="cmp_cases_csv",
    )  # fmt: skip


def _draw_case(chosen: PairedCase, sides: tuple[Side, Side], scope: Scope, labels: tuple[str, str]) -> None:
    case = stored_case(chosen.case_key)
    right = f" The right answer is **{plain(case.answer)}**." if case else ""
    st.markdown(f"#### {plain(chosen.case_key)}\n{plain(chosen.specialty or 'No specialty')}.{right}")
    if case:
        with st.expander("The case", icon=":material/clinical_notes:"):
            choices = ", ".join(case.choices)
            st.markdown(f"{plain(case.vignette)}\n\n*{plain(case.question)}*\n\n{plain(choices)}")
    columns = st.columns(2, gap="medium")
    for column, side, label, name in zip(columns, sides, labels, ("first", "second"), strict=True):
        with column, st.container(border=True):
            score = getattr(chosen, name)
            asked = arm(*side.arm)
            what = f"**{plain(label)}**" if label == asked else f"**{plain(label)}** · {asked}"
            st.markdown(f"{what} · right in {score:.0%} of its counted trials")
            _draw_side(side, chosen.case_key, f"cmp_trial_{name}", scope, right=score >= 0.5)


def _draw_side(side: Side, case_key: str, key: str, scope: Scope, *, right: bool) -> None:
    talks = {talk.trial_id: talk for talk in case_conversations([run.run_id for run in runs_of(side.who)], case_key)}
    if not talks:
        st.caption("No trial of this case is stored.")
        return
    marks = trial_marks(list(talks.values()), side, marked=scope.rule == "mcq_loose")
    first = next((t for t, mark in marks.items() if ("✓" in mark) == right), next(iter(marks)))
    keep_valid(key, marks)
    trial = st.segmented_control(
        "Trial", list(marks), default=first, required=True, format_func=marks.__getitem__, key=key,
        bind="query-params",
    ) or first  # fmt: skip
    events = events_of(trial)
    _draw_answer(events, side)
    with st.container(height=430, border=False, autoscroll=False):
        _draw_shown(events, side)
    st.page_link(TRANSCRIPTS, label="Open the transcript", icon=":material/forum:", query_params={"trial": trial})


def trial_marks(talks: Sequence[Conversation], side: Side, *, marked: bool) -> dict[str, str]:
    """Return trial → its number with what the arm's answer came to; verdicts of choices are by the paper's rule."""
    name = f"{side.arm[0]}:{side.arm[1]}"
    show = marked or not side.arm[1].startswith("mcq")
    marks = [{"correct": " ✓", None: " –"}.get(talk.verdicts.get(name), " ✗") if show else "" for talk in talks]
    return {talk.trial_id: f"{n}{mark}" for n, (talk, mark) in enumerate(zip(talks, marks, strict=True), start=1)}


def _draw_answer(events: Sequence[Event], side: Side) -> None:
    answers = [e for e in events if isinstance(e, Answered) and (e.format, e.question_type) == side.arm]
    grades = {e.rule: e for e in events if isinstance(e, Graded) and (e.format, e.question_type) == side.arm}
    if not answers:
        st.caption("This trial broke off before this answer.")
        return
    answer = answers[-1]
    st.markdown(f"**Answer** {plain(answer.response or answer.detail or 'none')}")
    badges = [badge(answer.reason)] if answer.reason else []
    for rule, grade in grades.items():
        note = f" :gray[{RULE_SHORT[rule]}]" if len(grades) > 1 else ""
        read = f" :gray[read as “{plain(grade.extracted)}”]" if grade.extracted else ""
        badges.append(f"{badge(grade.verdict)}{note}{read}")
    st.markdown("  \n".join(badges), help="; ".join(f"{RULE[r]}: {plain(g.grader)}" for r, g in grades.items()) or None)


def _draw_shown(events: Sequence[Event], side: Side) -> None:
    said = [e for e in events if isinstance(e, Utterance)]
    if side.arm[0] == "single_turn":
        st.caption("The doctor was shown the beginning only:")
        for utterance in said[:2]:
            message(utterance.role, utterance.text)
    elif side.arm[0] == "summarized":
        summary = next((e.text for e in events if isinstance(e, Summarised)), None)
        st.caption("The doctor was shown this summary:")
        st.markdown(plain(summary) if summary else "No summary is stored.")
    elif side.arm[0] in ("vignette", "exam_only"):
        part = "the whole vignette" if side.arm[0] == "vignette" else "age, sex and examination only"
        st.caption(f"The doctor was shown {part}. The conversation of this trial, which this arm does not use:")
    if side.arm[0] not in ("single_turn", "summarized"):
        draw_chat(events, None)
