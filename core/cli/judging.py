"""A model is asked about stored conversations.

``judge-patients`` and ``judge-facts``: it judges patients' medical terms, and what they withhold and invent;
``solve-prefixes``: it answers cases from the beginnings of their conversations.
"""

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
    Concurrency,
    Models,
    Runs,
    Sample,
    folded_store,
    print_estimate,
    print_use,
    progress_bar,
    selected,
)
from core.frameworks.consultation.measures.prefixes import ASKED_AT
from core.jobs import judging, solving
from core.jobs.engine import Options
from core.jobs.judging import FactsWanted, JudgingOutcome, TermsWanted, Wanted
from core.jobs.solving import Solved, SolvedType, Solving
from core.models.registry import load_registry
from core.store.database import Store

_Model = Annotated[str, typer.Option(help="The model that judges: provider/model or an alias.")]


def judge(
    model: _Model,
    run: Runs = None,
    limit: Sample = None,
    base_url: BaseUrl = None,
    concurrency: Concurrency = None,
    budget_usd: Budget = None,
    batch: Batch = False,
    dry_run: AskNothing = False,
) -> int:
    """Ask a model, a call a conversation, for medical terms that patients use and lay persons would not.

    What it has judged under the same prompts is skipped; stopped by Ctrl-C or its budget, the same command goes on.
    """
    store = folded_store()
    wanted = TermsWanted(model, selected(store, run), limit, base_url)
    outcome = _judge(store, wanted, Options(concurrency, budget_usd), batch, dry_run, "Judging patients")
    return _conclude(outcome, "a medical term", "terms", "patients --part judge")


def judge_facts(
    model: _Model,
    run: Runs = None,
    models: Models = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every conversation, not only those with a wrong answer after them.")
    ] = False,
    limit: Sample = None,
    base_url: BaseUrl = None,
    concurrency: Concurrency = None,
    budget_usd: Budget = None,
    batch: Batch = False,
    dry_run: AskNothing = False,
) -> int:
    """Ask a model, a call a conversation, which facts a patient withheld and what it invented, with quotations.

    What it has judged under the same prompts is skipped; stopped by Ctrl-C or its budget, the same command goes on.
    """
    store = folded_store()
    wanted = FactsWanted(model, selected(store, run, models), "all" if every else "wrong", limit, None, base_url)
    outcome = _judge(
        store, wanted, Options(concurrency, budget_usd), batch, dry_run, "Judging what patients withheld and invented"
    )
    return _conclude(outcome, "something withheld or invented", "verdicts", "failures")


def _judge(
    store: Store, wanted: Wanted, options: Options, batch: bool, dry_run: bool, title: str
) -> JudgingOutcome | None:
    """Print what a judging will take, and judge; ``None`` where that was all that was asked for."""
    registry = load_registry(batch=batch)
    print_estimate(judging.estimate(store, wanted, registry, options.concurrency), dry_run=dry_run)
    if dry_run:
        return None
    with progress_bar(title, "conversations") as show:
        return judging.judge(store, wanted, registry, replace(options, on_progress=show))


def _conclude(outcome: JudgingOutcome | None, found: str, named: str, report: str) -> int:
    if outcome is None:
        return 0
    print(f"Judged {outcome.judged:,} conversations by {outcome.model}: {outcome.with_any:,} hold {found}.")
    if outcome.dropped:
        print(f"{outcome.dropped:,} {named} that it gave are not in the words that it named, and were dropped.")
    lack = "have no judgement and count nowhere; the same command asks again"
    return _tell(outcome, outcome.judged, "judged", lack, report)


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
    limit: Sample = None,
    base_url: BaseUrl = None,
    concurrency: Concurrency = None,
    budget_usd: Budget = None,
    batch: Batch = False,
    dry_run: AskNothing = False,
) -> int:
    """Ask a solver for the answer after 0, 20, 40, 60, 80 and 100 % of each stored dialogue; it sees no more of it.

    What it has answered under the same prompt is skipped; stopped by Ctrl-C or its budget, the same command goes on.
    """
    store, registry = folded_store(), load_registry(batch=batch)
    kinds = (question,) if question else ()
    wanted = Solving(solver, selected(store, run, models), kinds, grader, prompts, limit, base_url)
    print_estimate(solving.estimate(store, wanted, registry, concurrency), dry_run=dry_run)
    if dry_run:
        return 0
    with progress_bar("Solving", "conversations") as show:
        done = solving.solve(store, wanted, registry, Options(concurrency, budget_usd, show))
    shares = ", ".join(map(str, ASKED_AT[:-1]))
    print(f"{done.solver} answered after {shares} and {ASKED_AT[-1]} % of {done.solved:,} conversations.")
    if done.excluded:
        counts = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(done.excluded.items()))
        print(f"Excluded, and never counted as wrong: {counts}.", file=sys.stderr)
    return _tell(
        done, done.solved, "solved", "lack an answer that a provider broke; the same command asks again", "prefixes"
    )


def _tell(outcome: JudgingOutcome | Solved, new: int, verb: str, lack: str, report: str) -> int:
    """Print what such a job kept, took and lacks, and return the exit status."""
    if outcome.kept:
        print(f"{outcome.kept:,} were {verb} before and left alone.")
    print_use(outcome.calls, outcome.tokens, outcome.cost_usd)
    if outcome.failed:
        print(f"{outcome.failed:,} conversations {lack}. Most often: {outcome.failure}", file=sys.stderr)
    if outcome.stopped is not None:
        answered = "answered" if verb == "solved" else verb
        print(
            f"{outcome.stopped} What was {answered} is kept, {outcome.remaining:,} conversations are left, and the "
            "same command goes on.",
            file=sys.stderr,
        )
        return 1
    print(f"See: python -m core report {report}")
    return 1 if outcome.failed and not new else 0
