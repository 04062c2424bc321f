"""A server of chat models that breaks every rule, on bare TCP: a web framework would not send broken headers.

``BEHAVIOURS`` holds what it can do. It keeps a bill as an honest provider would: what it reports, or else the tokens of
the prompt and of what it has sent, counted as the product estimates them. Use ``with serving("gzip bomb") as server``.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from core.models.wire import estimated_tokens, prompt_tokens

HONEST = (41, 23)
"""Tokens of prompt and reply that it reports, and bills, where it is honest."""
Script = Callable[[dict[str, Any]], str]
NEVER_S = 3600.0
MOST_SENT = 400_000_000


@dataclass
class Exchange:
    """A request and its reply. ``readable`` is the text that a reader of the reply can have read so far."""

    server: HostileServer
    body: dict[str, Any]
    key: str
    line: str
    writer: asyncio.StreamWriter
    readable: str = ""

    async def send(self, data: bytes | str) -> None:
        self.writer.write(data.encode() if isinstance(data, str) else data)
        await self.writer.drain()

    async def head(self, *headers: str, status: str = "HTTP/1.1 200 OK", kind: str = "text/event-stream") -> None:
        lines = [status, f"Content-Type: {kind}", "Connection: close", *headers]
        await self.send("\r\n".join(lines) + "\r\n\r\n")

    async def whole(self, content: Any, *headers: str, status: str = "HTTP/1.1 200 OK") -> None:
        """Send a body with its length, as JSON unless it is text or bytes."""
        data = content if isinstance(content, bytes) else str(content).encode()
        if not isinstance(content, bytes | str):
            data = json.dumps(content).encode()
        await self.head(f"Content-Length: {len(data)}", *headers, status=status, kind="application/json")
        await self.send(data)

    async def event(self, data: Any) -> None:
        await self.send(f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n")

    async def piece(self, text: str, **delta: Any) -> None:
        self.readable += text
        await self.event(chunk({"content": text, **delta}))

    async def end(self, finish: Any = "stop", usage: Any = None, *, done: bool = True) -> None:
        await self.event(chunk({}, finish))
        if usage is not None:
            await self.event({**chunk({}), "choices": [], "usage": usage})
        if done:
            await self.event("[DONE]")

    async def reply(self, text: str | None = None, finish: Any = "stop", usage: Any = None, **delta: Any) -> None:
        await self.head()
        await self.piece(self.line if text is None else text, **delta)
        await self.end(finish, honest() if usage is None else usage)

    def billed(self, does: Behaviour) -> list[tuple[int, int]]:
        if does.bills == "nothing":
            return []
        return [HONEST if does.bills == "honest" else (prompt_tokens(self.body), estimated_tokens(self.readable))]

    def reset(self) -> None:
        self.writer.transport.abort()


Sends = Callable[[Exchange], Awaitable[None]]


@dataclass(frozen=True)
class Behaviour:
    """What it does. ``bills`` says what for: what it reports (``honest``), its words (``estimate``), or ``nothing``.

    ``fate`` is what becomes of an answer with right words: it is ``right``, or left out (``provider_error``,
    ``refused``); one in other letters is the model's own, and read (``full-width``) or names no choice
    (``look-alike``). ``slow`` ones end with a time limit; one that ``ends`` the job is not asked again by it.
    """

    name: str
    sends: Sends
    fate: str
    bills: str
    slow: bool
    ends: bool


BEHAVIOURS: dict[str, Behaviour] = {}


def add(
    name: str, sends: Sends, fate: str = "right", bills: str = "honest", *, slow: bool = False, ends: bool = False
) -> None:
    BEHAVIOURS[name] = Behaviour(name, sends, fate, bills, slow, ends)


def honest() -> dict[str, Any]:
    prompt, completion = HONEST
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def chunk(delta: Any, finish: Any = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"object": "chat.completion.chunk", "model": "m", "choices": [choice], **more}


def completion(text: Any, finish: Any = "stop", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "message": message, "finish_reason": finish}]
    return {"object": "chat.completion", "model": "m", "choices": choices, "usage": honest(), **more}


@dataclass
class HostileServer:
    """``behaviour`` holds for requests to the models ``hostile``, or to all; ``bill`` is in tokens of each request."""

    script: Script
    behaviour: str = "a good reply"
    hostile: tuple[str, ...] = ()
    port: int = 0
    requests: int = 0
    bill: list[tuple[int, int]] = field(default_factory=list)
    elsewhere: list[bytes] = field(default_factory=list)
    """Heads of requests that came to the other host, to which it redirects."""
    other: int = 0
    most_sent: int = 0
    """Megabytes of the body of an error that a client took at most."""
    keys: set[str] = field(default_factory=set)
    """With which it was asked."""
    _server: asyncio.Server | None = None
    _elsewhere: asyncio.Server | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def billed_tokens(self) -> int:
        return sum(map(sum, self.bill))

    async def __aenter__(self) -> HostileServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self._elsewhere = await asyncio.start_server(self._overhear, "127.0.0.1", 0)
        self.other = self._elsewhere.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        for server in (self._server, self._elsewhere):
            if server is not None:
                server.close()

    async def _overhear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            self.elsewhere.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in head.split("\r\n"))}
            body = json.loads(await reader.readexactly(int(fields.get("content-length", 0))) or b"{}")
            self.requests += 1
            key = fields.get("authorization", "").removeprefix("Bearer ")
            self.keys.add(key)
            exchange = Exchange(self, body, key, self.script(body), writer)
            chosen = not self.hostile or body.get("model") in self.hostile
            does = BEHAVIOURS[self.behaviour if chosen else "a good reply"]
            if does.slow:  # a client that gives up on the reply is billed before it notices
                self.bill += exchange.billed(does)
            try:
                await does.sends(exchange)
            finally:
                if not does.slow:
                    self.bill += exchange.billed(does)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            with contextlib.suppress(ConnectionError, RuntimeError):
                writer.close()


@contextlib.contextmanager
def serving(script: Script, behaviour: str = "a good reply", hostile: tuple[str, ...] = ()) -> Iterator[HostileServer]:
    server, loop = HostileServer(script, behaviour, hostile), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True, name="hostile-server")
    thread.start()
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)

    async def stop() -> None:
        await server.__aexit__()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


BROKEN = "provider_error"


async def never(x: Exchange) -> None:
    await asyncio.sleep(NEVER_S)


# replies that are as they should be, or nearly
add("a good reply", lambda x: x.reply())
add("content as a list of parts", lambda x: parts(x))
add("no index in the choice", lambda x: odd_choice(x, {"delta": {"content": x.line}, "finish_reason": "stop"}))
add("an unknown finish reason", lambda x: x.reply(finish="weird"), BROKEN)
add("NULs in the text", lambda x: x.reply(f"\0{x.line}\0"))
add("half a character", lambda x: x.reply(f"{x.line} \ud83d"))
add("bidi marks", lambda x: x.reply(f"\u202a{x.line}\u202c\u200f"))
add("zero-width characters", lambda x: x.reply(f"\u200b{x.line}\u200b\ufeff"))
add("a Cyrillic letter in its words", lambda x: x.reply(in_other_letters(x.line, "Gоut", "Yеs")), "look-alike")
add("full-width letters", lambda x: x.reply(in_other_letters(x.line, "Ｇｏｕｔ", "Ｙｅｓ")), "full-width")
add("a byte order mark first", lambda x: raw_events(x, "\ufeff"))
add("duplicated keys", lambda x: duplicated(x))
add("NaN and Infinity", lambda x: not_numbers(x))
add("event names and ids", lambda x: raw_events(x, "", "event: delta\nid: 7\nretry: 1\n"))
add("two [DONE]", lambda x: two_dones(x))
add("unicode line separators", lambda x: x.reply(f"{x.line}\u2028\u2029\x85"))
add("bytes split anywhere", lambda x: split_anywhere(x))
add("an event in two data lines", lambda x: two_lines(x))
add("HTTP/1.0 without length", lambda x: old_http(x))
add("a model name of 1 MB", lambda x: named(x, "m" * 1_000_000))
add("a model name that is null", lambda x: named(x, None))
add("its model name is the key", lambda x: named(x, x.key))
add("its finish reason is the key", lambda x: x.reply(finish=x.key), BROKEN)
add("thoughts between other tags", lambda x: x.reply(f"<scratchpad>Cellulitis?</scratchpad>{x.line}"))
add("whole JSON in place of a stream", lambda x: x.whole(completion(x.line)))
add("comments between events", lambda x: raw_events(x, ": keep-alive\n\n" * 1000))
add("the connection is reset after the end", lambda x: reset_at_end(x))
add("comments for ever after the finish", lambda x: comments_after_finish(x), slow=True)
add("usage is negative", lambda x: x.reply(usage=tokens(-5, -5)), bills="estimate")
add("usage is huge", lambda x: x.reply(usage=tokens(10**18, 10**30)), bills="estimate")
add("usage in floats", lambda x: x.reply(usage=tokens(1.5, 2.5)), bills="estimate")
add("usage in words", lambda x: x.reply(usage=tokens("many", "few")), bills="estimate")
add("usage is missing", lambda x: x.reply(usage={}), bills="estimate")
add("usage is a list", lambda x: x.reply(usage=[1, 2]), bills="estimate")
add("two choices", lambda x: two_choices(x))
add("[DONE] is missing", lambda x: no_done(x))

# replies without usable text
add("an empty reply", lambda x: x.reply(""), BROKEN)
add("nothing but blanks", lambda x: x.reply(" \n\t"), BROKEN)
add("null for content", lambda x: odd_choice(x, choice({"content": None})), BROKEN)
add("tool calls in place of text", lambda x: odd_choice(x, choice({"tool_calls": [{"id": "1"}]}, "tool_calls")), BROKEN)
add("a content filter (200)", lambda x: x.reply("I", "content_filter"), "refused")
add("a content filter (400)", lambda x: error(x, 400, "blocked", "content_filter"), "refused", "nothing")
add("a refusal in its own field", lambda x: x.reply("", refusal="No."), "refused")
add("a thought without an end", lambda x: x.reply(f"<think>{x.line}"), BROKEN)
add("choices is {}", lambda x: x.whole({**completion(""), "choices": {}}), BROKEN, "estimate")
add("choices is []", lambda x: x.whole({**completion(""), "choices": []}), BROKEN)
add("choices is null", lambda x: x.whole({**completion(""), "choices": None}), BROKEN, "estimate")
add("a finish reason of null", lambda x: x.reply(finish=None), BROKEN)
add("a finish reason that is a number", lambda x: x.reply(finish=7), BROKEN)
add("content is a number", lambda x: odd_choice(x, choice({"content": 7})), BROKEN, "estimate")
add("a JSON array at the top", lambda x: x.whole([completion(x.line)]), BROKEN, "estimate")
add("garbage for JSON", lambda x: x.whole('{"choices": [{"del'), BROKEN, "estimate")
add("a web page (200)", lambda x: page(x), BROKEN, "estimate")
add("deeply nested JSON, whole", lambda x: x.whole(nested()), BROKEN, "estimate")
add("deeply nested JSON, streamed", lambda x: nested_event(x), BROKEN, "estimate")
add("deeply nested JSON in an error", lambda x: x.whole(nested(), status="HTTP/1.1 400 Bad"), BROKEN, "nothing")
add("100 MB of JSON", lambda x: huge_json(x), BROKEN, "estimate")
add("a line without end", lambda x: endless_line(x), BROKEN, "estimate")
add("a gzip bomb", lambda x: bomb(x), BROKEN, "nothing")
add("a content encoding that is not so", lambda x: x.whole("no gzip", "Content-Encoding: br"), BROKEN, "nothing")
add("an error in mid-stream", lambda x: error_midway(x), BROKEN, "estimate")
add("garbage in mid-stream", lambda x: garbage_midway(x), BROKEN, "estimate")
add("a stream that is cut", lambda x: cut(x), BROKEN, "estimate")
add("a stream without an end marker", lambda x: unfinished(x), BROKEN, "estimate")

# headers and framing
add("broken chunks", lambda x: broken_chunks(x), BROKEN, "estimate", slow=True)
add("a content length too long", lambda x: wrong_length(x, 1000), BROKEN, "estimate")
add("a content length of words", lambda x: x.head("Content-Length: many"), BROKEN, "nothing")
add("a header of 100 kB", lambda x: reply_with(x, "X-Long: " + "x" * 100_000), BROKEN, "nothing")
add("10,000 headers", lambda x: reply_with(x, *(f"X-{n}: y" for n in range(10_000))), BROKEN, "nothing")
add("a header that never ends", lambda x: endless_header(x), BROKEN, "nothing", slow=True)
add("garbage for a status line", lambda x: x.send(b"\xff\xfeHELLO 200\r\n\r\n"), BROKEN, "nothing")
add("status 999", lambda x: x.whole("{}", status="HTTP/1.1 999 Odd"), BROKEN, "nothing")
add("status 204", lambda x: x.head(status="HTTP/1.1 204 No Content"), BROKEN, "estimate")
add("1xx for ever", lambda x: informing(x), BROKEN, "nothing", slow=True)
add("redirects in a circle", lambda x: redirect(x, "/v1/chat/completions"), BROKEN, "nothing")
add("a redirect to another host", lambda x: redirect(x, f"http://127.0.0.1:{x.server.other}/v1"), BROKEN, "nothing")
add("a redirect to a file", lambda x: redirect(x, "file:///etc/passwd"), BROKEN, "nothing")
for wait in ("1e300", "Fri, 31 Dec 9999 23:59:59 GMT", "Fri, 31 Dec 99999 23:59:59 GMT", "-5", "a while", "nan"):
    # the client waits for a minute at most at a time; as it is asked to wait longer than the test's policy, it gives up
    add(f"Retry-After: {wait}", lambda x, w=wait: retry_later(x, w), BROKEN, "nothing")  # type: ignore[misc]
add("401 with the key in base64", lambda x: echo(x, 401), BROKEN, "nothing", ends=True)
add("403 with the key in base64", lambda x: echo(x, 403), BROKEN, "nothing", ends=True)
add("the key in its words", lambda x: x.reply(f"{x.line} {x.key}"))
add("the key in an error in mid-stream", lambda x: error_midway(x, x.key), BROKEN, "estimate")
add("400 with the key in base64", lambda x: echo(x, 400), BROKEN, "nothing")
add("400 with the key backwards", lambda x: error(x, 400, x.key[::-1], "x"), BROKEN, "nothing")
add("400 MB of an error", lambda x: huge_error(x), BROKEN, "nothing")
add("reset before anything", lambda x: reset(x, ""), BROKEN, "nothing")
add("reset within the headers", lambda x: reset(x, "HTTP/1.1 200 OK\r\nContent-"), BROKEN, "nothing")

# time
add("a reply that never comes", never, BROKEN, "nothing", slow=True)
add("headers, and no more", lambda x: silent(x), BROKEN, "estimate", slow=True)
add("comments for ever", lambda x: comments(x), BROKEN, "estimate", slow=True)
add("one byte a second", lambda x: dripping(x), BROKEN, "estimate", slow=True)


def in_other_letters(line: str, gout: str, yes: str) -> str:
    """Write the words that decide a verdict in letters that only look like theirs, and leave JSON and tags alone."""
    return line.replace("Gout", gout).replace("Yes", yes)


def tokens(prompt: Any, completion: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion}


def choice(delta: Any, finish: Any = "stop") -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish}


def nested() -> str:
    return '{"a":' * 200_000 + "1" + "}" * 200_000


async def odd_choice(x: Exchange, made: dict[str, Any]) -> None:
    await x.head()
    await x.event({**chunk({}), "choices": [made]})
    await x.event({**chunk({}), "choices": [], "usage": honest()})
    await x.event("[DONE]")


async def parts(x: Exchange) -> None:
    await odd_choice(x, choice({"content": [{"type": "text", "text": x.line}]}))


async def raw_events(x: Exchange, before: str, within: str = "") -> None:
    await x.head()
    await x.send(f"{before}{within}data: {json.dumps(chunk({'role': 'assistant'}))}\n\n")
    await x.send(f"{within}data: {json.dumps(chunk({'content': x.line}))}\n\n")
    await x.end(usage=honest())


async def duplicated(x: Exchange) -> None:
    await x.head()
    await x.event('{"choices": [], "choices": [{"delta": {"content": "", "content": ' + json.dumps(x.line) + "}}]}")
    await x.end(usage=honest())


async def not_numbers(x: Exchange) -> None:
    await x.head()
    await x.event(json.dumps(chunk({"content": x.line, "logprob": float("nan"), "top": float("inf")})))
    await x.end(usage=honest())


async def two_dones(x: Exchange) -> None:
    await x.reply()
    await x.event("[DONE]")


async def no_done(x: Exchange) -> None:
    await x.head()
    await x.piece(x.line)
    await x.end(usage=honest(), done=False)


async def two_choices(x: Exchange) -> None:
    await x.head()
    other = {"index": 1, "delta": {"content": "Cellulitis"}, "finish_reason": "stop"}
    await x.event({**chunk({}), "choices": [choice({"content": x.line}), other]})
    await x.event({**chunk({}), "choices": [other]})
    await x.end(usage=honest())


async def split_anywhere(x: Exchange) -> None:
    made = [chunk({"content": x.line}), chunk({}, "stop"), {**chunk({}), "choices": [], "usage": honest()}]
    data = "".join(f"data:{json.dumps(event, ensure_ascii=False)}\r\n\r\n" for event in made) + "data: [DONE]\r\n\r\n"
    await x.head()
    x.writer.get_extra_info("socket").setsockopt(6, 1, 1)
    for at in range(0, len(data), 7):
        await x.send(data[at : at + 7])
        await asyncio.sleep(0)


async def two_lines(x: Exchange) -> None:
    await x.head()
    await x.send(f'data: {{"choices":\ndata: [{json.dumps(choice({"content": x.line}, None))}]}}\n\n')
    await x.end(usage=honest())


async def old_http(x: Exchange) -> None:
    await x.head(status="HTTP/1.0 200 OK")
    await x.piece(x.line)
    await x.end(usage=honest())


async def named(x: Exchange, name: Any) -> None:
    await x.head()
    await x.event(chunk({"content": x.line}, model=name))
    await x.end(usage=honest())


async def reset_at_end(x: Exchange) -> None:
    await x.head("Transfer-Encoding: chunked")
    made = [chunk({"content": x.line}), chunk({}, "stop"), {**chunk({}), "choices": [], "usage": honest()}]
    data = "".join(f"data: {json.dumps(event)}\n\n" for event in made)
    await x.send(f"{len(data):x}\r\n{data}\r\n")
    await asyncio.sleep(0.05)
    x.reset()


async def error(x: Exchange, status: int, words: str, code: str) -> None:
    await x.whole({"error": {"message": words, "code": code}}, status=f"HTTP/1.1 {status} No")


async def echo(x: Exchange, status: int) -> None:
    await error(x, status, f"Bad key {base64.b64encode(x.key.encode()).decode()}", "invalid")


async def page(x: Exchange) -> None:
    await x.head(kind="text/html")
    await x.send("<html><body><h1>Welcome</h1></body></html>")


async def nested_event(x: Exchange) -> None:
    await x.head()
    await x.event(nested())
    await x.end()


async def huge_json(x: Exchange) -> None:
    await x.head(kind="application/json")
    await x.send('{"choices": "')
    for _ in range(100):
        await x.send(b"x" * 1_000_000)
    await x.send('"}')


async def endless_line(x: Exchange) -> None:
    await x.head()
    await x.send("data: ")
    for _ in range(MOST_SENT // 1_000_000):
        await x.send(b"x" * 1_000_000)


async def bomb(x: Exchange) -> None:
    """1 GB in 1 MB: gzip allows parts that are compressed separately."""
    await x.whole(gzip.compress(b" " * 10_000_000) * 100, "Content-Encoding: gzip")


async def error_midway(x: Exchange, words: str = "overloaded") -> None:
    await x.head()
    await x.piece(x.line)
    await x.event({"error": {"message": words}})


async def garbage_midway(x: Exchange) -> None:
    await x.head()
    await x.piece(x.line)
    await x.event('{"choices": [{"del')


async def cut(x: Exchange) -> None:
    await x.head("Content-Length: 100000")
    await x.piece(x.line)
    await asyncio.sleep(0.05)
    x.reset()


async def unfinished(x: Exchange) -> None:
    await x.head()
    await x.piece(x.line)


async def broken_chunks(x: Exchange) -> None:
    await x.head("Transfer-Encoding: chunked")
    await asyncio.sleep(0.05)  # else its head is not read either
    await x.send("zz\r\nnothing\r\n")


async def wrong_length(x: Exchange, more: int) -> None:
    data = json.dumps(completion(x.line))
    await x.head(f"Content-Length: {len(data) + more}", kind="application/json")
    await x.send(data)


async def reply_with(x: Exchange, *headers: str) -> None:
    await x.head(*headers)
    await x.piece(x.line)
    await x.end(usage=honest())


async def endless_header(x: Exchange) -> None:
    await x.send("HTTP/1.1 200 OK\r\n")
    while True:
        await x.send("X: y\r\n")
        await asyncio.sleep(0.05)


async def informing(x: Exchange) -> None:
    while True:
        await x.send("HTTP/1.1 103 Early Hints\r\n\r\n")
        await asyncio.sleep(0.01)


async def redirect(x: Exchange, place: str) -> None:
    await x.whole("", f"Location: {place}", status="HTTP/1.1 307 Temporary Redirect")


async def retry_later(x: Exchange, wait: str) -> None:
    await x.whole({"error": {"message": "slow down"}}, f"Retry-After: {wait}", status="HTTP/1.1 429 Too Many")


async def huge_error(x: Exchange) -> None:
    await x.head(status="HTTP/1.1 500 No", kind="application/json")
    try:
        for n in range(MOST_SENT // 1_000_000):
            await x.send(b"x" * 1_000_000)
            x.server.most_sent = max(x.server.most_sent, n)
    except ConnectionError:
        pass


async def reset(x: Exchange, begun: str) -> None:
    await x.send(begun)
    await asyncio.sleep(0.02)
    x.reset()


async def silent(x: Exchange) -> None:
    await x.head()
    await never(x)


async def comments(x: Exchange) -> None:
    await x.head()
    while True:
        await x.send(": thinking\n\n")
        await asyncio.sleep(0.01)


async def comments_after_finish(x: Exchange) -> None:
    await x.head()
    await x.piece(x.line)
    await x.event(chunk({}, "stop"))
    await x.event({**chunk({}), "choices": [], "usage": honest()})
    while True:
        await x.send(": still here\n\n")
        await asyncio.sleep(0.01)


async def dripping(x: Exchange) -> None:
    await x.head()
    for letter in f"data: {json.dumps(chunk({'content': x.line}))}\n\n":
        await x.send(letter)
        await asyncio.sleep(1)
