"""Do the tests see a fault? One expression of core is changed at a time, and the tests that reach its line are run.

    python -m pytest --cov=core --cov-branch --cov-context=test …     (pytest-cov, for each lane)
    python benchmarks/mutants.py FIRST.coverage SLOW.coverage --durations SUITE.jsonl --draw 40 --seed 1
    python benchmarks/mutants.py … --given FILE.json      (a list of {"file", "old", "new", "why"})

Needs the package coverage, and the durations of ``benchmarks/suite.py``. The working tree is copied by
``git worktree``, so what is not committed is not changed. The first lane is run first and the second only
for changes that the first did not find.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any, cast

from coverage import CoverageData  # type: ignore[import-not-found]

ROOT = Path(__file__).parents[1]
SUBJECTS = (
    "core/stats/*.py",
    "core/store/conditions.py",
    "core/store/fold.py",
    "core/jobs/engine.py",
    "core/asking/memory.py",
    "core/agents/grader.py",
    "core/measures/notes.py",
    "core/access.py",
)
"""The same number of changes is drawn from each."""
SECONDS = 100.0
"""Tests that reach a line are run from the quickest on, until their durations add up to so much."""
_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}

_CHANGED = (ast.Compare, ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.Constant)


@dataclass(frozen=True)
class Mutant:
    """A change of one expression of a file."""

    file: str
    line: int
    start: int
    """Offset of the replaced characters in the file."""
    old: str
    new: str
    why: str = ""


def swapped(node: ast.expr) -> Iterator[ast.expr]:
    """Yield changed copies of an expression: another operator, the opposite, a number one higher."""
    copy = ast.parse(ast.unparse(node), mode="eval").body
    if isinstance(copy, ast.Compare) and type(copy.ops[0]) in _SWAPPED:
        copy.ops[0] = cast(ast.cmpop, _SWAPPED[type(copy.ops[0])]())
        yield copy
    elif isinstance(copy, ast.BinOp | ast.BoolOp) and type(copy.op) in _SWAPPED:
        copy.op = cast(Any, _SWAPPED[type(copy.op)]())
        yield copy
    elif isinstance(copy, ast.UnaryOp) and isinstance(copy.op, ast.Not):
        yield copy.operand
    elif isinstance(copy, ast.Constant) and isinstance(copy.value, bool):
        yield ast.Constant(not copy.value)
    elif isinstance(copy, ast.Constant) and isinstance(copy.value, int | float):
        yield ast.Constant(copy.value + 1)


def mutants_of(path: Path, lines: set[int]) -> list[Mutant]:
    """Return all changes of a file on the given lines (from 1), outside of text with placeholders."""
    source = path.read_text(encoding="utf-8")
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(source)
    inside_text = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, _CHANGED) or id(node) in inside_text or node.lineno not in lines:
            continue
        for new in swapped(node):
            old = ast.get_source_segment(source, node) or ""
            start = starts[node.lineno - 1] + node.col_offset
            found.append(Mutant(str(path.relative_to(ROOT)), node.lineno, start, old, f"({ast.unparse(new)})"))
    return found


def tests_by_line(data: CoverageData, file: str) -> dict[int, set[str]]:
    """Return line → ids of the tests that reach it; the data of another checkout has other prefixes."""
    measured = [name for name in data.measured_files() if name.endswith(f"/{file}")]
    lines: dict[int, set[str]] = defaultdict(set)
    for name in measured:
        for line, contexts in data.contexts_by_lineno(name).items():
            lines[line] |= {context.partition("|")[0] for context in contexts if context}
    return lines


def tests_of(lane: str) -> set[str]:
    """Return the ids of the tests of a lane as they are now."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", lane, "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {line for line in done.stdout.splitlines() if "::" in line}


