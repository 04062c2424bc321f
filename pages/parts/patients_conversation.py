"""A conversation of the Patients page, opened in place: folded around one message, every hit in it marked."""

from collections.abc import Sequence

import streamlit as st

from core.events import Answered, Event, Utterance
from core.frameworks.base import Framework, framework_of
from core.measures.patients.rules import ABOUT
from core.store.queries.patients import Mark
from pages.parts.care_transcript import around
from pages.parts.look import ROLE_ICON, plain
from pages.parts.navigation import TRANSCRIPTS
from pages.parts.patients_data import is_stored, marks_of_trial
from pages.parts.transcript import draw_chat
from pages.parts.transcripts_data import reading


def draw_conversation(trial_id: str, turn: int) -> None:
    """Draw a stored conversation, message ``turn`` (from 0) in its middle, with a list of all that is wrong in it."""
    shown = reading(trial_id) if is_stored(trial_id) else None
    if shown is None:
        st.info("The conversation in this address is not stored here.", icon=":material/search_off:")
        return
    marks = marks_of_trial(trial_id)
    with st.container(border=True, key="patients_open"):
        right = f" · right answer **{plain(shown.talk.answer)}**" if shown.talk.answer else ""
        st.markdown(f":gray[{plain(shown.talk.case_key)} · trial {shown.talk.trial + 1}{right}]")
        left, beside = st.columns([3, 2], gap="medium")
        with left:
            _draw_around([event for event in shown.events if not isinstance(event, Answered)], marks, turn)
        with beside:
            _draw_marks(marks)
            st.page_link(TRANSCRIPTS, label="The whole conversation", icon=":material/forum:",
                         query_params={"trial": trial_id})  # fmt: skip
            if shown.case is not None:
                with st.expander("The case’s vignette"):
                    st.markdown(plain(shown.case.vignette))


def marked_at(text: str, marks: Sequence[Mark]) -> str:
    """Return a message as harmless Markdown with the words of its marks on a coloured ground; overlaps run together."""
    parts, end = [], 0
    for mark in sorted(marks, key=lambda mark: (mark.start, -mark.end)):
        start = max(mark.start, end)
        if mark.end > start:
            parts += [_between(text[end:start]), f":orange-background[**{plain(text[start : mark.end].strip())}**]"]
            end = mark.end
    return "".join([*parts, _between(text[end:])])


def _between(text: str) -> str:
    """Return words within a line as harmless Markdown: a space before them is no indent."""
    said = text.lstrip(" ")
    return f"{' ' * (said != text)}{plain(said)}"


def _draw_around(events: Sequence[Event], marks: Sequence[Mark], turn: int) -> None:
    known = framework_of(events)
    before, lead, here, behind, rest = around(events, turn)
    _folded(before, "Messages before these", marks, known=known)
    _draw(lead, marks, known=known)
    with st.container(border=True, key="patients_here", gap="xxsmall"):
        _draw(here, marks, known=known)
    _draw(behind, marks, known=known)
    _folded(rest, "Messages after these", marks, known=known)


def _folded(events: Sequence[Event], label: str, marks: Sequence[Mark], *, known: Framework | None) -> None:
    said = {event.turn for event in events if isinstance(event, Utterance)}
    if not said:
        _draw(events, marks, known=known)
        return
    hits = sum(mark.turn in said for mark in marks)
    with st.expander(f"{label} ({len(said)}{f', {hits} hits' if hits > 1 else ', 1 hit' if hits else ''})"):
        _draw(events, marks, known=known)


def _draw(events: Sequence[Event], marks: Sequence[Mark], *, known: Framework | None) -> None:
    for event in events:
        wrong = [mark for mark in marks if isinstance(event, Utterance) and mark.turn == event.turn]
        if isinstance(event, Utterance) and wrong:
            with st.chat_message("user", avatar=ROLE_ICON[event.role]):
                st.markdown(marked_at(event.text, wrong))
                st.caption(" · ".join(dict.fromkeys(_why(mark) for mark in wrong)))
        else:
            draw_chat([event], None, known=known)


def _why(mark: Mark) -> str:
    return f"{ABOUT[mark.kind].name}{f' ({plain(mark.detail)})' if mark.detail else ''}"


def _draw_marks(marks: Sequence[Mark]) -> None:
    if not marks:
        st.caption("The rules find nothing wrong in this conversation.")
        return
    st.markdown(f"**{len(marks)} {'hit' if len(marks) == 1 else 'hits'} in this conversation**")
    lines = (f"- Message {mark.turn + 1}, {_why(mark)}: “{plain(' '.join(mark.words.split()))}”" for mark in marks)
    st.markdown("\n".join(lines))
