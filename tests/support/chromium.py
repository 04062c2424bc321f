"""Installs the Chromium that tests drive, where that is possible without asking anybody: on Debian, as root.

Where it is not, one sentence says so, and tests with the mark ``browser`` are skipped (tests/conftest.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess

from core.browser import HOW_TO_INSTALL, find_browser

NO_BROWSER = f"no Chrome or Chromium on this machine: {HOW_TO_INSTALL}"
_SECONDS = 900


def install() -> str:
    """Install Chromium with apt, and return the last line of what apt printed."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    printed = ""
    # an update that fails (no network, another apt at work) leaves the lists of before, which may do
    for command in (["update"], ["install", "-y", "-o", "DPkg::Lock::Timeout=300", "chromium"]):
        done = subprocess.run(
            ["apt-get", "-qq", *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        printed = done.stdout.strip()
    return printed.rpartition("\n")[2]


def main() -> None:
    """Prepare this machine, or say what its tests lack; never fail."""
    if find_browser():
        return
    why = ""
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        print("Tests need Chromium: installing it with apt.", flush=True)
        try:
            why = f" (apt: {install()})"
        except (OSError, subprocess.TimeoutExpired) as error:
            why = f" (apt: {error})"
        if find_browser():
            return
    print(f"Tests that need a browser are skipped: {NO_BROWSER}{why}.", flush=True)


if __name__ == "__main__":
    main()
