"""``report graders``: agreement of graders, their differences and contradictions, and the accuracy by each grader."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Literal

from core.errors import AnamnesisError, UsageError
from core.frameworks.starts import CAMPAIGN, GRADING, RELEASE, Missing
from core.measures.base import Listed, MetricRequest, NameOf, Row, Section, metric
from core.measures.graders.agreement import VerdictTable, agreement_rows, flip_rates, read_graders, read_judged
from core.measures.graders.panels import accuracy_by_judge, arm_of, corrected_by_judge, members
from core.store.queries.grades_by_grader import DifferenceFilter, differences
from core.store.selection import conditions

NEEDED = (
    "Correcting an accuracy for the grader's error needs experts' judgements of free responses: plan a review of "
    "answers drawn at random or by stratum (page Judges, Experts), and unblind it when all is answered."
)
CORRECTED = (
    "Corrected by Rogan and Gladen: (accuracy + specificity − 1) / (sensitivity + specificity − 1), with each grader’s "
    "sensitivity and specificity against the experts of the review. Empty: there is no review of this format, or the "
    "grader is no better than chance on its items. With experts: prediction-powered mean over answers (PPI++) of the "
    "grader’s verdicts and those of the experts on the same model; it needs no assumption on the grader’s error."
)


GradersPart = Literal["agreement", "flips", "differences", "accuracy", "judged"]
_LONG = 60
"""Maximum number of characters of a response in a table; CSV and JSON have the whole response."""


@metric(
    "graders",
    "run",
    "models",
    "source",
    "cases",
    "pool",
    "asks_for",
    empty="There is nothing to report on graders.",
    starts=(CAMPAIGN, RELEASE),
    page="judges",
)
def report(
    request: MetricRequest,
    part: Annotated[
        GradersPart,
        "Agreement of graders, their contradictions, answers on which two differ, accuracy by grader, or the number of "
        "answers that each judged.",
    ] = "agreement",
    panel: Annotated[
        str | None,
        "Graders with commas: a panel whose majority counts (accuracy), the graders to compare (agreement), or the two "
        "to compare (differences; without it, the newest verdict and the previous one).",
    ] = None,
    graders: Annotated[
        str | None, "Only rows of these graders, with commas; all without it (not for differences)."
    ] = None,
    common: Annotated[bool, "For accuracy: only answers that all graders have judged."] = False,
) -> Iterator[Listed]:
    """Report on graders of free responses; the newest verdict of a grader on an answer counts.

    A row is about the answers of one model under one condition on one data set. A grader with other prompts is a
    separate grader, named with their hash.
    """
    if part not in ("judged", "differences"):
        _set_conditions(request)
    in_panel = members(panel) if panel else []
    only = [name.strip() for name in graders.split(",")] if graders else []
    if part == "agreement":
        yield from _agreement(
            _verdict_table(request, in_panel) if in_panel else _verdict_table(request, only=only), request.name
        )
    elif part == "flips":
        yield from _contradictions(request, only)
    elif part == "differences":
        yield from _differences(request, in_panel)
    elif part == "judged":
        yield from _judged(request, only)
    else:
        yield from _accuracies(request, in_panel, only, common=common)


def _set_conditions(request: MetricRequest) -> None:
    """Set the conditions that notes are about: here the grader does not distinguish conditions."""
    if request.selection.conditions is not None:
        chosen = conditions(request.store, request.selection, without=("grader",))
        runs = {run for condition in chosen for run in condition.runs}
        request.basis = replace(request.selection, conditions=None)
        behind = conditions(request.store, request.basis)
        request.conditions = [condition.name for condition in behind if not runs.isdisjoint(condition.runs)]


def _verdict_table(request: MetricRequest, required: Sequence[str] = (), only: Sequence[str] = ()) -> VerdictTable:
    """Return the verdicts of the ``required`` graders and of those in ``only`` (all graders if both are empty).

    Raises ``UsageError`` if a required grader has judged nothing, or if none in ``only`` has.
    """
    judged = request.read(read_judged, None, request.selection)
    if not judged.graders:
        raise Missing(
            "No grader has judged a free response here: a campaign needs an arm with free responses.", CAMPAIGN, RELEASE
        )
    some = [grader for grader in judged.graders if grader in only] if only else []
    return judged.of(list(dict.fromkeys([*(some or only), *required]))) if only or required else judged


def _agreement(judged: VerdictTable, name: NameOf) -> list[Row]:
    rows = agreement_rows(judged)
    if not rows:
        raise Missing(
            f"Nothing to compare: no answer was judged by two of {', '.join(map(name, judged.graders))}. Another "
            "grader can grade a run's answers again; the reference grader needs no key.",
            GRADING,
        )
    return rows


def _contradictions(request: MetricRequest, graders: Sequence[str]) -> list[Row]:
    rows = [row for row in request.read(flip_rates, request.selection) if not graders or row.label["grader"] in graders]
    if not rows:
        raise Missing(
            "No grader has judged the same response, or one answer, twice yet. Several trials of a case give equal "
            "responses, and a grader can be asked again.",
            replace(GRADING, command="job regrade --run RUN --grader M --again"),
        )
    return rows


def _judged(request: MetricRequest, graders: Sequence[str]) -> Iterator[Listed]:
    for stored in request.read(read_graders, request.selection):
        if not graders or stored.grader in graders:
            yield {
                "grader": stored.grader,
                "answers": stored.answers,
                "verdicts": stored.verdicts,
                "prompts": ", ".join(stored.prompts),
                "last_verdict": f"{datetime.fromtimestamp(stored.newest_at, UTC):%Y-%m-%d %H:%M} UTC",
            }


def _differences(request: MetricRequest, graders: Sequence[str]) -> Iterator[Listed]:
    if graders and len(graders) != 2:
        raise UsageError("Differences are between two graders: --panel openai/gpt-4o,reference/names.")
    if graders:
        _verdict_table(request, graders)  # raises an error if one is unknown
    pair = (graders[0], graders[1]) if graders else None
    with request.store.read() as cursor:
        differing = differences(cursor, DifferenceFilter(pair, selection=request.selection))
    if not differing:
        raise AnamnesisError("There is no difference: every verdict agrees with the other.")
    for difference in differing:
        response = " ".join(difference.response.split()) if request.short else difference.response
        yield {
            "model": difference.model,
            "case": difference.case_key,
            "trial": difference.trial + 1,
            "format": difference.format,
            "question_type": difference.question_type,
            "answer": difference.answer,
            "response": f"{response[:_LONG]}…" if request.short and len(response) > _LONG else response,
            "first_grader": difference.first_grader,
            "first_read_as": difference.first_extracted,
            "first_verdict": difference.first_verdict,
            "second_grader": difference.second_grader,
            "second_read_as": difference.second_extracted,
            "second_verdict": difference.second_verdict,
            "trial_id": difference.trial_id,
        }


def _accuracies(request: MetricRequest, panel: Sequence[str], only: Sequence[str], *, common: bool) -> Iterator[Row]:
    judged = _verdict_table(request, panel if only else (), only)
    rows = accuracy_by_judge(judged, panel, common=common)
    corrections = {
        (row.label["judge"], row.label["model"], row.label["format"], "frq"): row
        for row in request.read(corrected_by_judge, judged.graders, tuple(panel))
    }
    for row in rows:
        correction = corrections.get((row.label["judge"], *arm_of(row)))
        columns = {
            "corrected": correction and correction.estimate,
            "corrected_low": correction and correction.low,
            "corrected_high": correction and correction.high,
            **_together(correction),
            "review": correction and correction.more["review"],
        }
        yield replace(row, more={**row.more, **(columns if corrections else {})})
    request.note(CORRECTED if corrections else NEEDED)
    if ties := sum(row.more["ties"] for row in rows):
        request.note(f"The panel tied on {ties:,} answers, which are excluded.", kind="excluded")
    by_arm: dict[tuple[str, str, str], set[int]] = {}
    for row in rows:
        by_arm.setdefault(arm_of(row), set()).add(row.more["n_trials"])
    if any(len(numbers) > 1 for numbers in by_arm.values()):
        request.note("The graders judged different answers: the numbers of trials differ.", kind="part")


def _together(correction: Row | None) -> dict[str, float | int | None]:
    """Return the accuracy by grader and experts together, within 0 to 1, as columns."""
    result = correction and correction.more["with_experts"]
    if not result:
        return dict.fromkeys(("with_experts", "with_experts_low", "with_experts_high", "n_by_experts"))
    low, estimate, high = (
        None if math.isnan(value) else min(1.0, max(0.0, value))
        for value in (result.interval.low, result.estimate, result.interval.high)
    )
    return {
        "with_experts": estimate,
        "with_experts_low": low,
        "with_experts_high": high,
        "n_by_experts": result.labelled,
    }


AGREEMENT = Section(
    "Agreement of every two graders",
    report,
    {"part": "agreement"},
    kind="matrix",
    heads={"value": "Value", "n_answers": "Answers", "left_out": "Not judged by all"},
    caption="The newest verdict of each grader on an answer counts. 95 % intervals resample cases with all their "
    "answers.",
    folded=True,
    page="judges",
)
JUDGED = Section(
    "Who judged what",
    report,
    {"part": "judged"},
    kind="table",
    heads={"answers": "Answers judged", "last_verdict": "Last verdict"},
    help="Prompts: hashes of the two prompts of a regrading; empty for the run’s prompts, or none.",
    page="judges",
)
ACCURACY = Section(
    "Accuracy by grader",
    report,
    {"part": "accuracy"},
    kind="bars",
    series="judge",
    place="model",
    axis="Accuracy",
    columns=(
        "model", "format", "question_type", "judge", "mean", "ci_low", "ci_high", "corrected", "corrected_low",
        "corrected_high", "with_experts", "with_experts_low", "with_experts_high", "n_by_experts", "review", "n_cases",
        "n_trials", "n_excluded", "excluded_by_reason", "ties",
    ),
    heads={
        "judge": "Judged by",
        "n_trials": "Answers",
        "corrected_low": "Corrected, low",
        "corrected_high": "Corrected, high",
        "with_experts": "With experts",
        "with_experts_low": "With experts, low",
        "with_experts_high": "With experts, high",
        "n_by_experts": "By experts",
        "excluded_by_reason": "Why excluded",
    },
    caption="Mean over a case’s answers, then over cases; smoothed bootstrap, 95 %.",
    page="judges",
)  # fmt: skip
CONTRADICTIONS = Section(
    "Share of pairs that a grader judged both ways",
    report,
    {"part": "flips"},
    kind="rates",
    heads={
        "share": "Share",
        "judged_again": "Judged more than once",
        "both_ways": "Judged both ways",
        "pairs": "Of pairs",
    },
    help="A pair is a right answer with the same response, or with the same diagnosis extracted from it, that a grader "
    "judged more than once under the same prompts; “one answer, judged again” is the same answer. Judged both ways: "
    "right in one judgement and not right in another. A verdict copied from an earlier identical answer is not counted "
    "again. Answers of different models are never pooled; 95 % intervals resample right answers.",
    page="judges",
)
SECTIONS = (AGREEMENT, JUDGED, ACCURACY, CONTRADICTIONS)
