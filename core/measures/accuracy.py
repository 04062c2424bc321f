"""Accuracy of an arm: the mean over a case's counted trials, then over cases (Johri et al. 2025, Methods).

Nothing is dropped silently: every row carries its numbers of cases and trials, and what it excluded and why. Scores,
one row for each case in one arm of one model, are what every comparison and test is made of. Cells are those of the
accuracy page: what this database holds, and what is published where it holds nothing; a published cell is marked by its
table and never mixed into a computed one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain, product
from typing import Annotated, Literal

import numpy as np

from core.agents.mcq import STRICT_VERSION
from core.datasets.published import RELEASE_DATASETS, Printed, figures_by_cell
from core.errors import AnamnesisError, UsageError
from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.measures.base import Asked, Columns, Row, metric
from core.measures.choice_rules import gaps_in_words, rule_gaps
from core.measures.extent import on_shared_cases
from core.stats.bootstrap import bootstrap_interval, exact_interval, resampled_interval
from core.stats.intervals import Interval, t_interval
from core.stats.smoothed import mean_interval
from core.store.database import Store
from core.store.queries.answers import CaseScore, case_scores
from core.store.queries.grades import count_read_before
from core.store.selection import McqRule, Selection

CaseGroup = Literal["specialty", "dataset"]
Group = Literal["specialty", "dataset", "served"]
"""By what scores are split: properties of cases, or the name under which the doctor's model was served in a trial."""
IntervalKind = Literal["smoothed", "bootstrap", "exact", "resampled", "normal"]


@dataclass(frozen=True)
class AccuracyRow:
    """A mean between 0 and 1 with its interval, and what it rests on.

    Mean and bounds are ``None`` where no case counts; the normal theory gives one case no interval.
    ``n_trials`` counted; ``n_excluded`` did not, by verdict in ``excluded_by_reason`` (``ungraded``: no grade yet).
    ``n_cases_excluded`` cases had no counted trial. ``n_refused`` of the counted ones were refused in words,
    ``n_blank`` were blank. ``n_repeats`` trials were left out because their cases were played with the same seed
    before. ``rule`` is the one by which answers count.
    """

    model: str
    format: Format
    question_type: QuestionType
    group: str | None
    mean: float | None
    ci_low: float | None
    ci_high: float | None
    n_cases: int
    n_trials: int
    n_excluded: int
    n_cases_excluded: int = 0
    excluded_by_reason: dict[str, int] = field(default_factory=dict)
    n_refused: int = 0
    n_repeats: int = 0
    n_blank: int = 0
    rule: str = ""


def accuracy(
    store: Store,
    by: Group | None = None,
    selection: Selection | None = None,
    *,
    interval: IntervalKind = "smoothed",
    mcq_rule: McqRule = "usual",
) -> list[AccuracyRow]:
    """Return a row for each condition, arm and group, in the order of condition, format, question type and group.

    ``interval``: ``smoothed`` (``core.stats.smoothed``) holds near 0 and 1 as well; ``bootstrap``, percentiles over
    resampled cases, is exact if it can be, else by random numbers; ``exact`` refuses these, ``resampled`` always
    takes them; ``normal`` is mean ± t · sd / √n. A case without a counted trial is left out. Levels are 95 %.
    """
    return accuracy_of(read_scores(store, selection, mcq_rule, by_served=by == "served"), by, interval=interval)


def accuracy_of(
    scores: Iterable[CaseScore], by: Group | None = None, *, interval: IntervalKind = "smoothed"
) -> list[AccuracyRow]:
    """Return the rows of ``accuracy`` from scores that were read already; conditions in the order of the scores."""
    place: dict[str, int] = {}
    groups: dict[tuple[int, int, int, str], list[CaseScore]] = {}
    arms = {arm: (FORMATS.index(arm[0]), QUESTION_TYPES.index(arm[1])) for arm in product(FORMATS, QUESTION_TYPES)}
    for s in scores:
        key = (place.setdefault(s.model, len(place)), *arms[s.format, s.question_type], group_of_score(s, by) or "")
        groups.setdefault(key, []).append(s)
    return [_row(groups[key], by, interval) for key in sorted(groups)]


def interval_of(values: Sequence[float], kind: IntervalKind) -> Interval:
    """Return the 95 % interval of a mean over cases; raises ``UsageError`` where ``exact`` is not possible."""
    found = _INTERVALS[kind](values)
    if found is None:
        raise UsageError(
            "The exact bootstrap needs scores that are fractions of a few trials: use --interval bootstrap."
        )
    return found


