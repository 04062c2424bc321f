"""The environment that computed figures: Python, packages and system."""

from __future__ import annotations

import platform
from importlib.metadata import distributions
from typing import Any


def environment() -> dict[str, Any]:
    """Return the versions of Python and of all installed packages, and the system."""
    packages = {dist.metadata["Name"]: dist.version for dist in distributions() if dist.metadata["Name"]}
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "packages": packages,
    }
