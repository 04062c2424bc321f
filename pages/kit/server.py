"""``python -m pages.kit.server OPTIONS``: the server of the dashboard, with Streamlit's options as ``--name=value``.

Streamlit answers every connection. ``RequestGate`` stands before it and answers only requests that name this server and
come from this server's pages, so that no other web page can use the dashboard through its reader's browser.
"""

from __future__ import annotations

import gc
import logging
import socket
import sys
import threading
from collections.abc import Iterable
from importlib import import_module
from ipaddress import ip_address
from urllib.parse import urlsplit

import streamlit as st
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.runtime.pages_manager import PagesManager

from core import access, paths
from core.errors import UsageError
from core.models.keys import login_host

_log = logging.getLogger(__name__)
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
METRICS = "/_stcore/metrics"
"""Streamlit's counts of sessions and memory: unused here, and not for strangers."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
MESSAGES = frozenset({"rerun_script", "stop_script", "app_heartbeat", "file_urls_request", "backend_operation_request"})
OPERATIONS = frozenset({"deferred_file", "dataframe_chunk"})
"""The websocket messages that the dashboard's pages send."""


class RequestGate:
    """ASGI middleware that refuses foreign hosts and origins, forbids framing, and blocks what no page needs.

    A page of another site can reach a server on 127.0.0.1 in two ways: its own name can resolve to 127.0.0.1 (DNS
    rebinding; the ``Host`` header then holds that name), or it can connect to our address directly (the ``Origin``
    header then differs from ``Host``). ``bound_to`` is the address that the server listens on.

    Streamlit also obeys developer messages from any websocket: clear the caches of all visitors (and with them the
    running consultations), list the changed files of the checkout, install files. The gate drops them.
    """

    def __init__(self, app: ASGIApp, bound_to: str) -> None:
        self.app = app
        self.names = LOCAL_NAMES | {bound_to.lower()}
        self.everywhere = bound_to in ("0.0.0.0", "::")
        if self.everywhere:
            self.names |= {socket.gethostname().lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        public_names, framed_by = _named_in_access_file()
        refusal = self.refusal(scope, public_names)
        if refusal and scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": refusal})
        elif refusal:
            await PlainTextResponse(refusal, 403)(scope, receive, send)
        elif scope["type"] == "http" and scope["path"].endswith(METRICS):
            await PlainTextResponse("Not found", 404)(scope, receive, send)
        else:
            if scope["type"] == "websocket":
                receive = _without_developers_messages(receive)
            await self.app(scope, receive, _with_headers(send, framed_by))

    def refusal(self, scope: Scope, public_names: frozenset[str]) -> str:
        """Return why a request is refused, in a sentence; empty if it is answered."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        name = _host_name(host)
        if not (name in self.names | public_names or (self.everywhere and _is_address(name))):
            return "This server is not known by that name: name it as served_as in access.toml."
        origin = headers.get("origin")
        # A browser sends the origin with every websocket and with whatever changes something; a program sends none.
        if origin is None or (scope["type"] == "http" and scope["method"] in SAFE_METHODS):
            return ""
        try:
            place = urlsplit(origin)
            same = place.netloc.lower() == host.lower() or _host_name(place.netloc) in public_names
        except ValueError:
            same = False
        return "" if same else "Pages of other sites may not use this server."


def _without_developers_messages(receive: Receive) -> Receive:
    async def receiving() -> Message:
        while True:
            message = await receive()
            if message["type"] != "websocket.receive" or _is_of_a_page(message.get("bytes") or b""):
                return message

    return receiving


def _is_of_a_page(data: bytes) -> bool:
    """Return whether pages send such messages; data that is no message is left to Streamlit, which refuses it."""
    try:
        message = BackMsg.FromString(data)
    except DecodeError:
        return True
    kind = message.WhichOneof("type")
    if kind == "backend_operation_request":
        return message.backend_operation_request.WhichOneof("payload") in OPERATIONS
    return kind in MESSAGES


def _with_headers(send: Send, framed_by: Iterable[str]) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Content-Security-Policy"] = " ".join(["frame-ancestors 'self'", *framed_by])
            headers["X-Content-Type-Options"] = "nosniff"
            headers["Referrer-Policy"] = "same-origin"
            if not framed_by:  # the older header cannot list sites
                headers["X-Frame-Options"] = "SAMEORIGIN"
        await send(message)

    return sending


def _named_in_access_file() -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the server's public names and the sites that may frame it; both empty if access.toml is unreadable."""
    try:
        rules = access.rules()
        names = {*rules.served_as, *filter(None, [login_host()])}
        return frozenset(name.strip().lower().rstrip(".") for name in names), rules.framed_by
    except UsageError:
        return frozenset(), ()


def _host_name(host: str) -> str:
    """Return the name in a ``Host`` header without its port; empty if the header is not ``name[:port]``."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises ValueError if the port is not a number
    except ValueError:
        return ""
    if parts.path or parts.query or parts.fragment or "@" in host:
        return ""
    return (parts.hostname or "").rstrip(".")


def _is_address(name: str) -> bool:
    """Return whether a host is an IP address; DNS rebinding needs a name."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


_LOADED_AHEAD = (
    "core.jobs.background",
    "core.measures.registry",
    "core.figures.report",
    "core.datasets.library",
    "plotly.graph_objects",
    "scipy.special",
    "streamlit.emojis",
)
"""Modules that pages of figures import, seconds of work; none depends on a running server of Streamlit."""


def _load_ahead() -> None:
    """Import what the first visitor would wait for, and leave it out of garbage collection, which pages wait for."""
    for name in _LOADED_AHEAD:
        try:
            import_module(name)
        except Exception:  # the page that needs it shows the error
            _log.warning("%s cannot be loaded.", name, exc_info=True)
    gc.freeze()


def main(*options: str) -> None:
    """Serve the dashboard until the process ends.

    ``app.py`` defines the pages. Without the setting below, Streamlit looks for pages in the folder next to it until
    ``app.py`` has run once, and answers the first link to a page with "page not found".
    """
    PagesManager.uses_pages_directory = False
    config = dict(option.removeprefix("--").split("=", 1) for option in options)
    gate = Middleware(RequestGate, bound_to=config.get("server.address", "127.0.0.1"))
    threading.Thread(target=_load_ahead, name="imports", daemon=True).start()
    st.App(paths.ROOT / "app.py", middleware=[gate]).run(config=config)


if __name__ == "__main__":
    main(*sys.argv[1:])
