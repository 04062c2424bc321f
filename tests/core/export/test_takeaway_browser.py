"""A hostile document in Chromium: no request, no script, only text. And the picture of a document."""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from core.browser import find_browser
from core.errors import AnamnesisError
from core.export import png
from core.export.document import Document, document_of
from core.export.page import to_html
from core.export.png import WIDTHS, run_browser, to_png
from core.store.database import Store
from tests.core.export.conversations import evil_conversation
from tests.support.dashboard import NARROW, WIDE


def in_three_columns(document: Document) -> Document:
    return Document(document.conversations * 3, document.made_at)


@contextmanager
def listening() -> Iterator[tuple[str, list[str]]]:
    """A local server: its address, and the paths of its requests."""
    requests: list[str] = []

    class Ears(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Ears) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()


@pytest.mark.slow
@pytest.mark.browser
def test_a_hostile_document_stays_text(browser, tmp_path: Path) -> None:
    documents = {"one": evil_conversation(), "three": in_three_columns(evil_conversation())}
    for name, document in documents.items():
        path = tmp_path / f"{name}.html"
        path.write_bytes(to_html(document))
        for width, height in (WIDE, NARROW) if name == "one" else (NARROW,):
            context = browser.new_context(viewport={"width": width, "height": height}, offline=True)
            requests: list[str] = []
            dialogs: list[str] = []
            console: list[str] = []
            context.on("request", lambda request, requests=requests: requests.append(request.url))
            page = context.new_page()
            page.on("dialog", lambda dialog, dialogs=dialogs: (dialogs.append(dialog.message), dialog.dismiss()))
            page.on("console", lambda message, console=console: console.append(message.text))
            page.goto(path.as_uri(), wait_until="load")
            messages = page.locator(".said").all_inner_texts()
            assert "<script>window.hit=1</script>" in messages
            assert page.evaluate("window.hit") is None
            assert page.evaluate("document.scripts.length + document.images.length + document.links.length") == 0
            assert page.url == path.as_uri()
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            assert requests == [path.as_uri()]
            assert dialogs == []
            assert console == []
            context.close()


@pytest.mark.slow
@pytest.mark.browser
def test_the_policy_of_the_page_blocks_unescaped_markup(browser, tmp_path: Path) -> None:
    """Markup that is inserted into the finished page neither runs nor fetches from a listening server."""
    path = tmp_path / "broken.html"
    with listening() as (address, requests):
        hole = f"<script>window.hit=1</script><img src='{address}/a.png' onerror='window.hit=1'></body>".encode()
        path.write_bytes(to_html(evil_conversation()).replace(b"</body>", hole))
        page = browser.new_page()
        page.goto(path.as_uri(), wait_until="load")
        assert page.evaluate("document.scripts.length + document.images.length") == 2
        assert page.evaluate("window.hit") is None
        assert requests == []
        page.goto(f"{address}/hello")  # the server does listen
        assert requests[:1] == ["/hello"]


@pytest.mark.slow
@pytest.mark.browser
def test_the_picture_shows_the_whole_page(browser, store: Store, tmp_path: Path, monkeypatch) -> None:
    document = document_of(["run/1/0", "run/1/1"])
    path = tmp_path / "page.html"
    path.write_bytes(to_html(document))
    page = browser.new_page(viewport={"width": WIDTHS[2], "height": 800})
    page.goto(path.as_uri())
    tall = page.evaluate("document.documentElement.scrollHeight")
    assert tall > 1000
    picture = to_png(document)
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", picture[16:24])
    assert (width, height) == (2 * WIDTHS[2], 2 * tall)
    monkeypatch.setattr(png, "TALLEST", tall - 1)
    with pytest.raises(AnamnesisError, match=rf"would be {tall:,} pixels tall, more than {tall - 1:,}: use HTML"):
        to_png(document)


@pytest.mark.slow
def test_without_a_browser_png_is_refused(monkeypatch, store: Store) -> None:
    monkeypatch.setenv("CHROMIUM", "/no/such/browser")
    assert find_browser() is None
    with pytest.raises(AnamnesisError, match=r"^There is no Chrome or Chromium on this machine .* use HTML instead\.$"):
        to_png(document_of(["run/1/0"]))


def a_program(folder: Path, *lines: str) -> str:
    path = folder / "browser"
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return str(path)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the stand-in for a browser is a shell script")
def test_a_browser_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    hangs = a_program(
        tmp_path,
        "sleep 600 &",
        f"echo $! > {tmp_path}/child.new",
        f"mv {tmp_path}/child.new {tmp_path}/child",
        "sleep 600",
    )
    with pytest.raises(AnamnesisError, match="in time: use HTML instead"):
        run_browser(hangs, tmp_path, [], time.monotonic() + 4)
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 30
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the browser's child still runs"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the stand-in for a browser is a shell script")
def test_a_failing_browser_is_reported(tmp_path: Path, store: Store, monkeypatch) -> None:
    with pytest.raises(AnamnesisError, match=r"failed \(status 3\): use HTML instead"):
        run_browser(a_program(tmp_path, "exit 3"), tmp_path, [], time.monotonic() + 30)
    monkeypatch.setenv("CHROMIUM", a_program(tmp_path, "echo '<html lang=\"en\">'"))
    with pytest.raises(AnamnesisError, match="did not measure the height"):
        to_png(document_of(["run/1/0"]))
