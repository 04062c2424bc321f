"""``profile``: makes the profiles by which a patient and clinical staff are played, and shows the one that counts."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from core.cli.options import (
    BaseUrl,
    Batch,
    Budget,
    CaseSample,
    Concurrency,
    DryRun,
    Limit,
    SampleSeed,
    folded_store,
    print_estimate,
    progress_bar,
)
from core.datasets.select import SAMPLE_SEED, cases_of, select
from core.errors import UsageError
from core.jobs.profiling import estimate, make_profiles, pending
from core.models.registry import load_registry
from core.store.queries.cases import newest_profiles
from core.text.profile_rules import MADE_BY, profile_by_rule
from core.text.profiles import own_profile

_SHOWN_FAILURES = 10
_PARTS = (
    ("demographics", "Doctor and patient know"),
    ("basic", "Only the patient knows"),
    ("optional", "Only the clinical staff knows"),
)


def profile(
    what: Annotated[str, typer.Argument(metavar="DATASET[:…]", help="The cases, as for run; or the word show.")],
    case_key: Annotated[str | None, typer.Argument(metavar="CASE", help="With show: the case, DATASET/ID.")] = None,
    model: Annotated[str | None, typer.Option(help="A model that writes them; by rule where left out.")] = None,
    limit: Limit = None,
    sample: CaseSample = None,
    seed: SampleSeed = SAMPLE_SEED,
    again: Annotated[bool, typer.Option("--again", help="Also cases that this maker has judged already.")] = False,
    dry_run: DryRun = False,
    base_url: BaseUrl = None,
    prompts: Annotated[str, typer.Option(help="A prompt pack with filter.md and profile.md.")] = "",
    concurrency: Concurrency = None,
    budget_usd: Budget = None,
    batch: Batch = False,
) -> int:
    """Judge whether cases can become a patient and write their profiles; or show the profile of a case."""
    if what == "show":
        return _show(case_key)
    if case_key is not None:
        raise UsageError(f"{case_key!r} was not expected: name one selection of cases, or say `profile show CASE`.")
    cases, store = select(what, limit, sample, seed), folded_store()
    if model is not None:
        registry = load_registry(batch=batch)
        todo = pending(store, cases, registry.spec(model).name, again=again)
        size = estimate(todo, model, registry, of=len(cases), base_url=base_url, concurrency=concurrency)
        print_estimate(size, dry_run=dry_run)
    elif dry_run:
        print(f"{len(pending(store, cases, MADE_BY, again=again))} of {len(cases)} cases would be judged by rule.")
    if dry_run:
        return 0
    with progress_bar("Profiles", "cases") as show:
        made = make_profiles(
            store,
            cases,
            model,
            again=again,
            base_url=base_url,
            pack=prompts,
            concurrency=concurrency,
            budget_usd=budget_usd,
            batch=batch,
            on_progress=show,
        )
    print(f"Judged {made.made} cases by {made.made_by}: {made.suitable} can become a patient.")
    for reason, count in sorted(made.reasons.items(), key=lambda pair: -pair[1]):
        print(f"  {reason.replace('_', ' '):<30} {count:>5}")
    if made.dropped:
        print(f"{made.dropped} facts did not hold against their vignettes and were dropped.")
    if made.skipped:
        print(f"Skipped {made.skipped} cases that have a profile; --again makes them anew.")
    if made.calls:
        price = "at unknown prices" if made.cost_usd is None else f"for ${made.cost_usd:.4f}"
        print(f"{made.calls:,} calls {price}.")
    for failure in made.failures[:_SHOWN_FAILURES]:
        print(f"No profile for {failure.case_key}: {failure.why}", file=sys.stderr)
    if len(made.failures) > _SHOWN_FAILURES:
        print(f"And {len(made.failures) - _SHOWN_FAILURES} more cases without a profile.", file=sys.stderr)
    if made.gave_up:
        print(f"Ended early: {made.gave_up} {made.remaining} cases were not reached.", file=sys.stderr)
    return 1 if made.failures or made.gave_up else 0


def _show(case_key: str | None) -> int:
    if case_key is None:
        raise UsageError("Name the case: `profile show DATASET/ID`.")
    dataset, slash, _ = case_key.partition("/")
    found = next((case for case in cases_of(dataset) if case.case_key == case_key), None) if slash else None
    if found is None:
        raise UsageError(f"There is no case {case_key!r}: give DATASET/ID, as `profile show library/cardiology-1`.")
    with folded_store().read() as cursor:
        stored = newest_profiles(cursor, [case_key]).get((case_key, found.content_hash))
    generated = stored.generated if stored else own_profile(found) or profile_by_rule(found)
    version = f", version {stored.version}" if stored else "" if found.profile else ", made now and not saved"
    print(f"{case_key}, by {generated.made_by}{version}")
    if generated.profile is None:
        print(f"Cannot become a patient ({(generated.reason or '').replace('_', ' ')}): {generated.note}")
        return 0
    if generated.note:
        print(generated.note)
    print(f"Who speaks: the {generated.speaker}.")
    for part, title in _PARTS:
        print(f"\n{title}:")
        for fact in getattr(generated.profile, part):
            mark = " (imputed)" if fact.imputed else ""
            lay = "" if part == "optional" else f" | {fact.lay}"
            print(f"  {fact.key}{mark}: {fact.value}{lay}")
    return 0
