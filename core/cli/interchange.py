"""``export eee``: runs in the format Every Eval Ever."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from core.cli.options import WithCases, WithNames, counting, measured_store, print_names, selected
from core.errors import UsageError
from core.export.withheld import withheld_in_words
from core.interchange.every_eval_ever import Publisher, Relationship, write_evaluations
from core.measures.accuracy import IntervalKind

_RunArguments = Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids of runs, or the beginnings of them.")]


def export_eee(
    run: _RunArguments,
    out: Annotated[Path, typer.Option("--out", help="The folder in which data/… is written; it may exist.")],
    organization: Annotated[str, typer.Option(help="Who publishes the evaluation.")],
    relationship: Annotated[Relationship, typer.Option(help="Relation of the evaluator to the maker of the model.")],
    interval: Annotated[IntervalKind, typer.Option(help="Interval of the mean, as in report accuracy.")] = "bootstrap",
    with_cases: WithCases = False,
    with_names: WithNames = False,
) -> int:
    """Write scores and answers in the format Every Eval Ever 0.3.0: two files for each condition."""
    if not organization.strip():
        raise UsageError("--organization is empty: say who publishes the evaluation.")
    store = measured_store()
    publisher = Publisher(organization.strip(), relationship)
    with counting("conditions") as show:
        written = write_evaluations(
            store,
            selected(store, run),
            out,
            publisher,
            interval=interval,
            with_cases=with_cases,
            with_names=with_names,
            progress=show,
        )
    for file in written.files:
        print(f"Wrote {file}.")
    print(
        f"{written.lines:,} answers; {written.excluded:,} are excluded: counted in the scores' details, without a line."
    )
    for arm in written.without_score:
        print(f"No score, because no answer counts: {arm}.")
    _print_limits(written.withheld, by_people=written.by_people)
    print_names(written.people, with_names=with_names)
    return 0


def _print_limits(withheld: int, *, by_people: bool) -> None:
    """Print how many cases are exported without their texts, and whether people wrote messages."""
    if withheld:
        print(withheld_in_words(withheld))
    if by_people:
        print("People took part: read what they wrote before you publish it.")
