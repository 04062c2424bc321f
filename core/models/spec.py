"""The specification of one model: its address, its prices, and what may be sent to it.

A ``ModelSpec`` contains names of environment variables, never a key.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints

from core.access import target
from core.models.base import Sampling, TomlTable
from core.models.limits import RateLimits

ProviderKind = Literal["openai", "azure", "hf", "python"]
MaxTokensField = Literal["max_tokens", "max_completion_tokens"]
SystemRole = Literal["system", "user", "before_user"]
Unsupported = Literal["temperature", "max_tokens", "seed", "stop", "reasoning_effort", "images"]
Structured = Literal["json_schema", "json_object", "none"]
EFFORT = "{effort}"
"""Placeholder for the reasoning effort in a model's ``extra_body``."""
THINKING_TOKENS = 16_384
"""Tokens for a model's reasoning, in addition to the limit of its message."""


class Prices(TomlTable):
    """US dollars per million tokens, as listed in the month ``as_of``.

    Without ``cached`` or ``cache_write``, input that is read from or written to a cache has the price ``input``.
    """

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    as_of: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}$")] | None = None
    cached: float | None = Field(None, ge=0)
    cache_write: float | None = Field(None, ge=0)


class Timeouts(TomlTable):
    """Maximum seconds of a request: in total, until its first text, and between two pieces of text."""

    call_s: float = Field(600.0, gt=0)
    first_piece_s: float = Field(300.0, gt=0)
    stall_s: float = Field(60.0, gt=0)


class Bounds(TomlTable):
    """When an endless reply is cut: its maximum of characters per token of its limit, and its repetitions.

    A reply that ends in the same text (up to 400 characters) more than ``repeats`` times is cut when the repetitions
    fill 2,000 characters; 0 disables this.
    """

    characters_a_token: int = Field(16, ge=8)
    repeats: int = Field(30, ge=0)


@dataclass(frozen=True)
class LocalServing:
    """How a local model's server is started."""

    args: tuple[str, ...] = ()
    start_timeout_s: float = 900.0


@dataclass(frozen=True)
class ModelSpec:
    """One model of one provider.

    Attributes:
        base_url: ``None`` for a local model that a child process serves, and for a provider without an address yet.
        system_role: How a system message is sent: as such, always as part of the user's message, or as such only
            before a user's message.
        unsupported: Sampling settings that are never sent, and ``images`` for a model that takes no pictures.
        limits_scope: Models with the same scope share their rate limits.
        group: The kind of model in figures by group, such as open weights.
        opens_thinking: The chat template opens a block of reasoning in every reply, so that the text contains only
            the closing tag.
        retired: The model is no longer served and not offered; it describes stored results.
        thinking_tokens: Tokens for reasoning in addition to the limit of a reply; ``None`` if the model is not known
            to reason.
        structured: How JSON is requested (``response_format``); ``None`` if only a try can tell.
        extra_body: Fields for the body of every request, with ``{effort}`` as placeholder for the reasoning effort;
            a field with only an unset effort is left out.
        cutoff: The end of its training data, to the year, month or day (``core.dates``); empty if unknown.
        cutoff_source: Where its maker states the cutoff, with the day it was read; empty for an entry of the user.
        batch: Whether the model has a Batch API (``core.models.batches``); ``None`` if its address decides.
        cache_marks: The provider caches marked prompts (``core.models.wire``) and charges less for them.
        folder: The folder with the module of a Python application.
    """

    name: str
    provider: str
    kind: ProviderKind
    model_id: str
    display: str
    base_url: str | None = None
    api_key_env: str | None = None
    api_version: str | None = None
    prices: Prices | None = None
    limits: RateLimits = field(default=RateLimits())
    limits_scope: str = ""
    context: int | None = None
    sampling: Sampling = field(default=Sampling())
    max_tokens_field: MaxTokensField = "max_tokens"
    system_role: SystemRole = "system"
    unsupported: tuple[Unsupported, ...] = ()
    timeouts: Timeouts = field(default=Timeouts())
    bounds: Bounds = field(default=Bounds())
    serving: LocalServing = field(default=LocalServing())
    group: str = ""
    folder: str | None = None
    opens_thinking: bool = False
    thinking_markers: tuple[tuple[str, str], ...] = ()
    """Markers of its reasoning as (opening, closing), in addition to ``core.models.thinking.MARKERS``."""
    retired: bool = False
    thinking_tokens: int | None = None
    structured: Structured | None = None
    cache_marks: bool = False
    batch: bool | None = None
    cutoff: str = ""
    cutoff_source: str = ""
    extra_body: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def is_application(self) -> bool:
        """Whether the model is a user's Python function and not a model server."""
        return self.kind == "python"

    @property
    def served_locally(self) -> bool:
        return self.kind == "hf" and self.base_url is None


def is_loopback(url: str | None) -> bool:
    host = urlsplit(url or "").hostname or ""
    try:
        return host == "localhost" or host.endswith(".localhost") or target(ip_address(host)).is_loopback
    except ValueError:
        return False


@functools.lru_cache(maxsize=1024)
def is_private(url: str | None) -> bool:
    """Return whether ``url`` is on this machine or in a private network; names are not resolved.

    Private names have no dot, or a suffix that no public name has (RFC 6762, ICANN's ``internal``).
    """
    host = urlsplit(url or "").hostname or ""
    try:
        return target(ip_address(host)).is_private
    except ValueError:
        return bool(host) and ("." not in host or host.endswith((".localhost", ".local", ".internal")))
