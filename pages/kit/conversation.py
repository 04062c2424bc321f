"""A stored conversation opened on a page: folded around a message to look at, passages marked, and its answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import streamlit as st

from core.events import Answered, Event, Utterance, reasoning_of
from core.frameworks.base import framework_of
from core.store.queries.conversations import Conversation
from pages.kit.chat import draw_answers_reasoning, draw_chat
from pages.kit.controls import choose
from pages.kit.look import ROLE_ICON, RULE, RULE_SHORT, arm, badge, plain
from pages.kit.navigation import link
from pages.kit.stored import Reading, reading

_AROUND = 2
"""Messages before and behind the one to look at that are shown at once."""
_CHAT = 460
"""Pixels of a conversation that is shown from its beginning."""
_LONG = 240
"""Characters of an answer that are shown at once."""


class Passage(NamedTuple):
    """Words of a message to be marked, by where they begin and end, and why, in Markdown."""

    start: int
    end: int
    why: str


def draw_conversation(
    trial_id: str,
    key: str,
    beside: Callable[[Reading], None],
    *,
    turn: int | None = None,
    marks: Mapping[int, Sequence[Passage]] | None = None,
    note: str = "",
    here: str = "",
) -> None:
    """Draw a stored conversation, folded around message ``turn`` (from 0) where one is to be looked at.

    ``key`` names its container; ``beside`` draws what stands at its right, above the way to its transcript. ``marks``
    are passages by message. ``note`` says in Markdown what this conversation is shown for, ``here`` what the message to
    look at is.
    """
    shown = reading(trial_id)
    if shown is None:
        st.info("The conversation in this address is not stored here.", icon=":material/search_off:")
        return
    known = framework_of(shown.events, shown.talk.protocol)
    said = [event for event in shown.events if not isinstance(event, Answered)]
    thoughts = reasoning_of(said)  # a call comes before its message, and so may fall into the part before
    wrong = marks or {}

    def draw(events: Sequence[Event]) -> None:
        if not any(isinstance(event, Utterance) and wrong.get(event.turn) for event in events):
            draw_chat(events, None, known=known, thoughts=thoughts)
            return
        for event in events:
            passages = wrong.get(event.turn) if isinstance(event, Utterance) else None
            if isinstance(event, Utterance) and passages:
                with st.chat_message("user", avatar=ROLE_ICON[event.role]):
                    st.markdown(marked_at(event.text, passages))
                    st.caption(" · ".join(dict.fromkeys(passage.why for passage in passages)))
            else:
                draw_chat([event], None, known=known, thoughts=thoughts)

    def draw_folded(events: Sequence[Event], label: str) -> None:
        turns = {event.turn for event in events if isinstance(event, Utterance)}
        if not turns:
            draw(events)
            return
        hits = sum(len(passages) for number, passages in wrong.items() if number in turns)
        with st.expander(f"{label} ({len(turns)}{f', {hits} hits' if hits > 1 else ', 1 hit' if hits else ''})"):
            draw(events)

    with st.container(border=True, key=f"{key}_{trial_id}"):
        if note:
            st.markdown(note)
        right = f" · right answer **{plain(shown.talk.answer)}**" if shown.talk.answer else ""
        st.markdown(f":gray[{plain(shown.talk.case_key)} · trial {shown.talk.trial + 1}{right}]")
        left, aside = st.columns([6, 5], gap="medium")
        with left:
            if turn is None:
                # from its beginning: a chat of fixed height would else be scrolled to its end
                with st.container(height=_CHAT, border=False, gap="xxsmall", autoscroll=False, key=f"{key}_chat"):
                    draw(said)
            else:
                before, lead, looked_at, behind, rest = around(said, turn)
                draw_folded(before, "Messages before these")
                draw(lead)
                with st.container(border=True, key=f"{key}_here", gap="xxsmall"):
                    if here:
                        st.caption(here)
                    draw(looked_at)
                draw(behind)
                draw_folded(rest, "Messages after these")
        with aside:
            beside(shown)
            link("transcripts", "The whole conversation", "forum", trial=trial_id)


def around(events: Sequence[Event], turn: int) -> tuple[list[Event], ...]:
    """Divide events by message into five: far before, just before, the message to look at, just behind, far behind it.

    What happened without a message of its own (an ending, a rating) goes with the message before it.
    """
    parts: tuple[list[Event], ...] = ([], [], [], [], [])
    here = 0
    for event in events:
        here = getattr(event, "turn", here)
        away = here - turn
        place = 0 if away < -_AROUND else 1 if away < 0 else 2 if away == 0 else 3 if away <= _AROUND else 4
        parts[place].append(event)
    return parts


def marked_at(text: str, passages: Sequence[Passage]) -> str:
    """Return a message as harmless Markdown with its passages on a coloured ground; overlaps run together."""

    def between(words: str) -> str:
        # a space within a line is no indent
        bare = words.lstrip(" ")
        return f"{' ' * (bare != words)}{plain(bare)}"

    parts, end = [], 0
    for passage in sorted(passages, key=lambda passage: (passage.start, -passage.end)):
        start = max(passage.start, end)
        if passage.end > start:
            words = plain(text[start : passage.end].strip())
            parts += [between(text[end:start]), f":orange-background[**{words}**]"]
            end = passage.end
    return "".join([*parts, between(text[end:])])


def choose_trial(talks: Sequence[Conversation], key: str) -> Conversation:
    """Ask for one of a case's conversations, where there are several; it stands in the address as ``key``."""
    several = len({talk.run_id for talk in talks}) > 1
    held = {talk.trial_id: f"Trial {talk.trial + 1}{f' · {talk.run_id[-8:]}' * several}" for talk in talks}
    if len(talks) == 1:
        return talks[0]
    chosen = choose("Conversation", list(held), key, names=held, shape="segments")
    return next(talk for talk in talks if talk.trial_id == chosen)


def draw_answers_of(shown: Reading) -> None:
    """Draw the answers of a conversation, the one after it first."""
    if not shown.answers:
        st.caption("No answer: the trial broke off before.")
    for answer in sorted(shown.answers.values(), key=lambda answer: answer.format != "multi_turn"):
        draw_answer(answer, shown)


def draw_answer(answer: Answered, shown: Reading) -> None:
    """Draw one answer with the verdicts that count, what was read out of it, and folded what was thought."""
    grades = [g for g in shown.grades if (g.format, g.question_type) == (answer.format, answer.question_type)]
    response = (answer.response or "").replace("**", "").strip()
    with st.container(border=True, gap="xsmall"):
        badges = [badge(answer.reason)] if answer.reason is not None else []
        for grade in sorted(grades, key=lambda g: g.rule):
            note = f":gray[{RULE_SHORT[grade.rule]}] " if len(grades) > 1 else ""
            badges.append(f"{note}{badge(grade.verdict)}")
        judges = "; ".join(f"{RULE[grade.rule]}: judged by {plain(grade.grader)}" for grade in grades)
        verdicts = " · ".join(badges) or ":gray-badge[Not graded]"
        st.markdown(f"**{arm(answer.format, answer.question_type)}**  \n{verdicts}", help=judges or None)
        short = response if len(response) <= _LONG else f"{response[:_LONG]}…"
        st.markdown(plain(short) if response else f":gray[{plain(answer.detail or 'no answer')}]")
        if read := list(dict.fromkeys(grade.extracted for grade in grades if grade.extracted)):
            st.caption(f"Read as: {plain('; '.join(read))}")
        if len(response) > _LONG:
            with st.popover("The whole answer", type="tertiary"):
                st.markdown(plain(response))
        draw_answers_reasoning(answer, grades, reasoning_of(shown.events))
