"""An OpenAI-compatible server that answers after a fixed time: ``python provider.py SECONDS QUESTIONS [MOST]``.

It prints its base URL and serves until its standard input ends. The doctor asks QUESTIONS questions and then concludes,
so every trial takes the same number of calls; each reply is streamed with one event per word. Beyond ``MOST`` requests
in flight it answers 429 at once. ``/v1/seen`` returns the number of its answers, and the seconds from the first
request to the last answer.
"""

from __future__ import annotations

import asyncio
import functools
import json
import sys
import time
from typing import Any

import orjson
from aiohttp import web

_QUESTION = "Since when have you had it, and has anything you tried made it any better?"
_REPLY = "It began about two weeks ago, and it has been getting worse every day since then."
_CONCLUSION = "**Final Diagnosis:** Psoriasis"
_USAGE = {"prompt_tokens": 200, "completion_tokens": 16, "total_tokens": 216}


def reply_to(body: dict[str, Any], questions: int) -> str:
    messages = body["messages"]
    if body["model"] != "doctor":
        return _REPLY
    concludes = len(messages) >= 2 * questions + 2 or "**Final Diagnosis:**" in messages[-1]["content"]
    return _CONCLUSION if concludes else _QUESTION


async def answer(request: web.Request) -> web.StreamResponse:
    app = request.app
    if app["in_air"][0] >= app["most"]:
        return web.json_response({"error": {"message": "too many", "code": "rate_limit_exceeded"}}, status=429)
    app["in_air"][0] += 1
    app["times"][:1] = app["times"][:1] or [time.monotonic()]
    try:
        body = orjson.loads(await request.read())
        await asyncio.sleep(app["latency_s"])
    finally:
        app["in_air"][0] -= 1
    app["times"][1:] = [time.monotonic()]
    app["answered"][0] += 1
    text = reply_to(body, app["questions"])
    if not body.get("stream"):
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({**_frame(body["model"], "chat.completion"), "choices": [choice], "usage": _USAGE})
    return web.Response(body=_events(body["model"], text), content_type="text/event-stream")


async def seen(request: web.Request) -> web.Response:
    first, last = request.app["times"]
    return web.json_response([request.app["answered"][0], last - first])


def _frame(model: str, kind: str) -> dict[str, Any]:
    return {"id": "bench", "object": kind, "created": 0, "model": model}


@functools.cache
def _events(model: str, text: str) -> bytes:
    frame = _frame(model, "chat.completion.chunk")
    words = text.split(" ")
    deltas = [{"role": "assistant", "content": ""}, *({"content": f"{word} "} for word in words), {}]
    chunks = [
        {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}]}
        for delta in deltas
    ]
    chunks.append({**frame, "choices": [], "usage": _USAGE})
    return b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


async def serve(latency_s: float, questions: int, most: float) -> None:
    app = web.Application()
    app.update(latency_s=latency_s, questions=questions, most=most, in_air=[0], times=[], answered=[0])
    app.router.add_post("/v1/chat/completions", answer)
    app.router.add_get("/v1/seen", seen)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=512).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]), int(sys.argv[2]), float([*sys.argv, "inf"][3])))
