"""The fault laboratory (``make laboratory``): ``python -m tests.laboratory [--seeds 1 2 3] [--trials N] [--kills N]``.

Campaigns are played against a provider that fails by seed, on disks that become full, and with the runner, the
dashboard and the model server killed at random moments; then everything is counted, and printed as a Markdown table.
What is right of every case is known, so that a fault that counted as an answer is seen. It ends with status 1 where
anything was lost, doubled or counted wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import aiohttp
from streamlit.proto.BackMsg_pb2 import BackMsg

from core import paths
from core.case import Case
from core.errors import AnamnesisError
from core.events import COUNTED
from core.frameworks.base import Campaign
from core.frameworks.casting import CastNames
from core.frameworks.settings import FrameworkSettings
from core.jobs.begun import find_header, journals
from core.jobs.engine import Options
from core.jobs.plan import header_of
from core.jobs.run import begin, carry_out
from core.journal import ReplyLine, RunHeader, TrialLine, journal_path, read_header, read_lines
from core.live import start as live
from core.models.failures import RetryPolicy
from core.models.registry import Registry, load_registry
from core.store.database import Store
from core.store.upkeep import verify
from tests.support.places import fill_up
from tests.support.replies import Reply, content_filtered, failing, rate_limited

RIGHT, WRONG = "Podagra", "Bunion"
QUICK = RetryPolicy(attempts=8, base_s=0.05, cap_s=4.0, max_wait_s=20.0)
IN_THE_AIR = 8
"""How many trials run at once in a runner that is killed, and where the model server is killed."""
MODELS = "[providers.openai]\ntimeouts = { call_s = 60, first_piece_s = 20, stall_s = 3 }\n"
FAULTS: dict[str, Reply] = {
    "429": rate_limited(),
    "429 with Retry-After": rate_limited("0.05"),
    "500": failing(500),
    "503 with a page": Reply(status=503, error="<html>Bad gateway</html>"),
    "400": failing(400),
    "cut off": Reply("**Final Diagnosis:** Bunion", cut_after=2),
    "ends too early": Reply("**Final Diagnosis:** Bunion", end_after=2),
    "malformed": Reply("**Final Diagnosis:** Bunion", garbage_after=2),
    "error in the stream": Reply("**Final Diagnosis:** Bunion", error_after=2, error={"message": "overloaded"}),
    "stands still": Reply("**Final Diagnosis:** Bunion", stall_after=1),
    "empty": Reply(""),
    "blank": Reply(" \n "),
    "filtered request": content_filtered(),
    "filtered reply": Reply("**Final Diagnosis:** Bunion", finish_reason="content_filter"),
    "refusal": Reply("", refusal="I will not."),
}
"""What the provider does instead of answering; where it says anything, it is wrong."""


# the provider: another process (tests.support.fake_provider), which plays every seat


def right_of(number: int) -> str:
    """Return the verdict on the doctor's answers to a case: it is right about every second one."""
    return "correct" if number % 2 else "incorrect"


def _said(body: dict[str, Any]) -> str:
    texts, last = str(body["messages"]), str(body["messages"][-1]["content"])
    mark = re.search(r"K(\d+)", texts)
    answer = f"{RIGHT if mark and int(mark[1]) % 2 else WRONG} K{mark[1] if mark else 0}"
    if body["model"] == "grader":
        return answer if "doctor wrote" in last else "No" if WRONG in last else "Yes"
    if body["model"] == "patient":
        return f"My toe K{mark[1] if mark else 0} is hot."
    concludes = "Final Diagnosis:** or" in last or len(body["messages"]) > 5 or "case" in last.lower()
    return f"**Final Diagnosis:** {answer}" if concludes else "Does it hurt?"


_asked: Counter[str] = Counter()


def script(body: dict[str, Any]) -> Reply:
    """Answer, or fail as often as ``LABORATORY_RATE`` says: the same for the same seed, question and time of asking."""
    key = hashlib.sha256(json.dumps([body["model"], body["messages"]]).encode()).hexdigest()[:20]
    rng = random.Random(f"{os.environ['LABORATORY_SEED']} {key} {_asked[key]}")
    _asked[key] += 1
    fault = rng.choice(list(FAULTS)) if rng.random() < float(os.environ["LABORATORY_RATE"]) else ""
    with open(os.environ["LABORATORY_LOG"], "a", encoding="utf-8") as log:
        log.write(f"{fault}\n")
    return FAULTS[fault] if fault else Reply(_said(body), delay_s=float(os.environ["LABORATORY_DELAY"]))


# the laboratory


