"""A hostile page in a real browser: its name leads to this machine, or it frames the dashboard from another port."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import Browser

from core.browser import find_browser
from tests.support.dashboard import FLAGS, Dashboard, shared

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CONNECTS = """address => new Promise(done => {
    const socket = new WebSocket(address);
    socket.onopen = () => done("open");
    socket.onerror = () => done("refused");
})"""


@contextmanager
def page_at(html: str) -> Iterator[int]:
    """Serve one page on this machine, as another program of the user might; yield its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *arguments: object) -> None:
            """Do without the lines that the server prints for every request."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def rebound(browser: Browser) -> Iterator[Browser]:
    """Chromium in which every name under ``.example`` resolves to this machine, as an attacker's DNS would say."""
    launch = browser.browser_type.launch
    rules = "--host-resolver-rules=MAP *.example 127.0.0.1"
    with launch(executable_path=find_browser(), args=[*FLAGS, rules]) as opened:
        yield opened


def test_a_name_that_leads_to_this_machine_draws_no_page(rebound: Browser, dashboard: Dashboard) -> None:
    port = urlsplit(dashboard.address).port
    page = rebound.new_page()
    answer = page.goto(f"http://evil.example:{port}/runs")
    assert answer is not None
    assert answer.status == 403
    assert page.evaluate(CONNECTS, f"ws://evil.example:{port}/_stcore/stream") == "refused"
    with page_at("<h1>evil</h1>") as evil_port:
        page.goto(f"http://evil.example:{evil_port}/")
        for name in ("evil.example", "127.0.0.1", "localhost"):
            assert page.evaluate(CONNECTS, f"ws://{name}:{port}/_stcore/stream") == "refused", name


def test_another_page_of_this_machine_neither_connects_nor_frames(browser: Browser, dashboard: Dashboard) -> None:
    port = urlsplit(dashboard.address).port
    page = browser.new_page()
    with page_at(f'<iframe src="{dashboard.address}/"></iframe>') as other_port:
        page.goto(f"http://127.0.0.1:{other_port}/")
        assert page.evaluate(CONNECTS, f"ws://127.0.0.1:{port}/_stcore/stream") == "refused"
        frame = page.frames[1]
        frame.wait_for_load_state()
        assert frame.locator('[data-testid="stApp"]').count() == 0
    page.goto(dashboard.address)
    assert page.evaluate(CONNECTS, f"ws://127.0.0.1:{port}/_stcore/stream") == "open"
    assert shared.browser is browser
