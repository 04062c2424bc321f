"""Branches of conversations: the newest, one family as a tree, two branches compared, and the form."""

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.debugger.diff import differing_words
from core.debugger.steps import steps_of_trial
from core.debugger.stored import load_record
from core.events import Ended, Finished, Utterance
from core.figures.lanes import Lane, lanes
from core.figures.style import GREY
from core.frameworks.base import framework_of
from core.store.queries.branches import Node, Tree, delete_branch, tree
from pages.kit import sessions
from pages.kit.branch_form import branch_form
from pages.kit.cached import ask, cached_query
from pages.kit.case.verdicts import changes_in_words
from pages.kit.cases import clear_parameters
from pages.kit.controls import choose_by_name
from pages.kit.conversation import draw_answers
from pages.kit.conversation_list import draw_newest
from pages.kit.export_menu import draw_export_menu
from pages.kit.figures import draw_figure
from pages.kit.look import ARMS, END, END_SHORT, VERDICT, arm_in_words, counted, plain, show_errors, verdict_in_brief
from pages.kit.messages import Mark, draw_messages
from pages.kit.names import case_name, model_colours, unique_names
from pages.kit.navigation import link
from pages.kit.page import draw_fold
from pages.kit.sessions import WatchedSession, running_sessions, watched
from pages.kit.stored import ConversationRecord, reading
from pages.kit.tables import draw_table, offer_csv
from pages.kit.texts import draw_texts
from pages.kit.visitor import only
from pages.kit.watched import draw_export_menu_watched, draw_sessions

_ADDRESS_KEYS = ("trial", "other", "fork")
"""URL parameters: the conversation, the conversation compared with it, and whether the form is open."""
_HEADLINE = ("multi_turn:frq", "multi_turn:mcq", *ARMS)
"""A conversation’s verdict in the tree is that of the first of these arms that has one."""
_NOT_STORED = "not stored"
_NEWEST = 50
"""Branches that are listed."""


def draw_branches() -> None:
    """Draw the conversation in the URL with its family; without a conversation, the newest branches."""
    trial = st.query_params.get("trial")
    if not trial:
        draw_newest_branches()
        return
    st.button("All branches", icon=":material/arrow_back:", on_click=clear_parameters, args=_ADDRESS_KEYS)
    family = ask(tree, trial)
    node = family.node(trial) if family else None
    entry = watched(trial)
    members = {node.trial_id for node in family.nodes} if family else {entry.parent if entry else ""}
    for branch in running_sessions():
        if branch.trial_id != trial and branch.parent in members:
            words = f"Watch another branch: {counted(branch.session.messages, 'message')} so far"
            link("branches", words, "sync", trial=branch.trial_id, other=branch.parent)
    if entry is not None and (node is None or node.conversation is None):
        # no conditional expression: Streamlit would draw its value
        if entry.session.running:
            draw_running(entry)
        else:
            draw_broken_off(entry)
    if family is not None and node is not None:
        draw_family(family, node)
    elif entry is None:
        st.info("This conversation is not stored here.", icon=":material/search_off:")
        draw_way_back()


def draw_newest_branches() -> None:
    if not draw_newest("fork", "Newest branches", _NEWEST):
        st.info(
            "No branches yet. Open a conversation and choose “Branch from here” to continue it with another "
            "message, cast, persona or prompt.",
            icon=":material/account_tree:",
        )
        with st.container(horizontal=True):
            link("conversations", "Choose a conversation", "forum", conversations_part="Conversations")
            link("live", "Start a consultation", "play_arrow")


def draw_running(entry: WatchedSession) -> None:
    """Draw a running consultation, and below it the form to branch from any message so far."""
    if entry.parent:
        st.caption("This branch is running. It joins the tree when it ends.")
    draw_sessions([entry], branches=False)

    def draw_form() -> None:
        events = entry.session.snapshot()
        branch_form(entry.trial_id, events, entry.case, "branches_running", session=entry.session)

    title, open_ = "Branch from this consultation while it runs", "fork" in st.query_params
    draw_fold(title, draw_form, f"branches_running_{entry.trial_id}", "fork_right", open_=open_)


def draw_broken_off(entry: WatchedSession) -> None:
    """Draw the messages of a consultation that was stopped early or is not in the database yet."""
    session = entry.session
    events = session.snapshot()
    if session.error:
        st.error(plain(session.error))
    if any(isinstance(event, Finished) for event in events) and not session.error:
        st.info("This consultation has ended and is being stored.", icon=":material/sync:")
        st.button("Refresh", icon=":material/refresh:", key="branches_look_again")
    else:
        st.info("Stopped before its end, so not stored.", icon=":material/stop_circle:")
    with st.container(horizontal=True, vertical_alignment="center"):
        draw_way_back()
        draw_export_menu_watched([entry], key="branches_broken")
    draw_messages(events, height=520, fw=entry.framework)


def draw_way_back() -> None:
    """Link to the parent of the conversation in the URL; the URL of a new branch names its parent."""
    if (other := st.query_params.get("other")) and other != st.query_params.get("trial"):
        link("branches", "Back to its parent", "account_tree", trial=other)


