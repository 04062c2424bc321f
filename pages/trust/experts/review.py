"""One annotator’s review: an item without its model, the questions on it, notes, and the way to the next item."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from core import access
from core.errors import AnamnesisError, UsageError
from core.events import Utterance
from core.frameworks.base import framework_of
from core.judging.form import CANNOT_JUDGE, NOT_APPLICABLE, FormQuestion, Shown
from core.judging.judgement import Quotation
from core.reviews.answering import quotation_of, record
from core.reviews.baseline import own_question
from core.reviews.items import BlindedItem
from core.reviews.state import COMMENT, HIGHLIGHT, ReviewState
from core.store.database import Store
from core.store.review_records import ReviewItem
from pages.kit.case.pictures import draw_pictures
from pages.kit.conversation import draw_case
from pages.kit.look import counted, plain, show_errors
from pages.kit.messages import Mark, draw_messages, in_one_line
from pages.kit.tables import step_buttons
from pages.kit.visitor import draw_button
from pages.trust.experts.reviews import ITEM, draw_sheet, item_for, leave, review_at

_HEIGHT = 660
"""Height of a conversation in pixels."""
_OPTION_KEYS = "abdefghilmnopqstvwz"
"""Shortcuts of options, without those of steps (j, k, u), of Streamlit (c, r), and of "Cannot judge" (x)."""
_WITHOUT_VALUE = {NOT_APPLICABLE: ("Does not apply", "y"), CANNOT_JUDGE: ("Cannot judge", "x")}
"""Answer that is no option → its label and shortcut."""
_SHORT_ANSWER_CHARS = 24
_SAVED_ON_LEAVING = "Saved when you leave the box"
_OF_CASE: tuple[Shown, ...] = ("vignette", "question", "answer")
ERROR_KEY = "experts_trouble"
"""Session key of an error in a callback, which the next rerun shows."""


@dataclass(frozen=True)
class _Open:
    """An item that an annotator has opened."""

    state: ReviewState
    item: ReviewItem
    annotator: str
    blinded: BlindedItem

    @property
    def key(self) -> str:
        """Session key of the question that has the controls; the first open one by default."""
        return f"experts_focus_{self.state.review.review_id}_{self.annotator}_{self.item.number}"

    def save(
        self, question: str, value: str = "", *, typed: str = "", words: Sequence[Quotation] | None = None
    ) -> None:
        """Save an input (``record``), which is the value or in the text box with the key ``typed``.

        The next rerun shows an error.
        """
        memory = st.session_state
        if typed and not (value := memory[typed].strip()) and question != COMMENT:
            return
        reason = memory.get(f"{self.key}_{question}_why", "")
        choice = not typed and words is None
        seconds = time.time() - memory.get(f"{self.key}_opened", time.time()) if choice else None
        place = self.state.review.review_id, self.item.number, self.annotator
        try:
            record(Store(), *place, question, value, reason, seconds, words)
        except AnamnesisError as error:
            memory[ERROR_KEY] = str(error)
        else:
            if choice:
                memory.pop(self.key, None)

    def marked(self, question: str) -> tuple[Quotation, ...]:
        answer = self.state.newest.get((self.item.item, self.annotator, question))
        return answer.quotations if answer else ()


def _draw_questions(opened: _Open) -> None:
    """Draw every question with its answer; the question in focus has the controls to answer it."""
    state, item, annotator, key = opened.state, opened.item, opened.annotator, opened.key
    due = state.due(item, annotator)
    questions = sorted((q for q in state.asked(item) if q.id in due), key=lambda question: due.index(question.id))
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
                        on_click=st.session_state.update,
                        args=({key: question.id},),
                        help=plain(question.wording),
                    )
                badge = ":orange-badge[tied]" if question.id in unsettled else _badge(question, answer)
                st.markdown(badge, width="content")
            if state.form.final and answer is not None:
                st.markdown(plain(answer))
            elif question.id == focus:
                _draw_answer(opened, question, None if question.id in unsettled else answer)
        if first_open is None:
            change = "" if state.form.final else ", or a number to change an answer"
            st.caption(f":material/check: All answered and saved. Press j for the next item{change}.")
    if error := st.session_state.pop(ERROR_KEY, None):
        st.warning(plain(error), icon=":material/error:")


def _badge(question: FormQuestion, answer: str | None) -> str:
    if answer is None:
        return ":gray-badge[optional]" if question.optional else ":gray-badge[open]"
    label = next((option.label for option in question.options if option.value == answer), answer)
    if question.kind == "scale":
        label = f"{answer} of {question.values[-1]}" if answer in question.values else answer
    short = label if len(label) <= _SHORT_ANSWER_CHARS else f"{label[:_SHORT_ANSWER_CHARS]}…"
    return f":{'orange' if answer == 'no' else 'green'}-badge[{plain(short)}]"


def _draw_answer(opened: _Open, question: FormQuestion, answer: str | None) -> None:
    """Draw the controls for one question; ``answer`` is the stored answer that they change."""
    key, final, case = f"{opened.key}_{question.id}", opened.state.form.final, opened.blinded.case
    if final and case is not None:
        question = own_question(case, question)
    st.markdown(f"**{plain(question.wording)}**")
    if question.explained:
        st.caption(plain(question.explained))
    if question.kind == "span":
        _draw_words(opened, f"{key}_words", question.id)
    elif question.kind == "text" and final:
        with st.form(f"{key}_form", border=False):
            words = st.text_input("Your answer", key=f"{key}_words")
            if st.form_submit_button("Answer", type="primary"):
                opened.save(question.id, words)
                st.rerun()
    elif question.kind == "text":
        st.text_area(
            question.title,
            answer or "",
            key=f"{key}_words",
            label_visibility="collapsed",
            height=90,
            on_change=opened.save,
            args=(question.id,),
            kwargs={"typed": f"{key}_words"},
            placeholder=_SAVED_ON_LEAVING,
        )
    else:
        if answer is not None:
            st.text_input("Why is the answer changed?", key=f"{key}_why", placeholder="Stored with the earlier answer")
        yes_no = question.values == ("yes", "no")
        labels = {option.value: option.label for option in question.options}
        letters = dict(zip(question.values, "yn" if yes_no else _OPTION_KEYS, strict=False))
        with st.container(horizontal=yes_no):
            for value in question.answers:
                label, letter = (labels[value], letters.get(value)) if value in labels else _WITHOUT_VALUE[value]
                draw_button(
                    plain(f"{value} · {label}" if question.kind == "scale" and value != CANNOT_JUDGE else label),
                    "This is the stored answer." if answer == value else "",
                    key=f"{opened.key}_{value}",
                    shortcut=letter,
                    width="content" if yes_no else "stretch",
                    type="primary" if answer == value else "secondary",
                    on_click=opened.save,
                    args=(question.id, value),
                )


def _draw_notes(opened: _Open) -> None:
    key = f"{opened.key}_note"
    stored = opened.state.newest.get((opened.item.item, opened.annotator, COMMENT))
    st.text_area(
        "Comment",
        stored.comment if stored else "",
        key=key,
        height=70,
        on_change=opened.save,
        args=(COMMENT,),
        kwargs={"typed": key},
        placeholder=_SAVED_ON_LEAVING,
    )
    if any(isinstance(event, Utterance) for event in opened.blinded.dialogue):
        count = len(opened.marked(HIGHLIGHT))
        label = f"Highlighted words ({count})" if count else "Highlight words"
        with st.expander(label, icon=":material/ink_highlighter:"):
            _draw_words(opened, key, HIGHLIGHT)


def _draw_words(opened: _Open, key: str, question: str) -> None:
    """Draw the words that an annotator marked for a question, and the form to mark more."""
    marked, dialogue = opened.marked(question), opened.blinded.dialogue
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
                on_click=opened.save,
                args=(question,),
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
                opened.save(question, words=tuple(dict.fromkeys([*marked, new])))
                st.rerun()


def draw_review(review_id: str, annotator: str) -> None:
    """Draw the item in the URL, or the annotator’s first open item."""
    try:
        if (state := review_at(review_id)) is None:
            raise UsageError("The review in this URL is not stored here.")
        access.require_name(annotator)  # others’ answers stay hidden, so that reviews are independent
    except AnamnesisError as error:
        st.info(plain(str(error)), icon=":material/lock:")
        st.button("All reviews", icon=":material/arrow_back:", on_click=leave)
        return
    order = state.queue(annotator)
    by_number = {str(item.number): item for item in order}
    first_open = next((item for item in order if state.is_open(item, annotator)), None)
    item = by_number.get(st.query_params.get(ITEM, "")) or first_open or next(iter(order), None)
    st.header(f"{plain(state.review.name)} · {plain(annotator)}", anchor=False)
    _draw_steps(state, order, item, annotator)
    if state.review.unblinded:
        st.info("This review is unblinded, so answers can no longer be changed. Its figures are under Results.")
    elif item is None:
        st.info(
            f"Nothing to do for {plain(annotator)}: no item is assigned to this name, and there is no tie to settle.",
            icon=":material/done_all:",
        )
    elif (blinded := item_for(state, item.item, annotator)) is None:
        st.warning("The conversation or case of this item is no longer stored. Skip it.", icon=":material/search_off:")
    else:
        _draw_item(_Open(state, item, annotator, blinded))


def _draw_steps(state: ReviewState, order: list[ReviewItem], item: ReviewItem | None, annotator: str) -> None:
    if item is not None:
        st.query_params[ITEM] = str(item.number)
    place = order.index(item) if item else 0
    later = [*order[place + 1 :], *order[:place]]
    next_open = next((str(entry.number) for entry in later if state.is_open(entry, annotator)), None)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("All reviews", icon=":material/arrow_back:", on_click=leave)
        numbers = [str(entry.number) for entry in order]
        step_buttons(numbers, place, ITEM, more=[("Next unanswered", "skip_next", "u", next_open)])
        if item is not None:
            st.markdown(f":gray[Item {place + 1} of {len(order)}]")
            draw_sheet(state, annotator)
    done = sum(state.complete(entry, annotator) for entry in order)
    ties = state.progress_of(annotator).ties
    words = f"{done} of {len(order)} answered" + (f" · {counted(ties, 'tie')} to settle" if ties else "")
    st.progress(done / max(1, len(order)), text=words)


def _draw_item(opened: _Open) -> None:
    form, blinded, case = opened.state.form, opened.blinded, opened.blinded.case
    of_case = [part for part in _OF_CASE if part in form.shown]
    # who answers a vignette must not see its right answer
    whole_case = case if of_case == list(_OF_CASE) else None
    next_to_response = ("answer",) if "response" in form.shown else ()
    folded = set(of_case).difference(next_to_response) if whole_case else set()
    dialogue_column, questions_column = st.columns([6, 5], gap="medium")
    with dialogue_column:
        for title, text in blinded.material.texts([part for part in form.shown if part not in folded]):
            if not form.final:
                with st.container(border=True, gap="small"):
                    st.markdown(f"**{title}**  \n" + plain(text.replace("**", "")).replace("\n", "  \n"))
        if form.instruction:
            st.caption(plain(form.instruction))
        if form.final and case is not None:
            with st.container(border=True):
                st.markdown(plain(case.vignette))
                draw_pictures(case, "experts")
        elif form.about == "pair":
            sides = zip(st.columns(2), ("First", "Second"), (blinded.dialogue, blinded.second), strict=True)
            for side, title, dialogue in sides:
                with side:
                    st.markdown(f"**{title}**")
                    draw_messages(dialogue, height=_HEIGHT)
        elif "dialogue" in form.shown:
            if not any(isinstance(event, Utterance) for event in blinded.dialogue):
                st.caption("This response was given without a conversation.")
            else:
                asked = [*(question.id for question in form.questions), HIGHLIGHT]
                marks = [Mark(quoted.words, quoted.message) for id_ in asked for quoted in opened.marked(id_)]
                height = 420 if form.about == "answer" else _HEIGHT
                draw_messages(blinded.dialogue, marks, key=f"experts_chat_{opened.item.number}", height=height)
    with questions_column:
        _draw_questions(opened)
        _draw_notes(opened)
    if whole_case is not None:
        with questions_column if "dialogue" in form.shown else dialogue_column:
            draw_case(whole_case, open_=True)
