"""Where API keys come from: the environment, else the top level of .streamlit/secrets.toml; never a models file."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from pydantic import SecretStr

from core.errors import UsageError

SECRETS = Path(__file__).resolve().parents[2] / ".streamlit" / "secrets.toml"


def find_setting(name: str, secrets: Path | None = None) -> str | None:
    """Return the value of ``name`` from the environment or the secrets file; blank counts as missing."""
    value = os.environ.get(name) or _secrets(secrets or SECRETS).get(name)
    return value.strip() or None if isinstance(value, str) else None


def find_key(name: str, secrets: Path | None = None) -> SecretStr | None:
    """Return the key named ``name``, wrapped so that it cannot be printed by accident."""
    value = find_setting(name, secrets)
    return SecretStr(value) if value else None


def _secrets(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        # The parser's words are left out: they could quote a line that holds a key.
        raise UsageError(f"The file {path} is no readable TOML; correct it or remove it.") from None
