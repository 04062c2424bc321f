"""Two conversations of a family beside each other: what differs, where they part word by word, their verdicts."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import streamlit as st

from core.debugger.diff import Piece, word_diff
from core.events import FORMATS, QUESTION_TYPES, Answered, Ended, Event, Utterance
from core.export.document import without_credentials
from core.frameworks.base import framework_of
from core.persona import label, parse_persona
from core.store.queries.forks import Node, Tree
from pages.parts.live_sessions import watched
from pages.parts.look import END, ROLE_ICON, arm, plain
from pages.parts.navigation import LIVE
from pages.parts.transcript import draw_chat
from pages.parts.transcripts_data import Reading, reading
from pages.parts.transcripts_read import draw_answer

_ALIKE = 0.35
"""Share of equal words below which two messages are shown as they are: marking every word would say nothing."""


@dataclass(frozen=True)
class _Side:
    """A conversation's name on the page and the messages that were edited in it alone."""

    name: str
    edits: list[str]


def draw_comparison(tree: Tree, left: Node, right: Node, names: tuple[str, str]) -> None:
    """Draw two stored conversations beside each other."""
    first, second = reading(left.trial_id), reading(right.trial_id)
    if first is None or second is None:
        _draw_missing(*((left, names[0]) if first is None else (right, names[1])))
        return
    st.subheader(f"{names[0]} beside {names[1]}", anchor=False)
    _draw_differences(tree, left, right, names)
    sides = (_Side(names[0], edits(tree, left, right)), _Side(names[1], edits(tree, right, left)))
    _draw_dialogues(first, second, sides)
    _draw_answers(first, second, names)


def _draw_missing(node: Node, name: str) -> None:
    """Say why a conversation cannot be shown: it still runs, or is not stored."""
    held = watched(node.trial_id)
    if held is None or not held.session.running:
        st.info(f"{name} is not stored here, so that it cannot be shown.", icon=":material/search_off:")
        return
    st.info(f"{name} is still under way: it stands here when it is over.", icon=":material/sync:")
    st.page_link(LIVE, label=f"Watch {name}", icon=":material/play_arrow:", query_params={"trial": node.trial_id})


def differences(left: Node, right: Node) -> list[tuple[str, str, str]]:
    """Return (what, left, right) for all under which two conversations were held differently."""
    if left.stored is None or right.stored is None:
        return []
    pairs = zip(_held(left), _held(right), strict=True)
    return [(what, before, after) for (what, before), (_, after) in pairs if before != after]


def edits(tree: Tree, node: Node, other: Node) -> list[str]:
    """Return the edited messages that led to a conversation and not to the other one."""
    shared = {above.trial_id for above in _line(tree, other)}
    own = [above for above in _line(tree, node) if above.trial_id not in shared]
    return [change for above in reversed(own) for change in above.changes if change.endswith("edited")]


def _line(tree: Tree, node: Node | None) -> list[Node]:
    """Return a conversation, its parent, and so on up to the first of the family."""
    return [node, *_line(tree, tree.node(node.parent) if node.parent else None)] if node else []


def _held(node: Node) -> Iterator[tuple[str, str]]:
    stored = node.stored
    assert stored is not None
    yield from (("Doctor", stored.run.doctor), ("Patient", stored.run.patient))
    yield from (("Grader", stored.run.grader), ("Summariser", stored.run.summariser))
    yield "Persona", label(parse_persona(str(stored.run.settings.get("persona") or "")))
    yield "Prompt pack", f"{stored.run.prompt_pack} ({stored.run.prompt_hash})"
    yield "Cap of messages", str(stored.run.settings.get("max_messages") or "none")
    yield "Temperature", str(stored.run.settings.get("temperature") or "the provider’s own")
    yield "Longest reply in tokens", str(stored.run.settings.get("max_tokens") or "the provider’s own")
    yield "Server address", without_credentials(str(stored.run.settings.get("base_url") or "")) or "the provider’s own"
    yield "Seed", str(stored.seed)


def common_messages(first: Sequence[str], second: Sequence[str]) -> int:
    """Return how many messages two dialogues share from the beginning on."""
    both = min(len(first), len(second))
    return next((n for n in range(both) if first[n] != second[n]), both)


def _draw_differences(tree: Tree, left: Node, right: Node, names: tuple[str, str]) -> None:
    lines = [
        f"- **{what}**: {plain(before)} :gray[{names[0]}] → {plain(after)} :gray[{names[1]}]"
        for what, before, after in differences(left, right)
    ]
    for node, other, name in ((left, right, names[0]), (right, left, names[1])):
        edited = edits(tree, node, other)
        lines += [f"- **Text**: {plain('; '.join(edited))} :gray[{name}]"] if edited else []
    st.markdown("\n".join(lines) or "Cast, persona, prompts, settings and seed are the same.")


