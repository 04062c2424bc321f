"""``experts``: lists reviews by experts, imports and exports their annotations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.cli.options import FormatOption, Out, folded_store, new_file, print_rows, run_id_of
from core.datasets.case_fields import FIELDS, read_where
from core.errors import AnamnesisError
from core.measures.experts.filling import fill
from core.measures.experts.workbooks import export_annotations, import_file, import_release_annotations
from core.paths import expanded
from core.reviews.reviewing import plan_review, withdraw
from core.reviews.state import state_of, states, withheld_in_words
from core.store.queries.case_labels import LABEL_FIELDS
from core.store.review_records import SAMPLINGS, THIRD, planned

app = typer.Typer(no_args_is_help=True, help="Reviews by experts.", rich_markup_mode=None)
_SHOWN = 20
"""Rejected rows that are printed; the others are counted."""


@app.command("list")
def list_reviews(format_: FormatOption = "table") -> int:
    """List the reviews and how far each annotator is."""
    rows = [
        {
            "review": state.review.name,
            "about": state.review.plan.kind,
            "items": len(state.items),
            "annotator": progress.annotator,
            "done": progress.done,
            "of": progress.items,
            "ties_waiting": progress.ties,
            "blinded": "yes" if state.blinded else "no",
        }
        for state in states(folded_store())
        for progress in state.progress
    ]
    if not rows:
        raise AnamnesisError("There is no review yet: plan one on Judges, under Experts (`python -m core serve`).")
    print_rows(rows, format_)
    return 0


@app.command("plan")
def plan(
    name: Annotated[str, typer.Argument(help="Name of the review.")],
    kind: Annotated[str, typer.Option(help="What is judged: the name of a form, such as conversations.")],
    annotators: Annotated[str, typer.Option(help="Names of the annotators, separated by commas.")],
    number: Annotated[int, typer.Option(min=1, help="Number of items.")] = 30,
    where: Annotated[
        list[str] | None, typer.Option(help=f"FIELD=VALUE: only such cases, by {', '.join(FIELDS)} (repeatable).")
    ] = None,
    run: Annotated[list[str] | None, typer.Option(help="Only conversations of this run (repeatable).")] = None,
    models: Annotated[str | None, typer.Option(help="Only conversations of these doctors, with commas.")] = None,
    cases: Annotated[str, typer.Option(help="The data set of reviews of cases and vignettes.")] = "library",
    answers_in: Annotated[str, typer.Option("--format", help="The format of the free responses.")] = "multi_turn",
    sampling: Annotated[str, typer.Option(help=f"How items are drawn: {', '.join(SAMPLINGS)}.")] = "random",
    shared: Annotated[float, typer.Option(min=0, max=1, help="Share of items that several annotators see.")] = THIRD,
    seed: Annotated[int, typer.Option(min=0, help="Draws and shuffles the items.")] = 20,
) -> int:
    """Plan a review: draw its items and assign them to annotators, who answer on Judges, under Experts."""
    store = folded_store()
    people = tuple(filter(None, (person.strip() for person in annotators.split(","))))
    review = plan_review(
        store,
        name,
        planned(
            kind=kind,
            number=number,
            annotators=people,
            runs=tuple(run_id_of(store, run_name) for run_name in run or ()),
            models=tuple(filter(None, (model.strip() for model in (models or "").split(",")))),
            where=tuple(read_where(where or ())),
            case_set=cases,
            format=answers_in,
            sampling=sampling,
            shared=shared if len(people) > 1 else 0.0,
            seed=seed,
        ),
    )
    print(f"The review {review.name} is planned: {number:,} items for {', '.join(people)}.")
    return 0


@app.command("import")
def import_annotations(
    source: Annotated[str, typer.Argument(metavar="FILE|release", help="A .csv, or the word release.")],
) -> int:
    """Import annotations: from a CSV, or those of the authors' release."""
    store = folded_store()
    if source == "release" and not Path(source).exists():
        report = import_release_annotations(store)
    else:
        report = import_file(store, expanded(source))
    unchanged = f"; {report.unchanged:,} were stored before" if report.unchanged else ""
    print(f"{report.added:,} annotations of {report.items:,} items imported{unchanged}.")
    print(f"{report.matched:,} of the items are conversations stored here.")
    for line, reason in report.rejected[:_SHOWN]:
        print(f"Line {line} was left out: {reason}")
    if len(report.rejected) > _SHOWN:
        print(f"And {len(report.rejected) - _SHOWN:,} more lines.")
    if report.rejected and not report.items:
        raise AnamnesisError("No row could be used: nothing was imported.")
    return 0


@app.command("fill")
def fill_cases(review: Annotated[str, typer.Argument(help="An unblinded review of cases, by name.")]) -> int:
    """Fill fields of cases with the decided answers of a review, such as single_diagnosis and accepted answers."""
    store = folded_store()
    filling, new = fill(store, state_of(store, review))
    for field in LABEL_FIELDS:
        if count := filling.count(field):
            print(f"{field}: {count:,} cases")
    print(f"{new:,} of these labels are new or differ from those in force.")
    for reason, count in filling.left_out.items():
        print(f"Left out: {count:,} × {reason}.")
    for case_key, names in list(filling.minority.items())[:_SHOWN]:
        print(
            f"{case_key}: named by half of its annotators or fewer, and not accepted: {'; '.join(names)}. To accept: "
            f"`python -m core data label {case_key} accepted NAME`."
        )
    return 0


@app.command("withdraw")
def withdraw_review(
    review: Annotated[str, typer.Argument(help="The review, by name.")],
    reason: Annotated[str, typer.Option(help="Why; stored in the journal next to the annotations.")],
) -> int:
    """Withdraw a review with all its annotations: no figure counts them any more. This cannot be undone."""
    print(f"The review {withdraw(folded_store(), review, reason).name} was withdrawn.")
    return 0


@app.command("export")
def export(out: Out) -> int:
    """Write annotations with their history as CSV; those of reviews in progress only once they are unblinded."""
    store = folded_store()
    with new_file(out) as written, written.open("w", encoding="utf-8", newline="") as file:
        count, withheld = export_annotations(store, file)
    print(f"Wrote {count:,} annotations to {out}.")
    if withheld:
        print(withheld_in_words(withheld))
    return 0
