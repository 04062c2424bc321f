"""How long a page takes for 20 visitors at once, through the real server.

Each visitor is a websocket client that speaks Streamlit's protocol as a browser does: it opens a page, or follows a
link with filters in its address (which begins a session, as in a browser), or sets one of the filters that the page
shows; reads every message until the script has ended, thinks, and goes on. The clients run in this process; the server
is ``python -m core serve`` in its own, on ``--cores`` of the machine, and only its CPU time is counted.

By default the database is the sample study; ``--release`` takes the authors' release (or a part of it) from the folder
that ANAMNESIS_CRAFTMD_RELEASE names. ``--tree`` names checkouts to measure in turn, each ``--rounds`` times.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
from common import ROOT, SMOKE, authors_release, sized, table
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

LOOKS: tuple[tuple[str, dict[str, str]], ...] = (
    ("", {}),
    ("accuracy", {}),
    ("accuracy", {"rule": "Exactly one choice named"}),
    ("accuracy", {"acc_split": "Specialty"}),
    ("accuracy", {"acc_tab": "Endings and what-if"}),
    ("conversations", {}),
    ("conversations", {"conversations_words": "since when"}),
    ("conversations", {"trial": "?"}),
    ("compare", {}),
    ("compare", {"rule": "Exactly one choice named"}),
    ("failures", {}),
    ("quality", {}),
    ("quality", {"quality_part": "CARE"}),
    ("trust", {"trust": "Simulated patients"}),
    ("trust", {}),
    ("trust", {"trust": "Experts"}),
    ("trust", {"trust": "Memorisation"}),
    ("runs", {}),
    ("models", {}),
    ("cases", {}),
    ("debugger", {}),
    ("live", {}),
)
"""Pages with what their address holds, in the order of the navigation's groups; "?" is one of the stored trials."""
FILTERED = frozenset(("accuracy", "conversations", "compare", "failures", "quality", "trust"))
"""Pages of results, whose filters visitors set."""
FINISHED = ForwardMsg.ScriptFinishedStatus.FINISHED_SUCCESSFULLY
FAILED = ForwardMsg.ScriptFinishedStatus.FINISHED_WITH_COMPILE_ERROR
TIMEOUT_S = 120.0


