"""How the client library is set up: its transport, its timeouts, no retries of its own."""

from __future__ import annotations

from openai import AsyncOpenAI, DefaultAioHttpClient, Timeout
from pydantic import SecretStr

from core.models.spec import is_loopback

_CONNECT_TIMEOUT_S = 15.0
_NO_KEY = "none"


def http_client(base_url: str) -> DefaultAioHttpClient:
    """Make the transport; an address on this machine is never asked for through a proxy."""
    return DefaultAioHttpClient(trust_env=not is_loopback(base_url))


def openai_client(base_url: str, key: SecretStr | None) -> AsyncOpenAI:
    """Make a client that neither retries nor reads its address from the environment."""
    return AsyncOpenAI(
        base_url=base_url,
        api_key=key.get_secret_value() if key else _NO_KEY,
        http_client=http_client(base_url),
        max_retries=0,
        timeout=client_timeout(),
    )


def client_timeout() -> Timeout:
    """Bound only the connecting here: the caller bounds the rest."""
    return Timeout(None, connect=_CONNECT_TIMEOUT_S)
