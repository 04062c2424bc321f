"""``solve-prefixes``: a solver answers cases from the beginnings of stored conversations."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from core.cli.options import (
    Concurrency,
    Models,
    Runs,
    folded_store,
    model_names,
    print_estimate,
    progress_bar,
    run_id_of,
)
from core.cli.run import BaseUrl, Batch, Budget
from core.jobs.engine import Options
from core.jobs.solving import SolvedType, Solving, estimate, solve
from core.measures.history.prefixes import ASKED_AT
from core.models.registry import load_registry
from core.store.selection import Selection


def solve_prefixes(
    solver: Annotated[str, typer.Option(help="Who answers: provider/model, an alias, or reference/solver.")],
    run: Runs = None,
    models: Models = None,
    question: Annotated[
        SolvedType | None,
        typer.Option(help="With the case's choices (mcq) or without (frq); by default what each run asked."),
    ] = None,
    grader: Annotated[str, typer.Option(help="Who grades free responses; by default each run's own grader.")] = "",
    prompts: Annotated[str, typer.Option(help="A prompt pack with a solver's prompt.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Only N conversations: a random sample, always it.")] = None,
    base_url: BaseUrl = None,
    concurrency: Concurrency = None,
    budget_usd: Budget = None,
    batch: Batch = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would take, and ask nothing.")] = False,
) -> int:
    """Ask a solver for the answer after 0, 20, 40, 60, 80 and 100 % of each stored dialogue; it sees no more of it.

    What it has answered under the same prompt is skipped; stopped by Ctrl-C or its budget, the same command goes on.
    """
    store, registry = folded_store(), load_registry(batch=batch)
    talks = Selection(runs=[run_id_of(store, name) for name in run] if run else None, models=model_names(models))
    wanted = Solving(solver, talks, (question,) if question else (), grader, prompts, limit, base_url)
    print_estimate(estimate(store, wanted, registry, concurrency), dry_run=dry_run)
    if dry_run:
        return 0
    with progress_bar("Solving", "conversations") as show:
        done = solve(store, wanted, registry, Options(concurrency, budget_usd, show))
    shares = ", ".join(map(str, ASKED_AT[:-1]))
    print(f"{done.solver} answered after {shares} and {ASKED_AT[-1]} % of {done.solved:,} conversations.")
    if done.kept:
        print(f"{done.kept:,} were solved before and left alone.")
    if done.calls:
        print(f"{done.calls:,} calls, {done.tokens:,} tokens, ${done.cost_usd:,.2f} where prices are known.")
    if done.excluded:
        counts = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(done.excluded.items()))
        print(f"Excluded, and never counted as wrong: {counts}.", file=sys.stderr)
    if done.failed:
        print(
            f"{done.failed:,} conversations lack an answer that a provider broke; the same command asks again. Most "
            f"often: {done.failure}",
            file=sys.stderr,
        )
    if done.stopped is not None:
        print(
            f"{done.stopped} What was answered is kept, {done.remaining:,} conversations are left, and the same "
            "command goes on.",
            file=sys.stderr,
        )
        return 1
    print("See: python -m core report prefixes")
    return 1 if done.failed and not done.solved else 0
