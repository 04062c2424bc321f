"""``run``, ``resume`` and ``runs``: campaigns from the command line."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from core.case import Case
from core.cli.folded import folded_store, run_id_of
from core.cli.progress import progress_bar
from core.datasets.select import answers_of, select
from core.errors import UsageError
from core.events import COUNTED
from core.frameworks.base import AUTOMEDIC, CRAFTMD, FRAMEWORKS, framework
from core.frameworks.casting import CastNames, is_model
from core.jobs.engine import Progress, is_running
from core.jobs.estimate import Estimate
from core.jobs.estimates import estimate_of
from core.jobs.pictures import read_images, without_words
from core.jobs.plan import (
    Campaign,
    Settings,
    find_header,
    header_of,
    in_full,
    parse_arms,
    remarks_of,
    unfinished_twin,
    who_sits,
)
from core.jobs.preparing import left_out_words, playable_cases, prepared_cases
from core.jobs.run import Options, Outcome, begin, carry_out, check_prompts, check_startable
from core.journal import RunHeader
from core.models.registry import Registry, load_registry
from core.persona import parse_persona
from core.store.runs import RunProgress
from core.store.runs import header_of as header_of_run
from core.store.runs import runs as stored_runs

Doctor = Annotated[str, typer.Option(help="Model under test: provider/model, an alias, or reference/bayes.")]
Concurrency = Annotated[int, typer.Option(min=1, help="Trials under way at once.")]
Budget = Annotated[float | None, typer.Option(help="Stop when this many US dollars are spent.")]
BaseUrl = Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server.")]
_BY_DEFAULT = "left out: [defaults] of the models file, else the doctor's own model; rules beside reference/bayes"


def run(
    doctor: Doctor,
    patient: Annotated[str, typer.Option(help=f"Who plays the patient; {_BY_DEFAULT}.")] = "",
    grader: Annotated[str, typer.Option(help=f"Who grades free responses; {_BY_DEFAULT}.")] = "",
    summariser: Annotated[str, typer.Option(help=f"Who summarises conversations; {_BY_DEFAULT}.")] = "",
    protocol: Annotated[str, typer.Option(help=f"The protocol: {' or '.join(FRAMEWORKS)}.")] = CRAFTMD.name,
    cases: Annotated[str, typer.Option(help="DATASET, DATASET:SPECIALTY, or DATASET:id,id,…")] = "library",
    limit: Annotated[int | None, typer.Option(help="Only the first N of these cases.")] = None,
    arms: Annotated[
        str | None,
        typer.Option(help="all, paper, or format:question_type,…; the protocol's usual ones where left out."),
    ] = None,
    trials: Annotated[int, typer.Option(help="Repetitions of each case.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the campaign.")] = 20,
    prompts: Annotated[
        str | None, typer.Option(help="A prompt pack: its name, or a folder; the protocol's where left out.")
    ] = None,
    base_url: BaseUrl = None,
    temperature: Annotated[float | None, typer.Option(help="The doctor's temperature.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="The doctor's longest reply in tokens.")] = None,
    effort: Annotated[
        str, typer.Option(help="How much the doctor's model is to think: none, minimal, low, medium, high, or its own.")
    ] = "",
    max_messages: Annotated[int, typer.Option(help="Cap of a conversation's messages; 0 for none.")] = 30,
    persona: Annotated[str, typer.Option(help="How the patient speaks, such as anxious,A,poor,caregiver.")] = "",
    probe: Annotated[
        bool, typer.Option("--probe", help="Ask the doctor's model after each reply what it believes; costs calls.")
    ] = False,
    solver: Annotated[str, typer.Option(help="Consultation: who answers the task from the dialogue.")] = "",
    staff: Annotated[str, typer.Option(help="AutoMedic: who plays the clinical staff.")] = "",
    cap: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The doctor's most questions (Consultation, usually 10; none for the oracle) or "
            "turns (AutoMedic, 20).",
        ),
    ] = None,
    doctor_prompt: Annotated[str, typer.Option(help="Consultation: the doctor's prompt, long or short.")] = "",
    images: Annotated[
        str, typer.Option(help="with: the doctor's model is sent the cases' pictures too; or without.")
    ] = "without",
    concurrency: Concurrency = 32,
    budget_usd: Budget = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would take, and start nothing.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start anew even where the same campaign is unfinished.")
    ] = False,
) -> int:
    """Run a campaign: cases × trials × arms; an unfinished one of the same fingerprint is taken up again."""
    if protocol not in FRAMEWORKS:
        known = " or ".join(FRAMEWORKS)
        raise typer.BadParameter(f"there is no protocol {protocol!r}: choose {known}", param_hint="--protocol")
    registry = load_registry()
    automedic = protocol == AUTOMEDIC.name
    chosen = tuple(select(cases, limit))
    asked = Campaign(
        names=CastNames(doctor, patient, grader, summariser),
        cases=_playable(chosen) if automedic else chosen,
        case_set=cases if limit is None else f"{cases} (first {limit})",
        arms=parse_arms(framework(protocol).usual_arms if arms is None else arms, protocol),
        many_choices=answers_of(cases),
        trials=trials,
        seed=seed,
        prompts=protocol if prompts is None else prompts,
        protocol=protocol,
        settings=Settings(
            temperature, max_tokens, None, max_messages or None, base_url,
            persona=str(parse_persona(persona)), probe=probe and (is_model(doctor) or protocol != CRAFTMD.name),
            solver=solver, max_questions=0 if automedic else cap or 0, doctor_prompt=doctor_prompt, staff=staff,
            max_turns=cap or 0 if automedic else 0, images=read_images(images), reasoning_effort=effort,
        ),
    )  # fmt: skip
    campaign = in_full(asked, registry)
    check_prompts(campaign)
    header = header_of(campaign, registry)
    if bare := without_words(campaign.settings.images, campaign.cases):
        print(bare, file=sys.stderr)
    size = estimate_of(campaign, registry, concurrency)
    beside = who_sits(asked, campaign, registry)
    if dry_run:
        notes = [f"Mind that {remark}." for remark in remarks_of(campaign)]
        print("\n".join([*filter(None, [beside]), *describe(size), *notes]))
        return 0
    check_startable(campaign, registry, Options(concurrency, budget_usd))
    if beside:
        print(beside, flush=True)
    twin = None if fresh else unfinished_twin(header.fingerprint, _done())
    if twin is not None and not is_running(twin.run_id):
        print(f"Taking up the unfinished run {twin.run_id} of the same campaign.", file=sys.stderr)
        header = twin
    else:
        begin(header)
    return _carry_out(header, registry, concurrency, budget_usd)


def _playable(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    """Return the cases with their profiles, and say which are left out."""
    prepared = prepared_cases(cases)
    ready = playable_cases(prepared)
    if prepared.left_out:
        print(left_out_words(prepared), file=sys.stderr)
    return ready


def resume(
    run_id: Annotated[str, typer.Argument(metavar="RUN")], concurrency: Concurrency = 32, budget_usd: Budget = None
) -> int:
    """Run what an interrupted run still misses; finished trials are kept as they are."""
    return _carry_out(_header_of(run_id), load_registry(), concurrency, budget_usd)


def _header_of(name: str) -> RunHeader:
    """Return the header of a run, also of a release's that has no journal: there is another word on that."""
    try:
        return find_header(name)
    except UsageError:
        store = folded_store()
        run_id = run_id_of(store, name)
        with store.read() as cursor:
            header = header_of_run(cursor, run_id)
        if header is None or header.source != "release":
            raise
        return header


