"""For any bytes that a server sends, a call ends in time with a completion or a provider's error."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ProviderError
from core.models.base import Completion, NoReply
from core.models.failures import RetryPolicy
from core.models.spec import Timeouts
from tests.support.asking import hear, make_model, make_spec

TIMES = Timeouts(call_s=1.5, first_piece_s=1.2, stall_s=1)
"""Short, because a malformed chunk is only noticed at its timeout: the HTTP client does not report it."""
_NAMES = st.sampled_from(
    "choices delta message content text type index finish_reason usage prompt_tokens completion_tokens model error "
    "code refusal reasoning reasoning_details tool_calls prompt_tokens_details cached_tokens total_tokens".split()
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES | st.text(max_size=5), inner, max_size=5),
    max_leaves=12,
)


def _chunk(inner: Any, finish: Any, usage: Any, model: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": inner, "message": inner, "finish_reason": finish}
    return {"choices": [choice], "usage": usage, "model": model}


_CHUNKS = st.builds(
    _chunk, st.dictionaries(_NAMES, _JSON, max_size=3), st.sampled_from(["stop", None]) | _JSON, _JSON, _JSON
)
_EVENTS = st.builds(lambda value: b"data: " + json.dumps(value).encode() + b"\n\n", _CHUNKS | _JSON)
_STREAM = st.lists(
    _EVENTS | st.binary(max_size=40) | st.sampled_from([b"data: [DONE]\n\n", b": hello\n\n", b"event: x\n", b"\r\n"]),
    max_size=6,
).map(b"".join)
_WHOLE = (_CHUNKS | _JSON).map(lambda value: json.dumps(value).encode())
_STATUS = st.integers(0, 1200).map(lambda n: f"HTTP/1.1 {n} Words".encode()) | st.binary(max_size=30)
_NICE = st.sampled_from([b"HTTP/1.1 200 OK", b"HTTP/1.0 200 OK", b"HTTP/1.1 429 No", b"HTTP/1.1 400 No"])
_HEADER = st.sampled_from(
    [b"Content-Type: text/event-stream", b"Content-Type: application/json", b"Content-Type: text/html",
     b"Transfer-Encoding: chunked", b"Content-Encoding: gzip", b"Content-Length: 7", b"Content-Length: -1",
     b"Retry-After: 1e300", b"Retry-After: -inf", b"retry-after-ms: 1e400", b"Location: //[", b"Location: /v1",
     b"Content-Type: text/plain; charset=nonsense"]
) | st.binary(max_size=60)  # fmt: skip
_REPLY = st.tuples(_NICE | _NICE | _STATUS, st.lists(_HEADER, max_size=4), _STREAM | _WHOLE | st.binary(max_size=200))


async def _outcome_of(data: bytes) -> Completion | ProviderError:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(data)
            await writer.drain()
            writer.write_eof()
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        spec = make_spec(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", timeouts=TIMES)
        model = make_model(spec, retry=RetryPolicy(attempts=2, max_wait_s=0.1))
        try:
            async with asyncio.timeout(20):
                last = (await hear(model))[-1]
        except ProviderError as error:
            return error
        finally:
            await model.aclose()
    assert isinstance(last, Completion)
    return last


@settings(max_examples=5)
@given(reply=_REPLY)
def test_a_call_ends_for_any_reply(reply: tuple[bytes, list[bytes], bytes]) -> None:
    check(reply)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@settings(max_examples=10_000)
@given(reply=_REPLY)
def test_ten_thousand_calls_end_for_any_reply(reply: tuple[bytes, list[bytes], bytes]) -> None:
    check(reply)


def check(reply: tuple[bytes, list[bytes], bytes]) -> None:
    status, headers, body = reply
    outcome = asyncio.run(_outcome_of(b"\r\n".join([status, *headers, b"Connection: close", b"", body])))
    if isinstance(outcome, Completion):
        assert outcome.text.strip()
        outcome.text.encode()  # the text can be stored
        usage, dollars = outcome.usage, outcome.cost_usd
    else:
        assert str(outcome).endswith(".")
        assert "\n" not in str(outcome)
        if not isinstance(outcome, NoReply):
            return
        usage, dollars = outcome.spent.usage, outcome.spent.cost_usd
    assert 0 <= usage.prompt_tokens < 100_000
    assert 0 <= usage.completion_tokens < 1_000_000
    assert dollars is None or 0 <= dollars < 100
