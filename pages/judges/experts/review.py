"""A review under way: an item without its model, the questions on it, notes, and the next one."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import streamlit as st

from core import access
from core.case import Case
from core.errors import AnamnesisError
from core.events import Event, Utterance
from core.frameworks.answering import question_of
from core.frameworks.base import Framework, framework_of
from core.reviews.reviewing import (
    COMMENT,
    HIGHLIGHT,
    ReviewState,
    answer_vignette,
    comment,
    highlight,
    next_question,
    record,
    span_of,
    vignette_of,
)
from core.store.database import Store
from core.store.queries.annotations import Span
from core.store.review_records import ASKED, EQUIVALENCE_RULE, GUIDANCE, WORDING, Question, ReviewItem
from pages.judges.experts.data import ITEM, Shown, review_at, shown_item
from pages.judges.experts.reviews import leave
from pages.kit.case.pictures import draw_pictures
from pages.kit.chat import draw_case, draw_chat
from pages.kit.look import QUESTION_TYPE, faults_said, plain
from pages.kit.tables import step_buttons

_SAID = {"yes": ":green-badge[Yes]", "no": ":orange-badge[No]", None: ":gray-badge[open]"}
TROUBLE = "experts_trouble"
"""Where a callback leaves what went wrong, for the next drawing to show."""


def _store(change: Callable[..., object], *said: Any) -> None:
    """Store what an annotator said; where it cannot be, leave why for the next drawing."""
    try:
        change(Store(), *said)
    except AnamnesisError as error:
        st.session_state[TROUBLE] = str(error)


def _draw_trouble() -> None:
    if trouble := st.session_state.pop(TROUBLE, None):
        st.warning(plain(trouble), icon=":material/error:")


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
                    ASKED[question],
                    key=f"{key}_{question}",
                    shortcut=str(number),
                    type="tertiary",
                    width="content",
                    icon=f":material/{'arrow_right' if question == focus else 'chevron_right'}:",
                    on_click=_focus,
                    args=(key, question),
                    help=WORDING[question],
                )
                st.markdown(_SAID[said], width="content")
            if question == focus:
                _draw_choice(state, item, annotator, question, said, key)
        if waiting is None:
            st.caption(":material/check: All answered and saved. Press j for the next item, a number to change one.")
    _draw_trouble()


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
                label,
                key=f"{key}_{value}",
                shortcut=shortcut,
                type="primary" if said == value else "secondary",
                disabled=said == value,
                on_click=_say,
                args=(state.review.review_id, item.number, annotator, question, value, key, why),
            )


def _focus(key: str, question: Question) -> None:
    st.session_state[key] = question


def _say(review_id: str, number: int, annotator: str, question: Question, value: str, key: str, why: str) -> None:
    _store(record, review_id, number, annotator, question, value, st.session_state.get(why, ""))
    if TROUBLE not in st.session_state:
        st.session_state.pop(key, None)


_SHOWN = 70


def draw_notes(state: ReviewState, item: ReviewItem, annotator: str, dialogue: Sequence[Event]) -> None:
    """Draw the comment box and the highlights, both saved at once."""
    place = (state.review.review_id, item.number, annotator)
    key = f"experts_note_{state.review.review_id}_{annotator}_{item.number}"
    held = state.newest.get((item.item, annotator, COMMENT))
    st.text_area(
        "Comment",
        held.comment if held else "",
        key=key,
        height=70,
        on_change=lambda: _store(comment, *place, st.session_state[key]),
        placeholder="Saved when you leave the box",
    )
    messages = {event.turn: event for event in dialogue if isinstance(event, Utterance)}
    marked = state.newest.get((item.item, annotator, HIGHLIGHT))
    spans = marked.spans if marked else ()
    if messages:
        label = f"Highlighted words ({len(spans)})" if spans else "Highlight words"
        with st.expander(label, icon=":material/ink_highlighter:"):
            _draw_highlights(place, messages, spans, key, framework_of(dialogue))


def _draw_highlights(
    place: tuple[str, int, str],
    messages: dict[int, Utterance],
    spans: tuple[Span, ...],
    key: str,
    known: Framework | None,
) -> None:
    for number, span in enumerate(spans):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"Message {span.turn + 1}: :orange-background[{plain(span.text)}]", width="stretch")
            rest = spans[:number] + spans[number + 1 :]
            st.button(
                "Remove",
                key=f"{key}_{number}_away",
                type="tertiary",
                icon=":material/close:",
                on_click=_store,
                args=(highlight, *place, rest),
            )
    with st.form(f"{key}_form", border=False, clear_on_submit=False):
        turn = st.selectbox(
            "Message", list(messages), format_func=lambda turn: _label(messages[turn], known), key=f"{key}_turn"
        )
        words = st.text_input("Words in it", key=f"{key}_words", placeholder="As they stand in the message")
        if st.form_submit_button("Highlight") and turn is not None:
            try:
                new = span_of(turn, messages[turn].text, words)
            except AnamnesisError as error:
                st.warning(plain(str(error)))
            else:
                _store(highlight, *place, tuple(dict.fromkeys([*spans, new])))
                st.rerun()


def _label(message: Utterance, known: Framework | None) -> str:
    text = " ".join((known.speech.spoken(message.role, message.text) if known else message.text).split())
    short = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return f"{message.turn + 1} · {message.role.capitalize()}: {short}"


def draw_vignette(state: ReviewState, item: ReviewItem, annotator: str) -> None:
    """Draw the vignette, what was answered, and the next question; the right answer is never shown."""
    case = vignette_of(Store(), state, item.item, annotator)
    left, right = st.columns([6, 5], gap="medium")
    with left.container(border=True):
        st.markdown(plain(case.vignette))
        draw_pictures(case, "experts")
    with right:
        asked = next_question(state, item.item, annotator)
        for question in state.review.plan.asked_of(annotator):
            said = state.value(item.item, annotator, question)
            if said is not None:
                st.markdown(f":material/check: **{QUESTION_TYPE[question]}**  \n{plain(said)}")  # type: ignore[index]
        if asked is None:
            st.caption("Answered and saved. Press j for the next vignette.")
        else:
            _ask(case, asked, (state.review.review_id, item.number, annotator, asked))
        _draw_trouble()


def _ask(case: Case, asked: str, place: tuple[str, int, str, str]) -> None:
    question = question_of(case, asked, ())  # type: ignore[arg-type]
    key = "experts_vignette_" + "_".join(str(part) for part in place)
    with st.container(border=True, gap="small"):
        st.markdown(f"**{plain(question.text)}**")
        for number, choice in enumerate(question.choices, start=1):
            st.button(
                plain(choice),
                key=f"{key}_{number}",
                shortcut=str(number) if number < 10 else None,
                width="stretch",
                on_click=_store,
                args=(answer_vignette, *place, choice),
            )
        if not question.choices:
            with st.form(f"{key}_form", border=False):
                words = st.text_input("Your answer", key=f"{key}_words")
                if st.form_submit_button("Answer", type="primary"):
                    _store(answer_vignette, *place, words)
                    st.rerun()
    st.caption("Saved at once; an answer is final.")


def draw_review(review_id: str, annotator: str) -> None:
    """Draw the item in the address, or the first that is not answered."""
    state = review_at(review_id)
    if state is None:
        st.button("All reviews", icon=":material/arrow_back:", on_click=leave)
        st.info("The review in this address is not stored here.", icon=":material/search_off:")
        return
    with faults_said(st.info, ":material/lock:"):
        access.require_name(annotator)  # what others answered is not shown either: it would not be independent any more
        _draw_state(state, annotator)
        return
    st.button("All reviews", icon=":material/arrow_back:", on_click=leave)


def _draw_state(state: ReviewState, annotator: str) -> None:
    ties = state.ties_for(annotator)
    order = [*state.items_for(annotator), *ties]
    asked = st.query_params.get(ITEM, "")
    named = next((one for one in order if str(one.number) == asked), None)
    waiting = next((one for one in order if not state.complete(one, annotator)), None)
    item = named or waiting or next(iter(order), None)
    if item is not None:
        st.query_params[ITEM] = str(item.number)
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


def _draw_steps(state: ReviewState, order: list[ReviewItem], item: ReviewItem | None, annotator: str) -> None:
    numbers = [str(one.number) for one in order]
    place = numbers.index(str(item.number)) if item else 0
    rest = [*order[place + 1 :], *order[:place]]
    waiting = next((str(one.number) for one in rest if not state.complete(one, annotator)), None)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("All reviews", icon=":material/arrow_back:", on_click=leave)
        step_buttons(numbers, place, ITEM, more=[("Next unanswered", "skip_next", "u", waiting)])
        if item is not None:
            st.markdown(f":gray[Item {place + 1} of {len(order)}]")
    done = sum(state.complete(one, annotator) for one in order)
    progress = state.progress_of(annotator)
    words = f"{done} of {len(order)} answered"
    if progress.ties:
        words += f" · {progress.ties} {'tie' if progress.ties == 1 else 'ties'} to break"
    st.progress(done / max(1, len(order)), text=words)


def _draw_item(state: ReviewState, item: ReviewItem, annotator: str) -> None:
    shown = shown_item(item.item)
    if shown is None:
        st.warning("The conversation of this item is no longer stored: leave it open.", icon=":material/search_off:")
        return
    left, right = st.columns([6, 5], gap="medium")
    with left:
        if state.review.plan.kind == "answers":
            with st.container(border=True, gap="small"):
                st.markdown(f"**Answer given**  \n{plain((shown.response or 'none').replace('**', ''))}")
                if shown.case is not None:
                    st.markdown(f"**Right answer**  \n{plain(shown.case.answer)}")
                st.caption(EQUIVALENCE_RULE)
        _draw_dialogue(state, item, annotator, shown)
    with right:
        draw_questions(state, item, annotator)
        draw_notes(state, item, annotator, shown.dialogue)
        if shown.case is not None:
            draw_case(shown.case, open_=True)


def _draw_dialogue(state: ReviewState, item: ReviewItem, annotator: str, shown: Shown) -> None:
    if not any(isinstance(event, Utterance) for event in shown.dialogue):
        st.caption("This response was given without a conversation.")
        return
    held = state.newest.get((item.item, annotator, HIGHLIGHT))
    words = {span.turn: span.text for span in held.spans} if held else {}
    height = 660 if state.review.plan.kind == "conversations" else 420
    with st.container(height=height, border=True, gap="xxsmall", autoscroll=False, key=f"experts_chat_{item.number}"):
        for events, marked in _by_message(shown.dialogue, words):
            draw_chat(events, None, marked, known=framework_of(shown.dialogue))


def _by_message(dialogue: list[Event], words: dict[int, str]) -> list[tuple[list[Event], str]]:
    """Part a dialogue where messages have highlighted words of their own; in one piece where none has."""
    if not words:
        return [(dialogue, "")]
    turns = [event.turn for event in dialogue if isinstance(event, Utterance)]
    parts = [([e for e in dialogue if getattr(e, "turn", None) == turn], words.get(turn, "")) for turn in turns]
    return [*parts, ([e for e in dialogue if getattr(e, "turn", None) is None], "")]