def runs(
    format_: Annotated[str, typer.Option("--format", help="table or json.")] = "table",
) -> int:
    """List all runs with their progress."""
    listed = [_run_fields(row) for row in _stored_runs()]
    if format_ == "json":
        print(json.dumps(listed, indent=1))
        return 0
    if not listed:
        print("No run yet. Start one with: python -m core run --doctor reference/bayes")
    for row in listed:
        done = f"{row['trials_done']}/{row['trials_planned']} trials"
        print(f"{row['run_id']}  {row['state']:<9} {done:>16}  {row['doctor']}")
    return 0


def _stored_runs() -> list[RunProgress]:
    store = folded_store()
    with store.read() as cursor:
        return stored_runs(cursor)


def _run_fields(row: RunProgress) -> dict[str, Any]:
    return {
        "run_id": row.run_id,
        "state": state_of(row),
        "doctor": row.doctor,
        "patient": row.patient,
        "grader": row.grader,
        "trials_done": row.done,
        "trials_planned": row.planned,
    }


def state_of(row: RunProgress) -> str:
    """Return ``running``, ``complete`` or ``stopped``."""
    if is_running(row.run_id):
        return "running"
    return "complete" if row.state == "complete" else "stopped"


def _done() -> dict[str, int]:
    return {row.run_id: row.done for row in _stored_runs()}


