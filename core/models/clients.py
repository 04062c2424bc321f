"""HTTP clients shared by all models of one address and key, one set an event loop, closed with their last user.

``core.models.openai_compatible`` makes them: a registry of names costs no import of the client library.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import SecretStr

if TYPE_CHECKING:
    from openai import AsyncOpenAI

Factory = Callable[[], "AsyncOpenAI"]


@dataclass
class _Shared:
    client: AsyncOpenAI
    users: set[int] = field(default_factory=set)


class ClientPool:
    """Hands out one client for each address, key and event loop: a connection belongs to the loop that made it."""

    def __init__(self) -> None:
        self._shared: dict[tuple[asyncio.AbstractEventLoop, str, str], _Shared] = {}
        self._lock = threading.Lock()

    def get(self, user: object, base_url: str, key: SecretStr | None, make: Factory) -> AsyncOpenAI:
        """Return the client for this address, made at its first use, and note who uses it."""
        place = (asyncio.get_running_loop(), base_url, key.get_secret_value() if key else "")
        with self._lock:
            self._forget_closed_loops()
            shared = self._shared.get(place) or self._shared.setdefault(place, _Shared(make()))
            shared.users.add(id(user))
            return shared.client

    async def release(self, user: object) -> None:
        """Close the clients of this event loop that only ``user`` still held."""
        loop = asyncio.get_running_loop()
        with self._lock:
            mine = {p: s for p, s in self._shared.items() if p[0] is loop and id(user) in s.users}
            for place, shared in mine.items():
                shared.users.discard(id(user))
                if not shared.users:
                    del self._shared[place]
        for shared in mine.values():
            if not shared.users:
                await shared.client.close()

    def _forget_closed_loops(self) -> None:
        for place in [p for p in self._shared if p[0].is_closed()]:
            del self._shared[place]
