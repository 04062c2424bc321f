"""Computes every figure of two stored studies, and compares it with the stored values: `make figures`.

The studies are the sample study and the golden store of the tests (tests/core/store/databases/README.md), which has
what the sample lacks: rubrics, urgency, judges, reviews of every kind. Every metric is computed with its defaults, and
with each other value of every option that takes a word of a list; the hash of every prompt is compared, too.

    python benchmarks/figures.py            # prints what differs; status 1 if a value differs that both sides have
    python benchmarks/figures.py --store    # renews the stored values

Values are stored again when a change moves figures on purpose; CHANGELOG.md names these figures. A metric, a row or a
column that only one side has is listed, and is no difference. Notes are not compared.
"""

from __future__ import annotations

import itertools
import json
import lzma
import math
import os
import sys
import tarfile
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

from common import ROOT

STORED = ROOT / "benchmarks" / "figures" / "stored.jsonl.xz"
GOLDEN = ROOT / "tests" / "core" / "store" / "databases" / "version_0_5_1.tar.xz"
TOLERANCE = 1e-9
"""Of numbers, relative and absolute."""
SHOWN = 10
"""Differences and rows of a report that are printed; the others are counted."""
NEEDED: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "case_distribution": [{"data_set": "library"}],
    "suitability": [{"dataset": "library"}],
    "items": [{"dataset": "library"}],
    "experts": [{"review": "Hearts"}, {"review": "Free responses"}, {"review": "Vignettes"}],
    "agreement": [{}, {"review": "Hearts"}, {"review": "Free responses"}],
    "completeness": [{"review": "Hearts"}],
    "ratings": [{"review": "Hearts"}, {"review": "Free responses"}, {"review": "Criteria"}],
    "monitor": [{"versions": "mistral_v1_7b,gpt_3_5"}],
}
"""Metric → the options without which it says nothing, one set after the other."""


