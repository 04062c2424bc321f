"""The lease of the database among processes, and after a process is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from core.store.database import Store
from core.store.lease import DatabaseBusyError
from tests.core.store.leasing import HOLD, NOTE, ROOT, count, note, other_process


@pytest.mark.slow
def test_a_writer_waits_for_another_process_that_reads(store: Store) -> None:
    note(store, "x")
    with other_process(store, HOLD.format(mode="read", seconds=0.7)):
        assert count(store) == 1  # two processes may read at once
        note(store, "y")
    assert count(store) == 2


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["read", pytest.param("write", marks=pytest.mark.slow)])
def test_others_wait_for_a_process_that_writes_and_name_it_if_they_give_up(store: Store, mode: str) -> None:
    note(store, "x")
    with other_process(store, HOLD.format(mode="write", seconds=1)) as holder:
        started = time.monotonic()
        with pytest.raises(DatabaseBusyError) as caught, getattr(store, mode)(timeout=0.3):
            pass
        assert count(store) == 1
        assert time.monotonic() - started > 0.6
    assert f"PID {holder.pid}" in str(caught.value)
    assert "python" in str(caught.value)
    assert str(store.path) in str(caught.value)
    note(store, "y")
    assert count(store) == 2


READ_ON = """
print("ready", flush=True)
import threading
def read_on():
    while True:
        with store.read() as cursor:
            cursor.execute("SELECT count(*) FROM unblindings").fetchall()
            time.sleep(0.05)
for _ in range(4):
    threading.Thread(target=read_on, daemon=True).start()
time.sleep(60)
"""


@pytest.mark.slow
def test_readers_of_other_processes_without_a_pause_make_room_for_a_writer(store: Store) -> None:
    note(store, "x")
    with other_process(store, READ_ON), other_process(store, READ_ON):
        time.sleep(0.5)
        for number in range(3):
            with store.write(timeout=10) as connection:
                connection.execute(NOTE, [str(number)])
    assert count(store) == 4


KILLED = """
print("ready", flush=True)
with store.write() as connection:
    lost = "'lost' AS review_id, 'me' AS unblinded_by, repeat('x', 1000) AS reason, 1 AS unblinded_at"
    connection.execute(f"INSERT INTO unblindings BY NAME SELECT {lost} FROM range(200000)")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_writer_killed_in_the_middle_leaves_the_old_state(store: Store) -> None:
    note(store, "x")
    with other_process(store, KILLED) as process:
        assert process.wait(30) == -signal.SIGKILL
    assert count(store) == 1
    note(store, "y")
    assert count(store) == 2


@pytest.mark.slow
def test_many_processes_may_make_the_file_at_once(store: Store) -> None:
    body = f"""
from pathlib import Path
from core.store.database import Store
with Store(Path({str(store.path)!r})).write() as connection:
    connection.execute({NOTE!r}, ["x"])
"""
    processes = [subprocess.Popen([sys.executable, "-c", body], cwd=ROOT) for _ in range(3)]
    assert [p.wait(60) for p in processes] == [0, 0, 0]
    assert count(store) == 3
    assert not list(store.path.parent.glob("*.new"))
