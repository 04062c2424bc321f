"""API keys: from this process, the environment, or the top level of .streamlit/secrets.toml; never a models file."""

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
_keys: dict[tuple[str, str], SecretStr] = {}
"""(visitor, or "" for all; variable) → key entered in this process."""
KEY = re.compile(
    r"^(?:sk|pk|rk|hf|gsk|xai|key|api|nvapi|AIza)[-_]?(?=[\w-]*[a-z])(?=[\w-]*\d)[\w-]{8,}$|^(?=.*[a-z])(?=.*\d)\w{20,}$"
)
"""A text that is probably a key, such as "sk-live-0123456789abcdef"."""

_NAME_OF_KEY = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_SHORTEST_KEY = 12
"""Characters; a shorter value under such a name could be a word of a conversation."""


def hold(variable: str, key: SecretStr, *, for_all: bool = False) -> None:
    """Store a key under the name of a variable until this process ends; it takes precedence over the environment.

    On a shared server only the same visitor uses it, unless it is ``for_all``. Raises ``NotAllowedError`` without the
    right to run.
    """
    access.require("run")
    _keys["" if for_all else access.visitor().name, variable] = key


def remove_key(variable: str) -> None:
    for entry in [entry for entry in _keys if entry[1] == variable]:
        del _keys[entry]


def typed_key(variable: str) -> SecretStr | None:
    """Return the key that the present visitor has entered for a variable."""
    return _keys.get((access.visitor().name, variable))


def _visible() -> dict[str, SecretStr]:
    """Return the entered keys for all visitors, overridden by those of the present visitor."""
    visitor = access.visitor().name
    return {variable: _keys[owner, variable] for owner, variable in sorted(_keys) if owner in ("", visitor)}


def seat_variable(seat: str) -> str:
    """Return the variable of the key for one seat of a run, whichever model sits there."""
    return f"{_SEAT_KEY}{re.sub(r'[^A-Z0-9]', '_', seat.upper())}"


def environment(seats: Mapping[str, SecretStr]) -> dict[str, str]:
    """Return the entered keys, and those of some seats, as environment variables for a child process."""
    keys = {**_visible(), **{seat_variable(seat): key for seat, key in seats.items()}}
    return {variable: key.get_secret_value() for variable, key in keys.items()}


def looks_like_key(text: str) -> bool:
    """Return whether a text entered as the name of a variable is probably the key itself."""
    return text not in os.environ and (not re.fullmatch(r"[A-Za-z_]\w*", text) or bool(KEY.match(text)))


def find_setting(name: str, secrets: Path | None = None) -> str | None:
    """Return the value of ``name``: entered here, of the environment, or of the secrets file; blank means missing."""
    if key := _visible().get(name):
        return key.get_secret_value()
    value = os.environ.get(name) or _secrets(secrets or SECRETS).get(name)
    return value.strip() or None if isinstance(value, str) else None


def find_key(name: str, secrets: Path | None = None) -> SecretStr | None:
    """Return the key named ``name``, wrapped so that it cannot be printed by accident."""
    value = find_setting(name, secrets)
    return SecretStr(value) if value else None


def known_keys() -> list[str]:
    """Return all keys that this process can see, so that they can be removed from what leaves this machine."""
    named = {**_secrets(SECRETS), **os.environ, **{name: key.get_secret_value() for name, key in _visible().items()}}
    return [
        value
        for name, value in named.items()
        if isinstance(value, str) and len(value) >= _SHORTEST_KEY and _NAME_OF_KEY.search(name)
    ]


def login_configured() -> bool:
    """Return whether the dashboard's secrets, this project's or the user's, configure a login (``[auth]``)."""
    return _login() is not None


def login_host() -> str:
    """Return the host of the login's redirect address; empty without a login."""
    login = _login()
    address = login.get("redirect_uri") if isinstance(login, dict) else None
    return urlsplit(str(address)).hostname or "" if address else ""


def _login() -> object | None:
    home = Path.home() / ".streamlit" / "secrets.toml"
    return next((secrets["auth"] for secrets in map(_secrets, (SECRETS, home)) if "auth" in secrets), None)


def _secrets(path: Path) -> dict[str, object]:
    try:
        state = path.stat()
        return _parsed(path, state.st_mtime_ns, state.st_size)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        # the parser's message is left out because it may quote a line with a key
        raise UsageError(f"The file {path} is no readable TOML; correct it or remove it.") from None


@functools.lru_cache(maxsize=4)
def _parsed(path: Path, _changed_ns: int, _size: int) -> dict[str, object]:
    """Read the file once per version: a list of models looks up a hundred settings."""
    return tomllib.loads(path.read_text(encoding="utf-8"))
