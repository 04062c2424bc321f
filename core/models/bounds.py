"""Limits on the size of responses, shared by all HTTP clients of the project.

A reply of a chat model is far below a megabyte; anything larger is a fault of the server or an attack, and must not
fill the memory. Compressed bodies are neither requested nor accepted: 60 KB can unpack to 60 MB.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import httpx2

MOST_BYTES = 64_000_000
"""Maximum of a reply's body, streamed or not."""
MOST_ERROR_BYTES = 200_000
"""Bytes that are read of an error's body, of which one line is shown."""
MOST_LINE_BYTES = 8_000_000
"""Maximum of one line in a stream of events."""
MOST_REDIRECTS = 5
UNCOMPRESSED = {"Accept-Encoding": "identity"}


class NotTakenError(ValueError):
    """A server sent a response that is not accepted; the message says why."""


class TooLargeError(NotTakenError):
    """A response is too large or compressed."""


class ElsewhereError(NotTakenError):
    """A server redirects to a forbidden address."""


def check_line(length: int) -> None:
    """Raise ``TooLargeError`` for a too long line in a stream of events."""
    if length > MOST_LINE_BYTES:
        raise TooLargeError(f"a line of the stream is longer than {MOST_LINE_BYTES:,} bytes")


class _BoundedBody(httpx2.AsyncByteStream, httpx2.SyncByteStream):
    """A body that ends at ``most`` bytes, or raises ``TooLargeError`` there."""

    def __init__(self, response: httpx2.Response) -> None:
        self._stream: Any = response.stream
        self._is_error = response.status_code >= 400
        self._most = MOST_ERROR_BYTES if self._is_error else MOST_BYTES
        self._left = self._most

    def _part(self, block: bytes) -> bytes:
        part = block[: self._left]
        self._left -= len(block)
        if self._left < 0 and not self._is_error:
            raise TooLargeError(f"the reply is larger than {self._most:,} bytes")
        return part

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for block in self._stream:
            yield self._part(block)
            if self._left <= 0:
                return

    def __iter__(self) -> Iterator[bytes]:
        for block in self._stream:
            yield self._part(block)
            if self._left <= 0:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()

    def close(self) -> None:
        self._stream.close()


def _check_redirect(response: httpx2.Response) -> None:
    """Raise ``ElsewhereError`` for a redirect to another server, which would receive the request and some keys."""
    if not response.has_redirect_location:
        return
    try:
        place = response.request.url.join(response.headers["location"])
    except (ValueError, httpx2.InvalidURL):
        raise ElsewhereError("the server leads on to what is no address") from None
    if (place.scheme in ("http", "https"), place.host) != (True, response.request.url.host):
        raise ElsewhereError(f"the server leads on to another one ({place.scheme}://{place.host[:80]})")
    if place.scheme == "http" and response.request.url.scheme == "https":
        raise ElsewhereError("the server leads on from https to http")
    here, there = (url.port or {"http": 80, "https": 443}[url.scheme] for url in (response.request.url, place))
    if place.scheme == response.request.url.scheme and here != there:
        raise ElsewhereError(f"the server leads on to another one ({place.host[:80]}:{there})")


def _bound(response: httpx2.Response) -> None:
    _check_encoding(response.headers)
    _check_redirect(response)
    response.stream = _BoundedBody(response)


async def _bound_later(response: httpx2.Response) -> None:
    _bound(response)


def _check_encoding(headers: Mapping[str, str]) -> None:
    if (encoding := headers.get("content-encoding", "identity").strip().lower()) not in ("", "identity"):
        raise TooLargeError(f"the reply is packed ({encoding[:20]}), which was not asked for")


def hooks(*, asynchronous: bool) -> dict[str, list[Any]]:
    """Return the ``event_hooks`` of an httpx2 client that apply these limits."""
    return {"response": [_bound_later if asynchronous else _bound]}
