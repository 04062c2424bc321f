"""``serve``: opens the dashboard on this machine."""

from __future__ import annotations

import errno
import os
import socket
import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from core import access, paths
from core.errors import AnamnesisError, UsageError
from core.models.keys import login_configured
from core.models.spec import is_loopback

HOST = "127.0.0.1"


def serve(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 8501,
    host: Annotated[
        str, typer.Option(help="Address to listen on; another than this machine's own needs a login.")
    ] = HOST,
    login: Annotated[
        bool,
        typer.Option(
            "--login/--no-login", help="People sign in where [auth] says how; without, all may do everything."
        ),
    ] = True,
    browser: Annotated[bool, typer.Option(help="Open a browser window.")] = True,
) -> None:
    """Open the dashboard at http://127.0.0.1:PORT (it listens on this machine only, unless told otherwise)."""
    configured = login_configured()
    if login and not configured and not is_loopback(f"http://[{host}]" if ":" in host else f"http://{host}"):
        raise UsageError(
            f"Nobody signs in here, so whoever reaches {host} could do all that you can: set a login up "
            "(docs/server.md), or say --no-login where that is meant."
        )
    if configured and not login:
        raise UsageError("[auth] stands in .streamlit/secrets.toml: take it out there to serve without a login.")
    if configured and find_spec("authlib") is None:
        raise UsageError("A login needs Authlib: install it with `pip install -r requirements-server.txt`.")
    _need_free(host, port)
    headless = "false" if browser and (os.environ.get("DISPLAY") or sys.platform in ("darwin", "win32")) else "true"
    command = [
        sys.executable,
        "-m",
        "pages.kit.server",
        f"--server.port={port}",
        f"--server.address={host}",
        f"--server.headless={headless}",
    ]
    print(f"Anamnesis is at http://{f'[{host}]' if ':' in host else host}:{port} (Ctrl-C ends it).", flush=True)
    if configured:
        os.environ[access.LOGIN] = "yes"
        people = len(access.rules().people)
        print(f"People sign in; {access.rules_file()} lets in {people or 'nobody'}.", flush=True)
    os.chdir(paths.ROOT)
    os.execv(sys.executable, command)


def _need_free(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except socket.gaierror as error:
            raise UsageError(f"There is no address {host} on this machine: {error.strerror}.") from error
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise UsageError(f"{host} is no address of this machine.") from error
            raise AnamnesisError(
                f"Port {port} is in use: stop what runs there, or choose another one with `make run PORT={port + 1}` "
                f"or `python -m core serve --port {port + 1}`."
            ) from error