_INTERVALS: dict[IntervalKind, Callable[[Sequence[float]], Interval | None]] = {
    "smoothed": mean_interval,
    "bootstrap": bootstrap_interval,
    "exact": exact_interval,
    "resampled": resampled_interval,
    "normal": t_interval,
}


def _row(scores: list[CaseScore], by: Group | None, kind: IntervalKind) -> AccuracyRow:
    first = scores[0]
    values = [s.score for s in scores if s.score is not None]
    reasons: Counter[str] = Counter()
    for reason, n in chain.from_iterable(score.excluded.items() for score in scores):
        reasons[str(reason)] += n
    low, high = (None if np.isnan(bound) else bound for bound in interval_of(values, kind))
    return AccuracyRow(
        model=first.model,
        format=first.format,
        question_type=first.question_type,
        group=group_of_score(first, by),
        mean=float(np.mean(values)) if values else None,
        ci_low=low,
        ci_high=high,
        n_cases=len(values),
        n_trials=sum(s.counted for s in scores),
        n_excluded=reasons.total(),
        n_cases_excluded=len(scores) - len(values),
        excluded_by_reason=dict(sorted(reasons.items())),
        n_refused=sum(s.refused_in_words for s in scores),
        n_repeats=sum(s.repeats for s in scores),
        n_blank=sum(s.blank for s in scores),
        rule=" + ".join(sorted({s.rule for s in scores if s.rule})),
    )


def group_of_score(score: CaseScore, by: Group | None) -> str | None:
    """Return the group that a score falls into; ``None`` where nothing is split, or the case has none."""
    return getattr(score, by) if by else None


def read_scores(
    store: Store, selection: Selection | None = None, mcq_rule: McqRule = "usual", *, by_served: bool = False
) -> list[CaseScore]:
    """Return the scores of every case, arm and model of a selection (all campaigns and releases by default)."""
    with store.read() as cursor:
        return case_scores(cursor, selection, mcq_rule, by_served=by_served)


Split = Literal["all", "specialty", "dataset", "dermatology", "single"]
_SCOPES: dict[Split, tuple[str, ...]] = {
    "all": ("overall", "monitoring", "multimodal"),
    "specialty": ("specialty",),
    "dataset": (),
    "dermatology": ("dataset",),
    "single": ("dataset_single_dx",),
}
"""What is published for each way of splitting the cases; by data set, only for dermatology."""


@dataclass(frozen=True)
class Cell:
    """Accuracy (0 to 1) of an arm of a model in a group of cases, with its 95 % interval where there is one.

    ``own`` is what it was computed from; ``printed`` what the paper's supplementary tables print of it, the figure that
    is shown first. Exactly one of them is set. Of a published cell ``model`` is the papers' label.
    """

    model: str
    format: Format
    question_type: QuestionType
    group: str | None
    mean: float
    ci_low: float | None
    ci_high: float | None
    own: AccuracyRow | None = None
    printed: Printed = ()

    @property
    def source(self) -> str:
        """Which table a published figure is from, and what others print of the same cell; empty for one's own."""
        if not self.printed:
            return ""
        others = (f"; {one.source}, prints {one.mean:.3f}" for one in self.differing)
        return f"supplementary {self.printed[0].source}{''.join(others)}"

    @property
    def differing(self) -> Printed:
        """What other tables print of the same cell, if it is another number."""
        return tuple(one for one in self.printed[1:] if one.mean != self.printed[0].mean)


def case_sets(scores: Iterable[CaseScore]) -> dict[str, int]:
    """Return case set → how many of its cases have a score, the largest first."""
    keys: dict[str, set[str]] = {}
    for score in scores:
        keys.setdefault(score.case_key.partition("/")[0], set()).add(score.case_key)
    return {name: len(found) for name, found in sorted(keys.items(), key=lambda item: -len(item[1]))}


def group_of(split: Split) -> Group | None:
    """Return by what a split groups the scores it leaves."""
    return None if split == "all" else ("specialty" if split == "specialty" else "dataset")


def scores_of(
    scores: Iterable[CaseScore], case_set: str, split: Split, single_diagnosis: Set[str] = frozenset()
) -> list[CaseScore]:
    """Return the scores of a case set that a split is about.

    ``dermatology``: its cases only. ``single``: those of them with one single most likely diagnosis, by key.
    """
    prefix = f"{case_set}/"
    found = [score for score in scores if score.case_key.startswith(prefix)]
    if split in ("dermatology", "single"):
        found = [score for score in found if score.specialty == "Dermatology"]
    return [s for s in found if s.case_key in single_diagnosis] if split == "single" else found


