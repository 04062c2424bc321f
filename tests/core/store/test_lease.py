"""The lease of the database among the threads of a process, and files that are no database."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from core import access
from core.errors import AnamnesisError
from core.store import lease
from core.store.database import Store
from core.store.lease import DatabaseBusyError
from tests.core.store.leasing import NOTE, count, note


def test_the_first_reader_makes_the_file(store: Store) -> None:
    assert not store.path.exists()
    assert count(store) == 0
    assert [p.name for p in store.path.parent.iterdir()] == ["results.duckdb"]


def test_a_written_row_is_read_and_an_exception_undoes_it(store: Store) -> None:
    note(store, "stored")
    with suppress(ZeroDivisionError), store.write() as connection:
        connection.execute(NOTE, ["lost"])
        raise ZeroDivisionError
    assert count(store) == 1


def test_a_refused_statement_undoes_the_transaction_and_frees_the_database(store: Store) -> None:
    with suppress(duckdb.CatalogException), store.write() as connection:
        connection.execute(NOTE, ["lost"])
        connection.execute("SELECT * FROM no_such_table")
    assert count(store) == 0


def test_readers_cannot_write(store: Store) -> None:
    with store.read() as cursor, pytest.raises(duckdb.InvalidInputException):
        cursor.execute(NOTE, ["x"])


def test_reading_inside_reading_is_fine_even_while_a_writer_waits(store: Store) -> None:
    with store.read() as outer:
        writer = threading.Thread(target=note, args=(store, "x"))
        writer.start()
        time.sleep(0.1)
        with store.read(timeout=1) as inner:
            assert inner.execute("SELECT count(*) FROM unblindings").fetchall() == [(0,)]
        assert outer.execute("SELECT 1").fetchall() == [(1,)]
    writer.join()
    assert count(store) == 1


@pytest.mark.parametrize(("outer", "inner"), [("read", "write"), ("write", "write"), ("write", "read")])
def test_other_nesting_is_a_programming_error_and_no_deadlock(store: Store, outer: str, inner: str) -> None:
    with pytest.raises(RuntimeError, match="This thread"), getattr(store, outer)(), getattr(store, inner)():
        pass
    note(store, "x")
    assert count(store) == 1


def test_two_stores_of_one_file_share_its_gate(store: Store) -> None:
    with store.read(), pytest.raises(RuntimeError), Store(store.path).write():
        pass


def test_eight_threads_read_while_one_writes(store: Store) -> None:
    problems: list[BaseException] = []
    stop = threading.Event()

    def read_on() -> None:
        largest = 0
        try:
            while not stop.is_set():
                with store.read() as cursor:
                    counts = cursor.execute("SELECT count(*), count(DISTINCT review_id) FROM unblindings").fetchall()[0]
                assert counts[0] == counts[1] >= largest
                largest = counts[0]
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=read_on) for _ in range(8)]
    for thread in threads:
        thread.start()
    started = time.monotonic()
    for number in range(15):
        note(store, str(number))
    seconds = time.monotonic() - started
    stop.set()
    for thread in threads:
        thread.join()
    assert not problems
    assert count(store) == 15
    assert seconds < 15, "the writer was starved by readers"


def test_a_thread_that_gives_up_says_that_this_program_is_busy(store: Store) -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with store.read():
            inside.set()
            leave.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait(10)
    with pytest.raises(DatabaseBusyError, match="another part of this program"), store.write(timeout=0.2):
        pass
    leave.set()
    holder.join()
    note(store, "x")


@pytest.mark.parametrize("content", [b"", b"not a database"])
def test_a_file_that_is_no_database_is_named(store: Store, content: bytes) -> None:
    store.path.write_bytes(content)
    with pytest.raises(AnamnesisError, match="cannot be opened"), store.read():
        pass
    assert store.path.read_bytes() == content


def test_a_foreign_duckdb_file_is_refused(store: Store) -> None:
    duckdb.connect(str(store.path)).close()
    with pytest.raises(AnamnesisError, match="not a database of Anamnesis"), store.read():
        pass


@pytest.mark.usefixtures("sealed")
def test_sql_reaches_nothing_but_the_database(store: Store, subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        "SELECT * FROM read_text('/etc/hostname')",
        "COPY unblindings TO '/tmp/out.csv'",
        "ATTACH '/tmp/other.duckdb'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT * FROM secret",
    ]
    for statement in rows:
        with subtests.test(statement=statement):
            secret = {"a": [1]}  # noqa: F841  a Python variable that SQL could see
            with store.read() as cursor, pytest.raises(duckdb.Error):
                cursor.execute(statement).fetchall()


def test_the_version_changes_with_the_data_only(store: Store) -> None:
    note(store, "x")
    before = store.version
    count(store)
    with store.write() as connection:
        connection.execute("SELECT 1").fetchall()
    assert store.version == before
    note(store, "y")
    assert store.version != before


@pytest.mark.usefixtures("sealed")
def test_duckdb_is_started_once_and_the_file_is_opened_once_for_several_readers(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(store, "x")
    opened = Counter[bool]()
    attach = lease.Opened._attach

    def counted(opening: lease.Opened, path: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        opened[read_only] += 1
        return attach(opening, path, read_only=read_only)

    monkeypatch.setattr(lease, "IDLE_S", 60)
    monkeypatch.setattr(lease.Opened, "_attach", counted)
    with monkeypatch.context() as patch:
        patch.setattr(duckdb, "connect", lambda *args, **options: pytest.fail("started again"))
        assert [count(store) for _ in range(3)] == [1, 1, 1]
        note(store, "y")
        assert [count(store) for _ in range(3)] == [2, 2, 2]
    assert opened == {True: 2, False: 1}
    other_file = Store(store.path.with_name("other.duckdb"))
    assert (count(other_file), count(store)) == (0, 2)


def test_readers_see_the_file_that_is_at_the_path_now(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if another file replaces it while it is open, or after a query failed."""
    monkeypatch.setattr(lease, "IDLE_S", 60)
    other = Store(store.path.with_name("other.duckdb"))
    note(other, "x")
    assert count(store) == 0
    other.path.replace(store.path)
    assert count(store) == 1
    with store.read() as cursor, suppress(duckdb.Error):
        cursor.execute("SELECT * FROM no_such_table")
    assert count(store) == 1


