"""Local Hugging Face models: a ``ChatModel`` whose server is a child process, started with the first call.

Neither torch nor transformers is imported into this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

from core.errors import ProviderError
from core.models import local_server
from core.models.base import Completion, Delayed, Message, Sampling, StreamItem
from core.models.failures import RetryPolicy
from core.models.limits import shared_limiter
from core.models.local_server import LocalServer
from core.models.openai_compatible import ClientPool, OpenAICompatibleModel
from core.models.pictures import check_takes
from core.models.spec import ModelSpec

_DEFAULT_REPLY_TOKENS = 1024


class LocalModel:
    """``hf/<repository or folder>``, answered by ``transformers serve`` on this machine."""

    def __init__(self, spec: ModelSpec, *, pool: ClientPool | None = None, retry: RetryPolicy | None = None) -> None:
        self.spec = spec
        self._pool = pool
        self._retry = retry
        self.server: LocalServer | None = None
        """The child process; ``None`` before the first call."""
        self._client: OpenAICompatibleModel | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    def __repr__(self) -> str:
        return f"<LocalModel {self.name}>"

    async def stream(self, messages: Sequence[Message], sampling: Sampling) -> AsyncIterator[StreamItem]:
        """Yield pieces, then one ``Completion``; raise ``ProviderError`` if there is no reply."""
        check_takes(self.spec, messages)  # do not start a server for a call that must fail
        if self._client is None:
            yield Delayed("the model is being loaded")
        client, server = await self._ready()
        if (exit_reason := server.exit_reason()) is not None:
            raise exit_reason
        yield Delayed("the model answers another call first" if server.is_busy else "")
        async with server.turn():
            yield Delayed("")
            mark = server.log.mark
            try:
                async with aclosing(cast(Any, client.stream(messages, sampling))) as items:
                    async for item in items:
                        if isinstance(item, Completion):
                            self._check_length(item)
                        yield item
            except ProviderError as error:
                raise _explained(error, server, mark) from None

    def _check_length(self, done: Completion) -> None:
        """Raise ``ProviderError`` if messages and reply exceed the context, because text beyond it is meaningless.

        The server does not refuse such messages, and reports the tokens only with the reply.
        """
        used, most = done.usage.prompt_tokens + done.usage.completion_tokens, self.spec.context
        if most is not None and used > most:
            raise ProviderError(
                "bad_request",
                f"{self.name} was asked more than it can read: {used:,} tokens of {most:,}; shorten the conversation, "
                "or choose a model with a larger context.",
                attempts=done.attempts,
            )

    async def aclose(self) -> None:
        """Close the connections and release the server, which stops after its last user."""
        client, self._client = self._client, None
        server, self.server = self.server, None
        if client is not None:
            await client.aclose()
        if server is not None:
            await in_thread(lambda: local_server.release(server))

    async def _ready(self) -> tuple[OpenAICompatibleModel, LocalServer]:
        server = self.server = self.server or local_server.acquire(self.spec)
        if self._client is None:
            await in_thread(server.ensure_ready)
            # another call may have opened the client during this wait
            if self._client is None:
                served = replace(self.spec, base_url=server.base_url)
                limiter = shared_limiter(f"{self.name} {server.base_url}", served.limits, adaptive=False)
                self._client = OpenAICompatibleModel(
                    served, pool=self._pool, retry=self._retry, limiter=limiter, extras=_sampled
                )
        return self._client, server


def _explained(error: ProviderError, server: LocalServer, mark: int) -> ProviderError:
    """Return the actual cause if the server has ended, or has printed an error since ``mark``."""
    exit_reason = server.exit_reason()
    if exit_reason is not None:
        exit_reason.attempts = error.attempts
        return exit_reason
    words = server.log.last_words(mark) if error.kind == "server" else ""
    if not words:
        return error
    sentence = f"{str(error).rstrip('.')} (its server printed: {words})."
    return ProviderError("server", sentence, attempts=error.attempts)


async def in_thread(work: Callable[[], None]) -> None:
    """Run blocking work in a daemon thread, which does not delay the end of the process as ``to_thread`` does."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if not done.done():
            done.set_exception(error) if error else done.set_result(None)

    def run() -> None:
        outcome: BaseException | None = None
        try:
            work()
        except BaseException as error:
            outcome = error
        with contextlib.suppress(RuntimeError):  # the event loop of the waiting caller is closed
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=run, daemon=True, name="model-server-start").start()
    await done


def _sampled(sampling: Sampling) -> Mapping[str, Any]:
    """Request sampling explicitly: `transformers serve` accepts a temperature but decodes greedily without this."""
    if not sampling.temperature:
        return {}
    settings = {
        "do_sample": True,
        "temperature": sampling.temperature,
        "max_new_tokens": sampling.max_tokens or _DEFAULT_REPLY_TOKENS,
    }
    return {"generation_config": json.dumps(settings)}
