"""A document as one picture: the HTML page, drawn at its full height by an installed Chrome or Chromium."""

from __future__ import annotations

import base64
import hashlib
import re
import tempfile
import time
from pathlib import Path

from core.errors import AnamnesisError
from core.export.browser import NONE_FOUND, find_browser, run_browser
from core.export.document import Document
from core.export.html import POLICY, page_of

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
        height = _height(browser, folder, document, width, deadline)
        return _drawn(browser, folder, document, width, height, deadline)


def _height(browser: str, folder: Path, document: Document, width: int, deadline: float) -> int:
    """Return how tall the page is: measured in a copy whose policy allows the one script that measures."""
    digest = base64.b64encode(hashlib.sha256(_MEASURE.encode()).digest()).decode()
    page = page_of(document, f"{POLICY}; script-src 'sha256-{digest}'")
    head, _, tail = page.rpartition("</body>")
    copy = f"{head}<script>{_MEASURE}</script></body>{tail}"
    dom = run_browser(browser, folder, [f"--window-size={width},800", "--dump-dom", _written(folder, copy)], deadline)
    found = _MEASURED.search(dom[:2_000])
    if found is None:
        raise AnamnesisError("The browser did not tell how tall the picture is: take HTML instead.")
    height = int(found[1])
    if height > TALLEST:
        raise AnamnesisError(f"The picture would be {height:,} pixels tall, more than {TALLEST:,}: take HTML instead.")
    return height


def _drawn(browser: str, folder: Path, document: Document, width: int, height: int, deadline: float) -> bytes:
    picture = folder / "picture.png"
    arguments = [
        f"--window-size={width},{height}", f"--force-device-scale-factor={2 if height <= _SHARP_UP_TO else 1}",
        f"--screenshot={picture}", _written(folder, page_of(document, POLICY)),
    ]  # fmt: skip
    run_browser(browser, folder, arguments, deadline)
    if not picture.exists():
        raise AnamnesisError("The browser drew no picture: take HTML instead.")
    return picture.read_bytes()


def _written(folder: Path, page: str) -> str:
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    return path.as_uri()
