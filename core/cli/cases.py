"""``import``: imports cases from files, and authors' releases with conversations, answers and grades."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from core.cli.conversations import import_command
from core.cli.data import SHOWN, tell_pictures, tell_preview, tell_rows, tell_specialties
from core.cli.inspect_logs import import_inspect
from core.cli.options import counting
from core.datasets.archive import GIGABYTE, ArchiveLimits
from core.datasets.download import archive_url, downloaded, is_url
from core.datasets.importing import credited, import_file, list_in, name_of, preview_of
from core.datasets.readers import FORMATS, read_cases
from core.datasets.select import select
from core.errors import UsageError
from core.frameworks.base import frameworks
from core.frameworks.release import Release
from core.jobs.release.importing import import_copy, report_lines
from core.paths import expanded
from core.store.database import Store
from core.store.queries.case_labels import add_labels_of_file
from core.store.queries.history_items import save_items_of_facts

app = typer.Typer(no_args_is_help=True, help="Import cases from files.", rich_markup_mode=None)


def _command_of(release: Release) -> Callable[..., int]:
    def command(
        source: Annotated[
            str, typer.Argument(metavar="PATH|URL", help="Folder, .zip or .tar.* of the authors' repository.")
        ],
        models: Annotated[str | None, typer.Option(help="Only these models: labels or folders, with commas.")] = None,
        max_gb: Annotated[float, typer.Option("--max-gb", help="Maximum unpacked size of an archive.")] = 4.0,
    ) -> int:
        if max_gb <= 0:
            raise UsageError("--max-gb must be more than 0.")
        limits = ArchiveLimits(total_bytes=int(max_gb * GIGABYTE))
        labels = [name.strip() for name in models.split(",") if name.strip()] if models else None
        with _fetched(source, limits) as path, counting("Reading case files") as show:
            report = import_copy(Store(), release, path, source, labels, limits, progress=show)
        for line in report_lines(report, release):
            print(line)
        if report.saved_cases:
            print(f"The {report.cases:,} cases are now the data set {release.name}: `run --cases {release.name}`.")
        if report.saved_own_cases:
            own = release.own_cases
            print(f"{report.saved_own_cases:,} cases that only the results contain are now {own}: `run --cases {own}`.")
        if report.changed:
            print("See them with: python -m core report accuracy, or python -m core runs")
        return 0

    command.__doc__ = f"Import {release.about}; an unusable file is skipped and named, the others are imported."
    return command


@contextmanager
def _fetched(source: str, limits: ArchiveLimits) -> Iterator[Path]:
    if not is_url(source):
        yield expanded(source)
        return
    console = Console(stderr=True)
    columns = (TextColumn("Downloading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def show(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)

        with downloaded(archive_url(source), limits.total_bytes, show) as path:
            bar.stop()
            yield path


for _release in filter(None, (framework.publication.release for framework in frameworks().values())):
    app.command(_release.name)(_command_of(_release))

app.command("inspect")(import_inspect)
app.command("conversations")(import_command)


@app.command("cases")
def import_cases(
    path: Annotated[Path, typer.Argument(help="A CSV, JSON, JSON Lines or Parquet file, or a zip of one.")],
    name: Annotated[str | None, typer.Option(help="Name of the data set; the file's name otherwise.")] = None,
    format_: Annotated[
        str, typer.Option("--format", help=f"auto, or one of {', '.join(FORMATS)} (see `data formats`).")
    ] = "auto",
    columns: Annotated[
        str | None, typer.Option(help="Which column is which field: vignette=text,options=a+b+c+d,answer=label.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip rows that cannot be used.")] = False,
    source: Annotated[str | None, typer.Option(help="Where the cases are from.")] = None,
    licence: Annotated[
        str | None, typer.Option(help="Their licence; without it their texts are not passed on.")
    ] = None,
    published: Annotated[
        bool,
        typer.Option("--published", help="The file is the published set of its format: with that source and licence."),
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a data set of this name.")] = False,
    preview: Annotated[bool, typer.Option("--preview", help="Show what would be imported, and store nothing.")] = False,
) -> int:
    """Import cases. If one row cannot be used, nothing is imported, unless --skip-bad is given."""
    if preview:
        with counting("Reading the file") as show, list_in(path) as file:
            dataset = name or name_of(path)
            read = read_cases(file, dataset, format_, columns_of(columns), show)
            if read.cases:
                read.cases = credited(read, source, licence, published)
            tell_preview(preview_of(read, path.name, dataset))
        return 0
    with counting("Reading the file") as show:
        done = import_file(
            path, name, format_, columns_of(columns), skip_bad, source, licence, published, replace, show
        )
    reading = done.reading
    labels = add_labels_of_file(Store(), reading.cases, path.name)
    print(f"Imported {len(reading.cases)} cases as data set {done.dataset!r}.")
    if done.replaced:
        print(done.replaced)
    print(f"Format: {FORMATS[reading.format].title}; licence: {reading.cases[0].licence or 'not known'}.")
    tell_pictures(reading.cases)
    tell_specialties(reading.cases)
    if labels:
        print(f"Labels of the file: {', '.join(f'{field} of {count:,} cases' for field, count in labels.items())}.")
    for reason, count in Counter(reason for _, reason in reading.left_out).most_common(SHOWN):
        print(f"Left out by the format: {count:,} × {reason}.")
    tell_rows(reading.rejected, reading.unit, "Left out")
    tell_rows(reading.remarks, reading.unit, "Remark")
    # a finding that many cases share is printed once
    by_message = Counter(finding.message for finding in done.findings)
    frequent = [message for message, count in by_message.items() if count > SHOWN]
    for message in frequent:
        print(f"Note {by_message[message]:,} cases: {message}.")
    single = [finding for finding in done.findings if finding.message not in frequent]
    for finding in single[:SHOWN]:
        print(f"Note {finding.case_key}: {finding.message}.")
    if len(single) > SHOWN:
        print(f"Note: {len(single) - SHOWN} more remarks; see `python -m core check cases {done.dataset}`.")
    print(f"Run them with: python -m core run --doctor reference/bayes --cases {done.dataset} --limit 20")
    return 0


@app.command("items")
def import_items(
    path: Annotated[Path, typer.Argument(help="A JSON or JSON Lines file of MediQ, with context and facts.")],
    cases: Annotated[str, typer.Option(help="DATASET, DATASET:SPECIALTY, or DATASET:id,id,…")],
) -> int:
    """Use MediQ's atomic facts as the items of a complete history, against which history taking is measured."""
    stored, unmatched, rejected = save_items_of_facts(Store(), path, select(cases))
    print(f"Items of {stored:,} cases. To measure their conversations again: python -m core report history")
    if unmatched or rejected:
        print(f"{unmatched:,} records match none of these cases; {rejected:,} cannot be read.", file=sys.stderr)
    return 0


def columns_of(text: str | None) -> dict[str, str] | None:
    """Read ``vignette=text,answer=label``; raises ``UsageError`` for another syntax."""
    if text is None:
        return None
    columns: dict[str, str] = {}
    for part in text.split(","):
        field, equals, column = part.partition("=")
        if not equals or not field.strip() or not column.strip() or field.strip() in columns:
            raise UsageError(f"--columns {text!r} is not understood: write vignette=THEIRS,answer=THEIRS, each once.")
        columns[field.strip()] = column.strip()
    return columns