def draw_family(tree: Tree, chosen: Node) -> None:
    """Draw a family, and compare the conversation in the URL with another member."""
    names = tree.names
    conversation = next((node.conversation for node in tree.nodes if node.conversation), None)
    if conversation is not None:
        branches = len(tree.nodes) - 1
        count = f"{branches} branch{'es' if branches != 1 else ''}" if branches else "no branch yet"
        st.markdown(
            f"Case **{plain(case_name(conversation.case_key))}** · "
            f"right answer **{plain(conversation.answer or 'unknown')}** "
            f":gray[· {plain(conversation.specialty or 'no specialty')} · {count}]"
        )
    # compare with the conversation in the URL; otherwise with the parent or the newest branch
    children = tree.children(chosen.trial_id)
    other = tree.node(st.query_params.get("other", ""))
    if other is None or other.trial_id == chosen.trial_id:
        other = tree.node(chosen.parent) if chosen.parent is not None else children[-1] if children else None
    if len(tree.nodes) > 1:
        _draw_tree(tree, chosen, other, names)
        _ask_pair(tree, chosen, other, names)
    else:
        st.info(
            "No branch yet. Choose a message below, change its text or the cast, and continue.",
            icon=":material/fork_right:",
        )
    if chosen.conversation is not None:
        with st.container(horizontal=True, vertical_alignment="center"):
            link("conversations", "Open the transcript", "forum", trial=chosen.trial_id)
            if chosen.parent is not None:
                _draw_deletion(tree, chosen, names[chosen.trial_id])
            draw_export_menu([n.trial_id for n in tree.nodes if n in (chosen, other) and n.conversation], "branches")
    if (stored := reading(chosen.trial_id)) is not None:
        has_messages = any(isinstance(event, Utterance) for event in stored.events)
        expanded = has_messages and (len(tree.nodes) == 1 or "fork" in st.query_params)
        name = names[chosen.trial_id]
        with st.expander(f"Branch from a message of {name}", icon=":material/fork_right:", expanded=expanded):
            branch_form(chosen.trial_id, stored.events, stored.case, "branches_form")
    if other is not None:
        first, second = sorted((chosen, other), key=tree.nodes.index)
        draw_comparison(tree, first, second, (names[first.trial_id], names[second.trial_id]))


def tree_chart(tree: Tree, chosen: str, other: str | None, *, dark: bool = False) -> go.Figure:
    """Return the family as a tree: messages from left to right, one lane for each conversation.

    A branch starts at the last message that it shares with its parent, on the lane that shows that message. The end of
    a lane carries the verdict. A click on any point returns the trial’s id.
    """
    names, places = tree.names, {node.trial_id: place for place, node in enumerate(tree.nodes)}
    doctors = sorted({node.conversation.doctor for node in tree.nodes if node.conversation})
    colours = model_colours(doctors)
    rows = []
    for node in tree.nodes:
        turn = max(node.turn or 0, 1)
        above = tree.node(node.parent or "") or tree.root
        while above.parent is not None and (above.turn or 0) >= turn:
            above = tree.node(above.parent) or tree.root
        verdicts = node.conversation.verdicts if node.conversation else {}
        headline = next((name for name in _HEADLINE if verdicts.get(name) in VERDICT), None)
        judged = f"{arm_in_words(headline)}: {VERDICT[verdicts[headline]][0]}" if headline else "no verdict"
        length = f"{node.messages} messages" if node.conversation else _NOT_STORED
        rows.append(
            Lane(
                node.trial_id,
                names[node.trial_id],
                colours[node.conversation.doctor] if node.conversation else GREY,
                (node.turn or 0) + 1,
                max(node.messages, turn),
                None if node.parent is None else (places[above.trial_id], turn),
                verdicts[headline] if headline else None,
                f"{names[node.trial_id]}: {length}<br>{judged}",
                looked_at=node.trial_id in (chosen, other),
                chosen=node.trial_id == chosen,
            )
        )
    return lanes(rows, {name: colours[doctor] for doctor, name in unique_names(doctors).items()}, dark=dark)


def tree_table(tree: Tree) -> pd.DataFrame:
    """Return one row for each conversation: cast, changes, how it ended, every verdict."""
    names = tree.names
    conversations = [node.conversation for node in tree.nodes if node.conversation]
    doctors = unique_names({conversation.doctor for conversation in conversations})
    arms = [name for name in ARMS if any(name in conversation.verdicts for conversation in conversations)]
    return pd.DataFrame(
        [
            {
                "Conversation": names[node.trial_id],
                "What changed": node.changes_in_words or ("" if node.conversation else _NOT_STORED),
                "Doctor": doctors[node.conversation.doctor] if node.conversation else "",
                "Messages": node.messages or None,
                "Ended by": END_SHORT[node.conversation.end_reason]
                if node.conversation and node.conversation.end_reason
                else "",
                **{
                    arm_in_words(name): verdict_in_brief(node.conversation.verdicts.get(name))
                    if node.conversation
                    else ""
                    for name in arms
                },
                "Branched from": f"{names[node.parent]}, message {node.turn}" if node.parent else "",
                "Trial": node.trial_id,
            }
            for node in tree.nodes
        ]
    )


