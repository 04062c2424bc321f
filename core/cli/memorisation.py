"""``meld``: which cases a model is likely to have been trained on."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated

import typer

from core.cli.options import (
    AskNothing,
    BaseUrl,
    Batch,
    Budget,
    CaseSample,
    Concurrency,
    Limit,
    SampleSeed,
    folded_store,
    print_estimate,
    progress_bar,
)
from core.datasets.select import SAMPLE_SEED, select
from core.jobs.completing import Options, complete_cases, estimate
from core.measures.memorisation import FLAG, Variant, model_rows
from core.models.registry import load_registry
from core.store.queries.cases import completions


def meld(
    model: Annotated[str, typer.Option(help="The model to test: provider/model or an alias.")],
    cases: Annotated[str, typer.Option(help="DATASET, DATASET:SPECIALTY, or DATASET:id,id,…")] = "library",
    limit: Limit = None,
    sample: CaseSample = None,
    seed: SampleSeed = SAMPLE_SEED,
    base_url: BaseUrl = None,
    concurrency: Concurrency = None,
    variant: Annotated[
        Variant, typer.Option(help="Let it go on writing, or ask for the original word for word at temperature 0.")
    ] = "continue",
    again: Annotated[bool, typer.Option("--again", help="Ask also where there is a completion already.")] = False,
    budget_usd: Budget = None,
    batch: Batch = False,
    dry_run: AskNothing = False,
) -> int:
    """Give a model the first half of each vignette and measure how close its second half comes to the real one."""
    chosen, registry = select(cases, limit, sample, seed), load_registry(batch=batch)
    options, store = Options(base_url, concurrency, again, variant, budget_usd), folded_store()
    print_estimate(estimate(chosen, model, registry, store, options), dry_run=dry_run)
    if dry_run:
        return 0
    name = registry.spec(model).name
    with progress_bar("Completions", "cases") as show:
        asked = complete_cases(chosen, model, registry, store, replace(options, on_progress=show))
    print(f"{asked.completed} completions by {name}, {asked.kept} were there already.")
    if asked.failed:
        print(f"{asked.failed} calls failed, the last: {asked.last_failure}. Run it again for them.", file=sys.stderr)
    if asked.stopped is not None:
        print(f"{asked.stopped} What came is kept, and the same command goes on.", file=sys.stderr)
    with store.read() as cursor:
        rows = model_rows(completions(cursor, [name], {case.case_key.partition("/")[0] for case in chosen}))
    for row in (row for row in rows if row["variant"] == variant):
        print(
            f"{row['cases']}: {row['flagged']} of {row['n']} cases reach a similarity of {FLAG}: likely training data."
        )
    print("See: python -m core report memorisation --part cases")
    return 1 if asked.stopped is not None or (asked.failed and not asked.completed) else 0
