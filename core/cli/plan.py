"""``plan``: drafts and locks the plan of a comparison before its runs, and compares it with them."""

from __future__ import annotations

import inspect
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from core.cli.options import (
    FormatOption,
    GivenOptions,
    Out,
    folded_store,
    new_file,
    print_rows,
    run_id_of,
    with_options,
)
from core.cli.run import campaign_in_full, campaign_options, framework_in, option, requested_campaign
from core.errors import UsageError
from core.frameworks.base import Campaign, Framework, tested_seat
from core.jobs.detectable import stored_variance
from core.jobs.plan import header_of, in_full
from core.jobs.run import check_prompts
from core.models.registry import Registry, load_registry
from core.report.breaks import BREAKS
from core.report.plan import (
    HASH_SHOWN,
    PlannedCases,
    PrimaryOutcome,
    lock,
    lock_state,
    note_lock,
    plan_named,
    plan_of,
    planned_condition,
    planned_power,
    read_plan,
    reference_of,
    to_toml,
    when,
)
from core.report.planned import plan_items
from core.report.side import arm_scores, run_side
from core.stats.margins import FEWEST_CASES, Kind
from core.stats.trials import VarianceComponents, variance_components
from core.store.database import Store
from core.store.queries.plans import locked_plans
from core.store.queries.runs import run_ids, run_records

_PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The file of the plan.")]
_PLAN: GivenOptions = {
    "out": (Out, inspect.Parameter.empty),
    "against": option(str | None, None, "The reference: a run, or a model that is run with the same options."),
    "arm": option(str | None, None, "The primary outcome: accuracy in this arm (format:question_type)."),
    "metric": option(
        str | None, None, "The primary outcome: this metric of `report` instead; its options in the file."
    ),
    "kind": option(Kind, "noninferiority", "The hypothesis: noninferiority, superiority or equivalence."),
    "margin": option(float, 0.05, "The accepted loss, or for superiority the difference worth seeing."),
    "level": option(float, 0.05, "One-sided error rate."),
    "breaks": option(list[str], [], f"A hard break (repeat for several): {', '.join(BREAKS)}.", "--break"),
    "name": option(str | None, None, "Name of the plan; by default that of the file."),
    "hypothesis": option(str | None, None, "The hypothesis in a sentence; by default made from kind and margin."),
}
"""Options of ``plan new`` other than those of the campaign; each has a value."""


def plan_app(arguments: Sequence[str]) -> typer.Typer:
    """Return ``plan``; ``new`` has the options of the framework that the arguments name."""
    chosen = framework_in(arguments)

    def new(**given: Any) -> int:
        return _draft(chosen, given, _command(arguments))

    words = "Draft a plan from the options of a run; edit the file, lock it, then run."
    app = typer.Typer(
        no_args_is_help=True, help="Plan a comparison before its runs, and check it after.", rich_markup_mode=None
    )
    app.command("new")(with_options(new, {**campaign_options(chosen), **_PLAN}, words))
    app.command("lock")(lock_plan)
    app.command("show")(show)
    app.command("check")(check)
    return app


def _draft(chosen: Framework, given: Mapping[str, Any], command: str) -> int:
    registry = load_registry(programs=True)
    requested = requested_campaign(chosen, given)
    campaign, _ = campaign_in_full(requested, registry)
    check_prompts(campaign)
    header = header_of(campaign, registry)
    outcome = _outcome(campaign, given)
    reference = _reference(campaign, given["against"], registry) if given["against"] else {}
    kind, margin, level, trials = given["kind"], given["margin"], given["level"], campaign.trials
    power = None
    if outcome.arm:
        variance = _variance(campaign, outcome, reference.get("run", ""))
        power = planned_power(kind, margin, level, len(campaign.cases), trials, *variance)
    out: Path = given["out"]
    plan = plan_of(
        {
            "name": given["name"] or out.stem,
            "hypothesis": given["hypothesis"] or _hypothesis(campaign.tested, reference, outcome, kind, margin),
            "kind": kind,
            "margin": margin,
            "level": level,
            "breaks": given["breaks"],
            "outcome": outcome,
            "cases": PlannedCases(
                case_set=header.case_set,
                case_set_hash=header.case_set_hash,
                cases=len(campaign.cases),
                trials=trials,
                seed=campaign.seed,
            ),
            "condition": planned_condition(header),
            "reference": reference,
            "power": power,
        }
    )
    comments = (
        f"Lock this plan before the run: python -m core plan lock {out}",
        f"The run: python -m core run {command}",
    )
    with new_file(out) as written:
        written.write_text(to_toml(plan, comments), encoding="utf-8")
    print(f"Wrote the plan {plan.name} to {out}.")
    if plan.reference == plan.condition:
        print("Note: the condition and its reference are the same: `plan check` cannot tell their runs apart.")
    if outcome.arm and plan.cases.cases < FEWEST_CASES:
        print(f"Note: a gate decides from {FEWEST_CASES} cases on: it cannot say anything of this plan's runs.")
    if power:
        print(
            f"{len(campaign.cases):,} cases × {trials} trials: {power.chance:.0%} chance to pass with a margin of "
            f"{margin:g}; smallest margin with a power of 80 %: {power.smallest_margin:.3f}. "
            f"Assumed: {power.assumption}."
        )
    return 0


