"""``report``: figures as a table, CSV or JSON."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from core.cli.comparisons import case_sets_of, report_monitor, report_pairs
from core.cli.folded import folded_store, run_id_of
from core.cli.memorisation import report_memorisation
from core.cli.report_care import report_care, report_suitability
from core.cli.report_experts import report_experts
from core.cli.report_failures import model_names, report_belief, report_failures
from core.cli.report_graders import report_graders
from core.cli.report_history import report_history
from core.cli.report_patients import report_patients
from core.errors import AnamnesisError, UsageError
from core.jobs.regrade_rules import count_outdated
from core.measures.accuracy import AccuracyRow, Group, IntervalKind, accuracy
from core.questions import ASKS_FOR, AsksFor
from core.store.database import Store
from core.store.selection import McqRule, Selection

app = typer.Typer(no_args_is_help=True, help="Figures of what was run.", rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Figures of what was run."""


app.command("pairs")(report_pairs)
app.command("monitor")(report_monitor)
app.command("belief")(report_belief)
app.command("experts")(report_experts)
app.command("failures")(report_failures)
app.command("graders")(report_graders)
app.command("history")(report_history)
app.command("patients")(report_patients)
app.command("care")(report_care)
app.command("suitability")(report_suitability)
app.command("memorisation")(report_memorisation)


@app.command("accuracy")
def report_accuracy(
    by: Annotated[Group | None, typer.Option(help="Split by specialty or dataset.")] = None,
    run: Annotated[list[str] | None, typer.Option(help="Only this run (again for more); live ones too.")] = None,
    models: Annotated[str | None, typer.Option(help="Only these models, with commas.")] = None,
    cases: Annotated[str | None, typer.Option(help="Only cases of these data sets, with commas.")] = None,
    pool: Annotated[bool, typer.Option("--pool", help="Pool a model's conditions on a data set, and say so.")] = False,
    interval: Annotated[IntervalKind, typer.Option(help="Interval of the mean.")] = "bootstrap",
    asks_for: Annotated[
        str | None, typer.Option(help=f"Only cases whose question asks for this, with commas: {', '.join(ASKS_FOR)}.")
    ] = None,
    mcq_rule: Annotated[
        McqRule, typer.Option(help="Rule for choices: the paper's, or exactly one named.")
    ] = "mcq_loose",
    format_: Annotated[Literal["table", "csv", "json"], typer.Option("--format", help="How to print it.")] = "table",
) -> int:
    """Mean over trials for each case, then over cases, with a 95 % interval, and what was excluded.

    A row is a condition: runs of one model that differ in patient, prompts, cap, grader, cases … are rows apart, named
    by what differs, the newest first.
    """
    store = folded_store()
    selection = Selection(
        runs=[run_id_of(store, name) for name in run] if run else None,
        models=model_names(models),
        case_sets=case_sets_of(cases),
        asks_for=_kinds(asks_for),
        pooled=pool,
    )
    rows = accuracy(store, by, selection, interval=interval, mcq_rule=mcq_rule)
    if not rows:
        if asks_for and accuracy(store, by, replace(selection, asks_for=None), interval=interval, mcq_rule=mcq_rule):
            raise AnamnesisError("No answered case asks for this: leave --asks-for out, or choose another kind.")
        raise AnamnesisError(
            "There is nothing to report yet: start with `python -m core run --doctor reference/bayes`."
        )
    {"csv": _csv, "json": _json, "table": _table}[format_](rows, by)
    if mcq_rule == "mcq_strict":
        _say_what_is_outdated(store, selection)
    return 0


def _say_what_is_outdated(store: Store, selection: Selection) -> None:
    count = count_outdated(store, selection)
    if count:
        print(
            f"{count:,} answers with choices were read by an earlier version of the strict rule: "
            "`python -m core regrade all --rules` reads them anew, at no cost.",
            file=sys.stderr,
        )


def _kinds(asks_for: str | None) -> list[AsksFor] | None:
    if asks_for is None:
        return None
    given = [name.strip().lower() for name in asks_for.split(",")]
    unknown = [name for name in given if name not in ASKS_FOR]
    if unknown:
        raise UsageError(f"No question asks for {unknown[0]!r}: choose among {', '.join(ASKS_FOR)}.")
    return [kind for kind in ASKS_FOR if kind in given]


_COLUMNS = (
    "model", "format", "question_type", "group", "mean", "ci_low", "ci_high", "n_cases", "n_trials", "n_excluded",
    "excluded_by_reason",
)  # fmt: skip


def _plain(row: AccuracyRow, by: Group | None) -> dict[str, Any]:
    fields = asdict(row)
    fields["excluded_by_reason"] = " ".join(f"{reason}={n}" for reason, n in row.excluded_by_reason.items())
    plain = {name: fields[name] for name in _COLUMNS if by or name != "group"}
    return {(by if name == "group" and by else name): value for name, value in plain.items()}


def _csv(rows: Sequence[AccuracyRow], by: Group | None) -> None:
    plain = [_plain(row, by) for row in rows]
    writer = csv.DictWriter(sys.stdout, list(plain[0]), lineterminator="\n")
    writer.writeheader()
    for row in plain:
        writer.writerow({k: f"{v:.6f}" if isinstance(v, float) else v for k, v in row.items()})


def _json(rows: Sequence[AccuracyRow], by: Group | None) -> None:
    print(json.dumps([asdict(row) for row in rows], indent=1))


def _table(rows: Sequence[AccuracyRow], by: Group | None) -> None:
    heads = ("Model", "Format", "Question", *([by.capitalize()] if by else []), "Accuracy", "95 % interval")
    table = Table(*heads, "Cases", "Trials", "Excluded", box=None, pad_edge=False)
    for row in rows:
        mean = "–" if row.mean is None else f"{row.mean:.3f}"
        bounds = "–" if row.ci_low is None or row.ci_high is None else f"{row.ci_low:.3f} – {row.ci_high:.3f}"
        group = [row.group or "?"] if by else []
        counts = (str(row.n_cases), str(row.n_trials), str(row.n_excluded))
        table.add_row(row.model, row.format, row.question_type, *group, mean, bounds, *counts)
    # a pipe gets every column whole; only a terminal is fitted
    Console(width=None if sys.stdout.isatty() else 160).print(table)
