"""The models file: reads and checks it, merges the user's file over the shipped one, and resolves a model's settings.

Errors are a ``UsageError`` that names the file and the key.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, PrivateAttr, StringConstraints, ValidationError, field_validator

from core.dates import read_date
from core.errors import UsageError
from core.models.base import Sampling, TomlTable
from core.models.keys import find_setting
from core.models.limits import RateLimits
from core.models.spec import (
    Bounds,
    LocalServing,
    MaxTokensField,
    ModelSpec,
    Prices,
    ProviderKind,
    Structured,
    SystemRole,
    Timeouts,
    Unsupported,
)
from core.paths import expanded

DATA = Path(__file__).resolve().parents[2] / "data"
SHIPPED = DATA / "models.toml"
OWN = DATA / "models.local.toml"
OWN_VARIABLE = "ANAMNESIS_MODELS"

Url = Annotated[str, StringConstraints(pattern=r"^https?://[^@\s]+$")]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class SamplingTable(TomlTable):
    """Defaults for the sampling settings of calls."""

    temperature: float | None = Field(None, ge=0)
    max_tokens: int | None = Field(None, ge=1)
    seed: int | None = None
    stop: tuple[str, ...] = ()
    effort: str | None = Field(None, min_length=1)


Marker = Annotated[str, StringConstraints(min_length=2, max_length=100)]


class Cutoff(TomlTable):
    """The end of a model's training data, and where its maker states it: an address, and the day it was read."""

    date: str
    source: str = Field(min_length=1)


class CommonTable(TomlTable):
    """Settings of a provider, a family of models or a model; the more specific table takes precedence."""

    base_url: Url | None = None
    api_key_env: VariableName | None = None
    api_version: str | None = None
    limits: RateLimits | None = None
    sampling: SamplingTable | None = None
    timeouts: Timeouts | None = None
    bounds: Bounds | None = None
    max_tokens_field: MaxTokensField | None = None
    system_role: SystemRole | None = None
    unsupported: tuple[Unsupported, ...] | None = None
    serve_args: tuple[str, ...] | None = None
    group: str | None = Field(None, min_length=1)
    start_timeout_s: float | None = Field(None, gt=0)
    opens_thinking: bool | None = None
    thinking_markers: tuple[tuple[Marker, Marker], ...] | None = None
    thinking_tokens: int | None = Field(None, ge=0)
    structured: Structured | None = None
    cache_marks: bool | None = None
    batch: bool | None = None
    cutoff: str | Cutoff | None = None
    """A date without a source replaces a table of a lower file as a whole, so that no source stands at another date."""
    extra_body: dict[str, JsonValue] | None = None

    @field_validator("cutoff")
    @classmethod
    def _is_date(cls, value: str | Cutoff | None) -> str | Cutoff | None:
        if value is not None:
            try:
                read_date(value.date if isinstance(value, Cutoff) else value)
            except UsageError as error:
                raise ValueError(str(error)) from None
        return value

    @field_validator("extra_body")
    @classmethod
    def _only_adds(cls, value: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        if taken := {"model", "messages", "stream"} & set(value or ()):
            raise ValueError(f"must not hold {', '.join(sorted(taken))}: the call says these itself")
        return value


class FamilyTable(CommonTable):
    """Settings of all models of a provider whose id matches ``match``."""

    match: str

    @field_validator("match")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"is no regular expression: {error}") from None
        return value


class ProviderTable(CommonTable):
    """One provider; ``base_url_env`` and ``api_version_env`` name environment variables that override the settings."""

    kind: ProviderKind | None = None
    base_url_env: VariableName | None = None
    api_version_env: VariableName | None = None
    families: tuple[FamilyTable, ...] = ()


class ModelTable(CommonTable):
    """One model."""

    display: str | None = None
    model_id: str | None = None
    folder: str | None = None
    prices: Prices | None = None
    context: int | None = Field(None, ge=1)
    retired: bool = False


class DefaultsTable(TomlTable):
    """Defaults for the seats other than the tested one: names or aliases of models, or ``reference/…``."""

    patient: str | None = None
    grader: str | None = None
    summariser: str | None = None
    solver: str | None = None
    staff: str | None = None
    judge: str | None = None


class ModelsFile(TomlTable):
    """The models file."""

    providers: dict[str, ProviderTable] = Field(default_factory=dict)
    models: dict[str, ModelTable] = Field(default_factory=dict)
    aliases: dict[str, str] = Field(default_factory=dict)
    defaults: DefaultsTable = Field(default_factory=DefaultsTable)
    _settled: dict[str, dict[str, Any]] = PrivateAttr(default_factory=dict)
    """Model → its merged settings; a cache, because every view of a page looks up all models."""


def own_file() -> Path:
    """Return the path of the user's models file, which may not exist."""
    return expanded(os.environ.get(OWN_VARIABLE) or OWN)


def default_paths() -> list[Path]:
    """Return the shipped file and the user's own: ``ANAMNESIS_MODELS``, or data/models.local.toml if it exists."""
    return [SHIPPED, own_file()] if os.environ.get(OWN_VARIABLE) or OWN.exists() else [SHIPPED]


