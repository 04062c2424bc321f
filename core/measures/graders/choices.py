"""``report graded_choices``: verdicts of graders on answers with choices, next to the verdicts of the rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import Annotated, Literal

from core.events import COUNTED
from core.frameworks.starts import CAMPAIGN, GRADING_CHOICES
from core.measures.base import Columns, Listed, MetricRequest, Row, Section, bounded, metric
from core.stats.smoothed import mean_interval, ratio_interval
from core.store.database import Store
from core.store.queries.choice_verdicts import ChoiceVerdicts, choice_verdicts, differing_choices
from core.store.selection import Selection

_LONG = 60
"""Maximum number of characters of a response in a table; CSV and JSON have the whole response."""
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
    page="judges",
)
def report(
    request: MetricRequest,
    part: Annotated[Part, "How often grader and rule agree, or the answers on which they differ."] = "agreement",
) -> Iterator[Listed]:
    """Report verdicts of graders on answers with four or many choices next to those of the rules.

    Both are compared as correct or not on the same answers. Accuracies are means over a case's answers, then over
    cases.
    """
    if part == "agreement":
        yield from agreement_rows(request.read(read_verdicts, request.selection))
        return
    with request.store.read() as cursor:
        for line in differing_choices(cursor, request.selection):
            response = " ".join(line["response"].split()) if request.short else line["response"]
            yield {**line, "response": f"{response[:_LONG]}…" if request.short and len(response) > _LONG else response}


def read_verdicts(store: Store, selection: Selection | None = None) -> list[ChoiceVerdicts]:
    with store.read() as cursor:
        return choice_verdicts(cursor, selection)


def agreement_rows(verdicts: Iterable[ChoiceVerdicts]) -> list[Row]:
    """Return a row for each condition, arm, rule and grader: the share (0 to 1) of answers on which both agree.

    ``by_rule`` and ``by_grader`` are the accuracies by each on these answers; ``rule_only`` and ``grader_only`` count
    the answers that one of them alone calls correct.
    """
    answered: Counter[tuple[str, ...]] = Counter()
    groups: dict[tuple[str, ...], list[ChoiceVerdicts]] = defaultdict(list)
    for count in verdicts:
        arm = (count.model, count.format, count.question_type, count.rule)
        if count.grader is None:
            answered[arm] += count.n
        else:
            groups[*arm, count.grader].append(count)
    return [_row(key, members, answered[key[:4]]) for key, members in groups.items()]


def _row(key: tuple[str, ...], judged: Sequence[ChoiceVerdicts], answered: int) -> Row:
    compared = [count for count in judged if count.by_rule in COUNTED and count.by_grader in COUNTED]
    excluded: Counter[str] = Counter()
    for count in judged:
        if reason := next((str(v) for v in (count.by_rule, count.by_grader) if v not in COUNTED), ""):
            excluded[reason] += count.n
    excluded["not judged by this grader"] = answered - sum(count.n for count in judged)
    answers, agreed, right = Counter[str](), Counter[str](), {"by_rule": Counter[str](), "by_grader": Counter[str]()}
    only: Counter[str] = Counter()
    for count in compared:
        by_rule, by_grader = count.by_rule == "correct", count.by_grader == "correct"
        answers[count.case_key] += count.n
        agreed[count.case_key] += count.n * (by_rule == by_grader)
        right["by_rule"][count.case_key] += count.n * by_rule
        right["by_grader"][count.case_key] += count.n * by_grader
        only["rule_only"] += count.n * (by_rule and not by_grader)
        only["grader_only"] += count.n * (by_grader and not by_rule)
    n = answers.total()
    low, high = ratio_interval([agreed[case] for case in answers], list(answers.values()))
    more = {"n_cases": len(answers), "rule_only": only["rule_only"], "grader_only": only["grader_only"]}
    for name, correct in right.items():
        means = [correct[case] / answers[case] for case in answers]
        more |= bounded(name, fmean(means) if means else None, mean_interval(means))  # type: ignore[arg-type]
    return Row(
        dict(zip(("model", "format", "question_type", "rule", "grader"), key, strict=True)),
        agreed.total() / n if n else None,
        low,
        high,
        n,
        {reason: number for reason, number in excluded.items() if number},
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
    page="judges",
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
    page="judges",
)  # fmt: skip
SECTIONS = (AGREEMENT, DIFFERENCES)
