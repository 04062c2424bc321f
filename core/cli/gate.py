"""``gate``: whether a new run may replace a reference run, as an exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from core.cli.options import folded_store, run_id_of
from core.errors import AnamnesisError, UsageError
from core.report.breaks import BREAKS
from core.report.gate import GateResult, GateRule, gate, reference_run, rule_of_plan, shared_arm
from core.report.plan import Plan, plan_named, read_plan
from core.report.side import RunSide, run_side
from core.stats.margins import Kind
from core.store.condition_parts import PARTS
from core.store.conditions import UNDER_TEST
from core.store.database import Store
from core.store.queries.plans import locked_plans
from core.store.queries.runs import run_ids, run_records

_BREAKS = "; ".join(f"{name}: {kind.about}" for name, kind in BREAKS.items())
_SHOWN = 20
"""Failures that are printed; the others are counted."""


def gate_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The new run, or a doctor: its newest run.")],
    against: Annotated[str, typer.Option(metavar="RUN|PLAN", help="The reference, or a plan by file or name.")],
    arm: Annotated[str | None, typer.Option(help="Accuracy in this arm; by default the only one of both runs.")] = None,
    kind: Annotated[Kind | None, typer.Option(help="By default noninferiority.")] = None,
    margin: Annotated[
        float | None, typer.Option(help="The accepted loss, by default 0.05; for superiority the difference to see.")
    ] = None,
    level: Annotated[float | None, typer.Option(help="One-sided error rate, by default 0.05.")] = None,
    excluded: Annotated[
        float | None, typer.Option(help="Largest share of excluded answers of a side, by default 0.1.")
    ] = None,
    breaks: Annotated[
        list[str] | None, typer.Option("--break", help=f"A hard break (repeat for several). {_BREAKS}.")
    ] = None,
    under_test: Annotated[
        str | None, typer.Option(help="Parts in which the runs may differ, with commas, such as prompts,version.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    summary: Annotated[Path | None, typer.Option(help="Append the verdict to this file: a line of Markdown.")] = None,
) -> int:
    """Decide whether a run passes against a reference: exit status 0 pass, 1 fail, 2 cannot say.

    noninferiority passes if the lower bound of the difference in accuracy (new minus reference) is above -margin, and
    fails if the upper bound is below it; superiority compares with 0, equivalence with both margins. Each bound is
    one-sided. Runs that are unfinished or not comparable, fewer than 20 cases, too many excluded answers, an interval
    that contains the margin, and errors: 2. Under-triage cannot be a break, because no verdict on urgency is stored.
    """
    options = {
        "arm": arm,
        "kind": kind,
        "margin": margin,
        "level": level,
        "excluded": excluded,
        "breaks": tuple(breaks or ()),
        "under_test": tuple(part.strip() for part in (under_test or "").split(",") if part.strip()),
    }
    try:
        result = _result(run, against, {name: value for name, value in options.items() if value not in (None, ())})
        if summary is not None:
            with summary.open("a", encoding="utf-8") as file:
                file.write(f"{result.markdown}\n")
    except (AnamnesisError, OSError) as error:
        print(f"Cannot say: {error}", file=sys.stderr)
        return 2
    if as_json:
        print(json.dumps(_as_json(result), indent=1))
    else:
        _print(result)
    return result.status


def _result(run: str, against: str, given: Mapping[str, Any]) -> GateResult:
    """Return the result of the gate; ``given`` has the fields of a ``GateRule`` that options set."""
    store = folded_store()
    new = run_side(store, _run_named(store, run))
    plan = _plan(store, against)
    if plan is None:
        reference = run_side(store, _run_named(store, against))
        return gate(store, new, reference, _rule(new, reference, given))
    if given:
        raise UsageError(f"The plan {plan.name} fixes the rule of the gate: leave out --{next(iter(given))}.")
    rule = rule_of_plan(plan)  # raises the error of a plan without a reference
    return gate(store, new, run_side(store, reference_run(store, plan)), rule, plan)


def _rule(new: RunSide, reference: RunSide, given: Mapping[str, Any]) -> GateRule:
    choices = {"breaks": tuple(BREAKS), "under_test": PARTS}
    for name, allowed in choices.items():
        if wrong := [value for value in given.get(name, ()) if value not in allowed]:
            raise UsageError(f"There is no {wrong[0]!r}: choose among {', '.join(allowed)}.")
    under_test = (*UNDER_TEST, *given.get("under_test", ()))
    rule = GateRule(**{"arm": given.get("arm") or shared_arm(new, reference), **given, "under_test": under_test})
    if not 0 < rule.margin < 1 or not 0 < rule.level < 0.5 or not 0 <= rule.excluded <= 1:
        raise UsageError("--margin lies between 0 and 1, --level between 0 and 0.5, --excluded between 0 and 1.")
    return rule


def _plan(store: Store, text: str) -> Plan | None:
    """Return the plan of a file or a name; ``None`` for anything else."""
    path = Path(text).expanduser()
    if path.is_file():
        return read_plan(path)
    with store.read() as cursor:
        locked = locked_plans(cursor, text)
    return plan_named(store, text) if locked else None


def _run_named(store: Store, text: str) -> str:
    """Return a run by its id or the beginning of it, or the newest run of a doctor."""
    with store.read() as cursor:
        ids, runs = run_ids(cursor), run_records(cursor)
    if not any(run_id.startswith(text) for run_id in ids):
        for run in runs:
            if run.doctor == text:
                return run.run_id
    return run_id_of(store, text)


def _print(result: GateResult) -> None:
    rule, compared = result.rule, result.comparison
    print(f"{result.verdict.capitalize()}. {result.reason}")
    new, reference = result.doctors
    print(f"{new} ({result.new}) against {reference} ({result.reference})")
    judge = f", judged by {result.judge}" if result.judge else ""
    print(f"accuracy in {rule.arm}{judge}; {rule.kind}, margin {rule.margin:g}")
    if compared is not None and result.interval is not None:
        low, high = result.interval
        print(f"  accuracy          {compared.second_mean:.3f} against {compared.first_mean:.3f}")
        print(
            f"  difference        {compared.difference:+.3f} ({low:+.3f} to {high:+.3f}; each bound one-sided "
            f"{1 - rule.level:.0%})"
        )
        alone = compared.first_alone + compared.second_alone
        print(
            f"  cases             {compared.n:,}, {compared.improved + compared.regressed:,} discordant: "
            f"{compared.improved:,} improved, {compared.regressed:,} regressed"
            + (f"; {alone:,} others count on one side only" if alone else "")
        )
        print(f"  power             {result.power:.0%} to pass if {_alternative(rule)}")
        print(f"  smallest margin   {result.smallest:.3f} with a power of 80 %")
        needed = f"{result.needed:,}" if result.needed else "over ten million"
        print(f"  cases needed      {needed} for a power of 80 % at this margin")
    for name, found in result.breaks.items():
        print(
            f"  break {name}   {len(found.failures):,} new, {found.gone:,} gone, of {found.compared:,} "
            f"{BREAKS[name].items}; {found.undecided:,} undecided"
        )
        for failure in found.failures[:_SHOWN]:
            print(f"    {failure}")
        if more := len(found.failures) - _SHOWN:
            print(f"    and {more:,} more") if more > 0 else None
    for note in result.notes:
        print(f"{'Note: ' if note.severity == 'high' else ''}{note.text}")


def _alternative(rule: GateRule) -> str:
    return f"the true difference is {rule.margin:g}" if rule.kind == "superiority" else "nothing differs"


def _as_json(result: GateResult) -> dict[str, Any]:
    return {
        "status": result.status,
        "reason": result.reason,
        "plan": result.plan,
        **result.row.cells(plain=True),
        "failures": {name: list(found.failures) for name, found in result.breaks.items()},
        "excluded": {run: dict(reasons) for run, reasons in result.excluded.items()},
        "notes": [{"text": note.text, "severity": note.severity} for note in result.notes],
        "markdown": result.markdown,
    }
