"""The plan of a study: cases without faults, doctors that can be compared, and what it costs and shows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import cast

from core.case import Case
from core.datasets.importing import list_in, name_of, would_replace
from core.datasets.lint import lint
from core.datasets.readers import read_cases
from core.datasets.select import datasets, select
from core.frameworks.base import Arm, Campaign
from core.jobs.ask_job import estimated_tokens
from core.jobs.detectable import released_variance, stored_variance
from core.jobs.estimate import JobEstimate, estimate, estimated
from core.jobs.judge import TOKENS_AN_ANSWER
from core.journal import RunHeader
from core.judging.form import RUBRIC
from core.models.registry import Registry
from core.reviews.rubrics import any_form
from core.stats.power import CORRELATION, components_of_run
from core.store.condition_parts import READERS, ConditionPart
from core.store.conditions import UNDER_TEST, differing_parts
from core.store.database import Store
from core.store.queries.runs import Run
from core.study.decision import FEWEST_CASES, MOST_CASES, MOST_TRIALS, POWER, resolution

MAY_DIFFER: tuple[ConditionPart, ...] = (*UNDER_TEST, "prompts")
"""Parts of a condition in which the doctors of a study may differ: also in the doctor's own prompts."""


@dataclass(frozen=True)
class StudyCases:
    """The cases of a study; ``faults`` are in words, of rows that are no cases and of cases that are ``faulty``.

    ``stored`` is whether the data set has these cases already, ``rejected`` whether the file has rows that are no
    cases; ``selection`` leaves out the faulty cases.
    """

    data_set: str
    cases: Sequence[Case]
    faults: Sequence[str]
    faulty: Collection[str]
    stored: bool = True
    rejected: bool = False

    @property
    def selection(self) -> str:
        if not self.faulty:
            return self.data_set
        good = (case.case_key.partition("/")[2] for case in self.cases if case.case_key not in self.faulty)
        return f"{self.data_set.partition(':')[0]}:{','.join(good)}"


def read_study_cases(cases: str, name: str | None = None) -> StudyCases:
    """Read and check a file, which is stored by an import later, or the cases of a data set."""
    path, read = Path(cases).expanduser(), None
    if path.is_file():
        with list_in(path) as file:
            read = read_cases(file, name or name_of(path))
    checked = select(cases) if read is None else read.cases
    severe: dict[str, list[str]] = {}
    for finding in filter(attrgetter("severe"), lint(checked)):
        severe.setdefault(finding.case_key, []).append(finding.message)
    faults = [f"{case}: {'; '.join(messages)}" for case, messages in severe.items()]
    if read is None:
        return StudyCases(cases, checked, faults, severe)
    data_set = name or name_of(path)
    stored = data_set in datasets() and not would_replace(data_set, read.cases)
    rows = [f"{read.unit} {position}: {reason}" for position, reason in read.rejected]
    return StudyCases(data_set, checked, [*rows, *faults], severe, stored, bool(rows))


def unlike(new: RunHeader, present: RunHeader) -> str:
    """Return in what two planned runs differ besides the doctors; empty if they can be compared."""
    of_run = {field.name for field in fields(Run)} & RunHeader.model_fields.keys() - {"cases", "arms"}
    first, second = (
        Run(
            **{name: getattr(header, name) for name in of_run},
            cases=len(header.cases),
            arms=tuple((format_, question) for format_, question in header.arms),
        )
        for header in (new, present)
    )
    new_parts, present_parts = ({part: read(run) for part, read in READERS.items()} for run in (first, second))
    parts = differing_parts(
        {part: key for part, (key, _) in new_parts.items()},
        {part: key for part, (key, _) in present_parts.items()},
        MAY_DIFFER,
    )
    return "; ".join(f"{new_parts[part][1] or 'none'} against {present_parts[part][1] or 'none'}" for part in parts)


def judging_size(store: Store, campaign: Campaign, rubric: str, judge: str, registry: Registry) -> JobEstimate:
    """Estimate the judging of both doctors' conversations, whose length is that of the campaign's estimate.

    Raises ``UsageError`` for an unknown rubric or judge.
    """
    form = any_form(store, f"{RUBRIC}{rubric}")
    each = 2 * campaign.trials
    criteria = [form.questions_for(case.case_key, case.specialty) for case in campaign.cases]
    asked = sum(estimated_tokens(f"{form.instruction} {' '.join(c.wording for c in of_case)}") for of_case in criteria)
    spoken = sum(role.completion_tokens for role in estimate(campaign, registry).roles if role.role != "grader")
    replies = each * sum(map(len, criteria)) * TOKENS_AN_ANSWER
    requests = each * len(criteria)
    size = {"judge": (judge, (requests, each * asked + 2 * spoken, replies))}
    return estimated({"conversations to judge": requests}, requests, size, registry, None, lambda role: None)


def in_words(store: Store, campaign: Campaign, outcome: str, margin: float) -> str:
    """Return what a study of these cases can show, and how many cases or trials would show the margin."""
    arm = cast(Arm, tuple(outcome.split(":"))) if ":" in outcome else campaign.arms[0]
    stored = stored_variance(store, campaign.protocol, campaign.case_set, campaign.tested)
    variance = stored.by_arm.get(arm) or released_variance(*arm)
    cases, trials = len(campaign.cases), campaign.trials
    shown = resolution(components_of_run(variance), cases, trials, margin)
    source = f"run {stored.run_id}" if arm in stored.by_arm else "the release of Johri et al. 2025"
    size = f"{cases:,} cases × {trials:,} {'trial' if trials == 1 else 'trials'}"
    power = f"with a power of {POWER:.0%}"
    smallest = f"differences of {shown.smallest:.2f} or more" if shown.smallest < 1 else "no difference"
    needed = f"about {shown.cases:,} cases" if shown.cases else f"over {MOST_CASES:,} cases, which is not realistic"
    repeated = f"{shown.trials} trials of each" if shown.trials else f"no number of trials up to {MOST_TRIALS}"
    unclear = "So these cases probably cannot tell whether the new doctor is within the margin."
    sentences = [
        f"{size} show {smallest} {power}. A margin of {margin:g} takes {needed}, or on these cases {repeated}.",
        unclear if shown.smallest > margin else "",
        f"Fewer than {FEWEST_CASES} cases decide nothing." if cases < FEWEST_CASES else "",
        f"Variance as in {source}; the doctors' true scores correlate by {CORRELATION:g}.",
    ]
    return " ".join(filter(None, sentences))
