"""A database of 0.4 is migrated; an older one and one of a newer program are refused."""

from __future__ import annotations

import logging
from dataclasses import astuple

import duckdb
import pytest

from core import __version__
from core.asking.parts import PromptPart
from core.errors import AnamnesisError
from core.events import Assessed, Started
from core.journal import TrialLine
from core.store import migrations
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.answers import case_scores
from core.store.queries.calls import calls_of
from core.store.queries.cases import case
from core.store.queries.completions import StoredCompletion, completions
from core.store.queries.grades import grade_history, latest_grades
from core.store.queries.history_items import newest_items
from core.store.queries.judgements import add_judgements, judgements
from core.store.queries.releases import ReleaseBatch, document, write_release
from core.store.queries.reviews import add_review, reviews
from core.store.queries.run_labels import labels
from core.store.queries.runs import run
from core.store.queries.trials import trial_events
from core.store.queries.variants import JOURNAL, Variant, line_of, variants_of
from core.store.review_records import Review, ReviewPlan
from core.store.tables import insert
from tests.core.store.builders import a_case, a_header, a_stream, a_trial, keep_lines, write_journal
from tests.core.store.old import copy_journals_of_0_4, make_database_of_0_4
from tests.support.answering import an_answer

COLUMNS = """
    SELECT table_name, column_name, data_type, is_nullable, column_default FROM duckdb_columns()
    WHERE NOT internal ORDER BY table_name, column_index"""


def applied(store: Store) -> list[tuple[str, str]]:
    with store.read() as cursor:
        return cursor.execute("SELECT name, program FROM migrations ORDER BY name").fetchall()


def columns(store: Store) -> list[tuple[object, ...]]:
    with store.read() as cursor:
        return cursor.execute(COLUMNS).fetchall()


def test_files_are_numbered_in_their_order() -> None:
    numbers = [int(name.partition("_")[0]) for name in migrations.MIGRATIONS]
    assert numbers[0] == 7
    assert numbers == sorted(set(numbers))


def test_a_new_database_says_which_program_made_it(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    assert applied(store) == [(name, __version__) for name in migrations.MIGRATIONS]
    assert not caplog.records


def check_stored_run(store: Store) -> None:
    """Assert that everything version 0.4 stored of its run is readable."""
    rated = Assessed(name="empathy", most=5, by="openai/p", value=4, words="Kind.")
    with store.read() as cursor:
        events = trial_events(cursor, "run/1/0")
        assert [event for event in events if isinstance(event, Assessed)] == [
            Assessed(name="misuse", turn=2, values=("text_outside",), words="Final"),
            rated,
        ]
        of_today = a_stream()
        of_today[0] = events[0]
        assert [event for event in events if not isinstance(event, Assessed)] == of_today
        started = events[0]
        assert isinstance(started, Started)
        assert (started.framework, started.framework_version, started.at) == ("craftmd", 1, 1.0)
        assert [(g.verdict, g.at) for g in grade_history(cursor, "run/1/0") if g.rule == "frq"] == [
            ("provider_error", 10.0),
            ("correct", 20.0),
        ]
        assert {g.rule: g.verdict for g in latest_grades(cursor, "run/1/0")}["frq"] == "correct"
        assert calls_of(cursor, "run/1/0")[1].cost_usd == 0.25
        assert case(cursor, "ours/1") == a_case(1, licence="")
        stored = run(cursor, "run")
        assert stored is not None
        assert (stored.doctor, stored.planned, stored.done, stored.code_version) == ("openai/a", 4, 1, "0.4.0")
        assert [(s.format, s.correct, s.counted) for s in case_scores(cursor)] == [
            ("multi_turn", 1, 1),
            ("vignette", 1, 1),
        ]
        assert [(label.name, label.tags) for label in labels(cursor).values()] == [("First try", ("pilot",))]


def test_a_database_of_0_4_is_migrated_with_a_log_message_and_loses_nothing(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    make_database_of_0_4(store.path)
    with caplog.at_level(logging.WARNING):
        check_stored_run(store)
    with store.read() as cursor:
        assert [(a.judge.name, a.value, a.quotations[0].words) for a in judgements(cursor, kinds=("person",))] == [
            ("Ada", "yes", "lump")
        ]
        assert [items.items for items in newest_items(cursor)] == ['[["Chief complaint","lump"]]']
    added = [name for name in migrations.MIGRATIONS if name > "0011"]
    assert [record.getMessage() for record in caplog.records] == [
        f"Brought the database {store.path} up to date: {', '.join(added)}."
    ]
    assert [name for name, program in applied(store) if program == __version__] == added


def test_journals_of_0_4_make_the_same_database(store: Store) -> None:
    copy_journals_of_0_4(store.path)
    assert fold(store).damaged == ()
    check_stored_run(store)


def test_a_database_of_0_4_folds_further_journals(store: Store) -> None:
    make_database_of_0_4(store.path)
    second: TrialLine = a_trial(a_stream("run/1/1"), trial_id="run/1/1", trial=1)
    write_journal(store.journals, "run", a_header(cases=[a_case(1), a_case(2)]), a_trial(), second)
    assert fold(store).trials == 1
    with store.read() as cursor:
        stored = run(cursor, "run")
    assert stored is not None
    assert stored.done == 2


def test_a_database_of_0_4_has_the_same_tables_in_the_end(store: Store) -> None:
    new = Store(store.path.with_name("new.duckdb"))
    make_database_of_0_4(store.path)
    assert columns(store) == columns(new)


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE meta (schema_version INTEGER)", "CREATE TABLE runs (run_id VARCHAR)"),  # up to 0.1.1
        (
            "CREATE TABLE meta (schema_version INTEGER)",
            "CREATE TABLE migrations (name VARCHAR, applied_at DOUBLE, program VARCHAR)",
            "INSERT INTO migrations VALUES ('0001_version_0_1_1', 0, '0.1.3'), ('before_0001/to_9', 0, '0.1.3')",
        ),
    ],
)
def test_a_database_of_before_0_4_is_refused_with_the_way_to_import_it(
    store: Store, statements: tuple[str, ...]
) -> None:
    store.path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(store.path)) as connection:
        for statement in statements:
            connection.execute(statement)
    message = r"before 0\.4, .*: open it once with version 0\.5, .* and then here; or import"
    with pytest.raises(AnamnesisError, match=message) as caught, store.read():
        pass
    assert str(store.path) in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"judged","table":"fact_judgements","row":{}}\n',
        b'{"type":"grades","run_id":"run","trial_id":"run/1/0","grades":[],"calls":[{"call_id":"c"}]}\n',
    ],
)
def test_a_journal_of_before_0_4_is_refused_with_the_way_to_import_it(store: Store, line: bytes) -> None:
    path = write_journal(store.journals, "old")
    path.write_bytes(line)
    (damaged,) = fold(store).damaged
    assert damaged.path == path
    assert "before 0.4" in damaged.message
    assert "take it into a database with version 0.5" in damaged.message


