"""Printed tests, correlations and figures of experts, next to those that the answers and reviews stored here give.

A printed p-value is compared with p of the preprint's own test, the unpaired bootstrap, on the same two arms of the
same model, or else of the stored model with the most cases. Printed figures of experts are compared with reviews that
are unblinded. A row whose counterpart is missing says why in its state, and has no value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import scipy  # type: ignore[import-untyped]

from core.datasets import published
from core.datasets.published import RELEASE_DATASETS
from core.errors import AnamnesisError
from core.events import Format, QuestionType
from core.frameworks.base import publisher
from core.measures.accuracy import accuracy_of, published_label
from core.measures.base import CASES_OF_RUNS, Columns, Comparison, DifferenceTest, MetricRequest, Row, Section, metric
from core.measures.comparison import TESTS, corrected
from core.measures.experts.adjudication import against_grader, case_counts, count_agreement, decisions_of, pairs, shares
from core.measures.experts.report import DERMATOLOGISTS, PRINTED_QUESTIONS
from core.measures.experts.workbooks import GRADED_MODEL, grader_of_release
from core.measures.paired import Arm, by_arm, compare, read_scores
from core.measures.published import DERMATOLOGY, PREPRINT_FORMATS, PREPRINT_QUESTIONS
from core.reviews.state import ItemAnswers, ReviewState, states
from core.stats.corrections import Correction, format_p
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.selection import Selection

COMPUTED = "computed"
COMPUTED_ON_OTHERS = "computed on other cases: none of the preprint's data sets is stored here"
_VALUE = Columns("value", "low", "high", "n")
_WITHOUT_EXAMINATION = "_without_pe"
"""End of the preprint's names of arms without the physical examination."""
_CASES: Mapping[str, tuple[str, ...]] = {
    "all": DERMATOLOGY,
    "public": (RELEASE_DATASETS["derm_public"],),
    "private": (RELEASE_DATASETS["derm_private"],),
}
_PRINTED_P = (("", "value"), ("_adjusted", "adjusted"))
Printed = Mapping[str, str]
"""A row of a file of data/published: column → text."""


def printed_arms(row: Printed) -> tuple[Arm, Arm]:
    """Return the two arms of a printed test of the preprint; its conversations end with the physical examination."""
    if row["question_type"]:
        question_type: QuestionType = PREPRINT_QUESTIONS[row["question_type"]]
        first, second = (PREPRINT_FORMATS[row[name]] for name in ("arm_a", "arm_b"))
        return (first, question_type), (second, question_type)
    arms = []
    for name in (row["arm_a"], row["arm_b"]):
        without = name.endswith(_WITHOUT_EXAMINATION)
        format_: Format = PREPRINT_FORMATS[row["format"] + (_WITHOUT_EXAMINATION if without else "")]
        arms.append((format_, PREPRINT_QUESTIONS[name.removesuffix(_WITHOUT_EXAMINATION)]))
    return arms[0], arms[1]


def printed_tests(
    scores: Sequence[CaseScore], test: DifferenceTest = "unpaired_bootstrap", correction: Correction = "holm"
) -> Iterator[Row]:
    """Yield a row for each printed test of the preprint; p is corrected over the computed rows of its table.

    If there are no scores on the preprint's data sets, its tests on all cases are computed on the cases of ``scores``.
    """
    tables: dict[str, list[Row]] = {}
    arms_of = {
        cases: by_arm(score for score in scores if score.dataset in datasets) for cases, datasets in _CASES.items()
    }
    on_other_cases = not arms_of["all"]
    if on_other_cases:
        arms_of["all"] = by_arm(scores)
    state = COMPUTED_ON_OTHERS if on_other_cases else COMPUTED
    for line in _preprint():
        if line["kind"] == "p_value":
            row = _tested(line, arms_of[line["cases"]], test, state)
            tables.setdefault(line["table"], []).append(row)
    for rows in tables.values():
        for row in corrected(rows, correction):
            adjusted = row.comparison.adjusted_p if row.comparison else None
            yield replace(row, more={**row.more, "p_adjusted": adjusted})