def test_what_is_computed_while_the_file_is_open_is_not_computed_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "IDLE_S", 60)
    computed = Counter[str]()

    def noted(cursor: duckdb.DuckDBPyConnection, who: str) -> int:
        def compute() -> int:
            computed[who] += 1
            return int(cursor.execute("SELECT count(*) FROM unblindings").fetchall()[0][0])

        return lease.while_open(cursor, "number", compute)

    for expected in (0, 1):
        for _ in range(2):
            with store.read() as outer, store.read() as inner:
                assert (noted(outer, "readers"), noted(inner, "readers")) == (expected, expected)
        with store.write() as connection:
            assert noted(connection, "writer") == expected
            connection.execute(NOTE, [f"{expected}"])
            assert noted(connection, "writer") == expected + 1
    with access.acting(access.Visitor("ada", "run")), store.read() as cursor:
        assert noted(cursor, "visitor") == 2
    assert computed == {"readers": 2, "writer": 4, "visitor": 1}


def test_the_file_is_closed_soon_and_at_once_if_a_writer_waits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = lease.gate_of(store.path)
    for idle_s, waits in ((0.05, False), (60, True)):
        monkeypatch.setattr(lease, "IDLE_S", idle_s)
        count(store)
        assert gate._opened is not None
        if waits:
            gate.marker.raise_()
        ends = time.monotonic() + 10
        while gate._opened is not None and time.monotonic() < ends:
            time.sleep(0.005)
        assert gate._opened is None


def test_a_copy_has_all_rows_and_never_overwrites_a_file(store: Store, tmp_path: Path) -> None:
    note(store, "x")
    target = tmp_path / "it's a copy.duckdb"
    store.copy_to(target)
    assert count(Store(target)) == 1
    note(Store(target), "y")
    assert count(store) == 1
    with pytest.raises(AnamnesisError, match="exists already"):
        store.copy_to(target)


def test_the_configured_path_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", os.fspath(tmp_path / "there" / "mine.duckdb"))
    store = Store()
    assert count(store) == 0
    assert store.path == tmp_path / "there" / "mine.duckdb"
    assert store.journals == tmp_path / "there" / "mine.journals"


def test_a_copy_waits_for_a_writer_that_was_faster(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, tries = duckdb.connect, list[str]()

    def connecting(*args: str, **options: object) -> duckdb.DuckDBPyConnection:
        if args == (":memory:",):
            tries.append(args[0])
            if len(tries) < 3:  # as if a run in another process had the file open for a moment
                raise duckdb.IOException("IO Error: Could not set lock on file: Conflicting lock")
        return connect(*args, **options)  # type: ignore[arg-type]

    with store.write():
        pass
    monkeypatch.setattr(duckdb, "connect", connecting)
    store.copy_to(tmp_path / "copy.duckdb")
    assert len(tries) == 3
    with Store(tmp_path / "copy.duckdb").read() as cursor:
        assert cursor.execute("SELECT count(*) FROM trials").fetchall() == [(0,)]
