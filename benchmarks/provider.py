"""An OpenAI-compatible server that answers every request after a fixed time: ``python provider.py SECONDS [PORT]``.

It prints its base URL and serves until it is ended. The doctor asks ``QUESTIONS`` times and then concludes, so every
trial takes the same number of calls; each reply is streamed as one event a word.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from aiohttp import web

QUESTIONS = 1
_QUESTION = "Since when have you had it, and has anything you tried made it any better?"
_REPLY = "It began about two weeks ago, and it has been getting worse every day since then."
_CONCLUSION = "**Final Diagnosis:** Psoriasis"
_USAGE = {"prompt_tokens": 200, "completion_tokens": 16, "total_tokens": 216}


def reply_to(body: dict[str, Any]) -> str:
    """Return the line of whoever is asked."""
    messages = body["messages"]
    if body["model"] != "doctor":
        return _REPLY
    concludes = len(messages) >= 2 * QUESTIONS + 2 or "**Final Diagnosis:**" in messages[-1]["content"]
    return _CONCLUSION if concludes else _QUESTION


async def answer(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    await asyncio.sleep(float(request.app["latency_s"]))
    text = reply_to(body)
    if not body.get("stream"):
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({**_frame(body, "chat.completion"), "choices": [choice], "usage": _USAGE})
    return web.Response(body=_events(body, text), content_type="text/event-stream")


def _frame(body: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "bench", "object": kind, "created": 0, "model": body["model"]}


def _events(body: dict[str, Any], text: str) -> bytes:
    frame = _frame(body, "chat.completion.chunk")
    words = text.split(" ")
    deltas = [{"role": "assistant", "content": ""}, *({"content": f"{word} "} for word in words), {}]
    chunks = [
        {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}]}
        for delta in deltas
    ]
    chunks.append({**frame, "choices": [], "usage": _USAGE})
    return b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


async def serve(latency_s: float) -> None:
    app = web.Application()
    app["latency_s"] = latency_s
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=512).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
