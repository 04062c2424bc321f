"""``report graded_choices``: verdicts of graders on answers with choices, next to the verdicts of the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Annotated, Any, Literal

from core.events import COUNTED, Verdict
from core.frameworks.starts import CAMPAIGN, GRADING_CHOICES
from core.measures.base import Columns, Listed, MetricRequest, Row, Section, bounded, metric
from core.measures.conversations import case_sums
from core.measures.graders.agreement import VerdictTable, read_judged
from core.measures.graders.report import difference_lines
from core.stats.ratios import ratio
from core.stats.smoothed import mean_interval, ratio_interval
from core.store.queries.grades import CHOICE_RULES, CHOICES, VerdictCount

_COLUMNS = {
    "first_grader": "rule",
    "first_verdict": "by_rule",
    "second_grader": "grader",
    "second_read_as": "read_as",
    "second_verdict": "by_grader",
}
Part = Literal["agreement", "differences"]


@metric(
    "graded_choices",
    "run",
    "models",
    "source",
    "cases",
    "formats",
    "questions",
    empty="No grader has judged an answer with choices: a campaign can ask with many choices, and a grader can judge "
    "the answers with four choices again.",
    starts=(CAMPAIGN, GRADING_CHOICES),
    compared=False,
    page="trust",
)
def report(
    request: MetricRequest,
    part: Annotated[Part, "How often grader and rule agree, or the answers on which they differ."] = "agreement",
) -> Iterator[Listed]:
    """Report verdicts of graders on answers with four or many choices next to those of the rules.

    Both are compared as correct or not on the same answers. Accuracies are means over a case's answers, then over
    cases.
    """
    judged = request.read(read_judged, None, request.selection, CHOICES)
    if part == "agreement":
        yield from agreement_rows(judged)
        return
    for rule, grader in product(CHOICE_RULES, judged.judges[len(CHOICE_RULES) :]):
        for line in difference_lines(request, (rule, grader), CHOICES):
            if "correct" in (line["first_verdict"], line["second_verdict"]):
                yield {_COLUMNS.get(name, name): value for name, value in line.items()}


def agreement_rows(judged: VerdictTable) -> Iterator[Row]:
    """Yield a row for each condition, arm, rule and grader: the share (0 to 1) of answers on which both agree.

    ``by_rule`` and ``by_grader`` are the accuracies by each on these answers; ``rule_only`` and ``grader_only`` count
    the answers that one of them alone calls correct.
    """
    arms: dict[tuple[str, str, str], list[VerdictCount]] = {}
    for count in judged.counts:
        arms.setdefault((count.model, count.question_type, count.format), []).append(count)
    pairs = product(CHOICE_RULES, judged.judges[len(CHOICE_RULES) :])
    for ((model, question_type, format_), counts), (rule, grader) in product(arms.items(), list(pairs)):
        places = judged.place(rule), judged.place(grader)
        by_rule = [count for count in counts if count.verdicts[places[0]]]
        if any(count.verdicts[places[1]] for count in by_rule):
            label = {
                "model": model, "format": format_, "question_type": question_type, "rule": rule, "grader": grader,
            }  # fmt: skip
            yield _row(label, [(c.case_key, c.verdicts[places[0]], c.verdicts[places[1]], c.n) for c in by_rule])


def _row(label: dict[str, str], judged: Iterable[tuple[str, Verdict | None, Verdict | None, int]]) -> Row:
    """Return the row of the answers of a rule: case, its verdict, the grader's verdict, number of answers."""
    excluded, counted = Counter[str](), list[tuple[str, bool, bool, int]]()
    for case, by_rule, by_grader, n in judged:
        reasons = [str(verdict) for verdict in (by_rule, by_grader) if verdict not in COUNTED]
        if reason := "not judged by this grader" if by_grader is None else next(iter(reasons), ""):
            excluded[reason] += n
        else:
            counted.append((case, by_rule == "correct", by_grader == "correct", n))
    agreed, answers = case_sums((case, n * (one == other), n) for case, one, other, n in counted)
    more: dict[str, Any] = {
        "n_cases": len(answers),
        "rule_only": sum(n for _, one, other, n in counted if one > other),
        "grader_only": sum(n for _, one, other, n in counted if other > one),
    }
    for name, side in (("by_rule", 1), ("by_grader", 2)):
        right, _ = case_sums((each[0], each[3] * bool(each[side]), 0) for each in counted)
        means = right / answers
        more |= bounded(name, float(means.mean()) if means.size else None, mean_interval(means))
    return Row(
        label,
        ratio(agreed, answers),
        *ratio_interval(agreed, answers),
        int(answers.sum()),
        dict(excluded),
        more,
        unit="answers",
        columns=Columns("agreement", "low", "high", "n_answers", "excluded"),
    )


AGREEMENT = Section(
    "Choices by a grader and by the rules",
    report,
    {"part": "agreement"},
    kind="table",
    columns=(
        "model", "format", "question_type", "rule", "grader", "agreement", "low", "high", "by_rule", "by_rule_low",
        "by_rule_high", "by_grader", "by_grader_low", "by_grader_high", "rule_only", "grader_only", "n_answers",
        "n_cases", "excluded",
    ),
    heads={
        "agreement": "Agreement", "by_rule": "Accuracy by the rule", "by_rule_low": "Rule, low",
        "by_rule_high": "Rule, high", "by_grader": "Accuracy by the grader", "by_grader_low": "Grader, low",
        "by_grader_high": "Grader, high", "rule_only": "Correct by the rule only",
        "grader_only": "Correct by the grader only", "n_answers": "Answers", "excluded": "Excluded",
    },
    help="Answers that both judged, as correct or not; 95 % intervals resample cases. Four choices count by a rule, "
    "many choices by the grader.",
    page="trust",
)  # fmt: skip
DIFFERENCES = Section(
    "Answers on which they differ",
    report,
    {"part": "differences"},
    kind="table",
    columns=(
        "model", "case", "trial", "format", "question_type", "answer", "response", "rule", "by_rule", "grader",
        "read_as", "by_grader",
    ),
    heads={"case": "Case", "by_rule": "By the rule", "read_as": "Read as", "by_grader": "By the grader"},
    page="trust",
)  # fmt: skip
SECTIONS = (AGREEMENT, DIFFERENCES)
