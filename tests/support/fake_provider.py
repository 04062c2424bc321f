"""A fake model provider on 127.0.0.1 that answers by script and records its requests.

It speaks ``/v1/chat/completions`` (streamed and plain), the same under Azure's paths, and ``/v1/models``. Use it as
``async with FakeProvider(script) as provider``, in a thread with ``with running(script) as provider``, as the
fixtures of ``tests/conftest.py``, or as a process: ``python -m tests.support.fake_provider --port 0 --script
demo`` prints its base URL on the first line and serves until it is ended.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web

from tests.support import replies
from tests.support.replies import Reply, Script

_SECRET_HEADERS = {"authorization", "api-key"}
_STALL_S = 3600.0
_UNTIL_S = 90.0
P = TypeVar("P", bound="FakeProvider")


@dataclass(frozen=True)
class Recorded:
    """A received request. ``key`` is the API key that was sent, if any; it is left out of the repr."""

    path: str
    query: dict[str, str]
    body: dict[str, Any]
    headers: dict[str, str]
    at: float
    key: str | None = field(default=None, repr=False)


class FakeProvider:
    """The server. ``requests`` has every request in order, ``bodies`` their bodies.

    With ``most`` it answers 429 to requests beyond that number at once, and counts them in ``rejected``; ``peak`` is
    the largest number at once. A request counts until its reply begins, when its client has not sent another yet.
    """

    def __init__(self, script: Script = replies.demo, *, port: int = 0, log: Path | None = None) -> None:
        self.script = script
        self.requests: list[Recorded] = []
        self.port = port
        self._log = log
        self._runner: web.AppRunner | None = None
        self._answered = 0
        self.most: int | None = None
        self.in_air = self.peak = self.rejected = 0

    @property
    def root_url(self) -> str:
        """The address without a path, which Azure calls the endpoint."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        return f"{self.root_url}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request.body for request in self.requests]

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/chat/completions", self._chat),
            web.post("/openai/deployments/{deployment}/chat/completions", self._chat),
            web.get("/v1/models", self._models),
        ]

    async def __aenter__(self) -> FakeProvider:
        app = web.Application(client_max_size=64 * 1024**2)
        app.add_routes(self.routes())
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "fake-1", "object": "model"}]})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self._record(request, body)
        if self.most is not None and self.in_air >= self.most:
            self.rejected += 1
            return _error(replies.rate_limited())
        reply = self._next_reply(body)
        self.in_air += 1
        self.peak = max(self.peak, self.in_air)
        try:
            await asyncio.sleep(reply.delay_s)
            deadline = time.monotonic() + _UNTIL_S
            while not reply.until() and time.monotonic() < deadline:  # noqa: ASYNC110, other threads decide it
                await asyncio.sleep(0.005)
        finally:
            self.in_air -= 1
        if reply.status != 200 or isinstance(reply.error, str):
            return _error(reply)
        if not body.get("stream"):
            return web.json_response(whole(reply), headers=dict(reply.headers))
        return await _stream(request, body, reply)

    def _record(self, request: web.Request, body: dict[str, Any]) -> None:
        key = request.headers.get("api-key") or request.headers.get("Authorization", "").removeprefix("Bearer ")
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _SECRET_HEADERS}
        recorded = Recorded(request.path, dict(request.query), body, headers, time.monotonic(), key or None)
        self.requests.append(recorded)
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as log:
                log.write(json.dumps({**asdict(recorded), "key": None}) + "\n")

    def _next_reply(self, body: dict[str, Any]) -> Reply:
        turn = self._answered
        self._answered += 1
        answer = self.script(body) if callable(self.script) else self.script[min(turn, len(self.script) - 1)]
        return Reply(text=answer) if isinstance(answer, str) else answer


def _error(reply: Reply) -> web.Response:
    if isinstance(reply.error, str):
        kind = "text/html" if reply.error.startswith("<") else "text/plain"
        return web.Response(status=reply.status, text=reply.error, headers=dict(reply.headers), content_type=kind)
    return web.json_response(reply.error or {}, status=reply.status, headers=dict(reply.headers))


