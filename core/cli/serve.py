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
        str, typer.Option(help="Address to listen on; one that other machines reach needs a login.")
    ] = HOST,
    login: Annotated[
        bool, typer.Option("--login/--no-login", help="Users sign in as [auth] says; without, everybody may do all.")
    ] = True,
    browser: Annotated[bool, typer.Option(help="Open a browser window.")] = True,
) -> None:
    """Open the dashboard at http://127.0.0.1:PORT (by default only this machine can reach it)."""
    configured = login_configured()
    if login and not configured and not is_loopback(f"http://[{host}]" if ":" in host else f"http://{host}"):
        raise UsageError(
            f"There is no login, so everybody who reaches {host} could do all that you can: set up a login "
            "(docs/server.md), or use --no-login if you mean it."
        )
    if configured and not login:
        raise UsageError("[auth] is configured in .streamlit/secrets.toml: remove it there to serve without a login.")
    if configured and find_spec("authlib") is None:
        raise UsageError("A login needs Authlib: install it with `pip install -r requirements-server.txt`.")
    people = len(access.rules().people)  # a wrong file is refused here: the server itself goes on without its names
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
        print(f"Users sign in; {access.rules_file()} admits {people} users.", flush=True)
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
