"""A document as one picture: the HTML page, drawn at its full height by an installed Chromium without network."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from core.browser import HOW_TO_INSTALL, find_browser
from core.errors import AnamnesisError
from core.export.document import Document
from core.export.page import POLICY, page_of

NONE_FOUND = (
    f"There is no Chrome or Chromium on this machine to draw the picture: {HOW_TO_INSTALL}, or take HTML instead."
)
_FLAGS = (
    "--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--disable-quic",
    "--disable-sync", "--disable-background-networking", "--disable-component-update", "--no-first-run",
    "--no-default-browser-check", "--hide-scrollbars", "--mute-audio", "--log-level=3",
    # whatever a page might ask for, no name leads anywhere
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip


def run_browser(browser: str, folder: Path, arguments: Sequence[str], deadline: float) -> str:
    """Run the browser once with a profile in ``folder`` and return what it printed; nothing of it is left running.

    Raises ``AnamnesisError`` where it fails or is not done at ``deadline`` (on the clock of ``time.monotonic``).
    """
    # the flag without which Chrome does not start as root; anybody else keeps the sandbox
    sandbox = ["--no-sandbox"] if sys.platform == "linux" and os.geteuid() == 0 else []
    command = [browser, *_FLAGS, *sandbox, f"--user-data-dir={folder / 'profile'}", *arguments]
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
        # end the browser with the processes it started itself
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        process.wait()
    if status:
        raise AnamnesisError(f"The browser {browser} failed (status {status}): take HTML instead.")
    return printed.read_text(encoding="utf-8", errors="replace")


WIDTHS = {1: 860, 2: 1240, 3: 1360, 4: 1360}
"""CSS pixels by the number of conversations beside one another."""
TALLEST = 30_000
"""CSS pixels; a taller picture is more than most programs open."""
_SHARP_UP_TO = 8_000
"""Up to this height two pixels are drawn for one."""
_SECONDS = 90.0
_MEASURE = "document.documentElement.dataset.tall=Math.ceil(document.documentElement.getBoundingClientRect().height)"
_MEASURED = re.compile(r'<html[^>]* data-tall="(\d+)"')


def to_png(document: Document) -> bytes:
    """Return the document as a PNG.

    Raises ``AnamnesisError`` where no browser is installed, where it fails, and where the page is too tall.
    """
    browser = find_browser()
    if browser is None:
        raise AnamnesisError(NONE_FOUND)
    deadline = time.monotonic() + _SECONDS
    width = WIDTHS[len(document.talks)]
    # a browser may still write to its profile while it is taken away
    with tempfile.TemporaryDirectory(prefix="anamnesis-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        # how tall the page is: measured in a copy whose policy allows the one script that measures
        digest = base64.b64encode(hashlib.sha256(_MEASURE.encode()).digest()).decode()
        page = page_of(document, f"{POLICY}; script-src 'sha256-{digest}'")
        head, _, tail = page.rpartition("</body>")
        copy = f"{head}<script>{_MEASURE}</script></body>{tail}"
        dom = run_browser(
            browser, folder, [f"--window-size={width},800", "--dump-dom", _written(folder, copy)], deadline
        )
        found = _MEASURED.search(dom[:2_000])
        if found is None:
            raise AnamnesisError("The browser did not tell how tall the picture is: take HTML instead.")
        height = int(found[1])
        if height > TALLEST:
            raise AnamnesisError(
                f"The picture would be {height:,} pixels tall, more than {TALLEST:,}: take HTML instead."
            )
        picture = folder / "picture.png"
        arguments = [
            f"--window-size={width},{height}",
            f"--force-device-scale-factor={2 if height <= _SHARP_UP_TO else 1}",
            f"--screenshot={picture}",
            _written(folder, page_of(document, POLICY)),
        ]
        run_browser(browser, folder, arguments, deadline)
        if not picture.exists():
            raise AnamnesisError("The browser drew no picture: take HTML instead.")
        return picture.read_bytes()


def _written(folder: Path, page: str) -> str:
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    return path.as_uri()
