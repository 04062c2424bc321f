"""Processes that mark conversations; a parcel of them goes in by a pipe, and their summaries come back by another.

Not a pool of ``multiprocessing``: that runs the main program again in each process, which under Streamlit is the
dashboard. These processes end with whoever started them, because their input ends then.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue

from core import paths
from core.agents.base import Dialogue
from core.case import Case
from core.errors import AnamnesisError
from core.measures.ledger.marks import ledger, to_json
from core.text.facts import AtomicFact

_NICE = 5
"""The dashboard goes first."""


@dataclass(frozen=True)
class Parcel:
    """Conversations to mark: the case of each, by its place in ``cases``, and the facts that replace the case's own."""

    cases: tuple[tuple[Case, tuple[AtomicFact, ...] | None], ...]
    talks: tuple[tuple[int, Dialogue], ...]

    def summaries(self) -> list[str]:
        """Return the summary of each conversation, in their order; other parcels make something else of them."""
        return [to_json(ledger(self.cases[place][0], said, self.cases[place][1])) for place, said in self.talks]


def mark(parcel: Parcel) -> list[str]:
    """Return the summary of each conversation of a parcel, in their order."""
    return parcel.summaries()


def marked_by(processes: int, parcels: Iterable[Parcel]) -> Generator[list[str], None, None]:
    """Yield the summaries of each parcel in their order, made by so many processes, or here where there are none.

    Parcels are taken as they are needed. Closing the generator ends the processes. Raises ``AnamnesisError`` where one
    of them breaks off.
    """
    if not processes:
        yield from map(mark, parcels)
        return
    workers = [_start() for _ in range(processes)]
    free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
    for worker in workers:
        free.put(worker)
    threads = ThreadPoolExecutor(processes)
    ahead: deque[Future[list[str]]] = deque()
    try:
        for parcel in parcels:
            ahead.append(threads.submit(_send, free, parcel))
            if len(ahead) > processes:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        _end(workers, threads)


def _start() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "core.measures.ledger.workers"]
    return subprocess.Popen(command, cwd=paths.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _end(workers: Sequence[subprocess.Popen[bytes]], threads: ThreadPoolExecutor) -> None:
    for worker in workers:
        worker.kill()
    threads.shutdown(cancel_futures=True)
    for worker in workers:
        worker.communicate()


def _send(free: SimpleQueue[subprocess.Popen[bytes]], parcel: Parcel) -> list[str]:
    """Have a process that is free mark a parcel."""
    worker = free.get()
    try:
        assert worker.stdin is not None
        assert worker.stdout is not None
        pickle.dump(parcel, worker.stdin)
        worker.stdin.flush()
        summaries: list[str] = pickle.load(worker.stdout)
        return summaries
    except (EOFError, OSError, pickle.UnpicklingError) as error:
        raise AnamnesisError(
            f"A process that marks facts broke off (status {worker.poll()}): what was marked is kept; start it again."
        ) from error
    finally:
        free.put(worker)


def _work() -> None:
    """Mark parcels from the standard input until it ends."""
    if hasattr(os, "nice"):
        os.nice(_NICE)
    while True:
        try:
            parcel: Parcel = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(mark(parcel), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _work()
