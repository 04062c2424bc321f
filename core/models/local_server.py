"""A ``transformers serve`` child process on a free loopback port, one for each model, shared in this process.

It ends with its last user, with this process, and also if this process is killed (see ``supervise``).
"""

from __future__ import annotations

import asyncio
import atexit
import http.client
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

from core.errors import ProviderError
from core.models.spec import LocalServing, ModelSpec

_KEPT_LINES = 400
_ERROR = re.compile(r"^(?:[\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt)\b: ?")
_NOISE = re.compile(r"^(INFO:|\[transformers\]|Loading |Downloading|\s|Traceback|During handling|The above|$)")
_LENGTH = 400

_HINTS = (
    (re.compile(r"out of memory|OutOfMemory|MemoryError|Cannot allocate", re.I), "free memory or take a smaller model"),
    (re.compile(r"transformers\[serving\]|No module named", re.I), "install the packages of requirements.txt"),
    (
        re.compile(r"gated repo|restricted|401 Client Error|403 Client Error", re.I),
        "accept the model's licence on its page and set HF_TOKEN",
    ),
    (
        re.compile(r"couldn't connect|offline|LocalEntryNotFound|cached files", re.I),
        "check the name, connect to the network or unset HF_HUB_OFFLINE",
    ),
    (
        re.compile(r"not a valid model identifier|Repo id must|Repository Not Found|not a local folder", re.I),
        "check the model's name or folder",
    ),
    (
        re.compile(r"Unrecognized|does not appear to have|safetensors|config\.json|model_type", re.I),
        "check that the folder holds a whole model with its tokenizer",
    ),
)


