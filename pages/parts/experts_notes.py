"""What an annotator writes beside the answers: a comment, and words highlighted in the conversation."""

from collections.abc import Sequence

import streamlit as st

from core.errors import AnamnesisError
from core.events import Event, Utterance
from core.frameworks.base import Framework, framework_of
from core.measures.experts.reviewing import COMMENT, HIGHLIGHT, ReviewState, comment, highlight, span_of
from core.store.database import Store
from core.store.queries.reviews import Span
from core.store.review_records import ReviewItem
from pages.parts.experts_answer import TROUBLE
from pages.parts.look import plain

_SHOWN = 70


def draw_notes(state: ReviewState, item: ReviewItem, annotator: str, dialogue: Sequence[Event]) -> None:
    """Draw the comment box and the highlights, both saved at once."""
    place = (state.review.review_id, item.number, annotator)
    key = f"experts_note_{state.review.review_id}_{annotator}_{item.number}"
    held = state.said.get((item.item, annotator, COMMENT))
    st.text_area(
        "Comment", held.comment if held else "", key=key, height=70, on_change=_comment, args=(*place, key),
        placeholder="Saved when you leave the box",
    )  # fmt: skip
    messages = {event.turn: event for event in dialogue if isinstance(event, Utterance)}
    marked = state.said.get((item.item, annotator, HIGHLIGHT))
    spans = marked.spans if marked else ()
    if messages:
        label = f"Highlighted words ({len(spans)})" if spans else "Highlight words"
        with st.expander(label, icon=":material/ink_highlighter:"):
            _draw_highlights(place, messages, spans, key, framework_of(dialogue))


def _draw_highlights(
    place: tuple[str, int, str], messages: dict[int, Utterance], spans: tuple[Span, ...], key: str,
    known: Framework | None,
) -> None:  # fmt: skip
    for number, span in enumerate(spans):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"Message {span.turn + 1}: :orange-background[{plain(span.text)}]", width="stretch")
            rest = spans[:number] + spans[number + 1 :]
            st.button(
                "Take away", key=f"{key}_{number}_away", type="tertiary", icon=":material/close:", on_click=_keep,
                args=(place, rest),
            )  # fmt: skip
    with st.form(f"{key}_form", border=False, clear_on_submit=False):
        turn = st.selectbox(
            "Message", list(messages), format_func=lambda turn: _label(messages[turn], known), key=f"{key}_turn"
        )
        words = st.text_input("Words in it", key=f"{key}_words", placeholder="As they stand in the message")
        if st.form_submit_button("Highlight") and turn is not None:
            _add(place, messages[turn], words, spans)


def _add(place: tuple[str, int, str], message: Utterance, words: str, spans: tuple[Span, ...]) -> None:
    try:
        new = span_of(message.turn, message.text, words)
    except AnamnesisError as error:
        st.warning(plain(str(error)))
        return
    _keep(place, tuple(dict.fromkeys([*spans, new])))
    st.rerun()


def _label(message: Utterance, known: Framework | None) -> str:
    text = " ".join((known.spoken(message.role, message.text) if known else message.text).split())
    short = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return f"{message.turn + 1} · {message.role.capitalize()}: {short}"


def _comment(review_id: str, number: int, annotator: str, key: str) -> None:
    try:
        comment(Store(), review_id, number, annotator, st.session_state[key])
    except AnamnesisError as error:
        st.session_state[TROUBLE] = str(error)


def _keep(place: tuple[str, int, str], spans: tuple[Span, ...]) -> None:
    try:
        highlight(Store(), *place, spans)
    except AnamnesisError as error:
        st.session_state[TROUBLE] = str(error)
