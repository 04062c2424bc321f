"""One annotator’s review: an item without its model, the questions on it, notes, and the way to the next item."""

import time
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import streamlit as st

from core import access
from core.errors import AnamnesisError
from core.events import Event, Utterance
from core.frameworks.base import framework_of
from core.judging.form import CANNOT_JUDGE, NOT_APPLICABLE, FormQuestion, Shown
from core.judging.judgement import Quotation
from core.reviews.answering import quotation_of, record
from core.reviews.baseline import own_question
from core.reviews.items import BlindedItem, material_of
from core.reviews.state import COMMENT, HIGHLIGHT, ReviewState
from core.store.database import Store
from core.store.review_records import ReviewItem
from pages.kit.case.pictures import draw_pictures
from pages.kit.conversation import draw_case
from pages.kit.look import counted, plain, show_errors
from pages.kit.messages import Mark, draw_messages, in_one_line
from pages.kit.tables import step_buttons
from pages.kit.visitor import draw_button
from pages.trust.experts.data import ITEM, item_for, review_at
from pages.trust.experts.reviews import draw_sheet, leave

_HEIGHT = 660
"""Height of a conversation in pixels."""
_OPTION_KEYS = "abdefghilmnopqstvwz"
"""Shortcuts of options, without those of steps (j, k, u), of Streamlit (c, r), and of "Cannot judge" (x)."""
_SHORT_ANSWER_CHARS = 24
ERROR_KEY = "experts_trouble"
"""Session key of an error in a callback, which the next rerun shows."""


def _store(review_id: str, number: int, annotator: str, question: str, value: str = "", **more: Any) -> None:
    """Store an annotator’s input (``record``); the next rerun shows an error."""
    try:
        record(Store(), review_id, number, annotator, question, value, **more)
    except AnamnesisError as error:
        st.session_state[ERROR_KEY] = str(error)


def _draw_error() -> None:
    if error := st.session_state.pop(ERROR_KEY, None):
        st.warning(plain(error), icon=":material/error:")


def draw_questions(state: ReviewState, item: ReviewItem, annotator: str, blinded: BlindedItem) -> None:
    """Draw every question with its answer; the question in focus has the controls to answer it."""
    asked = (state.question(item, question) for question in state.due(item, annotator))
    questions = [question for question in asked if question is not None]
    key = f"experts_focus_{state.review.review_id}_{annotator}_{item.number}"
    st.session_state.setdefault(f"{key}_opened", time.time())
    answers = {question.id: state.value(item.item, annotator, question.id) for question in questions}
    tied = {q.id for q in questions if annotator in item.annotators and state.tied(item, q.id)}
    answers |= {q: agreed.value for q in tied if (agreed := state.settlement(item, q))}
    unsettled = {q for q in tied if state.unsettled(item, q)}
    # a tie gets the focus only by its number: a key pressed twice must not settle it
    first_open = next((q.id for q in questions if not q.optional and answers[q.id] is None), None)
    focus = st.session_state.get(key, first_open)
    with st.container(border=True, gap="small"):
        if annotator not in item.annotators:
            st.caption(":material/balance: Two other annotators disagree here; their answers are hidden.")
        elif unsettled:
            others = plain(" and ".join(name for name in item.annotators if name != annotator))
            st.caption(
                f":material/balance: You and {others} disagree where it says tied. Talk it over; then one of you "
                "presses the number of the question and answers for both. Or leave it to a third person."
            )
        for number, question in enumerate(questions, start=1):
            answer = answers[question.id]
            with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
                if state.form.final:  # questions are answered in their order, and an answer cannot be changed
                    st.markdown(plain(question.title), help=plain(question.wording), width="content")
                else:
                    st.button(
                        plain(question.title),
                        key=f"{key}_{question.id}",
                        shortcut=str(number) if number < 10 else None,
                        type="tertiary",
                        width="content",
                        icon=f":material/{'arrow_right' if question.id == focus else 'chevron_right'}:",
                        on_click=_focus,
                        args=(key, question.id),
                        help=plain(question.wording),
                    )
                st.markdown(
                    ":orange-badge[tied]" if question.id in unsettled else _badge(question, answer), width="content"
                )
            if state.form.final and answer is not None:
                st.markdown(plain(answer))
            elif question.id == focus:
                shown = None if question.id in unsettled else answer
                _draw_answer(state, item, annotator, question, shown, key, blinded)
        if first_open is None:
            change = "" if state.form.final else ", or a number to change an answer"
            st.caption(f":material/check: All answered and saved. Press j for the next item{change}.")
    _draw_error()