def _tested(line: Printed, arms: Mapping[Any, Mapping[str, CaseScore]], test: DifferenceTest, state: str) -> Row:
    first, second = printed_arms(line)
    label = {
        "table": f"table {line['table']}",
        "model": line["model"],
        "cases": line["cases"],
        "first": " ".join(first),
        "second": " ".join(second),
    }
    printed = {f"published{end}": format_p(float(line[f"p_{name}"])) for end, name in _PRINTED_P}
    candidates: list[tuple[bool, int, str]] = []
    for model in dict.fromkeys(model for model, *_ in arms):
        sides = [arms.get((model, *arm), {}) for arm in (first, second)]
        shared = sum(
            score.counted > 0 and sides[1][key].counted > 0 for key, score in sides[0].items() if key in sides[1]
        )
        if shared > 1:
            candidates.append((published_label(model) == line["model"], shared, model))
    if not candidates:
        lacking = f"no model here has both arms on {line['cases']} dermatology cases"
        return _row(label, None, {**printed, "ours": None, "same_model": False, "difference": None, "state": lacking})
    same, n, model = max(candidates, key=lambda candidate: candidate[:2])
    result: Comparison = compare(arms[(model, *first)], arms[(model, *second)], test=test)
    undefined = math.isnan(result.p)
    more = {
        **printed,
        "ours": model,
        "same_model": same,
        "difference": result.difference,
        "state": "no score differs within either arm" if undefined else state,
    }
    row = _row(label, None if undefined else result.p, more, n=n)
    return replace(row, columns=Columns("p", None, None, "n"), comparison=result)


def _row(label: Mapping[str, Any], value: float | None, more: Mapping[str, Any], **numbers: Any) -> Row:
    columns = Columns("p", None, None, "n") if "published_adjusted" in more else _VALUE
    return Row(label, value, more=more, columns=columns, unit="items", **numbers)


def _preprint() -> tuple[Printed, ...]:
    return published.rows(f"{publisher('accuracy').name}_preprint")


@dataclass(frozen=True)
class OwnFigure:
    """A figure of a review or an import, in the printed unit, with its source in words."""

    value: float
    source: str
    n: int
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class OwnExperts:
    """What the reviews here say: decisions by review, grader's agreement by (source, model, format), and accuracies."""

    decisions: Mapping[str, Sequence[ItemAnswers]]
    agreement: Mapping[tuple[str, str, str], Sequence[Row]]
    accuracies: Sequence[Row]


def read_own_experts(store: Store, selection: Selection) -> OwnExperts:
    """Read the unblinded reviews of conversations and answers, the release's grader and the experts' vignettes."""
    decisions: dict[str, Sequence[ItemAnswers]] = {}
    agreement: dict[tuple[str, str, str], Sequence[Row]] = {}
    for state in states(store):
        if state.review.unblinded and state.review.plan.kind == "conversations":
            decisions[state.review.name] = decisions_of(state)
        elif state.review.unblinded and state.review.plan.kind == "answers":
            agreement |= _agreement(store, state)
    try:
        rows, _ = grader_of_release(store)
    except AnamnesisError:
        rows = ()
    if rows:
        agreement["the release", GRADED_MODEL, "vignette"] = rows
    scores = read_scores(store, selection, "mcq_strict")
    humans = accuracy_of(score for score in scores if score.model.startswith("human/"))
    return OwnExperts(decisions, agreement, humans)


def _agreement(store: Store, state: ReviewState) -> dict[tuple[str, str, str], Sequence[Row]]:
    judged, _ = against_grader(store, decisions_of(state))
    by_model: dict[tuple[str, str, str], Sequence[Row]] = {}
    for grader, model in dict.fromkeys((answer.grader, answer.model) for answer in judged):
        counts = case_counts(answer for answer in judged if (answer.grader, answer.model) == (grader, model))
        source = f"{state.review.name}, grader {grader}"
        by_model[source, model, state.review.plan.format] = count_agreement(grader, counts.values())
    return by_model


def printed_experts(own: OwnExperts) -> Iterator[Row]:
    """Yield a row for each printed figure of experts, patients and graders, in the paper and in its preprint."""
    paper = [(line, line["metric"], line["table"]) for line in published.rows(f"{publisher('accuracy').name}_expert")]
    preprint = [
        (line, line["kind"], line["table"])
        for line in _preprint()
        if line["kind"] in ("spearman", "spearman_p_value", "grader_ai_mean_correlation")
        or line["cases"] == "annotated"
    ]
    for publication, lines in (("paper", paper), ("preprint", preprint)):
        for line, figure, table in lines:
            label = {
                "publication": publication,
                "table": f"table {table}" if table else "text",
                "figure": figure,
                "model": line["model"] or None,
                "format": line.get("format") or None,
                "question_type": line.get("question_type") or None,
            }
            counterpart, state = _counterpart(line, figure, own)
            more = {"published": line["value"], "ours": counterpart.source if counterpart else None, "state": state}
            numbers = vars(counterpart) if counterpart else {}
            yield _row(
                label, numbers.get("value"), more, low=numbers.get("low"), high=numbers.get("high"), n=numbers.get("n")
            )


