"""A dashboard of its own for a test: a real server on a free port with a database in a folder, and eyes on browsers."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from core import paths

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, ConsoleMessage, Page

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip
IN_CHROMIUM = [
    pytest.mark.browser,
    pytest.mark.xdist_group("browser"),  # one browser at a time
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"no Chromium at {CHROMIUM}: install it or set CHROMIUM"),
]
"""Marks of tests that drive a browser."""
WIDE = (1440, 900)
NARROW = (390, 844)
KEYS = ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HF_TOKEN")
_TROUBLE = re.compile(r"traceback|exception|error|warning", re.IGNORECASE)
# Streamlit's server answers a browser that has just left, and reports that it could not
_LEFT = re.compile(r"Exception in ASGI application\n.*?WebSocketDisconnected: Cannot call [^\n]*\n", re.DOTALL)
# Streamlit looks for its own server below the page's path first: on /live these two answer 404, and it goes on
_PROBES = ("/_stcore/health", "/_stcore/host-config")


@dataclass(frozen=True)
class Dashboard:
    """A running server: its address, the folder with its database, and the environment for other processes."""

    address: str
    folder: Path
    environment: dict[str, str]

    @property
    def trouble(self) -> list[str]:
        """Lines of the server's log that speak of trouble."""
        log = (self.folder / "server.log").read_text(encoding="utf-8", errors="replace")
        return [line for line in _LEFT.sub("", log).splitlines() if _TROUBLE.search(line)]

    def core(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command of ``python -m core`` on the same database in another process."""
        return subprocess.Popen(
            [sys.executable, "-m", "core", *arguments], cwd=paths.ROOT, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


def environment_for(folder: Path, **more: str) -> dict[str, str]:
    """Return this process's environment without keys, with the database in ``folder``."""
    kept = {name: value for name, value in os.environ.items() if name not in KEYS}
    return {**kept, "ANAMNESIS_DB": str(folder / "anamnesis.duckdb"), **more}


@contextlib.contextmanager
def serving(folder: Path, **more: str) -> Iterator[Dashboard]:
    """Serve the dashboard as ``python -m core serve`` does, on an empty database in ``folder``."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = environment_for(folder, **more)
    command = [sys.executable, "-m", "core", "serve", "--port", str(port), "--no-browser"]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=paths.ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            _await(server, f"http://127.0.0.1:{port}/_stcore/health")
            yield Dashboard(f"http://127.0.0.1:{port}", folder, environment)
        finally:
            server.terminate()
            server.wait(20)


def _await(server: subprocess.Popen[bytes], url: str, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"The dashboard ended at once with status {server.returncode}.")
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2):
            return
        time.sleep(0.2)
    raise TimeoutError(f"{url} did not answer within {seconds:.0f} s.")


@dataclass
class Eyes:
    """What a browser context said and asked for while it was watched."""

    home: str
    console: list[str] = field(default_factory=list)
    abroad: list[str] = field(default_factory=list)

    def watch(self, context: BrowserContext) -> None:
        """Watch every page of a context."""
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


def settle(page: Page, timeout_s: float = 60) -> None:
    """Wait until the page is connected and has drawn what was asked of it."""
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
