"""What is behind a mark of a figure: the list of its cases, and the conversations of the chosen case.

A stored conversation is drawn with the messages around the relevant one open, and with its passages marked.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pandas as pd
import streamlit as st

from core.events import Answered, Event, Utterance, reasoning_of
from core.frameworks.base import framework_of
from core.store.queries.trials import Conversation
from pages.kit.chat import draw_answers_reasoning, draw_chat
from pages.kit.controls import choose
from pages.kit.look import ROLE_ICON, RULE, RULE_SHORT, VERDICT, arm, badge, plain
from pages.kit.names import case_name, model_name
from pages.kit.navigation import link
from pages.kit.stored import ConversationRecord, reading
from pages.kit.tables import draw_table

_FEW = 8
"""Rows up to which a list is shown at full height."""
_BEHIND = "behind"
"""URL parameter that is set when a mark was clicked."""
_SIDE_PANEL_STYLE = """<style>
.st-key-behind_beside {
  position: fixed; z-index: 90; overflow-y: auto; right: 0; bottom: 0; top: 3.5rem; width: 26rem;
  padding: 0.75rem 1rem 2rem 1.25rem; background: GROUND; border-left: 1px solid BORDER;
}
.st-key-behind_beside [data-testid="stColumn"] { flex: 1 1 9rem; min-width: 9rem; }
.st-key-behind_beside .st-key-behind_sides [data-testid="stColumn"] { min-width: 100%; }
[data-testid="stMainBlockContainer"] { padding: 3.5rem 27rem 2rem 1.5rem; }
@media (max-width: 1100px) {
  .st-key-behind_beside { top: 40vh; left: 0; width: auto; border-left: none; border-top: 1px solid BORDER; }
  [data-testid="stMainBlockContainer"] { padding: 3.5rem 1rem 65vh; }
}
</style>"""
"""The panel stands next to the figures in a wide window, otherwise over the lower part of the window."""
_AROUND = 2
"""Messages before and after the relevant one that are shown without a click."""
_CHAT = 460
"""Height in pixels of a conversation that is shown from its beginning."""
_LONG = 240
"""Characters of an answer that are shown without a click."""


def open_behind() -> None:
    st.query_params[_BEHIND] = "yes"


@contextmanager
def behind(title: str, hint: str) -> Iterator[None]:
    """Draw the panel behind a mark under its title: below the figures, or next to them after a click until closed.

    The URL stores whether the panel is open. The ``hint`` says how to choose a mark.
    """
    is_open = _BEHIND in st.query_params
    with st.container(key=f"behind_{'beside' if is_open else 'below'}"):
        if is_open:
            theme = f"theme.{st.context.theme.type or 'light'}"
            ground, border = (st.get_option(f"{theme}.{part}Color") for part in ("background", "border"))
            st.html(_SIDE_PANEL_STYLE.replace("GROUND", ground).replace("BORDER", border))
        with st.container(horizontal=True, wrap=False, vertical_alignment="center"):
            st.header(title, anchor=False, width="stretch")
            if is_open:
                st.button(
                    "Close", icon=":material/close:", key="behind_close", on_click=clear_parameters, args=(_BEHIND,)
                )
        st.caption(hint)
        yield


def choose_case(
    table: pd.DataFrame,
    name: str,
    key: str,
    columns: Mapping[str, Any] | None = None,
    *,
    of: str = "Case",
    ids: Sequence[str] | None = None,
    download: str = "Download these cases as CSV",
) -> str | None:
    """List cases and return the clicked one, if it is still listed; the URL parameter ``key`` stores the choice.

    ``of`` is the column with the case names; ``ids`` replace them if no column identifies the rows.
    """
    row_ids = table[of].astype(str).tolist() if ids is None else list(ids)
    draw_table(
        table,
        name,
        columns,
        on_row=lambda row: st.query_params.update({key: row_ids[row]}),
        height=290 if len(table) > _FEW else "content",
        download=download,
        noted=False,
    )
    chosen = st.query_params.get(key)
    return chosen if chosen in row_ids else None


def clear_parameters(*keys: str) -> None:
    for key in keys:
        st.query_params.pop(key, None)


def excluded_in_words(reasons: Mapping[Any, int]) -> str:
    """Return the excluded verdicts with their counts, as a list in words."""

    def words(reason: Any, count: int) -> str:
        name = VERDICT[reason][0].partition(",")[0].lower() if reason in VERDICT else str(reason)
        return f"{count:,} {name}{'s' if name.endswith('error') and count > 1 else ''}"

    return ", ".join(words(reason, count) for reason, count in reasons.items() if count)


def draw_ways_on(trial_id: str, **cell: str) -> None:
    """Draw links to a conversation's transcript and to the case debugger; ``cell`` are parameters of the debugger."""
    with st.container(horizontal=True):
        link("transcripts", "Read the transcript", "forum", trial=trial_id)
        link("debugger", "Open in the case debugger", "bug_report", trial=trial_id, **cell)


