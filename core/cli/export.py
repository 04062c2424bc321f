"""``export``: writes data of the database to files."""

from __future__ import annotations

from typing import Annotated

import orjson
import pyarrow.csv
import pyarrow.parquet
import typer

from core.cli.inspect_logs import export_inspect
from core.cli.interchange import export_eee
from core.cli.options import Out, WithCases, folded_store, new_file, run_id_of, selected
from core.cli.training import export_training
from core.errors import UsageError
from core.export.document import MAX_CONVERSATIONS, document_of
from core.export.forms import FORMS
from core.export.run_summary import summary_of
from core.export.withheld import WITHHELD, PublicTexts, dumped_without_text, public_results, public_transcripts
from core.reviews.state import in_progress, withheld_in_words
from core.spreadsheets import inert_table
from core.store.withheld import WithoutTexts, stored_case_keys


def export_conversation(
    trial: Annotated[
        list[str], typer.Argument(metavar="TRIAL...", help=f"Ids of one to {MAX_CONVERSATIONS} conversations.")
    ],
    out: Out,
    form: Annotated[
        str | None, typer.Option("--format", help="html, md, json or png; by default the ending of --out.")
    ] = None,
    with_cases: WithCases = False,
) -> int:
    """Write conversations as one file that needs nothing else: HTML, Markdown, JSON or a picture."""
    name = form or out.suffix.removeprefix(".")
    chosen = next((form for form in FORMS.values() if form.name == name.lower()), None)
    if chosen is None:
        raise UsageError(f"{name!r} is no format of a conversation: use --format html, md, json or png.")
    with new_file(out) as written:
        document = document_of(trial, folded_store(), with_cases=with_cases)
        written.write_bytes(chosen.render(document))
    print(f"Wrote {len(trial)} {'conversation' if len(trial) == 1 else 'conversations'} to {out}.")
    if document.withheld:
        print(document.withheld)
    return 0


def export_summary(run: Annotated[str, typer.Argument(help="Id of a run, or the beginning of one.")], out: Out) -> int:
    """Write the summary of a run: who was tested on what, accuracy, intervals, exclusions, calls and costs (.md)."""
    if out.suffix != ".md":
        raise UsageError(f"{out}: the name must end in .md.")
    store = folded_store()
    text = summary_of(store, run_id_of(store, run))
    with new_file(out) as written:
        written.write_text(text, encoding="utf-8")
    print(f"Wrote the summary to {out}.")
    return 0


app = typer.Typer(no_args_is_help=True, help="Export data.", rich_markup_mode=None)
app.command("conversation")(export_conversation)
app.command("training")(export_training)
app.command("summary")(export_summary)
app.command("inspect")(export_inspect)
app.command("eee")(export_eee)


@app.command("results")
def export_results(
    out: Out,
    run: Annotated[list[str] | None, typer.Option(help="Only this run (repeat for several).")] = None,
    with_cases: WithCases = False,
) -> int:
    """Write one row for each answer and rule, as .csv or .parquet."""
    if out.suffix not in (".csv", ".parquet"):
        raise UsageError(f"{out}: the name must end in .csv or .parquet.")
    store = folded_store()
    selection = selected(store, run)
    with store.read() as cursor:
        texts = PublicTexts(cursor, with_cases=with_cases)
        table = public_results(cursor, selection, texts)
    with new_file(out) as written:
        if out.suffix == ".csv":
            pyarrow.csv.write_csv(inert_table(table), written)
        else:
            pyarrow.parquet.write_table(table, written)
    print(f"Wrote {table.num_rows:,} rows to {out}.")
    if texts.sentence:
        print(texts.sentence)
    return 0


@app.command("transcripts")
def export_transcripts(
    run: Annotated[str, typer.Argument(metavar="RUN")],
    out: Out,
    calls: Annotated[bool, typer.Option("--calls", help="With every prompt and raw reply.")] = False,
    with_cases: WithCases = False,
) -> int:
    """Write one JSON line for each trial, with its events."""
    store = folded_store()
    run_id = run_id_of(store, run)
    count = 0
    with new_file(out) as written, store.read() as cursor, written.open("wb") as file:
        texts = PublicTexts(cursor, with_cases=with_cases)
        for trial in public_transcripts(cursor, run_id, texts, calls=calls):
            file.write(orjson.dumps(trial) + b"\n")
            count += 1
    print(f"Wrote {count:,} transcripts to {out}.")
    if texts.sentence:
        print(texts.sentence)
    return 0


@app.command("duckdb")
def export_duckdb(out: Out, with_cases: WithCases = False) -> int:
    """Write a compact copy of the database, without the answers of reviews in progress."""
    store = folded_store()
    with store.read() as cursor:
        unfinished = in_progress(cursor)
        texts = PublicTexts(cursor, with_cases=with_cases)
        texts.of(stored_case_keys(cursor))
    change = None if with_cases else WithoutTexts(texts.withheld, dumped_without_text, WITHHELD)
    withheld = store.copy_to(out, without_reviews=unfinished, change=change)
    print(f"Wrote the database to {out}.")
    if texts.sentence:
        print(texts.sentence)
    if withheld:
        print(withheld_in_words({unfinished[review_id]: count for review_id, count in withheld.items()}))
    return 0
