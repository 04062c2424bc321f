"""``study``: from your cases to a decision between two doctors, by the ordinary commands, each shown as it starts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced
from pathlib import Path
from typing import Annotated, Any

import typer

from core.cli.options import BaseUrl, DryRun, folded_store, print_estimate, run_id_of
from core.cli.run import campaign_in_full, framework_in, requested_campaign, run_command
from core.errors import AnamnesisError, UsageError
from core.frameworks.base import Campaign
from core.frameworks.casting import is_model
from core.jobs.estimate import estimate, together
from core.jobs.extending import extension_of, extensions
from core.jobs.plan import campaign_of, header_of
from core.journal import RUBRIC_SCORES, USUAL_MARGIN, RunHeader
from core.judging.rubric import name_of as rubric_name
from core.models.registry import load_registry
from core.report.breaks import rubric_readings
from core.stats.margins import margin_fault
from core.store.database import Store
from core.store.queries.runs import RunProgress
from core.store.queries.runs import runs as stored_runs
from core.study.plan import in_words, other_seats, read_study_cases, unlike
from core.study.result import READING_RULE, StudyResult, study_result

_SHOWN = 12
"""Changed cases that are printed; the others are counted."""


@dataclass
class _Steps:
    """Carries out the commands of a study, and leaves each of them what remains of the budget."""

    store: Store
    budget_usd: float | None
    number: int = 0

    def do(self, *words: str) -> None:
        from core.cli.app import main  # which imports this module

        self.number += 1
        print(f"\n[{self.number}] python -m core {shlex.join(words)}", flush=True)
        if main(list(words)):
            raise AnamnesisError(f"The study stopped in step {self.number}; the same command goes on from there.")

    def ask(self, *words: str, besides: Sequence[str] = ()) -> None:
        """Carry out a command that asks models, with the budget without the cost of the runs ``besides``."""
        left = []
        if self.budget_usd is not None:
            with folded_store().read() as cursor:
                spent = sum(run.cost_usd or 0.0 for run in stored_runs(cursor, besides))
            if spent >= self.budget_usd:
                raise AnamnesisError(f"The study has spent its budget (${spent:,.2f}): go on with a larger one.")
            left = ["--budget-usd", f"{self.budget_usd - spent:g}"]
        self.do(*words, *left)


def study(
    cases: Annotated[str, typer.Argument(help="A file of cases, or DATASET[:SPECIALTY or ids].")] = "",
    doctor: Annotated[
        str, typer.Option(help="The new doctor; options of `run` may follow: 'server/m --temperature 0.2'.")
    ] = "",
    against: Annotated[str, typer.Option(help="The present doctor, in the same way.")] = "",
    margin: Annotated[float, typer.Option(help="The accepted loss of the mean score.")] = USUAL_MARGIN,
    trials: Annotated[int | None, typer.Option(min=1, help="Trials of each case, by default 1.")] = None,
    arm: Annotated[str, typer.Option(help="Format and question that decide.")] = "multi_turn:frq",
    rubric: Annotated[str, typer.Option(help="Decide by the score of this rubric instead.")] = "",
    judge: Annotated[str, typer.Option(help="The model that judges by the rubric.")] = "",
    both: Annotated[str, typer.Option(help="Options of `run` for both doctors: '--patient openai/gpt-4o'.")] = "",
    base_url: BaseUrl = None,
    budget_usd: Annotated[float | None, typer.Option(help="Most US dollars of the study, with its judge.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the data set of a file; by default the file's.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out faulty cases.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="The file replaces other cases of this name.")] = False,
    extend: Annotated[
        str, typer.Option(metavar="RUN", help="The second look at a study: its new run, and CASES or --trials.")
    ] = "",
    out: Annotated[Path | None, typer.Option(help="Write the evaluation report to this new .html or .md.")] = None,
    dry_run: DryRun = False,
) -> int:
    """Decide whether a new doctor is better than the present one, or not worse by more than a margin.

    It reads and checks the cases; says what the study costs, what it can show, and how many cases would show the
    margin; stores the hypothesis; plays both doctors with one cast; judges by a rubric, if one is given; and prints the
    decision. The same command goes on after a stop, and pays for nothing again. An undecided study has a second look:
    `study MORE_CASES --extend RUN`, or `study --extend RUN --trials 3`.
    """
    if fault := margin_fault(margin):
        raise UsageError(fault)
    if bool(rubric) != bool(judge):
        raise UsageError("A study by a rubric needs both: --rubric NAME and --judge MODEL.")
    if not extend and not (cases and doctor and against):
        raise UsageError("A study needs CASES, --doctor NEW and --against OLD.")
    steps = _Steps(folded_store(), budget_usd)
    selection = _checked(cases, name, steps, skip_bad=skip_bad, replace=replace) if cases else None
    if extend:
        result = _second_look(extend, selection, trials, steps, dry_run=dry_run)
    else:
        shared = ["--cases", selection or "", "--arms", arm, "--trials", str(trials or 1), *shlex.split(both)]
        shared += ["--base-url", base_url] if base_url else []
        outcome = RUBRIC_SCORES if rubric else arm
        result = _first_look((doctor, against), shared, outcome, margin, (rubric, judge), steps, dry_run=dry_run)
    if result is None:
        return 0
    runs = (*result.new_runs, *result.present_runs)
    if out:
        steps.do("report", "evaluation", *runs, "--out", str(out))
    _print_result(result)
    return 0


def _checked(cases: str, name: str | None, steps: _Steps, *, skip_bad: bool, replace: bool) -> str:
    """Return the selection of the cases without faults; import them if they are in a file."""
    read = read_study_cases(cases, name)
    if read.findings or read.rejected:
        print(f"{read.faults:,} of {len(read.cases) + len(read.rejected):,} cases of {cases} have faults:")
        for position, reason in read.rejected:
            print(f"  {read.unit} {position}: {reason}.")
        for finding in read.findings:
            print(f"  {finding.case_key}: {finding.message}.")
        if not skip_bad:
            raise UsageError("Correct these cases, or leave them out with --skip-bad. Nothing was stored or asked.")
    if not read.stored:
        flags = ["--skip-bad"] * bool(read.rejected) + ["--replace"] * replace
        steps.do("import", "cases", cases, "--name", read.data_set, *flags)
    return read.selection


def _campaign(words: Sequence[str]) -> Campaign:
    """Return the campaign that `run` would play with these words."""
    single = typer.Typer(add_completion=False)
    single.command("run")(run_command(words))
    given: dict[str, Any] = typer.main.get_command(single).make_context("run", list(words)).params
    return requested_campaign(framework_in(words), given)


def _first_look(
    doctors: tuple[str, str],
    shared: Sequence[str],
    outcome: str,
    margin: float,
    rubric_and_judge: tuple[str, str],
    steps: _Steps,
    *,
    dry_run: bool,
) -> StudyResult | None:
    """Play the present and then the new doctor, and judge them; only say what it takes in a dry run."""
    registry = load_registry(programs=True)
    requested = [_campaign(["--doctor", *shlex.split(doctor), *shared]) for doctor in doctors]
    lead = next((campaign for campaign in requested if is_model(campaign.tested)), requested[0])
    cast = other_seats(campaign_in_full(lead, registry)[0])
    seats = [word for role, name in cast.items() for word in (f"--{role}", name)]
    same_cast = (replaced(campaign, names=campaign.names.but(**cast)) for campaign in requested)
    campaigns = [campaign_in_full(campaign, registry)[0] for campaign in same_cast]
    headers = [header_of(campaign, registry) for campaign in campaigns]
    if headers[0].fingerprint == headers[1].fingerprint:
        raise UsageError("Both doctors are the same: name another model, or options such as --temperature.")
    if other := unlike(*headers):
        raise UsageError(f"The doctors cannot be compared ({other}): give such options to both, with --both.")
    missing = [c for c, header in zip(campaigns, headers, strict=True) if not _finished(steps.store, header)]
    if missing:
        print_estimate(together([estimate(campaign, registry) for campaign in missing]), dry_run=True)
    if rubric_and_judge[0]:
        rubric, judge = rubric_and_judge
        count = len(campaigns[0].cases) * campaigns[0].trials * 2
        print(f"{judge} judges {count:,} conversations by {rubric}; the budget covers it.")
    print(in_words(steps.store, campaigns[0], outcome, margin))
    if dry_run:
        return None
    text = f"{doctors[0]} is not worse than {doctors[1]}."
    stated = ["--hypothesis", text, "--primary", outcome, "--margin", f"{margin:g}"]
    played: list[str] = []
    for place in (1, 0):  # the new doctor's hypothesis names the run of the present one
        reference = ["--against", played[0]] if played else []
        if not (run_id := _finished(steps.store, headers[place])):
            steps.ask(
                "run", "--doctor", *shlex.split(doctors[place]), *shared, *seats, *stated, *reference, besides=played
            )
            run_id = _finished(folded_store(), headers[place])
        else:
            print(f"Run {run_id} of {doctors[place]} is finished, and nothing of it is paid for again.")
        played.append(run_id)
    present, new = played
    if rubric_and_judge[0]:
        _judge(*rubric_and_judge, played, steps)
    return study_result(folded_store(), new, present, outcome, margin)


def _second_look(
    extend: str, selection: str | None, trials: int | None, steps: _Steps, *, dry_run: bool
) -> StudyResult | None:
    """Extend both runs of a study, judge what is new by the same rubric, and decide by both looks."""
    new = run_id_of(steps.store, extend)
    with steps.store.read() as cursor:
        records = {run.run_id: run for run in stored_runs(cursor)}
    stated = records[new].hypothesis
    if stated is None or stated.against not in records:
        raise UsageError(f"{new} is not the new run of a study: name the run that `study` printed.")
    registry = load_registry(programs=True)
    more = ["--cases", selection] if selection else ["--trials", str(trials)] if trials else []
    pair = (stated.against, new)
    missing = [
        run_id
        for run_id in pair
        if not any(run.state == "complete" for run in extensions(list(records.values()), run_id))
    ]
    begun = [extension_of(steps.store, run_id, registry, trials, selection)[0] for run_id in missing]
    if begun:
        print_estimate(together([estimate(campaign_of(header), registry) for header in begun]), dry_run=True)
    if dry_run:
        return None
    for run_id in missing:
        earlier = [run.run_id for run in _extended(pair)]
        steps.ask("run", "--extend", run_id, *more, besides=earlier)
    if stated.primary == RUBRIC_SCORES:
        _before, after, _ = rubric_readings(steps.store, new, stated.against)
        (judged_by,) = after.judges.values()
        assert after.rubric is not None
        _judge(rubric_name(after.rubric), judged_by.name, [run.run_id for run in _extended(pair)], steps)
    return study_result(folded_store(), new, stated.against)


def _finished(store: Store, header: RunHeader) -> str:
    """Return the newest finished run of the same campaign, or an empty text."""
    with store.read() as cursor:
        stored = stored_runs(cursor)
    same = (run.run_id for run in stored if run.fingerprint == header.fingerprint and run.state == "complete")
    return next(same, "")


def _extended(run_ids: Sequence[str]) -> list[RunProgress]:
    with folded_store().read() as cursor:
        stored = stored_runs(cursor)
    return [extension for run_id in run_ids for extension in extensions(stored, run_id)]


def _judge(rubric: str, judge: str, run_ids: Sequence[str], steps: _Steps) -> None:
    runs = [word for run_id in run_ids for word in ("--run", run_id)]
    steps.ask("job", "judge", f"rubric:{rubric}", "--by", judge, *runs, besides=run_ids)


def _print_result(result: StudyResult) -> None:
    """Print the page of the decision, which the page Runs also shows."""
    decided = result.decision
    print(f"\n{result.sentence}")
    if decided.cases:
        print(f"{result.outcome}, judged by {result.judge}; accepted loss {decided.margin:g}; {decided.cases:,} cases")
        for number, (mean, look) in enumerate(zip(decided.means, decided.looks, strict=True), 1):
            print(f"  look {number}: new minus present {mean:+.3f} ({look.low:+.3f} to {look.high:+.3f})")
    changed = [case for case in result.cases if case.change]
    flips = [case.flip for case in result.cases]
    print(f"Changed cases: {len(changed):,}; {flips.count('lost'):,} lost, {flips.count('gained'):,} gained.")
    for case in changed[:_SHOWN]:
        print(f"  {case.case:<32} {case.present:.2f} → {case.new:.2f}  {case.flip}".rstrip())
    if len(changed) > _SHOWN:
        print(f"  and {len(changed) - _SHOWN:,} more")
    if result.reading:
        print(f"Conversations worth reading: {READING_RULE}.")
    for conversation in result.reading:
        print(f"  {conversation.why}: {conversation.case}, conversation {conversation.trial_id}")
    for note in result.notes:
        print(f"{'Note: ' if note.severity == 'high' else ''}{note.text}")
    new, present = result.new_runs, result.present_runs
    runs = [word for run_id in (*new, *present) for word in ("--run", run_id)]
    arm = [] if result.outcome == RUBRIC_SCORES else ["--formats", result.outcome.partition(":")[0]]
    arm += ["--questions", result.outcome.partition(":")[2]] if arm else []
    for what, words in {
        "Matrix": ["report", "case_matrix", *runs, *arm, "--outcome", "differ"],
        "Causes": ["report", "failures", *runs],
        "Report": ["report", "evaluation", *new, *present, "--out", "study.html"],
    }.items():
        print(f"{what}: python -m core {shlex.join(words)}")
    if result.verdict == "cannot tell" and len(new) == 1:
        print(f"Second look: python -m core study MORE_CASES --extend {new[0]}")