@dataclass
class Measurement:
    """What the visitors saw, and what the server spent on it."""

    seconds: list[float] = field(default_factory=list)
    by_look: dict[str, list[float]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    received: int = 0
    """Bytes of all messages."""
    cpu_s: float = 0.0
    wall_s: float = 0.0

    def row(self, name: str) -> tuple[str, ...]:
        runs = len(self.seconds)
        cuts = statistics.quantiles(self.seconds, n=20) if runs > 1 else [0.0] * 19
        return (
            name,
            f"{runs}",
            f"{cuts[9]:.2f}",
            f"{cuts[18]:.2f}",
            f"{max(self.seconds, default=0.0):.2f}",
            f"{self.errors.total()}",
            f"{self.cpu_s / max(1, runs):.3f}",
            f"{self.cpu_s / self.wall_s:.2f}",
            f"{self.received / max(1, runs) / 1e3:.0f}",
        )


HEADS = ("", "page runs", "median s", "p95 s", "longest s", "errors", "CPU s a run", "cores busy", "kB a run")


@dataclass(frozen=True)
class Control:
    """A filter that a page shows; ``several`` says that some of its options are chosen, not one.

    Its choice stands in the address under ``name``.
    """

    widget_id: str
    name: str
    options: tuple[str, ...]
    several: bool


class Visitor:
    """One browser tab: its connection, and the messages that it keeps, so that the server need not send them again."""

    def __init__(self, address: str, trials: Sequence[str], measured: Measurement, chance: random.Random) -> None:
        self.connection: ClientConnection | None = None
        self.address = address
        self.trials = trials
        self.measured = measured
        self.chance = chance
        self.cached: dict[str, None] = {}
        self.page = ""
        self.query: dict[str, str] = {}
        self.controls: list[Control] = []

    async def look(self, page: str, query: dict[str, str]) -> None:
        """Open a page and wait until it is drawn; an address with filters is opened as a link from outside is."""
        self.page = page
        self.query = {name: self.chance.choice(self.trials) if value == "?" else value for name, value in query.items()}
        if query or self.connection is None:  # a running session reads its address on another page only
            await self.close()
            self.connection = await _connected(self.address)
            self.cached = {}
        await self._run(" ".join([page or "home", *query.values()]), self._message())

    async def change(self) -> bool:
        """Set one of the filters that the page shows to another of its options; say whether there is one."""
        if self.page not in FILTERED or not self.controls:
            return False
        control = self.chance.choice(self.controls)
        option = self.chance.choice(control.options)
        self.query = {**self.query, control.name: option}
        message = self._message()
        widget = message.rerun_script.widget_states.widgets.add(id=control.widget_id)
        if control.several:
            widget.string_array_value.data.append(option)
        else:
            widget.string_value = option
        await self._run(f"{self.page}, a filter changed", message)
        return True

    async def close(self) -> None:
        if self.connection is not None:
            await self.connection.close()

    def _message(self) -> BackMsg:
        message = BackMsg()
        state = message.rerun_script
        state.page_name = self.page
        state.query_string = urlencode(self.query)
        state.cached_message_hashes.extend(self.cached)
        state.context_info.timezone = "UTC"
        state.context_info.locale = "en"
        state.context_info.url = f"{self.address}/{self.page}"
        state.context_info.color_scheme = "light"
        return message

    async def _run(self, name: str, message: BackMsg) -> None:
        assert self.connection is not None
        begun = time.perf_counter()
        await self.connection.send(message.SerializeToString())
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._read_to_the_end(name)
        except TimeoutError:
            self.measured.errors[f"{name}: no end within {TIMEOUT_S:.0f} s"] += 1
        taken = time.perf_counter() - begun
        self.measured.seconds.append(taken)
        self.measured.by_look.setdefault(name, []).append(taken)

    async def _read_to_the_end(self, name: str) -> None:
        assert self.connection is not None
        received: list[str] = []
        self.controls = []
        while True:
            data = await self.connection.recv()
            assert isinstance(data, bytes)
            self.measured.received += len(data)
            message = ForwardMsg.FromString(data)
            kind = message.WhichOneof("type")
            if kind == "ref_hash":
                received.append(message.ref_hash)
            elif message.metadata.cacheable:
                received.append(message.hash)
            if kind == "delta":
                self._take(message.delta.new_element, name)
            elif kind == "page_not_found":
                self.measured.errors[f"{name}: no such page"] += 1
            elif kind == "script_finished" and message.script_finished in (FINISHED, FAILED):
                # a browser keeps what the last two runs used
                self.cached = dict.fromkeys([*received, *list(self.cached)[:200]])
                if message.script_finished == FAILED:
                    self.measured.errors[f"{name}: compile error"] += 1
                return

    def _take(self, element: Element, name: str) -> None:
        kind = element.WhichOneof("type")
        if kind == "exception":
            self.measured.errors[f"{name}: {element.exception.message[:120]}"] += 1
        elif kind in ("selectbox", "multiselect", "button_group"):
            widget = getattr(element, kind)
            options = tuple(getattr(option, "content", option) for option in widget.options)
            if widget.query_param_key and not widget.disabled and len(options) > 1:
                self.controls.append(Control(widget.id, widget.query_param_key, options, kind != "selectbox"))


async def visit(
    address: str, number: int, until: float, think_s: float, trials: Sequence[str], measured: Measurement
) -> None:
    """Walk through the pages as one visitor: each begins elsewhere.

    Of three looks one is at the next page of the list, one at any page, and one, on a page of results, after a filter
    was set there.
    """
    chance = random.Random(number)
    place = number * 7
    await asyncio.sleep(chance.uniform(0, think_s))
    visitor = Visitor(address, trials, measured, chance)
    try:
        while time.monotonic() < until:
            kind = chance.randrange(3)
            if kind or not await visitor.change():
                page, query = LOOKS[place % len(LOOKS)] if kind < 2 else chance.choice(LOOKS)
                place += 1
                await visitor.look(page, query)
            await asyncio.sleep(chance.expovariate(1 / think_s) if think_s else 0)
    finally:
        await visitor.close()


async def look_at_all(address: str, trials: Sequence[str], measured: Measurement) -> None:
    visitor = Visitor(address, trials, measured, random.Random(0))
    for page, query in LOOKS[:: sized(1, 6)]:
        await visitor.look(page, query)
    await visitor.close()


def _connected(address: str) -> connect:
    uri = f"{address.replace('http', 'ws', 1)}/_stcore/stream"
    return connect(uri, subprotocols=["streamlit"], max_size=None, origin=address, open_timeout=60)  # type: ignore[arg-type,list-item]


@contextmanager
def serving(tree: Path, database: Path, cores: int) -> Iterator[tuple[str, psutil.Process]]:
    """Serve a checkout's dashboard on the first ``cores`` of the machine; yield its address and process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    environment = {**os.environ, "ANAMNESIS_DB": str(database)}
    command = [sys.executable, "-m", "core", "serve", "--no-browser", "--port", str(port)]
    log = database.with_name("server.log")
    with log.open("wb") as out:
        server = subprocess.Popen(command, cwd=tree, env=environment, stdout=out, stderr=out)
        try:
            process = psutil.Process(server.pid)
            if hasattr(process, "cpu_affinity"):
                process.cpu_affinity(sorted(process.cpu_affinity())[:cores])
            deadline = time.monotonic() + 90
            while True:
                with suppress(OSError), urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):
                    break
                if server.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"The server did not start: {log.read_text()}")
                time.sleep(0.2)
            yield address, process
        finally:
            server.terminate()
            server.wait(20)


def cpu_s(process: psutil.Process) -> float:
    """Return the CPU seconds of a process and its children, living and waited for."""
    times = process.cpu_times()
    total: float = times.user + times.system + times.children_user + times.children_system
    for child in process.children(recursive=True):
        with suppress(psutil.Error):
            spent = child.cpu_times()
            total += spent.user + spent.system
    return total


@contextmanager
def measuring(process: psutil.Process) -> Iterator[Measurement]:
    measured, begun, before = Measurement(), time.perf_counter(), cpu_s(process)
    yield measured
    measured.wall_s, measured.cpu_s = time.perf_counter() - begun, cpu_s(process) - before


def build(database: Path, release: Path | None) -> list[str]:
    """Make the database, measure its conversations, and return some of its trials."""
    os.environ["ANAMNESIS_DB"] = str(database)
    from core.frameworks.craftmd.release import RELEASE
    from core.jobs.release.importing import import_release
    from core.measures.measuring import measure_trials
    from core.measures.registry import measures
    from core.store.database import Store
    from core.store.sample import add_sample

    store = Store()
    if release is None:
        add_sample(store)
    else:
        layout = RELEASE.find(release, str(release))
        import_release(store, layout, list(layout.models))
    if not SMOKE:
        measure_trials(store, measures().values())
    with store.read() as cursor:
        rows = cursor.execute("SELECT trial_id FROM trials ORDER BY hash(trial_id) LIMIT 12").fetchall()
    return [trial_id for (trial_id,) in rows]


async def crowd(address: str, options: argparse.Namespace, trials: Sequence[str], measured: Measurement) -> None:
    until = time.monotonic() + options.seconds
    visits = (visit(address, number, until, options.think, trials, measured) for number in range(options.visitors))
    await asyncio.gather(*visits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visitors", type=int, default=sized(20, 2))
    parser.add_argument("--seconds", type=float, default=sized(60, 3))
    parser.add_argument("--think", type=float, default=1.0, help="mean seconds between two looks of a visitor")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1, help="that the server may use")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--release", action="store_true", help="on the authors' release, not the sample study")
    parser.add_argument("--tree", type=Path, action="append", help="a checkout to measure; this one by default")
    parser.add_argument("--database", type=Path, help="where to keep the database, or one that was kept")
    parser.add_argument("--pages", action="store_true", help="say the median of each page as well")
    options = parser.parse_args()
    release = authors_release() if options.release else None
    if options.release and release is None:
        return
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        database = options.database or Path(folder) / "anamnesis.duckdb"
        trials = build(database, release) if not database.exists() else stored_trials(database)
        for number in range(options.rounds):
            for tree in options.tree or [ROOT]:
                with tempfile.TemporaryDirectory() as place:
                    copy = shutil.copy(database, place)
                    journals = database.with_name(f"{database.stem}.journals")
                    if journals.exists():
                        os.symlink(journals, Path(place) / journals.name)
                    with serving(tree.resolve(), Path(copy), options.cores) as (address, process):
                        name = f"{tree.name} {number + 1}" if options.tree else f"round {number + 1}"
                        rows += measured_rows(name, address, process, options, trials)
    cores = f"{options.cores} core{'s' * (options.cores > 1)}"
    how = f"thinking {options.think:g} s; load {os.getloadavg()[0]:.1f}"
    table(f"{options.visitors} visitors for {options.seconds:.0f} s on {cores}, {how}", HEADS, rows)


def measured_rows(
    name: str, address: str, process: psutil.Process, options: argparse.Namespace, trials: Sequence[str]
) -> list[tuple[str, ...]]:
    """Return the lines of a server that was just started: its first visitor alone, then all of them."""
    with measuring(process) as first:
        asyncio.run(look_at_all(address, trials, first))
    with measuring(process) as crowded:
        asyncio.run(crowd(address, options, trials, crowded))
    for error, times in (first.errors + crowded.errors).items():
        print(f"  {times} × {error}", file=sys.stderr)
    if options.pages:
        listed = sorted(crowded.by_look.items(), key=lambda item: -statistics.median(item[1]))
        pages = [
            (look, f"{len(taken)}", f"{statistics.median(taken):.2f}", f"{first.by_look.get(look, [0])[0]:.2f}")
            for look, taken in listed
        ]
        table(f"{name}: pages", ("", "runs", "median s", "first look s"), pages)
    memory = process.memory_info().rss / 1e6
    print(f"  {name}: the server's memory is {memory:,.0f} MB", file=sys.stderr)
    return [first.row(f"{name}, first look, alone"), crowded.row(f"{name}, all at once")]


def stored_trials(database: Path) -> list[str]:
    from core.store.database import Store

    with Store(database).read() as cursor:
        rows: list[Any] = cursor.execute("SELECT trial_id FROM trials ORDER BY hash(trial_id) LIMIT 12").fetchall()
    return [trial_id for (trial_id,) in rows]


if __name__ == "__main__":
    main()
