"""Options that several commands share; prints rows (as a table, CSV or JSON), estimates and progress."""

from __future__ import annotations

import csv
import difflib
import inspect
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.table import Table

from core.callbacks import StepProgress
from core.errors import AnamnesisError, UsageError
from core.export.withheld import ALLOW
from core.jobs.estimate import JobEstimate
from core.jobs.progress import Headway, Progress
from core.measures.base import Positional, cell_in_words
from core.measures.measuring import measure_trials
from core.measures.registry import measures
from core.models.prices import LOCAL
from core.models.registry import load_registry
from core.spreadsheets import inert
from core.store.conditions import SEPARATOR, doctor_of
from core.store.database import NotWritableError, Store
from core.store.fold import fold
from core.store.queries.runs import run_ids, stored_names
from core.store.selection import Selection
from core.words import duration, money

Runs = Annotated[list[str] | None, typer.Option(help="Only this run (repeat for several); also live conversations.")]
Models = Annotated[str | None, typer.Option(help="Only these models, separated by commas.")]
BaseUrl = Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server.")]
ConcurrencyOption = Annotated[
    int | None, typer.Option(min=1, help="Trials or requests at once; by default as many as the providers allow.")
]
Budget = Annotated[
    float | None,
    typer.Option(help="Stop when this many US dollars are spent. A resume keeps the budget; inf removes it."),
]
Batch = Annotated[bool, typer.Option("--batch", help="Use the provider's Batch API: half the price, within a day.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the estimate and start nothing.")]
AskNothing = Annotated[bool, typer.Option("--dry-run", help="Print the estimate and ask nothing.")]
Limit = Annotated[int | None, typer.Option(help="Only the first N of these cases.")]
CaseSample = Annotated[
    int | None, typer.Option("--sample", help="Only a random sample of N of these cases, stratified by specialty.")
]
SampleSeed = Annotated[int, typer.Option("--seed", help="Seed of the random sample.")]
Sample = Annotated[int | None, typer.Option(min=1, help="Only N conversations: a random sample, the same each time.")]
WithCases = Annotated[
    bool, typer.Option(ALLOW, help="Include texts of cases and conversations whatever the licence of a case.")
]
OutputFormat = Literal["table", "csv", "json"]
FormatOption = Annotated[OutputFormat, typer.Option("--format", help="How to print it.")]
OutputRow = dict[str, Any]
GivenOptions = dict[str, tuple[Any, Any]]
"""Option → its annotation, which typer reads, and its default."""


def with_options(command: Callable[..., int], given: GivenOptions, words: str) -> Callable[..., int]:
    """Give a command that takes ``**keywords`` the signature that typer reads, and its help text."""
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=d, annotation=a) for n, (a, d) in given.items()]
    )
    command.__annotations__ = {name: annotation for name, (annotation, _) in given.items()}
    command.__doc__ = words
    return command


def option_of(parameter: inspect.Parameter, of: str, **more: Any) -> Any:
    """Return the option that ``Annotated[type, "help"]`` describes; ``of`` is its owner, ``more`` is for typer."""
    if get_origin(parameter.annotation) is not Annotated:
        raise UsageError(f"The option {parameter.name!r} of a {of} lacks its help: write Annotated[type, 'help'].")
    kind, words = get_args(parameter.annotation)[:2]
    if isinstance(words, Positional):
        return Annotated[kind, typer.Argument(help=words)]
    return Annotated[kind, typer.Option(f"--{parameter.name.strip('_').replace('_', '-')}", help=words, **more)]