@dataclass
class Row:
    """What was done, and what came of it."""

    what: str
    seed: int
    kills: int = 0
    trials: int = 0
    requests: int = 0
    faults: int = 0
    excluded: int = 0
    """Answers left out because a fault took their verdict; each has its reason."""
    lost: int = 0
    """Trials that are not there, or not in the database."""
    doubled: int = 0
    """Replies that stand in a journal twice, and trials that do."""
    again: int = 0
    """Replies that the provider sent and that no journal has: not received before a kill, or the disk was full."""
    wrong: int = 0
    """Verdicts that are not what the doctor's answer deserves."""
    findings: int = 0
    most_again: int = IN_THE_AIR
    """Most replies that may be sent and not yet received at one kill; 0 if only the disk is full."""
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not (
            self.lost or self.doubled or self.wrong or self.findings or self.again > self.kills * self.most_again
        )


class Bench:
    """A new folder with a database, and a provider for it alone."""

    def __init__(self, folder: Path, seed: int, rate: float, delay_s: float = 0.0, data: Path | None = None) -> None:
        self.folder, self.rng, self.log = folder, random.Random(seed), folder / "asked.log"
        self.log.touch()
        (folder / "models.toml").write_text(MODELS)
        given = {"SEED": seed, "RATE": rate, "DELAY": delay_s, "LOG": self.log}
        self.environment = {
            **os.environ,
            **{f"LABORATORY_{name}": str(value) for name, value in given.items()},
            "ANAMNESIS_DB": str((data or folder) / "data" / "anamnesis.duckdb"),
            "ANAMNESIS_MODELS": str(folder / "models.toml"),
        }
        self.port = free_port()
        self.serve()

    def serve(self) -> None:
        """Start the provider, again where it was killed."""
        self.provider = self.child(
            "tests.support.fake_provider", "--port", self.port, "--script", "tests.laboratory:script"
        )
        assert self.provider.stdout is not None
        assert self.provider.stdout.readline(), "the provider did not start"

    def child(self, module: str, *arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            cwd=paths.ROOT,
            env=self.environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=(self.folder / "errors.log").open("a"),
        )

    def runner(self, header: RunHeader) -> subprocess.Popen[str]:
        return self.child("tests.laboratory", "--carry-out", header.run_id)

    def campaign(self, first: int, trials: int) -> Campaign:
        """Return a campaign of one trial of each of ``trials`` cases, numbered from ``first``."""
        cases = [
            Case(
                case_key=f"laboratory/{n}",
                dataset="laboratory",
                specialty="Rheumatology",
                vignette=f"A 40-year-old man, K{n}, has had a hot, swollen big toe since last night.",
                choices=(RIGHT, WRONG, "Cellulitis", "Fracture"),
                answer=RIGHT,
            )
            for n in range(first, first + trials)
        ]
        return Campaign(
            CastNames("openai/doctor", "openai/patient", "openai/grader", "openai/patient"),
            tuple(cases),
            case_set=f"laboratory-{first}",
            arms=(("vignette", "mcq"), ("multi_turn", "frq")),
            trials=1,
            settings=FrameworkSettings(base_url=f"http://127.0.0.1:{self.port}/v1"),
        )

    def begun(self, first: int, trials: int) -> RunHeader:
        """Begin such a campaign without carrying it out."""
        header = header_of(self.campaign(first, trials), registry())
        begin(header)
        return header

    def counted(self, row: Row, trials: int) -> Row:
        """Fill ``row`` with the counts of journals and database, of ``trials`` planned trials."""
        requests_seen = self.log.read_text().splitlines()
        row.trials, row.requests, row.faults = trials, len(requests_seen), sum(map(bool, requests_seen))
        done, replies = Counter[str](), Counter[tuple[str, str, int]]()
        for path in journals():
            for _, line in read_lines(path):
                if isinstance(line, TrialLine):
                    done[line.trial_id] += 1
                elif isinstance(line, ReplyLine) and line.call.error is None:
                    replies[line.unit, line.key, line.number] += 1
        row.doubled = done.total() - len(done) + replies.total() - len(replies)
        row.again = row.requests - row.faults - replies.total()
        verified = verify(Store())
        row.lost = trials - min(len(done), verified.trials)
        row.findings = len(verified.findings)
        row.notes += [f"{finding.kind} {finding.where} {finding.words}" for finding in verified.findings]
        with Store().read() as cursor:
            sql = "SELECT case_key, verdict FROM grades JOIN trials USING (trial_id)"
            for case_key, verdict in cursor.execute(sql).fetchall():
                if verdict not in COUNTED:
                    row.excluded += 1
                elif verdict != right_of(int(case_key.partition("/")[2])):
                    row.wrong += 1
                    row.notes.append(f"{case_key} counts as {verdict}")
            sql = "SELECT count(*) FROM answers WHERE status <> 'answered'"
            row.excluded += cursor.execute(sql).fetchall()[0][0]
        return row


