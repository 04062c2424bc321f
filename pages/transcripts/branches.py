"""Branches of conversations: the families, and one as a tree, two of it beside each other, and the form to fork."""

from collections.abc import Sequence
from functools import partial

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.events import Finished, Utterance
from core.figures.lanes import Lane, lanes
from core.figures.style import GREY
from core.store.queries.forks import Node, Tree, delete_branch, families, tree
from pages.kit import sessions
from pages.kit.cached import ask
from pages.kit.cases import forget
from pages.kit.chat import draw_chat
from pages.kit.export_menu import draw_take_away
from pages.kit.figures import draw_figure
from pages.kit.fork import fork_form
from pages.kit.look import ARMS, END_SHORT, VERDICT, arm_in_words, faults_said, plain, verdict_in_brief
from pages.kit.names import model_colours, model_name, unique_names
from pages.kit.navigation import link
from pages.kit.sessions import WatchedSession, watched
from pages.kit.stored import reading
from pages.kit.tables import draw_table, offer_csv
from pages.kit.visitor import only
from pages.kit.watched import draw_session, draw_take_away_watched
from pages.transcripts.comparison import draw_comparison

_PLACES = ("trial", "other", "fork")
"""What stands in the address: a conversation, the one beside it, and whether its form is open."""
_HEADLINE = ("multi_turn:frq", "multi_turn:mcq", *ARMS)
"""The verdict that stands for a conversation: of the first of these arms that has one."""
_NOT_STORED = "not stored"


def draw_branches() -> None:
    """Draw the conversation of the address with its family, while it runs or once it is stored, or the list."""
    trial = st.query_params.get("trial")
    if not trial:
        draw_families()
        return
    st.button("All branched conversations", icon=":material/arrow_back:", on_click=forget, args=_PLACES)
    family = ask(tree, trial)
    node = family.node(trial) if family else None
    shown = watched(trial)
    if shown is not None and (node is None or node.talk is None):
        # no conditional expression: Streamlit would draw its value
        if shown.session.running:
            draw_running(shown)
        else:
            draw_broken_off(shown)
    if family is not None and node is not None:
        draw_family(family, node)
    elif shown is None:
        st.info("The conversation in this address is not stored here.", icon=":material/search_off:")
        draw_way_back()


