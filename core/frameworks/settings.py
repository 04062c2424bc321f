"""The options of a framework: declared once for forms, command line, fingerprint and reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from core.models.base import Sampling


def option(
    default: Any, description: str, *, label: str = "", place: str = "more", flag: str = "", **rules: Any
) -> Any:
    """Declare an option of a framework: its default, bounds and texts.

    ``label`` is its label on a form, ``place`` the part of the form (``main``, ``more`` or ``patient``; if ``""``, it
    is neither on the form nor on the command line); ``flag`` is its name on the command line, by default the field's.
    """
    return Field(
        default, description=description, json_schema_extra={"label": label, "place": place, "flag": flag}, **rules
    )


class FrameworkSettings(BaseModel):
    """Settings of all frameworks; they change results: how the tested model is sampled and reached."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float | None = option(
        None,
        "The doctor's temperature; by default that of the model.",
        label="Temperature",
        ge=0,
        le=2,
        allow_inf_nan=False,
    )
    max_tokens: int | None = option(
        None, "Maximum tokens of a reply of the doctor.", label="Longest reply in tokens", ge=1
    )
    model_seed: int | None = option(None, "Seed for the provider.", label="Seed of the model", place="")
    base_url: str | None = option(None, "Address of an OpenAI-compatible server.", label="Server address", place="")
    reasoning_effort: str = option(
        "",
        "Reasoning effort of the doctor's model: none, minimal, low, medium, high, or a word of the model.",
        label="Reasoning effort",
        flag="--effort",
        place="",
        pattern=r"^([\w.-]{1,32})?$",
    )
    images: Literal["", "with"] = option(
        "", "with: the cases' pictures are sent to the doctor's model; or without.", place=""
    )
    own_address: str = option(
        "", "Seats, with commas, whose models have their own address instead of base_url.", place=""
    )
    addresses: str = option("", "Addresses of single seats: seat=address, separated by blanks.", place="")

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.max_tokens, self.model_seed, effort=self.reasoning_effort or None)

    def address_of(self, seat: str) -> str | None:
        """Return the address set for the model of a seat; ``None``: the address of the models files."""
        if address := self.seat_addresses.get(seat):
            return address
        return None if seat in self.own_address.split(",") else self.base_url

    @property
    def seat_addresses(self) -> dict[str, str]:
        pairs = (pair.partition("=") for pair in self.addresses.split())
        return {seat: address for seat, _, address in pairs}

    def but(self, **changes: Any) -> FrameworkSettings:
        """Return the settings with changes, without validation (a completed campaign can have other values)."""
        return self.model_copy(update=changes)

    def stated(self) -> dict[str, object]:
        """Return the settings that identify a run, without those that are off (0, "", false), unless 0 is a choice."""
        fields = type(self).model_fields
        values = {name: getattr(self, name) for name in fields}
        return {
            name: value for name, value in values.items() if ((fields[name].default) is None or value not in ("", 0))
        }


def without_credentials(address: str) -> str:
    """Return an address without user name, password, query and fragment."""
    try:
        parts = urlsplit(address)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "unreadable address"
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def options_of(settings: type[FrameworkSettings]) -> dict[str, FieldInfo]:
    """Return the options of a framework on forms and the command line, by name."""
    return {name: info for name, info in settings.model_fields.items() if extra_of(info, "place")}


def extra_of(info: FieldInfo, key: str) -> str:
    extra = info.json_schema_extra
    return str(extra.get(key, "")) if isinstance(extra, dict) else ""


def flag_of(name: str, info: FieldInfo | None = None) -> str:
    return (extra_of(info, "flag") if info else "") or f"--{name.replace('_', '-')}"


def in_words(error: ValidationError, fields: Mapping[str, FieldInfo]) -> str:
    """Return a sentence about the first invalid option and its valid values."""
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    info = fields.get(name)
    if info is None:
        return f"{first['msg'].removeprefix('Value error, ')}."
    bounds = {key: getattr(rule, key) for rule in info.metadata for key in ("ge", "le") if hasattr(rule, key)}
    flag = flag_of(name, info)
    if {"ge", "le"} <= bounds.keys():
        return f"{flag} must be from {bounds['ge']} to {bounds['le']}."
    if "ge" in bounds:
        return f"{flag} must be a number of at least {bounds['ge']}."
    if first["type"] == "literal_error":
        return f"{flag} cannot be {first['input']!r}: choose {' or '.join(filter(None, get_args(info.annotation)))}."
    if first["type"] == "string_pattern_mismatch":
        return f"{flag} must be one word, such as none, minimal, low, medium or high."
    return f"{flag}: {first['msg'].removeprefix('Value error, ')}."