async def _stream(request: web.Request, body: dict[str, Any], reply: Reply) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": reply.kind, **reply.headers})
    await response.prepare(request)
    if reply.raw:
        for piece in reply.raw:
            await asyncio.sleep(reply.piece_delay_s)
            await response.write(piece.encode())
        return response
    await _send(response, _chunk(reply, {"role": "assistant", "content": ""}))
    for delta in reply.deltas:
        await _send(response, _chunk(reply, dict(delta)))
    spoken: list[str | None] = [*reply.pieces, None]
    for number, words in enumerate(spoken):
        if await _mishap(request, response, reply, number):
            return response
        if words is not None:
            await asyncio.sleep(reply.piece_delay_s)
            await _send(
                response, _chunk(reply, {"content": words}, reply.finish_reason if reply.finish_always else None)
            )
    if reply.refusal:
        await _send(response, _chunk(reply, {"refusal": reply.refusal}))
    await _send(response, _chunk(reply, {}, reply.finish_reason))
    if await _mishap(request, response, reply, len(reply.pieces) + 1):
        return response
    if reply.usage and (body.get("stream_options") or {}).get("include_usage"):
        await _send(response, {**_chunk(reply, {}), "choices": [], "usage": _usage(reply)})
    await response.write(b"data: [DONE]\n\n")
    return response


async def _mishap(request: web.Request, response: web.StreamResponse, reply: Reply, number: int) -> bool:
    """Do what the script has in store after ``number`` pieces; say whether the reply ends with it."""
    if number == reply.cut_after:
        await asyncio.sleep(0.05)  # an abort throws away what was sent and not yet read
        assert request.transport is not None
        request.transport.abort()
    elif number == reply.stall_after:
        await asyncio.sleep(_STALL_S)
    elif number == reply.garbage_after:
        await response.write(b'data: {"choices": [{"del\n\n')
    elif number == reply.error_after:
        await _send(response, {"error": reply.error})
    return number in (reply.cut_after, reply.end_after, reply.stall_after, reply.garbage_after, reply.error_after)


async def _send(response: web.StreamResponse, data: dict[str, Any]) -> None:
    await response.write(b"data: " + json.dumps(data).encode() + b"\n\n")


def _chunk(reply: Reply, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "fake", "object": "chat.completion.chunk", "created": 0, "model": reply.model, "choices": [choice]}


def whole(reply: Reply) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text, "refusal": reply.refusal}
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    whole = {"id": "fake", "object": "chat.completion", "created": 0, "model": reply.model, "choices": [choice]}
    return {**whole, "usage": _usage(reply)} if reply.usage else whole


def _usage(reply: Reply) -> dict[str, Any]:
    prompt, completion = reply.usage or (0, 0)
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    details = {"completion_tokens_details": {"reasoning_tokens": reply.thought}} if reply.thought is not None else {}
    return {**usage, **details, **reply.details}


@contextlib.contextmanager
def running(script: Script = replies.demo, kind: type[P] = FakeProvider) -> Iterator[P]:  # type: ignore[assignment]
    """Run a provider in a separate thread, for callers without an event loop or with child processes."""
    provider = kind(script)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True, name="fake-provider")
    thread.start()
    asyncio.run_coroutine_threadsafe(provider.__aenter__(), loop).result(10)
    try:
        yield provider
    finally:
        asyncio.run_coroutine_threadsafe(_stop(provider), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _stop(provider: FakeProvider) -> None:
    """Stop the server and the handlers whose clients were killed."""
    await provider.__aexit__()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _serve(arguments: argparse.Namespace) -> None:
    module, _, name = arguments.script.rpartition(":")
    script: Script = getattr(importlib.import_module(module) if module else replies, name)
    async with FakeProvider(script, port=arguments.port, log=arguments.log) as provider:
        print(provider.base_url, flush=True)
        await asyncio.Event().wait()


def _main() -> None:
    parser = argparse.ArgumentParser(description="A model provider that answers by script.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", default="demo", help="a name in tests.support.replies, or module:name")
    parser.add_argument("--log", type=Path, help="append every request to this file, one JSON line each")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    _main()