def _draw_tree(tree: Tree, chosen: Node, other: Node | None, names: dict[str, str]) -> None:
    # a new key for each choice, so that Streamlit forgets the mark of the last click
    key_suffix = f"{chosen.trial_id}_{len(tree.nodes)}"
    key = (
        "A branch leaves its parent after their last shared message; the colour is that of its doctor. Green dot: "
        "right; orange cross: wrong; open grey circle: not counted or not stored (free response if asked)"
    )
    compared = " and ".join(names[node.trial_id] for node in (chosen, other) if node)
    draw_figure(
        lambda dark: tree_chart(tree, chosen.trial_id, other.trial_id if other else None, dark=dark),
        f"branches_tree_{key_suffix}",
        "The branches as a tree",
        f"n = {len(tree.nodes)} conversations on "
        f"{case_name(chosen.conversation.case_key) if chosen.conversation else 'one case'}. "
        f"{key}. Bold: {compared}.",
        on_point=lambda data: _show(str(data[0]), chosen, other),
    )
    st.caption("One lane for each conversation. Click a lane to choose its conversation.", help=f"{key}.")
    table = tree_table(tree)
    with st.expander(f"All {len(tree.nodes)} conversations as a table", icon=":material/table_rows:"):
        draw_table(
            table.drop(columns="Trial"),
            f"branches_{key_suffix}",
            {"Messages": st.column_config.NumberColumn(format="%d")},
            on_row=lambda row: _show(tree.nodes[row].trial_id, chosen, other),
            marked=tree.nodes.index(chosen),
            download="",
            alt="The branches with what was changed and every verdict",
        )
        offer_csv(table, "branches")


def _show(trial_id: str, chosen: Node, other: Node | None) -> None:
    """Put another conversation into the URL; if it was the one compared with, the two change places."""
    if other is not None and trial_id == other.trial_id:
        st.query_params["other"] = chosen.trial_id
    st.query_params["trial"] = trial_id
    clear_parameters("fork")


def _ask_pair(tree: Tree, chosen: Node, other: Node | None, names: dict[str, str]) -> None:
    """Ask which two conversations are compared; the URL holds both."""
    ids = [node.trial_id for node in tree.nodes]
    others = [trial_id for trial_id in ids if trial_id != chosen.trial_id]
    labels = {
        node.trial_id: ": ".join(filter(None, (names[node.trial_id], node.changes_in_words))) for node in tree.nodes
    }
    left, right = st.columns(2)
    choose_by_name(
        "Conversation",
        ids,
        "trial",
        "branches_trial",
        names=labels,
        where=left,
        on_change=lambda: _show(st.query_params["trial"], chosen, other),
    )
    compared = other.trial_id if other else others[0]
    choose_by_name("Compared with", others, "other", "branches_other", default=compared, names=labels, where=right)


def _draw_deletion(tree: Tree, chosen: Node, name: str) -> None:
    """Ask before a branch is deleted, and say how many conversations go with it."""
    deleted = [node.trial_id for node in (chosen, *tree.descendants(chosen.trial_id)) if node.conversation]
    with st.popover("Delete this branch", icon=":material/delete:"):
        more = len(deleted) - 1
        count = f"{len(deleted)} conversation{'s' if more else ''}"
        descendants = f" and {more} that branched off it" if more else ""
        st.markdown(f"Deletes **{count}** for good: {name}{descendants}. The parent stays.")
        st.button(
            f"Delete {count}",
            type="primary",
            key=f"branches_delete_{chosen.trial_id}",
            on_click=_delete,
            args=(chosen, deleted),
            **only("run"),
        )


def _delete(chosen: Node, deleted: Sequence[str]) -> None:
    with show_errors(partial(st.toast, duration="long"), ":material/error:"):
        delete_branch(chosen.trial_id)
        sessions.drop_sessions(deleted)
        st.query_params["trial"] = chosen.parent or ""
        clear_parameters("other", "fork")


_record = cached_query(entries=16)(load_record)


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
    changed = (tree.changes(left, right), tree.changes(right, left))
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
        same_role = left is not None and right is not None and left.role == right.role
        differing = differing_words(left.text, right.text) if same_role else ([], [])
        places = zip(st.columns(2, gap="medium"), (left, right), differing, names, changed, strict=True)
        for column, utterance, marks, name, of_side in places:
            if utterance is not None:
                note = " · edited" if f"message {utterance.turn + 1} edited" in of_side else ""
                with column:
                    own_words = [Mark(words, start=start) for words, start in marks]
                    draw_messages([utterance], [*own_words, Mark("", why=f"{name}{note}")], fw=fw)
    for column, side, name in zip(st.columns(2, gap="medium"), sides, names, strict=True):
        ended = next((event for event in side.events if isinstance(event, Ended)), None)
        how = f"ended because {END[ended.reason]}" if ended else "did not end"
        column.caption(f":material/flag: {name} {how}.")
