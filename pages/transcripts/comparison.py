"""Two conversations of a family beside each other: what differs, where they part word by word, their verdicts."""

import re
from collections.abc import Sequence
from itertools import zip_longest

import streamlit as st

from core.asking.persona import label, parse_persona
from core.debugger.diff import Piece, word_diff
from core.events import FORMATS, QUESTION_TYPES, Ended, Utterance
from core.frameworks.base import framework_of
from core.frameworks.settings import without_credentials
from core.store.queries.forks import Node, Tree
from pages.kit.cases import draw_answer
from pages.kit.chat import bubble, draw_chat
from pages.kit.look import END, arm, plain
from pages.kit.navigation import link
from pages.kit.sessions import watched
from pages.kit.stored import Reading, reading

_ALIKE = 0.35
"""Share of equal words below which two messages are shown as they are: marking every word would say nothing."""


def draw_comparison(tree: Tree, left: Node, right: Node, names: tuple[str, str]) -> None:
    """Draw two stored conversations beside each other."""
    first, second = reading(left.trial_id), reading(right.trial_id)
    if first is None or second is None:
        node, name = (left, names[0]) if first is None else (right, names[1])
        held = watched(node.trial_id)
        if held is not None and held.session.running:
            st.info(f"{name} is still under way: it stands here when it is over.", icon=":material/sync:")
            link("live", f"Watch {name}", "play_arrow", trial=node.trial_id)
        else:
            st.info(f"{name} is not stored here, so that it cannot be shown.", icon=":material/search_off:")
        return
    st.subheader(f"{names[0]} beside {names[1]}", anchor=False)
    edited = (edits(tree, left, right), edits(tree, right, left))
    lines = [
        f"- **{what}**: {plain(before)} :gray[{names[0]}] → {plain(after)} :gray[{names[1]}]"
        for what, before, after in differences(left, right)
    ]
    for changes, name in zip(edited, names, strict=True):
        lines += [f"- **Text**: {plain('; '.join(changes))} :gray[{name}]"] if changes else []
    st.markdown("\n".join(lines) or "Cast, persona, prompts, settings and seed are the same.")
    _draw_dialogues((first, second), names, edited)
    _draw_answers((first, second), names)


def differences(left: Node, right: Node) -> list[tuple[str, str, str]]:
    """Return (what, left, right) for all under which two conversations were held differently."""
    if left.stored is None or right.stored is None:
        return []
    sides = []
    for stored in (left.stored, right.stored):
        run, settings = stored.run, stored.run.settings
        sides.append(
            {
                "Doctor": run.doctor,
                "Patient": run.patient,
                "Grader": run.grader,
                "Summariser": run.summariser,
                "Persona": label(parse_persona(str(settings.get("persona") or ""))),
                "Prompt pack": f"{run.prompt_pack} ({run.prompt_hash})",
                "Cap of messages": str(settings.get("max_messages") or "none"),
                "Temperature": str(settings.get("temperature") or "the provider’s own"),
                "Longest reply in tokens": str(settings.get("max_tokens") or "the provider’s own"),
                "Server address": without_credentials(str(settings.get("base_url") or "")) or "the provider’s own",
                "Seed": str(stored.seed),
            }
        )
    before, after = sides
    return [(what, before[what], after[what]) for what in before if before[what] != after[what]]


def edits(tree: Tree, node: Node, other: Node) -> list[str]:
    """Return the edited messages that led to a conversation and not to the other one."""

    def line(one: Node | None) -> list[Node]:
        """Return a conversation, its parent, and so on up to the first of the family."""
        return [one, *line(tree.node(one.parent) if one.parent else None)] if one else []

    shared = {above.trial_id for above in line(other)}
    own = [above for above in line(node) if above.trial_id not in shared]
    return [change for above in reversed(own) for change in above.changes if change.endswith("edited")]


def common_messages(first: Sequence[str], second: Sequence[str]) -> int:
    """Return how many messages two dialogues share from the beginning on."""
    both = min(len(first), len(second))
    return next((n for n in range(both) if first[n] != second[n]), both)


def _draw_dialogues(
    sides: tuple[Reading, Reading], names: tuple[str, str], edited: tuple[Sequence[str], Sequence[str]]
) -> None:
    a, b = ([event for event in side.events if isinstance(event, Utterance)] for side in sides)
    shared = common_messages([m.text for m in a], [m.text for m in b])
    if shared:
        what = f"The first {shared} messages are the same" if shared > 1 else "The first message is the same"
        with st.expander(what, icon=":material/done_all:"):
            draw_chat(a[:shared], None, known=framework_of(sides[0].events, sides[0].talk.protocol))
    for number, (one, two) in enumerate(zip_longest(a[shared:], b[shared:]), start=shared + 1):
        # words that only one of them has are on a coloured ground
        pieces = word_diff(one.text, two.text) if one and two and one.role == two.role else ()
        letters = [(piece.op, sum(not c.isspace() for c in piece.text)) for piece in pieces]
        equal = 2 * sum(count for op, count in letters if op == "equal")  # in both; blanks are in every text
        alike = equal / max(1, equal + sum(count for op, count in letters if op != "equal"))
        places = zip(st.columns(2, gap="medium"), (one, two), ("delete", "insert"), names, edited, strict=True)
        for column, said, op, name, changes in places:
            if said is None:
                continue
            note = " · edited" if f"message {number} edited" in changes else ""
            words = marked_text(pieces, op) if alike >= _ALIKE else plain(said.text)
            with column, bubble(said.role):
                st.markdown(f":small[:gray[{name} · message {number}{note}]]  \n{words}")
    for column, side, name in zip(st.columns(2, gap="medium"), sides, names, strict=True):
        ended = next((event for event in side.events if isinstance(event, Ended)), None)
        how = f"ended because {END[ended.reason]}" if ended else "did not end"
        column.caption(f":material/flag: {name} {how}.")


def marked_text(pieces: Sequence[Piece], op: str) -> str:
    """Return one side of a difference as harmless Markdown: its own words on a coloured ground.

    Own words in a row are one stretch, with the blanks between them. A ground ends with its line: a blank line inside
    it would end the paragraph and show its brackets.
    """
    colour = "orange" if op == "delete" else "blue"
    kept = [(piece.op == op, piece.text) for piece in pieces if piece.op in ("equal", op)]
    stretches: list[tuple[bool, str]] = []
    for n, (own, text) in enumerate(kept):
        between = 0 < n < len(kept) - 1 and not text.strip() and kept[n - 1][0] and kept[n + 1][0]
        if stretches and stretches[-1][0] == (own or between):
            stretches[-1] = (stretches[-1][0], stretches[-1][1] + text)
        else:
            stretches.append((own or between, text))
    parts = [(own, part) for own, text in stretches for part in re.split(r"(\n+)", text)]
    return "".join(
        f":{colour}-background[{plain(text)}]" if own and text.strip() else plain(text) for own, text in parts
    )


def _draw_answers(sides: tuple[Reading, Reading], names: tuple[str, str]) -> None:
    arms = [(f, q) for f in FORMATS for q in QUESTION_TYPES if any((f, q) in side.answers for side in sides)]
    st.subheader("Answers", anchor=False)
    if not arms:
        st.caption("Neither of them was asked anything.")
    for asked in arms:
        for column, side, name in zip(st.columns(2, gap="medium"), sides, names, strict=True):
            with column:
                if asked in side.answers:
                    draw_answer(side.answers[asked], side)
                else:
                    st.caption(f"{name} was not asked: {arm(*asked)}.")