def _carry_out(header: RunHeader, registry: Registry, concurrency: int, budget_usd: float | None) -> int:
    with progress_bar(header.run_id) as show:
        outcome = carry_out(header, registry, Options(concurrency, budget_usd, show))
    return conclude(outcome)


def conclude(outcome: Outcome) -> int:
    """Print how a run ended and return the exit status."""
    progress, run_id = outcome.progress, outcome.header.run_id
    if outcome.stopped is not None:
        print(
            f"{outcome.stopped} {progress.done} of {progress.planned} trials are kept; "
            f"go on with: python -m core resume {run_id}",
            file=sys.stderr,
        )
        return 1
    cost = f", ${progress.cost_usd:.2f}" if progress.cost_usd else ""
    tokens = f", {progress.tokens:,} tokens{cost}" if progress.tokens else ""
    print(f"Run {run_id} is complete: {progress.done} trials{tokens}.")
    if progress.verdicts:
        print(f"Verdicts: {', '.join(f'{n} {verdict}' for verdict, n in progress.verdicts.most_common())}.")
    report = "care" if outcome.header.protocol == AUTOMEDIC.name else "accuracy"
    print(f"See: python -m core report {report} --run {run_id}")
    return _warn_of_failures(progress)


def _warn_of_failures(progress: Progress) -> int:
    """Say what providers broke; the status is 1 where nothing at all came of the run."""
    if not progress.failures:
        return 0
    message, _ = progress.failures.most_common(1)[0]
    lost = progress.failures.total()
    print(f"{lost} answers are excluded because a provider failed, most often: {message}", file=sys.stderr)
    return 0 if any(progress.verdicts[verdict] for verdict in COUNTED) else 1


def describe(size: Estimate) -> list[str]:
    """Return an estimate in lines of plain words."""
    cost = size.cost_usd
    lines = [
        f"{size.cases} cases × {size.trials} trials = {size.cases * size.trials} trials, "
        f"{size.conversations} conversations, {size.answers} answers.",
        f"About {size.calls:,} calls, {size.tokens:,} tokens, "
        f"{'cost unknown (no price is known for a model)' if cost is None else f'${cost:,.2f}'}, "
        f"{duration(size.seconds)}.",
    ]
    for role in size.roles:
        price = "price unknown" if role.cost_usd is None else f"${role.cost_usd:,.2f}"
        lines.append(
            f"  {role.role:<11} {role.model:<40} {role.calls:>8,} calls "
            f"{role.prompt_tokens:>12,} + {role.completion_tokens:,} tokens  {price}"
        )
    return lines


def duration(seconds: float) -> str:
    """Return seconds in words: s, min or h."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
