"""Plays the trials of a run on a Ray cluster: workers as of ``core.jobs.workers``, on many machines.

A worker is an actor that lives as long as the run, with a CPU of its own, or a GPU where a local model is served beside
it. What it and the driver say to each other goes through the actor: the driver puts messages in and asks for those that
wait, so that the driver need not be reached from anywhere. A node that is lost takes its workers along, whose trials go
to others; Ray starts them again as soon as there is room. Keys stand in the environment of the nodes, nowhere else.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
import os
import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from core import __version__
from core.errors import AnamnesisError, UsageError
from core.jobs.plan import campaign_of
from core.jobs.run import Play, Players
from core.jobs.workers import Crew, Hired, Station, served_here
from core.journal import RunHeader
from core.models.keys import environment
from core.models.registry import Registry
from core.models.tickets import Tickets

_NAMESPACE = "anamnesis"
_ANSWERS_WITHIN_S = 10.0
_CALLS_AT_ONCE = 100_000
"""Calls that may wait for a place under a limit, in the whole cluster."""


class Post:
    """What is an actor on some node: a worker, and the messages between it and the driver."""

    def __init__(self, tickets: Any) -> None:
        self._tickets = tickets
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue()
        self._leaving: asyncio.Queue[bytes] = asyncio.Queue()
        self._station: asyncio.Task[None] | None = None

    async def put(self, message: bytes) -> None:
        """Take a message of the driver's; with the first, the worker begins."""
        if self._station is None:
            station = Station(self, lambda method, *arguments: getattr(self._tickets, method).remote(*arguments))
            self._station = asyncio.create_task(station.serve())
        self._arrived.put_nowait(message)

    async def take(self) -> list[bytes]:
        """Wait for messages to the driver, and return all that are there."""
        found = [await self._leaving.get()]
        while not self._leaving.empty():
            found.append(self._leaving.get_nowait())
        return found

    def send(self, message: bytes) -> None:
        """Leave a message for the driver: there are never more than trials under way, for each waits for its answer."""
        self._leaving.put_nowait(message)

    async def receive(self) -> bytes | None:
        """Wait for a message of the driver's; when that is gone, so is this actor."""
        return await self._arrived.get()

    def close(self) -> None:
        """Do nothing: the driver ends the actor."""


class _ToActor:
    """The driver's end of the way to an actor."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor
        self._here: deque[bytes] = deque()

    def send(self, message: bytes) -> None:
        self._actor.put.remote(message)

    async def receive(self) -> bytes | None:
        while not self._here:
            try:
                self._here.extend(await self._actor.take.remote())
            except self._ray.exceptions.RayError:
                return None
        return self._here.popleft()

    def close(self) -> None:
        self._ray.kill(self._actor)


def on_ray(address: str | None, workers: int | None) -> Players:
    """Return what plays the trials of a run on the cluster at ``address``, by default one that is started here.

    ``workers`` is how many actors play, by default one for each CPU of the cluster (a GPU with a local model). Raises
    ``UsageError`` where Ray is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if importlib.util.find_spec("ray") is None:
        raise UsageError(
            "Ray is not installed: install it with `.venv/bin/python -m pip install -r requirements-ray.txt`, or leave "
            "--engine out."
        )

    @asynccontextmanager
    async def players(header: RunHeader, registry: Registry) -> AsyncIterator[Play]:
        ray = importlib.import_module("ray")
        local = served_here(campaign_of(header), registry)
        ours = not ray.is_initialized()
        if ours:
            os.environ.update(environment({}))  # a cluster that is started here finds the keys there
            where = {"address": address} if address else {"address": "local", "include_dashboard": False}
            try:
                if address and address != "auto":  # where nobody listens, Ray would try for many minutes
                    host, _, port = address.rpartition(":")
                    with socket.create_connection((host, int(port)), timeout=_ANSWERS_WITHIN_S):
                        pass
                ray.init(**where, namespace=_NAMESPACE, configure_logging=False, logging_level=logging.ERROR)
            except (OSError, RuntimeError, ValueError) as error:
                raise AnamnesisError(
                    f"There is no Ray cluster at {address or 'this machine'} ({str(error).splitlines()[0]}): give the "
                    "host:port that `ray start --head` says, from a machine of the cluster."
                ) from error
        try:
            kind = "GPU" if local else "CPU"
            has = int(ray.cluster_resources().get(kind, 0))
            if not has or (workers or 0) > has:
                more = (
                    f": {local} is served beside each worker, or by a server of its own (--base-url)" if local else ""
                )
                raise UsageError(f"The cluster has {has} {kind}s, and each worker needs one{more}.")
            stays = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                ray.get_runtime_context().get_node_id(), soft=True
            )
            tickets = (
                ray.remote(Tickets)
                .options(
                    name=f"limits {__version__}",
                    namespace=_NAMESPACE,
                    get_if_exists=True,
                    lifetime="detached",  # of all runs on this cluster
                    num_cpus=0,
                    max_restarts=-1,
                    max_task_retries=-1,
                    max_concurrency=_CALLS_AT_ONCE,
                    scheduling_strategy=stays,
                )
                .remote()
            )
            worker = ray.remote(Post).options(
                num_cpus=0 if local else 1,
                num_gpus=1 if local else 0,
                max_concurrency=_CALLS_AT_ONCE,
                scheduling_strategy="SPREAD",
            )

            async def hire() -> Hired:
                pipe = _ToActor(ray, worker.remote(tickets))

                async def end() -> None:
                    pipe.close()

                return pipe, end

            crew = Crew(header, registry, hire, workers or has)
            try:
                play = await crew.__aenter__()
            except UsageError as error:
                raise UsageError(f"On a node of the cluster, where `ray start` was run: {error}") from None
            try:
                yield play
            finally:
                await crew.__aexit__()
        finally:
            if ours:
                ray.shutdown()

    return players
