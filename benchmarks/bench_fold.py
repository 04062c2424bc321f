"""Journals into the database, and the pages' queries on it.

10,000 trials in ten journals are folded, each trial a conversation of the reference cast in the paper's eight arms,
with a call for every answer as a model would have made it. For comparison, the standard library parses the same lines
and throws them away. The queries are those of the Runs page, on this database and on one of 50,000 trials.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from common import SMOKE, medians_s, table

from core.case import Case
from core.datasets.library import library
from core.events import PASSING, Answered, Called, CallRecord, Event, new_id
from core.frameworks.base import Campaign, Trial
from core.frameworks.casting import CastNames
from core.frameworks.craftmd import PAPER_ARMS
from core.jobs.plan import header_of
from core.jobs.run import player_of
from core.journal import RunHeader, seed_of, trial_id
from core.measures.accuracy import accuracy
from core.models.registry import load_registry
from core.store.database import Store
from core.store.fold import fold, fold_if_free
from core.store.queries.runs import runs
from core.store.queries.trials import conversations
from core.store.selection import Selection

RUNS, CASES, TRIALS, COPIES = (2, 24, 1, 2) if SMOKE else (10, 200, 5, 5)
"""10 runs × 200 cases × 5 trials = 10,000 trials; the large database holds each of them five times."""
_CHILD_S = 120


def header(number: int, cases: tuple[Case, ...]) -> RunHeader:
    plan = Campaign(names=CastNames("reference/bayes"), cases=cases, arms=PAPER_ARMS, trials=TRIALS, seed=number)
    made = header_of(plan, load_registry(), now=1_700_000_000.0 + number)
    return made.model_copy(update={"doctor": f"openai/model-{number}"})


def many_cases() -> tuple[Case, ...]:
    """Return ``CASES`` copies of the library's cases under new keys."""
    library_cases = library()
    return tuple(
        library_cases[n % len(library_cases)].model_copy(update={"case_key": f"bench/{n}", "dataset": "bench"})
        for n in range(CASES)
    )


async def conversation(case: Case) -> list[dict[str, Any]]:
    """Return the events of one trial of the reference cast, with calls as a model would have made them."""
    plan = Campaign(names=CastNames("reference/bayes"), cases=(case,), arms=PAPER_ARMS)
    events: list[Event] = []
    async for event in player_of(plan, load_registry())(Trial("x", case, 0, 7, PAPER_ARMS)):
        if isinstance(event, Answered):
            events.append(call_for(event, case))
        if not isinstance(event, PASSING):
            events.append(event)
    return [event.model_dump(mode="json") for event in events]


def call_for(answer: Answered, case: Case) -> Called:
    sent = [{"role": "system", "content": case.vignette}, {"role": "user", "content": case.question}]
    record = CallRecord(call_id="?", role="doctor", purpose="answer", model="openai/model", request={"messages": sent})
    used = {"response": answer.response, "prompt_tokens": 300, "completion_tokens": 20, "cost_usd": 0.001}
    return Called(call=record.model_copy(update=used))


def write_journals(folder: Path) -> int:
    """Write the journals of all runs and return their size in bytes."""
    cases = many_cases()
    spoken = [asyncio.run(conversation(case)) for case in cases[:24]]
    size = 0
    for number in range(RUNS):
        first = header(number, cases)
        path = folder / first.run_id / "journal.jsonl"
        path.parent.mkdir(parents=True)
        with path.open("wb") as file:
            file.write(orjson.dumps(first.model_dump(mode="json")) + b"\n")
            for line in trial_lines(first, spoken):
                file.write(orjson.dumps(line) + b"\n")
        size += path.stat().st_size
    return size


