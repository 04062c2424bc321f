"""Differences on the Graders page: answers on which two verdicts differ, page by page, with the transcript beside."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.store.queries.graders import Difference, Direction, Wanted
from pages.parts.figure_controls import keep_valid, unique_names
from pages.parts.graders_data import PAGE, View, difference, every_difference, number_of, page_of
from pages.parts.graders_tables import differences_table
from pages.parts.look import arm, badge, plain
from pages.parts.navigation import DEBUGGER, TRANSCRIPTS
from pages.parts.transcript import draw_chat
from pages.parts.transcripts_data import reading

_ADDRESS, _PAGE = "graders_answer", "graders_page"
_IN_TURN = "newest"
_DIGITS = 6
"""Digits of a page's number in an address from which on it is nonsense."""
_CHAT = 520
_LONG = 600
"""Characters of a response that are shown."""


def draw_differences(view: View) -> None:
    """Ask which verdicts to hold against one another, list the differences, draw the chosen one."""
    pair = _ask_pair(view)
    every = view.wanted(pair, ())
    numbers = number_of(every)
    if not sum(numbers.values()):
        _say_nothing(pair, view)
        return
    directions = _ask_directions(numbers, pair, view)
    wanted = view.wanted(pair, directions)
    _draw_list(wanted, sum(n for d, n in numbers.items() if not directions or d in directions), view)
    asked = st.query_params.get(_ADDRESS, "")
    trial_id, _, rest = asked.partition("|")
    format_, _, question_type = rest.partition(":")
    chosen = difference(every, trial_id, format_, question_type) if question_type else None
    if chosen is not None:
        _draw_difference(chosen, view)


def _ask_pair(view: View) -> tuple[str, str] | None:
    left, right = st.columns(2)
    # the first is chosen at first: a grader where there is another to hold it against
    firsts = [*view.graders, _IN_TURN] if len(view.graders) > 1 else [_IN_TURN, *view.graders]
    keep_valid("graders_first", firsts)
    first = left.selectbox(
        "Hold", firsts, key="graders_first", bind="query-params", on_change=_begin_anew,
        format_func=lambda g: "The newest verdict, whoever gave it" if g == _IN_TURN else view.names[g],
    )  # fmt: skip
    if first is None or first == _IN_TURN:
        right.selectbox("against", ["before"], format_func=lambda _: "The verdict before it", disabled=True,
                        key="graders_before")  # fmt: skip
        return None
    others = [g for g in view.graders if g != first]
    if not others:
        right.caption("Nobody else has judged these answers.")
        return None
    keep_valid("graders_second", others)
    second = right.selectbox("against", others, format_func=view.names.__getitem__, key="graders_second",
                             bind="query-params", on_change=_begin_anew)  # fmt: skip
    return first, second or others[0]


def _ask_directions(
    numbers: dict[Direction, int], pair: tuple[str, str] | None, view: View
) -> list[Direction]:  # fmt: skip
    first, second = (view.names[g] for g in pair) if pair else ("the one before", "the newest")
    words: dict[Direction, str] = {
        "first": f"Right by {first} only", "second": f"Right by {second} only",
        "kind": "Both not right, for another reason",
    }  # fmt: skip
    offered = [d for d in words if numbers.get(d)]
    keep_valid("graders_direction", offered)
    chosen = st.pills(
        "Which", offered, selection_mode="multi", key="graders_direction", bind="query-params",
        format_func=lambda d: f"{words[d]} ({numbers[d]:,})", label_visibility="collapsed", on_change=_begin_anew,
    )  # fmt: skip
    return list(chosen)


def _begin_anew() -> None:
    st.query_params.pop(_PAGE, None)


