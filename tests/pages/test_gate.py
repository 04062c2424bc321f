"""Who is answered by the dashboard's server: requests that name it and come from its own pages."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core import paths
from core.models import keys
from pages.kit.server import RequestGate

HERE = "127.0.0.1:8501"


async def answered(gate: RequestGate, kind: str, host: str, origin: str | None, path: str, method: str) -> list[Any]:
    """Send one request through the gate; return what was sent back."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [(b"host", host.encode())] + ([(b"origin", origin.encode())] if origin is not None else [])
    scope = {"type": kind, "path": path, "method": method, "headers": headers}
    await gate(scope, receive, send)
    return sent


def status(
    host: str = HERE, origin: str | None = None, *, kind: str = "http", path: str = "/", method: str = "GET",
    bound_to: str = "127.0.0.1",
) -> Any:  # fmt: skip
    """Return the status of an answer; for a websocket whether it was accepted."""

    async def streamlit(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": f"{kind}.{'response.start' if kind == 'http' else 'accept'}", "status": 200, "headers": []})

    sent = asyncio.run(answered(RequestGate(streamlit, bound_to), kind, host, origin, path, method))
    return sent[0]["status"] if kind == "http" else sent[0]["type"] == "websocket.accept"


@pytest.fixture(autouse=True)
def access_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANAMNESIS_ACCESS", str(tmp_path / "access.toml"))
    monkeypatch.setattr(keys, "_login", lambda: None)
    return tmp_path / "access.toml"


def test_the_machines_own_names_are_answered() -> None:
    for host in (HERE, "localhost:8501", "LOCALHOST", "[::1]:8501", "localhost."):
        assert status(host) == 200, host
        assert status(host, f"http://{host}", kind="websocket") is True, host


def test_a_name_that_is_made_to_lead_here_reads_nothing() -> None:
    hosts = ("evil.example", "evil.example:8501", "127.0.0.1.evil.example", "localhost@evil.example",
             "evil.example#localhost", "localhost:port", "", "10.0.0.5", "[::1", "localhost/evil")  # fmt: skip
    for host in hosts:
        assert status(host) == 403, host
        assert status(host, f"http://{host}", kind="websocket") is False, host


def test_pages_of_other_servers_may_neither_draw_nor_change_anything() -> None:
    for origin in ("http://localhost:9999", "http://evil.example", "null", "file://", "http://[", ""):
        assert status("localhost:8501", origin, kind="websocket") is False, origin
        assert status("localhost:8501", origin, method="PUT") == 403, origin
        assert status("localhost:8501", origin) == 200, "a link from elsewhere opens the page"


def test_a_program_sends_no_origin_and_is_answered() -> None:
    assert status(kind="websocket") is True


def test_a_server_behind_a_proxy_is_known_by_the_names_of_the_file_of_roles(access_file: Path) -> None:
    name, origin = "anamnesis.example.org", "https://anamnesis.example.org"
    assert status(name) == 403
    access_file.write_text(f'served_as = ["{name.title()}"]\n')
    assert status(name) == 200
    assert status(name, origin, kind="websocket") is True
    assert status(HERE, origin, kind="websocket") is True, "a proxy may name the server it calls"
    assert status(name, "https://other.example.org", kind="websocket") is False
    access_file.write_text("served_as = 7\n")
    assert (status(name), status(HERE)) == (403, 200), "a file with a mistake opens nothing"


def test_the_host_of_the_login_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_login", lambda: {"redirect_uri": "https://clinic.example.org/oauth2callback"})
    assert status("clinic.example.org") == 200


def test_a_server_on_all_addresses_answers_to_addresses_but_not_to_names() -> None:
    assert status("192.168.1.20:8501", bound_to="0.0.0.0") == 200
    assert status("[fd00::5]:8501", bound_to="::") == 200
    assert status("evil.example", bound_to="0.0.0.0") == 403
    assert status("lab7.example.org:8501", bound_to="lab7.example.org") == 200


def test_no_other_site_can_frame_it_unless_the_file_names_that_site(access_file: Path) -> None:
    async def streamlit(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    def headers() -> dict[bytes, bytes]:
        return dict(
            asyncio.run(answered(RequestGate(streamlit, "127.0.0.1"), "http", HERE, None, "/", "GET"))[0]["headers"]
        )

    closed = headers()
    assert closed[b"content-security-policy"] == b"frame-ancestors 'self'"
    assert closed[b"x-frame-options"] == b"SAMEORIGIN"
    access_file.write_text('framed_by = ["https://wiki.example.org"]\n')
    opened = headers()
    assert opened[b"content-security-policy"] == b"frame-ancestors 'self' https://wiki.example.org"
    assert b"x-frame-options" not in opened


def test_streamlits_metrics_are_closed() -> None:
    assert status(path="/_stcore/metrics") == 404
    assert status(path="/_stcore/health") == 200


@pytest.mark.slow
def test_the_pages_are_served_through_the_gate() -> None:
    """The class alone does not protect: ``main`` must put it before Streamlit."""
    code = (
        "import streamlit as st\nfrom pages.kit import server\n"
        "st.App.run = lambda app, config: print([m.cls.__name__ for m in app._user_middleware], config)\n"
        "server.main('--server.port=1', '--server.address=127.0.0.1')"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT, capture_output=True, text=True, timeout=120)
    assert ran.stdout.strip() == "['RequestGate'] {'server.port': '1', 'server.address': '127.0.0.1'}"
