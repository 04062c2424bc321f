"""A family of conversations on the page: the tree, two of them beside each other, and what can be done with one."""

from collections.abc import Sequence

import streamlit as st

from core.errors import AnamnesisError
from core.events import Utterance
from core.frameworks.base import frameworks
from core.store.queries.forks import Node, Tree, delete_branch
from pages.parts.accuracy_view import is_dark
from pages.parts.branches_compare import draw_comparison
from pages.parts.branches_tree import changes_words, node_names, tree_chart, tree_table
from pages.parts.figure_controls import CHART
from pages.parts.fork_form import fork_form
from pages.parts.live_sessions import forget
from pages.parts.look import plain
from pages.parts.navigation import TRANSCRIPTS
from pages.parts.take_away import draw_take_away
from pages.parts.transcripts_data import reading


def draw_family(tree: Tree, chosen: Node) -> None:
    """Draw a family, and the conversation of the address beside another one of it."""
    names = node_names(tree)
    other = _other(tree, chosen)
    _draw_head(tree)
    known = frameworks().get(chosen.talk.protocol) if chosen.talk is not None else None
    if known is not None and known.cannot_fork:
        st.info(known.cannot_fork, icon=":material/fork_right:")
        st.page_link(
            TRANSCRIPTS, label="Open the transcript", icon=":material/forum:", query_params={"trial": chosen.trial_id}
        )
        return
    if len(tree.nodes) > 1:
        _draw_tree(tree, chosen, other)
        _ask_pair(tree, chosen, other, names)
    else:
        st.info(
            "Nothing has branched off this conversation yet. Choose a message below, change what is said or who "
            "goes on, and run on: the branch then stands here beside the original.",
            icon=":material/fork_right:",
        )
    _draw_actions(tree, chosen, names)
    _draw_fork(chosen, names[chosen.trial_id], open_=len(tree.nodes) == 1 or "fork" in st.query_params)
    if other is not None:
        first, second = sorted((chosen, other), key=tree.nodes.index)
        draw_comparison(tree, first, second, (names[first.trial_id], names[second.trial_id]))


def _other(tree: Tree, chosen: Node) -> Node | None:
    """Return the conversation to compare with: that of the address, else the parent or the newest branch."""
    asked = tree.node(st.query_params.get("other", ""))
    if asked is not None and asked.trial_id != chosen.trial_id:
        return asked
    if chosen.parent is not None:
        return tree.node(chosen.parent)
    children = tree.children(chosen.trial_id)
    return children[-1] if children else None


def _draw_head(tree: Tree) -> None:
    talk = next((node.talk for node in tree.nodes if node.talk), None)
    if talk is None:
        return
    branches = len(tree.nodes) - 1
    count = f"{branches} branch{'es' if branches != 1 else ''}" if branches else "no branch yet"
    st.markdown(
        f"Case **{plain(talk.case_key)}** · right answer **{plain(talk.answer or 'unknown')}** "
        f":gray[· {plain(talk.specialty or 'no specialty')} · {count}]"
    )


def _draw_tree(tree: Tree, chosen: Node, other: Node | None) -> None:
    key = f"branches_tree_{chosen.trial_id}_{len(tree.nodes)}"

    def click() -> None:
        points = st.session_state[key].selection.points
        if points:
            _show(_trial_of(points[0]), chosen, other)

    st.plotly_chart(
        tree_chart(tree, chosen.trial_id, other.trial_id if other else None, dark=is_dark()), key=key, on_select=click,
        selection_mode="points", config={**CHART, "toImageButtonOptions": {"format": "svg", "filename": "branches"}},
        alt="The family as a tree: every branch leaves its parent at the last message that they share",
    )  # fmt: skip
    st.caption(
        "One lane for each conversation, coloured by its doctor; a branch leaves its parent after the last message "
        "they share. At the end: green dot right, orange cross wrong, open grey circle not counted or not stored "
        "(free response after the conversation where it was asked). Click one to choose it."
    )
    table = tree_table(tree)
    with st.expander(f"All {len(tree.nodes)} conversations as a table", icon=":material/table_rows:"):
        _draw_table(tree, chosen, other)
        st.download_button(
            "Download as CSV", table.to_csv(index=False), "branches.csv", "text/csv", icon=":material/download:",
            key="branches_csv", on_click="ignore",
        )  # fmt: skip


