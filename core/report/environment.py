"""The environment that computed figures: Python, packages, hardware and the version of the code."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import distributions
from typing import Any

import psutil

from core import __version__
from core.paths import ROOT


def environment() -> dict[str, Any]:
    """Return versions of Python, of all installed packages and of the code, and the machine; memory is in GB."""
    packages = {dist.metadata["Name"]: dist.version for dist in distributions() if dist.metadata["Name"]}
    return {
        "anamnesis": __version__,
        "commit": _git("rev-parse", "HEAD"),
        "changed_files": len((_git("status", "--porcelain", "--untracked-files=no") or "").splitlines()),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "packages": dict(sorted(packages.items(), key=lambda item: item[0].lower())),
    }


def _git(*arguments: str) -> str | None:
    """Return the output of git in the folder of the program; ``None`` if it is no checkout or git is missing."""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