def _badge(question: FormQuestion, answer: str | None) -> str:
    if answer is None:
        return ":gray-badge[optional]" if question.optional else ":gray-badge[open]"
    label = next((option.label for option in question.options if option.value == answer), answer)
    if question.kind == "scale":
        label = f"{answer} of {question.values[-1]}" if answer in question.values else answer
    short = label if len(label) <= _SHORT_ANSWER_CHARS else f"{label[:_SHORT_ANSWER_CHARS]}…"
    return f":{'orange' if answer == 'no' else 'green'}-badge[{plain(short)}]"


def _draw_answer(
    state: ReviewState,
    item: ReviewItem,
    annotator: str,
    question: FormQuestion,
    answer: str | None,
    key: str,
    blinded: BlindedItem,
) -> None:
    """Draw the controls for one question; ``answer`` is the stored answer that they change."""
    place = (state.review.review_id, item.number, annotator)
    if state.form.final and blinded.case is not None:
        question = own_question(blinded.case, question)
    st.markdown(f"**{plain(question.wording)}**")
    if question.explained:
        st.caption(plain(question.explained))
    if question.kind == "span":
        _draw_words(state, item, annotator, blinded.dialogue, f"{key}_{question.id}", question.id)
    elif question.kind == "text" and state.form.final:
        with st.form(f"{key}_form", border=False):
            words = st.text_input("Your answer", key=f"{key}_words")
            if st.form_submit_button("Answer", type="primary"):
                _record_answer(*place, question.id, words, key, f"{key}_why")
                st.rerun()
    elif question.kind == "text":
        words_key = f"{key}_{question.id}_words"
        st.text_area(
            question.title,
            answer or "",
            key=words_key,
            label_visibility="collapsed",
            height=90,
            on_change=_record_words,
            args=(*place, question.id, words_key),
            placeholder="Saved when you leave the box",
        )
    else:
        _draw_options(place, question, answer, key)


def _draw_options(place: tuple[str, int, str], question: FormQuestion, answer: str | None, key: str) -> None:
    reason_key = f"{key}_{question.id}_why"
    if answer is not None:
        st.text_input("Why is the answer changed?", key=reason_key, placeholder="Stored with the earlier answer")
    yes_no = question.values == ("yes", "no")
    options = [
        (option.label, option.value, option.value[0] if yes_no else letter)
        for option, letter in zip_longest(question.options, _OPTION_KEYS[: len(question.options)])
    ]
    without_value = {NOT_APPLICABLE: ("Does not apply", "y"), CANNOT_JUDGE: ("Cannot judge", "x")}
    options += [
        (label, answer, shortcut)
        for answer, (label, shortcut) in without_value.items()
        if answer in question.answers and answer not in question.values
    ]
    with st.container(horizontal=yes_no):
        for label, value, shortcut in options:
            draw_button(
                plain(f"{value} · {label}" if question.kind == "scale" and value != CANNOT_JUDGE else label),
                "This is the stored answer." if answer == value else "",
                key=f"{key}_{value}",
                shortcut=shortcut,
                width="content" if yes_no else "stretch",
                type="primary" if answer == value else "secondary",
                on_click=_record_answer,
                args=(*place, question.id, value, key, reason_key),
            )


def _focus(key: str, question: str) -> None:
    st.session_state[key] = question


def _record_answer(
    review_id: str, number: int, annotator: str, question: str, value: str, key: str, reason_key: str
) -> None:
    reason = st.session_state.get(reason_key, "")
    seconds = time.time() - st.session_state.get(f"{key}_opened", time.time())
    _store(review_id, number, annotator, question, value, reason=reason, seconds=seconds)
    if ERROR_KEY not in st.session_state:
        st.session_state.pop(key, None)