def read_settings(paths: Sequence[Path]) -> ModelsFile:
    """Read the files and merge them key by key; a later file takes precedence."""
    merged: dict[str, Any] = {}
    for path in paths:
        try:
            raw = parse_settings(path, path.read_bytes())
        except OSError as error:
            raise UsageError(f"The models file {path} cannot be read: {error.strerror}.") from error
        check_settings(path, raw)
        merged = merge(merged, raw)
    return check_settings(paths[-1], merged)


def parse_settings(path: Path, content: bytes) -> dict[str, Any]:
    """Return the tables of a models file; raise ``UsageError`` if it is not valid TOML."""
    try:
        return tomllib.loads(content.decode().replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The models file {path} is no valid TOML: {error}.") from error


def check_settings(path: Path, raw: dict[str, Any]) -> ModelsFile:
    """Validate the tables of a file; raise a ``UsageError`` that names the file and the key."""
    try:
        return ModelsFile.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(_quoted(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ").rstrip(".")
        raise UsageError(f"The models file {path} is wrong at {key}: {message}.") from None


def _quoted(part: str | int) -> str:
    text = str(part)
    return text if re.fullmatch(r"[\w-]+", text) else f'"{text}"'


def merge(lower: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    """Merge the tables of two files key by key; the upper takes precedence."""
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def resolve(settings: ModelsFile, provider: str, model_id: str) -> ModelSpec:
    """Return the spec of ``provider/model_id``; a model without an entry gets its provider's settings."""
    name = f"{provider}/{model_id}"
    general = settings.providers[provider]
    own = settings.models.get(name, ModelTable())
    ids = [model_id, *([own.model_id] if own.model_id else [])]
    if name not in settings._settled:
        families = [family for family in general.families if any(re.search(family.match, id_) for id_ in ids)]
        settings._settled[name] = _layered(general, *families, own)
    chosen = settings._settled[name]
    if general.kind is None:
        raise UsageError(f"The provider {provider} has no kind; set providers.{provider}.kind in the models file.")
    url = own.base_url or _from_env(general.base_url_env) or general.base_url
    base_url = checked_address(name, url) if url else None
    cutoff = chosen.get("cutoff", "")
    return ModelSpec(
        name=name,
        provider=provider,
        kind=general.kind,
        model_id=own.model_id or (os.path.expanduser(model_id) if general.kind == "hf" else model_id),
        display=own.display or model_id,
        base_url=base_url,
        api_key_env=chosen.get("api_key_env"),
        api_version=own.api_version or _from_env(general.api_version_env) or chosen.get("api_version"),
        prices=own.prices,
        limits=RateLimits(**chosen.get("limits", {})),
        limits_scope=f"{name if own.limits else provider} {base_url}",
        context=own.context,
        sampling=Sampling(**chosen.get("sampling", {})),
        max_tokens_field=chosen.get("max_tokens_field", "max_tokens"),
        system_role=chosen.get("system_role", "system"),
        unsupported=chosen.get("unsupported", ()),
        timeouts=Timeouts(**chosen.get("timeouts", {})),
        bounds=Bounds(**chosen.get("bounds", {})),
        serving=LocalServing(chosen.get("serve_args", ()), chosen.get("start_timeout_s", LocalServing.start_timeout_s)),
        folder=own.folder,
        group=chosen.get("group", provider),
        thinking_tokens=chosen.get("thinking_tokens"),
        structured=chosen.get("structured"),
        batch=chosen.get("batch"),
        cutoff=cutoff["date"] if isinstance(cutoff, dict) else cutoff,
        cutoff_source=cutoff["source"] if isinstance(cutoff, dict) else "",
        cache_marks=chosen.get("cache_marks", False),
        retired=own.retired,
        opens_thinking=chosen.get("opens_thinking", False),
        thinking_markers=chosen.get("thinking_markers", ()),
        extra_body=chosen.get("extra_body", {}),
    )


def with_base_url(spec: ModelSpec, base_url: str) -> ModelSpec:
    """Return ``spec`` with another address; raise ``UsageError`` if the address is invalid."""
    if spec.kind == "python":
        raise UsageError(f"{spec.name} is a function on this machine and has no address: leave the address out.")
    url = checked_address(spec.name, base_url)
    return replace(spec, base_url=url, limits_scope=f"{spec.provider} {url}")


def _layered(*tables: CommonTable) -> dict[str, Any]:
    """Merge tables setting by setting; a later table takes precedence."""
    chosen: dict[str, Any] = {}
    for table in tables:
        for key, value in table.model_dump(exclude_unset=True, exclude_none=True).items():
            below = chosen.get(key)
            chosen[key] = below | value if isinstance(below, dict) and isinstance(value, dict) else value
    return chosen


def checked_address(name: str, url: str) -> str:
    """Return an address without a final slash; raise ``UsageError`` if it is invalid or contains a password."""
    url = url.strip()
    try:
        parts = urlsplit(url)
        good = (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not re.search(r"\s", url)
        )
    except ValueError:
        good = False
    if not good:
        raise UsageError(f"The base URL for {name} must look like http://127.0.0.1:8000/v1.")
    if parts.username or parts.password:
        raise UsageError(f"The base URL for {name} must not hold a user name or password; use a key variable.")
    return url.rstrip("/")


def _from_env(variable: str | None) -> str | None:
    return find_setting(variable) if variable else None
