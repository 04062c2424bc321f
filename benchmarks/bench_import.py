"""Importing the CRAFT-MD authors' release, against parsing the same files with the standard library's json alone.

Needs a copy of the release (or a part of it) in the folder that ANAMNESIS_CRAFTMD_RELEASE names. Every measurement is
a separate process, in turn, so that neither warms the other; the import includes everything up to the closed
database: reading, checking, judging multiple choice by two rules, and one transaction.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import ROOT, authors_release, sized, table

ROUNDS = sized(5, 1)


def main() -> None:
    release = authors_release()
    if release is None:
        return
    if len(sys.argv) > 1:
        print(json.dumps(WORK[sys.argv[1]](release)))
        return
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in WORK}
    for _ in range(ROUNDS):
        for name, rows in measured.items():
            rows.append(_in_child(name))
    _print(measured)


def json_alone(release: Path) -> dict[str, float]:
    paths = sorted(release.glob("results/*/case_*.json"))
    start, busy = time.perf_counter(), time.process_time()
    for path in paths:
        with path.open(encoding="utf-8") as file:
            json.load(file)
    return {"files": len(paths), "s": time.perf_counter() - start, "cpu": time.process_time() - busy, "mb": _peak_mb()}


def first_import(release: Path) -> dict[str, float]:
    return _import(release, times=1)


def second_import(release: Path) -> dict[str, float]:
    return _import(release, times=2)


def _import(release: Path, times: int) -> dict[str, float]:
    import pyarrow

    from core.frameworks.craftmd.release import RELEASE
    from core.jobs.release.importing import import_release
    from core.store.database import Store

    pyarrow.array([])  # the first array loads pandas: modules are loaded before the clock starts
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ANAMNESIS_DB"] = str(Path(folder) / "bench.duckdb")
        for _ in range(times):
            start, busy = time.perf_counter(), _busy_s()
            layout = RELEASE.find(release, str(release))
            report = import_release(Store(), layout, layout.models)
            taken, cpu = time.perf_counter() - start, _busy_s() - busy
        size = Path(os.environ["ANAMNESIS_DB"]).stat().st_size
    files = sum(m.taken + m.unchanged for m in report.models)
    return {"files": files, "s": taken, "cpu": cpu, "mb": _peak_mb(), "database_mb": size / 1e6}


def _busy_s() -> float:
    """Return the CPU seconds of this process and of its finished children."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _in_child(name: str) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, name], cwd=ROOT, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _print(measured: dict[str, list[dict[str, float]]]) -> None:
    def middle(name: str, what: str) -> float:
        return statistics.median(row[what] for row in measured[name])

    rows = []
    for name, label in LABELS.items():
        seconds = [row["s"] for row in measured[name]]
        ratios = [middle(name, what) / middle("json", what) for what in ("s", "cpu")]
        peak = max(row["mb"] for row in measured[name])
        spread = f"{min(seconds):.2f}–{max(seconds):.2f}"
        numbers = (middle(name, "s"), ratios[0], middle(name, "cpu"), ratios[1])
        rows.append((label, spread, *(f"{number:.2f}" for number in numbers), f"{peak:,.0f}"))
    files, size = measured["json"][0]["files"], measured["import"][0]["database_mb"]
    title = f"{files:,.0f} case files, median of {ROUNDS}; the database afterwards: {size:.0f} MB"
    table(title, ("", "range s", "median s", "ratio", "CPU s", "ratio", "peak MB, of the importing process"), rows)


WORK = {"json": json_alone, "import": first_import, "again": second_import}
LABELS = {
    "json": "json.load of every file",
    "import": "import into an empty database",
    "again": "the same import again",
}

if __name__ == "__main__":
    main()