class Report(NamedTuple):
    """The rows of a metric: ``labels`` are the columns that name a row. A value is a text, a number, or missing."""

    labels: Sequence[str]
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def invocations(name: str, options: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield the options of every report of a metric: its defaults, then one option changed at a time.

    All metrics share the corrections of p, which are changed in one of them.
    """
    for needed in NEEDED.get(name, [{}]):
        yield dict(needed)
        for option in options:
            if option.name not in needed and (option.name != "correction" or name == "pairs"):
                for choice in choices(option.annotation):
                    if choice != option.default:
                        yield {**needed, option.name: choice}


def choices(annotation: Any) -> list[str]:
    """Return the words among which an option lets one choose; none if it takes anything else."""
    if get_origin(annotation) is Literal:
        return [choice for choice in get_args(annotation) if isinstance(choice, str)]
    return [choice for part in get_args(annotation) if not isinstance(part, str) for choice in choices(part)]


def reports_of(study: str) -> Iterator[tuple[str, Report]]:
    """Yield the name and rows of every report that a study has rows for."""
    from core.errors import AnamnesisError
    from core.measures.base import MetricRequest, Row
    from core.measures.measuring import measure_trials
    from core.measures.registry import measures, metrics
    from core.store.database import Store

    store = Store()
    measure_trials(store, measures().values())
    for name, metric in metrics().items():
        for options in invocations(name, metric.options()):
            try:
                listed = list(metric.rows(MetricRequest(store), **options))
            except AnamnesisError:  # says why it has no rows
                continue
            cells = [row.cells(plain=True) if isinstance(row, Row) else dict(row) for row in listed]
            labels = dict.fromkeys(label for row in listed if isinstance(row, Row) for label in row.label)
            columns = dict.fromkeys(column for row in cells for column in row)
            rows = [[stored_value(row.get(column)) for column in columns] for row in cells]
            if rows:
                words = " ".join(f"--{option.strip('_')} {value}" for option, value in options.items())
                yield f"{study}: {name} {words}".strip(), Report(list(labels), list(columns), rows)


def stored_value(value: Any) -> Any:
    """Return a value as JSON has it, numbers with 12 digits; NaN is missing."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Mapping):
        return " ".join(f"{key}={number}" for key, number in value.items() if number)
    if isinstance(value, list | tuple | set | frozenset):
        return " | ".join(
            str(part) for part in (sorted(value, key=str) if isinstance(value, set | frozenset) else value)
        )
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return None if math.isnan(number) else int(number) if number.is_integer() else float(f"{number:.12g}")


def prompt_hashes() -> Report:
    """Return the hashes by which stored results know their prompts: of whole packs, and of each prompt in them."""
    from core.prompts import load_pack, pack_places

    rows = []
    for place in pack_places():
        pack = load_pack(place.name)
        rows.append([place.name, "", pack.hash])
        rows += [[place.name, name, pack.hash_of(name)] for name in sorted(pack.prompts)]
    return Report(["pack", "prompt"], ["pack", "prompt", "hash"], rows)


def computed() -> dict[str, Report]:
    """Compute every report of both studies, each in a temporary database."""
    from core.store.database import Store
    from core.store.fold import fold
    from core.store.sample import add_sample

    reports = {"prompts": prompt_hashes()}
    for study in ("sample", "golden"):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["ANAMNESIS_DB"] = str(Path(folder) / "anamnesis.duckdb")
            if study == "sample":
                add_sample(Store())
            else:
                with tarfile.open(GOLDEN) as packed:
                    packed.extractall(folder, filter="data")
                fold(Store())
            reports |= {name: without(folder, report) for name, report in reports_of(study)}
    return reports


def without(folder: str, report: Report) -> Report:
    """Return a report without the path of the temporary folder."""
    rows = [[value.replace(folder, "") if isinstance(value, str) else value for value in row] for row in report.rows]
    return report._replace(rows=rows)


def store(reports: Mapping[str, Report]) -> None:
    STORED.parent.mkdir(exist_ok=True)
    with lzma.open(STORED, "wt", preset=9, encoding="utf-8") as file:
        for name, report in reports.items():
            file.write(json.dumps([name, *report], ensure_ascii=False) + "\n")
    print(f"Stored {len(reports):,} reports with {sum(len(r.rows) for r in reports.values()):,} rows in {STORED}.")


def stored() -> dict[str, Report]:
    with lzma.open(STORED, "rt", encoding="utf-8") as file:
        return {name: Report(*parts) for name, *parts in map(json.loads, file)}


def differ(before: Any, after: Any) -> bool:
    if isinstance(before, int | float) and isinstance(after, int | float):
        return not math.isclose(before, after, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(before != after)


def compared(before: Report, after: Report) -> tuple[int, list[str], list[str]]:
    """Return the number of equal rows, what differs in rows of both, and what only one side has.

    Rows are the same if their labels are; rows of one label, and of lists, which have no labels, are taken in order.
    """
    both = [column for column in before.columns if column in after.columns and column != "notes"]
    one_side = [f"the column {column} only before" for column in before.columns if column not in after.columns]
    one_side += [f"the column {column} only now" for column in after.columns if column not in before.columns]
    labels = [column for column in before.labels if column in after.labels and column in both]

    def by_label(report: Report) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
        groups = defaultdict(list)
        for row in report.rows:
            cells = dict(zip(report.columns, row, strict=True))
            groups[tuple(cells[label] for label in labels)].append(cells)
        return groups

    first, second = by_label(before), by_label(after)
    equal, different = 0, []
    for label in dict.fromkeys([*first, *second]):
        name = ", ".join(map(str, label)) or "row"
        pairs = itertools.zip_longest(first.get(label, ()), second.get(label, ()))
        for number, (old, new) in enumerate(pairs, start=1):
            if old is None or new is None:
                one_side.append(f"{name} ({number}) only {'before' if new is None else 'now'}")
                continue
            changed = [f"{column} {old[column]} → {new[column]}" for column in both if differ(old[column], new[column])]
            if changed:
                different.append(f"{name} ({number}): {'; '.join(changed)}")
            equal += not changed
    return equal, different, one_side


def compare(before: Mapping[str, Report], after: Mapping[str, Report]) -> int:
    """Print what differs, report by report; return 1 if a value differs that both sides have."""
    total = wrong = 0
    for name, old in before.items():
        if name not in after:
            print(f"{name}: removed ({len(old.rows):,} rows)")
            continue
        equal, different, one_side = compared(old, after[name])
        total += equal
        wrong += len(different)
        if different or one_side:
            print(f"{name}: {equal:,} rows equal, {len(different):,} different, {len(one_side):,} on one side only")
            for line in [*different[:SHOWN], *one_side[:SHOWN]]:
                print(f"    {line}")
    for name in after.keys() - before.keys():
        print(f"{name}: new ({len(after[name].rows):,} rows)")
    print(f"{len(before):,} stored reports: {total:,} rows equal, {wrong:,} different.")
    return 1 if wrong else 0


def main(arguments: Sequence[str]) -> int:
    begun = time.process_time()
    reports = computed()
    print(f"Computed {len(reports):,} reports in {time.process_time() - begun:.0f} s of CPU.")
    if "--store" in arguments:
        store(reports)
        return 0
    return compare(stored(), reports)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
