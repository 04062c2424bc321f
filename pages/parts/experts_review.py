"""A review under way for one annotator: one item at a time, by keyboard, and nothing that names a model."""

import streamlit as st

from core.events import Event, Utterance
from core.frameworks.base import framework_of
from core.measures.experts.reviewing import HIGHLIGHT, ReviewState
from core.store.review_records import EQUIVALENCE_RULE, ReviewItem
from pages.parts.experts_answer import draw_questions
from pages.parts.experts_data import Shown, review_at, shown_item
from pages.parts.experts_list import leave
from pages.parts.experts_notes import draw_notes
from pages.parts.experts_vignette import draw_vignette
from pages.parts.experts_words import ITEM
from pages.parts.live_panels import draw_case
from pages.parts.look import plain
from pages.parts.transcript import draw_chat

_CHAT = 660


def draw_review(review_id: str, annotator: str) -> None:
    """Draw the item in the address, or the first that is not answered."""
    state = review_at(review_id)
    if state is None:
        st.button("All reviews", icon=":material/arrow_back:", on_click=leave)
        st.info("The review in this address is not stored here.", icon=":material/search_off:")
        return
    ties = state.ties_for(annotator)
    order = [*state.own_items(annotator), *ties]
    item = _chosen(state, order, annotator)
    st.subheader(f"{plain(state.review.name)} · {plain(annotator)}", anchor=False)
    _draw_steps(state, order, item, annotator)
    if state.review.unblinded:
        st.info("This review is unblinded: answers can no longer be changed. Its figures stand under Results.")
        return
    if item is None:
        st.info(
            f"Nothing waits for {plain(annotator)}: no item was dealt to this name, and no two others differ on one.",
            icon=":material/done_all:",
        )
        return
    if state.review.plan.kind == "baseline":
        draw_vignette(state, item, annotator)
    else:
        _draw_item(state, item, annotator)


def _chosen(state: ReviewState, order: list[ReviewItem], annotator: str) -> ReviewItem | None:
    asked = st.query_params.get(ITEM, "")
    named = next((one for one in order if str(one.number) == asked), None)
    waiting = next((one for one in order if not state.complete(one, annotator)), None)
    chosen = named or waiting or next(iter(order), None)
    if chosen is not None:
        st.query_params[ITEM] = str(chosen.number)
    return chosen


def _draw_steps(state: ReviewState, order: list[ReviewItem], item: ReviewItem | None, annotator: str) -> None:
    numbers = [one.number for one in order]
    place = numbers.index(item.number) if item else 0
    before = numbers[place - 1] if place else None
    after = numbers[place + 1] if place + 1 < len(numbers) else None
    rest = [*order[place + 1 :], *order[:place]]
    waiting = next((one.number for one in rest if not state.complete(one, annotator)), None)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("All reviews", icon=":material/arrow_back:", on_click=leave)
        for label, icon, key, target in (
            ("Previous", "keyboard_arrow_up", "k", before), ("Next", "keyboard_arrow_down", "j", after),
            ("Next unanswered", "skip_next", "u", waiting),
        ):  # fmt: skip
            st.button(
                label, icon=f":material/{icon}:", shortcut=key, disabled=target is None, on_click=_open, args=(target,)
            )
        if item is not None:
            st.markdown(f":gray[Item {place + 1} of {len(order)}]")
    done = sum(state.complete(one, annotator) for one in order)
    progress = state.progress_of(annotator)
    words = f"{done} of {len(order)} answered"
    if progress.ties:
        words += f" · {progress.ties} {'tie' if progress.ties == 1 else 'ties'} to break"
    st.progress(done / max(1, len(order)), text=words)


def _open(number: int | None) -> None:
    if number is not None:
        st.query_params[ITEM] = str(number)


def _draw_item(state: ReviewState, item: ReviewItem, annotator: str) -> None:
    shown = shown_item(item.item)
    if shown is None:
        st.warning("The conversation of this item is no longer stored: leave it open.", icon=":material/search_off:")
        return
    left, right = st.columns([6, 5], gap="medium")
    with left:
        if state.review.plan.kind == "answers":
            _draw_response(shown)
        _draw_dialogue(state, item, annotator, shown)
    with right:
        draw_questions(state, item, annotator)
        draw_notes(state, item, annotator, shown.dialogue)
        if shown.case is not None:
            draw_case(shown.case, open_=True)


def _draw_response(shown: Shown) -> None:
    with st.container(border=True, gap="small"):
        st.markdown(f"**Answer given**  \n{plain((shown.response or 'none').replace('**', ''))}")
        if shown.case is not None:
            st.markdown(f"**Right answer**  \n{plain(shown.case.answer)}")
        st.caption(EQUIVALENCE_RULE)


def _draw_dialogue(state: ReviewState, item: ReviewItem, annotator: str, shown: Shown) -> None:
    if not any(isinstance(event, Utterance) for event in shown.dialogue):
        st.caption("This response was given without a conversation.")
        return
    held = state.said.get((item.item, annotator, HIGHLIGHT))
    words = {span.turn: span.text for span in held.spans} if held else {}
    height = _CHAT if state.review.plan.kind == "conversations" else 420
    with st.container(height=height, border=True, gap="xxsmall", autoscroll=False, key=f"experts_chat_{item.number}"):
        for events, marked in _by_message(shown.dialogue, words):
            draw_chat(events, None, marked, known=framework_of(shown.dialogue))


def _by_message(dialogue: list[Event], words: dict[int, str]) -> list[tuple[list[Event], str]]:
    """Part a dialogue where messages have highlighted words of their own; in one piece where none has."""
    if not words:
        return [(dialogue, "")]
    turns = [event.turn for event in dialogue if isinstance(event, Utterance)]
    parts = [
        ([e for e in dialogue if getattr(e, "turn", None) == turn], words.get(turn, "")) for turn in turns
    ]  # fmt: skip
    return [*parts, ([e for e in dialogue if not hasattr(e, "turn")], "")]
