"""Ray's actors in this process: methods run as tasks of their own context, and what goes in and out is pickled."""

from __future__ import annotations

import asyncio
import contextvars
import pickle
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from weakref import WeakValueDictionary

from core.jobs.cluster import Driver, Mailbox, Worker
from core.jobs.run import Play, Players
from core.journal import RunHeader
from core.models.registry import Registry


class RayActorError(Exception):
    """The actor is lost."""


class ActorUnavailableError(RayActorError):
    """The actor is being restarted."""


class RayTaskError(Exception):
    """The actor's method raised ``cause``."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(repr(cause))
        self.cause = cause


class Actor:
    """An actor; ``end`` loses it, and ``restart`` starts it again unless it was ``killed``."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self.object = make()
        self.calls: set[asyncio.Task[Any]] = set()
        self.registries: list[Registry] = []
        self.alive, self.killed = True, False
        _actors[id(self)] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return _handle, (id(self),)

    def __getattr__(self, name: str) -> Any:
        def remote(*arguments: Any) -> asyncio.Future[Any]:
            call = self._call(name, pickle.dumps(arguments))
            task = asyncio.get_running_loop().create_task(call, context=contextvars.Context())
            self.calls.add(task)
            task.add_done_callback(self.calls.discard)
            return asyncio.shield(task)  # who gives up waiting does not end the call

        return SimpleNamespace(remote=remote)

    async def _call(self, name: str, arguments: bytes) -> Any:
        try:
            if not self.alive:
                raise RayActorError
            sent = pickle.loads(arguments)
            self.registries += [argument for argument in sent if isinstance(argument, Registry)]
            return pickle.loads(pickle.dumps(await getattr(self.object, name)(*sent)))
        except asyncio.CancelledError:
            raise RayActorError from None
        except RayActorError:
            raise
        except Exception as error:
            raise RayTaskError(error) from None

    def end(self) -> None:
        self.alive = False
        for task in self.calls:
            # not at once: a task that is cancelled before its first step ends without RayActorError
            task.get_loop().call_soon_threadsafe(task.cancel)

    def restart(self) -> None:
        self.end()
        if not self.killed:
            self.object = self._make()
            self.alive = True


_actors: WeakValueDictionary[int, Actor] = WeakValueDictionary()


def _handle(number: int) -> Actor:
    return _actors[number]


def kill(actor: Actor, no_restart: bool = True) -> None:
    actor.killed = actor.killed or no_restart
    if actor.killed and (receiving := getattr(actor.object, "_receiving", None)):
        receiving.cancel()  # as a worker's process ends
    actor.restart()


FAKE_RAY = SimpleNamespace(
    kill=kill,
    exceptions=SimpleNamespace(
        ActorUnavailableError=ActorUnavailableError, RayActorError=RayActorError, RayTaskError=RayTaskError
    ),
)


def on_actors(size: int, actors: list[Actor] | None = None) -> Players:
    """Return what plays the trials of a run by ``size`` actors; they are added to ``actors``, the mailbox last."""

    @asynccontextmanager
    async def players(header: RunHeader, registry: Registry) -> AsyncIterator[Play]:
        mailbox = Actor(Mailbox)

        made = [Actor(Worker) for _ in range(size)]
        if actors is not None:
            actors.extend([*made, mailbox])
        driver = Driver(FAKE_RAY, header, registry, mailbox, made)
        try:
            await driver.start()
            yield driver.play
        finally:
            await driver.stop()
            for registry_sent in (sent for actor in made for sent in actor.registries):
                await registry_sent.aclose()

    return players
