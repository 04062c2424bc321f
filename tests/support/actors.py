"""Ray's actors in this process: methods run as tasks of their own context, and what goes in and out is pickled."""

from __future__ import annotations

import asyncio
import contextvars
import pickle
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

from core import __version__
from core.jobs.cluster import Driver, Mailbox, Worker
from core.jobs.run import Play, Players
from core.journal import RunHeader
from core.models.registry import Registry


class RayActorError(Exception):
    """The actor is lost."""


class RayTaskError(Exception):
    """The actor's method raised ``cause``."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(repr(cause))
        self.cause = cause


class Actor:
    """An actor; ``end`` loses it, and ``restart`` starts it again."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self.object = make()
        self.calls: set[asyncio.Task[Any]] = set()
        self._alive = asyncio.Event()
        self._alive.set()

    def __getattr__(self, name: str) -> Any:
        def remote(*arguments: Any) -> asyncio.Future[Any]:
            call = self._call(name, pickle.dumps(arguments))
            task = asyncio.get_running_loop().create_task(call, context=contextvars.Context())
            self.calls.add(task)
            task.add_done_callback(self.calls.discard)
            return asyncio.shield(task)  # who gives up waiting does not end the call

        return SimpleNamespace(remote=remote, options=lambda **_: SimpleNamespace(remote=remote))

    async def _call(self, name: str, arguments: bytes) -> Any:
        if name == "open":  # as Ray does with max_task_retries
            await self._alive.wait()
        try:
            if not self._alive.is_set():
                raise RayActorError
            return pickle.loads(pickle.dumps(await getattr(self.object, name)(*pickle.loads(arguments))))
        except asyncio.CancelledError:
            raise RayActorError from None
        except RayActorError:
            raise
        except Exception as error:
            raise RayTaskError(error) from None

    def end(self) -> None:
        self._alive.clear()
        for task in self.calls:
            task.cancel()

    def restart(self) -> None:
        self.end()
        self.object = self._make()
        self._alive.set()


def kill(actor: Actor, no_restart: bool = True) -> None:
    """Do as ``ray.kill`` does."""
    (actor.end if no_restart else actor.restart)()


FAKE_RAY = SimpleNamespace(
    kill=kill, exceptions=SimpleNamespace(RayActorError=RayActorError, RayTaskError=RayTaskError)
)


def on_actors(size: int, actors: list[Actor] | None = None) -> Players:
    """Return what plays the trials of a run by so many actors in this process, which are put into ``actors``."""

    @asynccontextmanager
    async def players(header: RunHeader, registry: Registry) -> AsyncIterator[Play]:
        mailbox, opened = Actor(Mailbox), list[Registry]()

        def worker(number: int) -> Worker:
            sent_header, sent_registry = pickle.loads(pickle.dumps((header, registry)))
            opened.append(sent_registry)
            return Worker(mailbox, number, sent_header, sent_registry, __version__)

        made = [Actor(partial(worker, number)) for number in range(size)]
        if actors is not None:
            actors.extend(made)
        driver = Driver(FAKE_RAY, mailbox, made)
        try:
            await driver.start()
            yield driver.play
        finally:
            await driver.stop()
            for one in opened:
                await one.aclose()

    return players
