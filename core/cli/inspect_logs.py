"""``export inspect`` and ``import inspect``: conversations as logs of Inspect, out and in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from core.cli.options import WithCases, WithNames, folded_store, new_file, print_names, run_id_of
from core.datasets.archive import GIGABYTE, ArchiveLimits
from core.errors import AnamnesisError, UsageError
from core.interchange.expert_scores import expert_scores
from core.interchange.inspect_import import ImportedLog, import_log
from core.interchange.inspect_log import log_name, write_log
from core.interchange.inspect_reading import log_files
from core.paths import expanded
from core.store.database import Store
from core.store.queries.runs import run as stored_run


def export_inspect(
    run: Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids of runs, or beginnings of ids.")],
    out: Annotated[Path, typer.Option("--out", help="The folder for the logs; it is made if it does not exist.")],
    with_cases: WithCases = False,
    with_names: WithNames = False,
) -> int:
    """Write runs as Inspect logs (JSON, version 2), with experts' verdicts of unblinded reviews next to them."""
    store = folded_store()
    ids = list(dict.fromkeys(run_id_of(store, name) for name in run))
    out.mkdir(parents=True, exist_ok=True)
    for run_id in ids:
        with store.read() as cursor:
            stored = stored_run(cursor, run_id)
        if stored is None:
            raise UsageError(f"There is no run {run_id!r}.")
        name = log_name(stored)
        with new_file(out / f"{name}.json") as written:
            log = write_log(store, run_id, written, with_cases=with_cases, with_names=with_names)
        print(
            f"{name}.json: {log.samples:,} conversations of {log.doctor}, {log.scores:,} scores, of which "
            f"{log.unscored:,} unscored, because they count in no accuracy."
        )
        if log.withheld:
            print(log.withheld)
        print_names(log.people, with_names=with_names)
        scores, blinded = expert_scores(store, run_id)
        for experts in scores:
            with new_file(out / f"{name}_{experts.name}.jsonl") as written:
                written.write_text(experts.lines, encoding="utf-8")
            undecided = ", ".join(f"{count:,} {reason}" for reason, count in experts.undecided.items())
            print(
                f"{name}_{experts.name}.jsonl: {len(experts.records):,} verdicts of the review {experts.review}"
                f"{f'; without a decision: {undecided}' if undecided else ''}."
            )
        for review in blinded:
            print(f"The review {review} is blinded, and the log names the model: its verdicts are not written.")
    return 0


def import_inspect(
    path: Annotated[Path, typer.Argument(help="A log (.json or .eval), or a folder of logs.")],
    max_gb: Annotated[float, typer.Option("--max-gb", help="Maximum size of a log, unpacked.")] = 4.0,
) -> int:
    """Import the conversations of Inspect logs as runs; of a folder, files that cannot be read are named."""
    if max_gb <= 0:
        raise UsageError("--max-gb must be more than 0.")
    source = expanded(path)
    files = log_files(source)
    if not source.exists() or not files:
        raise UsageError(f"There is no log of Inspect (.json or .eval) at {path}.")
    store, done = Store(), 0
    for file in files:
        try:
            log = import_log(store, file, ArchiveLimits(total_bytes=int(max_gb * GIGABYTE)))
        except AnamnesisError as error:
            if not source.is_dir():
                raise
            print(f"Left out: {error}", file=sys.stderr)
            continue
        done += 1
        print(_in_words(log))
    if not done:
        raise AnamnesisError(f"None of the {len(files):,} files in {path} could be imported.")
    print("Read them with: python -m core serve, on Conversations. To grade their answers: python -m core job regrade")
    return 0


def _in_words(log: ImportedLog) -> str:
    if not log.new:
        return f"{log.name}: its run {log.run_id} is in this database already; nothing was imported."
    words = f"{log.name}: run {log.run_id}, {log.conversations:,} conversations of {log.doctor}"
    if log.own:
        words += ", with their answers and verdicts"
    if log.scores:
        words += f"; {log.scores:,} scores of other programs are remarks, not verdicts"
    return words + ("" if log.status == "success" else f". The log is not complete (status {log.status})") + "."
