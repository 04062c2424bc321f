"""Writes every report of a database as CSV, to compare the figures of two versions of the program.

    ANAMNESIS_DB=… python benchmarks/dump_reports.py write FOLDER
    python benchmarks/dump_reports.py compare BEFORE AFTER

Each metric is written with its defaults, and once more with each other value of every option that takes a word of a
list. What a report says next to its rows, and why one has no rows, is written too: ``compare`` counts the reports whose
rows differ, and lists the words that do.
"""

from __future__ import annotations

import contextlib
import csv
import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import common  # noqa: F401 (the way to core)

VALUES = {"monitor": [["--versions", "mistral_v1_7b,mistral_v2_7b"], ["--versions", "gpt_3.5,gpt_4"]]}
"""Report → the arguments without which it says nothing, one call each."""


def invocations() -> Iterator[tuple[str, ...]]:
    """Yield the arguments of every report: its defaults, then one option changed at a time."""
    from core.measures.registry import metrics

    for name, metric in metrics().items():
        for needed in VALUES.get(name, [[]]):
            yield name, *needed
            for option in metric.options():
                for choice in choices(option.annotation):
                    if choice != option.default:
                        yield name, *needed, f"--{option.name.strip('_').replace('_', '-')}", choice


def choices(annotation: Any) -> list[str]:
    """Return the words among which an option lets one choose; none if it takes anything else."""
    if get_origin(annotation) is Literal:
        return [choice for choice in get_args(annotation) if isinstance(choice, str)]
    return [choice for part in get_args(annotation) if not isinstance(part, str) for choice in choices(part)]


def write(folder: Path) -> None:
    """Write each report's rows to a CSV file, and its notes to a text file next to it."""
    from core.cli.app import main

    folder.mkdir(parents=True)
    for arguments in invocations():
        rows, words = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(rows), contextlib.redirect_stderr(words):
            main(["report", *arguments, "--format", "csv"])
        stem = "_".join(arguments).replace("-", "").replace(",", "+")
        (folder / f"{stem}.csv").write_text(rows.getvalue(), encoding="utf-8")
        (folder / f"{stem}.txt").write_text(words.getvalue(), encoding="utf-8")
        print(f"{len(rows.getvalue().splitlines()):>7,} lines  report {' '.join(arguments)}", flush=True)


def compare(before: Path, after: Path) -> int:
    """Print which reports differ; 1 if the rows of any do. The words in a column ``notes`` are no figures."""
    names = sorted({path.name for folder in (before, after) for path in folder.glob("*.csv")})
    different = [name for name in names if rows_of(before / name) != rows_of(after / name)]
    for name in different:
        print(f"Rows differ: {name}")
    texts = [path.name for path in sorted(before.glob("*.txt")) if path.read_text() != (after / path.name).read_text()]
    for name in texts:
        subprocess.run(["diff", "-u", str(before / name), str(after / name)], check=False)
    print(f"{len(names)} reports, {len(different)} with other rows, {len(texts)} with other words.")
    return 1 if different else 0


def rows_of(file: Path) -> list[dict[str, str]] | None:
    """Return the rows of a report without their notes; ``None`` if it was not written."""
    if not file.exists():
        return None
    with file.open(encoding="utf-8", newline="") as lines:
        return [{name: value for name, value in row.items() if name != "notes"} for row in csv.DictReader(lines)]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", folder]:
            write(Path(folder))
        case ["compare", before, after]:
            sys.exit(compare(Path(before), Path(after)))
        case _:
            sys.exit(__doc__)
