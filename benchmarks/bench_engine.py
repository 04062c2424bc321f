"""A campaign's calls under load, as a share of the ideal (calls × latency / in flight), compared with a bare client's.

The provider is a separate process that answers after a fixed time, 16 words in 16 events. All rows keep the same number
of calls in flight; the bare client and the model layer send the same messages, the campaign its own messages.

With ``--long``, about six minutes: a thousand conversations of ten turns, compared with a pool of processes that each
play one conversation after the other, both timed by the provider from the first call to the last; and a provider that
refuses (429) more than sixty requests in flight, with fixed concurrencies and with the automatic one.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import SMOKE, provider, sized, table
from openai import AsyncOpenAI, DefaultAioHttpClient, OpenAI

from core.datasets.library import library
from core.frameworks.base import Campaign, default_pack
from core.frameworks.casting import CastNames
from core.frameworks.craftmd import CraftMdSettings
from core.jobs.engine import Options, run_trials
from core.jobs.plan import campaign_of, header_of, trials_of
from core.jobs.progress import Progress, Stop
from core.jobs.run import begin, player_of
from core.models.base import Completion, Message, Sampling
from core.models.registry import load_registry
from core.models.settings import SHIPPED
from core.store.database import Store
from core.store.fold import fold_if_free, following

CALLS_A_TRIAL = 5
"""The patient and the doctor speak twice each (provider.py), then the doctor answers one multiple choice."""
LOADS = ((0.01, 16, 80),) if SMOKE else ((0.2, 64, 640), (1.0, 128, 640))
"""Latency in seconds, calls in flight, calls in all."""
TURNS = 10
POOL = 7
_NAMES = CastNames("openai/doctor", "openai/patient", "reference/names", "reference/quotes")


@dataclass(frozen=True)
class Measured:
    """Wall seconds and CPU seconds of ``calls`` calls."""

    wall_s: float
    cpu_s: float
    calls: int


async def measured(work: Awaitable[int]) -> Measured:
    wall, cpu = time.perf_counter(), time.process_time()
    calls = await work
    return Measured(time.perf_counter() - wall, time.process_time() - cpu, calls)


async def make_calls(request: Callable[[], Awaitable[object]], in_flight: int, calls: int) -> int:
    """Make ``calls`` calls with ``in_flight`` workers; each worker makes one call after the other."""

    async def work(tickets: Iterator[int]) -> None:
        for _ in tickets:
            await request()

    tickets = iter(range(calls))
    await asyncio.gather(*(work(tickets) for _ in range(in_flight)))
    return calls


Show = Callable[[Progress], None]


def messages() -> list[Message]:
    """Return the messages of a doctor's request in the middle of a conversation."""
    return [
        {"role": "system", "content": default_pack().render("doctor", specialty="Dermatology")},
        {"role": "assistant", "content": "Hello, what symptoms bring you in today?"},
        {"role": "user", "content": "It began about two weeks ago, and it has been getting worse every day since."},
    ]


@asynccontextmanager
async def bare_client(url: str) -> AsyncIterator[AsyncOpenAI]:
    transport = DefaultAioHttpClient(trust_env=False)
    async with AsyncOpenAI(base_url=url, api_key="none", http_client=transport, max_retries=0) as client:
        yield client


async def bare(url: str, in_flight: int, calls: int) -> Measured:
    sent = messages()
    async with bare_client(url) as client:
        create: Any = client.chat.completions.create
        streamed = {"stream": True, "stream_options": {"include_usage": True}}

        async def one() -> str:
            stream = await create(model="doctor", messages=sent, **streamed)
            return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])

        return await measured(make_calls(one, in_flight, calls))


async def unstreamed(url: str, in_flight: int, calls: int) -> Measured:
    sent = messages()
    async with bare_client(url) as client:
        create: Any = client.chat.completions.create
        return await measured(make_calls(lambda: create(model="doctor", messages=sent), in_flight, calls))


async def layer(url: str, in_flight: int, calls: int) -> Measured:
    sent = messages()
    async with load_registry([SHIPPED]) as registry:
        model = registry.open("openai/doctor", base_url=url)

        async def one() -> None:
            async for item in model.stream(sent, Sampling()):
                if isinstance(item, Completion):
                    assert item.attempts == 1

        return await measured(make_calls(one, in_flight, calls))


async def campaign(
    url: str, in_flight: int | None, calls: int, a_trial: int = CALLS_A_TRIAL, show: Show = lambda progress: None
) -> Measured:
    """Run a whole campaign: protocol, events, journal, and the database."""
    store, trials = Store(), calls // a_trial
    plan = Campaign(
        names=_NAMES,
        cases=tuple(library()[:16]),
        case_set="bench",
        arms=(("multi_turn", "mcq"),),
        trials=trials // 16,
        settings=CraftMdSettings(base_url=url),
    )

    async with load_registry([SHIPPED]) as registry:
        header = header_of(plan, registry)
        begin(header)
        fold_if_free(store)  # as the command line does before it starts
        missing = trials_of(header)
        play = player_of(campaign_of(header), registry)
        async with following(store) as follow:
            options = Options(in_flight, on_progress=show)
            run = run_trials(header, play, missing, Progress(len(missing)), Stop(), options=options, fold=follow)
            return await measured(_calls_of(run))


