"""``regrade``: grades the stored free responses of a run, or of all campaigns, by another grader or other prompts.

With ``--rules`` it reads the answers with choices anew by the present rule, which calls no model.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from core.agents.mcq import STRICT_VERSION
from core.cli.options import (
    BaseUrl,
    Batch,
    Budget,
    Concurrency,
    DryRun,
    folded_store,
    print_estimate,
    print_use,
    progress_bar,
    run_id_of,
)
from core.errors import AnamnesisError, UsageError
from core.events import QuestionType
from core.frameworks.casting import is_model
from core.jobs.engine import Options
from core.jobs.regrade import FREE, Regrading, estimate
from core.jobs.regrade import regrade as grade_again
from core.jobs.reread import reread
from core.models.registry import load_registry
from core.store.database import Store
from core.store.queries.regrading import campaign_ids

ALL = "all"


def regrade(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run of ours or of a release, or all campaigns: all.")],
    grader: Annotated[str | None, typer.Option(help="Who grades: a model, or reference/names.")] = None,
    rules: Annotated[
        bool, typer.Option("--rules", help="Read answers with choices anew by the present strict rule; calls no model.")
    ] = False,
    prompts: Annotated[str | None, typer.Option(help="Another prompt pack for the grader: its name or folder.")] = None,
    types: Annotated[str, typer.Option(help="Question types, with commas.")] = ",".join(FREE),
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N answers of each run.")] = None,
    base_url: BaseUrl = None,
    concurrency: Concurrency = None,
    budget_usd: Budget = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Ask about every answer, also where the grader's verdict is known.")
    ] = False,
    batch: Batch = False,
    dry_run: DryRun = False,
) -> int:
    """Grade stored free responses again, or with --rules read choices anew; earlier verdicts are kept as history.

    Stopped by Ctrl-C or its budget, the same command goes on. Equal responses to the same right answer are asked
    about once.
    """
    if rules:
        if grader is not None or prompts is not None or limit is not None or fresh or dry_run:
            raise UsageError("--rules reads every answer with choices that needs it: leave the other options out.")
        return _reread(folded_store(), run)
    if grader is None:
        raise UsageError("Say who grades the free responses (--grader), or --rules to read choices anew.")
    registry, store = load_registry(batch=batch), folded_store()
    kinds: tuple[QuestionType, ...] = tuple(name.strip() for name in types.split(","))  # type: ignore[misc]
    wanted = Regrading(_run_ids(store, run), grader, prompts, kinds, limit, base_url, fresh)
    if dry_run or is_model(grader):
        print_estimate(estimate(wanted, registry, store, concurrency), dry_run=dry_run)
    if dry_run:
        return 0
    title = f"Grading {wanted.run_ids[0] if len(wanted.run_ids) == 1 else f'{len(wanted.run_ids)} runs'}"
    with progress_bar(title, "answers") as show:
        outcome = grade_again(wanted, registry, Options(concurrency, budget_usd, show), store)
    of = wanted.run_ids[0] if len(wanted.run_ids) == 1 else f"{outcome.runs} runs"
    print(f"Graded {outcome.answers:,} answers of {of} by {outcome.grader}: {outcome.changed:,} verdicts changed.")
    if outcome.judged:
        print(f"{outcome.judged:,} had its verdict before and were left alone; --fresh asks about them too.")
    if outcome.saved and is_model(wanted.grader):
        print(f"{outcome.saved:,} were not asked about: the same response to the same answer was judged already.")
    print_use(outcome.calls, outcome.tokens, outcome.cost_usd)
    if outcome.failed:
        print(
            f"{outcome.failed:,} answers could not be graded because the provider failed; they keep their verdicts. "
            f"Most often: {outcome.failure}",
            file=sys.stderr,
        )
    if outcome.stopped is not None:
        goes_on = "" if wanted.fresh else ", and the same command goes on"
        print(f"{outcome.stopped} What was graded is kept{goes_on}.", file=sys.stderr)
        return 1
    return 1 if outcome.failed and not outcome.answers else 0


def _reread(store: Store, run: str) -> int:
    """Read choices anew and print how that went; of all runs, those that cannot be read do not stop the others."""
    outcome = reread(None if run == ALL else [run_id_of(store, run)], store)
    runs = "1 run" if outcome.runs == 1 else f"{outcome.runs} runs"
    print(
        f"Read {outcome.answers:,} answers with choices of {runs} by version {STRICT_VERSION} of the strict rule: "
        f"{outcome.changed:,} verdicts changed."
    )
    for reason in outcome.left:
        print(f"Not brought up to date: {reason}", file=sys.stderr)
    return 1 if outcome.left else 0


def _run_ids(store: Store, run: str) -> tuple[str, ...]:
    if run != ALL:
        return (run_id_of(store, run),)
    with store.read() as cursor:
        found = tuple(campaign_ids(cursor))
    if not found:
        raise AnamnesisError("There is no campaign to grade: run one, or import a release.")
    return found
