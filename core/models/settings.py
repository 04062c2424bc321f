"""The models file: its shape, how it is read and checked, and how the user's file overrides the shipped one.

Errors are a ``UsageError`` that names the file and the key.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, ValidationError, field_validator

from core.errors import UsageError
from core.models.spec import MaxTokensField, ProviderKind, Structured, SystemRole, Unsupported

DATA = Path(__file__).resolve().parents[2] / "data"
SHIPPED = DATA / "models.toml"
OWN = DATA / "models.local.toml"
OWN_VARIABLE = "ANAMNESIS_MODELS"

Url = Annotated[str, StringConstraints(pattern=r"^https?://[^@\s]+$")]
Month = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}$")]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PricesTable(_Table):
    """US dollars a million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(None, ge=0)
    as_of: Month | None = None


class LimitsTable(_Table):
    """What may be sent in a minute."""

    requests_per_minute: int | None = Field(None, ge=1)
    tokens_per_minute: int | None = Field(None, ge=1)


class SamplingTable(_Table):
    """What a call leaves open is filled from here."""

    temperature: float | None = Field(None, ge=0)
    max_tokens: int | None = Field(None, ge=1)
    seed: int | None = None
    stop: tuple[str, ...] = ()
    effort: str | None = Field(None, min_length=1)


class TimeoutsTable(_Table):
    """Seconds; what is left out keeps its default."""

    call_s: float | None = Field(None, gt=0)
    first_piece_s: float | None = Field(None, gt=0)
    stall_s: float | None = Field(None, gt=0)


class CommonTable(_Table):
    """What a provider, a family of its models and one model can set; the narrower wins."""

    base_url: Url | None = None
    api_key_env: VariableName | None = None
    api_version: str | None = None
    limits: LimitsTable | None = None
    sampling: SamplingTable | None = None
    timeouts: TimeoutsTable | None = None
    max_tokens_field: MaxTokensField | None = None
    system_role: SystemRole | None = None
    unsupported: tuple[Unsupported, ...] | None = None
    serve_args: tuple[str, ...] | None = None
    group: str | None = Field(None, min_length=1)
    start_timeout_s: float | None = Field(None, gt=0)
    opens_thinking: bool | None = None
    thinking_tokens: int | None = Field(None, ge=0)
    structured: Structured | None = None
    extra_body: dict[str, JsonValue] | None = None

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
    """One provider; ``base_url_env`` and ``api_version_env`` name variables that override their setting."""

    kind: ProviderKind | None = None
    base_url_env: VariableName | None = None
    api_version_env: VariableName | None = None
    families: tuple[FamilyTable, ...] = ()


class ModelTable(CommonTable):
    """One model."""

    display: str | None = None
    model_id: str | None = None
    prices: PricesTable | None = None
    context: int | None = Field(None, ge=1)
    retired: bool = False


class DefaultsTable(_Table):
    """Who sits beside a model in the seats that nobody named: names or aliases of models, or ``reference/…``."""

    patient: str | None = None
    grader: str | None = None
    summariser: str | None = None
    solver: str | None = None
    staff: str | None = None


class ModelsFile(_Table):
    """A whole models file."""

    providers: dict[str, ProviderTable] = Field(default_factory=dict)
    models: dict[str, ModelTable] = Field(default_factory=dict)
    aliases: dict[str, str] = Field(default_factory=dict)
    defaults: DefaultsTable = Field(default_factory=DefaultsTable)


def default_paths() -> list[Path]:
    """Return the shipped file and the user's own: ``ANAMNESIS_MODELS``, else data/models.local.toml."""
    named = os.environ.get(OWN_VARIABLE)
    if named:
        return [SHIPPED, Path(named).expanduser()]
    return [SHIPPED, OWN] if OWN.exists() else [SHIPPED]


def read_settings(paths: Sequence[Path]) -> ModelsFile:
    """Read the files and merge them, key by key; a later file wins."""
    together: dict[str, Any] = {}
    for path in paths:
        raw = _parse(path)
        _check(path, raw)
        together = _merge(together, raw)
    return _check(paths[-1], together)


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"The models file {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise UsageError(f"The models file {path} is no valid TOML: {error}.") from error


def _check(path: Path, raw: dict[str, Any]) -> ModelsFile:
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


def _merge(lower: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged
