"""Agreement of graders on the same free responses, their contradictions, panels, and accuracy by each of them.

The general agreement of judges (``core.judging.agreement``) is computed from counts of answers with equal verdicts,
because studies have up to a million answers. Verdicts are compared as right or not right, and as all kinds that count.
A grader can contradict itself on equal texts of several answers, or on one answer judged again.

An answer is right by a panel if more than half of its members call it right. It is ungraded, and excluded rather than
wrong, on a tie or if not all members have judged it. The error of a grader is measured against experts' judgements of
free responses (Rogan, Gladen).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Literal

from core.datasets.case_fields import fits
from core.errors import UsageError
from core.events import COUNTED, Format, QuestionType, Verdict
from core.judging.agreement import COEFFICIENTS, of_many, of_two
from core.measures.accuracy import accuracy_of
from core.measures.base import Columns, Row
from core.measures.experts.adjudication import JudgedAnswer, against_grader, corrected, decisions_of, means_by_model
from core.reviews.state import ReviewState, states
from core.stats.calibrated import CalibratedMean, JudgedItem, calibrated_mean
from core.stats.ratios import ratio
from core.stats.smoothed import ratio_interval
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.cases import cases
from core.store.queries.grades import FREE_RESPONSES, Answers, VerdictCount, flip_counts, stored_graders, verdict_counts
from core.store.queries.trials import trial_origins
from core.store.review_records import ReviewSampling, parse_item
from core.store.selection import Selection, conditions

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
            pairs, totals = Counter[tuple[Verdict, Verdict]](), Counter[Verdict]()
            for (_, kinds), n in numbers.items():
                if (one := kinds[first]) and (other := kinds[second]):
                    pairs[one, other] += n
                    totals[one] += n
            for one, other in product(KINDS_OF_VERDICT, KINDS_OF_VERDICT):
                if pairs[one, other]:
                    yield Row(
                        {
                            "first": judged.judges[first],
                            "second": judged.judges[second],
                            "model": model,
                            "first_verdict": one,
                            "second_verdict": other,
                        },
                        pairs[one, other] / totals[one],
                        n=pairs[one, other],
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
    return [
        Row(
            {"grader": grader, "model": model, "judged_again": f"the same {same}"},
            ratio(flips["both"], flips["pairs"]),
            *ratio_interval(flips["both"], flips["pairs"]),
            int(flips["pairs"].sum()),
            more={"both_ways": int(flips["both"].sum()), "verdicts": int(flips["verdicts"].sum())},
            unit="pairs",
            columns=Columns("share", n="pairs"),
        )
        for (grader, model, same), flips in counts.groupby(["grader", "model", "same"])
    ]


_ARM = ("model", "format", "question_type")


def accuracy_by_judge(judged: VerdictTable, panel: Sequence[str] = (), *, common: bool = False) -> list[Row]:
    """Return the accuracy of every model and arm by each grader, then by the panel, if there is one.

    ``ties`` counts answers that split the panel evenly; they are excluded as ungraded. ``common``: only answers that
    all graders of ``judged`` have judged count for a grader.
    """
    tables, ties = [judged.common if common else judged], Counter[tuple[str, str, str]]()
    if panel:
        tables.append(judged.panel(panel))
        for count in judged.of(panel).counts:
            tied = count.invalid is None and all_judged(count.verdicts) and majority(count.verdicts) is None
            ties[count.model, count.format, count.question_type] += count.n * tied
    rows = []
    for table in tables:
        for judge in table.judges:
            for row in accuracy_of(judge_scores(table, judge)):
                arm = arm_of(row)
                label = {"judge": judge, **dict(zip(_ARM, arm, strict=True))}
                counts = {name: row.more[name] for name in ("n_trials", "n_excluded")}
                rows.append(replace(row, label=label, more={**counts, "ties": ties[arm] if judge == PANEL else 0}))
    return rows


def arm_of(row: Row) -> tuple[str, str, str]:
    model, format_, question_type = (row.label[part] for part in _ARM)
    return model, format_, question_type


def judge_scores(judged: VerdictTable, judge: str) -> list[CaseScore]:
    """Return the scores of cases by the verdicts of a judge.

    A run and arm without any verdict has no scores: answers that need no grader, such as blank ones, would be all that
    counts.
    """
    place = judged.place(judge)
    decided = {
        (c.model, c.run_id, c.format, c.question_type) for c in judged.counts if not c.invalid and c.verdicts[place]
    }
    verdicts: dict[tuple[str, Format, QuestionType, str], Counter[Verdict | Literal["ungraded"]]] = {}
    groups: dict[tuple[str, Format, QuestionType, str], tuple[str | None, str | None]] = {}
    for c in judged.counts:
        if (c.model, c.run_id, c.format, c.question_type) in decided:
            key = (c.model, c.format, c.question_type, c.case_key)
            groups[key] = c.dataset, c.specialty
            verdicts.setdefault(key, Counter())[c.invalid or c.verdicts[place] or "ungraded"] += c.n
    return [
        CaseScore(
            *key,
            *groups[key],
            of_case["correct"],
            sum(of_case[verdict] for verdict in COUNTED),
            {verdict: n for verdict, n in of_case.items() if verdict not in COUNTED},
            rule=key[2],
        )
        for key, of_case in verdicts.items()
    ]


def members(panel: str) -> list[str]:
    """Return the graders of a comma-separated list; raise ``UsageError`` for fewer than two, or duplicates."""
    graders = [name.strip() for name in panel.split(",") if name.strip()]
    if len(set(graders)) < 2 or len(set(graders)) < len(graders):
        raise UsageError("A panel needs two or more different graders: --panel openai/gpt-4o,reference/names,…")
    return graders


def corrected_by_judge(store: Store, graders: Sequence[str], panel: Sequence[str] = ()) -> list[Row]:
    """Return the corrected accuracies of the models of every suitable review; the newest review takes precedence.

    A suitable review is unblinded, about free responses and not drawn for disagreement: the error on items drawn for
    disagreement is not the error on all answers.
    """
    rows: dict[tuple[str, str, str], Row] = {}
    for state in states(store):
        plan = state.review.plan
        if plan.kind == "answers" and state.review.unblinded and plan.sampling != "disagreement":
            for row in corrected_of_review(store, state, graders, panel):
                rows.setdefault((row.label["judge"], row.label["model"], row.label["format"]), row)
    return list(rows.values())


def corrected_of_review(
    store: Store, state: ReviewState, graders: Sequence[str], panel: Sequence[str] = ()
) -> list[Row]:
    """Return the accuracy of every model of a review by each grader, and by a panel, corrected for the judge's error.

    Both the accuracy and the error are those of the verdicts of the grader that is named. The items of the review must
    represent all answers, so they are not drawn for disagreement.
    """
    plan = state.review.plan
    answers, _ = against_grader(store, decisions_of(state))
    with store.read() as cursor:
        origins = trial_origins(cursor, sorted({parse_item(answer.item).trial_id for answer in answers}))
        within = [case.case_key for case in cases(cursor) if fits(case, plan.where)] if plan.where else None
    selection = Selection(
        runs=sorted({origin.run_id for origin in origins.values()}),
        datasets=plan.datasets or None,
        specialties=plan.specialties or None,
        cases=within,
        formats=[plan.format],
        question_types=["frq"],
    )
    # graders are compared, so they are no part of the conditions' names here
    names = {
        run: condition.name for condition in conditions(store, selection, without=("grader",)) for run in condition.runs
    }
    answers = [replace(a, model=names[origins[parse_item(a.item).trial_id].run_id]) for a in answers]
    judged = read_judged(store, list(dict.fromkeys([*graders, *panel])), selection)
    scores = {grader: judge_scores(judged, grader) for grader in graders}
    items = {grader: [answer for answer in answers if answer.grader == grader] for grader in graders}
    if panel:
        scores[PANEL] = judge_scores(judged.panel(panel), PANEL)
        items[PANEL] = _panel_items(answers, panel)
    rows = []
    for judge, of_judge in scores.items():
        if items[judge]:
            for model, values in means_by_model(of_judge).items():
                row = corrected(model, values, items[judge])
                label = {"judge": judge, "model": model, "format": plan.format}
                of_model = [score for score in of_judge if score.model == model]
                together = _with_experts(of_model, items[judge], model, plan.sampling)
                more = {**row.more, "review": state.review.name, "with_experts": together}
                rows.append(replace(row, label=label, more=more))
    return rows


def _with_experts(
    scores: Sequence[CaseScore], items: Iterable[JudgedAnswer], model: str, sampling: ReviewSampling
) -> CalibratedMean | None:
    """Return the share of right answers of a model by a judge and the experts together; ``None`` without its items.

    Unlike the correction by Rogan and Gladen it uses only items of this model, and holds for any error of the judge.
    Items that were drawn by specialty or data set count by the size of their stratum.
    """
    labelled: dict[str, list[JudgedAnswer]] = defaultdict(list)
    for item in (item for item in items if item.model == model):
        labelled[item.case].append(item)
    if not labelled:
        return None

    def stratum(score: CaseScore) -> str | None:
        return {"specialty": score.specialty, "dataset": score.dataset}.get(sampling, "")

    answers, drawn = Counter[str | None](), Counter[str | None]()
    for score in scores:
        answers[stratum(score)] += score.counted
        drawn[stratum(score)] += len(labelled.get(score.case_key, []))
    judged: list[JudgedItem] = []
    for score in scores:
        by_experts = labelled.get(score.case_key, [])
        weight = max(1.0, answers[stratum(score)] / max(1, drawn[stratum(score)]))
        judged += [JudgedItem(score.case_key, float(i.grader_says), float(i.expert_says), weight) for i in by_experts]
        right = max(0, score.correct - sum(item.grader_says for item in by_experts))
        wrong = max(0, score.counted - len(by_experts) - right)
        judged += [JudgedItem(score.case_key, 1.0)] * right + [JudgedItem(score.case_key, 0.0)] * wrong
    return calibrated_mean(judged)


def _panel_items(answers: Sequence[JudgedAnswer], panel: Sequence[str]) -> list[JudgedAnswer]:
    """Return the items that all members of a panel judged without a tie, with the panel as grader."""
    by_item: dict[str, dict[str, JudgedAnswer]] = defaultdict(dict)
    for answer in answers:
        by_item[answer.item][answer.grader] = answer
    of_all = [[given[name] for name in panel] for given in by_item.values() if given.keys() >= set(panel)]
    verdicts = [majority(["correct" if given.grader_says else "incorrect" for given in item]) for item in of_all]
    return [
        replace(item[0], grader=PANEL, grader_says=verdict == "correct")
        for item, verdict in zip(of_all, verdicts, strict=True)
        if verdict is not None
    ]