def _reference(campaign: Campaign, against: str, registry: Registry) -> dict[str, str]:
    """Return the condition of a stored run, or the one that a model would have in the same campaign."""
    store = folded_store()
    with store.read() as cursor:
        stored = any(run_id.startswith(against) for run_id in run_ids(cursor))
    if stored:
        return reference_of(run_side(store, run_id_of(store, against)))
    return planned_condition(header_of(_with_doctor(campaign, against, registry), registry))


def _variance(campaign: Campaign, outcome: PrimaryOutcome, reference: str) -> tuple[VarianceComponents, str]:
    """Return the variance in the arm of the outcome with its source: the reference run if it has repeated trials."""
    store = Store()
    if reference:
        scores = arm_scores(store, run_side(store, reference), outcome.arm, outcome.mcq_rule)
        measured = variance_components([s.correct for s in scores], [s.counted for s in scores])
        if not math.isnan(measured.within):
            return measured, f"run {reference}"
    arm = next(arm for arm in campaign.arms if ":".join(arm) == outcome.arm)
    return stored_variance(store, campaign.protocol, campaign.case_set, campaign.tested).of_arm(arm)


def _outcome(campaign: Campaign, given: Mapping[str, Any]) -> PrimaryOutcome:
    arms = [f"{format_}:{question_type}" for format_, question_type in campaign.arms]
    arm, metric = given["arm"], given["metric"]
    if metric and not arm:
        return PrimaryOutcome(metric=metric)
    if arm is None and len(arms) == 1:
        return PrimaryOutcome(arm=arms[0])
    if arm not in arms or metric:
        raise UsageError(f"A plan has one primary outcome: name --metric NAME, or --arm, one of {', '.join(arms)}.")
    return PrimaryOutcome(arm=arm)


def _with_doctor(campaign: Campaign, doctor: str, registry: Registry) -> Campaign:
    role = tested_seat(campaign.framework).role
    return in_full(replace(campaign, names=campaign.names.but(**{role: doctor})), registry)


def _hypothesis(doctor: str, reference: Mapping[str, str], outcome: PrimaryOutcome, kind: Kind, margin: float) -> str:
    other = reference.get("doctor", "the reference")
    words = {
        "noninferiority": f"is not worse than {other} by more than {margin:g}",
        "superiority": f"is better than {other}",
        "equivalence": f"differs from {other} by less than {margin:g}",
    }
    return f"{doctor} {words[kind]} in {outcome}."


def _command(arguments: Sequence[str]) -> str:
    """Return the arguments of the run that a plan is for: those of the call without the plan's own."""
    own = {f"--{name}" for name in _PLAN} - {"--breaks"} | {"--break"}
    of_run: list[str] = []
    words = iter(arguments[1:])
    for word in words:
        if word.partition("=")[0] not in own:
            of_run.append(word)
        elif "=" not in word:
            next(words, None)
    return shlex.join(of_run)


def lock_plan(
    path: _PlanFile,
    amend: Annotated[str, typer.Option(help="Why a plan that was locked before is changed; reports name it.")] = "",
) -> int:
    """Lock a plan: store its content, hash and time in the journal of what people write, and note them in the file."""
    path = path.expanduser()
    plan, store = read_plan(path), folded_store()
    locked = lock(store, plan, amend)
    path.write_text(note_lock(path.read_text(encoding="utf-8"), locked), encoding="utf-8")
    print(f"Locked the plan {plan.name} as {locked.plan_hash[:HASH_SHOWN]} at {when(locked.locked_at)}.")
    doctor, digest = plan.condition["doctor"], plan.cases.case_set_hash
    with store.read() as cursor:
        early = [run.run_id for run in run_records(cursor) if (run.doctor, run.case_set_hash) == (doctor, digest)]
    if early := [run_id for run_id in early if run_id != plan.reference.get("run")]:
        print(f"Note: {doctor} has been run on these cases before the lock: {', '.join(early)}.")
    return 0


def show(
    plan: Annotated[str | None, typer.Argument(metavar="[PLAN|NAME]", help="By default all locked plans.")] = None,
) -> int:
    """Print a plan with its locks, or list all locked plans."""
    store = folded_store()
    with store.read() as cursor:
        stored = locked_plans(cursor)
    if plan is None:
        for locked in stored:
            reason = f"  amended: {locked.reason}" if locked.reason else ""
            print(f"{locked.name:<32} {locked.plan_hash[:HASH_SHOWN]}  {when(locked.locked_at)}{reason}")
        if not stored:
            print("No plan is locked. Draft one: python -m core plan new --help")
        return 0
    path = Path(plan).expanduser()
    shown = read_plan(path) if path.exists() else plan_named(store, plan)
    print(to_toml(shown), end="")
    state = lock_state(store, shown)
    print(f"# {state.problem or 'locked as it stands'}")
    for locked in state.locks:
        print(f"# lock {locked.plan_hash[:HASH_SHOWN]} at {when(locked.locked_at)} {locked.reason}".rstrip())
    return 0


def check(
    path: Annotated[str, typer.Argument(metavar="PLAN|NAME", help="The file, or the name of a locked plan.")],
    run: Annotated[list[str], typer.Argument(metavar="RUN...", help="The runs of the plan.")],
    format_: FormatOption = "table",
) -> int:
    """Compare a plan with its runs: planned, done, different. The exit status is 1 if something is different."""
    store = folded_store()
    file = Path(path).expanduser()
    plan = read_plan(file) if file.exists() else plan_named(store, path)
    items = plan_items(store, plan, [run_id_of(store, name) for name in run])
    print_rows([item._asdict() for item in items], format_)
    return 1 if any(item.different for item in items) else 0
