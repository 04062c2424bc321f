"""Reliability from repeated trials and gradings, and the cases and trials that are needed to detect a difference.

Computed from the counted and correct trials of each case of an arm. A case with fewer trials than a figure needs is
excluded from this figure, and counted as excluded. The variance by source also uses repeated gradings of an answer by
the same grader, which ``job regrade --again`` makes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import scipy  # type: ignore[import-untyped]
from numpy.typing import NDArray

from core.errors import UsageError
from core.frameworks.starts import CAMPAIGN
from core.measures.base import Columns, Listed, MetricRequest, Row, metric, section_of
from core.measures.paired import ArmOf, Cases, by_arm, read_scores
from core.stats.nested import Component, components
from core.stats.power import PairedComponents, components_of_pair, components_of_run, detectable_difference, plans
from core.stats.trials import Share, flip_rate, icc_interval, pass_hat_k, variance_components
from core.store.conditions import doctor_of
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.grades import trial_gradings
from core.store.selection import Selection

_TRIALS, _MORE_TRIALS = (1, 2, 3, 5, 10), (0, 1, 2, 3, 5, 10)
_COLUMNS = Columns("value", excluded="excluded")
_VARIANCE = Columns("variance", excluded="excluded")
Part = Literal["figures", "variance", "more_trials"]
Counts = tuple[NDArray[np.float64], NDArray[np.float64]]

_SEVERAL_TRIALS = replace(CAMPAIGN, command=f"{CAMPAIGN.command} --trials 3")


@metric(
    "repeatability",
    "run",
    "models",
    "source",
    "cases",
    "mcq_rule",
    empty="There is nothing to report yet: a campaign needs several trials of each case.",
    starts=(_SEVERAL_TRIALS,),
    compared=False,
    page="accuracy",
)
def report(
    request: MetricRequest,
    part: Annotated[
        Part,
        "figures: pass^k, flip rate, ICC. variance: of single scores, by source. more_trials: how far more trials of "
        "the same cases narrow the interval of the mean.",
    ] = "figures",
) -> Iterator[Listed]:
    """Report pass^k, flip rate, intraclass correlation and variance of repeated trials.

    pass^k: the chance that k trials of a case are all right (k = 1 is accuracy). Flip rate: cases whose trials
    disagree. ICC: the share of the variance that lies between cases; 1 where trials of a case always agree.
    """
    if part == "figures":
        yield from _figures(request)
        return
    gradings = request.read(read_gradings, request.selection)
    arms: Iterator[Any] = iter(gradings.groupby(["model", "format", "question_type"], sort=False))
    for arm, rows in arms:
        if not rows["counted"].any():
            continue
        label = dict(zip(("model", "format", "question_type"), arm, strict=True))
        yield from (_variance if part == "variance" else _more_trials)(request, label, rows)


def read_gradings(store: Store, selection: Selection) -> pd.DataFrame:
    with store.read() as cursor:
        return trial_gradings(cursor, selection)


def _figures(request: MetricRequest) -> Iterator[Row]:
    for arm, cases in _arms(request).items():
        correct, counted = _counts(cases)
        label = dict(zip(("model", "format", "question_type"), arm, strict=True))
        max_trials = int(counted.max(initial=0))
        for k in range(1, max_trials + 1):
            yield _share(label, f"pass^{k}", pass_hat_k(correct, counted, k))
        if max_trials < 2:
            continue
        yield _share(label, "flip rate", flip_rate(correct, counted))
        components = variance_components(correct, counted)
        excluded = {"no counted trial": int((counted == 0).sum())}
        low, high = icc_interval(correct, counted)
        yield Row({**label, "figure": "ICC"}, components.icc, low, high, components.n_cases, excluded, columns=_COLUMNS)
        for name, value in (
            ("variance between cases", components.between),
            ("variance within cases", components.within),
        ):
            yield Row({**label, "figure": name}, value, n=components.n_cases, excluded=excluded, columns=_COLUMNS)


def _variance(request: MetricRequest, label: dict[str, str], rows: pd.DataFrame) -> Iterator[Row]:
    """Yield the variance that each source causes, and its ``share`` of the variance of the mean."""
    sources, _, trials = _components(rows)
    draws = {"cases": 1.0, "trials": trials, "gradings": trials}  # of a case; each trial's first grading counts
    parts = [max(0.0, component.estimate) / draws[component.sources[0]] for component in sources]
    excluded = dict(Counter(rows.loc[~rows["counted"], "verdict"]))
    for component, part in zip(sources, parts, strict=True):
        yield Row(
            {**label, "source": " + ".join(component.sources)},
            component.estimate,
            *component.interval,
            component.n_cases,
            excluded,
            {"share": part / sum(parts) if sum(parts) else None},
            columns=_VARIANCE,
        )
    if min((component.estimate for component in sources), default=0.0) < 0:
        request.note("An unbiased estimate of a variance near 0 can be negative; it counts as 0 in shares.")


def _more_trials(request: MetricRequest, label: dict[str, str], rows: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Yield half the width of the 95 % interval of the mean (Student's t) with more trials of the same cases."""
    sources, n_cases, trials = _components(rows)
    if len(sources) < 2 or sources[0].sources != ("cases",):
        return  # trials cannot be told from cases
    variance = PairedComponents(sources[0].estimate, sum(component.estimate for component in sources[1:]))
    quantile = float(scipy.special.stdtrit(n_cases - 1, 0.975))
    for more in _MORE_TRIALS:
        yield {
            **label,
            "cases": n_cases,
            "trials": trials + more,
            "more_trials": more,
            "half_width": quantile * variance.standard_error(n_cases, trials + more),
            "half_width_any_trials": quantile * variance.standard_error(n_cases, math.inf),
        }


