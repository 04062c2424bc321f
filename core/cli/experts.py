"""``experts``: a review by people from its plan to its end, by commands and CSV files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.cli.options import FormatOption, Out, folded_store, new_file, print_rows, run_id_of
from core.datasets.case_fields import FIELDS, read_where
from core.errors import AnamnesisError
from core.measures.experts.filling import fill
from core.measures.experts.workbooks import import_release_answers
from core.paths import expanded
from core.reviews.answering import record
from core.reviews.exchange import export_answers, import_file, write_sheet
from core.reviews.reviewing import plan_review, unblind, withdraw
from core.reviews.rubrics import any_form
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
        raise AnamnesisError("There is no review yet: plan one on Trust, under Experts (`python -m core serve`).")
    print_rows(rows, format_)
    return 0


@app.command("plan")
def plan(
    name: Annotated[str, typer.Argument(help="Name of the review.")],
    kind: Annotated[str, typer.Option(help="What is judged: a form, such as conversations, or rubric:NAME.")],
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
    """Plan a review: draw its items and assign them to annotators, who answer on Trust, under Experts."""
    store = folded_store()
    review = plan_review(
        store,
        name,
        planned(
            kind=kind,
            number=number,
            annotators=annotators,
            runs=tuple(run_id_of(store, run_name) for run_name in run or ()),
            models=tuple(filter(None, (model.strip() for model in (models or "").split(",")))),
            where=tuple(read_where(where or ())),
            case_set=cases,
            format=answers_in,
            sampling=sampling,
            shared=shared,
            seed=seed,
            form=any_form(store, kind),
        ),
    )
    print(f"The review {review.name} is planned: {number:,} items for {', '.join(review.plan.annotators)}.")
    if ties := review.plan.ties_in_words:
        print(ties)
    return 0


@app.command("sheet")
def sheet(
    review: Annotated[str, typer.Argument(help="The review, by name.")],
    annotator: Annotated[str, typer.Option(help="Whose questions are written.")],
    out: Out,
) -> int:
    """Write an annotator's open questions as CSV, with the blinded items; `experts import` reads the answers."""
    store = folded_store()
    with new_file(out) as written, written.open("w", encoding="utf-8", newline="") as file:
        count = write_sheet(store, review, annotator, file)
    print(f"Wrote {count:,} questions to {out}: fill the column value, then `python -m core experts import {out}`.")
    return 0


@app.command("answer")
def answer(
    review: Annotated[str, typer.Argument(help="The review, by name.")],
    item: Annotated[int, typer.Argument(help="Number of the item, as in its sheet.")],
    question: Annotated[str, typer.Argument(help="Id of the question.")],
    value: Annotated[str, typer.Argument(help="The answer.")],
    annotator: Annotated[str, typer.Option(help="Who answers.")],
    reason: Annotated[str, typer.Option(help="Why an earlier answer is changed.")] = "",
) -> int:
    """Answer a question of a review. Of an item on which its annotators are tied, this is what they agreed on."""
    store = folded_store()
    record(store, review, item, annotator, question, value, reason)
    left = state_of(store, review).missing
    print(f"Saved. The review lacks {left:,} answers." if left else "Saved. The review is complete.")
    return 0


@app.command("import")
def import_answers(
    source: Annotated[str, typer.Argument(metavar="FILE|release", help="A .csv, or the word release.")],
    review: Annotated[str, typer.Option(help="The review of rows that name none, by name.")] = "",
) -> int:
    """Import answers to any form: from a CSV, such as a filled sheet, or those of the authors' release."""
    store = folded_store()
    if source == "release" and not Path(source).exists():
        report = import_release_answers(store)
    else:
        report = import_file(store, expanded(source), review)
    unchanged = f"; {report.unchanged:,} were stored before" if report.unchanged else ""
    print(f"{report.added:,} answers about {report.items:,} items imported{unchanged}.")
    print(f"{report.matched:,} of the items are stored here.")
    for line, reason in report.rejected[:_SHOWN]:
        print(f"Line {line} was left out: {reason}")
    if len(report.rejected) > _SHOWN:
        print(f"And {len(report.rejected) - _SHOWN:,} more lines.")
    if report.rejected and not (report.items or report.unchanged):
        raise AnamnesisError("No row could be used: nothing was imported.")
    return 0


@app.command("unblind")
def unblind_review(
    review: Annotated[str, typer.Argument(help="The review, by name.")],
    by: Annotated[str, typer.Option(help="Who unblinds it; stored.")],
    reason: Annotated[str, typer.Option(help="Why, if answers are missing; stored.")] = "",
) -> int:
    """End a review: its answers cannot be changed any more, and figures and exports show them by model."""
    store = folded_store()
    unblind(store, review, by, reason)
    print(f"The review {state_of(store, review).review.name} is unblinded.")
    return 0


@app.command("fill")
def fill_cases(review: Annotated[str, typer.Argument(help="An unblinded review of cases, by name.")]) -> int:
    """Fill fields of cases with the decided answers of a review, such as single_diagnosis and accepted answers."""
    store = folded_store()
    filling, new = fill(store, review)
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
    reason: Annotated[str, typer.Option(help="Why; stored in the journal next to the answers.")],
) -> int:
    """Withdraw a review with all its answers: no figure counts them any more. This cannot be undone."""
    print(f"The review {withdraw(folded_store(), review, reason).name} was withdrawn.")
    return 0


@app.command("export")
def export(out: Out) -> int:
    """Write all answers with their history as CSV; those in reviews in progress only once they are unblinded."""
    store = folded_store()
    with new_file(out) as written, written.open("w", encoding="utf-8", newline="") as file:
        count, withheld = export_answers(store, file)
    print(f"Wrote {count:,} answers to {out}.")
    if withheld:
        print(withheld_in_words(withheld))
    return 0