class Passage(NamedTuple):
    """A marked passage of a message: its start and end (exclusive) as offsets, and the reason in Markdown."""

    start: int
    end: int
    why: str


def draw_conversation(
    trial_id: str,
    key: str,
    draw_side: Callable[[ConversationRecord], None],
    *,
    turn: int | None = None,
    marks: Mapping[int, Sequence[Passage]] | None = None,
    note: str = "",
    here: str = "",
) -> None:
    """Draw a stored conversation; if ``turn`` is given, messages far from it are folded.

    Args:
        trial_id: Trial of the conversation.
        key: Prefix of the container's key.
        draw_side: Draws the right column, above the link to the transcript.
        turn: Number of the relevant message, from 0.
        marks: Message number → its marked passages.
        note: Why this conversation is shown, in Markdown.
        here: Caption of the relevant message.
    """
    conversation = reading(trial_id)
    if conversation is None:
        st.info("The conversation in this address is not stored here.", icon=":material/search_off:")
        return
    fw = framework_of(conversation.events, conversation.conversation.protocol)
    messages = [event for event in conversation.events if not isinstance(event, Answered)]
    thoughts = reasoning_of(messages)  # of all: a call precedes its message and may fall into an earlier part
    passages_of = marks or {}

    def draw(events: Sequence[Event]) -> None:
        if not any(isinstance(event, Utterance) and passages_of.get(event.turn) for event in events):
            draw_chat(events, None, fw=fw, thoughts=thoughts)
            return
        for event in events:
            passages = passages_of.get(event.turn) if isinstance(event, Utterance) else None
            if isinstance(event, Utterance) and passages:
                with st.chat_message("user", avatar=ROLE_ICON[event.role]):
                    st.markdown(marked_at(event.text, passages))
                    st.caption(" · ".join(dict.fromkeys(passage.why for passage in passages)))
            else:
                draw_chat([event], None, fw=fw, thoughts=thoughts)

    def draw_folded(events: Sequence[Event], label: str) -> None:
        turns = {event.turn for event in events if isinstance(event, Utterance)}
        if not turns:
            draw(events)
            return
        hits = sum(len(passages) for number, passages in passages_of.items() if number in turns)
        with st.expander(f"{label} ({len(turns)}{f', {hits} hits' if hits > 1 else ', 1 hit' if hits else ''})"):
            draw(events)

    with st.container(border=True, key=f"{key}_{trial_id}"):
        if note:
            st.markdown(note)
        right = (
            f" · right answer **{plain(conversation.conversation.answer)}**" if conversation.conversation.answer else ""
        )
        case_key = conversation.conversation.case_key
        title = f":gray[{plain(case_name(case_key))} · trial {conversation.conversation.trial + 1}{right}]"
        st.markdown(title, help=plain(case_key))
        chat_column, aside_column = st.columns([6, 5], gap="medium")
        with chat_column:
            if turn is None:
                # without autoscroll=False a chat of fixed height starts at its end
                with st.container(height=_CHAT, border=False, gap="xxsmall", autoscroll=False, key=f"{key}_chat"):
                    draw(messages)
            else:
                far_before, just_before, relevant, just_after, far_after = around(messages, turn)
                draw_folded(far_before, "Messages before these")
                draw(just_before)
                with st.container(border=True, key=f"{key}_here", gap="xxsmall"):
                    if here:
                        st.caption(here)
                    draw(relevant)
                draw(just_after)
                draw_folded(far_after, "Messages after these")
        with aside_column:
            draw_side(conversation)
            link("transcripts", "The whole conversation", "forum", trial=trial_id)