async def _calls_of(run: Awaitable[Progress]) -> int:
    return (await run).calls


Row = tuple[str, Callable[[str, int, int], Awaitable[Measured]]]
ROWS: tuple[Row, ...] = (
    ("bare client, streaming", bare),
    ("bare client, whole replies", unstreamed),
    ("model layer", layer),
    ("campaign", campaign),
)


def played(url: str) -> None:
    """Play one conversation call after call, as scripts of the field do."""
    dialogue = [dict(message) for message in messages()]
    with OpenAI(base_url=url, api_key="none") as client:
        for turn in range(2 * TURNS + 1):
            create: Any = client.chat.completions.create
            reply = create(model="patient" if turn % 2 else "doctor", messages=dialogue).choices[0].message.content
            dialogue.append({"role": "user" if turn % 2 else "assistant", "content": reply})


def seen(url: str) -> float:
    """Return the provider's answers per second, from the first request to the last answer."""
    with urllib.request.urlopen(f"{url}/seen") as reply:
        calls, seconds = json.load(reply)
    return float(calls / seconds)


def conversations(latency_s: float) -> None:
    in_flight, trials = sized(128, 16), sized(1_024, 16)
    calls, memory_mb = trials * (2 * TURNS + 1), dict[int, float]()

    def read_memory(progress: Progress) -> None:
        pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
        memory_mb.setdefault(progress.done, pages * os.sysconf("SC_PAGE_SIZE") / 1e6)

    with provider(latency_s, TURNS - 1) as url, ProcessPoolExecutor(POOL) as processes:
        list(processes.map(played, [url] * POOL))
        pool_rate = seen(url)
    with provider(latency_s, TURNS - 1) as url:
        measurement = in_a_database(campaign(url, in_flight, calls, 2 * TURNS + 1, read_memory))
        rate = seen(url)
    warm = min(done for done in memory_mb if done >= trials // 10)
    table(
        f"{trials:,} conversations of {TURNS} turns, {measurement.calls:,} calls, answers after {latency_s:g} s",
        ("", "of the ideal", "calls/s", "times the pool", "CPU ms a call", f"memory + MB from trial {warm}"),
        [
            (f"a pool of {POOL} processes", f"{pool_rate * latency_s / POOL:.0%}", f"{pool_rate:.1f}", "1.0", "", ""),
            (
                f"campaign, {in_flight} in flight",
                f"{rate * latency_s / in_flight:.0%}",
                f"{rate:.1f}",
                f"{rate / pool_rate:.1f}",
                f"{1000 * measurement.cpu_s / measurement.calls:.1f}",
                f"{memory_mb[max(memory_mb)] - memory_mb[warm]:.0f}",
            ),
        ],
    )


def refusals(latency_s: float) -> None:
    most, calls = sized(60, 15), sized(2_400, 160)
    rates = []
    for fixed in (most // 2, most, 2 * most, None):
        with provider(latency_s, most=most) as url:
            measurement = in_a_database(campaign(url, fixed, calls))
        rates.append((f"{fixed} at once" if fixed else "automatic", measurement.calls / measurement.wall_s))
    best = max(rate for name, rate in rates[:-1])
    table(
        f"{calls:,} calls, answers after {latency_s:g} s, refused (429) above {most} in flight",
        ("", "calls/s", "of the best fixed"),
        [(name, f"{rate:.1f}", f"{rate / best:.0%}") for name, rate in rates],
    )


def in_a_database(work: Awaitable[Measured]) -> Measured:
    """Do the work with a new database, in at most 600 seconds."""

    async def bounded() -> Measured:
        async with asyncio.timeout(600):
            return await work

    with tempfile.TemporaryDirectory() as folder:
        os.environ["ANAMNESIS_DB"] = str(Path(folder) / "bench.duckdb")
        return asyncio.run(bounded())


def main() -> None:
    gc.freeze()  # as the command line does: otherwise a fifth of the CPU goes into searching modules for garbage
    if SMOKE or "--long" in sys.argv:
        conversations(0.01 if SMOKE else 1.0)
        refusals(0.01 if SMOKE else 1.0)
    if "--long" in sys.argv:
        return
    for latency_s, in_flight, calls in LOADS:
        ideal_s = calls * latency_s / in_flight
        rows = []
        with provider(latency_s) as url:
            for name, work in ROWS:
                rows.append((name, in_a_database(work(url, in_flight, calls))))
        first = rows[0][1]
        table(
            f"{calls} calls, answers after {latency_s:g} s, {in_flight} in flight",
            ("", "of the ideal", "calls/s", "CPU ms a call", "CPU / bare"),
            [
                (
                    name,
                    f"{ideal_s / m.wall_s:.0%}",
                    f"{m.calls / m.wall_s:.0f}",
                    f"{1000 * m.cpu_s / m.calls:.1f}",
                    f"{m.cpu_s / first.cpu_s:.2f}",
                )
                for name, m in rows
            ],
        )


if __name__ == "__main__":
    main()
