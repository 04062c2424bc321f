"""The options of a framework: each stands once, and forms, command line, fingerprint and reports are made from it."""

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
    """Declare an option of a framework where it stands once: its type, bounds, default, and its words.

    ``label`` heads it on a form, ``place`` says where on the form (``main``, ``more``, ``patient``, or ``""``: not at
    all, and it is no option of the command line either); ``flag`` is its name there, by default the field's own.
    """
    return Field(
        default, description=description, json_schema_extra={"label": label, "place": place, "flag": flag}, **rules
    )


class FrameworkSettings(BaseModel):
    """What every framework lets be set, all of it changing results: how the one under test is sampled and reached."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float | None = option(
        None,
        "The doctor's temperature; left to the model unless given.",
        label="Temperature",
        ge=0,
        allow_inf_nan=False,
    )
    max_tokens: int | None = option(
        None, "The doctor's longest reply in tokens.", label="Longest reply in tokens", ge=1
    )
    model_seed: int | None = option(None, "Seed that the provider is given.", label="Seed of the model", place="")
    base_url: str | None = option(None, "Address of an OpenAI-compatible server.", label="Server address", place="")
    reasoning_effort: str = option(
        "",
        "How much the doctor's model is to think: none, minimal, low, medium, high, or its own word.",
        label="Reasoning effort",
        flag="--effort",
        place="",
        pattern=r"^([\w.-]{1,32})?$",
    )
    images: Literal["", "with"] = option(
        "", "with: the doctor's model is sent the cases' pictures too; or without.", place=""
    )
    own_address: str = option("", "Seats, with commas, reached at their own address and not at base_url.", place="")
    addresses: str = option("", "Addresses of single seats: seat=address, with blanks between them.", place="")

    @property
    def sampling(self) -> Sampling:
        """How the one under test is sampled."""
        return Sampling(self.temperature, self.max_tokens, self.model_seed, effort=self.reasoning_effort or None)

    def address_of(self, seat: str) -> str | None:
        """Return the address given for the model of a seat; ``None`` for the one that the models files know."""
        if own := self.seat_addresses.get(seat):
            return own
        return None if seat in self.own_address.split(",") else self.base_url

    @property
    def seat_addresses(self) -> dict[str, str]:
        """Seat → the address that was given for it alone."""
        pairs = (pair.partition("=") for pair in self.addresses.split())
        return {seat: address for seat, _, address in pairs}

    def but(self, **changes: Any) -> FrameworkSettings:
        """Return the settings with changes, as they are (a full campaign may hold values that nobody could ask for)."""
        return self.model_copy(update=changes)

    def stated(self) -> dict[str, object]:
        """Return the settings that identify a run; what is off (0, "" or no) does not count, unless 0 is a choice."""
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
    """Return the options of a framework by name: what a form and the command line ask for."""
    return {name: info for name, info in settings.model_fields.items() if extra_of(info, "place")}


def extra_of(info: FieldInfo, key: str) -> str:
    """Return what an option says of its ``label``, ``place`` or ``flag``."""
    held = info.json_schema_extra
    return str(held.get(key, "")) if isinstance(held, dict) else ""


def flag_of(name: str, info: FieldInfo | None = None) -> str:
    """Return an option's name on the command line."""
    return (extra_of(info, "flag") if info else "") or f"--{name.replace('_', '-')}"


def in_words(error: ValidationError, known: Mapping[str, FieldInfo]) -> str:
    """Return in a sentence what of the settings is wrong: which option, and what it may be."""
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    info = known.get(name)
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
