"""A served dashboard: a real server on a free port with a database in a folder, and eyes on browsers."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from core import paths
from core.browser import find_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip
WIDE = (1440, 900)
NARROW = (390, 844)
SOON = 180_000
"""Milliseconds in which what is expected has to come, also on a busy machine."""
SHOWN = "Another database is shown."
"""What ``tests.support.server`` says when it has turned to the database that it was told of."""
KEYS = ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HF_TOKEN")
_TROUBLE = re.compile(r"traceback|exception|error|warning", re.IGNORECASE)
# Streamlit's server answers a browser that has just left, and reports that it could not
_LEFT = re.compile(r"Exception in ASGI application\n.*?WebSocketDisconnected: Cannot call [^\n]*\n", re.DOTALL)
# the library that draws pictures for print ignores half a message of a browser that closes, and reports it
_HALF = re.compile(
    r"[^\n]*JSONError decoding message\. Ignoring\n(?:(?:\s|Traceback|The above|During|[\w.]*Error)[^\n]*\n|\n)*"
)
# Streamlit looks for its own server below the page's path first: on /live these two answer 404, and it goes on
_PROBES = ("/_stcore/health", "/_stcore/host-config")


@dataclass(frozen=True)
class Dashboard:
    """A running server: its address, the folder with its database, and the environment for other processes."""

    address: str
    folder: Path
    environment: dict[str, str]
    log: Path
    begun: int = 0
    """Where in the log its own part begins."""

    @property
    def database(self) -> Path:
        return self.folder / "anamnesis.duckdb"

    @property
    def trouble(self) -> list[str]:
        log = self.log.read_bytes()[self.begun :].decode(errors="replace")
        return [line for line in _HALF.sub("", _LEFT.sub("", log)).splitlines() if _TROUBLE.search(line)]

    def core(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command of ``python -m core`` on the same database in another process."""
        return subprocess.Popen(
            [sys.executable, "-m", "core", *arguments],
            cwd=paths.ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def environment_for(folder: Path) -> dict[str, str]:
    """Return this process's environment without keys, with the database and a models file in ``folder``."""
    environment = {name: value for name, value in os.environ.items() if name not in KEYS}
    models = folder / "models.local.toml"
    models.touch()
    return {**environment, "ANAMNESIS_DB": str(folder / "anamnesis.duckdb"), "ANAMNESIS_MODELS": str(models)}


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Dashboard]:
    """Serve the dashboard as ``python -m core serve`` does, on the database in ``folder``."""
    environment = environment_for(folder)
    with _started(folder / "server.log", environment, "core", "serve", "--no-browser", "--port") as (address, _):
        yield Dashboard(address, folder, environment, folder / "server.log")


@contextlib.contextmanager
def _started(
    log: Path, environment: dict[str, str], module: str, *arguments: str
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Start a module that serves on the port named last, and wait until it answers; yield its address and process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    address, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 90
    command = [sys.executable, "-m", module, *arguments, port]
    pipe = subprocess.PIPE
    with log.open("wb") as out:
        server = subprocess.Popen(command, cwd=paths.ROOT, env=environment, stdin=pipe, stdout=out, stderr=out)
        try:
            while True:
                with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):
                    break
                assert server.poll() is None, f"The dashboard ended at once with status {server.returncode}."
                assert time.monotonic() < deadline, f"{address} did not answer in time."
                time.sleep(0.2)
            yield address, server
        finally:
            server.terminate()
            server.communicate(timeout=20)


class Shared:
    """What all browser tests of a worker share, each part started when it is first asked for: one server, one Chromium.

    Both are closed after the last of these tests (tests/conftest.py), since Playwright leaves an event loop running,
    and no other can run in the same thread.
    """

    def __init__(self) -> None:
        self._open = contextlib.ExitStack()

    def close(self) -> None:
        self._open.close()
        for part in ("browser", "_server"):
            self.__dict__.pop(part, None)

    @functools.cached_property
    def browser(self) -> Browser:
        from playwright.sync_api import expect, sync_playwright

        expect.set_options(timeout=SOON)
        playwright = self._open.enter_context(sync_playwright())
        return self._open.enter_context(playwright.chromium.launch(executable_path=find_browser(), args=FLAGS))

    @functools.cached_property
    def _server(self) -> tuple[str, subprocess.Popen[bytes], Path]:
        folder = Path(self._open.enter_context(tempfile.TemporaryDirectory()))
        log = folder / "server.log"
        started = _started(log, environment_for(folder), "tests.support.server")
        address, server = self._open.enter_context(started)
        return address, server, log

    def dashboard(self, folder: Path) -> Dashboard:
        """Let the server show the database in ``folder`` from now on, and forget what it knew of the one before."""
        address, server, log = self._server
        dashboard = Dashboard(address, folder, environment_for(folder), log, log.stat().st_size)
        assert server.stdin is not None
        server.stdin.write(f"{dashboard.database}\n".encode())
        server.stdin.flush()
        deadline = time.monotonic() + 30
        while SHOWN.encode() not in log.read_bytes()[dashboard.begun :]:
            assert time.monotonic() < deadline, "The server does not turn to another database."
            time.sleep(0.02)
        return dashboard


shared = Shared()


@dataclass
class Eyes:
    """What a browser context said and asked for while it was watched."""

    home: str
    console: list[str] = field(default_factory=list)
    abroad: list[str] = field(default_factory=list)

    def watch(self, context: BrowserContext) -> None:
        context.on("console", self._heard)
        context.on("weberror", lambda error: self.console.append(str(error.error)))
        context.on("request", lambda request: self._asked(request.url))

    def _heard(self, message: ConsoleMessage) -> None:
        at = str(message.location.get("url", ""))
        probe = "404" in message.text and at.endswith(_PROBES) and at.startswith(self.home)
        if message.type == "error" and not probe:
            self.console.append(f"{message.text} ({at})")

    def _asked(self, url: str) -> None:
        if not url.startswith((self.home, self.home.replace("http", "ws", 1), "data:", "blob:")):
            self.abroad.append(url)


def settle(page: Page, timeout_s: float = SOON / 1000) -> None:
    """Wait until the page is connected and has drawn everything."""
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]', timeout=timeout_s * 1000)
    page.wait_for_timeout(400)


def scrolls_sideways(page: Page) -> bool:
    """Say whether any part that holds the whole page is wider than the window."""
    return bool(
        page.evaluate(
            """() => [document.scrollingElement, ...document.querySelectorAll(
                '[data-testid="stApp"], [data-testid="stAppViewContainer"], [data-testid="stMain"]')]
                .some(part => part.scrollWidth > part.clientWidth + 1)"""
        )
    )


def choose_speed(page: Page, name: str) -> None:
    """Choose a speed; as a person would, once more where a redraw between press and release swallowed the click."""
    radio = page.get_by_role("radio", name=name, exact=True)
    for _ in range(4):
        radio.click()
        for _ in range(25):
            page.wait_for_timeout(200)
            if radio.count() == 0 or radio.get_attribute("aria-checked") == "true":
                return  # chosen, or the consultation is over already
    raise AssertionError(f"The speed {name} cannot be chosen.")
