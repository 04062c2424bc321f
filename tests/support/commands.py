"""Commands of ``python -m core`` in processes of their own, forked from one that has loaded the program.

A fresh process takes seconds of work before it begins. What is forked has its own memory, signals and end all the same.
"""

from __future__ import annotations

import functools
import io
import json
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from types import ModuleType
from typing import Any
from unittest import mock

from core import paths

_LOADED = ["core.cli.app", "core.cli.run", "core.cli.report", "core.models.openai_compatible"]


@functools.cache
def _loaded() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_LOADED)
    return context


def forked(do: Callable[..., object], *arguments: Any) -> ForkServerProcess:
    """Start a process that calls a module's function; sockets may go along."""
    child = _loaded().Process(target=do, args=arguments)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANAMNESIS_")}
    # a page that was run in this process has made app.py its main module, which the child would run
    main = mock.patch.dict(sys.modules, {"__main__": ModuleType("__main__")})
    with main, mock.patch.dict(os.environ, {**environment, "PYTHONPATH": str(paths.ROOT)}, clear=True):
        child.start()
    return child


class Command:
    """``python -m core`` in a child process, with its output; used as ``subprocess.Popen`` is."""

    def __init__(self, environment: Mapping[str, str], arguments: Sequence[str]) -> None:
        self._said = tempfile.TemporaryDirectory()
        self._child = forked(_command, dict(environment), self._said.name, list(arguments))
        self.args, self.pid = arguments, int(self._child.pid or 0)

    @property
    def returncode(self) -> int | None:
        return self._child.exitcode

    def poll(self) -> int | None:
        return self._child.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self._child.join(timeout)
        if self.poll() is None:
            raise TimeoutExpired(list(self.args), timeout or 0.0)
        out, err = ((Path(self._said.name) / name).read_text() for name in ("out", "err"))
        return out, err


def finish(child: Command, timeout: float = 120) -> CompletedProcess[str]:
    """Wait for a command's end, and kill it where it does not come."""
    try:
        out, err = child.communicate(timeout)
    finally:
        child.send_signal(signal.SIGKILL)
    return CompletedProcess(child.args, child.returncode or 0, out, err)


def in_turn(environment: Mapping[str, str], *commands: Sequence[str]) -> list[CompletedProcess[str]]:
    """Return what each command said, one after the other in one process; all of them have to succeed."""
    done = finish(Command(environment, ["in turn", json.dumps(commands)]), 240)
    assert done.returncode == 0, done.stderr
    outcomes = [CompletedProcess[str](*json.loads(line)) for line in done.stdout.splitlines()]
    assert [outcome.returncode for outcome in outcomes] == [0] * len(commands), outcomes
    return outcomes


def _command(environment: Mapping[str, str], folder: str, arguments: list[str]) -> None:
    for number, (name, mode) in enumerate([(os.devnull, "r"), (f"{folder}/out", "w"), (f"{folder}/err", "w")]):
        with open(name, mode) as file:
            os.dup2(file.fileno(), number)
    sys.stdin = open(os.devnull)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(paths.ROOT)
    if paths.extensions():  # they are looked for once in a process, as the program is loaded
        for module in [name for name in sys.modules if name.partition(".")[0] == "core"]:
            del sys.modules[module]
    from core.cli.app import main

    if arguments[0] != "in turn":
        sys.exit(main(arguments))
    for command in json.loads(arguments[1]):
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            status = main(command)
        print(json.dumps([command, status, out.getvalue(), err.getvalue()]), flush=True)
