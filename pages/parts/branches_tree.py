"""A family of conversations as a figure and as a table: pure functions of the tree."""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from core.events import COUNTED, FORMATS, QUESTION_TYPES, Verdict
from core.figures.style import FAINT, INK
from core.store.queries.conversations import Conversation
from core.store.queries.forks import Node, Tree
from pages.parts.figure_controls import unique_names
from pages.parts.figures import model_colours
from pages.parts.look import END_SHORT, VERDICT
from pages.parts.transcripts_list import arm_words, verdict_words

ORIGINAL = "Original"
_NOT_STORED = "not stored"
_HEADLINE = ("multi_turn:frq", "multi_turn:mcq")
"""The verdict that stands for a conversation: the first of these arms, else any arm that comes first."""
_MARK = {"right": ("#009E73", "circle"), "wrong": ("#D55E00", "x"), "excluded": ("#8C8C8C", "circle-open")}
_STEADY = {"selected": {"marker": {"opacity": 1}}, "unselected": {"marker": {"opacity": 1}}}
"""A click chooses a conversation; it is not to fade the others."""


def node_names(tree: Tree) -> dict[str, str]:
    """Return trial → its short name: Original, Branch 1, Branch 1.1 … in the order of the family."""
    names, places = {tree.root.trial_id: ORIGINAL}, {tree.root.trial_id: ""}
    for node in tree.nodes:
        for number, child in enumerate(tree.children(node.trial_id), start=1):
            places[child.trial_id] = f"{places[node.trial_id]}.{number}".lstrip(".")
            names[child.trial_id] = f"Branch {places[child.trial_id]}"
    return names


def changes_words(node: Node) -> str:
    """Return what a branch changed, in words."""
    if node.parent is None:
        return ""
    return "; ".join(node.changes) or f"run on again after message {node.turn}"


def headline(talk: Conversation | None) -> tuple[str, Verdict] | None:
    """Return the arm and the verdict that stand for a conversation in the figure."""
    if talk is None:
        return None
    arms = [*_HEADLINE, *(f"{f}:{q}" for f in FORMATS for q in QUESTION_TYPES)]
    return next(((name, talk.verdicts[name]) for name in arms if talk.verdicts.get(name) in VERDICT), None)


