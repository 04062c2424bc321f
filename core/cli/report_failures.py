"""``report belief`` and ``report failures``: what doctors believed, and what wrong answers are put down to."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from core.cli.comparisons import Models, Printed, Rule, print_as
from core.cli.folded import folded_store, run_id_of
from core.errors import AnamnesisError
from core.events import Format
from core.jobs.fact_judging import beside_people
from core.measures.attribution import Attribution
from core.measures.attribution_run import Attributed, attributions
from core.measures.attribution_shares import CauseShare, PatientEffect, cause_shares, patient_effects
from core.measures.belief_calibration import Calibration, calibrations
from core.measures.belief_many import BeliefRow, CurvePoint, Mean, belief_rows, curves
from core.measures.belief_run import courses
from core.measures.ledger.keeping import mark_missing
from core.models.registry import load_registry
from core.store.database import Store
from core.store.queries.accuracy import case_scores
from core.store.queries.facts import judges
from core.store.selection import Selection

Runs = Annotated[list[str] | None, typer.Option(help="Only this run (again for more); live ones too.")]
BeliefPart = Literal["models", "calibration", "reliability", "curves"]
FailurePart = Literal["causes", "arms", "patient", "answers", "judges"]
Row = dict[str, Any]


def report_belief(
    run: Runs = None, models: Models = None,
    part: Annotated[BeliefPart, typer.Option(help="Which figures: by model, calibration, its bins, or curves.")] = (
        "models"
    ),
    format_: Printed = "table",
) -> int:  # fmt: skip
    """Report when the right diagnosis led, premature closure, over-asking, and calibration (Brier, ECE)."""
    store = folded_store()
    with counting("conversations") as show:
        found = courses(store, selection_of(store, run, models), on_progress=show)
    if not found:
        raise AnamnesisError(
            "No belief is stored: run a campaign with --probe, or with the reference doctor. Name runs whose patient "
            "had a persona by --run."
        )
    rows: dict[BeliefPart, Callable[[], list[Row]]] = {
        "models": lambda: [row for one in belief_rows(found) for row in _belief_rows(one)],
        "calibration": lambda: [_calibration_row(row) for row in calibrations(found)],
        "reliability": lambda: [row for one in calibrations(found) for row in _bin_rows(one)],
        "curves": lambda: [_curve_row(point) for point in curves(found)],
    }
    print_rows(rows[part](), format_)
    return 0


def report_failures(
    run: Runs = None, models: Models = None,
    formats: Annotated[
        str, typer.Option(help="Formats with commas: multi_turn, multi_turn_exam, vignette; all for every one.")
    ] = "multi_turn",
    part: Annotated[
        FailurePart, typer.Option(help="Causes, by arm, accuracy without the patient's, answers, or who judged.")
    ] = "causes",
    mcq_rule: Rule = "mcq_loose", format_: Printed = "table",
) -> int:  # fmt: skip
    """Report what each wrong answer is put down to: provider, case, grader, patient or doctor."""
    store = folded_store()
    wanted = selection_of(store, run, models, None if formats == "all" else formats.split(","))
    if part == "judges":
        print_rows(_judge_rows(store, wanted), format_)
        return 0
    with counting("facts ledgers") as show:
        mark_missing(store, replace(wanted, formats=None), on_progress=show)
    with counting("conversations") as show:
        attributed = attributions(store, wanted, mcq_rule, on_progress=show)
    found = attributed.answers
    if not found:
        raise AnamnesisError(
            "There is no wrong answer to attribute: run a campaign, or choose other --formats (vignette, multi_turn, "
            "multi_turn_exam). Name runs whose patient had a persona by --run. AutoMedic's failures: `report care`."
        )
    if part == "patient":
        with store.read() as cursor:
            effects = patient_effects(found, case_scores(cursor, wanted, mcq_rule))
        print_rows([_effect_row(effect) for effect in effects], format_)
    elif part == "answers":
        print_rows([_answer_row(one) for one in found], format_)
    else:
        print_rows([_cause_row(row) for row in cause_shares(found, by_arm=part == "arms")], format_)
    _tell_judged(attributed)
    return 0


def _tell_judged(attributed: Attributed) -> None:
    """Say who judged what patients withheld and invented, and what nobody judged."""
    open_ = [a for a in attributed.answers if a.counted and (a.cause == "not_judged" or a.provisional)]
    if attributed.judge is None and not open_:
        return
    by = f"{attributed.judge.model} (prompts {attributed.judge.prompt_hash})" if attributed.judge else "nobody"
    judged = sum(a.judged and a.counted for a in attributed.answers)
    words = f"Withheld and invented: judged by {by} for {judged:,} wrong answers."
    if open_:
        provisional = sum(a.provisional for a in open_)
        words += (
            f" Not judged: {len(open_) - provisional:,} answers of that cause, and {provisional:,} put down to the "
            "doctor that may still be the patient's. A model judges them: `python -m core judge-facts --model M`."
        )
    print(words, file=sys.stderr)


def _judge_rows(store: Store, wanted: Selection) -> list[Row]:
    with store.read() as cursor:
        kept = judges(cursor, wanted)
    if not kept:
        raise AnamnesisError(
            "No model has judged what patients withheld and invented: run `python -m core judge-facts --model M` "
            "first, or choose another --run or --models."
        )
    rows = []
    for one in kept:
        people = {row.question: row for row in beside_people(store, one.judge)}
        beside: Row = {}
        for fault, question in (("invented", "in_vignette"), ("withheld", "complete_answers")):
            row = people.get(question)
            beside |= {f"{fault}_people": row.n if row else 0, f"{fault}_same": row.same if row else None,
                       f"{fault}_kappa": row.kappa if row else None}  # fmt: skip
        rows.append({**one.judge._asdict(), "judged": one.judged, "failed": one.failed, **beside})
    return rows


def print_rows(rows: Sequence[Row], format_: Literal["table", "csv", "json"]) -> None:
    """Print rows; what is not a number is a dash in a table, empty in CSV and null in JSON."""
    nothing = "–" if format_ == "table" else None
    print_as([{k: nothing if _missing(v) else v for k, v in row.items()} for row in rows], format_)


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def selection_of(
    store: Store, run: list[str] | None, models: str | None, formats: list[str] | None = None
) -> Selection:
    """Return what the options of a report select: runs by id or the beginning of it, models, formats."""
    chosen: list[Format] | None = [name.strip() for name in formats] if formats else None  # type: ignore[misc]
    return Selection(
        runs=[run_id_of(store, name) for name in run] if run else None, models=model_names(models), formats=chosen
    )


def model_names(models: str | None) -> list[str] | None:
    """Return the names under which models may be stored: as given, and what an alias stands for."""
    if models is None:
        return None
    aliases = {alias.lower(): name for alias, name in load_registry().aliases.items()}
    given = [name.strip() for name in models.split(",")]
    return [*given, *(aliases[name.lower()] for name in given if name.lower() in aliases)]


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows a bar on stderr, and nothing where that is no terminal."""
    console = Console(stderr=True)
    if not sys.stderr.isatty():
        yield lambda done, planned: None
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, planned: bar.update(task, total=planned, completed=done)


