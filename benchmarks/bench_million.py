"""Every page and every report on 125,000 conversations with 1,000,000 answers: how long they take, and the memory.

The database is that of ``million.py``; ANAMNESIS_BENCH_MILLION names a file to keep it in, and one that is there
already. All pages are opened on one server, without a browser: the first look at a page computes what nothing has kept
for this state of the database, the second is another visitor's, the third narrows the cases to one specialty. A report
is a separate process, from its start to its end.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import ROOT, sized, table

LOOKS: tuple[tuple[str, dict[str, str]], ...] = (
    ("home", {}),
    ("debugger", {}),
    ("models", {}),
    ("cases", {}),
    ("runs", {}),
    ("runs", {"run": "many-3"}),
    ("conversations", {}),
    ("conversations", {"conversations_words": "sharp chest"}),
    ("conversations", {"trial": "?"}),
    ("conversations", {"conversations_part": "Branches"}),
    ("accuracy", {}),
    ("accuracy", {"acc_tab": "Endings and what-if"}),
    ("compare", {}),
    ("compare", {"cmp_part": "Versions"}),
    ("quality", {}),
    ("quality", {"history_tab": "Cases"}),
    ("quality", {"history_tab": "Comparison"}),
    ("quality", {"quality_part": "CARE"}),
    ("trust", {"trust": "Simulated patients"}),
    ("trust", {"trust": "Simulated patients", "section": "Where"}),
    ("trust", {}),
    ("trust", {"section": "Accuracy by grader"}),
    ("trust", {"section": "Differences"}),
    ("trust", {"section": "Contradictions"}),
    ("trust", {"section": "Grade again"}),
    ("trust", {"trust": "Experts"}),
    ("trust", {"trust": "Experts", "section": "Plan a review"}),
    ("trust", {"trust": "Experts", "section": "Results"}),
    ("trust", {"trust": "Memorisation"}),
    ("accuracy", {"acc_tab": "Published"}),
    ("failures", {"failures_tab": "Never asked"}),
    ("failures", {"failures_tab": "Belief"}),
    ("failures", {}),
    ("failures", {"failures_tab": "Causes"}),
)  # fmt: skip
"""Page and what else stands in its address; ``?`` is some trial. What a look leaves to a process is waited for."""
REPORTS = (
    "accuracy", "belief", "care", "endings", "experts", "failures", "graders", "history",
    "history_taking", "ledger", "memorisation", "pairs", "patient_marks", "patients", "power", "repeatability", "spend",
    "suitability",
)  # fmt: skip
VARIABLE = "ANAMNESIS_BENCH_MILLION"


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(look_at_pages(sys.argv[1:])))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(os.environ.get(VARIABLE) or Path(folder) / "million.duckdb")
        environment = {**os.environ, "ANAMNESIS_DB": str(path)}
        if not path.exists():
            subprocess.run(
                [sys.executable, str(Path(__file__).with_name("million.py")), path], check=True, env=environment
            )
        done = subprocess.run([sys.executable, __file__, "all"], check=True, capture_output=True, env=environment)
        looked: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        heads = ("", "first s", "CPU s", "again s", "CPU s", "one specialty s", "CPU s", "memory MB")
        table("Pages, on the server", heads, looked["rows"])
        print(f"  at most {looked['peak_mb']:,.0f} MB of memory for all of them")
        rows = [report(name, environment) for name in REPORTS[:: sized(1, 9)]]
        table("Reports, each a process", ("", "s", "CPU s", "peak MB"), rows)


def look_at_pages(pages: list[str]) -> dict[str, Any]:
    """Open the pages one after the other, each by three visitors; ``pages`` are names of pages, or "all"."""
    import psutil
    from streamlit.testing.v1 import AppTest
    from streamlit.util import calc_hash

    from core.jobs import background
    from core.store.database import Store

    with Store().read() as cursor:
        (trial,) = cursor.execute("SELECT max(trial_id) FROM trials WHERE run_id = 'many-3'").fetchall()[0]
    rows = []
    for page, query in LOOKS[:: sized(1, 9)]:
        if page not in pages and pages != ["all"]:
            continue
        times: list[str] = []
        for more in ({}, {}, {"specialties": "Cardiology"}):
            app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=900)
            app._page_hash = calc_hash(page)
            for name, value in {**query, **more}.items():
                app.query_params[name] = trial if value == "?" else value
            wall, cpu = time.perf_counter(), time.process_time()
            app.run()
            times += [f"{time.perf_counter() - wall:.2f}", f"{time.process_time() - cpu:.2f}"]
            for job in list(background._jobs.values()):
                job.join()
            if app.exception:
                raise SystemExit(f"{page} {query} failed: {app.exception[0].value}")
        words = " ".join([page, *query.values()])
        rows.append([words, *times, f"{psutil.Process().memory_info().rss / 1e6:,.0f}"])
        print(rows[-1], file=sys.stderr, flush=True)
    return {"rows": rows, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1.024e-3}


def report(name: str, environment: dict[str, str]) -> tuple[str, ...]:
    begun = time.perf_counter()
    command = [sys.executable, "-m", "core", "report", name, "--format", "json"]
    child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert child.stderr is not None
    words = child.stderr.read().decode()
    _, status, used = os.wait4(child.pid, 0)
    wall = time.perf_counter() - begun
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode and "no" not in words.lower():
        raise SystemExit(f"report {name} failed: {words}")
    return name, f"{wall:.1f}", f"{used.ru_utime + used.ru_stime:.1f}", f"{used.ru_maxrss / 1e3:,.0f}"


if __name__ == "__main__":
    main()
