"""``export eee`` and ``export hub``: runs in the formats of other tools; descriptions of exported files."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from core.cli.options import WithNames, counting, folded_store, new_file, print_names, selected
from core.errors import UsageError
from core.interchange.croissant import FILE_NAME, description_of
from core.interchange.every_eval_ever import Publisher, Relationship, write_evaluations
from core.interchange.hub import DataSetCard, write_data_set
from core.measures.accuracy import IntervalKind
from core.store.database import Store
from core.store.queries.cases import CaseKey, cases_of

_RunArguments = Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids of runs, or the beginnings of them.")]
_WithCases = Annotated[
    bool, typer.Option("--with-cases", help="Include texts of cases and conversations whatever the licence of a case.")
]


def export_eee(
    run: _RunArguments,
    out: Annotated[Path, typer.Option("--out", help="The folder in which data/… is written; it may exist.")],
    organization: Annotated[str, typer.Option(help="Who publishes the evaluation.")],
    relationship: Annotated[Relationship, typer.Option(help="Relation of the evaluator to the maker of the model.")],
    interval: Annotated[IntervalKind, typer.Option(help="Interval of the mean, as in report accuracy.")] = "bootstrap",
    with_cases: _WithCases = False,
    with_names: WithNames = False,
) -> int:
    """Write scores and answers in the format Every Eval Ever 0.3.0: two files for each condition."""
    if not organization.strip():
        raise UsageError("--organization is empty: say who publishes the evaluation.")
    store = folded_store()
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


def export_hub(
    run: _RunArguments,
    out: Annotated[Path, typer.Option("--out", help="The folder to write; it must not exist yet.")],
    organization: Annotated[str, typer.Option(help="Who publishes the data set.")],
    name: Annotated[str, typer.Option(help="Title of the data set.")] = "Doctor–patient conversations",
    licence: Annotated[str, typer.Option(help="Its licence; by default that of the cases, if they share one.")] = "",
    url: Annotated[str, typer.Option(help="Where it will be published.")] = "",
    with_cases: _WithCases = False,
    with_names: WithNames = False,
) -> int:
    """Write a data set for the Hugging Face Hub: Parquet files, a card and croissant.json."""
    if not organization.strip():
        raise UsageError("--organization is empty: say who publishes the data set.")
    store = folded_store()
    card = DataSetCard(name, organization.strip(), licence, url)
    with counting("files") as show:
        written = write_data_set(
            store, selected(store, run), out, card, with_cases=with_cases, with_names=with_names, progress=show
        )
    rows = ", ".join(f"{count:,} {file}" for file, count in written.rows.items())
    print(f"Wrote {rows} to {out}; licence: {written.licence or 'not stated (give --licence)'}.")
    _print_limits(written.withheld, by_people=written.by_people)
    print_names(written.people, with_names=with_names)
    return 0


def describe_export(store: Store, out: Path, text: str, creator: str, cases: Collection[CaseKey]) -> None:
    """Write the description of an exported file next to it; ``cases`` are those behind its rows."""
    with store.read() as cursor:
        licences = {case.licence for case in cases_of(cursor, cases).values()}
    place = out.with_name(f"{out.name}.{FILE_NAME}")
    with new_file(place) as written:
        written.write_bytes(description_of([out], out.parent, out.stem, text, creator, licences))
    print(f"Wrote its description to {place}.")


def _print_limits(withheld: int, *, by_people: bool) -> None:
    """Print how many cases are exported without their texts, and whether people wrote messages."""
    if withheld:
        print(f"Withheld: the texts of {withheld:,} cases, and of conversations about them: no open licence.")
        print("If you have the right to pass them on: --with-cases")
    if by_people:
        print("People took part: read what they wrote before you publish it.")
