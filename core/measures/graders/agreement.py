"""Agreement of graders on the same free responses, by pairs and all together, and their contradictions.

The general agreement of judges (``core.judging.agreement``) is computed from counts of answers with equal verdicts,
because studies have up to a million answers. Verdicts are compared as right or not right, and as all kinds that count.
A grader can contradict itself on equal texts of several answers, or on one answer judged again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from core.errors import UsageError
from core.events import COUNTED, Verdict
from core.judging.agreement import COEFFICIENTS, of_many, of_two
from core.measures.base import Columns, Row
from core.stats.ratios import ratio_intervals
from core.store.database import Store
from core.store.queries.grades import FREE_RESPONSES, Answers, VerdictCount, flip_counts, stored_graders, verdict_counts
from core.store.selection import Selection

PANEL = "panel"
"""Name of a panel among judges."""
KINDS_OF_VERDICT = tuple(verdict for verdict in COUNTED if verdict not in ("refused_in_words", "empty"))
"""Kinds of verdicts in comparisons. A refusal in words counts as no diagnosis, because people do not distinguish them.

Blank answers are not sent to graders.
"""
_KIND: dict[Verdict | None, Verdict] = {kind: kind for kind in KINDS_OF_VERDICT}
_KIND["refused_in_words"] = "no_diagnosis"
Verdicts = Sequence[Verdict | None]
CaseVerdicts = tuple[str, tuple[Verdict | None, ...]]
"""A case, and the kind of verdict by each judge; ``None`` without a verdict that counts."""


@dataclass(frozen=True)
class VerdictTable:
    """The newest verdicts of ``judges`` on the same answers; ``counts`` have the verdicts in the order of judges."""

    judges: tuple[str, ...]
    counts: Sequence[VerdictCount]

    def of(self, judges: Sequence[str]) -> VerdictTable:
        """Return the verdicts of these judges only, in this order; raise ``UsageError`` if a judge is unknown."""
        if tuple(judges) == self.judges:
            return self
        places = [self.place(name) for name in judges]
        counts = [count._replace(verdicts=tuple(count.verdicts[p] for p in places)) for count in self.counts]
        return VerdictTable(tuple(judges), counts)

    def place(self, name: str) -> int:
        """Return the index of a judge; raise ``UsageError`` if it has judged nothing."""
        if name not in self.judges:
            judges = ", ".join(self.judges) or "none"
            raise UsageError(
                f"No grader {name!r} has judged these answers, only {judges}: grade them with `job regrade`."
            )
        return self.judges.index(name)

    @property
    def common(self) -> VerdictTable:
        """The same without verdicts on answers that not all judges have judged."""
        none = (None,) * len(self.judges)
        counts = [c if all_judged(c.verdicts) else c._replace(verdicts=none) for c in self.counts]
        return VerdictTable(self.judges, counts)

    def panel(self, members: Sequence[str]) -> VerdictTable:
        """Return the verdicts of one judge, ``PANEL``: the majority of its members."""
        counts = [count._replace(verdicts=(majority(count.verdicts),)) for count in self.of(members).counts]
        return VerdictTable((PANEL,), counts)

    def by_model(self) -> dict[str, Counter[CaseVerdicts]]:
        """Return condition → numbers of answers; answers of several models or data sets are never pooled."""
        models: dict[str, Counter[CaseVerdicts]] = {}
        for count in self.counts:
            kinds = tuple(_KIND.get(verdict) for verdict in count.verdicts)
            models.setdefault(count.model, Counter())[count.case_key, kinds] += count.n
        return models


def all_judged(verdicts: Verdicts) -> bool:
    return all(verdict in COUNTED for verdict in verdicts)


def majority(verdicts: Verdicts) -> Verdict | None:
    """Return the verdict of a panel; ``None`` for a tie, or if a member has no verdict that counts."""
    right, n = sum(verdict == "correct" for verdict in verdicts), len(verdicts)
    if not all_judged(verdicts) or 2 * right == n:
        return None
    return "correct" if 2 * right > n else "incorrect"


def read_judged(
    store: Store, judges: Sequence[str] | None = None, selection: Selection | None = None, of: Answers = FREE_RESPONSES
) -> VerdictTable:
    """Return the newest verdict of each judge on every answer of a selection.

    Without ``judges`` they are the rules that judge such answers, and all graders.
    """
    with store.read() as cursor:
        if judges is None:
            judges = [*of.by_rule, *(stored["grader"] for stored in stored_graders(cursor, selection, of))]
        return VerdictTable(tuple(judges), verdict_counts(cursor, judges, selection, of))


def agreement_rows(judged: VerdictTable) -> Iterator[Row]:
    """Yield the agreement of graders on the answers of each model: of every pair with common answers, then of all."""
    everyone = range(len(judged.judges))
    groups = [*combinations(everyone, 2), *([tuple(everyone)] if len(everyone) > 2 else [])]
    for model, numbers in judged.by_model().items():
        for group in groups:
            label = {"graders": ", ".join(judged.judges[place] for place in group), "model": model}
            yield from _agreement_of(label, numbers, group)


def _agreement_of(label: dict[str, str], numbers: Counter[CaseVerdicts], group: Sequence[int]) -> Iterator[Row]:
    common, left_out = Counter[tuple[str, tuple[Verdict, ...]]](), 0
    for (case, kinds), n in numbers.items():
        given = tuple(kind for place in group if (kind := kinds[place]))
        if len(given) == len(group):
            common[case, given] += n
        elif given:
            left_out += n
    for words, size in (("right or not", 2), ("all kinds", len(KINDS_OF_VERDICT))) if common else ():
        code = {kind: int(kind != "correct") if size == 2 else n for n, kind in enumerate(KINDS_OF_VERDICT)}
        answered = Counter[tuple[str, tuple[int, ...]]]()
        for (case, given), n in common.items():
            answered[case, tuple(code[kind] for kind in given)] += n
        if len(group) == 2:
            found = of_two({(case, one, other): n for (case, (one, other)), n in answered.items()}, size)
        else:
            patterns = Counter[tuple[str, tuple[int, ...]]]()
            for (case, codes), n in answered.items():
                patterns[case, tuple(codes.count(code) for code in range(size))] += n
            found = of_many(patterns)
        for name in ("percent_agreement", "cohen_kappa" if len(group) == 2 else "fleiss_kappa", "gwet_ac"):
            value, (low, high) = found.coefficients[name]
            yield Row(
                {**label, "verdicts": words, "measure": COEFFICIENTS[name]},
                value,
                low,
                high,
                found.items,
                more={"n_cases": found.cases, "left_out": left_out},
                unit="answers",
                columns=Columns("value", n="n_answers"),
            )


def crossed_rows(judged: VerdictTable) -> Iterator[Row]:
    """Yield how often the second of every two graders gave each verdict, by the verdict of the first."""
    for model, numbers in judged.by_model().items():
        for first, second in combinations(range(len(judged.judges)), 2):
            pairs: dict[Verdict, Counter[Verdict]] = defaultdict(Counter)
            for (_, kinds), n in numbers.items():
                if (one := kinds[first]) and (other := kinds[second]):
                    pairs[one][other] += n
            for one in (kind for kind in KINDS_OF_VERDICT if kind in pairs):
                for other in (kind for kind in KINDS_OF_VERDICT if kind in pairs[one]):
                    yield Row(
                        {
                            "first": judged.judges[first],
                            "second": judged.judges[second],
                            "model": model,
                            "first_verdict": one,
                            "second_verdict": other,
                        },
                        pairs[one][other] / pairs[one].total(),
                        n=pairs[one][other],
                        unit="answers",
                        columns=Columns("share", None, None, "n_answers"),
                    )


def flip_rates(store: Store, selection: Selection | None = None) -> list[Row]:
    """Return how often each grader contradicted itself on the answers of each model of a selection.

    A row is the share of pairs, judged more than once under the same prompts, that were right in one judgement and not
    right in another. ``judged_again`` is what was judged again: the same response, the same diagnosis extracted from
    it, or the same answer. The interval resamples right answers with all their pairs.
    """
    with store.read() as cursor:
        counts = flip_counts(cursor, selection)
    if counts.empty:
        return []
    kind, order = ["grader", "model", "same"], counts["right_answer"].unique()
    wide = counts.pivot(index="right_answer", columns=kind, values=["both", "pairs"]).fillna(0).loc[order]
    both, pairs = (wide[name].sort_index(axis=1).to_numpy() for name in ("both", "pairs"))
    intervals = ratio_intervals(both, pairs)
    sums = counts.groupby(kind, sort=True)[["pairs", "both", "verdicts"]].sum().reset_index()
    flips: Iterable[Any] = sums.itertuples()
    return [
        Row(
            {"grader": flip.grader, "model": flip.model, "judged_again": f"the same {flip.same}"},
            flip.both / flip.pairs,
            low,
            high,
            flip.pairs,
            more={"both_ways": flip.both, "verdicts": flip.verdicts},
            unit="pairs",
            columns=Columns("share", n="pairs"),
        )
        for flip, (low, high) in zip(flips, intervals, strict=True)
    ]
