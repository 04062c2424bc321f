"""``gate``: whether a new run may replace a reference run, as an exit status."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, Literal

import typer

from core.cli.options import folded_store, run_id_of
from core.errors import AnamnesisError, UsageError
from core.journal import RUBRIC_SCORES
from core.report.breaks import BREAKS
from core.report.gate import LEVEL, GateResult, gate, rule_of, run_side
from core.store.condition_parts import PARTS
from core.store.conditions import UNDER_TEST
from core.store.database import Store
from core.store.queries.runs import run_ids, run_records

_BREAKS = "; ".join(f"{name}: {kind.about}" for name, kind in BREAKS.items())
_SHOWN = 20
"""Failures that are printed; the others are counted."""


def gate_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The new run, or a doctor: its newest run.")],
    against: Annotated[str, typer.Option(metavar="RUN", help="The reference: a run, or a doctor.")],
    arm: Annotated[
        str | None, typer.Option(help="Accuracy in this arm; by default the run's primary, or the only one of both.")
    ] = None,
    metric: Annotated[Literal["rubric_scores"] | None, typer.Option(help="A score instead of accuracy.")] = None,
    margin: Annotated[
        float | None, typer.Option(help="The accepted loss; by default what the run states, or 0.05.")
    ] = None,
    breaks: Annotated[
        list[str] | None, typer.Option("--break", help=f"A hard break (repeat for several). {_BREAKS}.")
    ] = None,
    under_test: Annotated[
        str | None, typer.Option(help="Parts in which the runs may differ, with commas, such as prompts,version.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> int:
    """Decide whether a run is no worse than a reference by more than a margin: status 0 pass, 1 fail, 2 cannot say.

    It passes if the lower bound of the difference (new minus reference) is above -margin, and fails if the upper bound
    is below it; each bound is one-sided, 95 %. Runs that are unfinished or not comparable, fewer than 20 cases, more
    than 10 % excluded answers, an interval that contains -margin, and errors: 2.
    """
    try:
        store = folded_store()
        new, reference = (run_side(store, _run_named(store, name)) for name in (run, against))
        parts = tuple(part.strip() for part in (under_test or "").split(",") if part.strip())
        for given, allowed in ((breaks or (), BREAKS), (parts, PARTS)):
            if wrong := [name for name in given if name not in allowed]:
                raise UsageError(f"There is no {wrong[0]!r}: choose among {', '.join(allowed)}.")
        if arm and metric:
            raise UsageError("A gate has one outcome: --arm or --metric.")
        differing = (*UNDER_TEST, *parts)
        rule = rule_of(new, reference, arm or metric, margin, breaks=tuple(breaks or ()), under_test=differing)
        result = gate(store, new, reference, rule)
    except AnamnesisError as error:
        print(f"Cannot say: {error}", file=sys.stderr)
        return 2
    if as_json:
        print(json.dumps(_as_json(result), indent=1))
    else:
        _print(result)
    return result.status


def _run_named(store: Store, text: str) -> str:
    """Return a run by its id or the beginning of it, or the newest run of a doctor."""
    with store.read() as cursor:
        ids, runs = run_ids(cursor), run_records(cursor)
    newest = next((run.run_id for run in runs if run.doctor == text), None)
    return newest if newest and not any(run_id.startswith(text) for run_id in ids) else run_id_of(store, text)


def _print(result: GateResult) -> None:
    rule, compared = result.rule, result.comparison
    print(f"{result.verdict.capitalize()}. {result.reason}")
    new, reference = result.doctors
    print(f"{new} ({result.new}) against {reference} ({result.reference})")
    judge = f", judged by {result.judge}" if result.judge else ""
    outcome = "score by the rubric" if rule.outcome == RUBRIC_SCORES else f"accuracy in {rule.outcome}"
    print(f"{outcome}{judge}; non-inferiority, margin {rule.margin:g}")
    if compared is not None and result.interval is not None:
        low, high = result.interval
        alone = compared.first_alone + compared.second_alone
        needed = f"{result.needed:,}" if result.needed else "over ten million"
        bounds = f"{low:+.3f} to {high:+.3f}; each bound one-sided {1 - LEVEL:.0%}"
        print(f"  means             {compared.second_mean:.3f} against {compared.first_mean:.3f}")
        print(f"  difference        {compared.difference:+.3f} ({bounds})")
        print(
            f"  cases             {compared.n:,}, {compared.improved + compared.regressed:,} discordant: "
            f"{compared.improved:,} improved, {compared.regressed:,} regressed"
            + (f"; {alone:,} others count on one side only" if alone else "")
        )
        print(f"  power             {result.power:.0%} to pass if nothing differs")
        print(f"  smallest margin   {result.smallest:.3f} with a power of 80 %")
        print(f"  cases needed      {needed} for a power of 80 % at this margin")
    for name, found in result.breaks.items():
        print(
            f"  break {name}   {len(found.failures):,} new, {found.gone:,} gone, of {found.compared:,} "
            f"{BREAKS[name].items}; {found.undecided:,} undecided"
        )
        for failure in found.failures[:_SHOWN]:
            print(f"    {failure}")
        if len(found.failures) > _SHOWN:
            print(f"    and {len(found.failures) - _SHOWN:,} more")
    for note in result.notes:
        print(f"{'Note: ' if note.severity == 'high' else ''}{note.text}")


def _as_json(result: GateResult) -> dict[str, Any]:
    compared, (low, high) = result.comparison, result.interval or (None, None)
    return {
        "status": result.status,
        "verdict": result.verdict,
        "reason": result.reason,
        "new": result.new,
        "reference": result.reference,
        "doctor_new": result.doctors[0],
        "doctor_reference": result.doctors[1],
        "outcome": result.rule.outcome,
        "margin": result.rule.margin,
        "judge": result.judge,
        "difference": compared.difference if compared and compared.n else None,
        "ci_low": low,
        "ci_high": high,
        "n_cases": compared.n if compared else None,
        "mean_new": compared.second_mean if compared and compared.n else None,
        "mean_reference": compared.first_mean if compared and compared.n else None,
        "improved": compared.improved if compared else None,
        "regressed": compared.regressed if compared else None,
        "power": result.power,
        "smallest_margin": result.smallest,
        "cases_needed": result.needed,
        "breaks": {name: list(found.failures) for name, found in result.breaks.items()},
        "excluded": {run: dict(reasons) for run, reasons in result.excluded.items()},
        "notes": [{"text": note.text, "severity": note.severity} for note in result.notes],
    }
