"""The plan of a study: cases without faults, one cast for both doctors, and what the study can show before any call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import cast

from core.case import Case
from core.datasets.importing import list_in, name_of, would_replace
from core.datasets.lint import LintFinding, lint
from core.datasets.readers import read_cases
from core.datasets.reading import Remark
from core.datasets.select import datasets, select
from core.frameworks.base import Arm, Campaign, tested_seat
from core.jobs.detectable import released_variance, stored_variance
from core.journal import RunHeader
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
    """The cases of a study: its ``data_set``, ``rejected`` rows of its file, and severe ``findings`` in cases.

    ``stored`` is whether the data set has these cases already; ``selection`` leaves out the cases with findings.
    """

    data_set: str
    cases: Sequence[Case]
    stored: bool
    rejected: Sequence[Remark] = ()
    unit: str = ""
    findings: Sequence[LintFinding] = field(default=())

    @property
    def faults(self) -> int:
        return len(self.rejected) + len(self._faulty)

    @property
    def selection(self) -> str:
        if not self._faulty:
            return self.data_set
        good = (case.case_key.partition("/")[2] for case in self.cases if case.case_key not in self._faulty)
        return f"{self.data_set.partition(':')[0]}:{','.join(good)}"

    @property
    def _faulty(self) -> set[str]:
        return {finding.case_key for finding in self.findings}


def read_study_cases(cases: str, name: str | None = None) -> StudyCases:
    """Read and check a file, which is stored by an import later, or the cases of a data set."""
    path = Path(cases).expanduser()
    if not path.is_file():
        chosen = select(cases)
        return StudyCases(cases, chosen, stored=True, findings=[f for f in lint(chosen) if f.severe])
    data_set = name or name_of(path)
    with list_in(path) as file:
        read = read_cases(file, data_set)
    findings = [finding for finding in lint(read.cases) if finding.severe]
    stored = data_set in datasets() and not would_replace(data_set, read.cases)
    return StudyCases(data_set, read.cases, stored, read.rejected, read.unit, findings)


def other_seats(campaign: Campaign) -> dict[str, str]:
    """Return role → name in all seats but that of the tested doctor, for another campaign with the same cast."""
    tested = tested_seat(campaign.framework).role
    names = {seat.role: campaign.names[seat.role] for seat in campaign.framework.seats if seat.role != tested}
    return {role: name for role, name in names.items() if name}


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
    lines = [f"{size} show {smallest} {power}. A margin of {margin:g} takes {needed}, or on these cases {repeated}."]
    if shown.smallest > margin:
        lines.append("So these cases probably cannot tell whether the new doctor is within the margin.")
    if cases < FEWEST_CASES:
        lines.append(f"Fewer than {FEWEST_CASES} cases decide nothing.")
    lines.append(f"Variance as in {source}; the doctors' true scores correlate by {CORRELATION:g}.")
    return " ".join(lines)
