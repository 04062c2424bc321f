"""A document as one picture: a screenshot of the HTML page by an installed Chromium without network access."""

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

NO_BROWSER = (
    f"There is no Chrome or Chromium on this machine to draw the picture: {HOW_TO_INSTALL}, or use HTML instead."
)
_FLAGS = (
    "--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--disable-quic",
    "--disable-sync", "--disable-background-networking", "--disable-component-update", "--no-first-run",
    "--no-default-browser-check", "--hide-scrollbars", "--mute-audio", "--log-level=3",
    # no host name can be resolved, so the page cannot reach the network
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip


def run_browser(browser: str, folder: Path, arguments: Sequence[str], deadline: float) -> str:
    """Run the browser once with a profile in ``folder`` and return its output; all its processes are ended.

    Raises ``AnamnesisError`` if the browser fails or is not done at ``deadline`` (of ``time.monotonic``).
    """
    # Chrome does not start as root without this flag; other users keep the sandbox
    sandbox = ["--no-sandbox"] if sys.platform == "linux" and os.geteuid() == 0 else []
    command = [browser, *_FLAGS, *sandbox, f"--user-data-dir={folder / 'profile'}", *arguments]
    output = folder / "printed"  # a file: a pipe stays open until the last helper process of the browser ends
    try:
        with output.open("wb") as file:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.DEVNULL, start_new_session=True
            )
    except OSError as error:
        reason = f"The browser {browser} cannot be started ({error.strerror}): use HTML instead."
        raise AnamnesisError(reason) from error
    try:
        status = process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise AnamnesisError("The browser did not draw the picture in time: use HTML instead.") from None
    finally:
        # end the whole process group: the browser starts processes
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        process.wait()
    if status:
        raise AnamnesisError(f"The browser {browser} failed (status {status}): use HTML instead.")
    return output.read_text(encoding="utf-8", errors="replace")


WIDTHS = {1: 860, 2: 1240, 3: 1360, 4: 1360}
"""Number of conversations side by side → width in CSS pixels."""
TALLEST = 30_000
"""CSS pixels; most programs cannot open a taller picture."""
_SHARP_UP_TO = 8_000
"""Up to this height in CSS pixels the picture has double resolution."""
_SECONDS = 90.0
_MEASURE = "document.documentElement.dataset.tall=Math.ceil(document.documentElement.getBoundingClientRect().height)"
_MEASURED = re.compile(r'<html[^>]* data-tall="(\d+)"')


def to_png(document: Document) -> bytes:
    """Return the document as a PNG.

    Raises ``AnamnesisError`` if no browser is installed, if it fails, or if the page is too tall.
    """
    browser = find_browser()
    if browser is None:
        raise AnamnesisError(NO_BROWSER)
    deadline = time.monotonic() + _SECONDS
    width = WIDTHS[len(document.conversations)]
    # the browser may still write to its profile while the folder is deleted
    with tempfile.TemporaryDirectory(prefix="anamnesis-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        # the height of the page is measured in a copy, whose policy allows only the measuring script
        digest = base64.b64encode(hashlib.sha256(_MEASURE.encode()).digest()).decode()
        page = page_of(document, f"{POLICY}; script-src 'sha256-{digest}'")
        head, _, tail = page.rpartition("</body>")
        copy = f"{head}<script>{_MEASURE}</script></body>{tail}"
        dom = run_browser(
            browser, folder, [f"--window-size={width},800", "--dump-dom", _page_uri(folder, copy)], deadline
        )
        measured = _MEASURED.search(dom[:2_000])
        if measured is None:
            raise AnamnesisError("The browser did not measure the height of the picture: use HTML instead.")
        height = int(measured[1])
        if height > TALLEST:
            raise AnamnesisError(
                f"The picture would be {height:,} pixels tall, more than {TALLEST:,}: use HTML instead."
            )
        picture = folder / "picture.png"
        arguments = [
            f"--window-size={width},{height}",
            f"--force-device-scale-factor={2 if height <= _SHARP_UP_TO else 1}",
            f"--screenshot={picture}",
            _page_uri(folder, page_of(document, POLICY)),
        ]
        run_browser(browser, folder, arguments, deadline)
        if not picture.exists():
            raise AnamnesisError("The browser drew no picture: use HTML instead.")
        return picture.read_bytes()


def _page_uri(folder: Path, page: str) -> str:
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    return path.as_uri()