def _draw_dialogues(first: Reading, second: Reading, sides: tuple[_Side, _Side]) -> None:
    a, b = _messages(first.events), _messages(second.events)
    shared = common_messages([m.text for m in a], [m.text for m in b])
    if shared:
        what = f"The first {shared} messages are the same" if shared > 1 else "The first message is the same"
        with st.expander(what, icon=":material/done_all:"):
            draw_chat(a[:shared], None, known=framework_of(first.events, first.talk.protocol))
    for number, (one, two) in enumerate(zip_longest(a[shared:], b[shared:]), start=shared + 1):
        _draw_pair(one, two, number, sides)
    for column, shown, side in zip(st.columns(2, gap="medium"), (first, second), sides, strict=True):
        with column:
            ended = next((event for event in shown.events if isinstance(event, Ended)), None)
            st.caption(
                f":material/flag: {side.name} {f'ended because {END[ended.reason]}' if ended else 'did not end'}."
            )


def _messages(events: Sequence[Event]) -> list[Utterance]:
    return [event for event in events if isinstance(event, Utterance)]


def _draw_pair(one: Utterance | None, two: Utterance | None, number: int, sides: tuple[_Side, _Side]) -> None:
    """Draw what is said at one place of either dialogue; words that only one of them has are on a coloured ground."""
    pieces = word_diff(one.text, two.text) if one and two and one.role == two.role else ()
    marked = _alike(pieces) >= _ALIKE
    columns = st.columns(2, gap="medium")
    for column, said, op, side in zip(columns, (one, two), ("delete", "insert"), sides, strict=True):
        if said is None:
            continue
        edited = " · edited" if f"message {number} edited" in side.edits else ""
        label = f":small[:gray[{side.name} · message {number}{edited}]]"
        # the name "user" gives the patient's side the shaded bubble
        name = "user" if said.role == "patient" else "assistant"
        with column, st.chat_message(name, avatar=ROLE_ICON.get(said.role)):
            st.markdown(f"{label}  \n{marked_text(pieces, op) if marked else plain(said.text)}")


def _alike(pieces: Sequence[Piece]) -> float:
    """Return the share of letters that are in both texts; blanks are in every text."""
    letters = [(piece.op, sum(not c.isspace() for c in piece.text)) for piece in pieces]
    equal = 2 * sum(count for op, count in letters if op == "equal")
    return equal / max(1, equal + sum(count for op, count in letters if op != "equal"))


def marked_text(pieces: Sequence[Piece], op: str) -> str:
    """Return one side of a difference as harmless Markdown: its own words on a coloured ground."""
    colour = "orange" if op == "delete" else "blue"
    # a ground ends with its line: a blank line inside it would end the paragraph and show its brackets
    parts = [(own, part) for own, text in _joined(pieces, op) for part in re.split(r"(\n+)", text)]
    return "".join(
        f":{colour}-background[{plain(text)}]" if own and text.strip() else plain(text) for own, text in parts
    )


def _joined(pieces: Sequence[Piece], op: str) -> list[tuple[bool, str]]:
    """Return (own, text) of one side: own words in a row are one stretch, with the blanks between them."""
    kept = [(piece.op == op, piece.text) for piece in pieces if piece.op in ("equal", op)]
    joined: list[tuple[bool, str]] = []
    for n, (own, text) in enumerate(kept):
        between = 0 < n < len(kept) - 1 and not text.strip() and kept[n - 1][0] and kept[n + 1][0]
        if joined and joined[-1][0] == (own or between):
            joined[-1] = (joined[-1][0], joined[-1][1] + text)
        else:
            joined.append((own or between, text))
    return joined


def _draw_answers(first: Reading, second: Reading, names: tuple[str, str]) -> None:
    answers = [{(e.format, e.question_type): e for e in s.events if isinstance(e, Answered)} for s in (first, second)]
    arms = [(f, q) for f in FORMATS for q in QUESTION_TYPES if any((f, q) in held for held in answers)]
    st.subheader("Answers", anchor=False)
    if not arms:
        st.caption("Neither of them was asked anything.")
    for asked in arms:
        for column, shown, held, name in zip(st.columns(2, gap="medium"), (first, second), answers, names, strict=True):
            with column:
                if asked in held:
                    draw_answer(held[asked], shown)
                else:
                    st.caption(f"{name} was not asked: {arm(*asked)}.")
