"""Reads once what a report on runs needs: their set-up, the results of metrics, prompts and example conversations."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from core.callbacks import ProgressCallback, StopCallback
from core.errors import AnamnesisError
from core.export.document import ExportedConversation, document_of
from core.frameworks.base import frameworks
from core.jobs.repeat import PROGRAM
from core.measures.accuracy import report as accuracy
from core.measures.base import Listed, MetricRequest, Note, Result, Section
from core.measures.endings import report as endings
from core.measures.experts.judge_status import report as judge_status
from core.measures.failures import report as failures
from core.measures.flow import Flow, flow, flow_of
from core.measures.graders.report import report as graders
from core.measures.memorisation import report as memorisation
from core.measures.notes import result_of
from core.measures.repeatability import report as repeatability
from core.measures.repeatability import report_power
from core.measures.rubrics.report import report_safety
from core.measures.set_up import (
    UsedPrompt,
    case_sources,
    dates,
    distinct_prompts,
    prompts,
    served,
    settings,
    used_prompts,
)
from core.measures.spend import spend
from core.measures.urgency.report import report_urgency
from core.report.environment import environment
from core.report.plan import stored_plan
from core.report.planned import plan_items
from core.store.conditions import Condition
from core.store.database import Store
from core.store.queries.plans import locked_plans
from core.store.queries.report_fields import WrittenField, written_fields
from core.store.queries.runs import Run, RunProgress, runs
from core.store.selection import Selection, conditions

_ARM = ("model", "format", "question_type")
_INTERVAL = ("ci_low", "ci_high")
FIGURES: Mapping[str, Section] = {
    "flow": Section("Flow of cases, trials, conversations and answers", flow, kind="table", folded=True),
    "ranking": Section(
        "Ranking: accuracy and cost",
        accuracy,
        {"rank": True},
        kind="table",
        columns=(
            "model",
            "data_set",
            "framework",
            "format",
            "question_type",
            "rank",
            "mean",
            *_INTERVAL,
            "n_cases",
            "from_first",
            "p_adjusted",
            "cost_usd",
            "turns",
            "seconds",
            "provider_failures",
            "without_diagnosis",
            "excluded_by_reason",
        ),
        heads={
            "data_set": "Cases",
            "mean": "Accuracy",
            "n_cases": "Common cases",
            "from_first": "Δ to first",
            "cost_usd": "US dollars",
            "turns": "Messages",
            "provider_failures": "Provider failures",
            "without_diagnosis": "No diagnosis",
        },
    ),
    "accuracy": Section(
        "Accuracy",
        accuracy,
        kind="dots",
        columns=(*_ARM, "rule", "mean", *_INTERVAL, "n_cases", "n_trials", "n_excluded", "excluded_by_reason"),
        heads={"mean": "Accuracy"},
    ),
    "against_vignette": Section(
        "Differences from the same model's vignettes",
        accuracy,
        {"versus_vignette": True},
        kind="table",
        columns=(*_ARM, "mean", "difference", "difference_low", "difference_high", "p", "p_adjusted", "n_shared"),
        folded=True,
    ),
    "repeatability": Section(
        "Repeated trials: pass^k and flips",
        repeatability,
        kind="table",
        columns=(*_ARM, "figure", "value", *_INTERVAL, "n_cases", "excluded"),
        folded=True,
    ),
    "by_specialty": Section(
        "Accuracy by specialty",
        accuracy,
        {"by": "specialty"},
        kind="table",
        columns=(*_ARM, "specialty", "mean", *_INTERVAL, "n_cases", "n_excluded"),
        folded=True,
    ),
    "by_dataset": Section(
        "Accuracy by data set",
        accuracy,
        {"by": "dataset"},
        kind="table",
        columns=(*_ARM, "dataset", "mean", *_INTERVAL, "n_cases", "n_excluded"),
        folded=True,
    ),
    "failures": Section(
        "Causes of wrong answers",
        failures,
        kind="table",
        columns=("model", "cause", "n", "wrong", "share", *_INTERVAL, "excluded"),
    ),
    "wrong_answers": Section("Wrong answers", failures, {"part": "answers"}, kind="table"),
    "endings": Section("How conversations ended", endings, kind="table"),
    "power": Section("Cases and trials for a difference of 0.05", report_power, kind="table", folded=True),
    "graders": Section("Agreement of graders with each other", graders, kind="table"),
    "judge_status": Section("Agreement of judges with people, and their calibration", judge_status, kind="table"),
    "safety": Section("Musts missed and must-nots done", report_safety, kind="table"),
    "urgency": Section("Urgency that doctors gave, against that of the cases", report_urgency, kind="table"),
    "memorisation": Section("Completions that are similar to the original", memorisation, kind="table"),
    "memorised_accuracy": Section(
        "Accuracy with and without flagged cases", memorisation, {"part": "accuracy"}, kind="table"
    ),
    "spend": Section("Calls, tokens and cost", spend, kind="table"),
    "settings": Section("Seats and settings of the conditions", settings, kind="table"),
    "served": Section("Served models and dates", served, kind="table"),
    "dates": Section("Runs and their dates", dates, kind="table"),
    "prompts": Section("Prompts and their hashes", prompts, kind="table"),
    "case_sources": Section("Played cases", case_sources, kind="table"),
}
"""Name → a metric with options, and how a report shows it."""
SAMPLED: Mapping[str, int] = {"failures": 300, "wrong_answers": 100}
"""Figure → most trials of each condition that it reads: a random sample that is always the same."""
EXAMPLES = 6
"""Most conversations that a report quotes."""
_PACKAGES = (
    "duckdb",
    "numpy",
    "scipy",
    "statsmodels",
    "pandas",
    "openai",
    "transformers",
    "torch",
    "pydantic",
    "jinja2",
)


@dataclass(frozen=True)
class Example:
    """A wrong answer in a quoted conversation, as the row of ``failures`` has it."""

    row: Mapping[str, Any]
    talk: ExportedConversation


@dataclass(frozen=True)
class CheckedPlan:
    """A locked plan for these runs, with its items as planned, done and different, and the command that prints them."""

    name: str
    items: Sequence[Listed]
    command: str


def states_settings(run: Run) -> bool:
    """Whether it is recorded how the models of a run were called: not in a release or a log of another program."""
    return run.source != "release" and run.protocol in frameworks()


@dataclass(frozen=True)
class EvaluationFacts:
    """What is stored about the runs of a report.

    ``flow`` is the diagram of all runs together. ``results`` has the figures of ``FIGURES`` with rows; ``reasons`` says
    for the others why there are none, and what would make them. ``commands`` print the same rows. ``written`` are the
    texts of people, by field.
    """

    runs: Sequence[RunProgress]
    conditions: Sequence[Condition]
    results: Mapping[str, Result]
    reasons: Mapping[str, str]
    commands: Mapping[str, str]
    flow: Flow | None = None
    prompts: Sequence[UsedPrompt] = ()
    plans: Sequence[CheckedPlan] = ()
    examples: Sequence[Example] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    written: Mapping[str, WrittenField] = field(default_factory=dict)

    @property
    def run_ids(self) -> tuple[str, ...]:
        return tuple(sorted(run.run_id for run in self.runs))

    @property
    def incomplete(self) -> bool:
        """Whether some run was imported without saying how its models were called."""
        return not all(map(states_settings, self.runs))

    def notes(self) -> dict[Note, list[str]]:
        """Return note → titles of the figures that it is about, the severe notes first."""
        about: dict[Note, list[str]] = {}
        for name, result in self.results.items():
            for note in result.notes:
                about.setdefault(replace(note, models=(), page=""), []).append(FIGURES[name].title)
        return dict(sorted(about.items(), key=lambda item: item[0].severity != "high"))


def read_facts(
    store: Store,
    run_ids: Sequence[str],
    progress: ProgressCallback = lambda done, planned: None,
    stop: StopCallback = lambda: False,
) -> EvaluationFacts:
    """Read everything about these runs; each query is read once, also if several figures need it.

    After a stop the figures that were not read are missing.
    """
    selection = Selection(runs=list(run_ids))
    query = _remembering(store)
    results: dict[str, Result] = {}
    reasons: dict[str, str] = {}
    stored = query(conditions, selection)
    commands = {name: command_of(name, run_ids, stored) for name in FIGURES}
    for number, (name, section) in enumerate(FIGURES.items()):
        progress(number, len(FIGURES))
        if stop():
            reasons[name] = "Reading was stopped."
            continue
        request = MetricRequest(store, selection_of(name, run_ids, stored), query=query)
        try:
            result = result_of(section.metric, request, dict(section.options))
        except AnamnesisError as error:
            reasons[name] = str(error)
            continue
        if result.rows:
            results[name] = result
        else:
            reasons[name] = section.metric.empty
    with store.read() as cursor:
        stored_runs, written = runs(cursor, list(run_ids)), written_fields(cursor, run_ids)
    return EvaluationFacts(
        sorted(stored_runs, key=lambda run: (run.created_at, run.run_id)),
        stored,
        results,
        reasons,
        commands,
        query(flow_of, tuple(sorted(run_ids))) if "flow" in results else None,
        distinct_prompts(query(used_prompts, selection)),
        _plans(store, stored_runs),
        _examples(store, results.get("wrong_answers")),
        _environment(),
        written,
    )


def _remembering(store: Store) -> Callable[..., Any]:
    """Return a function that calls a query of the store and remembers its answer."""
    answers: list[tuple[Any, Mapping[str, Any], Any]] = []

    def read(query: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(query).bind(store, *args, **kwargs)
        bound.apply_defaults()
        for earlier, arguments, answer in answers:
            if earlier is query and arguments == bound.arguments:
                return answer
        answer = query(*bound.args, **bound.kwargs)
        answers.append((query, bound.arguments, answer))
        return answer

    return read


def selection_of(name: str, run_ids: Sequence[str], stored: Sequence[Condition]) -> Selection:
    """Return the trials of a figure: those of the runs, or of their models and cases if its metric reads no runs."""
    filters = FIGURES[name].metric.filters
    if "run" in filters:
        return Selection(runs=list(run_ids), sample=SAMPLED.get(name))
    models, data_sets = _models_and_data_sets(stored)
    return Selection(
        models=models if "models" in filters else None, case_sets=data_sets if "cases" in filters else None
    )


def command_of(name: str, run_ids: Sequence[str], stored: Sequence[Condition]) -> str:
    """Return the command that prints the rows of a figure."""
    section = FIGURES[name]
    words = ["report", section.metric.name]
    if "run" in section.metric.filters:
        for run_id in run_ids:
            words += ["--run", run_id]
        if name in SAMPLED:
            words += ["--sample", str(SAMPLED[name])]
    else:
        models, data_sets = _models_and_data_sets(stored)
        words += ["--models", ",".join(models), "--cases", ",".join(data_sets)]
    for option, value in section.options.items():
        words += [f"--{option.replace('_', '-')}", *([] if value is True else [str(value)])]
    return f"{PROGRAM} {shlex.join(words)}"


def _models_and_data_sets(stored: Iterable[Condition]) -> tuple[list[str], list[str]]:
    names = dict.fromkeys((condition.doctor, condition.newest.data_set) for condition in stored)
    return list(dict.fromkeys(doctor for doctor, _ in names)), list(dict.fromkeys(data_set for _, data_set in names))


def _plans(store: Store, of_runs: Sequence[RunProgress]) -> list[CheckedPlan]:
    """Return the last lock of each plan whose doctor and cases are those of one of these runs."""
    with store.read() as cursor:
        newest = {locked.name: locked for locked in locked_plans(cursor)}
    tested = {(run.doctor, run.case_set_hash) for run in of_runs}
    run_ids = [run.run_id for run in of_runs if run.source == "local"]
    checked = []
    for plan in map(stored_plan, newest.values()):
        if (plan.condition["doctor"], plan.cases.case_set_hash) in tested:
            command = f"{PROGRAM} {shlex.join(['plan', 'check', plan.name, *run_ids])}"
            rows = tuple(item._asdict() for item in plan_items(store, plan, run_ids))
            checked.append(CheckedPlan(plan.name, rows, command))
    return checked


def _examples(store: Store, wrong: Result | None) -> list[Example]:
    """Return a conversation for each condition and cause, at most ``EXAMPLES``."""
    first: dict[tuple[Any, Any], Mapping[str, Any]] = {}
    for row in wrong.rows if wrong else ():
        if isinstance(row, Mapping):
            first.setdefault((row["cause"], row["model"]), row)
    by_trial = {row["trial_id"]: row for row in reversed(list(first.values()))}
    chosen = list(by_trial.values())[::-1][:EXAMPLES]
    return [Example(row, document_of([row["trial_id"]], store).talks[0]) for row in chosen]


def _environment() -> dict[str, str]:
    """Return the versions of Python and of the packages behind the figures, and the machine that made the report."""
    present = environment()
    packages = {name: present["packages"][name] for name in _PACKAGES if name in present["packages"]}
    return {"python": present["python"], "system": f"{present['system']}, {present['machine']}", **packages}
