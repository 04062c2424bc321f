"""The errors a user can cause or meet, each one plain sentence that says what to do."""

from __future__ import annotations

from typing import Literal

FailureKind = Literal[
    "refused",
    "rate_limit",
    "timeout",
    "server",
    "connection",
    "malformed",
    "empty",
    "blank",
    "auth",
    "bad_request",
    "cancelled",
    "picture",
    "thinking",
    "unspoken",
]


class AnamnesisError(Exception):
    """Something went wrong that the user can understand: the message is shown as it is (exit status 1)."""


class UsageError(AnamnesisError):
    """The request itself cannot be carried out as worded (exit status 2)."""


class ProviderError(AnamnesisError):
    """A model's provider failed. It is never a wrong answer: what depended on it is excluded, with this reason.

    kind says what failed: ``refused`` (content filter), ``rate_limit`` (429), ``timeout``, ``server`` (5xx),
    ``connection``, ``malformed`` (the body cannot be read), ``empty`` (no text came), ``blank`` (no text came, and the
    provider reports a normal end: the model said nothing), ``auth`` (401/403), ``bad_request`` (400 and other 4xx),
    ``cancelled``, ``picture`` (the file of a case's picture is gone or changed, so nothing was sent), ``thinking`` (it
    ran out of tokens before it had thought to the end, or did not say where its thought ends), ``unspoken`` (it
    thought and then said nothing). ``attempts`` counts the requests that were made.
    """

    def __init__(self, kind: FailureKind, message: str, *, attempts: int = 1) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
        self.attempts = attempts


class ProfilingError(AnamnesisError):
    """The model gave nothing of a case that can be used."""