def _components(rows: pd.DataFrame) -> tuple[list[Component], int, float]:
    """Return the components of an arm, its number of cases, and the harmonic mean of their counted trials.

    The mean over cases varies as if each case had this number of trials.
    """
    cases = list(rows[rows["counted"]].groupby("case_key", sort=False)["gradings"])
    scores = [[[float(right) for right in trial] for trial in trials] for _, trials in cases]
    trials = len(scores) / sum(1 / len(case) for case in scores) if scores else 0.0
    return components(scores), len(scores), trials


@metric(
    "power",
    "run",
    "models",
    "source",
    "cases",
    "mcq_rule",
    empty="Planning needs the variance of repeated trials: a campaign with two trials or more of each case.",
    starts=(_SEVERAL_TRIALS,),
    compared=False,
    page="accuracy",
)
def report_power(
    request: MetricRequest,
    difference: Annotated[float, "The difference in accuracy to detect, between 0 and 1."] = 0.05,
    target: Annotated[float, "The power: the probability to detect it."] = 0.8,
    correlation: Annotated[float, "Expected correlation of the two models' true scores on a case."] = 0.5,
    beside: Annotated[
        str | None, "A second model on the same cases: variance and correlation are then measured, not assumed."
    ] = None,
    planned: Annotated[int | None, "Report instead the difference that this number of cases can detect."] = None,
) -> Iterator[Listed]:
    """Report how many cases and trials are needed to detect a difference between two models.

    Uses the variance of the stored trials of each format and question; the test is the paired t-test over cases,
    two-sided at 5 %.
    """
    if not 0 < abs(difference) < 1 or not 0 < target < 1 or (planned is not None and planned < 2):
        raise UsageError("--difference and --target lie between 0 and 1, and --planned is at least 2 cases.")
    arms = _arms(request)
    if beside is not None and not any(beside in (arm[0], doctor_of(arm[0])) for arm in arms):
        raise UsageError(f"There are no answers of {beside!r} in this selection: choose other --models or --run.")
    if beside is not None and len({model for model, _, _ in arms}) < 2:
        raise UsageError(f"{beside} is compared with itself: choose other --models or --run.")
    for (model, format_, question_type), cases in arms.items():
        label: dict[str, object] = {"model": model, "format": format_, "question_type": question_type}
        if beside is None:
            components = components_of_run(variance_components(*_counts(cases)), correlation)
        else:
            others = [
                scores
                for (name, *arm), scores in arms.items()
                if name != model and beside in (name, doctor_of(name)) and arm == [format_, question_type]
            ]
            if not others:
                continue
            other = others[0]
            shared = sorted(key for key in cases.keys() & other.keys() if cases[key].content == other[key].content)
            first, second = (_counts({key: scores[key] for key in shared}) for scores in (cases, other))
            components = components_of_pair(*first, *second)
            label["beside"] = beside
        if np.isnan(components.within):
            continue
        if planned is not None:
            for trials in _TRIALS:
                detectable = detectable_difference(components, planned, trials, target)
                yield {
                    **label,
                    "cases": planned,
                    "trials": trials,
                    "power": target,
                    "detectable_difference": detectable,
                }
            continue
        for plan in plans(components, difference, _TRIALS, target):
            yield {**label, "difference": difference, "power": target, **plan._asdict()}


def _arms(request: MetricRequest) -> dict[ArmOf, dict[str, CaseScore]]:
    return by_arm(request.read(read_scores, request.selection, request.selection.mcq_rule))


def _counts(cases: Cases) -> Counts:
    """Return the number of right trials and of counted trials of each case."""
    table = np.array([(score.correct, score.counted) for score in cases.values()], dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _share(label: dict[str, str], figure: str, share: Share) -> Row:
    excluded = {"too few trials": share.n_left_out} if share.n_left_out else {}
    return Row({**label, "figure": figure}, share.value, *share.interval, share.n_cases, excluded, columns=_COLUMNS)


def disagreement(rows: Sequence[Row], request: MetricRequest, options: Mapping[str, Any]) -> Sequence[Row]:
    """Return the shares of cases whose trials disagree; all rows if no case has several trials."""
    return [row for row in rows if row.label.get("figure") == "flip rate"] or rows


REPEATABILITY = replace(
    section_of(report, "accuracy"),
    kind="dots",
    series="model",
    place="format",
    panel="question_type",
    figure="figure",
    drawn=disagreement,
    words={
        "pass^1": "Right in one trial (pass^1)",
        **{f"pass^{k}": f"Right in all of {k} trials (pass^{k})" for k in range(2, 21)},
        "flip rate": "Cases whose trials disagree (flip rate)",
        "variance between cases": "Variance between cases",
        "variance within cases": "Variance within cases",
    },
)
POWER = replace(
    section_of(report_power, "accuracy"),
    heads={
        "difference": "Difference to detect",
        "target": "Power",
        "beside": "Second model",
        "planned": "Planned cases",
    },
)
SECTIONS = (REPEATABILITY, POWER)
