"""Two conversations of a family side by side: their conditions, their messages word by word, their verdicts."""

from collections.abc import Sequence
from itertools import zip_longest

import streamlit as st

from core.asking.persona import label, parse_persona
from core.debugger.diff import word_diff
from core.events import Ended, Utterance
from core.frameworks.base import framework_of
from core.frameworks.settings import without_credentials
from core.store.queries.forks import Node, Tree
from pages.kit.case.verdicts import changes_in_words
from pages.kit.conversation import draw_answers
from pages.kit.look import END, plain
from pages.kit.messages import Mark, draw_messages
from pages.kit.names import model_name
from pages.kit.navigation import link
from pages.kit.sessions import watched
from pages.kit.stored import ConversationRecord, reading

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
    edited = (edits(tree, left, right), edits(tree, right, left))
    lines = [
        f"- **{what}**: {plain(before)} :gray[{names[0]}] → {plain(after)} :gray[{names[1]}]"
        for what, before, after in differences(left, right)
    ]
    for changes, name in zip(edited, names, strict=True):
        lines += [f"- **Text**: {plain('; '.join(changes))} :gray[{name}]"] if changes else []
    st.markdown("\n".join(lines) or "Same cast, persona, prompts, settings and seed.")
    if changed := changes_in_words(left.trial_id, right.trial_id, names):
        with st.expander(f"{len(changed)} criteria of the rubric changed", icon=":material/rule:"):
            st.markdown("\n".join(changed))
    _draw_dialogues((first, second), names, edited)
    st.header("Answers", anchor=False)
    for column, record, name in zip(st.columns(2, gap="medium"), (first, second), names, strict=True):
        with column:
            st.markdown(f"**{name}**")
            draw_answers(record)


def differences(left: Node, right: Node) -> list[tuple[str, str, str]]:
    """Return (part, left value, right value) for each part of the condition that differs."""
    if left.stored is None or right.stored is None:
        return []
    sides = []
    for stored in (left.stored, right.stored):
        run, settings = stored.run, stored.run.settings
        sides.append(
            {
                "Doctor": model_name(run.doctor),
                "Patient": model_name(run.patient),
                "Grader": model_name(run.grader),
                "Summariser": model_name(run.summariser),
                "Persona": label(parse_persona(str(settings.get("persona") or ""))),
                "Prompt pack": f"{run.prompt_pack} ({run.prompt_hash})",
                "Max messages": str(settings.get("max_messages") or "none"),
                "Temperature": str(settings.get("temperature") or "provider’s default"),
                "Max tokens of a reply": str(settings.get("max_tokens") or "provider’s default"),
                "Server address": without_credentials(str(settings.get("base_url") or "")) or "provider’s default",
                "Seed": str(stored.seed),
            }
        )
    before, after = sides
    return [(what, before[what], after[what]) for what in before if before[what] != after[what]]


def edits(tree: Tree, node: Node, other: Node) -> list[str]:
    """Return the edited messages on the way to ``node`` that are not on the way to ``other``."""

    def lineage(start: Node | None) -> list[Node]:
        """Return a conversation, its parent, and so on up to the original."""
        return [start, *lineage(tree.node(start.parent) if start.parent else None)] if start else []

    shared = {ancestor.trial_id for ancestor in lineage(other)}
    unshared = [ancestor for ancestor in lineage(node) if ancestor.trial_id not in shared]
    return [change for ancestor in reversed(unshared) for change in ancestor.changes if change.endswith("edited")]


def common_messages(first: Sequence[str], second: Sequence[str]) -> int:
    shorter = min(len(first), len(second))
    return next((n for n in range(shorter) if first[n] != second[n]), shorter)


def _draw_dialogues(
    sides: tuple[ConversationRecord, ConversationRecord],
    names: tuple[str, str],
    edited: tuple[Sequence[str], Sequence[str]],
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
        places = zip(st.columns(2, gap="medium"), (left, right), differing, names, edited, strict=True)
        for column, utterance, marks, name, changes in places:
            if utterance is not None:
                note = " · edited" if f"message {utterance.turn + 1} edited" in changes else ""
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
