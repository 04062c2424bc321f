"""What is behind a mark of a figure: its cases, of which one is chosen, and that case's conversations and ways on.

A stored conversation is opened folded around a message to look at, its passages marked, its answers beside it.
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
from pages.kit.look import END_SHORT, ROLE_ICON, RULE, RULE_SHORT, VERDICT, arm, badge, plain
from pages.kit.navigation import link
from pages.kit.stored import Reading, reading
from pages.kit.tables import draw_table

_FEW = 8
"""Rows up to which a list is shown at full height."""
_BEHIND = "behind"
"""Where the address says that a mark was clicked."""
_BESIDE = """<style>
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
"""Beside the figures where there is room for both, else over the lower part of the window."""
_AROUND = 2
"""Messages before and behind the one to look at that are shown at once."""
_CHAT = 460
"""Pixels of a conversation that is shown from its beginning."""
_LONG = 240
"""Characters of an answer that are shown at once."""


def open_behind() -> None:
    """Open what is behind the mark that was clicked, beside the figures."""
    st.query_params[_BEHIND] = "yes"


@contextmanager
def behind(title: str, hint: str) -> Iterator[None]:
    """Draw what is behind a mark under its title: below the figures, or beside them from a click on one until closed.

    That it is open stands in the address. The ``hint`` says how to choose.
    """
    beside = _BEHIND in st.query_params
    with st.container(key=f"behind_{'beside' if beside else 'below'}"):
        if beside:
            theme = f"theme.{st.context.theme.type or 'light'}"
            ground, border = (st.get_option(f"{theme}.{part}Color") for part in ("background", "border"))
            st.html(_BESIDE.replace("GROUND", ground).replace("BORDER", border))
        with st.container(horizontal=True, wrap=False, vertical_alignment="center"):
            st.subheader(title, anchor=False, width="stretch")
            if beside:
                st.button("Close", icon=":material/close:", key="behind_close", on_click=forget, args=(_BEHIND,))
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
    """List cases, and return the one that was clicked, if it is still among them; it stands in the address as ``key``.

    ``of`` is the column that names a case; ``ids`` name the rows where no column does.
    """
    named = table[of].astype(str).tolist() if ids is None else list(ids)
    draw_table(
        table,
        name,
        columns,
        on_row=lambda row: st.query_params.update({key: named[row]}),
        height=290 if len(table) > _FEW else "content",
        download=download,
        noted=False,
    )
    wanted = st.query_params.get(key)
    return wanted if wanted in named else None


def forget(*keys: str) -> None:
    """Take choices out of the address, because what they were chosen from has changed."""
    for key in keys:
        st.query_params.pop(key, None)


def draw_trials(talks: Sequence[Conversation], arm: str) -> None:
    """Draw a line for each conversation of a case: the way to its transcript, the verdict in an arm, how it ended.

    ``arm`` is "format:question type".
    """
    if not talks:
        st.caption("No trial of this case is stored.")
    for talk in talks:
        with st.container(horizontal=True, vertical_alignment="center"):
            link("transcripts", f"Trial {talk.trial + 1}", "forum", trial=talk.trial_id)
            verdict = talk.verdicts.get(arm)
            st.markdown(badge(verdict) if verdict in VERDICT else ":gray-badge[not graded]")
            turns = f"{talk.doctor_turns} doctor turns" if talk.doctor_turns is not None else "no conversation"
            ended = f", {END_SHORT[talk.end_reason].lower()}" if talk.end_reason else ""
            st.caption(f"{turns}{ended}")


def excluded_in_words(reasons: Mapping[Any, int]) -> str:
    """Return verdicts that do not count, with their numbers; without the remark that they are excluded."""

    def words(reason: Any, count: int) -> str:
        name = VERDICT[reason][0].partition(",")[0].lower() if reason in VERDICT else str(reason)
        return f"{count:,} {name}{'s' if name.endswith('error') and count > 1 else ''}"

    return ", ".join(words(reason, count) for reason, count in reasons.items() if count)


def draw_ways_on(trial_id: str, **cell: str) -> None:
    """Draw the links from a conversation to its transcript and into the case debugger, there to a ``cell`` of it."""
    with st.container(horizontal=True):
        link("transcripts", "Read the transcript", "forum", trial=trial_id)
        link("debugger", "Open in the case debugger", "bug_report", trial=trial_id, **cell)


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
        message = getattr(event, "turn", None)
        here = here if message is None else message
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
