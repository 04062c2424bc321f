"""A Chrome or Chromium that is installed on this machine, made to draw a page of ours without any network."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from core.errors import AnamnesisError

NONE_FOUND = (
    "There is no Chrome or Chromium on this machine to draw the picture: install one, or name it in CHROMIUM, or take "
    "HTML instead."
)
_NAMES = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge", "msedge",
)  # fmt: skip
_PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
_FLAGS = (
    "--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--disable-quic",
    "--disable-sync", "--disable-background-networking", "--disable-component-update", "--no-first-run",
    "--no-default-browser-check", "--hide-scrollbars", "--mute-audio", "--log-level=3",
    # whatever a page might ask for, no name leads anywhere
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip


def find_browser() -> str | None:
    """Return the program named in ``CHROMIUM``, or an installed one, or ``None``."""
    named = os.environ.get("CHROMIUM")
    if named:
        return shutil.which(named)
    found = (shutil.which(name) for name in (*_NAMES, *_PLACES))
    return next((path for path in found if path), None)


def run_browser(browser: str, folder: Path, arguments: Sequence[str], deadline: float) -> str:
    """Run the browser once with a profile in ``folder`` and return what it printed; nothing of it is left running.

    Raises ``AnamnesisError`` where it fails or is not done at ``deadline`` (on the clock of ``time.monotonic``).
    """
    command = [browser, *_FLAGS, *_sandbox(), f"--user-data-dir={folder / 'profile'}", *arguments]
    printed = folder / "printed"  # a file: a pipe would stay open as long as any helper of the browser lives
    try:
        with printed.open("wb") as out:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL, start_new_session=True
            )
    except OSError as error:
        why = f"The browser {browser} cannot be started ({error.strerror}): take HTML instead."
        raise AnamnesisError(why) from error
    try:
        status = process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise AnamnesisError("The browser did not draw the picture in time: take HTML instead.") from None
    finally:
        _end(process)
    if status:
        raise AnamnesisError(f"The browser {browser} failed (status {status}): take HTML instead.")
    return printed.read_text(encoding="utf-8", errors="replace")


def _sandbox() -> list[str]:
    """Return the flag without which Chrome does not start as root; anybody else keeps the sandbox."""
    return ["--no-sandbox"] if sys.platform == "linux" and os.geteuid() == 0 else []


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the browser with the processes it started itself."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()