NO_REVIEW = "no review of conversations is unblinded here"
NO_GRADER = "no unblinded review of free responses in this format has two different counts"
NOT_ASKED = "no form of a review asks this"
NOT_JOINED = "needs verdicts on the diagnoses of the conversations that experts annotated"
NO_VIGNETTES = "no expert has answered vignettes with this question here"
_SHARES: Mapping[str, tuple[str, str]] = {
    **{name: (question, "yes") for name, question in PRINTED_QUESTIONS.items() if not name.endswith("_p")},
    "patient_ai_accurate_answers_in_vignette_scope": ("in_vignette", "yes"),
    "patient_ai_relevant_and_complete_answers": ("complete_answers", "yes"),
    "incomplete_history_pct": ("complete_history", "no"),
    "patient_ai_medical_language_pct": ("medical_terms", "yes"),
}
"""Printed figure → the question of a review and the answer whose percentage it is."""
_AGREEMENT: Mapping[str, str] = {
    "spearman": "Spearman of counts",
    "spearman_p_value": "Spearman of counts",
    "grader_ai_mean_correlation": "Spearman of counts",
    "grader_ai_agreement_with_experts": "agreement of counts",
}


def _counterpart(line: Printed, figure: str, own: OwnExperts) -> tuple[OwnFigure | None, str]:
    """Return the own figure and ``COMPUTED``, or ``None`` and the reason why there is none."""
    if figure.startswith(DERMATOLOGISTS):
        return _own_accuracy(figure.removeprefix(DERMATOLOGISTS), own.accuracies)
    if figure in _AGREEMENT:
        return _own_agreement(line, figure, own)
    if figure in _SHARES:
        return _own_share(line, *_SHARES[figure], own)
    if figure in PRINTED_QUESTIONS:
        return _own_test(line, PRINTED_QUESTIONS[figure], own)
    return None, NOT_JOINED if figure.startswith("incorrect_diagnosis") else NOT_ASKED


def _own_accuracy(question_type: str, accuracies: Sequence[Row]) -> tuple[OwnFigure | None, str]:
    rows = [row for row in accuracies if row.label["question_type"] == question_type and row.estimate is not None]
    if not rows:
        return None, NO_VIGNETTES
    row = max(rows, key=lambda candidate: candidate.n or 0)
    bounds = [None if bound is None else 100 * bound for bound in (row.low, row.high)]
    return OwnFigure(100 * (row.estimate or 0.0), row.label["model"], row.n or 0, *bounds), COMPUTED


def _own_agreement(line: Printed, figure: str, own: OwnExperts) -> tuple[OwnFigure | None, str]:
    format_ = PREPRINT_FORMATS.get(line.get("format") or "vignette")
    values: list[tuple[bool, int, float, str]] = []
    for (source, model, reviewed), rows in own.agreement.items():
        row = next(row for row in rows if row.label["figure"] == _AGREEMENT[figure])
        if reviewed == format_ and row.estimate is not None and not math.isnan(row.estimate):
            same = published_label(model) == line["model"]
            values.append((same, row.n or 0, row.estimate, f"{source}, {model}"))
    if not values:
        return None, NO_GRADER
    _, n, value, source = max(values)
    if figure == "spearman_p_value":
        if n < 3 or abs(value) == 1:
            return None, "p is not defined for a perfect correlation or fewer than three cases"
        value = 2 * float(scipy.special.stdtr(n - 2, -abs(value) * math.sqrt((n - 2) / (1 - value**2))))
    return OwnFigure(100 * value if line.get("unit") == "percent" else value, source, n), COMPUTED


