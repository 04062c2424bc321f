"""``rubrics``: lists, shows, checks, imports and exports rubrics."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from core.cli.data import tell_preview
from core.cli.options import folded_store, new_file
from core.datasets.select import cases_of, datasets
from core.errors import UsageError
from core.judging.form import Form
from core.judging.rubric import cases_of_rubric, name_of, rubric_files, to_yaml, version_of
from core.measures.rubrics.lint import RubricWarning, lint_rubric
from core.measures.rubrics.readers import import_rubric
from core.reviews.rubrics import rubric_entries, rubric_named, save_rubric
from core.store.queries.rubrics import remove_rubric, saved_rubrics

app = typer.Typer(no_args_is_help=True, help="List, check, import and export rubrics.", rich_markup_mode=None)
_Name = Annotated[str, typer.Argument(help="Name of the rubric.")]
_SHOWN = 20
"""Warnings and rejected records that are printed; the others are counted."""


@app.command("list")
def list_rubrics() -> int:
    """List the rubrics with their sizes and versions."""
    print(f"{'rubric':<24} {'criteria':>8} {'cases':>7}  {'version':<9} {'from':<8} title")
    for name, (rubric, saved) in rubric_entries(folded_store()).items():
        size, cases, origin = len(rubric.questions), len(cases_of_rubric(rubric)), "saved" if saved else "file"
        print(f"{name:<24} {size:>8,} {cases:>7,}  {version_of(rubric)[:8]:<9} {origin:<8} {rubric.title}")
    return 0


@app.command("show")
def show(name: _Name, case: Annotated[str | None, typer.Option(help="Only this case, by its key.")] = None) -> int:
    """Print the criteria of a rubric."""
    rubric = rubric_named(folded_store(), name)
    print(f"{name}, version {version_of(rubric)[:8]}: {rubric.title}; source: {rubric.source or '-'}")
    for criterion in rubric.questions:
        scope = next(iter((*criterion.cases, *criterion.specialties)), "all")
        if case in (None, scope):
            condition = f" [if: {criterion.when}]" if criterion.when else ""
            print(
                f"{scope:<28} {criterion.id:<20} {criterion.points:>4g}  {criterion.priority:<8} "
                f"{criterion.axis:<15} {criterion.wording}{condition}"
            )
    return 0


@app.command("lint")
def lint(source: Annotated[str, typer.Argument(metavar="NAME|PATH", help="Name of a rubric, or a file.")]) -> int:
    """Warn about criteria that may be worded badly; a person decides, no rule changes a rubric."""
    path = Path(source).expanduser()
    if path.exists() and source not in rubric_files():
        rubric = import_rubric(path, path.stem).form
    else:
        rubric = rubric_named(folded_store(), source)
    warnings = _warnings(rubric)
    size, cases = len(rubric.questions), len(cases_of_rubric(rubric))
    print(f"{name_of(rubric)}: {size:,} criteria for {cases:,} cases, {len(warnings):,} warnings.")
    _print_warnings(warnings, len(warnings))
    return 0


@app.command("import")
def import_(
    path: Annotated[Path, typer.Argument(help="YAML, CSV, Excel, JSON, JSON Lines or Parquet.")],
    name: Annotated[str | None, typer.Option(help="Name of the rubric; by default the file's.")] = None,
    data_set: Annotated[str, typer.Option(help="Data set of the cases, if the file has their ids alone.")] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Make a new version of a rubric of this name.")] = False,
    preview: Annotated[bool, typer.Option("--preview", help="Show what would be imported, and store nothing.")] = False,
) -> int:
    """Import a rubric; one of the same name with other contents gets a new version only with --replace."""
    path = path.expanduser()
    read = import_rubric(path, name or path.stem.lower(), data_set=data_set)
    shown = read.preview(path.name, {stored: entry.form for stored, entry in rubric_entries(folded_store()).items()})
    if preview:
        tell_preview(shown)
        return 0
    if shown.replaces and not replace:
        raise UsageError(
            f"There is a rubric {shown.name} with other contents: import {path.name} under another --name, or make a "
            "new version of it with --replace. Nothing was imported."
        )
    with folded_store().write() as connection:
        version = save_rubric(connection, read.form).rubric_hash[:8]
    print(f"Imported the rubric {shown.name}: {len(read.form.questions):,} criteria, version {version}.")
    for position, reason in read.rejected[:_SHOWN]:
        print(f"Not used: {read.unit} {position}: {reason}.", file=sys.stderr)
    if more := len(read.rejected[_SHOWN:]):
        print(f"Not used: {more:,} more.", file=sys.stderr)
    _print_warnings(_warnings(read.form), _SHOWN)
    return 0


@app.command("export")
def export(
    name: _Name, out: Annotated[Path | None, typer.Option(help="The YAML file; by default it is printed.")] = None
) -> int:
    """Write a rubric as YAML, to edit it and import it again."""
    text = to_yaml(rubric_named(folded_store(), name))
    if out is None:
        print(text, end="")
        return 0
    with new_file(out) as file:
        file.write_text(text, encoding="utf-8")
    print(f"Wrote {out}.")
    return 0


@app.command("delete")
def delete(name: _Name, yes: Annotated[bool, typer.Option("--yes", help="Confirm the deletion.")] = False) -> int:
    """Delete all saved versions of a rubric; a rubric of the program returns to its file. Verdicts stay."""
    store = folded_store()
    with store.read() as cursor:
        if not saved_rubrics(cursor, name):
            raise UsageError(f"No version of a rubric {name!r} is saved.")
    if not yes:
        raise UsageError(f"All saved versions of the rubric {name} would be deleted: add --yes to do it.")
    with store.write() as connection:
        count = remove_rubric(connection, name)
    print(f"Deleted {count:,} versions of the rubric {name}.")
    return 0


def _warnings(rubric: Form) -> list[RubricWarning]:
    """Check a rubric against the cases of the data sets that it names, if these are imported."""
    prefixes = {key.partition("/")[0] for key in cases_of_rubric(rubric)}
    cases = [case for name in datasets() if name in prefixes for case in cases_of(name)]
    by_key = {case.case_key: case for case in cases}
    # without the data set every key would be unknown
    return lint_rubric(rubric, by_key if by_key else None)


def _print_warnings(warnings: list[RubricWarning], most: int) -> None:
    for warning in warnings[:most]:
        print(f"{warning.scope} {warning.criterion}: {warning.fault}: {warning.message}.")
    if more := warnings[most:]:
        counts = ", ".join(f"{fault} {n:,}" for fault, n in Counter(warning.fault for warning in more).most_common())
        print(f"{len(more):,} more warnings: {counts}. See all: python -m core rubrics lint NAME")