def _record_words(review_id: str, number: int, annotator: str, question: str, words_key: str) -> None:
    if words := st.session_state[words_key].strip():
        _store(review_id, number, annotator, question, words)


def draw_notes(state: ReviewState, item: ReviewItem, annotator: str, dialogue: Sequence[Event]) -> None:
    item_key = (state.review.review_id, item.number, annotator)
    key = f"experts_note_{state.review.review_id}_{annotator}_{item.number}"
    stored_comment = state.newest.get((item.item, annotator, COMMENT))
    st.text_area(
        "Comment",
        stored_comment.comment if stored_comment else "",
        key=key,
        height=70,
        on_change=lambda: _store(*item_key, COMMENT, st.session_state[key]),
        placeholder="Saved when you leave the box",
    )
    if any(isinstance(event, Utterance) for event in dialogue):
        count = len(_marked(state, item, annotator, HIGHLIGHT))
        with st.expander(
            f"Highlighted words ({count})" if count else "Highlight words", icon=":material/ink_highlighter:"
        ):
            _draw_words(state, item, annotator, dialogue, key)


def _marked(state: ReviewState, item: ReviewItem, annotator: str, question: str) -> tuple[Quotation, ...]:
    answer = state.newest.get((item.item, annotator, question))
    return answer.quotations if answer else ()


def _draw_words(
    state: ReviewState, item: ReviewItem, annotator: str, dialogue: Sequence[Event], key: str, question: str = HIGHLIGHT
) -> None:
    """Draw the words that an annotator marked for a question, and the form to mark more."""
    place = (state.review.review_id, item.number, annotator)
    marked = _marked(state, item, annotator, question)
    messages = {event.turn: event for event in dialogue if isinstance(event, Utterance)}
    for number, quoted in enumerate(marked):
        with st.container(horizontal=True, vertical_alignment="center"):
            about = f" :gray[{plain(quoted.comment)}]" if quoted.comment else ""
            st.markdown(
                f"Message {quoted.message + 1}: :orange-background[{plain(quoted.words)}]{about}", width="stretch"
            )
            st.button(
                "Remove",
                key=f"{key}_{number}_away",
                type="tertiary",
                icon=":material/close:",
                on_click=_store,
                args=(*place, question),
                kwargs={"words": marked[:number] + marked[number + 1 :]},
            )
    framework = framework_of(dialogue)
    with st.form(f"{key}_form", border=False, clear_on_submit=False):
        turn = st.selectbox(
            "Message",
            list(messages),
            format_func=lambda turn: in_one_line(messages[turn], framework),
            key=f"{key}_turn",
        )
        words = st.text_input("Words in it", key=f"{key}_words", placeholder="Exactly as in the message")
        remark = st.text_input("Comment on these words", key=f"{key}_remark", placeholder="Optional")
        if st.form_submit_button("Highlight") and turn is not None:
            with show_errors(st.warning):
                new = quotation_of(turn, messages[turn].text, words, remark)
                _store(*place, question, words=tuple(dict.fromkeys([*marked, new])))
                st.rerun()


def draw_review(review_id: str, annotator: str) -> None:
    """Draw the item in the URL, or the annotator’s first open item."""
    state = review_at(review_id)
    if state is None:
        st.info("The review in this URL is not stored here.", icon=":material/search_off:")
        st.button("All reviews", icon=":material/arrow_back:", on_click=leave)
        return
    try:
        access.require_name(annotator)  # others’ answers stay hidden, so that reviews are independent
    except AnamnesisError as error:
        st.info(plain(str(error)), icon=":material/lock:")
        st.button("All reviews", icon=":material/arrow_back:", on_click=leave)
        return
    order = state.queue(annotator)
    number = st.query_params.get(ITEM, "")
    chosen = next((candidate for candidate in order if str(candidate.number) == number), None)
    first_open = next((candidate for candidate in order if state.is_open(candidate, annotator)), None)
    item = chosen or first_open or next(iter(order), None)
    if item is not None:
        st.query_params[ITEM] = str(item.number)
    st.header(f"{plain(state.review.name)} · {plain(annotator)}", anchor=False)
    _draw_steps(state, order, item, annotator)
    if state.review.unblinded:
        st.info("This review is unblinded, so answers can no longer be changed. Its figures are under Results.")
        return
    if item is None:
        st.info(
            f"Nothing to do for {plain(annotator)}: no item is assigned to this name, and there is no tie to settle.",
            icon=":material/done_all:",
        )
        return
    _draw_item(state, item, annotator)