def _mean(mean: Mean) -> Row:
    return {
        "mean": mean.value, "ci_low": mean.interval.low, "ci_high": mean.interval.high, "n_cases": mean.n_cases,
        "n_conversations": mean.n_conversations,
    }  # fmt: skip


def _belief_rows(row: BeliefRow) -> list[Row]:
    names = ("ever_led", "leads_at_end", "lost", "premature", "over_asked", "first_led")
    return [{"model": row.model, "figure": name, **_mean(getattr(row, name))} for name in names]


def _calibration_row(row: Calibration) -> Row:
    return {
        "model": row.model, "when": row.when, "n_cases": row.n_cases, "n_probes": row.n_probes, "brier": row.brier,
        "brier_low": row.brier_interval.low, "brier_high": row.brier_interval.high, "ece": row.ece,
        "ece_low": row.ece_interval.low, "ece_high": row.ece_interval.high,
    }  # fmt: skip


def _bin_rows(row: Calibration) -> list[Row]:
    return [
        {
            "model": row.model, "when": row.when, "from": found.low, "to": found.high, "n_cases": found.n_cases,
            "n_probes": found.n_probes, "probability": found.probability, "right": found.right,
            "ci_low": found.interval.low, "ci_high": found.interval.high,
        }
        for found in row.bins
    ]  # fmt: skip


def _curve_row(point: CurvePoint) -> Row:
    head = {"model": point.model, "quantity": point.quantity, "per_cent": point.per_cent}
    return {**head, **_mean(point.mean)}


def _cause_row(row: CauseShare) -> Row:
    arm: Row = dict(zip(("format", "question_type"), row.arm, strict=True)) if row.arm else {}
    return {
        "model": row.model, **arm, "cause": row.cause, "n": row.n, "wrong": row.n_wrong, "share": row.share,
        "ci_low": row.interval.low, "ci_high": row.interval.high, "excluded": row.n_excluded,
        "provisional": row.n_provisional,
    }  # fmt: skip


def _effect_row(row: PatientEffect) -> Row:
    return {
        "model": row.model, "format": row.arm[0], "question_type": row.arm[1], "accuracy": row.accuracy,
        "ci_low": row.interval.low, "ci_high": row.interval.high, "without_patient": row.without,
        "without_low": row.without_interval.low, "without_high": row.without_interval.high,
        "same_cases": row.same_cases, "same_cases_low": row.same_cases_interval.low,
        "same_cases_high": row.same_cases_interval.high, "n_cases": row.n_cases,
        "answers_left_out": row.n_left_out, "cases_left_out": row.n_cases_left_out, "not_judged": row.n_not_judged,
    }  # fmt: skip


def _answer_row(one: Attribution) -> Row:
    answer = one.answer
    return {
        "model": answer.model, "case": answer.case[0], "trial_id": answer.trial_id, "format": answer.format,
        "question_type": answer.question_type, "verdict": answer.verdict, "cause": one.cause, "rule": one.rule,
        "turn": one.turn, "judged": one.judged, "provisional": one.provisional,
    }  # fmt: skip
