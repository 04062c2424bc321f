"""Two conversations of a family side by side: what was changed, their messages word by word, their answers."""

from collections.abc import Sequence
from itertools import zip_longest

import streamlit as st

from core.debugger.diff import word_diff
from core.debugger.steps import steps_of_trial
from core.debugger.stored import load_record
from core.events import Ended, Utterance
from core.frameworks.base import framework_of
from core.store.queries.branches import Node, Tree
from pages.kit.cached import cached_query
from pages.kit.case.verdicts import changes_in_words
from pages.kit.conversation import draw_answers
from pages.kit.look import END, plain
from pages.kit.messages import Mark, draw_messages
from pages.kit.navigation import link
from pages.kit.sessions import watched
from pages.kit.stored import ConversationRecord, reading
from pages.kit.texts import draw_texts

_record = cached_query(entries=16)(load_record)
_MIN_EQUAL = 0.35
"""Below this share of equal letters two messages are shown without marks: nearly every word would be marked."""


def draw_comparison(tree: Tree, left: Node, right: Node, names: tuple[str, str]) -> None:
    first, second = reading(left.trial_id), reading(right.trial_id)
    if first is None or second is None:
        node, name = (left, names[0]) if first is None else (right, names[1])
        live = watched(node.trial_id)
        if live is not None and live.session.running:
            st.info(f"{name} is still running. It appears here when it ends.", icon=":material/sync:")
            link("live", f"Watch {name}", "play_arrow", trial=node.trial_id)
        else:
            st.info(f"{name} is not stored here.", icon=":material/search_off:")
        return
    st.header(f"{names[0]} and {names[1]}", anchor=False)
    changed = (changes(tree, left, right), changes(tree, right, left))
    lines = [
        f"- {name}: **{plain('; '.join(of_side))}**" for of_side, name in zip(changed, names, strict=True) if of_side
    ]
    st.markdown("\n".join(lines) or "Nothing was changed: each is another sample.")
    for node in (left, right):
        _draw_edited_request(node)
    if criteria := changes_in_words(left.trial_id, right.trial_id, names):
        with st.expander(f"{len(criteria)} criteria of the rubric changed", icon=":material/rule:"):
            st.markdown("\n".join(criteria))
    _draw_dialogues((first, second), names, changed)
    st.header("Answers", anchor=False)
    for column, record, name in zip(st.columns(2, gap="medium"), (first, second), names, strict=True):
        with column:
            st.markdown(f"**{name}**")
            draw_answers(record)


def _draw_edited_request(node: Node) -> None:
    """Draw the request that a branch edited, and its parent's; nothing if it edited none."""
    record = _record(node.trial_id) if node.parent else None
    request = record.header.first_request if record else None
    parent = _record(node.parent) if node.parent and request and request.messages else None
    if request is None or parent is None:
        return
    step = next((step for step in steps_of_trial(parent) if step.title == request.title), None)
    before = [message["content"] for message in step.sent] if step else []
    with st.expander(f"{request.title}: request edited", icon=":material/difference:"):
        for old, new in zip_longest(before, [str(message["content"]) for message in request.messages]):
            if old != new:
                draw_texts(old, new, "No such message.")


def changes(tree: Tree, node: Node, other: Node) -> list[str]:
    """Return the changes on the way to ``node`` that are not on the way to ``other``."""

    def lineage(start: Node | None) -> list[Node]:
        """Return a conversation, its parent, and so on up to the original."""
        return [start, *lineage(tree.node(start.parent) if start.parent else None)] if start else []

    shared = {ancestor.trial_id for ancestor in lineage(other)}
    unshared = [ancestor for ancestor in lineage(node) if ancestor.trial_id not in shared]
    return [change for ancestor in reversed(unshared) for change in ancestor.changes]


def common_messages(first: Sequence[str], second: Sequence[str]) -> int:
    shorter = min(len(first), len(second))
    return next((n for n in range(shorter) if first[n] != second[n]), shorter)


def _draw_dialogues(
    sides: tuple[ConversationRecord, ConversationRecord],
    names: tuple[str, str],
    changed: tuple[Sequence[str], Sequence[str]],
) -> None:
    fw = framework_of(sides[0].events, sides[0].conversation.protocol)
    first, second = ([event for event in side.events if isinstance(event, Utterance)] for side in sides)
    shared = common_messages([message.text for message in first], [message.text for message in second])
    if shared:
        what = f"The first {shared} messages are the same" if shared > 1 else "The first message is the same"
        with st.expander(what, icon=":material/done_all:"):
            draw_messages(first[:shared], fw=fw)
    for left, right in zip_longest(first[shared:], second[shared:]):
        differing = own_words(left.text, right.text) if left and right and left.role == right.role else ([], [])
        places = zip(st.columns(2, gap="medium"), (left, right), differing, names, changed, strict=True)
        for column, utterance, marks, name, of_side in places:
            if utterance is not None:
                note = " · edited" if f"message {utterance.turn + 1} edited" in of_side else ""
                with column:
                    draw_messages([utterance], [*marks, Mark("", why=f"{name}{note}")], fw=fw)
    for column, side, name in zip(st.columns(2, gap="medium"), sides, names, strict=True):
        ended = next((event for event in side.events if isinstance(event, Ended)), None)
        how = f"ended because {END[ended.reason]}" if ended else "did not end"
        column.caption(f":material/flag: {name} {how}.")


def own_words(first: str, second: str) -> tuple[list[Mark], list[Mark]]:
    """Return the words that only one of two messages has; nothing if the messages have little in common."""
    pieces = word_diff(first, second)
    letters = [(piece.op, sum(not c.isspace() for c in piece.text)) for piece in pieces]
    # a letter in both messages counts twice; blanks do not count
    equal = 2 * sum(count for op, count in letters if op == "equal")
    if equal < _MIN_EQUAL * (equal + sum(count for op, count in letters if op != "equal")):
        return [], []
    marks: dict[str, list[Mark]] = {"delete": [], "insert": []}
    for op, of_side in marks.items():
        start = 0
        for piece in pieces:
            if piece.op == op:
                of_side.append(Mark(piece.text, start=start))
            start += len(piece.text) * (piece.op in ("equal", op))
    return marks["delete"], marks["insert"]