def draw_families() -> None:
    """List the families with the newest branches; a click opens one."""
    if not (held := ask(families)):
        st.info(
            "No conversation has branched yet. Open any conversation and choose “Fork from here”: what was said before "
            "that message is kept, and from there on you can change the words, the doctor, the patient, the persona or "
            "the prompts, and continue. The branches are then drawn here as a tree.",
            icon=":material/account_tree:",
        )
        with st.container(horizontal=True):
            link("transcripts", "Choose a conversation", "forum")
            link("live", "Start a consultation", "play_arrow")
        return

    table = pd.DataFrame(
        [
            {
                "Case": family.case_key,
                "Doctor of the original": model_name(family.doctor) if family.doctor else "not stored",
                "Branches": family.branches,
                "Newest branch": pd.Timestamp(family.finished_at, unit="s").floor("s"),  # in UTC
            }
            for family in held
        ]
    )
    st.caption("Conversations that have branches, the newest branch first. Choose a row to see its tree.")
    draw_table(
        table,
        "families",
        {"Newest branch": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm")},
        on_row=lambda row: st.query_params.setdefault("trial", held[row].newest),
        alt="Conversations that have branches",
    )


def draw_running(shown: WatchedSession) -> None:
    """Draw a consultation under way, and below it the form to fork it at what was said so far."""
    if st.query_params.get("other"):
        st.caption("This branch is being run. When it is over, it stands in the tree of branches.")
    draw_session(shown, forks=False)
    with st.expander(
        "Fork this consultation while it runs",
        icon=":material/fork_right:",
        on_change="rerun",
        expanded="fork" in st.query_params,
    ) as form:
        if form.open:
            fork_form(shown.trial_id, shown.session.snapshot(), shown.case, "branches_running", session=shown.session)


def draw_broken_off(shown: WatchedSession) -> None:
    """Draw what was said in a consultation that did not come to its end, or is not in the database yet."""
    session = shown.session
    events = session.snapshot()
    if session.error:
        st.error(plain(session.error))
    if any(isinstance(event, Finished) for event in events) and not session.error:
        st.info("This consultation is over and is being stored: look again in a moment.", icon=":material/sync:")
        st.button("Look again", icon=":material/refresh:", key="branches_look_again")
    else:
        st.info(
            "This consultation was stopped before its end, so it is not stored and stands in no tree.",
            icon=":material/stop_circle:",
        )
    with st.container(horizontal=True, vertical_alignment="center"):
        draw_way_back()
        draw_take_away_watched([shown], key="branches_broken")
    with st.container(border=True):
        draw_chat(events, None, known=shown.framework)


def draw_way_back() -> None:
    """Link to what the conversation of the address branched off, which a new branch's address names."""
    if (other := st.query_params.get("other")) and other != st.query_params.get("trial"):
        link("branches", "Back to what it branched off", "account_tree", trial=other)


def draw_family(tree: Tree, chosen: Node) -> None:
    """Draw a family, and the conversation of the address beside another one of it."""
    names = node_names(tree)
    talk = next((node.talk for node in tree.nodes if node.talk), None)
    if talk is not None:
        branches = len(tree.nodes) - 1
        count = f"{branches} branch{'es' if branches != 1 else ''}" if branches else "no branch yet"
        st.markdown(
            f"Case **{plain(talk.case_key)}** · right answer **{plain(talk.answer or 'unknown')}** "
            f":gray[· {plain(talk.specialty or 'no specialty')} · {count}]"
        )
    # compared with that of the address, else the parent or the newest branch
    children = tree.children(chosen.trial_id)
    other = tree.node(st.query_params.get("other", ""))
    if other is None or other.trial_id == chosen.trial_id:
        other = tree.node(chosen.parent) if chosen.parent is not None else children[-1] if children else None
    if len(tree.nodes) > 1:
        _draw_tree(tree, chosen, other, names)
        _ask_pair(tree, chosen, other, names)
    else:
        st.info(
            "Nothing has branched off this conversation yet. Choose a message below, change what is said or who "
            "goes on, and continue: the branch then stands here beside the original.",
            icon=":material/fork_right:",
        )
    if chosen.talk is not None:
        with st.container(horizontal=True, vertical_alignment="center"):
            link("transcripts", "Open the transcript", "forum", trial=chosen.trial_id)
            if chosen.parent is not None:
                _draw_deletion(tree, chosen, names[chosen.trial_id])
            draw_take_away([n.trial_id for n in tree.nodes if n in (chosen, other) and n.talk], "branches")
    if (shown := reading(chosen.trial_id)) is not None:
        held = any(isinstance(event, Utterance) for event in shown.events)
        expanded = held and (len(tree.nodes) == 1 or "fork" in st.query_params)
        name = names[chosen.trial_id]
        with st.expander(f"Fork at a message of {name}", icon=":material/fork_right:", expanded=expanded):
            fork_form(chosen.trial_id, shown.events, shown.case, "branches_fork")
    if other is not None:
        first, second = sorted((chosen, other), key=tree.nodes.index)
        draw_comparison(tree, first, second, (names[first.trial_id], names[second.trial_id]))


def node_names(tree: Tree) -> dict[str, str]:
    """Return trial → its short name: Original, Branch 1, Branch 1.1 … in the order of the family."""
    places = {tree.root.trial_id: ""}
    for node in tree.nodes:
        for number, child in enumerate(tree.children(node.trial_id), start=1):
            places[child.trial_id] = f"{places[node.trial_id]}.{number}".lstrip(".")
    return {trial: f"Branch {place}" if place else "Original" for trial, place in places.items()}


def changes_words(node: Node) -> str:
    """Return what a branch changed, in words."""
    return "" if node.parent is None else "; ".join(node.changes) or f"continued again after message {node.turn}"


def tree_chart(tree: Tree, chosen: str, other: str | None, *, dark: bool = False) -> go.Figure:
    """Return the family as a tree: messages from left to right, one lane for each conversation.

    A branch leaves its parent at the last message that they share, on the lane that shows it; its end carries the
    verdict. A click on any point gives its trial's id.
    """
    names, places = node_names(tree), {node.trial_id: place for place, node in enumerate(tree.nodes)}
    doctors = sorted({node.talk.doctor for node in tree.nodes if node.talk})
    colours = model_colours(doctors)
    rows = []
    for node in tree.nodes:
        turn = max(node.turn or 0, 1)
        above = tree.node(node.parent or "") or tree.root
        while above.parent is not None and (above.turn or 0) >= turn:
            above = tree.node(above.parent) or tree.root
        verdicts = node.talk.verdicts if node.talk else {}
        headline = next((name for name in _HEADLINE if verdicts.get(name) in VERDICT), None)
        judged = f"{arm_in_words(headline)}: {VERDICT[verdicts[headline]][0]}" if headline else "no verdict"
        said = f"{node.messages} messages" if node.talk else _NOT_STORED
        rows.append(
            Lane(
                node.trial_id,
                names[node.trial_id],
                colours[node.talk.doctor] if node.talk else GREY,
                (node.turn or 0) + 1,
                max(node.messages, turn),
                None if node.parent is None else (places[above.trial_id], turn),
                verdicts[headline] if headline else None,
                f"{names[node.trial_id]}: {said}<br>{judged}",
                looked_at=node.trial_id in (chosen, other),
                chosen=node.trial_id == chosen,
            )
        )
    return lanes(rows, {name: colours[doctor] for doctor, name in unique_names(doctors).items()}, dark=dark)


def tree_table(tree: Tree) -> pd.DataFrame:
    """Return the family as rows: who played, what was changed, how it ended, every verdict."""
    names = node_names(tree)
    talks = [node.talk for node in tree.nodes if node.talk]
    doctors = unique_names({talk.doctor for talk in talks})
    arms = [name for name in ARMS if any(name in talk.verdicts for talk in talks)]
    return pd.DataFrame(
        [
            {
                "Conversation": names[node.trial_id],
                "What changed": changes_words(node) or ("" if node.talk else _NOT_STORED),
                "Doctor": doctors[node.talk.doctor] if node.talk else "",
                "Messages": node.messages or None,
                "Ended by": END_SHORT[node.talk.end_reason] if node.talk and node.talk.end_reason else "",
                **{
                    arm_in_words(name): verdict_in_brief(node.talk.verdicts.get(name)) if node.talk else ""
                    for name in arms
                },
                "Left": f"{names[node.parent]}, message {node.turn}" if node.parent else "",
                "Trial": node.trial_id,
            }
            for node in tree.nodes
        ]
    )


def _draw_tree(tree: Tree, chosen: Node, other: Node | None, names: dict[str, str]) -> None:
    # a figure or table of its own for each choice: the mark of a former click vanishes with it
    here = f"{chosen.trial_id}_{len(tree.nodes)}"
    key = (
        "One lane for each conversation, coloured by its doctor; a branch leaves its parent after the last message "
        "they share. At the end: green dot right, orange cross wrong, open grey circle not counted or not stored "
        "(free response after the conversation where it was asked)"
    )
    shown = " and ".join(names[node.trial_id] for node in (chosen, other) if node)
    draw_figure(
        lambda dark: tree_chart(tree, chosen.trial_id, other.trial_id if other else None, dark=dark),
        f"branches_tree_{here}",
        "The branches as a tree",
        f"n = {len(tree.nodes)} conversations on case {chosen.talk.case_key if chosen.talk else 'unknown'}. {key}. "
        f"Bold: {shown}.",
        on_point=lambda data: _show(str(data[0]), chosen, other),
    )
    st.caption(f"{key}. Click one to choose it.")
    table = tree_table(tree)
    with st.expander(f"All {len(tree.nodes)} conversations as a table", icon=":material/table_rows:"):
        draw_table(
            table.drop(columns="Trial"),
            f"branches_{here}",
            {"Messages": st.column_config.NumberColumn(format="%d")},
            on_row=lambda row: _show(tree.nodes[row].trial_id, chosen, other),
            download="",
            alt="The branches with what was changed and every verdict",
        )
        offer_csv(table, "branches")


def _show(trial_id: str, chosen: Node, other: Node | None) -> None:
    """Put another conversation into the address; the one before takes its place where the two were compared."""
    if trial_id == chosen.trial_id or _left(chosen):
        return
    if other is not None and trial_id == other.trial_id:
        st.query_params["other"] = chosen.trial_id
    st.query_params["trial"] = trial_id
    forget("fork")


def _left(chosen: Node) -> bool:
    """Say whether the address has moved on: a control of the page before may report once more, and is not asked."""
    return st.query_params.get("trial") != chosen.trial_id


def _ask_pair(tree: Tree, chosen: Node, other: Node | None, names: dict[str, str]) -> None:
    """Ask which two are shown; both stand in the address."""
    ids = [node.trial_id for node in tree.nodes]
    changed = {node.trial_id: changes_words(node) for node in tree.nodes}
    shown = {"trial": chosen.trial_id, "other": other.trial_id if other else ids[0]}
    labels = {"trial": "Conversation", "other": "Compared with"}
    for column, (name, trial_id) in zip(st.columns(2), shown.items(), strict=True):
        offered = [i for i in ids if name == "trial" or i != chosen.trial_id]
        # a control of its own for each pair: both follow the address, which holds ids and no labels
        key = f"branches_{name}_{chosen.trial_id}_{shown['other']}_{len(ids)}"

        def change(name: str = name, key: str = key) -> None:
            if name == "trial":
                _show(st.session_state[key], chosen, other)
            elif not _left(chosen):
                st.query_params["other"] = st.session_state[key]

        column.selectbox(
            labels[name],
            offered,
            index=offered.index(trial_id),
            key=key,
            on_change=change,
            format_func=lambda i: f"{names[i]}: {changed[i]}" if changed[i] else names[i],
        )


def _draw_deletion(tree: Tree, chosen: Node, name: str) -> None:
    """Ask before a branch is taken away, saying how much goes with it."""
    gone = [node.trial_id for node in (chosen, *tree.descendants(chosen.trial_id)) if node.talk]
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
            args=(chosen, gone),
            **only("edit"),
        )


def _delete(chosen: Node, gone: Sequence[str]) -> None:
    with faults_said(partial(st.toast, duration="long"), ":material/error:"):
        delete_branch(chosen.trial_id)
        sessions.forget(gone)
        st.query_params["trial"] = chosen.parent or ""
        forget("other", "fork")