def _draw_steps(state: ReviewState, order: list[ReviewItem], item: ReviewItem | None, annotator: str) -> None:
    numbers = [str(entry.number) for entry in order]
    place = numbers.index(str(item.number)) if item else 0
    later = [*order[place + 1 :], *order[:place]]
    next_open = next((str(entry.number) for entry in later if state.is_open(entry, annotator)), None)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("All reviews", icon=":material/arrow_back:", on_click=leave)
        step_buttons(numbers, place, ITEM, more=[("Next unanswered", "skip_next", "u", next_open)])
        if item is not None:
            st.markdown(f":gray[Item {place + 1} of {len(order)}]")
            draw_sheet(state, annotator)
    done = sum(state.complete(entry, annotator) for entry in order)
    progress = state.progress_of(annotator)
    words = f"{done} of {len(order)} answered"
    if progress.ties:
        words += f" · {counted(progress.ties, 'tie')} to settle"
    st.progress(done / max(1, len(order)), text=words)


def _draw_item(state: ReviewState, item: ReviewItem, annotator: str) -> None:
    form = state.form
    blinded = item_for(state, item.item, annotator)
    if blinded is None:
        st.warning("The conversation or case of this item is no longer stored. Skip it.", icon=":material/search_off:")
        return
    of_case = [part for part in _OF_CASE if part in form.shown]
    # who answers a vignette must not see its right answer
    whole_case = blinded.case is not None and of_case == list(_OF_CASE)
    beside_response = ("answer",) if "response" in form.shown else ()
    folded = set(of_case).difference(beside_response) if whole_case else set()
    first = () if form.final else [part for part in form.shown if part not in folded]
    with_dialogue = "dialogue" in form.shown
    dialogue_column, questions_column = st.columns([6, 5], gap="medium")
    with dialogue_column:
        for title, text in material_of(blinded).texts(first):
            with st.container(border=True, gap="small"):
                st.markdown(f"**{title}**  \n" + plain(text.replace("**", "")).replace("\n", "  \n"))
        if form.instruction:
            st.caption(plain(form.instruction))
        if form.final and blinded.case is not None:
            with st.container(border=True):
                st.markdown(plain(blinded.case.vignette))
                draw_pictures(blinded.case, "experts")
        elif form.about == "pair":
            sides = zip(st.columns(2), ("First", "Second"), (blinded.dialogue, blinded.second), strict=True)
            for side, title, dialogue in sides:
                with side:
                    st.markdown(f"**{title}**")
                    draw_messages(dialogue, height=_HEIGHT)
        elif with_dialogue:
            _draw_dialogue(state, item, annotator, blinded)
        if whole_case and not with_dialogue and blinded.case is not None:
            draw_case(blinded.case, open_=True)
    with questions_column:
        draw_questions(state, item, annotator, blinded)
        draw_notes(state, item, annotator, blinded.dialogue)
        if whole_case and with_dialogue and blinded.case is not None:
            draw_case(blinded.case, open_=True)


_OF_CASE: tuple[Shown, ...] = ("vignette", "question", "answer")


def _draw_dialogue(state: ReviewState, item: ReviewItem, annotator: str, blinded: BlindedItem) -> None:
    if not any(isinstance(event, Utterance) for event in blinded.dialogue):
        st.caption("This response was given without a conversation.")
        return
    marks = [
        Mark(quoted.words, quoted.message)
        for (name, person, _), answer in state.newest.items()
        if (name, person) == (item.item, annotator)
        for quoted in answer.quotations
    ]
    height = 420 if state.form.about == "answer" else _HEIGHT
    draw_messages(blinded.dialogue, marks, key=f"experts_chat_{item.number}", height=height)