def tree_chart(tree: Tree, chosen: str, other: str | None, *, dark: bool = False) -> go.Figure:
    """Return the family as a tree: messages from left to right, one lane for each conversation.

    A branch leaves its parent at the last message that they share; its end carries the verdict. Every point holds its
    trial's id as ``customdata``.
    """
    names, lanes = node_names(tree), {node.trial_id: lane for lane, node in enumerate(tree.nodes)}
    colours = model_colours(sorted({node.talk.doctor for node in tree.nodes if node.talk}))
    figure = go.Figure()
    for node in tree.nodes:
        colour = colours[node.talk.doctor] if node.talk else _MARK["excluded"][0]
        width = 5 if node.trial_id in (chosen, other) else 2
        _add_way(figure, tree, node, lanes, colour)
        _add_lane(figure, node, lanes[node.trial_id], names[node.trial_id], {"color": colour, "width": width})
    _add_legend(figure, colours)
    for node in tree.nodes:
        _add_end(
            figure,
            node,
            lanes[node.trial_id],
            names[node.trial_id],
            ring=INK[dark] if node.trial_id == chosen else None,
        )
    labels = [f"<b>{names[n.trial_id]}</b>" if n.trial_id in (chosen, other) else names[n.trial_id] for n in tree.nodes]
    longest = max(_end(node) for node in tree.nodes)
    figure.update_layout(
        height=(96 if len(colours) < 2 else 130) + 34 * len(tree.nodes), margin={"l": 8, "r": 8, "t": 8, "b": 8},
        legend={"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0, "x": 0},
        hovermode="closest", clickmode="event+select",
        xaxis={
            "title": "Message", "range": [0.4, longest + 0.8], "dtick": max(1, -(-longest // 8)), "tick0": 1,
            "gridcolor": FAINT[dark], "zeroline": False, "fixedrange": True,
        },
        yaxis={
            "tickvals": list(range(len(labels))), "ticktext": labels, "range": [len(labels) - 0.5, -0.5],
            "automargin": True, "showgrid": False, "zeroline": False, "fixedrange": True,
        },
    )  # fmt: skip
    return figure


def _end(node: Node) -> int:
    return max(node.messages, node.turn or 0, 1)


def _add_way(figure: go.Figure, tree: Tree, node: Node, lanes: Mapping[str, int], colour: str) -> None:
    """Add the way from the last message that a branch shares with its parent to its own lane."""
    if node.parent is None:
        return
    start = max(node.turn or 0, 1)
    own = _own(node)
    figure.add_scatter(
        x=[start, own[0] if own else start], y=[lanes[_shared_with(tree, node).trial_id], lanes[node.trial_id]],
        mode="lines", line={"color": colour, "width": 1.5, "dash": "dot"}, hoverinfo="skip", showlegend=False,
    )  # fmt: skip


def _own(node: Node) -> list[int]:
    """Return the numbers of the messages, from 1, that only this conversation and its branches hold."""
    return list(range((node.turn or 0) + 1, _end(node) + 1))


def _add_lane(figure: go.Figure, node: Node, lane: int, name: str, line: Mapping[str, object]) -> None:
    own = _own(node) or [_end(node)]
    figure.add_scatter(
        x=own, y=[lane] * len(own), mode="lines+markers", line=line, marker={"size": 5}, name=name, showlegend=False,
        customdata=[node.trial_id] * len(own), hovertemplate=f"{name}, message %{{x}}<extra></extra>", **_STEADY,
    )  # fmt: skip


def _add_legend(figure: go.Figure, colours: Mapping[str, str]) -> None:
    """Name the doctors where there are several."""
    for doctor, name in unique_names(colours).items() if len(colours) > 1 else ():
        figure.add_scatter(x=[None], y=[None], mode="lines", line={"color": colours[doctor], "width": 3}, name=name)


def _shared_with(tree: Tree, node: Node) -> Node:
    """Return the conversation whose lane shows the last message that a branch shares with its parent."""
    above = tree.node(node.parent or "") or tree.root
    while above.parent is not None and (above.turn or 0) >= max(node.turn or 0, 1):
        above = tree.node(above.parent) or tree.root
    return above


def _add_end(figure: go.Figure, node: Node, lane: int, name: str, ring: str | None) -> None:
    """Add the mark at the end of a conversation: right, wrong or excluded."""
    verdict = headline(node.talk)
    colour, symbol = _MARK[_kind(verdict[1] if verdict else None)]
    words = f"{arm_words(verdict[0])}: {VERDICT[verdict[1]][0]}" if verdict else "no verdict"
    said = f"{node.messages} messages" if node.talk else _NOT_STORED
    figure.add_scatter(
        x=[_end(node)], y=[lane], mode="markers", customdata=[node.trial_id], name=name, showlegend=False,
        marker={"size": 15, "color": colour, "symbol": symbol, "line": {"width": 2 if ring else 0, "color": ring}},
        hovertemplate=f"{name}: {said}<br>{words}<extra></extra>", **_STEADY,
    )  # fmt: skip


def _kind(verdict: Verdict | None) -> str:
    if verdict not in COUNTED:
        return "excluded"
    return "right" if verdict == "correct" else "wrong"


def tree_table(tree: Tree) -> pd.DataFrame:
    """Return the family as rows: who played, what was changed, how it ended, every verdict."""
    names = node_names(tree)
    doctors = unique_names({node.talk.doctor for node in tree.nodes if node.talk})
    held = {name for node in tree.nodes if node.talk for name in node.talk.verdicts}
    arms = [f"{f}:{q}" for f in FORMATS for q in QUESTION_TYPES if f"{f}:{q}" in held]
    return pd.DataFrame(
        [
            {
                "Conversation": names[node.trial_id],
                "What changed": changes_words(node) or ("" if node.talk else _NOT_STORED),
                "Doctor": doctors[node.talk.doctor] if node.talk else "",
                "Messages": node.messages or None,
                "Ended by": END_SHORT[node.talk.end_reason] if node.talk and node.talk.end_reason else "",
                **{arm_words(name): verdict_words(node.talk, name) if node.talk else "" for name in arms},
                "Left": f"{names[node.parent]}, message {node.turn}" if node.parent else "",
                "Trial": node.trial_id,
            }
            for node in tree.nodes
        ]
    )
