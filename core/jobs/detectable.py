"""The smallest difference that a planned campaign can detect, from the variance of an earlier run on the same cases.

The difference is one to a second model on the same cases, tested by the paired t-test (``core.stats.power``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from core.case import data_set_of
from core.events import Format, QuestionType
from core.frameworks.base import Arm, Campaign
from core.measures.paired import by_arm, read_scores
from core.stats.power import CORRELATION, components_of_run, detectable_difference
from core.stats.trials import VarianceComponents, variance_components
from core.store.database import Store
from core.store.queries.runs import run_records
from core.store.selection import Selection

POWER = 0.8
_RELEASED: Mapping[tuple[str, str], tuple[float, float]] = {
    ("vignette", "mcq"): (0.220, 0.014), ("vignette", "frq"): (0.154, 0.030),
    ("multi_turn", "mcq"): (0.148, 0.091), ("multi_turn", "frq"): (0.053, 0.039),
    ("single_turn", "mcq"): (0.180, 0.057), ("single_turn", "frq"): (0.048, 0.024),
    ("summarized", "mcq"): (0.143, 0.101), ("summarized", "frq"): (0.049, 0.041),
}  # fmt: skip
"""Variance between and within cases in the release of Johri et al. 2025: means of three models, 5 trials of 2,004 cases
(``report repeatability``)."""
_LIKE: Mapping[str, str] = {"exam_only": "vignette", "multi_turn_exam": "multi_turn", "closing": "multi_turn"}
"""Format without released answers → the format whose variance is assumed."""


@dataclass(frozen=True)
class StoredVariance:
    """The variance of single trials by arm in a run of ``doctor``; empty if no run has several trials of a case."""

    run_id: str = ""
    doctor: str = ""
    by_arm: Mapping[Arm, VarianceComponents] = field(default_factory=dict)


def stored_variance(store: Store, protocol: str, case_set: str, doctor: str) -> StoredVariance:
    """Return the variance in the newest run of a doctor on the same data set, or else of any doctor.

    Only the user's own runs with several trials count.
    """
    if not store.path.exists():
        return StoredVariance()
    with store.read() as cursor:
        runs = run_records(cursor, sources=("local",))
    fitting = [
        run
        for run in runs
        if (run.protocol, run.data_set) == (protocol, data_set_of(case_set)) and run.trials > 1 and not run.study
    ]
    for run in sorted(fitting, key=lambda run: (run.doctor == doctor, run.created_at), reverse=True):
        components = {
            (format_, question_type): variance_components(
                [score.correct for score in cases.values()], [score.counted for score in cases.values()]
            )
            for (_, format_, question_type), cases in by_arm(read_scores(store, Selection(runs=[run.run_id]))).items()
        }
        known = {arm: parts for arm, parts in components.items() if not math.isnan(parts.within)}
        if known:
            return StoredVariance(run.run_id, run.doctor, known)
    return StoredVariance()


_LARGEST = 0.9995
"""A detectable difference above it is shown as none: the largest that there is between two accuracies is 1."""


def detectable_in_words(campaign: Campaign, variance: StoredVariance) -> str:
    """Return a sentence on the smallest difference that a campaign detects; empty if its arms do not vary."""
    cases, trials = len(campaign.cases), campaign.trials
    sizes: dict[Arm, float] = {}
    for arm in campaign.arms:
        run = variance.by_arm.get(arm) or released_variance(*arm)
        components = components_of_run(run)
        if components.between > 0 or components.within > 0:
            sizes[arm] = detectable_difference(components, cases, trials, POWER)
    if cases < 2 or not sizes:
        return ""
    least, most = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
    largest = f" to {sizes[most]:.3f} ({':'.join(most)})" if sizes[most] > sizes[least] else ""
    assumed = [":".join(arm) for arm in sizes if arm not in variance.by_arm]
    flips = [f"in run {variance.run_id} of {variance.doctor}"] if len(assumed) < len(sizes) else []
    if assumed:
        arms = f"for {', '.join(assumed)} " if flips else ""
        flips.append(f"{arms}in the release of Johri et al. 2025, for lack of a run on these cases with several trials")
    size = f"With {cases:,} cases × {trials:,} {'trial' if trials == 1 else 'trials'}, "
    power = f"detected with a power of {100 * POWER:.0f} %"
    assumption = f"if their true scores correlate by {CORRELATION:g} and flips are as {' and '.join(flips)}."
    if sizes[least] > _LARGEST:
        return f"{size}no difference between two models is {power}, {assumption}"
    return (
        f"{size}the smallest difference between two models that is {power} is "
        f"{sizes[least]:.3f} ({':'.join(least)}){largest}, {assumption}"
    )


def released_variance(format_: Format, question_type: QuestionType) -> VarianceComponents:
    """Return the variance between and within cases that is assumed for an arm, for lack of a run on the same cases."""
    like = _LIKE.get(format_, format_), "mcq" if question_type.startswith("mcq") else "frq"
    between, within = _RELEASED[like]
    return VarianceComponents(between, within, 5, 2004)
