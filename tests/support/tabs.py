"""A browser tab without a browser: speaks the pages' own protocol, and sends whatever it is told to."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value, generate_xsrf_token_string
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME, XSRF_COOKIE_NAME
from websockets.sync.client import ClientConnection, connect

from core import access, paths
from tests.support.dashboard import environment_for

COOKIE_SECRET = "x" * 64
ENDED = (
    ForwardMsg.ScriptFinishedStatus.FINISHED_SUCCESSFULLY,
    ForwardMsg.ScriptFinishedStatus.FINISHED_WITH_COMPILE_ERROR,
)
SOON_S = 60.0


@dataclass
class Drawn:
    """What a page drew: its messages; ``widgets`` maps the id of each element that has one to (type, label)."""

    messages: list[ForwardMsg] = field(default_factory=list)
    query: str = ""

    @property
    def widgets(self) -> dict[str, tuple[str, str]]:
        """Return each widget's type and label by its id."""
        types_and_labels: dict[str, tuple[str, str]] = {}
        for message in self.messages:
            if message.WhichOneof("type") == "delta":
                kind = message.delta.new_element.WhichOneof("type")
                element: Any = getattr(message.delta.new_element, kind) if kind else None
                if identity := getattr(element, "id", ""):
                    types_and_labels[identity] = kind, getattr(element, "label", "")
        return types_and_labels

    @property
    def words(self) -> str:
        return "\n".join(str(message) for message in self.messages)

    @property
    def exceptions(self) -> list[str]:
        return [
            message.delta.new_element.exception.message
            for message in self.messages
            if message.WhichOneof("type") == "delta" and message.delta.new_element.WhichOneof("type") == "exception"
        ]


class Tab:
    """A connection to a dashboard as somebody who has signed in."""

    def __init__(self, connection: ClientConnection, address: str) -> None:
        self.connection = connection
        self.address = address

    def look(
        self, page: str, query: Mapping[str, str] | None = None, pressed: Sequence[str] = (), **sent: str
    ) -> Drawn:
        """Open a page, with buttons of these ids ``pressed``, and return what is drawn; ``sent`` are further fields."""
        message = BackMsg()
        state = message.rerun_script
        state.page_name = page
        state.query_string = urlencode(query or {})
        state.context_info.url = f"{self.address}/{page}"
        for name, value in sent.items():
            setattr(state, name, value)
        for identity in pressed:
            widget = state.widget_states.widgets.add()
            widget.id, widget.trigger_value = identity, True
        self.send(message)
        return self.read()

    def send(self, message: BackMsg) -> None:
        self.connection.send(message.SerializeToString())

    def read(self) -> Drawn:
        """Return all messages up to the end of the script."""
        drawn = Drawn()
        deadline = time.monotonic() + SOON_S
        while True:
            data = self.connection.recv(timeout=deadline - time.monotonic())
            assert isinstance(data, bytes)
            message = ForwardMsg.FromString(data)
            drawn.messages.append(message)
            kind = message.WhichOneof("type")
            if kind == "page_info_changed":
                drawn.query = message.page_info_changed.query_string
            if kind == "script_finished" and message.script_finished in ENDED:
                return drawn

    def heard(self, seconds: float) -> list[ForwardMsg]:
        received: list[ForwardMsg] = []
        with suppress(TimeoutError):
            deadline = time.monotonic() + seconds
            while True:
                data = self.connection.recv(timeout=max(0.01, deadline - time.monotonic()))
                assert isinstance(data, bytes)
                received.append(ForwardMsg.FromString(data))
        return received


@contextmanager
def tab(address: str, name: str | None = None) -> Iterator[Tab]:
    token = generate_xsrf_token_string()
    cookies = {XSRF_COOKIE_NAME: token}
    if name is not None:
        claims = {"is_logged_in": True, "email": name, "email_verified": True, "origin": address}
        cookies[USER_COOKIE_NAME] = create_signed_value(COOKIE_SECRET, USER_COOKIE_NAME, json.dumps(claims)).decode()
    with connect(
        f"{address.replace('http', 'ws', 1)}/_stcore/stream",
        subprotocols=["streamlit", token],  # type: ignore[list-item]
        origin=address,  # type: ignore[arg-type]
        additional_headers={"Cookie": "; ".join(f"{key}={value}" for key, value in cookies.items())},
        max_size=None,
        open_timeout=SOON_S,
    ) as connection:
        yield Tab(connection, address)


@contextmanager
def serving_people(
    folder: Path, provider: str = "http://127.0.0.1:9", client: str = "a", secret: str = "b"
) -> Iterator[str]:
    """Serve the database in a folder to people who sign in at a provider; without one only by a signed cookie."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    (folder / ".streamlit").mkdir()
    (folder / ".streamlit" / "secrets.toml").write_text(
        f'[auth]\nredirect_uri = "{address}/oauth2callback"\ncookie_secret = "{COOKIE_SECRET}"\n'
        f'client_id = "{client}"\nclient_secret = "{secret}"\n'
        f'server_metadata_url = "{provider}/.well-known/openid-configuration"\n'
    )
    command = [
        sys.executable, "-m", "pages.kit.server", f"--server.port={port}", "--server.address=127.0.0.1",
        "--server.headless=true",
    ]  # fmt: skip
    # Streamlit reads the secrets of the home folder, too
    environment = {**environment_for(folder), access.LOGIN: "yes", "HOME": str(folder)}
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=paths.ROOT, env=environment, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 90
            while True:
                with suppress(OSError), urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):
                    break
                assert server.poll() is None, (folder / "server.log").read_text()
                assert time.monotonic() < deadline, "the server did not answer in time"
                time.sleep(0.1)
            yield address
        finally:
            server.kill()
            server.wait(20)
