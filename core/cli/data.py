"""``data``: lists the data sets, shows one, and deletes one."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from core import access
from core.case import Case
from core.cli.options import CaseSample, FormatOption, Limit, SampleSeed, folded_store, print_rows
from core.datasets import imported
from core.datasets.readers import FORMATS
from core.datasets.reading import ImportPreview, Remark, clipped
from core.datasets.select import SAMPLE_SEED, cases_of, datasets, select
from core.errors import AnamnesisError, UsageError
from core.images import local_images
from core.jobs.openings import openings_in_words
from core.jobs.plan import with_openings
from core.store.queries.case_labels import LABEL_FIELDS, NO, YES, LabelField, add_labels, label_of, labels_in_force
from core.store.queries.profiles import newest_profiles
from core.store.sample import add_sample, remove_sample
from core.text.case_items import opening_of, openings_by
from core.text.profiles import WITHOUT_PROFILE, own_profile

SHOWN = 10
"""Rows of one kind that are printed; the others are counted."""
_PROFILE_PARTS = (
    ("demographics", "Doctor and patient know"),
    ("basic", "Only the patient knows"),
    ("optional", "Only the clinical staff knows"),
)

app = typer.Typer(no_args_is_help=True, help="List, show and delete data sets.", rich_markup_mode=None)


@app.command("list")
def list_datasets() -> int:
    """List the data sets."""
    print(f"{'data set':<24} {'cases':>7} {'pictured':>9}  {'format':<20} {'imported':<16} licence")
    for name in datasets():
        cases, about = cases_of(name), imported.info(name) if name != "library" else None
        when = _when(about.imported_at) if about else "-"
        licence = about.licence if about else (cases[0].licence if cases else "")
        title, pictured = about.title if about else "-", sum(bool(local_images(case.images)) for case in cases)
        print(f"{name:<24} {len(cases):>7,} {pictured:>9,}  {title:<20} {when:<16} {licence or '-'}")
    return 0


@app.command("formats")
def list_formats() -> int:
    """List the formats that can be imported."""
    for data_format in FORMATS.values():
        print(f"{data_format.name:<17} {data_format.title}: {data_format.reads}")
        if data_format.source:
            print(f"{'':<17} {data_format.source}; licence: {data_format.licence}.")
    return 0


@app.command("show")
def show(name: Annotated[str, typer.Argument(help="Name of the data set.")]) -> int:
    """Show the source and contents of a data set, and which rows of its file were not used."""
    cases = cases_of(name)
    about = imported.info(name) if name != "library" else None
    print(f"{name}: {len(cases):,} cases")
    tell_pictures(cases)
    if about is not None:
        print(f"  {about.title} ({about.format}) from {about.file_name}, imported {_when(about.imported_at)}")
        print(f"  source: {about.source or '-'}; licence: {about.licence or '-'}")
        print(f"  the linter's remarks on import: {about.findings:,}, of which severe: {about.severe_findings:,}")
        for reason, count in about.left_out.items():
            print(f"  left out by the format: {count:,} × {reason}")
        tell_rows(about.rejected, about.unit, "Not used:", about.rejected_count)
        tell_rows(about.remarks, about.unit, "Remark:", about.remarks_count)
    elif cases:
        print(f"  source: {cases[0].source or '-'}; licence: {cases[0].licence or '-'}")
    tell_specialties(cases)
    return 0


@app.command("label")
def label_case(
    case_key: Annotated[str, typer.Argument(metavar="CASE", help="The case, DATASET/ID.")],
    field: Annotated[LabelField, typer.Argument(help="The field.")],
    value: Annotated[
        list[str] | None,
        typer.Argument(help="A specialty, a date, yes or no, or accepted answers; without it, no value."),
    ] = None,
    by: Annotated[str, typer.Option(help="Who says so.")] = "",
    reason: Annotated[str, typer.Option(help="Why.")] = "",
) -> int:
    """Label a case: figures group and filter by its labels, and nothing that a patient or doctor is told changes."""
    (case,) = _cases_named(case_key.partition("/")[0], case_key.partition("/")[2])
    text = "\n".join(value or ()) if field == "accepted" else " ".join(value or ())
    new = add_labels(folded_store(), [label_of(case, field, text, "person", by or access.visitor().name, reason)])
    print(
        f"{case.case_key}: {field} is {', '.join(text.splitlines()) or 'not labelled'}{'' if new else ', as before'}."
    )
    return 0


@app.command("labels")
def list_labels(
    name: Annotated[str, typer.Argument(help="Name of the data set.")],
    field: Annotated[LabelField | None, typer.Option(help="Only this field.")] = None,
    format_: FormatOption = "table",
) -> int:
    """List the labels that count, with who gave them, when and why."""
    texts = {(case.case_key, case.text_hash) for case in cases_of(name)}
    with folded_store().read() as cursor:
        stored = labels_in_force(cursor)
    rows = [
        {
            "case": label.case_key.partition("/")[2],
            "field": label.field,
            "value": "; ".join(label.value.splitlines()),
            "by": label.made_by or "-",
            "origin": label.origin,
            "when": _when(label.made_at),
            "note": label.note,
        }
        for about in sorted(stored.keys() & texts)
        for label in stored[about].values()
        if label.value and field in (None, label.field)
    ]
    if not rows:
        raise AnamnesisError(f"No case of {name} has such a label.")
    print_rows(rows, format_)
    return 0


@app.command("label-file")
def label_cases_of_file(
    name: Annotated[str, typer.Argument(help="Name of the data set.")],
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A .csv with columns case, field and value.")],
    by: Annotated[str, typer.Option(help="Who says so; by default the file.")] = "",
) -> int:
    """Label many cases from a file, such as their dates; `data labels NAME --format csv` prints such a table."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} cannot be read: {error}.") from error
    if missing := {"case", "field", "value"} - set(rows[0] if rows else ()):
        raise UsageError(f"{path} has no column {' and no column '.join(sorted(missing))}.")
    by_id = {case.case_key.partition("/")[2]: case for case in cases_of(name)}
    labels = []
    for number, row in enumerate(rows, start=2):
        case_id, field, value = ((row[column] or "").strip() for column in ("case", "field", "value"))
        if case_id not in by_id:
            raise UsageError(f"{path}, row {number}: the data set {name} has no case {case_id!r}.")
        if field not in LABEL_FIELDS:
            raise UsageError(f"{path}, row {number}: {field!r} is no field: choose {', '.join(LABEL_FIELDS)}.")
        text = value.replace(";", "\n") if field == "accepted" else value
        try:
            label = label_of(by_id[case_id], field, text, "person" if by else "file", by or path.name)
        except UsageError as error:
            raise UsageError(f"{path}, row {number}: {error}") from None
        labels.append(label)
    print(f"{add_labels(folded_store(), labels):,} of {len(labels):,} labels are new.")
    return 0