def _draw_list(wanted: Wanted, total: int, view: View) -> None:
    pages = max(1, -(-total // PAGE))
    asked = st.query_params.get(_PAGE, "1")
    page = min(pages, max(1, int(asked))) if asked.isdecimal() and len(asked) < _DIGITS else 1
    shown = page_of(wanted, page - 1)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**{total:,}** answers on which the verdicts differ. Choose one to read it.")
        if pages > 1:
            key = f"graders_pages_{pages}_{page}"
            st.pagination(pages, default=page, key=key, on_change=lambda: _turn(key))
    if not shown:
        return
    key = f"graders_rows_{shown[0].trial_id}_{shown[-1].trial_id}_{total}"

    def choose() -> None:
        rows = st.session_state[key].selection.rows
        if rows and rows[0] < len(shown):
            st.query_params[_ADDRESS] = _address(shown[rows[0]])

    st.dataframe(
        _table(shown, view), hide_index=True, key=key, on_select=choose, selection_mode="single-row",
        height=320 if len(shown) > 8 else "content", alt="Answers on which two verdicts differ", placeholder="–",
        column_config={name: st.column_config.TextColumn(width="medium") for name in ("Right answer", "Read as")},
    )  # fmt: skip
    st.download_button(
        "Download all of them as CSV", lambda: _table(every_difference(wanted), view).to_csv(index=False).encode(),
        "grader-differences.csv", "text/csv", icon=":material/download:", on_click="ignore", key="graders_csv",
    )  # fmt: skip


def _table(found: Sequence[Difference], view: View) -> pd.DataFrame:
    return differences_table(found, unique_names(dict.fromkeys(one.model for one in found)), view.names)


def _turn(key: str) -> None:
    st.query_params[_PAGE] = str(st.session_state[key])


def _address(one: Difference) -> str:
    return f"{one.trial_id}|{one.format}:{one.question_type}"


def _draw_difference(one: Difference, view: View) -> None:
    st.subheader(
        f"{plain(one.case_key.partition('/')[2] or one.case_key)} · {arm(one.format, one.question_type)} · trial "
        f"{one.trial + 1}",
        anchor=False,
    )
    left, right = st.columns(2, gap="medium")
    with left:
        name = unique_names([one.model])[one.model]
        response = one.response if len(one.response) <= _LONG else f"{one.response[:_LONG]}…"
        with st.container(border=True, gap="small"):
            st.markdown(f":gray[{plain(name)} answered]  \n{plain(response)}")
            st.markdown(f":gray[Right answer]  \n**{plain(one.answer or 'unknown')}**")
        for who, read, verdict in (
            (one.first_grader, one.first_extracted, one.first_verdict),
            (one.second_grader, one.second_extracted, one.second_verdict),
        ):
            with st.container(border=True, gap="small"):
                st.markdown(f"**{plain(view.names.get(who, who))}** {badge(verdict)}")
                st.markdown(f":gray[read as] {plain(read)}" if read else ":gray[read nothing out of it]")
        with st.container(horizontal=True):
            for page, label, icon in ((TRANSCRIPTS, "The whole trial", "forum"),
                                      (DEBUGGER, "Open it in the case debugger", "bug_report")):  # fmt: skip
                st.page_link(page, label=label, icon=f":material/{icon}:", query_params={"trial": one.trial_id})
    with right:
        _draw_transcript(one)


def _draw_transcript(one: Difference) -> None:
    shown = reading(one.trial_id)
    if shown is None:
        st.caption("The conversation of this answer is not stored.")
        return
    with st.container(height=_CHAT, border=True, gap="xxsmall", autoscroll=False, key=f"graders_read_{one.trial_id}"):
        if one.format in ("vignette", "exam_only") and shown.case is not None:
            st.caption("The doctor saw the vignette, not the conversation:")
            st.markdown(plain(shown.case.vignette))
            return
        draw_chat(shown.events, None)


def _say_nothing(pair: tuple[str, str] | None, view: View) -> None:
    if pair is None:
        st.info(
            "No answer of these has two verdicts that differ. Let a grader judge a run’s answers again: "
            "`python -m core regrade RUN --grader M`.",
            icon=":material/done_all:",
        )
        return
    first, second = (plain(view.names[g]) for g in pair)
    st.info(f"{first} and {second} differ on none of the answers that both judged.", icon=":material/done_all:")
