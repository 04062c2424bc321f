"""``report graders``: how far graders of free responses agree, contradict themselves, and what accuracy each gives."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from core.cli.comparisons import Printed
from core.cli.folded import folded_store, run_id_of
from core.cli.out_file import half
from core.cli.report_failures import Row, print_rows
from core.errors import AnamnesisError, UsageError
from core.measures.graders.agreement import GraderAgreement, common_agreement, pair_agreements
from core.measures.graders.corrected import NEEDED, CorrectedAccuracy, corrected_by_judge
from core.measures.graders.flips import flip_rates
from core.measures.graders.judged import Judged, read_judged
from core.measures.graders.panel import JudgeAccuracy, accuracy_by_judge, members
from core.store.database import Store
from core.store.queries.graders import Difference, Wanted, differences
from core.store.selection import Selection

Part = Literal["agreement", "flips", "differences", "accuracy"]
_LONG = 60
"""Characters of a response that a table shows; CSV and JSON hold all."""


def report_graders(
    part: Annotated[
        Part,
        typer.Option(
            help="Agreement of graders, contradictions of each, answers on which two differ, or accuracy by grader."
        ),
    ] = "agreement",
    panel: Annotated[
        str | None,
        typer.Option(
            help="Graders with commas: a panel whose majority counts (accuracy), the ones to compare (agreement), or "
            "the two to hold against one another (differences; without it the newest verdict and the one before)."
        ),
    ] = None,
    common: Annotated[bool, typer.Option(help="For accuracy: only answers that all graders have judged.")] = False,
    run: Annotated[list[str] | None, typer.Option(help="Only this run (again for more); live ones too.")] = None,
    format_: Printed = "table",
    out: Annotated[Path | None, typer.Option(help="Write to this new file instead.")] = None,
) -> int:
    """Report on graders of free responses; of one grader the newest verdict on an answer counts."""
    written = half(out) if out else None
    store = folded_store()
    selection = Selection(runs=[run_id_of(store, name) for name in run] if run else None)
    named = members(panel) if panel else []
    if part == "agreement":
        rows = _agreement(store, selection, named)
    elif part == "flips":
        rows = _flips(store, selection)
    elif part == "differences":
        rows = _differences(store, selection, named, short=format_ == "table")
    else:
        rows = _accuracy(store, selection, named, common=common)
    _print(rows, format_, out, written)
    return 0


def _print(rows: Sequence[Row], format_: Literal["table", "csv", "json"], out: Path | None, half_: Path | None) -> None:
    if out is None or half_ is None:
        print_rows(rows, format_)
        return
    try:
        with half_.open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
            print_rows(rows, format_)
        os.replace(half_, out)
    finally:
        half_.unlink(missing_ok=True)
    print(f"Wrote {len(rows):,} rows to {out}.")


def _judged(store: Store, selection: Selection) -> Judged:
    found = read_judged(store, selection=selection)
    if not found.graders:
        raise AnamnesisError(
            "No grader has judged a free response here: run a campaign with an arm such as multi_turn:frq, or import "
            "the authors' release."
        )
    return found


def _agreement(store: Store, selection: Selection, named: Sequence[str]) -> list[Row]:
    judged = _judged(store, selection)
    if named:
        judged = judged.of(named)
    found = [*pair_agreements(judged), *common_agreement(judged)]
    if not found:
        raise AnamnesisError(
            f"Nothing to compare: no answer was judged by two of {', '.join(judged.graders)}. Let another grader judge "
            "a run's answers: `python -m core regrade RUN --grader M`."
        )
    return [row for one in found for row in _agreement_rows(one)]


def _agreement_rows(one: GraderAgreement) -> list[Row]:
    return [
        {
            "graders": ", ".join(one.graders), "verdicts": one.kinds, "measure": name, "value": found.value,
            "ci_low": found.interval.low, "ci_high": found.interval.high, "n_answers": one.n, "n_cases": one.n_cases,
            "left_out": one.left_out,
        }
        for name, found in one.measures.items()
    ]  # fmt: skip


def _flips(store: Store, selection: Selection) -> list[Row]:
    found = flip_rates(store, selection.runs)
    if not found:
        raise AnamnesisError("No grader has met the same response, or one answer, twice yet.")
    return [
        {
            "grader": one.grader, "judged_again": f"the same {one.same}", "pairs": one.pairs, "both_ways": one.both,
            "share": one.share, "ci_low": one.interval.low, "ci_high": one.interval.high, "verdicts": one.verdicts,
        }
        for one in found
    ]  # fmt: skip


def _differences(store: Store, selection: Selection, named: Sequence[str], *, short: bool) -> list[Row]:
    if named and len(named) != 2:
        raise UsageError("Differences are between two graders: --panel openai/gpt-4o,reference/names.")
    if named:
        _judged(store, selection).of(named)  # says who is unknown
    graders = (named[0], named[1]) if named else None
    with store.read() as cursor:
        found = differences(cursor, Wanted(graders, selection=selection))
    if not found:
        raise AnamnesisError("There is no difference: every verdict agrees with the other.")
    return [_difference_row(one, short=short) for one in found]


def _difference_row(one: Difference, *, short: bool) -> Row:
    response = " ".join(one.response.split()) if short else one.response
    return {
        "model": one.model, "case": one.case_key, "trial": one.trial + 1, "format": one.format,
        "question_type": one.question_type, "answer": one.answer,
        "response": f"{response[:_LONG]}…" if short and len(response) > _LONG else response,
        "first_grader": one.first_grader, "first_read_as": one.first_extracted, "first_verdict": one.first_verdict,
        "second_grader": one.second_grader, "second_read_as": one.second_extracted,
        "second_verdict": one.second_verdict, "trial_id": one.trial_id,
    }  # fmt: skip


def _accuracy(store: Store, selection: Selection, named: Sequence[str], *, common: bool) -> list[Row]:
    judged = _judged(store, selection)
    found = accuracy_by_judge(judged, named, common=common)
    corrected: dict[tuple[str, str, str], CorrectedAccuracy] = {
        (c.judge, c.found.model, c.format): c for c in corrected_by_judge(store, judged.graders, named)
    }
    if not corrected:
        print(NEEDED, file=sys.stderr)
    return [_accuracy_row(one, corrected) for one in found]


def _accuracy_row(one: JudgeAccuracy, corrected: dict[tuple[str, str, str], CorrectedAccuracy]) -> Row:
    row = one.row
    held = corrected.get((one.judge, row.model, row.format)) if row.question_type == "frq" else None
    beside: Row = {}
    if corrected:
        found = held.found if held else None
        beside = {
            "corrected": found.value if found else None,
            "corrected_low": found.interval.low if found else None,
            "corrected_high": found.interval.high if found else None,
            "review": held.review if held else None,
        }
    return {
        "judge": one.judge, "model": row.model, "format": row.format, "question_type": row.question_type,
        "mean": row.mean, "ci_low": row.ci_low, "ci_high": row.ci_high, "n_cases": row.n_cases,
        "n_trials": row.n_trials, "n_excluded": row.n_excluded, "ties": one.ties,
        "excluded_by_reason": " ".join(f"{reason}={n}" for reason, n in row.excluded_by_reason.items()), **beside,
    }  # fmt: skip
