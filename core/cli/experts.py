"""``experts``: reviews by experts: lists them, takes annotations in and out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.cli.options import Out, Printed, folded_store, new_file, print_rows
from core.errors import AnamnesisError
from core.measures.experts.reviewing import states
from core.measures.experts.workbooks import export_annotations, import_file, import_release_annotations

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
    if source == "release" and not Path(source).exists():
        found = import_release_annotations(store)
    else:
        found = import_file(store, Path(source).expanduser(), annotator)
    known = f"; {found.known:,} were here already" if found.known else ""
    print(f"{found.added:,} annotations of {found.items:,} items came in{known}.")
    print(f"{found.matched:,} of the items are stored here; the others were held elsewhere.")
    for line, reason in found.rejected[:_SHOWN]:
        print(f"Line {line} was left out: {reason}")
    if len(found.rejected) > _SHOWN:
        print(f"And {len(found.rejected) - _SHOWN:,} more lines.")
    if found.rejected and not found.items:
        raise AnamnesisError("No row could be used: nothing was taken in.")
    return 0


@app.command("export")
def export(out: Out) -> int:
    """Write every annotation with its history as CSV."""
    store = folded_store()
    with new_file(out) as written, written.open("w", encoding="utf-8", newline="") as file:
        count = export_annotations(store, file)
    print(f"Wrote {count:,} annotations to {out}.")
    return 0