def own_cells(scores: Iterable[CaseScore], split: Split, interval: IntervalKind) -> list[Cell]:
    """Return the computed cells; an arm of which nothing counts has none."""
    rows = accuracy_of(scores, group_of(split), interval=interval)
    return [
        Cell(r.model, r.format, r.question_type, r.group, r.mean, r.ci_low, r.ci_high, own=r)
        for r in rows
        if r.mean is not None
    ]


def published_cells(case_set: str, split: Split) -> list[Cell]:
    """Return what is published of a case set and a split, a cell once, whichever tables print it."""
    cells = []
    for printed in figures_by_cell(case_set, _SCOPES[split]):
        figure = printed[0]
        # the intervals of table 4 are those of table 1 by mistake: an interval without its own mean is not shown
        sound = figure.ci_low <= figure.mean <= figure.ci_high
        low, high = (figure.ci_low, figure.ci_high) if sound else (None, None)
        group = figure.specialty_name or (RELEASE_DATASETS[figure.dataset] if figure.dataset else None)
        cells.append(
            Cell(figure.model, figure.format, figure.question_type, group, figure.mean, low, high, printed=printed)
        )
    return cells


def with_published(own: Sequence[Cell], published: Sequence[Cell], label_of: Callable[[str], str]) -> list[Cell]:
    """Return the computed cells, then the published ones of arms that no model of that label covers."""
    covered = {(label_of(c.model), c.format, c.question_type, c.group) for c in own}
    return [*own, *(c for c in published if (c.model, c.format, c.question_type, c.group) not in covered)]


By = Annotated[Group | None, "Split by specialty, dataset, or served: the name by which the provider called the model."]
CaseBy = Annotated[CaseGroup | None, "Split by specialty or dataset."]
_COLUMNS = Columns(excluded="excluded_by_reason")


@metric(
    "accuracy",
    "run",
    "models",
    "cases",
    "pool",
    "asks_for",
    "mcq_rule",
    decimals=".6f",
    empty="There is nothing to report yet: start with `python -m core run --doctor reference/bayes`.",
    page="accuracy",
)
def report(
    asked: Asked,
    by: By = None,
    interval: Annotated[IntervalKind, "Interval of the mean."] = "smoothed",
    shared_cases: Annotated[bool, "Only cases that all conditions in the table were asked, arm by arm."] = False,
) -> Iterator[Row]:
    """Mean over trials for each case, then over cases, with a 95 % interval, and what was excluded.

    A row is a condition: runs of one model that differ in patient, prompts, cap, grader, cases … are rows apart, named
    by what differs, the newest first.
    """
    wanted = asked.selection
    scores = read_scores(asked.store, wanted, wanted.mcq_rule, by_served=by == "served")
    rows = accuracy_of(on_shared_cases(scores) if shared_cases else scores, by, interval=interval)
    if scores and not rows:
        raise AnamnesisError("No case was asked of all these conditions: leave --shared-cases out, or name --models.")
    if not rows and wanted.asks_for and accuracy(asked.store, by, replace(wanted, asks_for=None)):
        raise AnamnesisError("No answered case asks for this: leave --asks-for out, or choose another kind.")
    for row in rows:
        yield Row(
            {
                "model": row.model,
                "format": row.format,
                "question_type": row.question_type,
                **({"group": row.group or "?"} if by else {}),
                "rule": row.rule,
            },
            row.mean,
            row.ci_low,
            row.ci_high,
            row.n_cases,
            row.excluded_by_reason,
            {
                "n_trials": row.n_trials,
                "n_refused_in_words": row.n_refused,
                "n_blank": row.n_blank,
                "n_excluded": row.n_excluded,
                "n_cases_excluded": row.n_cases_excluded,
                "n_repeats": row.n_repeats,
            },
            columns=_COLUMNS,
            by=by or "",
        )
    if any(row.question_type.startswith("mcq") for row in rows):
        for sentence in gaps_in_words(rule_gaps(asked.store, wanted)):
            asked.note(sentence, "high", kind="choice_rules")
    if any("mcq_strict" in row.rule for row in rows):
        with asked.store.read() as cursor:
            outdated = count_read_before(cursor, STRICT_VERSION, wanted)
        if outdated:
            asked.note(
                f"{outdated:,} answers with choices were read by an earlier version of the strict rule: "
                "`python -m core job reread` reads them again, at no cost."
            )
