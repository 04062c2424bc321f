"""Downloads from a local server: complete files, limits, and errors of one sentence."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from core.datasets.download import OnBytes, archive_url, downloaded, is_url
from core.errors import AnamnesisError, UsageError

BODY = bytes(range(256)) * 4000


@contextmanager
def serving(
    body: bytes = BODY, declared: int | None = None, status: int = 200, length: bool = True, to: str = ""
) -> Iterator[str]:
    """Serve ``body`` at every path; ``declared`` is a wrong length, ``to`` the target of a redirect."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302 if to and self.path != "/end" else status)
            if to:
                self.send_header("Location", to)
            if length:
                self.send_header("Content-Length", str(declared if declared is not None else len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/release.tar.xz"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def fetch(url: str, limit: int = 10**9, on_bytes: OnBytes = lambda done, total: None) -> bytes:
    with downloaded(url, limit, on_bytes) as path:
        return path.read_bytes()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def test_the_file_is_deleted_after_use(tmp_path: Path) -> None:
    progress: list[tuple[int, int | None]] = []
    with serving() as url, downloaded(url, len(BODY), lambda done, total: progress.append((done, total))) as path:
        assert path.name == "release.tar.xz"
        assert path.read_bytes() == BODY
    assert not path.exists()
    assert progress[-1] == (len(BODY), len(BODY))
    assert [done for done, _ in progress] == sorted(done for done, _ in progress)


def test_a_download_without_a_length_has_a_limit_too() -> None:
    with serving(length=False) as url, downloaded(url, len(BODY)) as path:
        assert path.read_bytes() == BODY
    with serving(length=False) as url, pytest.raises(AnamnesisError, match="sends more than"):
        fetch(url, len(BODY) - 1)


def test_a_too_large_file_is_refused_before_it_is_fetched() -> None:
    progress: list[int] = []
    with (
        serving(declared=10_000_000_000) as url,
        pytest.raises(AnamnesisError, match=r"sends more than 4 GB.*--max-gb"),
    ):
        fetch(url, 4_000_000_000, lambda done, total: progress.append(done))
    assert progress == []


def test_an_interrupted_download_is_an_error() -> None:
    with (
        serving(declared=len(BODY) + 10) as url,
        pytest.raises(AnamnesisError, match=r"broke off.*nothing was imported"),
    ):
        fetch(url, 10**9)


def test_an_http_error_is_reported() -> None:
    with serving(status=404) as url, pytest.raises(AnamnesisError, match="the server answers 404"):
        fetch(url, 10**9)


def test_a_missing_server_is_reported() -> None:
    with pytest.raises(AnamnesisError, match=r"cannot be downloaded.*check the address and the network"):
        fetch("http://127.0.0.1:9/release.zip", 10**9)


def test_a_redirection_cannot_lead_to_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    with serving(to=f"file://{secret}") as url, pytest.raises(AnamnesisError, match=r"cannot be downloaded"):
        fetch(url, 10**9)


def test_other_protocols_are_refused(subtests: pytest.Subtests) -> None:
    for url in ["ftp://host/a.zip", "file:///etc/passwd", "http:///a.zip"]:
        with subtests.test(url=url), pytest.raises(UsageError, match="must begin with https://"):
            fetch(url, 10**9)


def test_addresses_and_repositories_are_recognised() -> None:
    assert is_url("https://example.org/a.zip")
    assert not is_url("/data/release")
    assert not is_url("release.tar.xz")
    assert archive_url("https://github.com/some-lab/some.repo.git/") == (
        "https://github.com/some-lab/some.repo/archive/HEAD.zip"
    )
    assert archive_url("https://example.org/a/b") == "https://example.org/a/b"
