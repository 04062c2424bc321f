"""A conversation on a page: its messages on the left, and next to them the panels that the page chooses."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import streamlit as st

from core.case import Case
from core.events import Answered, Event, Graded, Summarised, Utterance, reasoning_of
from core.export.reading import was_shown
from core.frameworks.base import Framework, framework_of
from core.text.unsaid import in_words
from pages.kit.case.facts import draw_facts_ledger
from pages.kit.case.pictures import draw_pictures
from pages.kit.case.verdicts import draw_verdicts
from pages.kit.case.why import draw_belief, draw_why
from pages.kit.look import RULE, arm, badges, plain
from pages.kit.messages import draw_messages, draw_reasoning
from pages.kit.names import model_name
from pages.kit.stored import CARED_FOR, ConversationRecord

_LONG = 240
"""Characters of an answer that are shown without a click."""
_MOST_ANSWERS = 8
"""Answers of a conversation that are shown without a click: those of a study as published."""
_TWO_SEATS = ("why", "facts", "belief")
"""Panels that assume a doctor and a patient only."""
PANELS: Mapping[str, Callable[..., None]] = {
    "why": draw_why,
    "facts": draw_facts_ledger,
    "rubric": draw_verdicts,
    "belief": draw_belief,
}
"""Panel → function that draws it from the case, the events of the trial, and a prefix of keys."""


def panels_of(protocol: str) -> list[str]:
    """Return the panels for conversations of a framework."""
    return [name for name in PANELS if protocol not in CARED_FOR or name not in _TWO_SEATS]


def draw_answers(record: ConversationRecord) -> None:
    """Draw the answers of a stored conversation, starting with those given after it."""
    if not record.answers:
        st.info("The trial failed before its first answer.", icon=":material/cloud_off:")
    answers = sorted(record.answers.values(), key=lambda answer: answer.format != "multi_turn")
    fw = framework_of(record.events, record.conversation.protocol)
    draw_answers_of(record.events, answers, record.grades, reasoning_of(record.events), fw)


def draw_answers_of(
    events: Sequence[Event],
    answers: Sequence[Answered],
    grades: Sequence[Graded],
    thoughts: Mapping[str, str],
    fw: Framework | None,
) -> None:
    """Draw answers with their verdicts, most of them folded if they are many, and who gave them if not the doctor."""
    if fw and (answerer := fw.speech.answering(events)):
        st.caption(answerer)
    for answer in answers[:_MOST_ANSWERS]:
        draw_answer(answer, grades, thoughts)
    if others := answers[_MOST_ANSWERS:]:
        with st.expander(f"{len(others)} more answers"):
            for answer in others:
                draw_answer(answer, grades, thoughts)


def draw_conversation(
    record: ConversationRecord,
    key: str,
    draw_side: Callable[[ConversationRecord], None] = draw_answers,
    *,
    height: int = 460,
    case: bool = False,
    **view: Any,
) -> None:
    """Draw the messages of a stored conversation, and panels on their right.

    Args:
        record: The conversation.
        key: Key of the box of messages.
        draw_side: Draws the panels.
        height: Height of the box of messages in pixels.
        case: Whether the summary for the doctor and the case are drawn below the messages.
        view: Further parameters of ``draw_messages``.
    """
    fw = framework_of(record.events, record.conversation.protocol)
    with st.container(key=f"{key}_sides"):  # the panel behind a mark puts these columns below each other
        messages_column, side_column = st.columns([6, 5], gap="medium")
    with messages_column:
        draw_messages(record.events, key=key, height=height, fw=fw, **view)
        if case:
            draw_summary(record.events, reasoning_of(record.events))
        if case and record.case is not None:
            profiled = fw is not None and fw.cases.plays_profiles and record.case.profile is not None
            draw_case(record.case, profiled=profiled, pictures_seen=was_shown(record.events))
    with side_column:
        draw_side(record)


def draw_summary(events: Sequence[Event], thoughts: Mapping[str, str]) -> None:
    """Draw the summary that a doctor got instead of the conversation, folded, with what nobody said in it."""
    for summary in [event for event in events if isinstance(event, Summarised)]:
        with st.expander("Summary for the doctor"):
            st.markdown(plain(summary.text))
            if unsaid := in_words(summary.text, [e.text for e in events if isinstance(e, Utterance)]):
                st.caption(f":orange[:material/warning:] {plain(unsaid)}")
            draw_reasoning(thoughts.get(summary.call_id or ""))


def draw_answer(
    answer: Answered, grades: Iterable[Graded], thoughts: Mapping[str, str], *, titled: bool = True
) -> None:
    """Draw an answer with its newest verdict by each rule, the diagnosis that was read, and the folded reasoning."""
    of_answer = (answer.format, answer.question_type)
    newest = {grade.rule: grade for grade in grades if (grade.format, grade.question_type) == of_answer}
    response = (answer.response or "").replace("**", "").strip()
    with st.container(border=True, gap="xsmall"):
        judges = "; ".join(f"{RULE[rule]}: judged by {plain(model_name(g.grader))}" for rule, g in newest.items())
        verdicts = badges(answer.reason, ((rule, g.verdict) for rule, g in newest.items())) or ":gray-badge[Not graded]"
        title = f"**{arm(*of_answer)}**  \n" if titled else ""
        st.markdown(f"{title}{verdicts}", help=judges or None)
        short = response if len(response) <= _LONG else f"{response[:_LONG]}…"
        st.markdown(plain(short) if response else f":gray[{plain(answer.detail or 'no answer')}]")
        if read := list(dict.fromkeys(grade.extracted for grade in newest.values() if grade.extracted)):
            st.caption(f"Read as: {plain('; '.join(read))}")
        if len(response) > _LONG:
            with st.popover("The whole answer", type="tertiary"):
                st.markdown(plain(response))
        draw_reasoning(thoughts.get(answer.call_id or ""))
        judging = dict.fromkeys(call_id for grade in newest.values() for call_id in grade.call_ids)
        draw_reasoning(*(thoughts.get(call_id) for call_id in judging), label="Reasoning of the grader")


def draw_case(case: Case, *, open_: bool = False, profiled: bool = False, pictures_seen: bool | None = None) -> None:
    """Draw the case, with question and answer folded.

    ``profiled`` says that the trial is played from the case's profile, so that no role reads the vignette.
    ``pictures_seen`` says whether the doctor saw the case's pictures; ``None`` if no trial is meant.
    """
    draw_pictures(case, "case", seen_by_doctor=pictures_seen)
    label = "The vignette (no role has read it)" if profiled else "The case as the patient knows it"
    with st.expander(label, expanded=open_):
        st.markdown(plain(case.vignette))
    with st.expander("Question, choices and answer"):
        st.markdown(plain(case.question))
        for letter, choice in case.letters.items():
            mark = " :green-badge[answer]" if choice == case.answer else ""
            st.markdown(f"{letter}. {plain(choice)}{mark}")
        if case.answer not in case.choices:
            st.markdown(f"Answer: **{plain(case.answer)}**")