def _draw_table(tree: Tree, chosen: Node, other: Node | None) -> None:
    key = f"branches_rows_{chosen.trial_id}_{len(tree.nodes)}"

    def choose() -> None:
        rows = st.session_state[key].selection.rows
        if rows and rows[0] < len(tree.nodes):
            _show(tree.nodes[rows[0]].trial_id, chosen, other)

    st.dataframe(
        tree_table(tree).drop(columns="Trial"), hide_index=True, key=key, on_select=choose,
        selection_mode="single-row", height="content" if len(tree.nodes) <= 12 else 420,
        alt="The conversations of the family with what was changed and every verdict",
    )  # fmt: skip


def _trial_of(point: dict[str, object]) -> str:
    held = point.get("customdata")
    return str(held[0] if isinstance(held, list) else held)


def _show(trial_id: str, chosen: Node, other: Node | None) -> None:
    """Put another conversation into the address; the one before takes its place where the two were compared."""
    if trial_id == chosen.trial_id or _left(chosen):
        return
    if other is not None and trial_id == other.trial_id:
        st.query_params["other"] = chosen.trial_id
    st.query_params["trial"] = trial_id
    st.query_params.pop("fork", None)


def _left(chosen: Node) -> bool:
    """Say whether the address has moved on: a control of the page before may report once more, and is not asked."""
    return st.query_params.get("trial") != chosen.trial_id


def _ask_pair(tree: Tree, chosen: Node, other: Node | None, names: dict[str, str]) -> None:
    """Ask which two are shown; both stand in the address."""
    ids = [node.trial_id for node in tree.nodes]
    shown = {"trial": chosen.trial_id, "other": other.trial_id if other else ids[0]}
    labels = {"trial": "Conversation", "other": "Compared with"}
    for column, (name, trial_id) in zip(st.columns(2), shown.items(), strict=True):
        offered = [i for i in ids if name == "trial" or i != chosen.trial_id]
        key = f"branches_{name}_{chosen.trial_id}_{shown['other']}_{len(ids)}"

        def change(name: str = name, key: str = key) -> None:
            if name == "trial":
                _show(st.session_state[key], chosen, other)
            elif not _left(chosen):
                st.query_params["other"] = st.session_state[key]

        column.selectbox(
            labels[name], offered, index=offered.index(trial_id), key=key, on_change=change,
            format_func=lambda i: _label(tree, i, names),
        )  # fmt: skip


def _label(tree: Tree, trial_id: str, names: dict[str, str]) -> str:
    node = tree.node(trial_id)
    changed = changes_words(node) if node else ""
    return f"{names[trial_id]}: {changed}" if changed else names[trial_id]


def _draw_actions(tree: Tree, chosen: Node, names: dict[str, str]) -> None:
    if chosen.talk is None:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.page_link(
            TRANSCRIPTS, label="Open the transcript", icon=":material/forum:", query_params={"trial": chosen.trial_id}
        )
        if chosen.parent is not None:
            _draw_deletion(tree, chosen, names[chosen.trial_id])
        pair = (chosen, _other(tree, chosen))
        draw_take_away([node.trial_id for node in tree.nodes if node in pair and node.talk], "branches")


def _draw_deletion(tree: Tree, chosen: Node, name: str) -> None:
    """Ask before a branch is taken away, saying how much goes with it."""
    gone = [node for node in (chosen, *tree.descendants(chosen.trial_id)) if node.talk]
    with st.popover("Delete this branch", icon=":material/delete:"):
        more = len(gone) - 1
        count = f"{len(gone)} conversation{'s' if more else ''}"
        beside = f" and {more} that branched off it" if more else ""
        st.markdown(f"This deletes **{count}** for good: {name}{beside}. What it branched off stays as it is.")
        st.button(
            f"Delete {count}",
            type="primary",
            key=f"branches_delete_{chosen.trial_id}",
            on_click=_delete,
            args=(chosen, [node.trial_id for node in gone]),
        )


def _delete(chosen: Node, gone: Sequence[str]) -> None:
    try:
        delete_branch(chosen.trial_id)
    except AnamnesisError as error:
        st.toast(plain(str(error)), icon=":material/error:", duration="long")
        return
    forget(gone)
    st.query_params["trial"] = chosen.parent or ""
    for name in ("other", "fork"):
        st.query_params.pop(name, None)


def _draw_fork(chosen: Node, name: str, *, open_: bool) -> None:
    shown = reading(chosen.trial_id)
    if shown is None:
        return
    held = any(isinstance(event, Utterance) for event in shown.events)
    with st.expander(f"Fork at a message of {name}", icon=":material/fork_right:", expanded=open_ and held):
        fork_form(chosen.trial_id, shown.events, shown.case, "branches_fork")
