"""``report pairs`` and ``report monitor``: arms, models and versions compared case by case."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from core.cli.folded import folded_store
from core.errors import AnamnesisError, UsageError
from core.measures.accuracy import Group
from core.measures.compare import Comparison, FormatPair, adjusted_p, format_pairs
from core.measures.monitoring import Step, steps
from core.measures.scores import chosen, read_scores
from core.models.registry import load_registry
from core.stats.corrections import Correction, format_p, stars
from core.store.queries.accuracy import CaseScore
from core.store.selection import McqRule, Selection, doctor_of

By = Annotated[Group | None, typer.Option(help="Split by specialty or dataset.")]
Models = Annotated[str | None, typer.Option(help="Only these models, with commas.")]
Cases = Annotated[str | None, typer.Option(help="Only cases of these data sets, with commas.")]
Corrected = Annotated[Correction, typer.Option(help="Correction over all tests that are printed.")]
Rule = Annotated[McqRule, typer.Option(help="Rule for choices: the paper's, or exactly one named.")]
Printed = Annotated[Literal["table", "csv", "json"], typer.Option("--format", help="How to print it.")]


def report_pairs(
    by: By = None, models: Models = None, cases: Cases = None, correction: Corrected = "holm",
    mcq_rule: Rule = "mcq_loose", format_: Printed = "table",
) -> int:  # fmt: skip
    """Compare every format with the same model's vignette arm, paired by case (second minus first)."""
    scores = _scores(mcq_rule, cases)
    if models is not None:
        scores = chosen(scores, models=[name for one in models.split(",") for name in _held(one, scores)])
    pairs = format_pairs(scores, by)
    if not pairs:
        raise AnamnesisError("No model has answers on vignettes and in another format.")
    p_values = adjusted_p([pair.result for pair in pairs], correction)
    print_as([_pair_row(pair, p, by) for pair, p in zip(pairs, p_values, strict=True)], format_)
    return 0


def report_monitor(
    versions: Annotated[str, typer.Option(help="Versions in order, with commas, such as mistral_v1_7b,mistral_v2_7b.")],
    by: By = None, cases: Cases = None, correction: Corrected = "holm", mcq_rule: Rule = "mcq_loose",
    format_: Printed = "table",
) -> int:  # fmt: skip
    """Compare each version of a model with the one before it, arm by arm, paired by case."""
    scores = _scores(mcq_rule, cases)
    held = [_held(name, scores) for name in versions.split(",")]
    for found in held:
        if len(found) > 1:
            others = "; ".join(found[1:])
            typer.echo(f"The newest condition is compared, {found[0]}; name another one for it: {others}.", err=True)
    names = [found[0] for found in held]
    if len(names) < 2:
        raise UsageError("--versions needs at least two, the older one first.")
    changes = steps(scores, names, by, correction)
    if not changes:
        raise AnamnesisError("These versions have no arm in common.")
    print_as([_step_row(step, by) for step in changes], format_)
    return 0


def case_sets_of(cases: str | None) -> list[str] | None:
    """Return the data sets that an option names with commas."""
    return None if cases is None else [name.strip() for name in cases.split(",")]


def _scores(mcq_rule: McqRule, cases: str | None) -> list[CaseScore]:
    store = folded_store()
    scores = read_scores(store, Selection(case_sets=case_sets_of(cases)), mcq_rule)
    if not scores:
        raise AnamnesisError("There is nothing to report yet: run a campaign, or import the authors' release.")
    return scores


def _held(name: str, scores: Sequence[CaseScore]) -> list[str]:
    """Return the conditions that a name stands for, the newest first: one of them, or all of a model or alias."""
    held = dict.fromkeys(score.model for score in scores)
    plain = name.strip()
    full = {alias.lower(): target for alias, target in load_registry().aliases.items()}.get(plain.lower(), plain)
    found = [one for one in held if one == plain] or [one for one in held if doctor_of(one) in (plain, full)]
    if not found:
        raise UsageError(f"The database holds no answers of {plain!r}; it holds {', '.join(sorted(held))}.")
    return found


def _pair_row(pair: FormatPair, p: float, by: Group | None) -> dict[str, Any]:
    group: dict[str, Any] = {by: pair.group} if by else {}
    arms = {"model": pair.model, "question_type": pair.question_type, **group, "first": "vignette"}
    return {**arms, "second": pair.format, **_figures(pair.result, p)}


def _step_row(step: Step, by: Group | None) -> dict[str, Any]:
    group: dict[str, Any] = {by: step.group} if by else {}
    arm = {"format": step.format, "question_type": step.question_type, **group}
    invalid = {"change": step.verdict, "invalid_first": step.invalid_before, "invalid_second": step.invalid_after}
    return {"first": step.before, "second": step.after, **arm, **_figures(step.result, step.adjusted_p), **invalid}


def _figures(result: Comparison, p: float) -> dict[str, Any]:
    return {
        "first_mean": result.first_mean,
        "second_mean": result.second_mean,
        "difference": result.difference,
        "ci_low": result.ci_low,
        "ci_high": result.ci_high,
        "p": result.p,
        "p_adjusted": p,
        "n_cases": result.n,
        "improved": result.improved,
        "regressed": result.regressed,
        "equal": result.equal,
    }


def print_as(rows: Sequence[dict[str, Any]], format_: str) -> None:
    """Print rows as a table, as CSV or as JSON."""
    if format_ == "json":
        print(json.dumps(rows, indent=1))
    elif format_ == "csv":
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    else:
        _print_table(rows)


def _print_table(rows: Sequence[dict[str, Any]]) -> None:
    table = Table(*[name.replace("_", " ") for name in rows[0]], box=None, pad_edge=False)
    for row in rows:
        table.add_row(*[_cell(name, value) for name, value in row.items()])
    Console(width=None if sys.stdout.isatty() else 240).print(table)


def _cell(name: str, value: Any) -> str:
    if name in ("p", "p_adjusted"):
        return f"{format_p(value)} {stars(value)}" if name == "p_adjusted" else format_p(value)
    return f"{value:.3f}" if isinstance(value, float) else str(value)
