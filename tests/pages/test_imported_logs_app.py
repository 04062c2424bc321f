"""Pages with conversations of other programs, which no framework of this one played."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from core.datasets.archive import ArchiveLimits
from core.interchange.inspect_import import import_log
from core.store.database import Store
from core.store.queries.trials import conversation_ids, conversations
from core.store.selection import Selection
from tests.core.interchange.test_inspect_import import ARCHIVE
from tests.support.pages import button, trouble, words
from tests.support.stores import campaign, copy_of

Open = Callable[..., AppTest]


def _with_an_imported_log(store: Store) -> None:
    campaign(store)
    import_log(store, ARCHIVE, ArchiveLimits())


@pytest.fixture
def trial(database: object) -> str:
    store = copy_of(_with_an_imported_log, Store().path.parent)
    with store.read() as cursor:
        return conversation_ids(cursor, Selection(origins=("imported",)))[0]


@pytest.mark.slow
def test_an_imported_conversation_is_read_with_its_remarks(trial: str, open_page: Open) -> None:
    app = open_page("conversations", trial=trial)
    assert trouble(app) == []
    shown = words(app)
    assert "Since Monday" in shown
    assert "You are a doctor" in shown
    assert "Imported score" in shown


@pytest.mark.slow
def test_its_run_and_its_figures_open(trial: str, open_page: Open) -> None:
    with Store().read() as cursor:
        (run_id,) = {conversation.run_id for conversation in conversations(cursor, Selection(trials=[trial]))}
    run = open_page("runs", run=run_id)
    assert trouble(run) == []
    assert "imported" in words(run)
    accuracy = open_page("accuracy", source="Imported logs")
    assert trouble(accuracy) == []


@pytest.mark.slow
def test_the_debugger_says_why_it_cannot_take_it_apart(trial: str, open_page: Open) -> None:
    app = open_page("debugger", trial=trial)
    assert not app.exception
    assert "Another program" in words(app)
    fork = open_page("branches", trial=trial)
    assert not fork.exception
    assert "Another program" in words(fork)


@pytest.mark.slow
def test_conversations_of_a_table_are_imported_by_clicks(database: object, open_page: Open) -> None:
    app = open_page("conversations", conversations_part="Import")
    table = b"session,who,message,case\n1,Pt,I am Mrs Okoro,c1\n1,Dr,Since when?,c1\n2,Pt,Only me,c2\n"
    app.file_uploader(key="conversations_import_file").upload("pilot.csv", table, "text/csv").run()
    assert trouble(app) == []
    assert "no message of the doctor" in str([table.value for table in app.dataframe])
    assert button(app, "Import 1 conversation").disabled
    next(box for box in app.text_input if box.label == "Version").set_value("pilot").run()
    next(box for box in app.checkbox if box.label.startswith("Leave out")).check().run()
    button(app, "Import 1 conversation").click().run()
    assert trouble(app) == []
    with Store().read() as cursor:
        (stored,) = conversations(cursor, Selection(origins=("imported",)))
    assert (stored.doctor, stored.case_key) == ("imported/pilot", "conversations/c1")
    assert button(app, "Attach its cases by id").disabled
    for page in ("accuracy", "graders"):
        assert "once a vignette and a right answer are attached" in words(open_page(page)), page
