"""A conversation of the CARE page, opened in place: the message to look at with what stands around it, the answers."""

from collections.abc import Mapping, Sequence

import streamlit as st

from core.events import Answered, Event, Utterance, reasoning_of
from core.frameworks.base import Framework, framework_of
from pages.parts.look import plain
from pages.parts.navigation import TRANSCRIPTS
from pages.parts.transcript import draw_chat
from pages.parts.transcripts_data import Reading, reading
from pages.parts.transcripts_read import draw_answer

_AROUND = 2
"""Messages before and behind the one to look at that are shown at once."""
_CHAT = 460
"""Pixels of a conversation that is shown from its beginning."""


def draw_conversation(trial_id: str, turn: int | None, note: str) -> None:
    """Draw a stored conversation, folded around message ``turn`` (from 0) where one is to be looked at.

    ``note`` says in Markdown what this conversation is shown for.
    """
    shown = reading(trial_id)
    if shown is None:
        st.info("The conversation in this address is not stored here.", icon=":material/search_off:")
        return
    with st.container(border=True, key=f"care_open_{trial_id}"):
        st.markdown(note)
        right = f" · right answer **{plain(shown.talk.answer)}**" if shown.talk.answer else ""
        st.markdown(f":gray[{plain(shown.talk.case_key)} · trial {shown.talk.trial + 1}{right}]")
        left, beside = st.columns([6, 5], gap="medium")
        with left:
            _draw_chat(shown.events, turn, framework_of(shown.events, shown.talk.protocol))
        with beside:
            _draw_answers(shown)
            st.page_link(TRANSCRIPTS, label="The whole conversation", icon=":material/forum:",
                         query_params={"trial": trial_id})  # fmt: skip


def around(
    events: Sequence[Event], turn: int
) -> tuple[list[Event], list[Event], list[Event], list[Event], list[Event]]:
    """Divide events by message: far before, just before, the message to look at, just behind, far behind it.

    What happened without a message of its own (an ending, a rating) goes with the message before it.
    """
    parts: tuple[list[Event], ...] = ([], [], [], [], [])
    here = 0
    for event in events:
        here = getattr(event, "turn", here)
        away = here - turn
        place = 0 if away < -_AROUND else 1 if away < 0 else 2 if away == 0 else 3 if away <= _AROUND else 4
        parts[place].append(event)
    return parts  # type: ignore[return-value]


def _draw_chat(events: Sequence[Event], turn: int | None, known: Framework | None) -> None:
    said = [event for event in events if not isinstance(event, Answered)]
    if turn is None:
        # from its beginning: a chat of fixed height would else be scrolled to its end
        with st.container(height=_CHAT, border=False, gap="xxsmall", autoscroll=False, key="care_chat"):
            draw_chat(said, None, known=known)
        return
    thoughts = reasoning_of(said)  # a call comes before its message, and so may fall into the part before
    before, lead, here, behind, rest = around(said, turn)
    _folded(before, "Messages before these", thoughts, known)
    draw_chat(lead, None, known=known, thoughts=thoughts)
    with st.container(border=True, key="care_here", gap="xxsmall"):
        st.caption(f":material/arrow_downward: Message {turn + 1}, the one that shows it")
        draw_chat(here, None, known=known, thoughts=thoughts)
    draw_chat(behind, None, known=known, thoughts=thoughts)
    _folded(rest, "Messages after these", thoughts, known)


def _folded(events: Sequence[Event], label: str, thoughts: Mapping[str, str], known: Framework | None) -> None:
    count = sum(isinstance(event, Utterance) for event in events)
    if count:
        with st.expander(f"{label} ({count})"):
            draw_chat(events, None, known=known, thoughts=thoughts)
    else:
        draw_chat(events, None, known=known, thoughts=thoughts)


def _draw_answers(shown: Reading) -> None:
    """Draw the answers, the one after the conversation first."""
    answers = {(e.format, e.question_type): e for e in shown.events if isinstance(e, Answered)}
    if not answers:
        st.caption("No answer: the trial broke off before.")
    for _, answer in sorted(answers.items(), key=lambda item: item[0][0] != "multi_turn"):
        draw_answer(answer, shown)
