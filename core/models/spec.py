"""What is known of one model: where it is served, what it costs, what may be sent to it.

A ``ModelSpec`` holds names of environment variables, never a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints

from core.access import target
from core.models.base import Sampling, Table
from core.models.limits import Limits

ProviderKind = Literal["openai", "azure", "hf", "python", "http"]
MaxTokensField = Literal["max_tokens", "max_completion_tokens"]
SystemRole = Literal["system", "user", "before_user"]
Unsupported = Literal["temperature", "max_tokens", "seed", "stop", "reasoning_effort", "images"]
Structured = Literal["json_schema", "json_object", "none"]
EFFORT = "{effort}"
"""Holds the place of the reasoning effort in a model's ``extra_body``."""
THINKING_TOKENS = 16_384
"""Room for the thoughts of a model that thinks, beside the limit of what it says."""


class Prices(Table):
    """US dollars a million tokens, as listed in the month ``as_of``.

    Without ``cached`` and ``cache_write``, input that a provider had read before, or keeps, costs as all.
    """

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    as_of: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}$")] | None = None
    cached: float | None = Field(None, ge=0)
    cache_write: float | None = Field(None, ge=0)


class Timeouts(Table):
    """Seconds one request may take in all, until its first text, and between two pieces of text."""

    call_s: float = Field(600.0, gt=0)
    first_piece_s: float = Field(300.0, gt=0)
    stall_s: float = Field(60.0, gt=0)


class Bounds(Table):
    """How far a reply may go on before it is cut: characters a token of its limit, and its end over and over again.

    A reply that ends in the same words (400 characters at most) more than ``repeats`` times is cut once these fill
    2,000 characters; 0 lets it go on.
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

    ``base_url`` is ``None`` for a local model that is served by a child process, and for a provider whose address
    is not set up yet. ``system_role`` says how a system message is sent: as such, always as the user's words, or as
    such only where a user's message follows it. ``unsupported`` names what is never sent: sampling settings, which are
    left out, and ``images``: a model that takes none is not asked where it would be shown one. ``limits_scope`` says
    with whom the model shares its rate limits. ``group`` is the kind of model that figures by group put it under, such
    as open weights. ``opens_thinking`` says that its chat template begins every reply with a thought, so that only the
    closing tag is in its text. ``retired`` models are no longer served: they are known for what is stored of them and
    offered nowhere. ``thinking_tokens`` is the room that its thoughts are given beside the limit of a reply; ``None``
    for what is not known to think. ``structured`` says how it is held to a form of JSON (``response_format``); ``None``
    where only a try can tell. ``extra_body`` goes into the body of every call as it is, with the reasoning effort
    where ``{effort}`` stands; what holds nothing but an effort that is not set is left out. ``batch`` says whether
    it can be asked by a Batch API (``core.models.batches``); ``None`` where only its address tells. ``cache_marks``
    says that its provider keeps what is marked (``core.models.wire``), and charges less for it the next time.
    ``folder`` is where the module of a Python application lies.
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
    limits: Limits = field(default=Limits())
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
    """What opens and closes its reasoning in the text, in addition to ``core.models.thinking.MARKERS``."""
    retired: bool = False
    thinking_tokens: int | None = None
    structured: Structured | None = None
    cache_marks: bool = False
    batch: bool | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def is_application(self) -> bool:
        """Whether an application of the user's answers, and no model server."""
        return self.kind in ("python", "http")

    @property
    def served_locally(self) -> bool:
        """Whether a child process of ours serves the model."""
        return self.kind == "hf" and self.base_url is None


def is_loopback(url: str | None) -> bool:
    """Say whether ``url`` stays on this machine."""
    host = urlsplit(url or "").hostname or ""
    try:
        return host == "localhost" or host.endswith(".localhost") or target(ip_address(host)).is_loopback
    except ValueError:
        return False


def is_private(url: str | None) -> bool:
    """Say whether ``url`` stays on this machine or in a network of one's own; names are not looked up.

    Of names, those without a dot and under the endings that no public name has (RFC 6762, ICANN's ``internal``).
    """
    host = urlsplit(url or "").hostname or ""
    try:
        return target(ip_address(host)).is_private
    except ValueError:
        return bool(host) and ("." not in host or host.endswith((".localhost", ".local", ".internal")))
