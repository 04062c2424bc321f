"""``export``: takes data out of the database."""

from __future__ import annotations

import os
from typing import Annotated

import orjson
import pyarrow.csv
import pyarrow.parquet
import typer

from core.cli.folded import folded_store, run_id_of
from core.cli.out_file import Out, half
from core.cli.takeaway import export_conversation
from core.cli.training import export_training
from core.errors import UsageError
from core.store.queries.transcripts import results, transcripts
from core.store.selection import Selection

app = typer.Typer(no_args_is_help=True, help="Take data out.", rich_markup_mode=None)
app.command("conversation")(export_conversation)
app.command("training")(export_training)


@app.command("results")
def export_results(
    out: Out, run: Annotated[list[str] | None, typer.Option(help="Only this run (again for more).")] = None
) -> int:
    """Write one row for each answer and rule, as .csv or .parquet."""
    if out.suffix not in (".csv", ".parquet"):
        raise UsageError(f"{out}: the name must end in .csv or .parquet.")
    store = folded_store()
    runs = [run_id_of(store, name) for name in run] if run else None
    with store.read() as cursor:
        table = results(cursor, Selection(runs=runs))
    written = half(out)
    if out.suffix == ".csv":
        pyarrow.csv.write_csv(table, written)
    else:
        pyarrow.parquet.write_table(table, written)
    os.replace(written, out)
    print(f"Wrote {table.num_rows:,} rows to {out}.")
    return 0


@app.command("transcripts")
def export_transcripts(
    run: Annotated[str, typer.Argument(metavar="RUN")],
    out: Out,
    calls: Annotated[bool, typer.Option("--calls", help="With every prompt and raw reply.")] = False,
) -> int:
    """Write one JSON line for each trial, with its events."""
    store = folded_store()
    run_id = run_id_of(store, run)
    written = half(out)
    count = 0
    with store.read() as cursor, written.open("wb") as file:
        for trial in transcripts(cursor, run_id, calls=calls):
            file.write(orjson.dumps(trial) + b"\n")
            count += 1
    os.replace(written, out)
    print(f"Wrote {count:,} transcripts to {out}.")
    return 0


@app.command("duckdb")
def export_duckdb(out: Out) -> int:
    """Write a compact copy of the whole database."""
    folded_store().copy_to(out)
    print(f"Wrote the database to {out}.")
    return 0
