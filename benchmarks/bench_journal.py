"""A conversation's journal: bytes on disk, and memory and seconds of playing, folding, reading and showing it.

Doctor and patient are models of ``provider.py``, whose replies have 16 words; each call repeats the conversation before
it. A journal that stores every request grows with the square of the conversation, as the column ``requests`` does.
Every row is a separate process.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from common import provider, sized, table

from core.asking.memory import JournaledReplies
from core.datasets.library import library
from core.frameworks.base import Campaign
from core.frameworks.casting import CastNames
from core.frameworks.craftmd import CraftMdSettings
from core.jobs.engine import Options, run_trials
from core.jobs.plan import campaign_of, header_of, trials_of
from core.jobs.progress import Progress, Stop
from core.jobs.run import begin, player_of
from core.journal import ReplyLine, read_lines
from core.models.registry import load_registry
from core.models.settings import SHIPPED
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.trials import trial_events

CALLS = (23, sized(1_871, 201))
"""Calls of a conversation: of doctor and patient in turn, and the doctor's answer at the end."""


def play() -> None:
    asyncio.run(_play())


async def _play() -> None:
    names = CastNames("openai/doctor", "openai/patient", "reference/names", "reference/quotes")
    settings = CraftMdSettings(base_url=os.environ["BENCH_URL"], max_messages=5_000)
    plan = Campaign(
        names=names,
        cases=tuple(library()[:1]),
        case_set="bench",
        arms=(("multi_turn", "mcq"),),
        trials=1,
        settings=settings,
    )
    async with load_registry([SHIPPED]) as registry:
        header = header_of(plan, registry)
        begin(header)
        trials = trials_of(header)
        player = player_of(campaign_of(header), registry)
        await run_trials(header, player, trials, Progress(len(trials)), Stop(), options=Options(1))


def fold_it() -> None:
    Store().path.unlink(missing_ok=True)
    assert fold(Store()).trials == 1


def resume() -> None:
    (path,) = Store().journals.glob("*/journal.jsonl")
    assert JournaledReplies.of(path).replies > 0


def show() -> None:
    with Store().read() as cursor:
        ((trial_id,),) = cursor.execute("SELECT trial_id FROM trials").fetchall()
        assert trial_events(cursor, trial_id)


WORK: dict[str, Callable[[], None]] = {"play": play, "fold": fold_it, "resume": resume, "show": show}


def child(work: str) -> None:
    before, wall, cpu = _peak_mb(), time.perf_counter(), time.process_time()
    WORK[work]()
    print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, _peak_mb() - before]))


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def measured(calls: int) -> list[tuple[str, ...]]:
    with provider(0.0, (calls - 1) // 2 - 1) as url, tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "BENCH_URL": url, "ANAMNESIS_DB": str(Path(folder) / "bench.duckdb")}
        spent = []
        for work in WORK:
            command = [sys.executable, __file__, work]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
            spent.append((work, *json.loads(done.stdout)))
        (path,) = Path(folder).glob("*.journals/*/journal.jsonl")
        replies = [line.call for _, line in read_lines(path) if isinstance(line, ReplyLine)]
        requests = sum(len(json.dumps(call.request)) for call in replies)
        database = (Path(folder) / "bench.duckdb").stat().st_size
        words = sum(len(call.response or "") for call in replies)
        sizes = [f"{size / 1e3:,.0f}" for size in (words, requests, path.stat().st_size, database)]
        assert len(replies) == calls, len(replies)
    return [
        (name, *(sizes if n == 0 else [""] * len(sizes)), f"{wall:.1f}", f"{cpu:.1f}", f"{peak:.0f}")
        for n, (name, wall, cpu, peak) in enumerate(spent)
    ]


def main() -> None:
    heads = ("", "replies kB", "requests kB", "journal kB", "database kB", "s", "CPU s", "memory + MB")
    for calls in CALLS:
        table(f"A conversation of {calls:,} calls", heads, measured(calls))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(sys.argv[1])
    else:
        main()
