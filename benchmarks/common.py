"""Shared by the benchmarks: the import path of ``core``, tables, and a model provider in a separate process."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
SMOKE = os.environ.get("ANAMNESIS_BENCH_SMOKE") == "1"
"""Whether only to check that a benchmark runs: ``sized`` returns the smaller number, and work is timed once."""


def authors_release(part: str = "") -> Path | None:
    """Return the folder of the CRAFT-MD authors' release, or a file in it; without it, print so and return ``None``."""
    folder = os.environ.get("ANAMNESIS_CRAFTMD_RELEASE")
    if folder and (path := Path(folder) / part).exists():
        return path
    print("Skipped: ANAMNESIS_CRAFTMD_RELEASE names no folder with the CRAFT-MD authors' release.")
    return None


def sized(full: int, smoke: int) -> int:
    return smoke if SMOKE else full


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their heads; the first column is aligned left, the others right."""
    lines = [tuple(heads), *(tuple(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    print(f"\n{title}")
    for line in lines:
        first, *others = line
        cells = [first.ljust(widths[0]), *(text.rjust(w) for text, w in zip(others, widths[1:], strict=True))]
        print("  ".join(["", *cells]).rstrip())


def medians_s(work: Callable[[], object], times: int = 20, within_s: float = 2.0) -> tuple[float, float]:
    """Return the median wall and CPU seconds of ``times`` runs, or of fewer if they take over ``within_s``."""
    walls: list[float] = []
    cpus: list[float] = []
    while len(walls) < (1 if SMOKE else times) and (len(walls) < 3 or sum(walls) < within_s):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return statistics.median(walls), statistics.median(cpus)


def median_s(work: Callable[[], object], times: int = 20, within_s: float = 2.0) -> float:
    return medians_s(work, times, within_s)[0]


@contextmanager
def provider(latency_s: float, questions: int = 1, most: float = math.inf) -> Iterator[str]:
    """Run ``provider.py`` as a child, so that its work is not counted; yields its base URL."""
    command = [sys.executable, str(Path(__file__).with_name("provider.py")), *map(str, (latency_s, questions, most))]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        yield child.stdout.readline().strip()
    finally:
        child.kill()
        child.wait()
