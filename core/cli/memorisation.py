"""``meld`` and ``report memorisation``: which cases a model is likely to have been trained on."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

import typer

from core.cli.comparisons import Models, Printed
from core.cli.folded import folded_store
from core.cli.report_failures import counting, model_names, print_rows
from core.datasets.select import select
from core.errors import AnamnesisError
from core.jobs.completing import Options, Variant, complete_cases, prompt_hash, size_of, variant_of
from core.measures.memorisation.figures import flagged, model_rows, with_and_without
from core.measures.memorisation.halves import FLAG
from core.models.registry import load_registry
from core.store.database import Store
from core.store.queries.accuracy import CaseScore, case_scores
from core.store.queries.cases import StoredCompletion, completions
from core.store.selection import Selection

Part = Literal["models", "cases", "accuracy"]
Row = dict[str, Any]


def meld(
    model: Annotated[str, typer.Option(help="The model to test: provider/model or an alias.")],
    cases: Annotated[str, typer.Option(help="DATASET, DATASET:SPECIALTY, or DATASET:id,id,…")] = "library",
    limit: Annotated[int | None, typer.Option(help="Only the first N of these cases.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Calls under way at once.")] = 16,
    variant: Annotated[
        Variant, typer.Option(help="Let it go on writing, or ask for the original word for word at temperature 0.")
    ] = "continue",
    again: Annotated[bool, typer.Option("--again", help="Ask also where there is a completion already.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would take, and ask nothing.")] = False,
) -> int:
    """Give a model the first half of each vignette and measure how close its second half comes to the real one."""
    chosen, registry = select(cases, limit), load_registry()
    size = size_of(chosen, model, registry)
    if dry_run:
        price = "cost unknown (no price is known for the model)" if size.cost_usd is None else f"${size.cost_usd:,.2f}"
        tokens = size.prompt_tokens + size.completion_tokens
        print(f"{len(chosen)} cases, at most {size.calls:,} calls, about {tokens:,} tokens, {price}.")
        return 0
    store = folded_store()
    with counting("cases") as show:
        asked = complete_cases(chosen, model, registry, store, Options(base_url, concurrency, again, variant), show)
    print(f"{asked.completed} completions by {size.model}, {asked.kept} were there already.")
    if asked.failed:
        print(f"{asked.failed} calls failed, the last: {asked.last_failure}. Run it again for them.", file=sys.stderr)
    _print_summary(store, size.model, variant)
    return 1 if asked.failed and not asked.completed else 0


def _print_summary(store: Store, model: str, variant: Variant) -> None:
    with store.read() as cursor:
        rows = model_rows(completions(cursor, [model]))
    for row in (row for row in rows if row.prompt_hash == prompt_hash(variant)):
        print(f"{row.flagged} of {row.n} cases reach a similarity of {FLAG}: likely training data.")
    print("See: python -m core report memorisation --part cases")


def report_memorisation(
    models: Models = None,
    part: Annotated[
        Part, typer.Option(help="One row a model, its cases, or its accuracy with and without flagged cases.")
    ] = "models",
    format_: Printed = "table",
) -> int:
    """Report similarities to the original, flagged cases, and accuracy with and without them (MELD)."""
    names = model_names(models)
    store = folded_store()
    with store.read() as cursor:
        found = completions(cursor, sorted(names) if names else None)
        if not found:
            raise AnamnesisError("No completion is stored: run `python -m core meld --model M --cases DATASET` first.")
        models_found = dict.fromkeys(one.model for one in found) if part == "accuracy" else {}
        scores = {model: case_scores(cursor, Selection(models=[model])) for model in models_found}
    rows = _model_rows(found) if part == "models" else _case_rows(found)
    if part == "accuracy":
        kinds = dict.fromkeys((one.model, one.prompt_hash) for one in found)
        rows = [row for kind in kinds for row in _accuracy_rows(kind, found, scores[kind[0]])]
    if not rows:
        raise AnamnesisError("The models with completions have answered no case yet: run a campaign with them.")
    print_rows(rows, format_)
    return 0


def _model_rows(found: list[StoredCompletion]) -> list[Row]:
    return [
        {
            "model": row.model, "variant": variant_of(row.prompt_hash), "n": row.n, "failed": row.failed,
            "flagged": row.flagged, "share": row.share, "low": row.interval.low,
            "high": row.interval.high, "median": row.median,
        }
        for row in model_rows(found)
    ]  # fmt: skip


def _case_rows(found: list[StoredCompletion]) -> list[Row]:
    return [
        {
            "model": one.model, "variant": variant_of(one.prompt_hash), "case": one.case_key,
            "similarity": one.similarity, "flagged": flagged(one), "failure": one.failure,
        }
        for one in found
    ]  # fmt: skip


def _accuracy_rows(kind: tuple[str, str], found: list[StoredCompletion], scores: list[CaseScore]) -> list[Row]:
    """Return the rows of a model under a prompt, by condition."""
    return [
        {
            "model": row.condition, "variant": variant_of(kind[1]), "format": row.format,
            "question_type": row.question_type,
            "accuracy": row.accuracy, "low": row.interval.low, "high": row.interval.high, "n": row.n,
            "without": row.without, "without_low": row.without_interval.low, "without_high": row.without_interval.high,
            "n_without": row.n_without,
        }
        for row in with_and_without([one for one in found if (one.model, one.prompt_hash) == kind], scores)
    ]  # fmt: skip
