"""``import NAME``: brings in what the authors of a framework released, with conversations, answers and grades."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from core.cli.options import counting
from core.datasets.archive import GIGABYTE, Limits
from core.datasets.download import archive_url, downloaded, is_url
from core.errors import UsageError
from core.frameworks.release import Release
from core.jobs.release.importing import import_copy, report_lines
from core.store.database import Store


def command_of(release: Release) -> Callable[..., int]:
    """Return the command that imports a release."""

    def command(
        source: Annotated[
            str, typer.Argument(metavar="PATH|URL", help="Folder, .zip or .tar.* of the authors' repository.")
        ],
        models: Annotated[str | None, typer.Option(help="Only these models, with commas: labels or folders.")] = None,
        max_gb: Annotated[float, typer.Option("--max-gb", help="Most gigabytes an archive may unpack to.")] = 4.0,
    ) -> int:
        if max_gb <= 0:
            raise UsageError("--max-gb must be more than 0.")
        limits = Limits(total_bytes=int(max_gb * GIGABYTE))
        named = [name.strip() for name in models.split(",") if name.strip()] if models else None
        with _local(source, limits) as path, counting("Reading case files") as show:
            report = import_copy(Store(), release, path, source, named, limits, progress=show)
        for line in report_lines(report, release):
            print(line)
        if report.saved_cases:
            print(f"The {report.cases:,} cases are now the data set {release.name}: `run --cases {release.name}`.")
        if report.saved_own_cases:
            own = release.own_cases
            print(
                f"{report.saved_own_cases:,} cases of the results' own are now the data set {own}: `run --cases {own}`."
            )
        if report.changed:
            print("See them with: python -m core report accuracy, or python -m core runs")
        return 0

    command.__doc__ = f"Import {release.about}; a file that cannot be used is set aside by name, the others go in."
    return command


@contextmanager
def _local(source: str, limits: Limits) -> Iterator[Path]:
    if not is_url(source):
        yield Path(source).expanduser()
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
