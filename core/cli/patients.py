"""``judge-patients`` and ``judge-facts``: a model judges patients' medical terms, and what they withhold and invent."""

from __future__ import annotations

import sys
from dataclasses import replace
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
from core.jobs.judging import FactsWanted, JudgingOutcome, TermsWanted, Wanted, estimate
from core.jobs.judging import judge as judge_talks
from core.models.registry import load_registry
from core.store.database import Store
from core.store.selection import Selection

_Model = Annotated[str, typer.Option(help="The model that judges: provider/model or an alias.")]
_Limit = Annotated[int | None, typer.Option(min=1, help="Only N conversations: a random sample, always it.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it would take, and ask nothing.")]


def judge(
    model: _Model,
    run: Runs = None,
    limit: _Limit = None,
    base_url: BaseUrl = None,
    concurrency: Concurrency = None,
    budget_usd: Budget = None,
    batch: Batch = False,
    dry_run: _DryRun = False,
) -> int:
    """Ask a model, a call a conversation, for medical terms that patients use and lay persons would not.

    What it has judged under the same prompts is skipped; stopped by Ctrl-C or its budget, the same command goes on.
    """
    store = folded_store()
    runs = [run_id_of(store, name) for name in run] if run else None
    wanted = TermsWanted(model, Selection(runs=runs), limit, base_url)
    outcome = _judged(store, wanted, Options(concurrency, budget_usd), batch, dry_run, "Judging patients")
    return _conclude(outcome, "a medical term", "terms", "python -m core report patients --part judge")


def judge_facts(
    model: _Model,
    run: Runs = None,
    models: Models = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every conversation, not only those with a wrong answer after them.")
    ] = False,
    limit: _Limit = None,
    base_url: BaseUrl = None,
    concurrency: Concurrency = None,
    budget_usd: Budget = None,
    batch: Batch = False,
    dry_run: _DryRun = False,
) -> int:
    """Ask a model, a call a conversation, which facts a patient withheld and what it invented, with quotations.

    What it has judged under the same prompts is skipped; stopped by Ctrl-C or its budget, the same command goes on.
    """
    store = folded_store()
    talks = Selection(runs=[run_id_of(store, name) for name in run] if run else None, models=model_names(models))
    wanted = FactsWanted(model, talks, "all" if every else "wrong", limit, None, base_url)
    title = "Judging what patients withheld and invented"
    outcome = _judged(store, wanted, Options(concurrency, budget_usd), batch, dry_run, title)
    return _conclude(outcome, "something withheld or invented", "verdicts", "python -m core report failures")


def _judged(
    store: Store, wanted: Wanted, options: Options, batch: bool, dry_run: bool, title: str
) -> JudgingOutcome | None:
    """Print what a judging will take, and judge; ``None`` where that was all that was asked for."""
    registry = load_registry(batch=batch)
    print_estimate(estimate(store, wanted, registry, options.concurrency), dry_run=dry_run)
    if dry_run:
        return None
    with progress_bar(title, "conversations") as show:
        return judge_talks(store, wanted, registry, replace(options, on_progress=show))


def _conclude(outcome: JudgingOutcome | None, found: str, named: str, see: str) -> int:
    if outcome is None:
        return 0
    print(f"Judged {outcome.judged:,} conversations by {outcome.model}: {outcome.with_any:,} hold {found}.")
    if outcome.dropped:
        print(f"{outcome.dropped:,} {named} that it gave are not in the words that it named, and were dropped.")
    if outcome.kept:
        print(f"{outcome.kept:,} were judged before and left alone.")
    if outcome.calls:
        print(f"{outcome.calls:,} calls, {outcome.tokens:,} tokens, ${outcome.cost_usd:,.2f} where prices are known.")
    if outcome.failed:
        print(
            f"{outcome.failed:,} conversations have no judgement and count nowhere; the same command asks again. Most "
            f"often: {outcome.failure}",
            file=sys.stderr,
        )
    if outcome.stopped is not None:
        print(
            f"{outcome.stopped} What was judged is kept, {outcome.remaining:,} conversations are left, and the same "
            "command goes on.",
            file=sys.stderr,
        )
        return 1
    print(f"See: {see}")
    return 1 if outcome.failed and not outcome.judged else 0