def test_a_database_of_a_newer_program_is_refused_in_words(store: Store) -> None:
    with store.write() as connection:
        connection.execute("INSERT INTO migrations VALUES ('0099_colour', 0, '7.1')")
    with pytest.raises(AnamnesisError, match=r"written by a newer Anamnesis \(7\.1; this is"), store.read():
        pass


def test_a_column_more_is_one_file_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with store.write() as connection:
        connection.execute("INSERT INTO scores VALUES ('t', 'm', '1', 'recall', .5, NULL, 0, 'h', NULL)")
    added = {**migrations.MIGRATIONS, "0099_colour": "ALTER TABLE scores ADD COLUMN colour VARCHAR"}
    monkeypatch.setattr(migrations, "MIGRATIONS", added)
    with store.read() as cursor:
        assert cursor.execute("SELECT value, colour FROM scores").fetchall() == [(0.5, None)]
    assert applied(store)[-1][0] == "0099_colour"


def test_a_step_that_fails_leaves_the_database_as_it_was(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before = applied(store)
    broken = {"0098_colour": "ALTER TABLE scores ADD COLUMN colour VARCHAR", "0099_odd": "ALTER TABLE nothing DROP x"}
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", {**migrations.MIGRATIONS, **broken})
        with pytest.raises(Exception, match="nothing"), store.read():
            pass
    assert applied(store) == before
    assert ("scores", "colour") not in [row[:2] for row in columns(store)]


def test_a_column_more_in_every_table_disturbs_no_reader_and_no_writer(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [name for name in {str(row[0]) for row in columns(store)} if name not in ("migrations", "meta")]
    views = {"newest_grades", "verdicts", "case_labels_in_force", "labelled_cases"}
    script = "".join(f"ALTER TABLE {name} ADD COLUMN colour VARCHAR;" for name in tables if name not in views)
    monkeypatch.setattr(migrations, "MIGRATIONS", {**migrations.MIGRATIONS, "0099_colour": script})
    write_journal(store.journals, "run", a_header(cases=[a_case(1)]), a_trial())
    assert fold(store).trials == 1
    step = PromptPart("user", "Hello", "doctor")
    completion = StoredCompletion("ours/1", "h", "m", "p", "a", "b", "c", "", 0.5, "{}", 3, None, 1.0)
    review = Review("First", ReviewPlan(kind="baseline", number=1, annotators=("Ada",)))
    with store.write() as connection:
        add_judgements(connection, [an_answer("talk:run/1/0", "Ada", "in_vignette", "yes")])
        insert(
            connection, "INSERT INTO completions BY NAME SELECT * FROM incoming", "completions", [astuple(completion)]
        )
        add_review(connection, review, [])
        write_release(connection, ReleaseBatch(documents={"notes.txt": ("d", b"words")}))
    keep_lines(store, JOURNAL, [line_of(Variant("run/1/0", "doctor", (step,), "m"))])
    with store.read() as cursor:
        assert trial_events(cursor, "run/1/0") == a_stream()
        assert len(latest_grades(cursor, "run/1/0")) == 3
        assert [a.value for a in judgements(cursor, kinds=("person",))] == ["yes"]
        assert [v.messages for v in variants_of(cursor, "run/1/0")] == [(step,)]
        assert completions(cursor) == [completion]
        assert [r.name for r in reviews(cursor)] == ["First"]
        assert document(cursor, "notes.txt") == b"words"
        assert [(s.format, s.correct) for s in case_scores(cursor)] == [("multi_turn", 0), ("vignette", 1)]