def model_names(models: str | None) -> list[str] | None:
    """Return the names under which models may be stored: those in the text, and the targets of aliases."""
    if models is None:
        return None
    aliases = {alias.lower(): name for alias, name in load_registry().aliases.items()}
    names = [name.strip() for name in models.split(",")]
    return [*names, *(aliases[name.lower()] for name in names if name.lower() in aliases)]


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function (done, planned) that shows a bar on stderr; without a terminal it does nothing."""
    if not sys.stderr.isatty():
        yield lambda done, planned: None
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, planned: bar.update(task, total=planned, completed=done)


@contextmanager
def counting_bytes() -> Iterator[StepProgress]:
    """Yield a function that shows each step on stderr: with a bar of its bytes on a terminal, else in a line."""
    console = Console(stderr=True)
    shown, task = "", TaskID(0)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:

        def show(done: int, planned: int, step: str = "") -> None:
            nonlocal shown, task
            if step != shown:
                for earlier in bar.task_ids:
                    bar.remove_task(earlier)
                shown, task = step, bar.add_task(step, total=None)
                if not console.is_terminal:
                    print(f"{step} …", file=sys.stderr, flush=True)
            bar.update(task, total=planned or None, completed=done)

        yield show


def print_estimate(size: JobEstimate, *, dry_run: bool) -> None:
    """Print the estimate of a job: on stdout for a dry run, else on stderr."""
    lines = [f"{', '.join(f'{number:,} {what}' for what, number in size.counts.items())}.", size.in_words]
    for role in size.roles:
        price = "price unknown" if role.cost_usd is None else LOCAL if role.source == LOCAL else money(role.cost_usd)
        lines.append(
            f"  {role.role:<11} {role.model:<40} {role.calls:>8,} calls "
            f"{role.prompt_tokens:>12,} + {role.completion_tokens:,} tokens  {price}"
        )
    print("\n".join(filter(None, [*lines, size.prices])), file=sys.stdout if dry_run else sys.stderr, flush=True)


def print_use(calls: int, tokens: int, cost_usd: float) -> None:
    if calls:
        print(f"{calls:,} calls, {tokens:,} tokens, ${cost_usd:,.2f} where prices are known.")


def print_names(replaced: int, *, with_names: bool) -> None:
    """Print whether an export has the names of people, or how many of them are numbers in it."""
    if with_names:
        print("Names of people are inside: pass it on only if they agree.")
    elif replaced:
        print(f"People whose names are numbers in it: {replaced:,} (--with-names keeps the names).")


def print_rows(rows: Sequence[OutputRow], format_: OutputFormat, decimals: str = ".6g") -> None:
    """Print rows; ``None`` and NaN are a dash in a table, empty in CSV and null in JSON."""
    nothing = "–" if format_ == "table" else None
    columns = list(dict.fromkeys(name for row in rows for name in row))  # published rows may have a label more
    printable = [
        {
            name: nothing if value is None or (isinstance(value, float) and math.isnan(value)) else value
            for name, value in ((name, row.get(name)) for name in columns)
        }
        for row in rows
    ]
    if format_ == "json":
        print(json.dumps(printable, indent=1))
    elif format_ == "csv":
        writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
        writer.writeheader()
        for row in printable:
            writer.writerow({k: format(v, decimals) if isinstance(v, float) else inert(v) for k, v in row.items()})
    else:
        heads = [name.replace("_", " ") for name in columns]
        lines = [[cell_in_words(name, value) for name, value in row.items()] for row in printable]
        # columns are fitted only to a terminal; a pipe gets every column in full
        fitted = sys.stdout.isatty()
        if not fitted and (text := _as_piped([heads, *lines])):
            print(text)
            return
        table = Table(*heads, box=None, pad_edge=False)
        for line in lines:
            table.add_row(*line)
        # names may contain brackets, which rich would read as markup
        Console(width=None if fitted else _PIPED, markup=False, emoji=False).print(table)


_PIPED = 240
"""Characters of a line in a pipe."""
_RICH = re.compile(r"[\x00-\x1f\x7f]")
"""Control characters, which rich interprets."""


def _as_piped(lines: Sequence[Sequence[str]]) -> str | None:
    """Return the same text as rich prints to a pipe, much faster; ``None`` if only rich can format it.

    Rich is needed if a line is too long for the pipe, or a cell contains control characters.
    """
    if len({len(line) for line in lines}) > 1 or any(_RICH.search(cell) for line in lines for cell in line):
        return None
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    if not all(widths) or sum(widths) + 2 * (len(widths) - 1) > _PIPED:
        return None
    padded = (
        [cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True)] for line in lines
    )
    return "\n".join("  ".join(line) for line in padded)


def folded_store() -> Store:
    """Fold the journals and return the store; damage is printed on stderr, because figures lack the damaged lines."""
    store = Store()
    report = fold(store)
    if report.skipped:
        print(report.skipped, file=sys.stderr)
    for damage in report.damaged:
        print(f"Not all is shown: {damage.message}", file=sys.stderr)
    return store


def measured_store() -> Store:
    """Return the store of ``folded_store`` after all its trials are measured."""
    store = folded_store()
    measure_stored(store)
    return store


_measured: dict[Path, str] = {}
"""Database → its version when all its trials were measured: to look again takes half a second."""


def measure_stored(store: Store) -> None:
    """Measure the stored trials that are not measured yet; a read-only database stays as it is."""
    if _measured.get(store.path) == store.version:
        return
    with counting("Measuring") as show, suppress(NotWritableError):
        measure_trials(store, measures().values(), progress=show)
    _measured[store.path] = store.version


def run_id_of(store: Store, name: str) -> str:
    """Return the id of a stored run, also of a release, from its id or a unique beginning of it."""
    with store.read() as cursor:
        stored = run_ids(cursor)
    matches = [run_id for run_id in stored if run_id == name] or [r for r in stored if r.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise UsageError(f"There is no run {name!r}; `python -m core runs` lists them.")
    raise UsageError(f"{name!r} is the beginning of {len(matches)} runs: {', '.join(matches[:5])}.")


def selected(
    store: Store,
    run: Sequence[str] | None,
    models: str | None = None,
    data_sets: str | None = None,
    published: Collection[str] = (),
) -> Selection:
    """Return the selection of these runs (by id or its beginning), models and data sets (both separated by commas).

    ``None`` is no restriction. Raises ``UsageError`` for a name under which nothing is stored, unless it is among the
    ``published`` models.
    """
    names, sets = None, None if data_sets is None else [name.strip() for name in data_sets.split(",")]
    if models is not None or sets is not None:
        with store.read() as cursor:
            stored = stored_names(cursor)
        names = None if models is None else _models_in(models, [*stored.models, *published])
        for name in sets or ():
            _check_stored("answers to cases of", [name], stored.data_sets)
    return Selection(runs=[run_id_of(store, name) for name in run] if run else None, models=names, case_sets=sets)


def _models_in(text: str, stored: Sequence[str]) -> list[str]:
    """Return the names in a comma-separated text, and what aliases among them stand for; ``stored`` are doctors' names.

    Names of conditions contain commas themselves (``openai/a · toes:1,2``): a piece that follows a condition and is no
    doctor's name belongs to that condition.
    """
    pieces: list[str] = []
    for piece in text.split(","):
        is_doctor = any(doctor_of(name) in stored for name in model_names(piece) or ())
        if not is_doctor and pieces and SEPARATOR in pieces[-1]:
            pieces[-1] += f",{piece}"
        else:
            pieces.append(piece)
    names = [[piece.strip()] if SEPARATOR in piece else model_names(piece) or [] for piece in pieces]
    for candidates in filter(any, names):
        _check_stored("answers or completions of", [doctor_of(name) for name in candidates], stored)
    return [name for candidates in names for name in candidates]


def _check_stored(what: str, names: Sequence[str], stored: Sequence[str]) -> None:
    """Raise ``UsageError`` if none of ``names`` is stored; for an empty store, the command itself says what to do."""
    if not stored or set(names) & set(stored):
        return
    near = difflib.get_close_matches(names[0], stored, n=3)
    others = f"did you mean {' or '.join(near)}?" if near else f"there are those of {', '.join(stored[:_NAMED])}."
    raise UsageError(f"There are no {what} {names[0]!r}; {others}")


_NAMED = 8
"""Names that a message lists."""
WithNames = Annotated[bool, typer.Option("--with-names", help="Keep the names of people, which are numbers otherwise.")]
Out = Annotated[Path, typer.Option("--out", help="The file to write; it must not exist yet.")]


@contextmanager
def new_file(out: Path) -> Iterator[Path]:
    """Yield a temporary path that becomes ``out`` when it is complete; raise if ``out`` exists or has no folder."""
    if out.exists():
        raise AnamnesisError(f"{out} exists already: choose another name.")
    if not out.parent.is_dir():
        raise UsageError(f"There is no folder {out.parent}.")
    written = out.with_name(f".{out.name}.{os.getpid()}.half")
    try:
        yield written
        os.replace(written, out)
    finally:
        written.unlink(missing_ok=True)


_LINE_EVERY_S = 60.0
_LOOK_EVERY_S = 0.2
"""A batch has tens of thousands of unfinished items, which each look counts."""


@contextmanager
def progress_bar(title: str, what: str = "trials") -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows progress on stderr; ``what`` names the items that are counted.

    The bar measures calls: items are finished late, and many at a time.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _ProgressLines(title, what)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[items]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[life]}"),
    )
    with Bar(*columns, console=console) as bar:
        task, printed_at, forecast_printed = bar.add_task(title, total=None, items="", life=""), 0.0, False

        def show(progress: Progress) -> None:
            nonlocal printed_at, forecast_printed
            if time.monotonic() - printed_at < _LOOK_EVERY_S and progress.replies is not None:
                return
            printed_at = time.monotonic()
            if not forecast_printed and (forecast_printed := bool(progress.forecast)):
                bar.console.print(f"{title}: {progress.forecast}")
            headway = progress.headway()
            words = filter(None, (_left_in_words(headway), progress.in_words()))
            items = f"{progress.done:,} of {progress.planned:,} {what}"
            bar.update(task, total=1.0, completed=headway.share, items=items, life="; ".join(words))

        yield show


def _left_in_words(headway: Headway) -> str:
    return f"about {duration(headway.seconds_left)} left" if headway.seconds_left else ""


class _ProgressLines:
    """Prints a line for each tenth of the work, for each batch that is sent, and after a minute without a line."""

    def __init__(self, title: str, what: str) -> None:
        self._title, self._what, self._last_tenth, self._printed_at = title, what, -1, time.monotonic()
        self._forecast_printed, self._batch_since, self._looked_at = False, 0.0, -math.inf

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._looked_at < _LOOK_EVERY_S and progress.replies is not None:
            return
        self._looked_at = now
        if not self._forecast_printed and (forecast := progress.forecast):
            self._forecast_printed = True
            print(f"{self._title}: {forecast}", file=sys.stderr, flush=True)
        if (waiting := progress.batches()) and waiting["since"] != self._batch_since:
            self._batch_since = waiting["since"]
            print(f"{self._title}: {waiting['words']}", file=sys.stderr, flush=True)
        headway = progress.headway()
        tenth = int(10 * headway.share)
        minute = now - self._printed_at >= _LINE_EVERY_S
        if tenth <= self._last_tenth and not minute:
            return
        self._last_tenth, self._printed_at = max(tenth, self._last_tenth), now
        calls = headway.calls_in_words if headway.calls else ""
        words = [progress.in_words() if minute else calls, _left_in_words(headway)]
        line = f"{self._title}: {progress.done:,} of {progress.planned:,} {self._what}"
        print("; ".join(filter(None, (line, *words))), file=sys.stderr, flush=True)
