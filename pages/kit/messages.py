"""The messages of a conversation: numbered, with their speaker, with quoted words marked, around a chosen message."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.events import Assessed, Called, Ended, Event, Failed, Finished, Started, Utterance, reasoning_of
from core.frameworks.base import Framework, framework_of
from core.frameworks.seats import seat_titles
from core.frameworks.speech import ShownMessage, Speech
from core.live.session import Draft
from pages.kit.look import FORMAT, QUESTION_TYPE, ROLE_ICON, arm_in_words, first_words, plain

_GOES = {
    "staff": ("violet", ROLE_ICON["staff"]),
    "both": ("blue", ":material/groups:"),
    "end": ("gray", ":material/flag:"),
    "nowhere": ("orange", ":material/block:"),
}
"""Addressee of a message → colour and icon of its badge; other addressees have the icon of their role."""
_FIRST_WORDS = 70
"""Characters of a message that is named in one line."""
_AROUND = 2
"""Messages before and after the chosen one that are shown without a click."""
_OPEN, _CLOSE = "\ue000", "\ue001"
"""Private characters that stand for the two ends of a mark while the text is escaped."""
_BETWEEN = re.compile(f"{_CLOSE}([ \\t]*){_OPEN}")
MESSAGE = "message"
"""URL parameter: the number of the message that a conversation is opened at, from 1."""


class Mark(NamedTuple):
    """Words of a message that are highlighted.

    ``turn`` is the number of the message, from 0; ``None`` stands for every message. ``start`` is the offset of the
    words in it; without it all occurrences are marked. ``why`` is drawn under the message, in Markdown.
    """

    words: str
    turn: int | None = None
    start: int | None = None
    why: str = ""


def asked_message() -> int | None:
    """Return the number of the message in the URL, from 0."""
    number = st.query_params.get(MESSAGE, "")
    return int(number) - 1 if re.fullmatch("[0-9]{1,6}", number) else None


def draw_messages(
    events: Sequence[Event],
    marks: Iterable[Mark] = (),
    *,
    key: str | None = None,
    height: int | None = None,
    at: int | None = None,
    here: str = "",
    fw: Framework | None = None,
    thoughts: Mapping[str, str] | None = None,
    draft: Draft | None = None,
    waiting: str | None = None,
) -> None:
    """Draw the messages and the other events of a conversation.

    Args:
        events: Events of the trial, or some of them.
        marks: Words to highlight.
        key: Key of the box.
        height: Height of the box in pixels; without it there is no box.
        at: Number of the message to open, from 0; messages far from it are folded, and there is no box.
        here: Caption of the message to open.
        fw: Framework of the trial; by default read from the events.
        thoughts: Call id → reasoning, drawn folded under each message; by default read from the events. Empty if a
            person plays, who must not read it.
        draft: The message that is being written.
        waiting: What a running conversation waits for; ``None`` if it is not watched. A watched box shows its end.
    """
    fw = fw or framework_of(events)
    reasoning = reasoning_of(events) if thoughts is None else thoughts
    view = _Messages(fw.speech if fw else Speech(), reasoning, tuple(marks))
    if at is not None and any(isinstance(event, Utterance) and event.turn == at for event in events):
        far_before, just_before, chosen, just_after, far_after = around(events, at)
        view.draw_folded(far_before, "Messages before these")
        view.draw(just_before)
        with st.container(border=True, key=key and f"{key}_here", gap="xxsmall"):
            if here:
                st.caption(here)
            view.draw(chosen)
        view.draw(just_after)
        view.draw_folded(far_after, "Messages after these")
        return
    boxed = height is not None
    # without autoscroll=False a box of fixed height starts at its end
    with st.container(
        height=height or "content", border=boxed, gap="xxsmall", autoscroll=boxed and waiting is not None, key=key
    ):
        view.draw(events)
        if draft is not None and draft.purpose == "dialogue":
            view.draw_draft(draft, hidden=thoughts is not None)
        if waiting:
            st.caption(f":material/more_horiz: {plain(waiting)}")


def around(events: Sequence[Event], turn: int) -> tuple[list[Event], ...]:
    """Divide events into five lists: far before, just before, at, just after, and far after a message.

    Events without a message number (an ending, a rating) belong to the message before them.
    """
    parts: tuple[list[Event], ...] = ([], [], [], [], [])
    current = 0
    for event in events:
        number = getattr(event, "turn", None)
        current = current if number is None else number
        before, after = max(0, turn - current), max(0, current - turn)
        parts[2 - (before > 0) - (before > _AROUND) + (after > 0) + (after > _AROUND)].append(event)
    return parts


@dataclass(frozen=True)
class _Messages:
    speech: Speech
    thoughts: Mapping[str, str]
    marks: tuple[Mark, ...]

    def draw(self, events: Sequence[Event]) -> None:
        assessments = {event.turn: event for event in events if isinstance(event, Assessed) and event.turn is not None}
        failed_call_id = ""
        for event in events:
            match event:
                case Utterance():
                    self._draw_utterance(event, assessments.get(event.turn))
                case Called():
                    failed_call_id = event.call.call_id if event.call.error else ""
                case Ended():
                    st.caption(f":material/flag: The conversation ended because {self.speech.ending(event)}.")
                case Assessed(turn=None):
                    words_of_rater = f": {plain(event.words)}" if event.words else "."
                    st.caption(f":material/favorite: {plain(self.speech.remark(event))}{words_of_rater}")
                    draw_reasoning(self.thoughts.get(event.call_id or ""))
                case Failed():
                    _draw_failure(event)
                    draw_reasoning(self.thoughts.get(failed_call_id))
                case _:
                    pass
        kinds = {type(event) for event in events}
        if {Started, Finished} <= kinds and not kinds & {Utterance, Ended}:
            st.caption("This trial has no conversation.")

    def draw_folded(self, events: Sequence[Event], label: str) -> None:
        turns = {event.turn for event in events if isinstance(event, Utterance)}
        if not turns:
            self.draw(events)
            return
        marks = sum(mark.turn in turns for mark in self.marks)
        count = f", {marks} marked" if marks else ""
        with st.expander(f"{label} ({len(turns)}{count})"):
            self.draw(events)

    def draw_draft(self, draft: Draft, *, hidden: bool) -> None:
        spoken = self.speech.spoken(draft.role, draft.text)
        with _bubble(draft.role):
            if draft.thought and not hidden:
                draw_reasoning(draft.thought, label="Reasoning" if spoken.strip() else "Thinking…")
            st.markdown(f"{_heading(draft.role)}{plain(spoken)} ▌")

    def _draw_utterance(self, event: Utterance, assessed: Assessed | None) -> None:
        """Draw a message with its assessment by the framework's rules, and the model's reasoning."""
        remark = self.speech.remark(assessed) if assessed else ""
        marks = [mark for mark in self.marks if mark.turn in (None, event.turn)]
        heading = _heading(event.role, event.turn + 1)
        with _bubble(event.role):
            for part in self.speech.shown(event.role, event.text, assessed):
                if part.to:
                    _draw_addressed(part, assessed, remark, heading, marks)
                else:
                    st.markdown(f"{heading}{marked(part.text, marks)}")
                    if remark:
                        st.caption(f":material/flag: {plain(remark)}")
                heading = ""
            if reasons := list(dict.fromkeys(mark.why for mark in marks if mark.why)):
                st.caption(" · ".join(reasons))
            draw_reasoning(self.thoughts.get(event.call_id or ""))


def in_one_line(message: Utterance, fw: Framework | None) -> str:
    """Return the number, the speaker and the first words of a message."""
    words = fw.speech.spoken(message.role, message.text) if fw else message.text
    return f"{message.turn + 1} · {seat_titles().get(message.role, message.role)}: {first_words(words, _FIRST_WORDS)}"


def _heading(role: str, number: int | None = None) -> str:
    title = plain(seat_titles().get(role, role))
    return f":small[:gray[{title if number is None else f'{number} · {title}'}]]  \n"


def _bubble(role: str) -> DeltaGenerator:
    # Streamlit shades the bubble of "user": the patient's side
    return st.chat_message("user" if role == "patient" else "assistant", avatar=ROLE_ICON.get(role))


def _draw_failure(event: Failed) -> None:
    role, _, at = event.where.partition(" ")
    format_, _, question_type = at.partition(":")
    in_arm = format_ in FORMAT and question_type in QUESTION_TYPE
    where = f"{role.capitalize()} ({arm_in_words(at)})" if in_arm else plain(event.where.capitalize())
    st.warning(f"{where}: {plain(event.message)}", icon=":material/cloud_off:")


def _draw_addressed(
    message: ShownMessage, assessment: Assessed | None, remark: str, heading: str, marks: Sequence[Mark]
) -> None:
    """Draw a message with its addressee, and the unedited text: at once if it was assessed, otherwise on a click."""
    colour, icon = _GOES.get(message.goes, ("blue", ROLE_ICON.get(message.goes, ":material/forward:")))
    badge_ = f"{heading}:{colour}-badge[{icon} {message.to}]"
    st.markdown(f"{badge_}  \n{marked(message.text, marks)}" if message.text else badge_)
    if assessment is not None:
        quote = f" “{plain(assessment.words)}”" if assessment.words else ""
        st.caption(f":orange[:material/warning:] {plain(remark)}{quote}")
    if message.whole is None:
        return
    if assessment is not None and message.goes != "nowhere":
        st.caption(f"As it was written: {marked(message.whole, marks)}")
    elif assessment is None:
        with st.popover("As it was written", type="tertiary"):
            st.markdown(marked(message.whole, marks))


def draw_reasoning(*thoughts: str | None, label: str = "Reasoning") -> None:
    """Draw the reasoning of models, folded; nothing if there is none."""
    if stored := [thought for thought in thoughts if thought]:
        with st.expander(label, icon=":material/psychology:"):
            st.caption("Stored with the call. No other role reads it, and it is not judged.")
            for thought in stored:
                st.markdown(plain(thought))


def marked(text: str, marks: Iterable[Mark]) -> str:
    """Return a message as escaped Markdown with marked words highlighted; marks that touch become one.

    A mark ends with its line, because a blank line inside the brackets would end the paragraph and show them.
    """
    text = text.translate({ord(_OPEN): None, ord(_CLOSE): None})
    highlighted = [False] * len(text)
    for mark in marks:
        if not (words := mark.words.split()):
            continue
        pattern = re.compile(r"\s+".join(map(re.escape, words)), re.IGNORECASE)  # "chest pain" also finds "Chest\npain"
        at = None if mark.start is None else pattern.match(text, mark.start + mark.words.index(words[0]))
        for found in [at] if at else pattern.finditer(text):
            highlighted[slice(*found.span())] = [letter != "\n" for letter in found[0]]
    parts = []
    for inside, letters in groupby(zip(highlighted, text, strict=True), key=itemgetter(0)):
        part = "".join(letter for _, letter in letters)
        parts.append(f"{_OPEN}{part}{_CLOSE}" if inside else part)
    joined = _BETWEEN.sub(r"\1", "".join(parts))
    return plain(joined).replace(_OPEN, ":orange-background[").replace(_CLOSE, "]")
