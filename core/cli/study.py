"""``study``: from your cases to a decision between two doctors, by the ordinary commands, each shown as it starts."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from dataclasses import replace as replaced
from pathlib import Path
from typing import Annotated, Any

import typer

from core.cli.options import BaseUrl, DryRun, folded_store, print_estimate, run_id_of
from core.cli.run import campaign_in_full, framework_in, requested_campaign, run_command
from core.datasets.select import reading_also
from core.errors import AnamnesisError, UsageError
from core.frameworks.base import Campaign, other_seats
from core.frameworks.casting import is_model
from core.jobs.engine import Options
from core.jobs.estimate import check_budget, estimate, together
from core.jobs.extending import extension_of, extensions
from core.jobs.judge import Judging, stated_judge
from core.jobs.plan import campaign_of, header_of
from core.jobs.run import check_startable
from core.journal import RUBRIC_SCORES, USUAL_MARGIN, Hypothesis, RunHeader, StatedJudge
from core.judging.form import RUBRIC
from core.judging.rubric import version_of
from core.models.registry import Registry, load_registry
from core.report.breaks import rubric_readings
from core.stats.margins import margin_fault
from core.store.database import Store
from core.store.queries.runs import runs as stored_runs
from core.store.selection import Selection
from core.study.plan import StudyCases, in_words, judging_size, read_study_cases, unlike
from core.study.result import LOOKS, READING_RULE, StudyResult, study_result

_SHOWN = 12
"""Changed cases that are printed; the others are counted."""
_GO_ON = "Enter the same command again{}: it goes on from there, and pays for nothing twice."


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
            larger = f", with a --budget-usd over {self.budget_usd:g} if that is used up" if self.budget_usd else ""
            raise AnamnesisError(f"The study stopped in step {self.number}. {_GO_ON.format(larger)}")

    def ask(self, *words: str, besides: Sequence[str] = ()) -> None:
        """Carry out a command that asks models, with the budget without the cost of the runs ``besides``."""
        if self.budget_usd is not None:
            with folded_store().read() as cursor:
                spent = sum(run.cost_usd or 0.0 for run in stored_runs(cursor, besides))
            if spent >= self.budget_usd:
                raise AnamnesisError(
                    f"The study has spent ${spent:,.2f} of its budget of ${self.budget_usd:,.2f}. "
                    f"{_GO_ON.format(' with a larger --budget-usd')}"
                )
            words = (*words, "--budget-usd", f"{self.budget_usd - spent:g}")
        self.do(*words)


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
        str, typer.Option(metavar="RUN", help="Extend a study, once: its new run, and CASES or --trials.")
    ] = "",
    out: Annotated[Path | None, typer.Option(help="Write the evaluation report to this new .html or .md.")] = None,
    dry_run: DryRun = False,
) -> int:
    """Decide whether a new doctor is better than the present one, or not worse by more than a margin.

    It reads and checks the cases; says what the study costs, what it can show, and how many cases would show the
    margin; stores the hypothesis; plays both doctors with the same patient and grader; judges by a rubric, if one is
    given; and prints the decision. The same command goes on after a stop, and pays for nothing again. An undecided
    study can be extended once: `study MORE_CASES --extend RUN`, or `study --extend RUN --trials 3`.
    """
    if fault := margin_fault(margin):
        raise UsageError(fault)
    if bool(rubric) != bool(judge):
        raise UsageError("A study by a rubric needs both: --rubric NAME and --judge MODEL.")
    if not extend and not (cases and doctor and against):
        raise UsageError("A study needs CASES, --doctor NEW and --against OLD.")
    if out and out.exists():
        raise UsageError(f"{out} exists already: choose another name.")
    steps = _Steps(folded_store(), budget_usd)
    read = _without_faults(cases, name, skip_bad=skip_bad) if cases else None
    with reading_also(read.data_set, read.cases) if read and not read.stored else nullcontext():
        if extend:
            play = _extension(extend, read.selection if read else None, trials, steps)
        else:
            shared = ["--cases", read.selection if read else "", "--arms", arm, "--trials", str(trials or 1)]
            shared += [*shlex.split(both), *(["--base-url", base_url] if base_url else [])]
            play = _planned((doctor, against), shared, RUBRIC_SCORES if rubric else arm, margin, rubric, judge, steps)
    if dry_run:
        return 0
    if read and not read.stored:
        flags = ["--skip-bad"] * read.rejected + ["--replace"] * replace
        steps.do("import", "cases", cases, "--name", read.data_set, *flags)
    result = play()
    _print_result(result)
    if out:
        steps.do("report", "evaluation", *result.new_runs, *result.present_runs, "--out", str(out))
    return 0


def _without_faults(cases: str, name: str | None, *, skip_bad: bool) -> StudyCases:
    """Return the cases; print those with faults, and raise ``UsageError`` unless they are left out."""
    read = read_study_cases(cases, name)
    if read.faults:
        total = len(read.cases) + len(read.faults) - len(read.faulty)
        print(f"{len(read.faults):,} of {total:,} cases of {cases} have faults:")
        print(*(f"  {fault}." for fault in read.faults), sep="\n")
        if not skip_bad:
            raise UsageError("Correct these cases, or leave them out with --skip-bad. Nothing was stored or asked.")
    return read


def _campaign(words: Sequence[str]) -> Campaign:
    """Return the campaign that `run` would play with these words."""
    single = typer.Typer(add_completion=False)
    single.command("run")(run_command(words))
    given: dict[str, Any] = typer.main.get_command(single).make_context("run", list(words)).params
    return requested_campaign(framework_in(words), given)


def _planned(
    doctors: tuple[str, str], shared: Sequence[str], outcome: str, margin: float, rubric: str, judge: str, steps: _Steps
) -> Callable[[], StudyResult]:
    """Print what the study takes and can show; return what plays the present and then the new doctor, and judges."""
    registry = load_registry(programs=True)
    requested = [_campaign(["--doctor", *shlex.split(doctor), *shared]) for doctor in doctors]
    lead = next((campaign for campaign in requested if is_model(campaign.tested)), requested[0])
    full = campaign_in_full(lead, registry)[0]
    others = {seat.role: name for seat in other_seats(full.framework) if (name := full.names[seat.role])}
    campaigns = [
        campaign_in_full(replaced(campaign, names=campaign.names.but(**others)), registry)[0] for campaign in requested
    ]
    headers = [header_of(campaign, registry) for campaign in campaigns]
    if headers[0].fingerprint == headers[1].fingerprint:
        raise UsageError("Both doctors are the same: name another model, or options such as --temperature.")
    if other := unlike(*headers):
        raise UsageError(f"The doctors cannot be compared ({other}): give such options to both, with --both.")
    missing = [c for c, header in zip(campaigns, headers, strict=True) if not _finished(steps.store, header)]
    if missing:
        print_estimate(together([estimate(campaign, registry) for campaign in missing]), dry_run=True)
    decides = stated_judge(steps.store, rubric, judge, registry) if rubric else None
    if decides:
        print_estimate(judging_size(steps.store, campaigns[0], rubric, judge, registry), dry_run=True)
    print(in_words(steps.store, campaigns[0], outcome, margin))

    def play() -> StudyResult:
        for campaign in missing:
            check_startable(campaign, registry, Options(budget_usd=steps.budget_usd))
        if rubric and is_model(judge):
            registry.open(judge)  # raises without its key
            check_budget(steps.budget_usd, [registry.spec(judge)])
        text = f"{doctors[0]} is not worse than {doctors[1]}."
        stated = ["--hypothesis", text, "--primary", outcome, "--margin", f"{margin:g}"]
        stated += ["--rubric", rubric, "--judge", judge] if rubric else []
        seats = [word for role, name in others.items() for word in (f"--{role}", name)]
        played: list[str] = []
        for doctor, header in reversed(list(zip(doctors, headers, strict=True))):
            reference = ["--against", *played] if played else []  # the new doctor's hypothesis names the present run
            if run_id := _finished(steps.store, header):
                print(f"Run {run_id} of {doctor} is finished, and nothing of it is paid for again.")
            else:
                steps.ask("run", "--doctor", *shlex.split(doctor), *shared, *seats, *stated, *reference, besides=played)
                run_id = _finished(folded_store(), header)
            played.append(run_id)
        if decides:
            _judge(decides, played, steps)
        return study_result(folded_store(), played[1], played[0], outcome, margin, decides)

    return play


def _extension(extend: str, selection: str | None, trials: int | None, steps: _Steps) -> Callable[[], StudyResult]:
    """Print what the extension of both runs takes; return what plays it, and judges it as the study was judged."""
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
    decides = _judge_of(steps.store, new, stated, registry)
    begun = [extension_of(steps.store, run_id, registry, trials, selection)[0] for run_id in missing]
    if begun:
        print_estimate(together([estimate(campaign_of(header), registry) for header in begun]), dry_run=True)

    def play() -> StudyResult:
        for run_id in missing:
            other_extension = _extended([other for other in pair if other != run_id])
            steps.ask("run", "--extend", run_id, *more, besides=other_extension)
        if decides:
            _judge(decides, _extended(pair), steps)
        return study_result(folded_store(), new, stated.against)

    return play


def _judge_of(store: Store, new: str, stated: Hypothesis, registry: Registry) -> StatedJudge | None:
    """Return the judge of a study by a rubric: the stated one, or without it the one that judged the new run last.

    Raises ``UsageError`` if it would be asked otherwise today, because both looks have one judge.
    """
    if stated.primary != RUBRIC_SCORES:
        return None
    decides = stated.judge
    if decides is None:
        _before, after, _ = rubric_readings(store, new, stated.against)
        assert after.rubric is not None
        (last,) = after.judges.values()
        version = version_of(after.rubric)
        decides = StatedJudge(form=after.rubric.name, version=version, name=last.name, prompt_hash=last.prompt_hash)
    today = stated_judge(store, decides.form.removeprefix(RUBRIC), decides.name, registry)
    if today != decides:
        raise UsageError(f"{decides} judged the study, and its extension would be judged by {today}.")
    return decides


def _finished(store: Store, header: RunHeader) -> str:
    """Return the newest finished run of the same campaign, or an empty text."""
    with store.read() as cursor:
        stored = stored_runs(cursor)
    same = (run.run_id for run in stored if run.fingerprint == header.fingerprint and run.state == "complete")
    return next(same, "")


def _extended(run_ids: Sequence[str]) -> list[str]:
    with folded_store().read() as cursor:
        stored = stored_runs(cursor)
    return [extension.run_id for run_id in run_ids for extension in extensions(stored, run_id)]


def _judge(decides: StatedJudge, run_ids: Sequence[str], steps: _Steps) -> None:
    job = Judging(decides.form, (decides.name,), Selection(runs=run_ids))
    if not job.plan(folded_store(), load_registry()).todo:
        print(f"{decides.name} has judged these runs by {decides.form}, and nothing of it is paid for again.")
        return
    runs = [word for run_id in run_ids for word in ("--run", run_id)]
    steps.ask("job", "judge", decides.form, "--by", decides.name, *runs, besides=run_ids)


def _print_result(result: StudyResult) -> None:
    """Print the page of the decision, which the page Runs also shows."""
    decided, flips = result.decision, [case.flip for case in result.cases]
    about = f"{result.outcome}, judged by {result.judge}; accepted loss {decided.margin:g}; {decided.cases:,} cases"
    looks = zip(LOOKS, decided.means, decided.looks, strict=False)
    changed = [f"  {c.case:<32} {c.present:.2f} → {c.new:.2f}  {c.flip}".rstrip() for c in result.cases if c.change]
    runs = shlex.join(word for run_id in (*result.new_runs, *result.present_runs) for word in ("--run", run_id))
    lines = [
        f"\n{result.sentence}",
        *([about] if decided.cases else []),
        *(f"  {name}: new minus present {mean:+.3f} ({low:+.3f} to {high:+.3f})" for name, mean, (low, high) in looks),
        f"Changed cases: {len(changed):,}; {flips.count('lost'):,} lost, {flips.count('gained'):,} gained.",
        *changed[:_SHOWN],
        *([f"  and {len(changed) - _SHOWN:,} more"] if len(changed) > _SHOWN else []),
        *([f"Conversations worth reading: {READING_RULE}."] if result.reading else []),
        *(f"  {read.why}: {read.case}, conversation {read.trial_id}" for read in result.reading),
        *(f"{'Note: ' if note.severity == 'high' else ''}{note.text}" for note in result.notes),
        f"Matrix: python -m core report case_matrix {runs} --outcome differ",
        f"Causes: python -m core report failures {runs}",
        *([f"Extend it, once: {result.extension}"] if result.extension else []),
    ]
    print("\n".join(lines))
