"""An older database is moved into a new file; one of before 0.4 and one of a newer program are refused."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from filelock import FileLock

from core import __version__
from core.errors import AnamnesisError
from core.events import Assessed, Called, Started
from core.journal import DeletedLine, TrialLine
from core.store import schema
from core.store.database import Store
from core.store.fold import fold
from core.store.former import FORMER, Former
from core.store.lease import DatabaseBusyError
from core.store.queries.answers import case_scores
from core.store.queries.calls import calls_of
from core.store.queries.cases import case
from core.store.queries.grades import grade_history, latest_grades
from core.store.queries.history_items import newest_items
from core.store.queries.judgements import judgements
from core.store.queries.run_labels import labels
from core.store.queries.runs import run
from core.store.queries.trials import trial_events
from core.store.stored_table import People
from core.store.tables import KINDS, TABLES, CaseLabelRow, ReportFieldRow, ScoreRow, insert
from core.store.upkeep import verify
from tests.core.store.builders import a_case, a_header, a_stream, a_trial, write_journal
from tests.core.store.leasing import other_process
from tests.core.store.old import copy_journals_of_0_4, make_database_of_0_4, unpack_golden

COLUMNS = """
    SELECT table_name, column_name, data_type, is_nullable, column_default FROM duckdb_columns()
    WHERE NOT internal AND database_name = current_database() ORDER BY table_name, column_index"""


def applied(store: Store) -> list[tuple[str, str]]:
    with store.read() as cursor:
        return cursor.execute("SELECT name, program FROM migrations ORDER BY name").fetchall()


def columns(store: Store) -> list[tuple[object, ...]]:
    with store.read() as cursor:
        return cursor.execute(COLUMNS).fetchall()


def test_a_new_database_says_which_program_made_it(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    assert applied(store) == [(schema.present(), __version__)]
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
        unrecorded = {"finish_reason": None}  # by version 0.4
        of_today = [
            event.model_copy(update={"call": event.call.model_copy(update=unrecorded)})
            if isinstance(event, Called)
            else event
            for event in a_stream()
        ]
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


def test_a_database_of_0_4_is_renewed_with_a_log_message_and_loses_nothing(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    make_database_of_0_4(store.path)
    with caplog.at_level(logging.WARNING):
        check_stored_run(store)
    with store.read() as cursor:
        answers = judgements(cursor, kinds=("person",))
        assert [(a.judge.name, a.value, a.quotations[0].words) for a in answers] == [("Ada", "yes", "lump")]
        assert [items.items for items in newest_items(cursor)] == ['[["Chief complaint","lump"]]']
    (record,) = caplog.records
    assert "version 0.4.0 is results.0.4.0.duckdb" in record.getMessage()
    assert applied(store) == [(schema.present(), __version__)]
    with duckdb.connect(str(store.path.with_name("results.0.4.0.duckdb")), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM trials").fetchall() == [(1,)]
    assert columns(store) == columns(Store(store.path.with_name("new.duckdb")))


def test_journals_of_0_4_make_the_same_database(store: Store) -> None:
    copy_journals_of_0_4(store.path)
    assert fold(store).damaged == ()
    check_stored_run(store)


def test_a_database_of_0_4_folds_further_journals(store: Store) -> None:
    make_database_of_0_4(store.path)
    second: TrialLine = a_trial(a_stream("run/1/1"), trial_id="run/1/1", trial=1)
    write_journal(store.journals, "run", a_header(cases=[a_case(1), a_case(2)]), a_trial(), second)
    with store.read() as cursor:
        stored = run(cursor, "run")
    assert stored is not None
    assert stored.done == 2
    assert fold(store).journals == 0


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


def test_a_column_more_is_one_field_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with store.write() as connection:
        insert(connection, [ScoreRow("t", "m", "1", "recall", 0.5, None, 0.0, "h", [0.25, None])])

    @dataclass
    class ColouredRow(ScoreRow, table="scores", of="trial", key=" ".join(ScoreRow.stored_in.key)):
        colour: str | None = "red"

    monkeypatch.setitem(TABLES, "scores", ColouredRow.stored_in)
    with store.read() as cursor:
        assert cursor.execute("SELECT value, series, colour FROM scores").fetchall() == [(0.5, [0.25, None], "red")]
    assert applied(store) == [(schema.present(), __version__)]
    assert store.path.with_name(f"results.{__version__}.duckdb").exists()


FAILURES: dict[str, tuple[str, object, str]] = {
    "killed": ("core.store.renewal.insert_lines", KeyboardInterrupt(), ""),
    "a row cannot be stored": ("core.store.renewal.insert_lines", ValueError("too odd"), "too odd"),
    "rows are missing": ("core.store.renewal._Old.missing", {"trials": 2}, "2 rows of trials"),
    "full disk": ("core.store.renewal.os.replace", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "No space left"),
}
"""What fails → where, what it raises or returns, and what the message names."""


def test_a_renewal_that_fails_leaves_the_database_as_it_was(
    store: Store, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    make_database_of_0_4(store.path)
    before = store.path.read_bytes()

    def failing(result: object) -> Callable[..., object]:
        def fails(*_: object) -> object:
            if isinstance(result, BaseException):
                raise result
            return result

        return fails

    for name, (where, result, words) in FAILURES.items():
        with subtests.test(name), monkeypatch.context() as patch:
            patch.setattr(where, failing(result))
            error = KeyboardInterrupt if name == "killed" else AnamnesisError
            with pytest.raises(error) as caught, store.read():
                pass
            assert words in str(caught.value)
            assert name == "killed" or str(store.path) in str(caught.value)
            assert store.path.read_bytes() == before
            assert not [*store.path.parent.glob("*.renewed*")]
    store.path.with_name("results.duckdb.renewed").write_bytes(b"left by a process that was killed")
    check_stored_run(store)


def test_others_wait_for_a_renewal_and_say_so(store: Store) -> None:
    make_database_of_0_4(store.path)
    with (
        FileLock(store.path.with_name("results.duckdb.renewing")),
        pytest.raises(DatabaseBusyError, match="brought up to date by another process"),
        store.read(timeout=0.1),
    ):
        pass
    check_stored_run(store)


@pytest.mark.slow
def test_two_processes_that_open_an_older_database_renew_it_once(store: Store) -> None:
    store = Store(unpack_golden("version_0_5_0", store.path.parent))
    body = (
        "print('ready', flush=True)\nwith store.read() as c: print(c.execute('SELECT count(*) FROM runs').fetchall())"
    )
    with other_process(store, body) as first, other_process(store, body) as second:
        assert first.communicate()[0] == second.communicate()[0] == "[(8,)]\n"
    names = {path.name for path in store.path.parent.iterdir() if path.is_file()}
    assert names == {"anamnesis.duckdb", "anamnesis.0.5.0.duckdb"}


def counts(store: Store) -> dict[str, int]:
    with store.read() as cursor:
        tables = [name for name, table in TABLES.items() if not table.counted and name != "journal_positions"]
        return {name: cursor.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0] for name in tables}


def test_rows_of_deleted_and_damaged_journals_are_copied(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole, hurt = (Store(unpack_golden("version_0_5_1", tmp_path / name)) for name in ("whole", "hurt"))
    expected = counts(whole)
    journals = {path.name: path / "journal.jsonl" for path in sorted(hurt.journals.iterdir())}
    runs = [name for name, path in journals.items() if path.read_bytes().startswith(b'{"type":"run"')]
    for name in (*runs[:2], *(name for name in journals if name.startswith(("judging", "rubrics", "profiles")))):
        shutil.rmtree(hurt.journals / name)
    for name in (runs[2], "people"):
        first, _, rest = journals[name].read_bytes().partition(b"\n")
        journals[name].write_bytes(first + b"\n{torn\n" + rest)
    with caplog.at_level(logging.WARNING):
        assert counts(hurt) == expected
    assert {name for name in (runs[2], "people") if f"{name}/journal.jsonl is damaged" in caplog.text} == {
        runs[2],
        "people",
    }
    kinds = {finding.kind for finding in verify(hurt).findings}
    assert kinds <= {"orphaned", "damaged"}  # nothing is missing, doubled, different or miscounted


def test_what_journals_delete_is_not_copied(store: Store) -> None:
    make_database_of_0_4(store.path)
    deleted = DeletedLine(run_id="run", trial_id="run/1/0")
    write_journal(store.journals, "run", a_header(cases=[a_case(1)]), a_trial(), deleted)
    left = counts(store)
    assert {name: left[name] for name in ("trials", "utterances", "grades", "scores")} == {
        **{"trials": 0, "utterances": 0, "grades": 0, "scores": 0}
    }
    assert left["calls"] > 0
    assert [finding for finding in verify(store).findings if finding.kind != "orphaned"] == []


@pytest.fixture
def same_order() -> Iterator[None]:
    """Put tables that a test takes away back in their order: in another order every stored database is an older one."""
    before = [(tables, dict(tables)) for tables in (TABLES, KINDS)]
    yield
    for tables, declared in before:
        tables.clear()
        tables.update(declared)


@pytest.mark.usefixtures("same_order")
def test_rows_of_a_former_table_become_rows_of_a_present_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In journals of jobs and of people, and in a database without journals, alike."""

    def as_label(row: Mapping[str, Any]) -> Iterator[CaseLabelRow]:
        yield CaseLabelRow(row["case_key"], row["content_hash"], "date", row["model"], "model", "x", "", row["made_at"])

    def as_report_field(row: Mapping[str, Any]) -> Iterator[ReportFieldRow]:
        yield ReportFieldRow([row["run_id"]], "name", row["name"], True, "", row["labelled_at"])

    stores = {name: Store(unpack_golden("version_0_5_1", tmp_path / name)) for name in ("database", "journals")}
    for path in stores["database"].journals.glob("completions*"):
        shutil.rmtree(path)
    stores["journals"].path.unlink()
    for name in ("completions", "run_labels"):
        monkeypatch.delitem(TABLES, name)
    monkeypatch.delitem(KINDS, "label")
    monkeypatch.setitem(FORMER, "completions", Former(as_label))
    monkeypatch.setitem(FORMER, "run_labels", Former(as_report_field, People("label", "labelled_at")))
    made = {}
    for name, store in stores.items():
        fold(store)
        with store.read() as cursor:
            made[name] = (
                cursor.execute("SELECT value, made_at FROM case_labels WHERE made_by = 'x' ORDER BY ALL").fetchall(),
                cursor.execute("SELECT runs, text FROM report_fields WHERE field = 'name' ORDER BY ALL").fetchall(),
            )
        assert not fold(store).removed
    assert made["database"] == made["journals"]
    assert [len(rows) for rows in made["journals"]] == [2, 2]
