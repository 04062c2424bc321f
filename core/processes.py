"""Reads parcels in processes of its own, in their order.

Not a pool of ``multiprocessing``: that runs the main program again in each process, which under Streamlit is the
dashboard. These processes read parcels from a pipe and end with whoever started them, because their input ends then.
They load only what their parcels are made of: most of what a process costs is its start.
"""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Protocol, TypeVar

from core import paths
from core.errors import AnamnesisError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_NICE = 5
"""The dashboard goes first."""


class Readable(Protocol[T_co]):
    """Something that a process can be sent, to read there what comes back: a ``Parcel``, or files."""

    def read(self) -> T_co:
        """Return what is in it."""


def read_by(
    processes: int, parcels: Iterable[Readable[T]], begin: Callable[[], object] | None = None
) -> Generator[T, None, None]:
    """Yield what is read of each parcel in their order, by so many processes, or here where there are none.

    Parcels are taken as they are needed. ``begin``, of a module, is called first in each process. Closing the
    generator ends the processes. Raises ``AnamnesisError`` where one of them breaks off.
    """
    if not processes:
        yield from (parcel.read() for parcel in parcels)
        return
    workers = [_start(begin) for _ in range(processes)]
    free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
    for worker in workers:
        free.put(worker)
    threads = ThreadPoolExecutor(processes)
    ahead: deque[Future[T]] = deque()
    try:
        for parcel in parcels:
            ahead.append(threads.submit(_send, free, parcel))
            if len(ahead) > processes:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        for worker in workers:
            worker.kill()
        threads.shutdown(cancel_futures=True)
        for worker in workers:
            worker.communicate()


def _start(begin: Callable[[], object] | None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", "from core.processes import work; work()"]
    worker = subprocess.Popen(command, cwd=paths.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdin is not None
    pickle.dump(begin, worker.stdin)
    return worker


def _send(free: SimpleQueue[subprocess.Popen[bytes]], parcel: Readable[T]) -> T:
    """Have a process that is free read a parcel."""
    worker = free.get()
    try:
        assert worker.stdin is not None
        assert worker.stdout is not None
        pickle.dump(parcel, worker.stdin, pickle.HIGHEST_PROTOCOL)
        worker.stdin.flush()
        found: T = pickle.load(worker.stdout)
        return found
    except (EOFError, OSError, pickle.UnpicklingError) as error:
        raise AnamnesisError(
            f"A process that reads broke off (status {worker.poll()}): what was kept by then stays; start it again."
        ) from error
    finally:
        free.put(worker)


def work() -> None:
    """Read parcels from the standard input until it ends."""
    if hasattr(os, "nice"):
        os.nice(_NICE)
    gc.set_threshold(100_000, 50, 100)  # a parcel makes many objects that all live until it is read
    if begin := pickle.load(sys.stdin.buffer):
        begin()
    while True:
        try:
            parcel: Readable[object] = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(parcel.read(), sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)
        sys.stdout.buffer.flush()
