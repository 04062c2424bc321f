"""The questions about one item: one in focus, answered by y or n; a change says why. Every answer is saved at once."""

from typing import cast

import streamlit as st

from core.errors import AnamnesisError
from core.measures.experts.reviewing import ReviewState, record
from core.store.database import Store
from core.store.review_records import ASKED, GUIDANCE, WORDING, Question, ReviewItem
from pages.parts.look import plain

_SAID = {"yes": ":green-badge[Yes]", "no": ":orange-badge[No]", None: ":gray-badge[open]"}
TROUBLE = "experts_trouble"
"""Where a callback leaves what went wrong, for the next drawing to show."""


def draw_questions(state: ReviewState, item: ReviewItem, annotator: str) -> None:
    """Draw every question with its answer; the one in focus has the buttons."""
    asked = [cast(Question, question) for question in state.questions_for(item, annotator)]
    key = f"experts_focus_{state.review.review_id}_{annotator}_{item.number}"
    waiting = next((q for q in asked if state.value(item.item, annotator, q) is None), None)
    focus = st.session_state.get(key, waiting)
    with st.container(border=True, gap="small"):
        if annotator not in item.annotators:
            st.caption(":material/balance: Two others differ on this. Who said what is not shown.")
        for number, question in enumerate(asked, start=1):
            said = state.value(item.item, annotator, question)
            with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
                st.button(
                    ASKED[question], key=f"{key}_{question}", shortcut=str(number), type="tertiary", width="content",
                    icon=f":material/{'arrow_right' if question == focus else 'chevron_right'}:",
                    on_click=_focus, args=(key, question), help=WORDING[question],
                )  # fmt: skip
                st.markdown(_SAID[said], width="content")
            if question == focus:
                _draw_choice(state, item, annotator, question, said, key)
        if waiting is None:
            st.caption(":material/check: All answered and saved. Press j for the next item, a number to change one.")
    trouble = st.session_state.pop(TROUBLE, None)
    if trouble:
        st.warning(plain(trouble), icon=":material/error:")


def _draw_choice(
    state: ReviewState, item: ReviewItem, annotator: str, question: Question, said: str | None, key: str
) -> None:
    why = f"{key}_{question}_why"
    st.markdown(f"**{WORDING[question]}**")
    if question in GUIDANCE:
        st.caption(GUIDANCE[question])
    if said is not None:
        st.text_input("Why is the answer changed?", key=why, placeholder="Kept with the earlier answer")
    with st.container(horizontal=True):
        for label, value, shortcut in (("Yes", "yes", "y"), ("No", "no", "n")):
            st.button(
                label, key=f"{key}_{value}", shortcut=shortcut, type="primary" if said == value else "secondary",
                disabled=said == value, on_click=_say,
                args=(state.review.review_id, item.number, annotator, question, value, key, why),
            )  # fmt: skip


def _focus(key: str, question: Question) -> None:
    st.session_state[key] = question


def _say(
    review_id: str, number: int, annotator: str, question: Question, value: str, key: str, why: str
) -> None:  # fmt: skip
    try:
        record(Store(), review_id, number, annotator, question, value, st.session_state.get(why, ""))
    except AnamnesisError as error:
        st.session_state[TROUBLE] = str(error)
        return
    st.session_state.pop(key, None)