@contextlib.contextmanager
def bench(seed: int, rate: float, delay_s: float = 0.0, data: Path | None = None) -> Iterator[Bench]:
    """Lend a bench of one's own, with this process turned to its database, which lies in ``data``."""
    with tempfile.TemporaryDirectory() as name:
        made = Bench(Path(name), seed, rate, delay_s, data)
        try:
            with mock.patch.dict(os.environ, made.environment, clear=True):
                yield made
        finally:
            made.provider.kill()
            made.provider.communicate()


def registry() -> Registry:
    """Return the models, asked again after a fault sooner than elsewhere."""
    return load_registry(retry=QUICK)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def finish(header: RunHeader, concurrency: int = 32) -> None:
    """Carry a run out here to its end, also where it gives up on a provider that is down for long."""
    while carry_out(header, registry(), Options(concurrency)).stopped:
        time.sleep(0.5)


def kill(child: subprocess.Popen[str]) -> bool:
    """Kill a process by signal 9; return whether it was still alive."""
    lived = child.poll() is None
    child.kill()
    child.communicate()
    return lived


def faulty(seed: int, trials: int, kills: int) -> Row:
    with bench(seed, 0.2) as made:
        finish(made.begun(1, trials), 64)
        return made.counted(Row("a fifth of all requests fail", seed), trials)


def runner_killed(seed: int, trials: int, kills: int) -> Row:
    """The runner is killed while it works, and another takes the run up."""
    row = Row("and the runner is killed", seed)
    with bench(seed, 0.2, 0.1) as made:
        header = made.begun(1, trials)
        while row.kills < kills:
            size = made.log.stat().st_size
            child = made.runner(header)
            while made.log.stat().st_size == size and child.poll() is None:  # until it has asked for something
                time.sleep(0.01)
            time.sleep(made.rng.uniform(0, 0.6))
            if not kill(child):
                row.notes.append(f"it was done after {row.kills} kills: ask for more trials")
                break
            row.kills += 1
        finish(header)
        return made.counted(row, trials)


def dashboard_killed(seed: int, trials: int, kills: int) -> Row:
    """The dashboard is killed while it plays a consultation, shows pages, and a run goes on in the same database."""
    row = Row("and the dashboard is killed", seed)
    with bench(seed, 0.2, 0.1) as made:
        header = made.begun(kills + 1, trials)
        runner = made.runner(header)
        for number in range(1, kills + 1):
            port = free_port()
            size = made.log.stat().st_size
            child = made.child("tests.laboratory", "--dashboard", number, "--port", port, "--provider", made.port)
            asyncio.run(_look(port, made.rng.uniform(0, 2.0), lambda child=child: child.poll() is None))  # type: ignore[misc]
            row.kills += kill(child)
            assert made.log.stat().st_size > size or runner.poll() is not None
        runner.communicate()
        finish(header)
        return made.counted(row, trials + _watched_to_their_end())


def _unfinished() -> list[RunHeader]:
    begun = [read_header(path) for path in journals() if path.parent.name.startswith("live-")]
    return [
        header
        for header in begun
        if not any(isinstance(line, TrialLine) for _, line in read_lines(journal_path(header.run_id)))
    ]


def _watched_to_their_end() -> int:
    """Go on with what was watched; return how many there are, without those that were killed before any reply."""
    with mock.patch.object(live, "load_registry", registry):
        for header in _unfinished():
            live.resume_consultation(header).join()
    return sum(path.parent.name.startswith("live-") for path in journals())


async def _look(port: int, seconds: float, lives: Callable[[], bool]) -> None:
    """Open the page of runs as a browser does, as soon as it is served, and stay for a while."""
    async with aiohttp.ClientSession() as session:
        while lives():
            with contextlib.suppress(aiohttp.ClientError):
                async with session.ws_connect(f"http://127.0.0.1:{port}/_stcore/stream") as socket_:
                    message = BackMsg()
                    message.rerun_script.page_name = "runs"
                    await socket_.send_bytes(message.SerializeToString())
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(seconds):
                            async for _ in socket_:
                                pass
                    return
            await asyncio.sleep(0.05)


def dashboard(number: int, port: int, provider: int) -> None:
    """Be a dashboard that plays a consultation, and goes on with those that were broken off."""
    from pages.kit import server

    made = mock.Mock(port=provider)
    with mock.patch.object(live, "load_registry", registry):
        for header in _unfinished():
            live.resume_consultation(header)
        live.start_consultation(Bench.campaign(made, number, 1))
    server.main(f"--server.port={port}", "--server.address=127.0.0.1", "--server.headless=true")


