"""``serve``: opens the dashboard on this machine."""

from __future__ import annotations

import os
import socket
import sys
from typing import Annotated

import typer

from core import paths
from core.errors import AnamnesisError

HOST = "127.0.0.1"


def serve(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 8501,
    browser: Annotated[bool, typer.Option(help="Open a browser window.")] = True,
) -> None:
    """Open the dashboard at http://127.0.0.1:PORT (it listens on this machine only)."""
    _need_free(port)
    headless = "false" if browser and (os.environ.get("DISPLAY") or sys.platform in ("darwin", "win32")) else "true"
    command = [
        sys.executable,
        "-m",
        "pages.kit.server",
        f"--server.port={port}",
        f"--server.address={HOST}",
        f"--server.headless={headless}",
    ]
    print(f"Anamnesis is at http://{HOST}:{port} (Ctrl-C ends it).", flush=True)
    os.chdir(paths.ROOT)
    os.execv(sys.executable, command)


def _need_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise AnamnesisError(
                f"Port {port} is in use: stop what runs there, or choose another one with `make run PORT={port + 1}` "
                f"or `python -m core serve --port {port + 1}`."
            ) from error
