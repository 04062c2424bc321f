"""``experts``: reviews by experts: lists them, takes annotations in and out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from core.cli.options import Out, Printed, folded_store, new_file, print_rows
from core.errors import AnamnesisError
from core.measures.experts.vignette_workbooks import (
    SHEETS,
    is_vignette_workbook,
    take_vignette_workbook,
    vignette_workbook,
)
from core.measures.experts.workbooks import export_annotations, import_file, import_release_annotations
from core.reviews.reviewing import states, withdraw

app = typer.Typer(no_args_is_help=True, help="Reviews by experts.", rich_markup_mode=None)
_SHOWN = 20
"""Rejected rows that are told one by one."""


@app.command("list")
def list_reviews(format_: Printed = "table") -> int:
    """List the reviews and how far each annotator is."""
    rows = [
        {
            "review": state.review.name,
            "about": state.review.plan.kind,
            "items": len(state.items),
            "annotator": one.annotator,
            "done": one.done,
            "of": one.items,
            "ties_waiting": one.ties,
            "blinded": "no" if state.review.unblinded else "yes",
        }
        for state in states(folded_store())
        for one in state.progress
    ]
    if not rows:
        raise AnamnesisError("There is no review yet: plan one on Judges, under Experts (`python -m core serve`).")
    print_rows(rows, format_)
    return 0


@app.command("import")
def import_annotations(
    source: Annotated[
        str, typer.Argument(metavar="FILE|release", help="A .csv, a workbook (.xlsx), or the word release.")
    ],
    annotator: Annotated[str | None, typer.Option(help="Whose workbook it is, where its name does not tell.")] = None,
) -> int:
    """Take annotations in: a CSV, a workbook as the authors' release has them, or all of the imported release's."""
    store = folded_store()
    path = Path(source).expanduser()
    if path.suffix.lower() == ".xlsx" and path.is_file() and is_vignette_workbook(path.read_bytes()):
        returned = take_vignette_workbook(store, path.read_bytes())
        print(f"{returned.answers:,} answers to vignettes came in; {returned.unchanged:,} were here already.")
        _print_rejected(returned.rejected)
        if returned.rejected and not returned.answers + returned.unchanged:
            raise AnamnesisError("No row could be used: nothing was taken in.")
        return 0
    if source == "release" and not Path(source).exists():
        found = import_release_annotations(store)
    else:
        found = import_file(store, path, annotator)
    known = f"; {found.unchanged:,} were here already" if found.unchanged else ""
    print(f"{found.added:,} annotations of {found.items:,} items came in{known}.")
    print(f"{found.matched:,} of the items are stored here; the others were held elsewhere.")
    _print_rejected(found.rejected)
    if found.rejected and not found.items:
        raise AnamnesisError("No row could be used: nothing was taken in.")
    return 0


def _print_rejected(rejected: Sequence[tuple[int, str]]) -> None:
    for line, reason in rejected[:_SHOWN]:
        print(f"Line {line} was left out: {reason}")
    if len(rejected) > _SHOWN:
        print(f"And {len(rejected) - _SHOWN:,} more lines.")


@app.command("workbook")
def workbook(
    review: Annotated[str, typer.Argument(help="A review of vignettes, by name.")],
    annotator: Annotated[str, typer.Option(help="Who fills it in.")],
    out: Out,
) -> int:
    """Write the vignettes that an expert answers next as a workbook (.xlsx); choices once the own words are back."""
    asked, content = vignette_workbook(folded_store(), review, annotator)
    with new_file(out) as written:
        written.write_bytes(content)
    print(f"Wrote {out} ({SHEETS[asked].lower()}). Take it in again with `python -m core experts import {out}`.")
    return 0


@app.command("withdraw")
def withdraw_review(
    review: Annotated[str, typer.Argument(help="The review, by name.")],
    reason: Annotated[str, typer.Option(help="Why; it stands in the journal with what was said.")],
) -> int:
    """Take a review back with all that was said in it: no figure counts it, and no fold brings it back."""
    print(f"The review {withdraw(folded_store(), review, reason).name} was withdrawn.")
    return 0


@app.command("export")
def export(out: Out) -> int:
    """Write every annotation with its history as CSV."""
    store = folded_store()
    with new_file(out) as written, written.open("w", encoding="utf-8", newline="") as file:
        count = export_annotations(store, file)
    print(f"Wrote {count:,} annotations to {out}.")
    return 0