def around(events: Sequence[Event], turn: int) -> tuple[list[Event], ...]:
    """Divide events into five lists: far before, just before, at, just after, and far after the relevant message.

    Events without a message number (an ending, a rating) belong to the message before them.
    """
    parts: tuple[list[Event], ...] = ([], [], [], [], [])
    current = 0
    for event in events:
        message = getattr(event, "turn", None)
        current = current if message is None else message
        distance = current - turn
        place = (
            0 if distance < -_AROUND else 1 if distance < 0 else 2 if distance == 0 else 3 if distance <= _AROUND else 4
        )
        parts[place].append(event)
    return parts


def marked_at(text: str, passages: Sequence[Passage]) -> str:
    """Return a message as escaped Markdown with its passages highlighted; overlapping passages are merged."""

    def between(words: str) -> str:
        # ``plain`` turns leading spaces into an indent; here they are inside a line
        stripped = words.lstrip(" ")
        return f"{' ' * (stripped != words)}{plain(stripped)}"

    parts, end = [], 0
    for passage in sorted(passages, key=lambda passage: (passage.start, -passage.end)):
        start = max(passage.start, end)
        if passage.end > start:
            words = plain(text[start : passage.end].strip())
            parts += [between(text[end:start]), f":orange-background[**{words}**]"]
            end = passage.end
    return "".join([*parts, between(text[end:])])


def choose_trial(conversations: Sequence[Conversation], key: str) -> Conversation:
    """Ask for one of a case's conversations if it has several; the URL parameter ``key`` stores the choice."""
    several = len({conversation.run_id for conversation in conversations}) > 1
    labels = {
        conversation.trial_id: f"Trial {conversation.trial + 1}{f' · {conversation.run_id[-8:]}' * several}"
        for conversation in conversations
    }
    if len(conversations) == 1:
        return conversations[0]
    chosen = choose("Conversation", list(labels), key, names=labels, shape="segments")
    return next(conversation for conversation in conversations if conversation.trial_id == chosen)


def draw_answers_of(conversation: ConversationRecord) -> None:
    """Draw the answers of a conversation, starting with those given after it."""
    if not conversation.answers:
        st.caption("No answer: the trial ended early.")
    for answer in sorted(conversation.answers.values(), key=lambda answer: answer.format != "multi_turn"):
        draw_answer(answer, conversation)


def draw_answer(answer: Answered, conversation: ConversationRecord) -> None:
    """Draw one answer with the verdicts that count, the extracted diagnosis, and the folded reasoning."""
    grades = [g for g in conversation.grades if (g.format, g.question_type) == (answer.format, answer.question_type)]
    response = (answer.response or "").replace("**", "").strip()
    with st.container(border=True, gap="xsmall"):
        badges = [badge(answer.reason)] if answer.reason is not None else []
        for grade in sorted(grades, key=lambda g: g.rule):
            note = f":gray[{RULE_SHORT[grade.rule]}] " if len(grades) > 1 else ""
            badges.append(f"{note}{badge(grade.verdict)}")
        judges = "; ".join(f"{RULE[grade.rule]}: judged by {plain(model_name(grade.grader))}" for grade in grades)
        verdicts = " · ".join(badges) or ":gray-badge[Not graded]"
        st.markdown(f"**{arm(answer.format, answer.question_type)}**  \n{verdicts}", help=judges or None)
        short = response if len(response) <= _LONG else f"{response[:_LONG]}…"
        st.markdown(plain(short) if response else f":gray[{plain(answer.detail or 'no answer')}]")
        if read := list(dict.fromkeys(grade.extracted for grade in grades if grade.extracted)):
            st.caption(f"Read as: {plain('; '.join(read))}")
        if len(response) > _LONG:
            with st.popover("The whole answer", type="tertiary"):
                st.markdown(plain(response))
        draw_answers_reasoning(answer, grades, reasoning_of(conversation.events))
