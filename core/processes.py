"""Reads parcels in worker processes, in their order.

Not a pool of ``multiprocessing``: that runs the main program again in each process, which under Streamlit is the
dashboard. These workers read parcels from a pipe and end with their parent, because the pipe closes then. They import
only the modules of their parcels, because most of the cost of a process is its start.
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
"""Niceness of a worker: the dashboard has priority."""


class ReadTask(Protocol[T_co]):
    """Work that can be pickled, such as a ``FileParcel``: a process calls ``read`` and sends the result back."""

    def read(self) -> T_co: ...


def read_by(
    processes: int, parcels: Iterable[ReadTask[T]], begin: Callable[[], object] | None = None
) -> Generator[T, None, None]:
    """Yield the result of each parcel, in their order; with 0 ``processes``, read in this process.

    Parcels are taken only when needed. ``begin``, a function of a module, is called first in each process. Closing the
    generator ends the processes. Raises ``AnamnesisError`` if a process ends early.
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


def _send(free: SimpleQueue[subprocess.Popen[bytes]], parcel: ReadTask[T]) -> T:
    worker = free.get()
    try:
        assert worker.stdin is not None
        assert worker.stdout is not None
        pickle.dump(parcel, worker.stdin, pickle.HIGHEST_PROTOCOL)
        worker.stdin.flush()
        result: T = pickle.load(worker.stdout)
        return result
    except (EOFError, OSError, pickle.UnpicklingError) as error:
        raise AnamnesisError(
            f"A worker process ended early (status {worker.poll()}): stored results stay; start the command again."
        ) from error
    finally:
        free.put(worker)


def work() -> None:
    if hasattr(os, "nice"):
        os.nice(_NICE)
    gc.set_threshold(100_000, 50, 100)  # a parcel makes many objects that all live until it is read
    if begin := pickle.load(sys.stdin.buffer):
        begin()
    while True:
        try:
            parcel: ReadTask[object] = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(parcel.read(), sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)
        sys.stdout.buffer.flush()