@app.command("development")
def mark_development(
    name: Annotated[str, typer.Argument(help="Name of the data set.")],
    ids: Annotated[str, typer.Argument(help="Ids of its cases, separated by commas.")],
    remove: Annotated[bool, typer.Option("--remove", help="Remove the mark.")] = False,
    by: Annotated[str, typer.Option(help="Who says so.")] = "",
    reason: Annotated[str, typer.Option(help="Why, for example which prompt was written with them.")] = "",
) -> int:
    """Mark cases that were used to write prompts: figures leave them out and say how many they are."""
    mark = NO if remove else YES
    maker = by or access.visitor().name
    labels = [label_of(case, "development", mark, "person", maker, reason) for case in _cases_named(name, ids)]
    new = add_labels(folded_store(), labels)
    print(f"{new:,} of {len(labels):,} cases of {name} are {'no longer' if remove else 'now'} marked as development.")
    return 0


def _cases_named(name: str, ids: str) -> list[Case]:
    """Return the cases of a data set by their ids; raises ``UsageError`` for an id that it lacks."""
    by_id = {case.case_key.partition("/")[2]: case for case in cases_of(name)}
    wanted = [case_id.strip() for case_id in ids.split(",") if case_id.strip()]
    if missing := [case_id for case_id in wanted if case_id not in by_id]:
        raise UsageError(f"The data set {name} has no case {missing[0]!r}.")
    return [by_id[case_id] for case_id in wanted]


@app.command("delete")
def delete(
    name: Annotated[str, typer.Argument(help="Name of the imported data set.")],
    yes: Annotated[bool, typer.Option("--yes", help="Confirm the deletion.")] = False,
) -> int:
    """Delete an imported data set; stored runs keep their cases."""
    if name in imported.names() and not yes:
        raise UsageError(f"The data set {name} would be deleted: add --yes to do it.")
    deleted = imported.delete(name)
    if deleted.pictures:
        pictures = "1 picture" if deleted.pictures == 1 else f"{deleted.pictures:,} pictures"
        print(
            f"Deleted the data set {name} with {deleted.cases:,} cases and {pictures}; stored runs keep their cases, "
            "without the pictures."
        )
    else:
        print(f"Deleted the data set {name} with {deleted.cases:,} cases; stored runs keep theirs.")
    return 0


