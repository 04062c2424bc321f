"""``bundle``: makes, verifies and plays again a zip with everything behind the figures of some runs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from core.cli.options import (
    BaseUrl,
    Budget,
    ConcurrencyOption,
    DryRun,
    Limit,
    Out,
    WithNames,
    counting_bytes,
    folded_store,
    new_file,
    print_estimate,
    print_names,
    progress_bar,
    run_id_of,
)
from core.errors import AnamnesisError, UsageError
from core.jobs.begun import unfinished_twin
from core.jobs.engine import Options
from core.jobs.estimate import estimate
from core.jobs.plan import header_of, in_full
from core.jobs.run import begin, carry_out, check_prompts, check_startable
from core.models.registry import load_registry
from core.report.bundle import Manifest, make_bundle, unpacked_store
from core.report.bundle_check import damaged_files, unpacked, verify_bundle
from core.report.bundle_rerun import ACCURACY, Changes, ComparedFigure, Replay, compare_runs, replay_of
from core.store.database import Store
from core.store.queries.runs import runs as stored_runs

app = typer.Typer(no_args_is_help=True, help="Bundle runs for an archive or reviewers.", rich_markup_mode=None)
_Bundle = Annotated[Path, typer.Argument(metavar="STUDY.ZIP", help="A file that bundle make has written.")]
_SHOWN = 20
"""Differing numbers that are printed; the others are counted."""


@app.command("make")
def make(
    run: Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids of runs, or the beginnings of them.")],
    out: Out,
    with_cases: Annotated[
        bool, typer.Option("--with-cases", help="Include cases and conversations whatever the licence of the cases.")
    ] = False,
    with_names: WithNames = False,
) -> int:
    """Write journals, cases, prompts, settings, figures and environment of runs into one zip with checksums."""
    if out.suffix != ".zip":
        raise UsageError(f"{out}: the name must end in .zip.")
    store = folded_store()
    run_ids = list(dict.fromkeys(run_id_of(store, name) for name in run))
    with new_file(out) as file, counting_bytes() as show:
        made = make_bundle(store, run_ids, file, with_cases=with_cases, with_names=with_names, progress=show)
    print(f"Wrote {len(made.manifest.files) + 1:,} files of {len(run_ids):,} runs to {out} ({made.size:,} bytes).")
    print(f"SHA-256: {made.sha256}")
    for sentence in made.manifest.left_out:
        print(f"Left out: {sentence}")
    if not all(bundled.cases_inside for bundled in made.manifest.runs):
        print("To include the texts, if you have the right to pass them on: --with-cases")
    print_names(made.people, with_names=with_names)
    for figure, count in Counter(difference.figure for difference in made.differing).items():
        print(f"Not computable from the bundle: {figure} ({count:,} numbers).")
    print(f"Check it with: python -m core bundle verify {out}")
    return 0


@app.command("verify")
def verify(bundle: _Bundle) -> int:
    """Check every file of a bundle, and compute every figure again from its journals; status 1 if one differs."""
    with counting_bytes() as show:
        verified = verify_bundle(bundle, show)
    for sentence in verified.damage:
        print(f"Damaged: {sentence}")
    for name in verified.equal:
        print(f"equal: {name}")
    for difference in verified.differing[:_SHOWN]:
        print(f"different: {difference}")
    if more := len(verified.differing[_SHOWN:]):
        print(f"different: {more:,} more numbers")
    for name in verified.withheld:
        print(f"not computed: {name} (needs texts that are not in the bundle)")
    files, figures = len(verified.manifest.files), len(verified.equal)
    if verified.sound:
        print(f"All {files:,} files are as they were, and {figures:,} figures are equal.")
        return 0
    print(f"{bundle} is not as it was made, or gives other figures.", file=sys.stderr)
    return 1


@app.command("rerun")
def rerun(
    bundle: _Bundle,
    doctor: Annotated[str, typer.Option(help="Another model under test.")] = "",
    prompts: Annotated[str, typer.Option(help="Another prompt pack: its name, or a folder.")] = "",
    base_url: BaseUrl = None,
    limit: Limit = None,
    concurrency: ConcurrencyOption = None,
    budget_usd: Budget = None,
    again: Annotated[bool, typer.Option("--again", help="Play runs again that were played again before.")] = False,
    dry_run: DryRun = False,
) -> int:
    """Play the runs of a bundle again into your database, and compare; status 1 if a figure differs beyond noise."""
    if limit is not None and limit < 1:
        raise UsageError("--limit must be at least 1.")
    changes = Changes(doctor, base_url, prompts, limit)
    with unpacked(bundle) as (folder, manifest):
        if damage := next(damaged_files(folder, manifest), None):
            raise AnamnesisError(f"{bundle} is damaged: {damage}")
        replays = _replays(folder, manifest, changes)
        played, spent = list[tuple[Replay, str]](), 0.0
        for replay in replays:
            remaining = None if budget_usd is None else max(0.0, budget_usd - spent)
            bundled = {run.run_id for run in manifest.runs}
            run_id, cost = _play(replay, Options(concurrency, remaining), bundled, again=again, dry_run=dry_run)
            spent += cost
            if run_id:
                played.append((replay, run_id))
            elif not dry_run:
                return 1
        return 0 if dry_run else _compare(folder, played)


def _replays(folder: Path, manifest: Manifest, changes: Changes) -> list[Replay]:
    """Return the runs that can be played again; print the others with the reason, and remarks."""
    replays = []
    for run in manifest.runs:
        try:
            replays.append(replay_of(run, folder, changes, load_registry(programs=True)))
        except AnamnesisError as error:
            print(f"Not played again: {error}", file=sys.stderr)
    if not replays:
        raise AnamnesisError("No run of this bundle can be played again.")
    for replay in replays:
        for remark in replay.remarks:
            print(f"Note on {replay.header.run_id}: {remark}", file=sys.stderr)
    return replays


def _compare(folder: Path, played: Sequence[tuple[Replay, str]]) -> int:
    """Print how the figures of runs and of their replays compare; return 1 if one is different."""
    states = Counter[str]()
    with unpacked_store(folder) as bundled:
        for replay, run_id in played:
            print(f"{replay.header.run_id}, played again as {run_id}:")
            compared = compare_runs(bundled, replay.header.run_id, Store(), run_id, whole=replay.whole)
            states.update(figure.state for figure in compared)
            _print_compared(compared)
    print(f"{', '.join(f'{n:,} {state}' for state, n in states.items())}.")
    return 1 if states["different"] else 0


def _play(
    replay: Replay, options: Options, bundled: Collection[str], *, again: bool, dry_run: bool
) -> tuple[str, float]:
    """Play a run again, or only print the estimate; return the id of the new run ("" if it is not complete), and cost.

    A complete replay is used as it is, unless ``again``, and a stopped one goes on: no reply is paid for twice. The
    ``bundled`` runs themselves, which may be in the same database, are no replays.
    """
    registry = load_registry(programs=True)
    campaign = in_full(replay.campaign, registry)
    check_prompts(campaign)
    size = estimate(campaign, registry, options.concurrency)
    print(
        f"{replay.header.run_id}: {len(campaign.cases):,} cases, {campaign.trials} trials of each.",
        file=sys.stdout if dry_run else sys.stderr,
    )
    print_estimate(size, dry_run=dry_run)
    if dry_run:
        return "", 0.0
    check_startable(campaign, registry, options)
    header = header_of(campaign, registry)
    with folded_store().read() as cursor:
        rows = stored_runs(cursor)
    twins = [row for row in rows if row.fingerprint == header.fingerprint and row.run_id not in bundled]
    complete = [row.run_id for row in twins if row.state == "complete"]
    if complete and not again:
        print(f"It was played again as {complete[0]}, which is compared; --again plays it once more.", file=sys.stderr)
        return complete[0], 0.0
    unfinished = unfinished_twin(header.fingerprint, {row.run_id: row.done for row in rows})
    if unfinished is not None and unfinished.run_id not in bundled:
        print(f"Resuming {unfinished.run_id}, an unfinished run of the same campaign.", file=sys.stderr)
        header = unfinished
    else:
        header = begin(header)
    with progress_bar(header.run_id) as show:
        outcome = carry_out(header, registry, replace(options, on_progress=show))
    if outcome.stopped is not None:
        print(f"{outcome.stopped} The same command goes on, and pays for no reply twice.", file=sys.stderr)
        return "", outcome.progress.cost_usd or 0.0
    return header.run_id, outcome.progress.cost_usd or 0.0


def _print_compared(compared: Sequence[ComparedFigure]) -> None:
    """Print the accuracies, and of the other figures those that are not equal."""
    equal = Counter(figure.figure for figure in compared if figure.state == "equal")
    for figure in compared:
        if figure.state != "equal" or figure.figure == ACCURACY:
            print(f"  {_in_words(figure)}")
    for name, count in equal.items():
        if name != ACCURACY:
            print(f"  equal: {name}, {count:,} rows")


def _in_words(figure: ComparedFigure) -> str:
    """Return a line: the figure, both values, and how large the difference could be."""
    values = " → ".join("–" if value is None else f"{value:.3f}" for value in (figure.first, figure.second))
    words = f"{figure.state}: {figure.figure} {figure.row}: {values}"
    if figure.state in ("equal", "not comparable") or figure.low is None or figure.high is None:
        return words
    cases = f" on {figure.n:,} cases" if figure.n is not None else ""
    largest = max(abs(figure.low), abs(figure.high))
    words += f" (95 % interval of the difference {figure.low:+.3f} to {figure.high:+.3f}{cases}"
    words += f"; it could be as large as {largest:.3f}" if figure.state == "within noise" else ""
    repeat = f"; chance alone: up to {figure.repeat:.3f}" if figure.repeat is not None else ""
    return f"{words}{repeat})"
