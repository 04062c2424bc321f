"""``job NAME``: asks a model about stored items; every declared ``AskJob`` has a command."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

import typer

from core.cli.options import (
    AskNothing,
    Batch,
    Budget,
    CaseSample,
    ConcurrencyOption,
    GivenOptions,
    Limit,
    Models,
    Runs,
    SampleSeed,
    folded_store,
    option_of,
    print_estimate,
    print_use,
    progress_bar,
    run_id_of,
    selected,
    with_options,
)
from core.datasets.select import SAMPLE_SEED, select
from core.jobs.ask_job import AskJob, AskOutcome, estimate_job, jobs, run_job
from core.jobs.engine import Options
from core.models.registry import load_registry
from core.store.database import Store

app = typer.Typer(no_args_is_help=True, help="Ask a model about stored items.", rich_markup_mode=None)

_CHOSEN: dict[str, GivenOptions] = {
    "conversations": {"run": (Runs, None), "models": (Models, None)},
    "run_ids": {"run": (Runs, None)},
    "cases": {
        "cases": (Annotated[str, typer.Option(help="DATASET, DATASET:SPECIALTY, or DATASET:id,id,…")], "library"),
        "limit": (Limit, None),
        "sample": (CaseSample, None),
        "seed": (SampleSeed, SAMPLE_SEED),
    },
}
"""Field of a job → the options that choose it."""
_LAST: GivenOptions = {
    "concurrency": (ConcurrencyOption, None),
    "budget_usd": (Budget, None),
    "batch": (Batch, False),
    "dry_run": (AskNothing, False),
}
_LISTED = 10
"""Failures that are printed."""


def command_of(kind: type[AskJob[Any]]) -> Callable[..., int]:
    """Return the command of a job: it prints the estimate, runs the job unless it is a dry run, prints the outcome."""
    fields = {field.name: field for field in kind.options()}

    def command(**given: Any) -> int:
        store = folded_store()
        values = {name: _value(store, field, given) for name, field in fields.items() if name not in unused}
        job, registry = kind(**values), load_registry(batch=given.get("batch", False))
        options = Options(given.get("concurrency"), given.get("budget_usd"))
        print_estimate(estimate_job(job, store, registry, options.concurrency), dry_run=given["dry_run"])
        if given["dry_run"]:
            return 0
        with progress_bar(job.title, job.items) as show:
            outcome = run_job(job, store, registry, Options(options.concurrency, options.budget_usd, show))
        return _print_outcome(job, outcome, store)

    unused = () if kind.asks_models else ("base_url", "concurrency", "budget_usd", "batch")
    last_options = {name: option for name, option in _LAST.items() if name not in unused}
    field_options: GivenOptions = {}
    for name, field in fields.items():
        if name in unused:
            continue
        field_options |= _CHOSEN.get(name) or {name: (_option(field), _default(field))}
    return with_options(command, field_options | last_options, inspect.cleandoc(kind.__doc__ or kind.name))


def _print_outcome(job: AskJob[Any], outcome: AskOutcome, store: Store) -> int:
    print(*job.summary(outcome), sep="\n")
    if outcome.kept:
        print(f"{outcome.kept:,} were {job.participle} before and are unchanged.")
    print_use(outcome.calls, outcome.tokens, outcome.cost_usd)
    for item, reason in outcome.remarks[:_LISTED]:
        print(f"{item}: {reason}", file=sys.stderr)
    for line in job.findings(store, outcome):
        print(line)
    for line in job.shortfall(outcome):
        print(line, file=sys.stderr)
    if outcome.stopped is not None:
        return 1
    if job.report:
        print(f"See: python -m core report {job.report}")
    return 1 if outcome.failed and not outcome.done else 0


def _value(store: Store, field: inspect.Parameter, given: dict[str, Any]) -> Any:
    # conversations, run_ids and cases are chosen by several options each (``_CHOSEN``); other fields have one option
    if field.name == "conversations":
        return selected(store, given["run"], given["models"])
    if field.name == "run_ids":
        return tuple(run_id_of(store, name) for name in given["run"] or ())
    if field.name == "cases":
        return tuple(select(given["cases"], given["limit"], given["sample"], given["seed"]))
    value = given[field.name]
    if _is_list(field):
        return tuple(name.strip() for name in value.split(",")) if value else ()
    return value


def _option(field: inspect.Parameter) -> Any:
    if _is_list(field):
        _, words = get_args(field.annotation)[:2]
        field = field.replace(annotation=Annotated[str | None, f"{words} Separate several by commas."])
        return option_of(field, "job")
    minimum = 1 if field.name == "limit" else None
    return option_of(field, "job", min=minimum, show_default=field.default not in (None, ""))


def _default(field: inspect.Parameter) -> Any:
    return (",".join(field.default) or None) if _is_list(field) else field.default


def _is_list(field: inspect.Parameter) -> bool:
    return get_origin(get_args(field.annotation)[0]) is tuple


for _kind in jobs().values():
    app.command(_kind.name, short_help=(_kind.__doc__ or _kind.name).splitlines()[0])(command_of(_kind))