def is_found(checkout: Path, mutant: Mutant, tests: list[str]) -> str:
    """Return the first test that fails with the change, or an empty text."""
    path = checkout / mutant.file
    before = path.read_bytes()
    old = mutant.old.encode()
    assert before[mutant.start :].startswith(old), mutant
    path.write_bytes(before[: mutant.start] + mutant.new.encode() + before[mutant.start + len(old) :])
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as listed:
            listed.write("\n".join(tests))
            listed.flush()
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"@{listed.name}"]
            done = subprocess.run(
                command, cwd=checkout, capture_output=True, text=True, check=False, timeout=4 * SECONDS
            )
    except subprocess.TimeoutExpired:
        return "no end in time"
    finally:
        path.write_bytes(before)
    if done.returncode == 0:
        return ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else done.stdout[-300:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path)
    parser.add_argument("slow", type=Path)
    parser.add_argument("--durations", type=Path, required=True)
    parser.add_argument("--draw", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--given", type=Path)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first changes, which were tried before")
    given = parser.parse_args()
    datas = [CoverageData(basename=str(path)) for path in (given.first, given.slow)]
    for data in datas:
        data.read()
    first_lane, second_lane = tests_of("not slow"), tests_of("slow")
    seconds: dict[str, float] = defaultdict(float)
    for line in given.durations.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        seconds[entry["test"]] += entry["seconds"]

    def reaching(mutant: Mutant) -> tuple[list[str], list[str]]:
        tests: set[str] = set()
        for data in datas:
            tests |= tests_by_line(data, mutant.file).get(mutant.line, set())
        if mutant.file.startswith("pages/"):  # whose coverage is not measured
            tests = {test for test in seconds if test.startswith("tests/pages/") and "browser" not in test}
        ordered = sorted(tests & (first_lane | second_lane), key=lambda test: seconds[test])
        lanes: tuple[list[str], list[str]] = ([], [])
        spent = [0.0, 0.0]
        for test in ordered:
            lane = 0 if test in first_lane else 1
            if spent[lane] < SECONDS:
                lanes[lane].append(test)
                spent[lane] += seconds[test]
        return lanes

    mutants: list[Mutant] = []
    if given.given:
        for entry in json.loads(given.given.read_text(encoding="utf-8")):
            source = (ROOT / entry["file"]).read_text(encoding="utf-8")
            at = source.index(entry["old"])
            line = source[:at].count("\n") + 1
            start = len(source[:at].encode())
            mutants.append(Mutant(entry["file"], line, start, entry["old"], entry["new"], entry["why"]))
    else:
        draw = random.Random(given.seed)
        for subject in SUBJECTS:
            all_of_subject = []
            for path in sorted(ROOT.glob(subject)):
                file = str(path.relative_to(ROOT))
                reached = {line for data in datas for line, tests in tests_by_line(data, file).items() if tests}
                all_of_subject += mutants_of(path, reached)
            mutants += draw.sample(all_of_subject, min(given.draw // len(SUBJECTS), len(all_of_subject)))

    checkouts: Queue[Path] = Queue()
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    for number in range(os.cpu_count() or 2):
        checkout = folder / str(number)
        subprocess.run(["git", "worktree", "add", "--detach", "-q", str(checkout)], cwd=ROOT, check=True)
        checkouts.put(checkout)

    def tried(mutant: Mutant) -> tuple[Mutant, list[int], str, str]:
        first, slow = reaching(mutant)
        checkout = checkouts.get()
        try:
            by_first = is_found(checkout, mutant, first) if first else ""
            by_slow = is_found(checkout, mutant, slow) if slow and not by_first else ""
        finally:
            checkouts.put(checkout)
        return mutant, [len(first), len(slow)], by_first, by_slow

    counts = [0, 0, 0]
    with ThreadPoolExecutor(checkouts.qsize()) as pool:
        for mutant, numbers, by_first, by_slow in pool.map(tried, mutants[given.skip :]):
            result = "first lane" if by_first else "second lane" if by_slow else "NOT FOUND"
            counts[0 if by_first else 1 if by_slow else 2] += 1
            print(f"{result:<12} {numbers} {mutant.file}:{mutant.line} {mutant.old!r} → {mutant.new!r} {mutant.why}")
            print(f"             {by_first or by_slow}", flush=True)
    for number in range(os.cpu_count() or 2):
        subprocess.run(["git", "worktree", "remove", "--force", str(folder / str(number))], cwd=ROOT, check=True)
    print(f"first lane {counts[0]}, second lane only {counts[1]}, not found {counts[2]}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
