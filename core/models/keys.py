"""Where API keys come from: this process, the environment, the top level of .streamlit/secrets.toml; no models file."""

from __future__ import annotations

import functools
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from core import access
from core.errors import UsageError

SECRETS = Path(__file__).resolve().parents[2] / ".streamlit" / "secrets.toml"
_SEAT_KEY = "ANAMNESIS_SEAT_KEY_"
_held: dict[tuple[str, str], SecretStr] = {}
"""Visitor (none: all) and variable → key."""
_KEY = re.compile(
    r"^(?:sk|pk|rk|hf|gsk|xai|key|api|nvapi|AIza)[-_]?(?=\w*[a-z])(?=\w*\d)\w{8,}$|^(?=.*[a-z])(?=.*\d)\w{20,}$"
)


def hold(variable: str, key: SecretStr, *, for_all: bool = False) -> None:
    """Keep a key under the name of a variable until this process ends; it goes before one that is set outside.

    Where people sign in it is used for who gave it, or ``for_all``. Raises ``NotAllowedError`` for who may run nothing.
    """
    access.require("run", f"hold the key {variable}")
    _held["" if for_all else access.visitor().name, variable] = key


def forget(variable: str) -> None:
    """Forget a key that was held."""
    for held in [held for held in _held if held[1] == variable]:
        del _held[held]


def typed_key(variable: str) -> SecretStr | None:
    """Return the key that whoever asks has typed for a variable."""
    return _held.get((access.visitor().name, variable))


def _known() -> dict[str, SecretStr]:
    """Return the keys that are held for all, and before them those of whoever asks."""
    me = access.visitor().name
    return {variable: _held[who, variable] for who, variable in sorted(_held) if who in ("", me)}


def seat_variable(seat: str) -> str:
    """Name the variable of a key that is for the model in one seat of a run, whoever sits there."""
    return f"{_SEAT_KEY}{re.sub(r'[^A-Z0-9]', '_', seat.upper())}"


def environment(seats: Mapping[str, SecretStr]) -> dict[str, str]:
    """Return the keys of this process, and of some seats, as the environment in which a child finds them."""
    keys = {**_known(), **{seat_variable(seat): key for seat, key in seats.items()}}
    return {variable: key.get_secret_value() for variable, key in keys.items()}


def looks_like_key(text: str) -> bool:
    """Say whether a text given as the name of a variable is more likely the key itself."""
    return text not in os.environ and (not re.fullmatch(r"[A-Za-z_]\w*", text) or bool(_KEY.match(text)))


def find_setting(name: str, secrets: Path | None = None) -> str | None:
    """Return the value of ``name``: as it is held here, of the environment, of the secrets file; blank is missing."""
    if held := _known().get(name):
        return held.get_secret_value()
    value = os.environ.get(name) or _secrets(secrets or SECRETS).get(name)
    return value.strip() or None if isinstance(value, str) else None


def find_key(name: str, secrets: Path | None = None) -> SecretStr | None:
    """Return the key named ``name``, wrapped so that it cannot be printed by accident."""
    value = find_setting(name, secrets)
    return SecretStr(value) if value else None


def login_configured() -> bool:
    """Say whether the secrets of the dashboard, this project's or the user's, tell how people sign in (``[auth]``)."""
    return _login() is not None


def login_host() -> str:
    """Return the host to which the login's provider sends people back; empty without a login."""
    login = _login()
    address = login.get("redirect_uri") if isinstance(login, dict) else None
    return urlsplit(str(address)).hostname or "" if address else ""


def _login() -> object | None:
    home = Path.home() / ".streamlit" / "secrets.toml"
    return next((secrets["auth"] for secrets in map(_secrets, (SECRETS, home)) if "auth" in secrets), None)


def _secrets(path: Path) -> dict[str, object]:
    try:
        found = path.stat()
        return _parsed(path, found.st_mtime_ns, found.st_size)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        # The parser's words are left out: they could quote a line that holds a key.
        raise UsageError(f"The file {path} is no readable TOML; correct it or remove it.") from None


@functools.lru_cache(maxsize=4)
def _parsed(path: Path, _changed_ns: int, _size: int) -> dict[str, object]:
    """Read the file once for each of its states: a list of models asks for a hundred settings."""
    return tomllib.loads(path.read_text(encoding="utf-8"))