def tell_specialties(cases: Sequence[Case]) -> None:
    for specialty, count in Counter(case.specialty for case in cases).most_common():
        print(f"  {specialty:<30} {count:>5}")


def tell_pictures(cases: Sequence[Case]) -> None:
    """Print how many cases have pictures, and how many have only the address of a picture; zeros are not printed."""
    local = sum(bool(local_images(case.images)) for case in cases)
    addresses = sum(bool(case.images) and not local_images(case.images) for case in cases)
    if local:
        print(f"  with a picture: {local:,}")
    if addresses:
        print(f"  with a picture's address only, which is never fetched: {addresses:,}")


@app.command("profile")
def profile(case_key: Annotated[str, typer.Argument(metavar="CASE", help="The case, DATASET/ID.")]) -> int:
    """Show the current patient profile of a case: who knows which fact."""
    dataset, slash, _ = case_key.partition("/")
    case = next((case for case in cases_of(dataset) if case.case_key == case_key), None) if slash else None
    if case is None:
        raise UsageError(f"There is no case {case_key!r}: give DATASET/ID, as `data profile library/cardiology-1`.")
    with folded_store().read() as cursor:
        stored = newest_profiles(cursor, [case_key]).get((case_key, case.content_hash))
    generated = stored.generated if stored else own_profile(case)
    if generated is None:
        print(f"{case_key} has no profile: {WITHOUT_PROFILE}. Make one with `job profiles --model`.")
        return 0
    version = f", version {stored.version}" if stored else ""
    print(f"{case_key}, by {generated.made_by}{version}")
    if generated.profile is None:
        print(f"Cannot become a patient ({(generated.reason or '').replace('_', ' ')}): {generated.note}")
        return 0
    if generated.note:
        print(generated.note)
    print(f"Who speaks: the {generated.speaker}.")
    for part, title in _PROFILE_PARTS:
        print(f"\n{title}:")
        for fact in getattr(generated.profile, part):
            mark = " (imputed)" if fact.imputed else ""
            lay = "" if part == "optional" else f" | {fact.lay}"
            print(f"  {fact.key}{mark}: {fact.value}{lay}")
    return 0


@app.command("openings")
def openings(
    cases: Annotated[str, typer.Argument(metavar="DATASET[:…]", help="The cases, as for run.")],
    limit: Limit = None,
    sample: CaseSample = None,
    seed: SampleSeed = SAMPLE_SEED,
) -> int:
    """Show how the patients of cases open a consultation, and who made the openings."""
    chosen, store = select(cases, limit, sample, seed), folded_store()
    for case in with_openings(chosen, store):
        print(f"{case.case_key}, by {openings_by([case])}: {opening_of(case)}")
    print(openings_in_words(chosen, store))
    return 0


def tell_rows(rows: Sequence[Remark], unit: str, words: str, total: int | None = None) -> None:
    """Print the first ``SHOWN`` rows with their reasons, and the number of the others; position 0 is the whole file."""
    for position, reason in rows[:SHOWN]:
        print(f"{words} {unit} {position}: {reason}." if position else f"{words.rstrip(':')}: {reason}.")
    more = (len(rows) if total is None else total) - SHOWN
    if more > 0:
        print(f"{words} {more:,} more.")


def tell_preview(preview: ImportPreview) -> None:
    """Print what an import would store, and every row that it would not use."""
    print(f"{preview.file}, as {preview.name}; nothing is stored yet.")
    for label, value in preview.understood.items():
        print(f"  {label}: {value}")
    for heading, rows in preview.rows.items():
        tell_rows(rows, f"{f'sheet {clipped(preview.sheet)}, ' if preview.sheet else ''}{preview.unit}", heading)
    if preview.replaces:
        print(f"There is a {preview.name} with other contents, which the import would replace.")


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


def sample(
    remove: Annotated[bool, typer.Option("--remove", help="Remove it, with everything computed from it.")] = False,
) -> int:
    """Add the sample study that comes with the program: reference doctors and a small real model, graded.

    Its figures are labelled as the sample's and are kept apart from yours.
    """
    store = folded_store()
    if remove:
        print(f"The sample study is gone: {remove_sample(store):,} runs.")
        return 0
    print(f"The sample study is here: {add_sample(store):,} runs. Look at it: python -m core serve")
    return 0
