"""The Branches page without a browser: branch, watch, compare, delete, and come back by the address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.events import Event, Parent, Started, Utterance
from core.live.session import Session
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.branches import Tree, tree
from pages.conversations.branches import common_messages, tree_chart, tree_table
from pages.kit import sessions as live_sessions
from tests.core.store.builders import a_case, a_header, a_stream, a_trial, as_released, graded, write_journal
from tests.support.pages import button, trouble, words
from tests.support.stores import copy_of

Open = Callable[..., AppTest]
EVIL = "![x](http://evil.example/x.png) <script>alert(1)</script>"


def add(store: Store, name: str, parent: str | None = None, turn: int = 1, reply: str = "A rash.", **header: object):
    stream: list[Event] = a_stream(name)
    origin = Parent(trial_id=parent, turn=turn, changes=(f"message {turn + 1} edited",)) if parent else None
    stream[0] = Started(trial_id=name, case_key="ours/1", trial=0, seed=7, at=1.0, parent=origin)
    stream[3] = Utterance(turn=1, role="patient", text=reply)
    if parent is None:
        stream[-2] = graded("correct")
    settings = {"cases": [a_case()], "trials": 1, "source": "fork" if parent else "local", **header}
    line = a_trial(stream, trial_id=name, run_id=f"of-{name}", finished_at=float(turn))
    write_journal(store.journals, f"of-{name}", a_header(f"of-{name}", **settings), line)


def store_family(store: Store) -> None:
    """Two branches: root ─ a ─ b, with another doctor in b, and root ─ c."""
    add(store, "root", reply="A lump on my neck.")
    add(store, "a", "root", 1, reply="A red lump on my neck.")
    add(store, "b", "a", 2, reply="A red lump on my neck.", doctor="openai/b")
    add(store, "c", "root", 1, reply=EVIL)
    fold(store)


@pytest.fixture
def family(database: Path) -> Store:
    return copy_of(store_family, database.parent)


def tree_of(store: Store) -> Tree:
    with store.read() as cursor:
        tree_ = tree(cursor, "root")
    assert tree_ is not None
    return tree_


def query(app: AppTest, name: str) -> str:
    value = app.query_params[name]
    return value[0] if isinstance(value, list) else value


def test_the_newest_branches_are_listed(family: Store, open_page: Open) -> None:
    (table,) = [frame.value for frame in open_page("branches").dataframe]
    assert sorted(table["Model"]) == ["openai/a", "openai/a", "openai/b"]


def test_an_address_that_is_not_stored_says_so(open_page: Open) -> None:
    app = open_page("branches", trial="unknown")
    assert "is not stored here" in words(app)
    assert trouble(app) == []
    button(app, "All branches").click().run()
    assert "trial" not in app.query_params


@pytest.mark.slow
def test_a_branch_stands_beside_its_parent_with_the_words_that_differ(family: Store, open_page: Open) -> None:
    app = open_page("branches", trial="a")
    assert trouble(app) == []
    text = words(app)
    assert "Original and Branch 1" in text
    assert "- Branch 1: **message 2 edited**" in text
    assert "A :orange-background[red] lump on my neck" in text
    assert "Branch 1 · edited" in text
    assert [e.label for e in app.expander if "same" in e.label] == ["The first message is the same"]
    assert [(s.label, s.value) for s in app.selectbox][:2] == [("Conversation", "a"), ("Compared with", "root")]


@pytest.mark.slow
def test_the_address_names_both_sides_and_the_earlier_one_stands_left(family: Store, open_page: Open) -> None:
    app = open_page("branches", trial="b", other="c")
    assert "Branch 1.1 and Branch 2" in words(app)
    assert "- Branch 1.1: **message 2 edited; message 3 edited**\n- Branch 2: **message 2 edited**" in words(app)
    app.selectbox[1].set_value("root").run()
    assert query(app, "other") == "root"
    assert "Original and Branch 1.1" in words(app)
    app.selectbox[0].set_value("root").run()  # the two change places, and stay the two
    assert (query(app, "trial"), query(app, "other")) == ("root", "b")
    assert "Original and Branch 1.1" in words(app)


def test_what_a_model_said_stays_text(family: Store, open_page: Open) -> None:
    text = words(open_page("branches", trial="c"))
    assert "http://" not in text
    assert "<script>" not in text
    assert r"\<script\>" in text


@pytest.mark.slow
def test_deleting_says_how_many_go_and_leads_to_the_parent_and_the_server_forgets_too(
    family: Store, open_page: Open
) -> None:
    app = open_page("branches", trial="a")
    for name in ("a", "b"):  # as after they were watched here
        live_sessions.remember(Session(key=name, title="a case", finished_at=1.0), None)
    assert "Deletes **2 conversations** for good: Branch 1 and 1 that branched off it." in words(app)
    button(app, "Delete 2 conversations").click().run()
    assert trouble(app) == []
    assert query(app, "trial") == "root"
    assert [node.trial_id for node in tree_of(family).nodes] == ["root", "c"]
    assert not [b.label for b in app.button if b.label.startswith("Delete")]
    assert "is not stored here" in words(open_page("branches", trial="b"))


def test_the_transcript_leads_to_the_form_and_to_the_branches(family: Store, open_page: Open) -> None:
    labels = [link.proto.label for link in open_page("conversations", trial="root").get("page_link")]
    assert "Branch from here" in labels
    assert "Its 3 branches" in labels


def test_an_imported_conversation_asks_for_another_doctor(database: Path, open_page: Open) -> None:
    add(Store(database), "old", doctor="mistral_v1_7b", patient="gpt_4", prompt_pack="as released")
    as_released(Store(database), "of-old")
    app = open_page("branches", trial="old")
    assert trouble(app) == []
    assert "choose the models that continue it" in words(app)
    assert button(app, "Branch from here").disabled
    app.selectbox(key="branches_form_old_doctor").set_value("reference/bayes").run()
    assert not button(app, "Branch from here").disabled


def test_names_follow_the_family(family: Store) -> None:
    family_tree = tree_of(family)
    assert family_tree.names == {"root": "Original", "a": "Branch 1", "b": "Branch 1.1", "c": "Branch 2"}
    assert [node.changes_in_words for node in family_tree.nodes] == [
        "",
        "message 2 edited",
        "message 3 edited",
        "message 2 edited",
    ]


def test_every_branch_leaves_the_last_message_it_shares(family: Store) -> None:
    figure = tree_chart(tree_of(family), "a", "root")
    ways = [(list(t.x), list(t.y)) for t in figure.data if t.line.dash == "dot"]
    # a and c part after message 1 of the first lane; b after message 2, which a's own lane shows
    assert ways == [([1, 2], [0, 1]), ([2, 3], [1, 2]), ([1, 2], [0, 3])]
    ends = [t for t in figure.data if t.mode == "markers"]
    assert [t.customdata[0][0] for t in ends] == ["root", "a", "b", "c"]
    assert [(t.x[0], t.y[0]) for t in ends] == [(3, 0), (3, 1), (3, 2), (3, 3)]
    assert [t.marker.color for t in ends] == ["#009E73", "#8C8C8C", "#8C8C8C", "#8C8C8C"]  # only root's was judged
    assert [t.name for t in figure.data if t.showlegend is None] == ["openai/a", "openai/b"]


@pytest.mark.slow
def test_a_branch_of_a_branch_before_its_parents_start_leaves_the_lane_that_shows_the_message(family: Store) -> None:
    add(family, "d", "b", 1)
    fold(family)
    figure = tree_chart(tree_of(family), "d", None)
    lane = [n.trial_id for n in tree_of(family).nodes].index("d")
    (way,) = [list(t.y) for t in figure.data if t.line.dash == "dot" and t.y[1] == lane]
    assert way[0] == 0  # message 1 stands on the first lane only


def test_the_table_says_where_each_branch_left(family: Store) -> None:
    table = tree_table(tree_of(family))
    assert list(table["Branched from"]) == ["", "Original, message 1", "Branch 1, message 2", "Original, message 1"]
    assert table["Multi-turn · Free response"].iloc[0] == "✓ Correct"


def test_what_was_changed_is_known_between_any_two(family: Store) -> None:
    family_tree = tree_of(family)
    root, a, b, c = family_tree.nodes
    assert (family_tree.changes(b, root), family_tree.changes(b, a)) == (
        ["message 2 edited", "message 3 edited"],
        ["message 3 edited"],
    )
    assert (family_tree.changes(a, b), family_tree.changes(c, a)) == ([], ["message 2 edited"])
    assert common_messages(["a", "b"], ["a", "c"]) == 1
    assert common_messages(["a"], ["a", "c"]) == 1


def test_a_branch_that_is_over_but_not_in_the_database_yet_was_not_stopped(database: Path, open_page: Open) -> None:
    session = Session(key="late", title="a case", finished_at=9.0, events=a_stream("late"))
    live_sessions.remember(session, None)
    text = words(open_page("branches", trial="late"))
    assert "is being stored" in text
    assert "was stopped" not in text


def test_a_branch_that_went_with_its_server_leads_back_to_what_it_branched_off(family: Store, open_page: Open) -> None:
    app = open_page("branches", trial="gone", other="root")
    assert "is not stored here" in words(app)
    assert [link.proto.label for link in app.get("page_link")] == ["Back to its parent"]


@pytest.mark.slow
def test_an_original_that_still_runs_is_said_to_and_can_be_watched(database: Path, open_page: Open) -> None:
    store = Store(database)
    add(store, "early", "under-way")
    fold(store)
    assert "Original is not stored here" in words(open_page("branches", trial="early"))
    live_sessions.remember(Session(key="under-way", title="a case", events=a_stream("under-way")), None)
    app = open_page("branches", trial="early")
    assert "Original is still running" in words(app)
    assert "Watch Original" in [link.proto.label for link in app.get("page_link")]
