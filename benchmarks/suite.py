"""Where the time of the tests goes: seconds and CPU seconds of set-up, call and teardown, by kind of test and by file.

    python benchmarks/suite.py                        # the tests of `make test`, on two workers
    python benchmarks/suite.py --out FILE -- -n 0 tests/core/stats

Arguments after ``--`` replace pytest's. ``--out`` writes a line of JSON for each test, which ``--read FILE`` tabulates
again without a run. CPU seconds include child processes that have ended;
wall seconds depend on what else runs.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import subprocess
import sys
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

PHASES = ("setup", "call", "teardown")
KINDS = ("unit", "HTTP provider", "command", "page", "browser", "documents")
_OUT = "ANAMNESIS_SUITE"
_SHOWN = 25
_FILES: dict[str, tuple[str, ...]] = {
    "HTTP provider": ("fake_provider", "hostile_server", "running()"),
    "command": ("support.commands", "core.cli.app import main"),
}
"""Kind of test → words of its file that tell it, if fixtures and markers do not."""


@functools.cache
def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def kind_of(item: pytest.Item) -> str:
    """Return what a test needs most of: one of ``KINDS``."""
    fixtures = set(getattr(item, "fixturenames", ()))
    if item.get_closest_marker("browser"):
        return "browser"
    if "tests/docs" in item.nodeid:
        return "documents"
    if fixtures & {"open_page", "open_as"}:
        return "page"
    if any(name.startswith("fake_provider") for name in fixtures):
        return "HTTP provider"
    return next((kind for kind, words in _FILES.items() if any(w in _source(item.path) for w in words)), "unit")


def _cpu() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


_spent = pytest.StashKey[dict[str, float]]()


def _timed(item: pytest.Item, phase: str) -> Iterator[None]:
    before = _cpu()
    try:
        return (yield)
    finally:
        item.stash.setdefault(_spent, {})[phase] = _cpu() - before


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    return (yield from _timed(item, "setup"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    return (yield from _timed(item, "call"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    return (yield from _timed(item, "teardown"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
    report = yield
    report.suite = {"kind": kind_of(item), "cpu": item.stash.get(_spent, {}).get(report.when, 0.0)}
    return report


def pytest_runtest_logreport(report: Any) -> None:
    """Write a line for a phase of a test; with workers, only the controller writes."""
    if "PYTEST_XDIST_WORKER" in os.environ or not (out := os.environ.get(_OUT)):
        return
    line = {"test": report.nodeid, "phase": report.when, "outcome": report.outcome, "seconds": report.duration}
    with Path(out).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line | report.suite) + "\n")


def tabulate(path: Path) -> None:
    """Print the tables of a file of measurements."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    by_kind, by_file = defaultdict(list), defaultdict(list)
    for line in lines:
        by_kind[line["kind"]].append(line)
        by_file[line["test"].partition("::")[0]].append(line)
    print(f"{'kind':<44} {'tests':>6} {'CPU s':>7} " + " ".join(f"{p + ' s':>10}" for p in PHASES))
    total = [("all", lines)]
    files = sorted(by_file.items(), key=lambda entry: -sum(line["cpu"] for line in entry[1]))[:_SHOWN]
    for rows in (total, [(kind, by_kind[kind]) for kind in KINDS], files):
        for name, group in rows:
            seconds = (sum(line["seconds"] for line in group if line["phase"] == phase) for phase in PHASES)
            tests, cpu = len({line["test"] for line in group}), sum(line["cpu"] for line in group)
            print(f"{name[-44:]:<44} {tests:>6} {cpu:>7.1f} " + " ".join(f"{value:>10.1f}" for value in seconds))
        print()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("suite.jsonl"))
    parser.add_argument("--read", type=Path)
    parser.add_argument("pytest", nargs="*")
    given = parser.parse_args()
    if given.read:
        tabulate(given.read)
        return 0
    given.out.unlink(missing_ok=True)
    arguments = given.pytest or ["-n", "2", "-m", "not slow", "-q"]
    command = [sys.executable, "-m", "pytest", "-p", "benchmarks.suite", *arguments]
    environment = os.environ | {_OUT: str(given.out.resolve())}
    status = subprocess.run(command, env=environment, check=False).returncode
    tabulate(given.out)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
