"""``import NAME``: brings in what the authors of a framework released, with conversations, answers and grades."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from core.cli.options import counting
from core.datasets.archive import GIGABYTE, Limits, opened
from core.datasets.download import archive_url, downloaded, is_url
from core.errors import UsageError
from core.frameworks.release import Release
from core.jobs.release.importing import import_release
from core.store.database import Store

_SHOWN_FAULTS = 20


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
        with _local(source, limits) as path, opened(path, release.wanted, limits) as folder:
            layout = release.find(folder, source)
            picked = layout.chosen([name.strip() for name in models.split(",") if name.strip()] if models else None)
            files, done = sum(len(model.case_ids) for model in picked), itertools.count(1)
            with counting("Reading case files") as show:
                report = import_release(Store(), layout, picked, lambda: show(next(done), files))
        for model in report.models:
            parts = [
                (model.taken - model.replaced, "files new"),
                (model.replaced, "changed (their trials were replaced)"),
                (model.unchanged, "as they were"),
                (model.kept, "from earlier imports not in this copy (kept)"),
            ]
            words = ", ".join(f"{count:,} {what}" for count, what in parts if count) or "no file could be used"
            trials = f"; {model.trials:,} trials came in" if model.trials else ""
            print(f"{model.label} ({model.folder}): {words}{trials}.")
            if model.own_cases:
                print(f"  Its files bring {model.own_cases:,} cases of their own: data set {release.own_cases}.")
            for remark in model.remarks:
                print(f"  {remark} The case goes without it.")
            for reason, count in model.excluded.most_common():
                print(f"  {count:,} answers do not count: {reason}.")
            if len(model.prompts) > 1:
                found = ", ".join(f"{hash_} ({count:,})" for hash_, count in model.prompts.most_common())
                print(f"  Its conversations were held under {len(model.prompts)} different prompts: {found}.")
            elif model.prompts:
                print(f"  Doctor's prompt: {next(iter(model.prompts))}.")
        for line, reason in report.rejected_cases:
            print(f"The data set's file, line {line}, was left out: {reason}.")
        if report.quarantined:
            print(f"Set aside, nothing of them was taken ({len(report.quarantined):,} files):")
        for file in report.quarantined[:_SHOWN_FAULTS]:
            print(f"  {file.path}: {file.fault}.")
        rest = Counter(file.path.rpartition("/")[0] for file in report.quarantined[_SHOWN_FAULTS:])
        for folder_name, number in rest.items():
            print(f"  and {number:,} more in {folder_name}.")
        if report.documents:
            print(f"Kept as they are: {', '.join(report.documents)}.")
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