def server_killed(seed: int, trials: int, kills: int) -> Row:
    """The model server is killed while a run asks it, and starts again."""
    row = Row("and the model server is killed", seed)
    with bench(seed, 0.2, 0.1) as made:
        header, over = made.begun(1, trials), threading.Event()

        def kill_now_and_then() -> None:
            while row.kills < kills and not over.wait(made.rng.uniform(0, 1.0)):
                row.kills += kill(made.provider)
                made.serve()

        killer = threading.Thread(target=kill_now_and_then)
        killer.start()
        finish(header, IN_THE_AIR)
        over.set()
        killer.join()
        return made.counted(row, trials)


def disk_full(seed: int, trials: int, kills: int) -> Row:
    """The disk becomes full again and again, and somebody makes room."""
    row = Row("and the disk becomes full", seed, most_again=0)
    with tempfile.TemporaryDirectory() as name:
        mount = ["mount", "-t", "tmpfs", "-o", "size=256m", "none", name]
        if subprocess.run(mount, capture_output=True).returncode:
            row.notes.append("no disk can be mounted here")
            return row
        try:
            with bench(seed, 0.2, data=Path(name)) as made:
                header = made.begun(1, trials)
                while row.kills < kills:
                    ballast = fill_up(Path(name), leave=4_020_000 + made.rng.randrange(150_000))
                    stopped: str | None = "make room"
                    with contextlib.suppress(AnamnesisError):  # where there is not even room to begin
                        stopped = carry_out(header, registry(), Options(32)).stopped
                    ballast.unlink()
                    if stopped is None:
                        break
                    row.kills += 1
                    row.notes += [] if "make room" in stopped else [f"it stopped otherwise: {stopped}"]
                finish(header)
                return made.counted(row, trials)
        finally:
            subprocess.run(["umount", "-l", name], check=True)


def crowded(seed: int, trials: int, kills: int) -> Row:
    with bench(seed, 0.2) as made:
        headers = [made.begun(1 + n * trials, trials) for n in range(3)]
        runners = [made.runner(header) for header in headers]
        served = []
        for number in range(2):
            port = free_port()
            child = made.child(
                "tests.laboratory", "--dashboard", 3 * trials + 1 + number, "--port", port, "--provider", made.port
            )
            served.append((child, port))

        async def look() -> None:
            while any(runner.poll() is None for runner in runners):
                await asyncio.gather(*(_look(port, 1.0, lambda c=child: c.poll() is None) for child, port in served))  # type: ignore[misc]

        asyncio.run(look())
        time.sleep(5)  # for what is watched to end
        row = Row("three campaigns and two dashboards on one database", seed)
        row.notes += [f"a process ended with status {runner.wait()}" for runner in runners if runner.wait()]
        for child, _ in served:
            kill(child)
        return made.counted(row, 3 * trials + _watched_to_their_end())


HEADS = {
    "what happens": "what",
    "seed": "seed",
    "trials": "trials",
    "requests": "requests",
    "faults": "faults",
    "times": "kills",
    "lost": "lost",
    "doubled": "doubled",
    "counted wrong": "wrong",
    "left out, with a reason": "excluded",
    "not kept, asked again": "again",
    "`verify` finds": "findings",
    "seconds": "seconds",
}


def laboratory(seeds: Sequence[int], trials: int, kills: int, only: str = "") -> list[Row]:
    """Run every experiment, print each row when it is done, and return the rows."""
    small = max(trials // 5, 1)
    experiments = [
        *((faulty, seed, trials) for seed in seeds),
        *((kind, seeds[0], small) for kind in (runner_killed, dashboard_killed, server_killed, disk_full, crowded)),
    ]
    print("|".join(["", *HEADS, ""]), "|".join(["", *["---"] * len(HEADS), ""]), sep="\n", flush=True)
    rows = []
    for experiment, seed, size in experiments:
        if only in experiment.__name__:
            began = time.monotonic()
            rows.append(row := experiment(seed, size, kills))
            row.seconds = time.monotonic() - began
            cells = (getattr(row, name) for name in HEADS.values())
            words = (f"{cell:,.0f}" if isinstance(cell, int | float) else cell for cell in cells)
            print("| " + " | ".join(words) + " |", flush=True)
            for note in row.notes:
                print(f"{row.what}, seed {row.seed}: {note}", file=sys.stderr)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.laboratory", description="Faults, kills and full disks.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--trials", type=int, default=1000, help="with a faulty provider; a fifth of them elsewhere")
    parser.add_argument("--kills", type=int, default=20, help="of each process")
    parser.add_argument("--only", default="", help="experiments with this in their name")
    for hidden in ("--carry-out", "--dashboard", "--port", "--provider"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.carry_out:
        finish(find_header(chosen.carry_out), IN_THE_AIR)
        return 0
    if chosen.dashboard:
        dashboard(int(chosen.dashboard), int(chosen.port), int(chosen.provider))
        return 0
    return 0 if all(row.sound for row in laboratory(chosen.seeds, chosen.trials, chosen.kills, chosen.only)) else 1


if __name__ == "__main__":
    sys.exit(main())
