"""``report graders``: agreement of graders, their differences and contradictions, and the accuracy by each grader."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from core.errors import UsageError
from core.frameworks.starts import CAMPAIGN, GRADING, RELEASE, Missing
from core.measures.base import Listed, MetricRequest, Row, Section, metric
from core.measures.graders.agreement import VerdictTable, agreement_rows, crossed_rows, flip_rates, read_judged
from core.measures.graders.panels import accuracy_by_judge, arm_of, corrected_by_judge, members
from core.store.database import Store
from core.store.queries.grades import FREE_RESPONSES, Answers, differences, stored_graders
from core.store.selection import Selection, conditions
from core.words import VERDICT

NEEDED = (
    "Correcting an accuracy for the grader's error needs experts' judgements of free responses: plan a review of "
    "answers drawn at random or by stratum (page Trust, Experts), and unblind it when all is answered."
)
CORRECTED = (
    "Corrected by Rogan and Gladen: (accuracy + specificity − 1) / (sensitivity + specificity − 1), with each grader’s "
    "sensitivity and specificity against the experts of the review. Empty: there is no review of this format, or the "
    "grader is no better than chance on its items. With experts: prediction-powered mean over answers (PPI++) of the "
    "grader’s verdicts and those of the experts on the same model; it needs no assumption on the grader’s error."
)


GradersPart = Literal["agreement", "crossed", "flips", "differences", "accuracy", "judged"]
VERDICTS: Mapping[str, str] = dict(VERDICT.items())
_LONG = 60
"""Maximum number of characters of a response in a table."""


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
    page="trust",
)
def report(
    request: MetricRequest,
    part: Annotated[
        GradersPart,
        "Agreement of graders, the verdicts of each two crossed, their contradictions, answers on which two differ, "
        "accuracy by grader, or the number of answers that each judged.",
    ] = "agreement",
    panel: Annotated[
        str | None,
        "Graders with commas: a panel whose majority counts (accuracy), the graders to compare (agreement, crossed), "
        "or the two to compare (differences; without it, the newest verdict and the previous one).",
    ] = None,
    graders: Annotated[
        str | None, "Only rows of these graders, with commas; all without it (not for differences)."
    ] = None,
    common: Annotated[
        bool, "For accuracy: only answers that all graders have judged; otherwise each has its own answers."
    ] = False,
) -> Iterator[Listed]:
    """Report on graders of free responses; the newest verdict of a grader on an answer counts.

    A row is about the answers of one model under one condition on one data set. A grader with other prompts is a
    separate grader, named with their hash.
    """
    if part not in ("judged", "differences"):
        _set_conditions(request)
    in_panel = members(panel) if panel else []
    only = [name.strip() for name in graders.split(",")] if graders else []
    if part in ("agreement", "crossed"):
        judged = _verdict_table(request, in_panel) if in_panel else _verdict_table(request, only=only)
        rows = list(agreement_rows(judged) if part == "agreement" else crossed_rows(judged))
        if not rows:
            raise Missing(
                f"Nothing to compare: no answer was judged by two of {', '.join(map(request.name, judged.judges))}. "
                "Another grader can grade a run's answers again; the reference grader needs no key.",
                GRADING,
            )
        yield from rows
    elif part == "flips":
        yield from _contradictions(request, only)
    elif part == "differences":
        if in_panel and len(in_panel) != 2:
            raise UsageError("Differences are between two graders: --panel openai/gpt-4o,reference/names.")
        if in_panel:
            _verdict_table(request, in_panel)  # raises an error if one is unknown
        differing = list(difference_lines(request, (in_panel[0], in_panel[1]) if in_panel else None))
        if not differing:
            raise Missing("There is no difference: every verdict agrees with the other.", GRADING)
        yield from differing
    elif part == "judged":
        for stored in request.read(read_graders, request.selection):
            if not only or stored["grader"] in only:
                at = datetime.fromtimestamp(stored["newest"], UTC)
                counts = {name: stored[name] for name in ("grader", "answers", "verdicts")}
                prompts = ", ".join(stored["prompts"])
                yield {**counts, "prompts": prompts, "last_verdict": f"{at:%Y-%m-%d %H:%M} UTC"}
    else:
        yield from _accuracies(request, in_panel, only, common=common)


def read_graders(store: Store, selection: Selection | None = None) -> list[dict[str, Any]]:
    with store.read() as cursor:
        return stored_graders(cursor, selection)


def difference_lines(
    request: MetricRequest, pair: tuple[str, str] | None, of: Answers = FREE_RESPONSES
) -> Iterator[dict[str, Any]]:
    """Yield the answers on which two judges differ, or the newest verdict and the one before; long responses are cut.

    Only a table cuts them: CSV and JSON have the whole response.
    """
    with request.store.read() as cursor:
        for line in differences(cursor, pair, request.selection, of):
            words = " ".join(line["response"].split()) if request.short else line["response"]
            yield {**line, "response": f"{words[:_LONG]}…" if request.short and len(words) > _LONG else words}


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
    if not judged.judges:
        raise Missing(
            "No grader has judged a free response here: a campaign needs an arm with free responses.", CAMPAIGN, RELEASE
        )
    some = [grader for grader in judged.judges if grader in only]
    return judged.of(list(dict.fromkeys([*(some or only), *required]))) if only or required else judged


def _contradictions(request: MetricRequest, graders: Sequence[str]) -> list[Row]:
    rows = [row for row in request.read(flip_rates, request.selection) if not graders or row.label["grader"] in graders]
    if not rows:
        raise Missing(
            "No grader has judged the same response, or one answer, twice yet. Several trials of a case give equal "
            "responses, and a grader can be asked again.",
            replace(GRADING, command="job regrade --run RUN --grader M --again"),
        )
    return rows


def _accuracies(request: MetricRequest, panel: Sequence[str], only: Sequence[str], *, common: bool) -> Iterator[Row]:
    judged = _verdict_table(request, panel if only else (), only)
    rows = accuracy_by_judge(judged, panel, common=common)
    corrections = {
        (row.label["judge"], row.label["model"], row.label["format"], "frq"): row
        for row in request.read(corrected_by_judge, judged.judges, tuple(panel))
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
    "Agreement of graders",
    report,
    {"part": "agreement"},
    kind="dots",
    series="measure",
    place="graders",
    panel="verdicts",
    axis="Agreement",
    heads={"n_answers": "Answers", "left_out": "Not judged by all"},
    words={"right or not": "Right or not", "all kinds": "All kinds of verdicts"},
    caption="Only answers that all of these graders judged. 1 is full agreement.",
    help="The newest verdict of each grader on an answer counts. Kappa and AC1 subtract agreement by chance; if one "
    "verdict is rare, Cohen’s kappa is low even for graders who rarely differ, and Gwet’s AC1 is not. 95 % intervals "
    "leave out one case at a time.",
    folded=True,
    page="trust",
)
CROSSED = Section(
    "Verdicts of one grader against those of another",
    report,
    {"part": "crossed"},
    kind="table",
    heads={
        "first": "First grader", "second": "Second grader", "first_verdict": "Verdict of the first",
        "second_verdict": "Of the second", "share": "Share of the first’s", "n_answers": "Answers",
    },
    words=VERDICTS,
    page="trust",
)  # fmt: skip
DIFFERENCES = Section(
    "Answers on which two verdicts differ",
    report,
    {"part": "differences"},
    kind="table",
    columns=(
        "model", "case", "trial", "format", "question_type", "answer", "response", "first_grader", "first_read_as",
        "first_verdict", "second_grader", "second_read_as", "second_verdict",
    ),
    heads={
        "case": "Case", "answer": "Right answer", "first_grader": "First grader", "second_grader": "Second grader",
        "first_read_as": "Read as", "second_read_as": "Read as by the second",
    },
    words=VERDICTS,
    page="trust",
)  # fmt: skip
JUDGED = Section(
    "Who judged what",
    report,
    {"part": "judged"},
    kind="table",
    heads={"answers": "Answers judged", "last_verdict": "Last verdict"},
    words={"": "the run’s own, or none"},
    help="Prompts: hashes of the two prompts of a regrading; empty for the run’s prompts, or none.",
    page="trust",
)
ACCURACY = Section(
    "Accuracy by grader",
    report,
    {"part": "accuracy"},
    controls=("common",),
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
    page="trust",
)  # fmt: skip
CONTRADICTIONS = Section(
    "Share of pairs that a grader judged both ways",
    report,
    {"part": "flips"},
    kind="bars",
    series="grader",
    place="judged_again",
    panel="model",
    axis="Share judged both ways",
    words={
        "the same response": "The same response",
        "the same diagnosis": "The same diagnosis read out",
        "the same answer": "One answer, judged again",
    },
    heads={"judged_again": "Judged more than once", "both_ways": "Both ways", "pairs": "Of pairs"},
    help="A pair is a right answer with the same response, or with the same diagnosis extracted from it, that a grader "
    "judged more than once under the same prompts; “one answer, judged again” is the same answer. Judged both ways: "
    "right in one judgement and not right in another. A verdict copied from an earlier identical answer is not counted "
    "again. Answers of different models are never mixed; 95 % intervals resample right answers.",
    page="trust",
)
SECTIONS = (AGREEMENT, CROSSED, DIFFERENCES, JUDGED, ACCURACY, CONTRADICTIONS)
