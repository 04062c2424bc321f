"""``openings``: a model makes the requests with which patients open a consultation."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from core.case import Case
from core.cli.options import BaseUrl, Batch, Budget, Concurrency, DryRun, folded_store, print_estimate, progress_bar
from core.datasets.select import select
from core.jobs.openings import estimate, make_openings, vague_by_rule
from core.jobs.plan import with_openings
from core.models.registry import load_registry
from core.store.database import Store
from core.text.case_items import UNWELL, is_vague, opening_of, openings_by

_SHOWN_REASONS = 10


def openings(
    cases: Annotated[str, typer.Argument(metavar="DATASET[:…]", help="The cases, as for run.")],
    model: Annotated[str | None, typer.Option(help="The model that makes them; only shows them if left out.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first N of these cases.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Also cases that this model was asked about already.")] = False,
    dry_run: DryRun = False,
    base_url: BaseUrl = None,
    concurrency: Concurrency = None,
    budget_usd: Budget = None,
    batch: Batch = False,
) -> int:
    """Make the opening requests of Consultation's patients with a model, or show those that count.

    Stopped by Ctrl-C or its budget, the same command goes on. Cases without one open by rule.
    """
    chosen, store = select(cases, limit), folded_store()
    if model is None:
        for case in with_openings(chosen, store):
            print(f"{case.case_key}, by {openings_by([case])}: {opening_of(case)}")
        print(_shares(store, chosen))
        return 0
    registry = load_registry(batch=batch)
    size = estimate(store, chosen, model, registry, again=again, base_url=base_url, concurrency=concurrency)
    print_estimate(size, dry_run=dry_run)
    if dry_run:
        return 0
    with progress_bar("Openings", "cases") as show:
        made = make_openings(
            store,
            chosen,
            model,
            registry,
            again=again,
            base_url=base_url,
            concurrency=concurrency,
            budget_usd=budget_usd,
            on_progress=show,
        )
    print(f"{made.made} openings by {made.made_by}; none that holds for {made.none} cases; {made.kept} made before.")
    print(_shares(store, chosen))
    for reason in made.reasons[:_SHOWN_REASONS]:
        print(reason, file=sys.stderr)
    if made.stopped:
        print(made.stopped, file=sys.stderr)
    return 1 if made.failed or made.stopped else 0


def _shares(store: Store, chosen: Sequence[Case]) -> str:
    ready = with_openings(chosen, store)
    by_rule = sum(case.opening is None for case in ready)
    vague = sum(is_vague(opening_of(case)) for case in ready)
    return (
        f"Of {len(ready)} cases {by_rule} open by rule ({by_rule / len(ready):.0%}), and {vague} of all say only "
        f"“{UNWELL}” ({vague / len(ready):.0%}; all by rule: {vague_by_rule(chosen)})."
    )
