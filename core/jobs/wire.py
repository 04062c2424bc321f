"""Two processes that call each other's methods: what goes back and forth, over whatever carries messages."""

from __future__ import annotations

import asyncio
import itertools
import pickle
import traceback
from typing import Any, Protocol, cast

from core.asking.memory import Over
from core.errors import AnamnesisError, UsageError


class Lost(Exception):
    """The other end is gone."""


class Pipe(Protocol):
    """Carries messages to another process and back."""

    def send(self, message: bytes) -> None:
        """Send a message on its way; where the other end is gone, nothing happens."""

    async def receive(self) -> bytes | None:
        """Wait for a message; ``None`` once the other end is gone and all that it sent was received."""

    def close(self) -> None:
        """End it."""


class Wire:
    """Two ends of a pipe that call each other's methods.

    ``ours`` are whose methods the other end may call, all of them coroutines.
    """

    def __init__(self, pipe: Pipe, *ours: object) -> None:
        self._pipe, self._ours = pipe, ours
        self._numbers = itertools.count()
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._gone = False

    def ask(self, method: str, *arguments: object) -> asyncio.Future[Any]:
        """Call a method there, now; await what it returns or raises. ``Lost`` where nobody is there any more."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._gone:
            _fail(answer, Lost())
        else:
            self._asked[number := next(self._numbers)] = answer
            self._pipe.send(pickle.dumps((number, method, arguments)))
        return answer

    async def serve(self, finish: str = "") -> None:
        """Answer until the other end is gone; calls of the method ``finish`` are answered to the end, also then."""
        try:
            while (message := await self._pipe.receive()) is not None:
                number, method, content = pickle.loads(message)
                if method:
                    task = asyncio.create_task(self._answer(number, method, content), name=method)
                    self._answering.add(task)
                    task.add_done_callback(self._answering.discard)
                elif (answer := self._asked.pop(number, None)) is not None and not answer.done():
                    result, error = content
                    _fail(answer, error) if error else answer.set_result(result)
        finally:
            self._gone = True
            for task in self._answering:
                if task.get_name() != finish:
                    task.cancel()
            await asyncio.gather(*self._answering, return_exceptions=True)
            for answer in self._asked.values():
                if not answer.done():
                    _fail(answer, Lost())

    async def _answer(self, number: int, method: str, arguments: tuple[Any, ...]) -> None:
        result, error = None, cast(Exception | None, None)
        try:
            result = await next(getattr(one, method) for one in self._ours if hasattr(one, method))(*arguments)
        except Over:
            error = Over()
        except AnamnesisError as fault:
            error = (UsageError if isinstance(fault, UsageError) else AnamnesisError)(str(fault))
        except Exception:  # a fault of ours, which is raised where the piece of work belongs
            error = RuntimeError(f"in a worker: {traceback.format_exc()}")
        if not self._gone:
            self._pipe.send(pickle.dumps((number, "", (result, error))))


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    answer.set_exception(error)
    answer.exception()  # many an answer is waited for by nobody


class Stream:
    """A pipe over a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, message: bytes) -> None:
        """Send a message: there are never more than the trials under way, for each waits for its answer."""
        if not self._writer.is_closing():
            self._writer.write(len(message).to_bytes(4) + message)

    async def receive(self) -> bytes | None:
        """Wait for a message."""
        try:
            return await self._reader.readexactly(int.from_bytes(await self._reader.readexactly(4)))
        except (asyncio.IncompleteReadError, OSError):
            return None

    def close(self) -> None:
        """End it."""
        self._writer.close()
