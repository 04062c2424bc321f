"""``report graders``: how far graders agree, where they differ, what accuracy each gives, who contradicts itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Literal

from core.errors import AnamnesisError, UsageError
from core.measures.base import Asked, Listed, Row, Section, metric
from core.measures.graders.agreement import Judged, agreement_rows, flip_rates, read_graders, read_judged
from core.measures.graders.panels import accuracy_by_judge, arm_of, corrected_by_judge, members
from core.store.queries.grades_by_grader import DifferenceFilter, differences
from core.store.selection import conditions

NEEDED = (
    "To correct an accuracy for the grader's error, experts' judgements of free responses are needed: plan a review of "
    "answers drawn at random or by stratum (page Judges, Experts), have it answered, and unblind it."
)
CORRECTED = (
    "Corrected by Rogan and Gladen: (accuracy + specificity − 1) / (sensitivity + specificity − 1), with each grader’s "
    "sensitivity and specificity against the experts of the review. Empty: no review of this format, or a grader that "
    "is no better than chance on its items."
)


GradersPart = Literal["agreement", "flips", "differences", "accuracy", "judged"]
_LONG = 60
"""Characters of a response that a table shows; CSV and JSON hold all."""


@metric(
    "graders",
    "run",
    "models",
    "cases",
    "pool",
    "asks_for",
    empty="There is nothing to report on graders.",
    page="judges",
)
def report(
    asked: Asked,
    part: Annotated[
        GradersPart,
        "Agreement of graders, contradictions of each, answers on which two differ, accuracy by grader, or who judged "
        "how many answers.",
    ] = "agreement",
    panel: Annotated[
        str | None,
        "Graders with commas: a panel whose majority counts (accuracy), the ones to compare (agreement), or the two to "
        "hold against one another (differences; without it the newest verdict and the one before).",
    ] = None,
    graders: Annotated[
        str | None, "Graders with commas that rows are of; all without it (not for differences)."
    ] = None,
    common: Annotated[bool, "For accuracy: only answers that all graders have judged."] = False,
) -> Iterator[Listed]:
    """Report on graders of free responses; of one grader the newest verdict on an answer counts.

    A row is about the answers of one model under one condition on one data set; a grader under other prompts is
    another one, and is named with their hash.
    """
    if part not in ("judged", "differences"):
        _tell_conditions(asked)
    named = members(panel) if panel else []
    only = [name.strip() for name in graders.split(",")] if graders else []
    if part == "agreement":
        yield from _agreement(_read(asked, named) if named else _read(asked, only=only))
    elif part == "flips":
        yield from _contradictions(asked, only)
    elif part == "differences":
        yield from _differences(asked, named)
    elif part == "judged":
        yield from _judged(asked, only)
    else:
        yield from _accuracies(asked, named, only, common=common)


def _tell_conditions(asked: Asked) -> None:
    """Let notes be on the conditions whose answers were chosen: here these are told apart whoever judged them."""
    if asked.selection.conditions is not None:
        chosen = conditions(asked.store, asked.selection, without=("grader",))
        runs = {run for condition in chosen for run in condition.runs}
        asked.basis = replace(asked.selection, conditions=None)
        behind = conditions(asked.store, asked.basis)
        asked.shown = [condition.name for condition in behind if not runs.isdisjoint(condition.runs)]


def _read(asked: Asked, named: Sequence[str] = (), only: Sequence[str] = ()) -> Judged:
    """Return what the graders in ``only`` have judged, all if it is empty, and those ``named``, who must have."""
    judged = asked.read(read_judged, None, asked.selection)
    if not judged.graders:
        raise AnamnesisError(
            "No grader has judged a free response here: run a campaign with an arm such as multi_turn:frq, or import "
            "the authors' release."
        )
    some = [grader for grader in judged.graders if grader in only] if only else []
    return judged.of(list(dict.fromkeys([*(some or only), *named]))) if only or named else judged


def _agreement(judged: Judged) -> list[Row]:
    rows = agreement_rows(judged)
    if not rows:
        raise AnamnesisError(
            f"Nothing to compare: no answer was judged by two of {', '.join(judged.graders)}. Let another grader judge "
            "a run's answers, such as the reference grader, which needs no key: "
            "`python -m core job regrade --run RUN --grader reference/names`."
        )
    return rows


def _contradictions(asked: Asked, graders: Sequence[str]) -> list[Row]:
    rows = [row for row in asked.read(flip_rates, asked.selection) if not graders or row.label["grader"] in graders]
    if not rows:
        raise AnamnesisError(
            "No grader has met the same response, or one answer, twice yet. Several trials of a case bring the same "
            "responses; `python -m core job regrade --run RUN --grader M --again` asks again."
        )
    return rows


def _judged(asked: Asked, graders: Sequence[str]) -> Iterator[Listed]:
    for held in asked.read(read_graders, asked.selection):
        if not graders or held.grader in graders:
            yield {
                "grader": held.grader,
                "answers": held.answers,
                "verdicts": held.verdicts,
                "prompts": ", ".join(held.prompts),
                "last_verdict": f"{datetime.fromtimestamp(held.newest_at, UTC):%Y-%m-%d %H:%M} UTC",
            }


def _differences(asked: Asked, named: Sequence[str]) -> Iterator[Listed]:
    if named and len(named) != 2:
        raise UsageError("Differences are between two graders: --panel openai/gpt-4o,reference/names.")
    if named:
        _read(asked, named)  # says who is unknown
    graders = (named[0], named[1]) if named else None
    with asked.store.read() as cursor:
        found = differences(cursor, DifferenceFilter(graders, selection=asked.selection))
    if not found:
        raise AnamnesisError("There is no difference: every verdict agrees with the other.")
    for one in found:
        response = " ".join(one.response.split()) if asked.short else one.response
        yield {
            "model": one.model,
            "case": one.case_key,
            "trial": one.trial + 1,
            "format": one.format,
            "question_type": one.question_type,
            "answer": one.answer,
            "response": f"{response[:_LONG]}…" if asked.short and len(response) > _LONG else response,
            "first_grader": one.first_grader,
            "first_read_as": one.first_extracted,
            "first_verdict": one.first_verdict,
            "second_grader": one.second_grader,
            "second_read_as": one.second_extracted,
            "second_verdict": one.second_verdict,
            "trial_id": one.trial_id,
        }


def _accuracies(asked: Asked, panel: Sequence[str], only: Sequence[str], *, common: bool) -> Iterator[Row]:
    judged = _read(asked, panel if only else (), only)
    rows = accuracy_by_judge(judged, panel, common=common)
    known = {
        (row.label["judge"], row.label["model"], row.label["format"], "frq"): row
        for row in asked.read(corrected_by_judge, judged.graders, tuple(panel))
    }
    for row in rows:
        correction = known.get((row.label["judge"], *arm_of(row)))
        columns = {
            "corrected": correction and correction.estimate,
            "corrected_low": correction and correction.low,
            "corrected_high": correction and correction.high,
            "review": correction and correction.more["review"],
        }
        yield replace(row, more={**row.more, **(columns if known else {})})
    asked.note(CORRECTED if known else NEEDED)
    if ties := sum(row.more["ties"] for row in rows):
        asked.note(f"The panel tied on {ties:,} answers, which are left out.", kind="excluded")
    by_arm: dict[tuple[str, str, str], set[int]] = {}
    for row in rows:
        by_arm.setdefault(arm_of(row), set()).add(row.more["n_trials"])
    if any(len(numbers) > 1 for numbers in by_arm.values()):
        asked.note("Not all graders judged the same answers: the numbers of trials differ.", kind="part")


AGREEMENT = Section(
    "How far every two graders agree",
    report,
    {"part": "agreement"},
    kind="matrix",
    heads={"value": "Value", "n_answers": "Answers", "left_out": "Not judged by all"},
    caption="Of each grader the newest verdict on an answer counts. 95 % intervals resample cases with all their "
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
    help="Prompts: hashes of the two prompts under which a model judged again; empty for the run’s own, or none.",
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
        "corrected_high", "review", "n_cases", "n_trials", "n_excluded", "excluded_by_reason", "ties",
    ),
    heads={
        "judge": "Judged by",
        "n_trials": "Answers",
        "corrected_low": "Corrected, low",
        "corrected_high": "Corrected, high",
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
    help="A pair is a right answer with the same response, or with the same diagnosis read out of it, that a grader "
    "met more than once under the same prompts; “one answer, judged again” is the very same answer. Judged both ways: "
    "right at one time and not at another. A verdict that was taken over from an earlier identical answer is not "
    "counted again. The answers of one model are looked at together, those of several never; 95 % intervals resample "
    "right answers.",
    page="judges",
)
SECTIONS = (AGREEMENT, JUDGED, ACCURACY, CONTRADICTIONS)
