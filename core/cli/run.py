"""``run``, ``resume``, ``runs``, ``label`` and ``delete``: campaigns from the command line."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Annotated, Any, Literal, get_origin

import typer
from pydantic.fields import FieldInfo

from core.cli.options import (
    BaseUrl,
    Batch,
    Budget,
    CaseSample,
    ConcurrencyOption,
    DryRun,
    GivenOptions,
    Limit,
    folded_store,
    print_estimate,
    progress_bar,
    run_id_of,
    with_options,
)
from core.datasets.select import SAMPLE_SEED, choices_of, choose, full_data_set
from core.errors import UsageError
from core.frameworks.base import Campaign, Framework, framework, frameworks, read_settings
from core.frameworks.casting import CastNames, Seat, StudyCast, is_model
from core.frameworks.settings import flag_of, options_of
from core.jobs.begun import begun_with_other_cast, find_header, unfinished_twin
from core.jobs.budget import is_used_up
from core.jobs.cluster import on_ray
from core.jobs.detectable import detectable_in_words, stored_variance
from core.jobs.engine import Options
from core.jobs.estimate import estimate
from core.jobs.extending import extension_of
from core.jobs.judge import stated_judge
from core.jobs.plan import (
    campaign_of,
    header_of,
    in_full,
    left_out_words,
    parse_arms,
    playable_cases,
    prepared_cases,
    read_images,
    remarks_of,
    study_cast,
    who_sits,
    without_words,
)
from core.jobs.progress import is_running, run_state
from core.jobs.run import PlayTrials, already_running, begin, carry_out, check_prompts, check_startable, in_this_process
from core.journal import RUBRIC_SCORES, USUAL_MARGIN, Hypothesis, RunHeader, journal_path
from core.models.registry import Registry, load_registry
from core.stats.margins import margin_fault
from core.store.database import Store
from core.store.purge import purge_run
from core.store.queries.run_labels import Label, delete_run, label_run, labels, run_contents
from core.store.queries.runs import header_of as header_of_run
from core.store.queries.runs import run_records
from core.store.queries.runs import runs as stored_runs

EngineName = Annotated[str, typer.Option("--engine", help="Where trials are played: local, or ray.")]
RayAddress = Annotated[
    str | None,
    typer.Option(help="Address of a Ray cluster, as printed by ray start, or auto; by default a local one is started."),
]
_PROTOCOL = "--protocol"


def framework_in(arguments: Sequence[str]) -> Framework:
    """Return the framework that the arguments of a call name; raise ``UsageError`` for an option of another one."""
    names = [
        argument.partition("=")[2] or following
        for argument, following in zip_longest(arguments, arguments[1:], fillvalue="")
        if argument.partition("=")[0] == _PROTOCOL
    ]
    chosen = frameworks().get(names[-1] if names else "", framework())
    own_flags = _flags_of(chosen)
    for flag in (argument.partition("=")[0] for argument in arguments):
        owners = [other.name for other in frameworks().values() if flag in _flags_of(other)]
        if owners and flag not in own_flags:
            raise UsageError(f"{flag} belongs to the protocol {' or '.join(owners)}, not {chosen.name}: leave it out.")
    return chosen


def run_command(arguments: Sequence[str]) -> Callable[..., int]:
    """Return ``run`` with the options of the framework that the arguments name: its seats and settings.

    ``run --extend`` has other options, because the run that it extends states the campaign.
    """
    if any(argument.partition("=")[0] == "--extend" for argument in arguments):
        return extend_run
    chosen = framework_in(arguments)

    def run(**given: Any) -> int:
        return _run(chosen, given)

    words = f"Run a campaign of {chosen.title}: cases × trials × arms; an unfinished one is resumed."
    return with_options(run, {**campaign_options(chosen), **_HOW_TO_RUN}, words)


def _run(chosen: Framework, given: Mapping[str, Any]) -> int:
    """Start the campaign that the options describe or resume an unfinished one; or print what it would take."""
    play_trials = _play_trials(given["engine"], given["ray_address"])
    registry = load_registry(programs=True, batch=given["batch"])
    options = Options(given["concurrency"], given["budget_usd"])
    requested = requested_campaign(chosen, given)
    campaign, study = campaign_in_full(requested, registry)
    check_prompts(campaign)
    header = header_of(campaign, registry).model_copy(update={"hypothesis": _hypothesis(campaign, given, registry)})
    if warning := without_words(campaign.settings.images, campaign.cases):
        print(warning, file=sys.stderr)
    size = estimate(campaign, registry, options.concurrency)
    cast_words = who_sits(requested, campaign, registry, study)
    unfinished = None
    if not given["dry_run"]:
        check_startable(campaign, registry, options)
        unfinished = None if given["fresh"] else _unfinished(requested, header, registry)
    if cast_words and (unfinished is None or unfinished.fingerprint == header.fingerprint):
        print(cast_words, flush=True)
    for role in filter(requested.names.__getitem__, campaign.settings.own_address.split(",")):
        where = registry.spec(campaign.names[role]).base_url or "this machine"
        print(f"{role}: {campaign.names[role]}, at {where} and not at --base-url.", file=sys.stderr)
    if given["dry_run"]:
        print_estimate(size, dry_run=True)
        variance = stored_variance(Store(), chosen.name, campaign.case_set, campaign.tested)
        if words := detectable_in_words(campaign, variance):
            print(words)
        for remark in remarks_of(campaign):
            print(f"Note that {remark}.")
        return 0
    if unfinished is not None:
        if header.hypothesis not in (None, unfinished.hypothesis):
            raise UsageError(
                f"The unfinished run {unfinished.run_id} of the same campaign states "
                f"{unfinished.hypothesis or 'no hypothesis'}: it is stated before the first call. Resume the run "
                "without --hypothesis, or start another one with --again."
            )
        cast = "" if unfinished.fingerprint == header.fingerprint else ", with its original cast"
        print(f"Resuming the unfinished run {unfinished.run_id} of the same campaign{cast}.", file=sys.stderr)
        header = unfinished
    else:
        if size.calls:
            print_estimate(size, dry_run=False)
        header = begin(header, again=given["fresh"])
        if header.hypothesis:
            print(f"Stated before the first call: {header.hypothesis}", file=sys.stderr)
    return _carry_out(header, registry, options, play_trials)


def extend_run(
    extend: Annotated[str, typer.Option(metavar="RUN", help="The finished run.")],
    trials: Annotated[int | None, typer.Option(min=2, help="Play each of its cases until it has N trials.")] = None,
    cases: Annotated[str | None, typer.Option(help="Play the cases of DATASET[:id,…] that it lacks.")] = None,
    concurrency: ConcurrencyOption = None,
    engine: EngineName = "local",
    ray_address: RayAddress = None,
    budget_usd: Budget = None,
    batch: Batch = False,
    dry_run: DryRun = False,
) -> int:
    """Add trials or cases to a finished run with its cast and settings; what is stored is not paid for again."""
    play_trials = _play_trials(engine, ray_address)
    registry, options = load_registry(programs=True, batch=batch), Options(concurrency, budget_usd)
    header, begun = extension_of(folded_store(), find_header(extend).run_id, registry, trials, cases)
    campaign = campaign_of(header)
    print_estimate(estimate(campaign, registry, concurrency), dry_run=dry_run)
    if dry_run:
        return 0
    check_startable(campaign, registry, options)
    if begun:
        print(f"Resuming the unfinished extension {header.run_id}.", file=sys.stderr)
    return _carry_out(header if begun else begin(header), registry, options, play_trials)


def _hypothesis(campaign: Campaign, given: Mapping[str, Any], registry: Registry) -> Hypothesis | None:
    """Return the hypothesis that the options state; raise ``UsageError`` if it is not complete."""
    text, primary, margin = given["hypothesis"].strip(), given["primary"], given["margin"]
    if not text:
        if primary or margin is not None or any(map(given.get, ("against", "rubric", "judge"))):
            raise UsageError(
                "--primary, --margin, --against, --rubric and --judge belong to a hypothesis: state it with "
                "--hypothesis."
            )
        return None
    arms = [":".join(arm) for arm in campaign.arms]
    primary = primary or (arms[0] if len(arms) == 1 else "")
    if primary not in (*arms, RUBRIC_SCORES):
        raise UsageError(f"A hypothesis has one primary outcome: --primary {', '.join(arms)} or {RUBRIC_SCORES}.")
    margin = USUAL_MARGIN if margin is None else margin
    if fault := margin_fault(margin):
        raise UsageError(fault)
    against = find_header(given["against"]).run_id if given["against"] else ""
    rubric, judge = given["rubric"], given["judge"]
    if bool(rubric) != bool(judge) or (rubric and primary != RUBRIC_SCORES):
        raise UsageError(f"--primary {RUBRIC_SCORES} has both: --rubric NAME and --judge MODEL.")
    stated = stated_judge(folded_store(), rubric, judge, registry) if rubric else None
    return Hypothesis(text=text, primary=primary, margin=margin, against=against, judge=stated)


def campaign_in_full(requested: Campaign, registry: Registry) -> tuple[Campaign, StudyCast]:
    """Return a requested campaign with all seats filled, and the cast of the study that filled some of them."""
    study: StudyCast = {}
    if is_model(requested.tested) and Store().path.exists():  # a dry run must not create the database
        with folded_store().read() as cursor:
            own_runs = run_records(cursor, sources=("local",))
        study = study_cast(own_runs, requested.protocol, requested.case_set, requested.tested, registry)
    return in_full(requested, registry, study), study


def requested_campaign(chosen: Framework, given: Mapping[str, Any]) -> Campaign:
    """Return the campaign as the options describe it, without the cases that the framework cannot play."""
    if given["protocol"] not in frameworks():
        choices = " or ".join(frameworks())
        raise typer.BadParameter(f"there is no protocol {given['protocol']!r}: choose {choices}", param_hint=_PROTOCOL)
    cases = given["cases"]
    selected_cases, data_set = choose(cases, given["limit"], given["sample"], given["seed"]), full_data_set(cases)
    settings = {name: given[name] for name in (*options_of(chosen.settings), "base_url", "reasoning_effort")}
    prepared = prepared_cases(selected_cases.cases, chosen)
    ready = playable_cases(prepared, chosen)
    if prepared.left_out:
        print(left_out_words(prepared), file=sys.stderr)
    return Campaign(
        names=CastNames(**{seat.role: given[seat.role] for seat in chosen.seats}),
        cases=ready,
        case_set=selected_cases.name,
        data_set_hash=data_set.hash,
        data_set_cases=data_set.cases,
        arms=parse_arms(chosen.usual.arms if given["arms"] is None else given["arms"], chosen.name),
        many_choices=choices_of(cases),
        trials=given["trials"],
        seed=given["seed"],
        prompts=given["prompts"] or "",
        protocol=chosen.name,
        settings=read_settings(chosen, {**settings, "images": read_images(given["images"])}),
    )


def _unfinished(requested: Campaign, header: RunHeader, registry: Registry) -> RunHeader | None:
    """Return the unfinished run of the same campaign, if there is one; raise if it is running."""
    with folded_store().read() as cursor:
        done = {row.run_id: row.done for row in stored_runs(cursor)}
    unfinished = unfinished_twin(header.fingerprint, done)
    unfinished = unfinished or begun_with_other_cast(requested, header, registry, done)
    if unfinished is not None and is_running(unfinished.run_id):
        raise already_running(unfinished.run_id)
    return unfinished


def _flags_of(framework: Framework) -> set[str]:
    options = options_of(framework.settings)
    return {flag_of(name, info) for name, info in options.items()} | {f"--{seat.role}" for seat in framework.seats}


def option(kind: Any, default: Any, text: str | None, *flags: str) -> tuple[Any, Any]:
    """Return the annotation and the default of an option, for ``GivenOptions``."""
    return Annotated[kind, typer.Option(*flags, help=text or "")], default


_HOW_TO_RUN: GivenOptions = {
    "concurrency": (ConcurrencyOption, None),
    "engine": (EngineName, "local"),
    "ray_address": (RayAddress, None),
    "budget_usd": (Budget, None),
    "batch": option(bool, False, "Use the provider's Batch API, in arms without a dialogue.", "--batch"),
    "hypothesis": option(str, "", "What the run is to show, stored in its journal before the first call."),
    "primary": option(str, "", f"Primary outcome of the hypothesis: an arm, or {RUBRIC_SCORES}."),
    "margin": option(
        float | None, None, f"Accepted loss of the primary outcome against a reference, by default {USUAL_MARGIN}."
    ),
    "against": option(str, "", "The reference run of the hypothesis."),
    "rubric": option(str, "", f"The rubric of {RUBRIC_SCORES} in the hypothesis."),
    "judge": option(str, "", "The judge whose judgements by this rubric decide; no other changes the decision."),
    "extend": option(str, "", "Add --trials or --cases to this finished run: see `run --extend RUN --help`."),
    "dry_run": (DryRun, False),
    "fresh": option(
        bool, False, "Start a second copy of a campaign that is running or unfinished.", "--again", "--fresh"
    ),
}


def campaign_options(framework: Framework) -> GivenOptions:
    """Return the options that describe a campaign of a framework: its cast, cases, arms and settings."""

    def seat(of: Seat) -> tuple[Any, Any]:
        rules = ", ".join(of.rules[:3]) or "no reference kind"
        if of.tested:
            return option(str, inspect.Parameter.empty, f"The model under test: provider/model, an alias, or {rules}.")
        return option(str, "", f"Who plays the {of.title}: a model, or {rules}.")

    def setting(name: str, info: FieldInfo) -> tuple[Any, Any]:
        kind = str if get_origin(info.annotation) is Literal else info.annotation
        if kind == (int | None) and info.default is not None:
            kind = int
        return option(kind, info.default, info.description, flag_of(name, info))

    fields = framework.settings.model_fields
    effort = fields["reasoning_effort"]
    return {
        **{place.role: seat(place) for place in framework.seats},
        "protocol": option(str, framework.name, f"The framework: {', '.join(frameworks())}."),
        "cases": option(str, "library", "DATASET, DATASET:SPECIALTY, DATASET:id,id,… or DATASET:test@FOLDER"),
        "sample": (CaseSample, None),
        "limit": (Limit, None),
        "arms": option(str | None, None, "all, paper, or format:question_type,…; by default the framework's."),
        "trials": option(int, 5, "Repetitions of each case."),
        "seed": option(int, SAMPLE_SEED, "Seed of the trials, and of the random sample of cases."),
        "prompts": option(str | None, None, "A prompt pack: its name, or a folder; by default the framework's."),
        "base_url": (BaseUrl, None),
        **{name: setting(name, info) for name, info in options_of(framework.settings).items()},
        "reasoning_effort": option(str, "", effort.description, flag_of("reasoning_effort", effort)),
        "images": option(str, "without", fields["images"].description),
    }


def resume(
    run_id: Annotated[str, typer.Argument(metavar="RUN")],
    concurrency: ConcurrencyOption = None,
    engine: EngineName = "local",
    ray_address: RayAddress = None,
    budget_usd: Budget = None,
    batch: Batch = False,
) -> int:
    """Run the missing trials of an interrupted run; finished trials stay as they are."""
    play_trials = _play_trials(engine, ray_address)
    try:
        header = find_header(run_id)
    except UsageError:
        # a release's run has no journal; starting it below gives the right error
        store = folded_store()
        with store.read() as cursor:
            stored = header_of_run(cursor, run_id_of(store, run_id))
        if stored is None or stored.source != "release":
            raise
        header = stored
    return _carry_out(header, load_registry(programs=True, batch=batch), Options(concurrency, budget_usd), play_trials)


def runs(format_: Annotated[str, typer.Option("--format", help="table or json.")] = "table") -> int:
    """List all runs with their progress."""
    store = folded_store()
    with store.read() as cursor:
        progress, labels_by_run = stored_runs(cursor), labels(cursor)
    listed: list[dict[str, Any]] = [
        {
            "run_id": row.run_id,
            "name": labels_by_run.get(row.run_id, Label()).name,
            "tags": list(labels_by_run.get(row.run_id, Label()).tags),
            "state": run_state(row),
            "doctor": row.doctor,
            "patient": row.patient,
            "grader": row.grader,
            "trials_done": row.done,
            "trials_planned": row.planned,
            "calls": sum(use.calls for use in row.use.values()),
            "tokens": sum(use.prompt_tokens + use.completion_tokens for use in row.use.values()),
            "cost_usd": row.cost_usd,
            "hypothesis": row.hypothesis and row.hypothesis.model_dump(),
        }
        for row in progress
    ]
    if format_ == "json":
        print(json.dumps(listed, indent=1))
        return 0
    if not listed:
        print("No run yet. Start one with: python -m core run --doctor reference/bayes")
    for row in listed:
        done = f"{row['trials_done']}/{row['trials_planned']} trials"
        cost = "cost unknown" if row["cost_usd"] is None else f"${row['cost_usd']:,.2f}"
        more = [cost] * bool(row["calls"]) + [row["name"]] * bool(row["name"]) + [f"[{tag}]" for tag in row["tags"]]
        print("  ".join([f"{row['run_id']}  {row['state']:<9} {done:>16}  {row['doctor']}", *more]))
        if row["hypothesis"]:
            print(f"    {Hypothesis.model_validate(row['hypothesis'])}")
    return 0


def label(
    run: Annotated[str, typer.Argument(help="The run, or the beginning of its name.")],
    name: Annotated[str | None, typer.Option(help="Its name; empty: named after its doctor and cases.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag (repeat for several); replaces all tags.")] = None,
    note: Annotated[str | None, typer.Option(help="A note on the run.")] = None,
) -> int:
    """Set the name, tags and note of a run; an option that is left out changes nothing."""
    store = folded_store()
    run_id = run_id_of(store, run)
    with store.read() as cursor:
        stored = labels(cursor).get(run_id, Label())
    new = Label(
        stored.name if name is None else name,
        stored.tags if tag is None else tuple(tag),
        stored.note if note is None else note,
    )
    label_run(store, run_id, new)
    print(f"{run_id}: {new.name or 'no name'}; {', '.join(new.tags) or 'no tags'}")
    return 0


def delete(
    run: Annotated[str, typer.Argument(help="The run, or the beginning of its name.")],
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    purge: Annotated[
        bool,
        typer.Option("--purge", help="Also remove its words and costs from all journals and from the database's file."),
    ] = False,
) -> int:
    """Delete a run with its conversations, answers, verdicts and scores; what it cost stays counted."""
    store = folded_store()
    deleted = purge and journal_path(run, store.journals).exists()  # the journal of a run that was deleted before
    run_id = run if deleted else run_id_of(store, run)
    if is_running(run_id):
        raise UsageError(f"Run {run_id} is running: stop it first.")
    with store.read() as cursor:
        contents = run_contents(cursor, run_id)
    stays = "Its calls and their costs go, too." if purge else "Its calls stay counted."
    print(f"{run_id}: {', '.join(f'{n:,} {what}' for what, n in vars(contents).items())}. {stays}")
    if not yes and not typer.confirm("Delete it for good?"):
        return 1
    if not purge:
        delete_run(store, run_id)
        print(
            f"Deleted. Its messages and replies remain in {store.journals / run_id}, and what judges quoted of it in "
            f"the journals of jobs and people: remove them with `python -m core delete {run_id} --purge`."
        )
        return 0
    purged = purge_run(store, run_id)
    print(f"Deleted, with {purged.lines:,} lines of {purged.journals:,} other journals. Its cases stay.")
    if purged.copies:
        copies = ", ".join(map(str, purged.copies))
        print(f"Backups and exports may still contain it: delete {copies}, and any that lie elsewhere.")
    return 0


def _play_trials(engine: str, ray_address: str | None) -> PlayTrials:
    if engine not in ("local", "ray"):
        raise UsageError(f"There is no --engine {engine!r}: write local or ray.")
    if engine == "ray":
        return on_ray(ray_address)
    if ray_address is not None:
        raise UsageError("--ray-address belongs to --engine ray.")
    return in_this_process


def _carry_out(header: RunHeader, registry: Registry, options: Options, play_trials: PlayTrials) -> int:
    with progress_bar(header.run_id) as show:
        outcome = carry_out(header, registry, replace(options, on_progress=show), play_trials)
    progress, run_id = outcome.progress, outcome.header.run_id
    if outcome.stopped is not None:
        trials = f"{progress.done:,} of {progress.planned:,} trials"
        stored = (
            f"{progress.stored_replies:,} replies and {trials} are stored, and resuming pays for none of them again"
            if progress.stored_replies
            else f"{trials} are stored"
        )
        more = " --budget-usd MORE" if is_used_up(outcome.stopped) else ""
        print(f"{outcome.stopped} {stored}; continue with: python -m core resume {run_id}{more}", file=sys.stderr)
        return 1
    cost = f", ${progress.cost_usd:.2f}" if progress.cost_usd else ""
    tokens = f", {progress.tokens:,} tokens{cost}" if progress.tokens else ""
    print(f"Run {run_id} is complete: {progress.done} trials{tokens}.")
    if outcome.verdicts:
        print(f"Verdicts: {', '.join(f'{n:,} {verdict}' for verdict, n in outcome.verdicts.items())}.")
    report = framework(outcome.header.protocol).usual.report
    print(f"See: python -m core report {report} --run {run_id}")
    if outcome.stored is None or not (lost := outcome.stored.excluded):
        return 0
    often = f" Most often: {max(progress.failures, key=progress.failures.__getitem__)}" if progress.failures else ""
    answers = outcome.stored.answers
    print(f"Excluded, neither right nor wrong: {lost:,} of {answers:,} answers.{often}", file=sys.stderr)
    # the status is 1 if failures left no answer that counts
    return 1 if progress.failures and lost == answers else 0
