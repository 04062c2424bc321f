"""Helpers of the tests of the lease: writing a row, counting rows, and a second process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.store.database import Store

ROOT = Path(__file__).resolve().parents[3]
NOTE = """
    INSERT INTO unblindings BY NAME
    SELECT ? AS review_id, 'me' AS unblinded_by, '' AS reason, 1 AS unblinded_at"""


def count(store: Store) -> int:
    with store.read() as cursor:
        return int(cursor.execute("SELECT count(*) FROM unblindings").fetchall()[0][0])


def note(store: Store, item: str) -> None:
    with store.write() as connection:
        connection.execute(NOTE, [item])


@contextmanager
def other_process(store: Store, body: str) -> Iterator[subprocess.Popen[str]]:
    """Run ``body`` with ``store`` in a second process, and continue after it has printed "ready"."""
    head = f"import os, signal, sys, time\nfrom pathlib import Path\nfrom core.store.database import Store\n\
store = Store(Path({str(store.path)!r}))\n"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", head + body], cwd=ROOT, **pipes)  # type: ignore[call-overload]
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


HOLD = """
with store.{mode}() as connection:
    connection.execute("SELECT 1").fetchall()
    print("ready", flush=True)
    time.sleep({seconds})
"""
