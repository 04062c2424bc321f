"""A vignette that an expert answers: choices by number, or a diagnosis in words; an answer is final."""

import streamlit as st

from core.case import Case
from core.errors import AnamnesisError
from core.frameworks.answering import question_of
from core.measures.experts.reviewing import ReviewState, answer_vignette, next_question, vignette_of
from core.store.database import Store
from core.store.review_records import ReviewItem
from pages.parts.case_pictures import draw_pictures
from pages.parts.experts_answer import TROUBLE
from pages.parts.look import QUESTION_TYPE, plain


def draw_vignette(state: ReviewState, item: ReviewItem, annotator: str) -> None:
    """Draw the vignette, what was answered, and the next question; the right answer is never shown."""
    case = vignette_of(Store(), state, item.item, annotator)
    left, right = st.columns([6, 5], gap="medium")
    with left.container(border=True):
        st.markdown(plain(case.vignette))
        draw_pictures(case, "experts")
    with right:
        asked = next_question(state, item.item, annotator)
        for question in state.questions:
            said = state.value(item.item, annotator, question)
            if said is not None:
                st.markdown(f":material/check: **{QUESTION_TYPE[question]}**  \n{plain(said)}")  # type: ignore[index]
        if asked is None:
            st.caption("Answered and saved. Press j for the next vignette.")
        else:
            _ask(case, asked, (state.review.review_id, item.number, annotator, asked))
        trouble = st.session_state.pop(TROUBLE, None)
        if trouble:
            st.warning(plain(trouble), icon=":material/error:")


def _ask(case: Case, asked: str, place: tuple[str, int, str, str]) -> None:
    question = question_of(case, asked, ())  # type: ignore[arg-type]
    key = "experts_vignette_" + "_".join(str(part) for part in place)
    with st.container(border=True, gap="small"):
        st.markdown(f"**{plain(question.text)}**")
        for number, choice in enumerate(question.choices, start=1):
            st.button(
                plain(choice), key=f"{key}_{number}", shortcut=str(number) if number < 10 else None, width="stretch",
                on_click=_answer, args=(place, choice),
            )  # fmt: skip
        if not question.choices:
            with st.form(f"{key}_form", border=False):
                words = st.text_input("Your answer", key=f"{key}_words")
                if st.form_submit_button("Answer", type="primary"):
                    _answer(place, words)
                    st.rerun()
    st.caption("Saved at once; an answer is final.")


def _answer(place: tuple[str, int, str, str], response: str) -> None:
    try:
        answer_vignette(Store(), *place, response)
    except AnamnesisError as error:
        st.session_state[TROUBLE] = str(error)
