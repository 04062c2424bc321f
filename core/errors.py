"""Errors that users see: each message is one plain sentence that says what to do."""

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
    """The request is invalid (exit status 2)."""


class ProviderError(AnamnesisError):
    """A model's provider failed. This is never a wrong answer: the answer is excluded, with this reason.

    ``kind`` says what failed: ``refused`` (content filter), ``rate_limit`` (429), ``timeout``, ``server`` (5xx),
    ``connection``, ``malformed`` (the body cannot be read), ``empty`` (no text, or a reply that ended with an
    error), ``blank`` (no text, and the provider reports a normal end: the model wrote nothing), ``auth`` (401/403),
    ``bad_request`` (400 and other 4xx), ``cancelled``, ``picture`` (the file of a case's picture is gone or changed, so
    nothing was sent), ``thinking`` (it ran out of tokens while thinking, or did not mark the end of its thought),
    ``unspoken`` (it thought and then wrote nothing). ``attempts`` counts the requests.
    """

    def __init__(self, kind: FailureKind, message: str, *, attempts: int = 1) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
        self.attempts = attempts


class ProfilingError(AnamnesisError):
    """The model's reply contains no usable profile of a case."""