class ServeLog:
    """The last lines of a stream, which a separate thread reads so that the server never blocks on its output."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._reader: threading.Thread | None = None
        self.mark = 0
        """Number of lines so far."""

    def follow(self, stream: IO[str]) -> None:
        self._reader = threading.Thread(target=self._read, args=(stream,), daemon=True, name="model-server-log")
        self._reader.start()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._lines.append(line.rstrip())
                self.mark += 1

    def finish(self) -> None:
        if self._reader is not None:
            self._reader.join(timeout=2)

    def last_words(self, since: int = 0) -> str:
        """Return the last error after the mark ``since``; empty without one."""
        new = self.mark - since
        return last_words(list(self._lines)[-new:]) if new > 0 else ""


def last_words(lines: list[str]) -> str:
    """Return the last error among ``lines``, otherwise the last line that is not routine output."""
    errors = [line for line in lines if _ERROR.match(line)]
    candidates = errors or [line for line in lines if not _NOISE.match(line)]
    text = _ERROR.sub("", candidates[-1]).strip() if candidates else ""
    text = text or (candidates[-1] if candidates else "")
    return text.rstrip(". ") if len(text) <= _LENGTH else text[: _LENGTH - 1] + "…"


def advice(words: str) -> str:
    for pattern, hint in _HINTS:
        if pattern.search(words):
            return hint
    return "start `transformers serve` with this model by hand to see all it prints"


_HOST = "127.0.0.1"
_POLL_S = 0.2
_STOP_S = 15.0
_TURN_S = 0.03
_SUPERVISOR = Path(__file__).with_name("supervise.py")


class LocalServer:
    """One model's server. Its first user starts it; the last ``release`` stops it."""

    def __init__(self, name: str, model_id: str, serving: LocalServing) -> None:
        self.name = name
        self.users = 0
        self.port = 0
        self._model_id = model_id
        self._serving = serving
        self._batches = "--continuous-batching" in serving.args
        self._lock = threading.Lock()
        self.process: subprocess.Popen[str] | None = None
        """The supervisor; ``None`` before the start."""
        self.log = ServeLog()
        self._failure: ProviderError | None = None
        self._stopped = threading.Event()
        self._turns: list[object] = []
        self._turning = threading.Lock()

    @property
    def is_busy(self) -> bool:
        return bool(self._turns) and not self._batches

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until all earlier calls of all threads are answered; without a wait if the server batches its calls.

        The server has one random state, so concurrent calls would make seeded replies irreproducible, and they would
        not be faster.
        """
        ticket = object()
        with self._turning:
            self._turns.append(ticket)
        try:
            # poll, because callers may run on different event loops
            while not self._batches and self._turns[0] is not ticket:  # noqa: ASYNC110
                await asyncio.sleep(_TURN_S)
            yield
        finally:
            with self._turning:
                self._turns.remove(ticket)

    @property
    def base_url(self) -> str:
        return f"http://{_HOST}:{self.port}/v1"

    def ensure_ready(self) -> None:
        """Start the server unless it runs, and block until it answers; a failed start is not repeated."""
        with self._lock:
            if self._failure is not None:
                raise ProviderError(self._failure.kind, str(self._failure), attempts=0)
            if self.process is None:
                try:
                    self._start()
                except ProviderError as error:
                    self._failure = error
                    self._end()
                    raise

    def exit_reason(self) -> ProviderError | None:
        """Return the error of a server that has ended; ``None`` while it runs."""
        if self.process is None or self.process.poll() is None:
            return None
        return self._died("stopped")

    def stop(self) -> None:
        self._stopped.set()
        with self._lock:
            self._end()

    def _start(self) -> None:
        with socket.socket() as probe:
            probe.bind((_HOST, 0))
            self.port = int(probe.getsockname()[1])
        serve = [sys.executable, "-P", "-m", "transformers.cli.transformers", "serve", self._model_id]
        own = () if "--dtype" in self._serving.args else precision(self._model_id)
        command = [*serve, "--host", _HOST, "--port", str(self.port), *own, *self._serving.args]
        # a new session keeps Ctrl+C away from the supervisor, which then can end the server in order
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(_SUPERVISOR), str(os.getpid()), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env=_environment(),
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.log.follow(self.process.stdout)
        self._wait_until_healthy(self.process)

    def _wait_until_healthy(self, process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + self._serving.start_timeout_s
        while not self._stopped.wait(_POLL_S):
            if process.poll() is not None:
                raise self._died("could not be started")
            if _healthy(self.port):
                return
            if time.monotonic() > deadline:
                words = self.log.last_words()
                last_output = f" (its last words: {words})" if words else ""
                raise ProviderError(
                    "timeout",
                    f"The local model {self.name} was not ready within {self._serving.start_timeout_s:g} "
                    f"seconds{last_output}; raise start_timeout_s in the models file if it is still loading.",
                    attempts=0,
                )
        raise ProviderError("cancelled", f"The start of the local model {self.name} was called off.", attempts=0)

    def _died(self, what: str) -> ProviderError:
        self.log.finish()
        words = self.log.last_words() or "it printed nothing"
        return ProviderError("server", f"The local model {self.name} {what} ({words}); {advice(words)}.", attempts=0)

    def _end(self) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self.log.finish()


def precision(model_id: str, *, cpu: Path = Path("/proc/cpuinfo"), devices: Path = Path("/dev")) -> Sequence[str]:
    """Return the server's arguments for a model's folder on this machine: float32 on a CPU without bfloat16.

    Without hardware support, bfloat16 reads a conversation at a sixth of the speed. There are no arguments if the
    model would fill more than a quarter of the memory, on a machine with an accelerator, or for a hub name.
    """
    if (
        not Path(model_id).is_dir()
        or not cpu.exists()
        or any(devices.glob("nvidia[0-9]*"))
        or (devices / "kfd").exists()
    ):
        return ()
    if re.search(r"\b(avx512_bf16|amx_bf16|bf16)\b", cpu.read_text(encoding="utf-8", errors="replace")):
        return ()
    size = 2 * sum(file.stat().st_size for file in Path(model_id).glob("*.safetensors"))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return ("--dtype", "float32") if 0 < size <= memory / 4 else ()


_servers: dict[tuple[str, LocalServing], LocalServer] = {}
_servers_lock = threading.Lock()


def acquire(spec: ModelSpec) -> LocalServer:
    """Return this process's server for a model; the caller must ``release`` it."""
    with _servers_lock:
        server = _servers.get((spec.model_id, spec.serving))
        if server is None:
            server = _servers[spec.model_id, spec.serving] = LocalServer(spec.name, spec.model_id, spec.serving)
        server.users += 1
        return server


def release(server: LocalServer) -> None:
    with _servers_lock:
        server.users -= 1
        last = server.users == 0
        for place in [key for key, value in _servers.items() if last and value is server]:
            del _servers[place]
    if last:
        server.stop()


@atexit.register
def _stop_all() -> None:
    for server in list(_servers.values()):
        server.stop()


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection(_HOST, port, timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _environment() -> dict[str, str]:
    """Return the environment for the child: without keys of other providers, and without telemetry."""
    inherited = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    quiet = {"HF_HUB_DISABLE_UPDATE_CHECK": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    plain = {"NO_COLOR": "1", "TYPER_STANDARD_TRACEBACK": "1", "PYTHONUNBUFFERED": "1"}
    return inherited | quiet | plain