def _own_share(line: Printed, question: str, answer: str, own: OwnExperts) -> tuple[OwnFigure | None, str]:
    candidates: list[tuple[bool, int, Row, str]] = []
    for review, decisions in own.decisions.items():
        about = [decision for decision in decisions if decision.question == question]
        if line["model"] == "patient_ai":  # the patient of all conversations
            about = [replace(decision, models=(line["model"],)) for decision in about]
        for row in shares(about):
            if row.estimate is not None:
                same = published_label(row.label["model"]) == line["model"]
                candidates.append((same, row.n or 0, row, review))
    if not candidates:
        return None, NO_REVIEW
    _, n, row, review = max(candidates, key=lambda candidate: candidate[:2])
    value, bounds = float(row.estimate or 0.0), [bound for bound in (row.low, row.high) if bound is not None]
    if answer == "no":
        value, bounds = 1 - value, [1 - bound for bound in reversed(bounds)]
    source = f"{review}, {row.label['model']}"
    per_answer = question in ("in_vignette", "complete_answers")
    state = f"{COMPUTED}, as a share of conversations" if per_answer else COMPUTED
    return OwnFigure(100 * value, source, n, *(100 * bound for bound in bounds)), state


def _own_test(line: Printed, question: str, own: OwnExperts) -> tuple[OwnFigure | None, str]:
    if not own.decisions:
        return None, NO_REVIEW
    models = set(line["model"].split("_vs_"))
    for review, decisions in own.decisions.items():
        for test in pairs(decisions, [question]):
            if test["p"] is not None and {published_label(test[name]) for name in ("first", "second")} == models:
                return OwnFigure(float(test["p"]), review, int(test["n"])), COMPUTED
    return None, "no review here judges both models on the same cases"


@metric("printed", *CASES_OF_RUNS, empty="No printed figure of this kind is stored.", compared=False, page="accuracy")
def report(
    request: MetricRequest,
    of: Annotated[
        Literal["tests", "experts"],
        "tests: the preprint's p-values between arms. experts: figures of experts, patients and graders of the paper "
        "and its preprint, with McNemar's tests and Spearman coefficients.",
    ] = "tests",
    test: Annotated[DifferenceTest, "The test of the answers stored here; the preprint's is unpaired."] = (
        "unpaired_bootstrap"
    ),
    correction: Annotated[Correction, "Correction of p over the rows of a printed table; the preprint's is Holm."] = (
        "holm"
    ),
) -> Iterator[Row]:
    """Report printed tests and figures of experts next to those of the answers and reviews stored here."""
    if of == "experts":
        rows = list(printed_experts(request.read(read_own_experts, request.selection)))
    else:
        scores = request.read(read_scores, request.selection, request.selection.mcq_rule)
        rows = list(printed_tests(scores, test, correction))
        request.note(
            f"p of the answers stored here: {TESTS[test]}, on all dermatology cases that count in both arms. The "
            "preprint has 140 cases with ten trials; its answers are not released.",
            kind="test",
        )
    yield from rows
    request.conditions = {row["ours"] for row in rows if row["ours"]} if of == "tests" else ()


_HEADS = {
    "published": "Published", "published_adjusted": "Published, adjusted", "p": "p here", "value": "Value here",
    "p_adjusted": "Adjusted p here", "ours": "Computed from", "same_model": "Same model", "n": "Cases or items",
    "first": "First", "second": "Second", "difference": "Difference here",
}  # fmt: skip
TESTS_PRINTED = Section(
    "Tests of the preprint",
    report,
    {"of": "tests"},
    kind="table",
    heads=_HEADS,
    columns=(
        "table", "model", "cases", "first", "second", "published", "published_adjusted", "p", "p_adjusted", "state",
        "ours", "same_model", "difference", "n",
    ),
    help="Two formats of the model with this name, or else of the model with the most cases; p by the unpaired "
    "bootstrap, corrected by Holm–Bonferroni over the rows of a printed table that are computed.",
    page="accuracy",
)  # fmt: skip
EXPERTS_PRINTED = Section(
    "Figures of experts, patients and graders",
    report,
    {"of": "experts"},
    kind="table",
    heads=_HEADS,
    columns=(
        "publication", "table", "figure", "model", "question_type", "format", "published", "value", "state", "ours",
        "low", "high", "n",
    ),
    help="Percentages, p-values and coefficients in the printed unit. Reviews count once they are unblinded; the model "
    "is the printed one, or else the one with the most items. Human accuracies are those of the expert with the most "
    "vignettes.",
    page="accuracy",
)  # fmt: skip
SECTIONS = (TESTS_PRINTED, EXPERTS_PRINTED)