def trial_lines(first: RunHeader, spoken: list[list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    for n, case in enumerate(first.cases):
        for trial in range(first.trials):
            events = spoken[n % len(spoken)]
            for event in events:
                if event["kind"] == "called":
                    event["call"]["call_id"] = new_id()
            yield {
                "type": "trial",
                "run_id": first.run_id,
                "trial_id": trial_id(first.run_id, case.case_key, trial),
                "case_key": case.case_key,
                "trial": trial,
                "seed": seed_of(first.seed, case.case_key, trial),
                "events": events,
                "finished_at": first.created_at + n,
            }


@dataclass(frozen=True)
class Spent:
    """What a child process took for its work: wall and CPU seconds, and the rise of its memory's peak in MB."""

    wall_s: float
    cpu_s: float
    rise_mb: float


def in_child(work: str, database: Path) -> Spent:
    command = [sys.executable, __file__, work, str(database)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_CHILD_S)
    return Spent(**json.loads(done.stdout))


def child(work: str, database: Path) -> None:
    store = Store(database)
    before, wall, cpu = _peak_mb(), time.perf_counter(), time.process_time()
    if work == "fold":
        report = fold(store)
        assert report.trials == RUNS * CASES * TRIALS, report
    else:
        for path in sorted(store.journals.glob("*/journal.jsonl")):
            with path.open("rb") as file:
                for line in file:
                    json.loads(line)
    spent = (time.perf_counter() - wall, time.process_time() - cpu, _peak_mb() - before)
    print(json.dumps(dict(zip(("wall_s", "cpu_s", "rise_mb"), spent, strict=True))))


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def multiply(store: Store) -> None:
    """Add copies of every run with what hangs on it under new ids, but for the streams, which no query reads here."""
    renamed = {"runs": ("run_id",), "run_cases": ("run_id",), "trials": ("run_id", "trial_id")}
    renamed |= {name: ("trial_id",) for name in ("utterances", "answers", "grades", "calls", "probes")}
    with store.write() as connection:
        for name, keys in renamed.items():
            connection.execute(f"CREATE TEMP TABLE first_{name} AS FROM {name}")
            for copy in range(1, COPIES):
                new = ", ".join(f"{key} || '-{copy}' AS {key}" for key in keys)
                new += ", '[]' AS events" if name == "trials" else ""
                connection.execute(f"INSERT INTO {name} BY NAME SELECT * REPLACE ({new}) FROM first_{name}")
            connection.execute(f"DROP TABLE first_{name}")


def queries(store: Store) -> dict[str, Callable[[], object]]:
    """Return the queries of the Runs page, each with its own lease as on the page."""
    with store.read() as cursor:
        run_id = runs(cursor)[0].run_id
    one_run = Selection(runs=[run_id])

    def listed() -> object:
        fold_if_free(store)
        with store.read() as cursor:
            return runs(cursor)

    def page(selection: Selection, number: int = 0) -> object:
        with store.read() as cursor:
            return conversations(cursor, selection, limit=50, offset=50 * number)

    return {
        "list of runs": listed,
        "accuracy of a run": lambda: accuracy(store, selection=one_run),
        "accuracy of a run by specialty": lambda: accuracy(store, "specialty", one_run),
        "first page of a run's conversations": lambda: page(Selection(runs=[run_id])),
        "tenth page of all conversations": lambda: page(Selection(), 9),
        "conversations that speak of fever": lambda: page(Selection(text="fever")),
        "accuracy of all models by specialty": lambda: accuracy(store, "specialty"),
    }


def show_fold(database: Path, size: int) -> None:
    plain, folded = in_child("json", database), in_child("fold", database)
    trials = RUNS * CASES * TRIALS
    table(
        f"{trials:,} trials, {size / 1e6:.0f} MB of journals",
        ("", "s", "CPU s", "trials/s", "MB/s", "memory + MB", "CPU / json"),
        [
            (
                name,
                f"{m.wall_s:.1f}",
                f"{m.cpu_s:.1f}",
                f"{trials / m.wall_s:,.0f}",
                f"{size / 1e6 / m.wall_s:.0f}",
                f"{m.rise_mb:.0f}",
                f"{m.cpu_s / plain.cpu_s:.1f}",
            )
            for name, m in (("json.loads alone", plain), ("fold into the database", folded))
        ],
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "bench.duckdb"
        store = Store(database)
        show_fold(database, write_journals(store.journals))
        small = {name: medians_s(query) for name, query in queries(store).items()}
        multiply(store)
        large = {name: medians_s(query) for name, query in queries(store).items()}
        table(
            "Queries, median of up to 20, ms",
            ("", f"{RUNS * CASES * TRIALS:,} trials", "CPU", f"{COPIES} × as many", "CPU", "CPU ratio"),
            [
                (name, *(f"{1000 * s:.0f}" for s in (*few, *large[name])), f"{large[name][1] / few[1]:.1f}")
                for name, few in small.items()
            ],
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(sys.argv[1], Path(sys.argv[2]))
    else:
        main()
