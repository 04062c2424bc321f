"""The reference cast: trials a second, and where the time of a campaign goes.

Two campaigns over the library with different seeds: the first begins with empty caches, the second has read most
phrases before. For comparison, the same trials without engine, journal and database. Each part is charged with its own
time only, not with that of the parts it calls.
"""

from __future__ import annotations

import asyncio
import functools
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common import sized, table

from core.agents.reference import doctor as reference_doctor
from core.agents.reference import grader as reference_grader
from core.agents.reference.doctor import ReferenceDoctor
from core.agents.reference.patient import ReferencePatient
from core.datasets.library import library
from core.frameworks import answering as grading
from core.frameworks.base import Campaign, Trial
from core.frameworks.casting import CastNames
from core.frameworks.craftmd import PAPER_ARMS
from core.jobs.engine import Options, run_trials
from core.jobs.plan import header_of, trials_of
from core.jobs.progress import Progress, Stop
from core.jobs.run import Play, begin, player_of
from core.journal import JournalWriter
from core.models.registry import load_registry
from core.text.findings import Recogniser

TRIALS = 2
_REST = "protocol, events, engine"
_PARTS: dict[str, tuple[tuple[object, str], ...]] = {
    "recogniser": ((Recogniser, "_read"),),
    "posterior": ((reference_doctor, "log_weights"),),
    "doctor, the rest": ((ReferenceDoctor, "_next_message"), (ReferenceDoctor, "differential")),
    "patient": ((ReferencePatient, "_reply"),),
    "grading": (
        (reference_grader, "extract_by_rule"), (reference_grader, "names_answer"), (grading, "judge_loose"),
        (grading, "judge_strict"),
    ),
    "journal: lines": ((JournalWriter, "append_all"),),
    "journal: sync to disk": ((os, "fsync"),),
}  # fmt: skip


@dataclass
class Clock:
    """Charges the time that passes to the part that is on top of the stack."""

    spent: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    stack: list[str] = field(default_factory=lambda: [_REST])
    since: float = field(default_factory=time.perf_counter)

    def start(self) -> None:
        self.spent, self.since = defaultdict(float), time.perf_counter()

    def charge(self) -> None:
        """Add the time since the last charge to the innermost part."""
        now = time.perf_counter()
        self.spent[self.stack[-1]] += now - self.since
        self.since = now

    def watch(self, owner: object, name: str, part: str) -> None:
        """Replace a function by one that charges its time to ``part``."""
        work: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(work)
        def watched(*arguments: Any, **keywords: Any) -> Any:
            self.charge()
            self.stack.append(part)
            try:
                return work(*arguments, **keywords)
            finally:
                self.charge()
                self.stack.pop()

        setattr(owner, name, watched)


async def whole(plan: Campaign, play: Play) -> int:
    """Run the campaign as `python -m core run` does, but for the database."""
    header = header_of(plan, load_registry())
    begin(header)
    missing = trials_of(header)
    progress = await run_trials(header, play, missing, Progress(len(missing)), Stop(), options=Options(32))
    return progress.done


async def alone(plan: Campaign, play: Play) -> int:
    trials = trials_of(header_of(plan, load_registry()))
    for trial in trials:
        await _forget(trial, play)
    return len(trials)


async def _forget(trial: Trial, play: Play) -> None:
    async for _ in play(trial):
        pass


def campaign(seed: int) -> Campaign:
    names = CastNames("reference/bayes")
    return Campaign(names=names, cases=library()[: sized(60, 6)], arms=PAPER_ARMS, trials=TRIALS, seed=seed)


def main() -> None:
    clock = Clock()
    for part, functions in _PARTS.items():
        for owner, name in functions:
            clock.watch(owner, name, part)
    start = time.perf_counter()
    play = player_of(campaign(0), load_registry())
    library()
    opened_s = time.perf_counter() - start
    rows: list[tuple[str, float, float, int]] = []
    spent: list[dict[str, float]] = []
    columns = (("campaign, caches empty", whole), ("campaign, caches full", whole), ("trials alone", alone))
    for seed, (label, run) in enumerate(columns):
        plan = campaign(seed)
        clock.start()
        wall, cpu = time.perf_counter(), time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            os.environ["ANAMNESIS_DB"] = str(Path(folder) / "bench.duckdb")
            count = asyncio.run(run(plan, play))
        rows.append((label, time.perf_counter() - wall, time.process_time() - cpu, count))
        clock.charge()
        spent.append(clock.spent)
    show(rows, spent, opened_s)


def show(rows: Sequence[tuple[str, float, float, int]], spent: Sequence[dict[str, float]], opened_s: float) -> None:
    best = rows[-1][2] / rows[-1][3]
    table(
        f"{rows[0][3]} trials of the paper's eight arms (after {opened_s:.1f} s to read the knowledge and the cases)",
        ("", "trials/s", "CPU ms a trial", "CPU / alone"),
        [(name, f"{n / wall:.0f}", f"{1000 * cpu / n:.1f}", f"{cpu / n / best:.2f}") for name, wall, cpu, n in rows],
    )
    totals = [sum(part.values()) for part in spent]
    table(
        "Share of the wall time",
        ("", *(name for name, *_ in rows)),
        [
            (part, *(f"{own[part] / total:.0%}" for own, total in zip(spent, totals, strict=True)))
            for part in (*_PARTS, _REST)
        ],
    )


if __name__ == "__main__":
    main()
