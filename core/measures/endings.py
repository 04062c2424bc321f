"""Why conversations ended and how long they were, and the accuracy under other rules of stopping and grading.

Computed from the rows of ``core.store.queries.answers``; no model is asked again. A rule excludes conversations, or
counts their answers as no diagnosis, depending on how they ended; or it grades differently; or it counts excluded
answers as wrong. It is compared with the standard rule arm by arm, and on the cases that both rules include.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.errors import UsageError
from core.events import FORMATS, QUESTION_TYPES, EndReason, Format, QuestionType
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.measures.base import CASES_OF_RUNS, Columns, Counted, MetricRequest, Row, Section, Side, bounded, metric
from core.stats.differences import paired_difference
from core.stats.intervals import NOTHING, Interval
from core.stats.smoothed import mean_interval
from core.store.database import Store
from core.store.queries.answers import conversation_endings, ending_outcomes
from core.store.selection import McqRule, Selection

END_REASONS: tuple[EndReason, ...] = get_args(EndReason)
END_COLOUR: dict[str, str] = {
    "final_diagnosis": "#009E73", "no_question": "#E69F00", "turn_cap": "#D55E00", "end_tag": "#56B4E9",
    "no_tag": "#F0E442", "refusal": "#CC79A7", "error": "#8C8C8C", "not_recorded": "#BBBBBB",
}  # fmt: skip
"""Reason of an ending → its colour in figures, in order."""


def endings(table: pd.DataFrame) -> list[Row]:
    """Return how each model's conversations ended, in the order of names.

    The estimate is the share (0 to 1) of each case's conversations whose last message lacks the words "final
    diagnosis", then the mean over cases; ``without_diagnosis`` counts these conversations. ``reasons`` counts
    conversations; trials without a conversation are excluded, and in no other number. Turns are the doctor's messages
    after the greeting.
    """
    result = []
    for model, trials in table.groupby("model", observed=True):
        rows = trials[trials["end_reason"].notna()]
        counts = rows["end_reason"].value_counts()
        open_ended = ~rows["concluded"]
        by_case = open_ended.groupby(rows["case_key"], observed=True).mean().to_numpy(dtype=np.float64)
        turns = rows["doctor_turns"].dropna().to_numpy(dtype=np.float64)
        result.append(
            Row(
                {"model": str(model)},
                float(by_case.mean()) if by_case.size else float("nan"),
                *mean_interval(by_case),
                by_case.size,
                {"no conversation": len(trials) - len(rows)},
                {
                    "conversations": len(rows),
                    "without_diagnosis": int(open_ended.sum()),
                    "reasons": {reason: int(counts[reason]) for reason in END_REASONS if counts.get(reason, 0)},
                    "turns_mean": float(turns.mean()) if turns.size else float("nan"),
                    "turns_median": float(np.median(turns)) if turns.size else float("nan"),
                    "turns_most": int(turns.max(initial=0)),
                },
                columns=Columns("without_diagnosis_share", excluded="excluded"),
                counts=Counted((Side(str(model)),)),
            )
        )
    return result


def reason_rows(table: pd.DataFrame) -> list[Row]:
    """Return a row for each model and reason that occurs: the share (0 to 1) of conversations that ended for it."""
    return [
        Row(
            {"model": row["model"], "reason": reason, "conversations": count},
            count / row["conversations"],
            n=row["conversations"],
            unit="conversations",
            columns=Columns("share", None, None, "of"),
            counts=Counted((Side(row["model"]),), end_reason=reason),
        )
        for row in endings(table)
        for reason, count in row.more["reasons"].items()
    ]


def turn_rows(table: pd.DataFrame) -> list[Row]:
    """Return the number and share (0 to 1) of each model's ``conversations`` for each number of doctor ``turns``.

    Numbers of turns that do not occur have no row.
    """
    rows: list[Row] = []
    for model, trials in table.groupby("model", observed=True):
        conversations = trials[trials["end_reason"].notna()]
        turns, counts = np.unique(conversations["doctor_turns"].dropna().to_numpy(dtype=np.int64), return_counts=True)
        total = max(1, int(counts.sum()))
        rows += [
            Row(
                {"model": str(model), "turns": n, "conversations": count},
                count / total,
                n=total,
                unit="conversations",
                columns=Columns("share", None, None, None),
                counts=Counted((Side(str(model)),), turns=n),
            )
            for n, count in zip(turns.tolist(), counts.tolist(), strict=True)
        ]
    return rows


def with_missing_turns(rows: Sequence[Row], request: MetricRequest, options: Mapping[str, Any]) -> list[Row]:
    """Return a row for each model and number of turns up to the largest, with 0 where no conversation has it."""
    by_turns = {(row.label["model"], row.label["turns"]): row for row in rows}
    of_model = {row.label["model"]: replace(row, estimate=0.0, counts=None) for row in rows}
    most = max(row.label["turns"] for row in rows)
    return [
        replace(by_turns.get((model, n), nothing), label={"model": model, "turns": n})
        for model, nothing in of_model.items()
        for n in range(most + 1)
    ]


Floats = NDArray[np.float64]
Arm = tuple[Format, QuestionType]

AFTER_CONVERSATION: tuple[Format, ...] = ("multi_turn", "multi_turn_exam", "summarized", "closing")
"""Formats in which the doctor answers after the whole conversation, so that answers depend on how it ended."""


@dataclass(frozen=True)
class ScoringRule:
    """A rule of scoring.

    ``unconcluded`` applies to conversations whose last message has no final diagnosis, ``ended_by`` to those that ended
    for these reasons; ``becomes`` is what their answers count as. A rule without either is about grading only.
    ``wrong`` are excluded answers that count as not correct: the refused ones, or all except those to a question that
    the case does not allow (not applicable), which cannot be answered. ``without`` leaves out counted answers of a
    kind: refusals in words, or blank answers.
    """

    key: str
    label: str
    words: str
    unconcluded: bool = False
    ended_by: tuple[EndReason, ...] = ()
    becomes: Literal["excluded", "no_diagnosis"] = "excluded"
    mcq_rule: McqRule = "usual"
    invalid: Literal["exclude", "zero"] = "exclude"
    wrong: Literal["", "refused", "excluded"] = ""
    without: Literal["", "refused_in_words", "blank"] = ""

    @property
    def on_endings(self) -> bool:
        return self.unconcluded or bool(self.ended_by)

    def applies(self, arm: Arm) -> bool:
        if self.on_endings:
            return arm[0] in AFTER_CONVERSATION
        if self.mcq_rule == "mcq_strict":
            return arm[1] in ("mcq", "mcq_answers")
        return self.mcq_rule == "usual" or arm[1] == "mcq_many"


STANDARD = ScoringRule(
    "standard",
    "Standard rule",
    "Every conversation counts, however it ended. A choice is right if the answer contains it; the grader judges many "
    "choices. Answers that a filter refused, that failed at the provider or that are not graded are excluded, and so "
    "is a case without any answer that counts.",
)
RULES: tuple[ScoringRule, ...] = (
    ScoringRule(
        "no_diagnosis_excluded",
        "Without diagnosis: excluded",
        "Conversations whose last message has no final diagnosis are excluded.",
        unconcluded=True,
    ),
    ScoringRule(
        "no_diagnosis_wrong",
        "Without diagnosis: not correct",
        "Conversations whose last message has no final diagnosis count as no diagnosis, whatever the doctor answers to "
        "the question afterwards.",
        unconcluded=True,
        becomes="no_diagnosis",
    ),
    ScoringRule(
        "cap_excluded",
        "Message limit: excluded",
        "Conversations that reached the maximum of messages are excluded.",
        ended_by=("turn_cap",),
    ),
    ScoringRule(
        "cap_wrong",
        "Message limit: not correct",
        "Conversations that reached the maximum of messages count as no diagnosis.",
        ended_by=("turn_cap",),
        becomes="no_diagnosis",
    ),
    ScoringRule(
        "no_question_excluded",
        "No question: excluded",
        "Conversations that ended because the doctor’s message had neither a question nor a final diagnosis are "
        "excluded.",
        ended_by=("no_question",),
    ),
    ScoringRule(
        "strict",
        "Strict multiple choice",
        "A choice counts only if the answer names exactly one; listing several is not correct.",
        mcq_rule="mcq_strict",
    ),
    ScoringRule(
        "strict_refused_wrong",
        "Strict, refused: not correct",
        "The strict rule, with a refusal to choose among the options counted as not correct, as the paper has it.",
        mcq_rule="mcq_strict",
        wrong="refused",
    ),
    ScoringRule(
        "substring",
        "Many choices: as spelled",
        "The standard rule lets the grader judge many choices, so that other names of the disease count. Here the "
        "answer must contain the right choice as the data set spells it.",
        mcq_rule="mcq_loose",
    ),
    ScoringRule("refused_wrong", "Refused: not correct", "A refusal to answer counts as not correct.", wrong="refused"),
    ScoringRule(
        "in_words_excluded",
        "Refused in words: excluded",
        "Answers in which the doctor declines to answer, as the grader quotes it, are excluded. By the standard rule, "
        "and in the papers, they count as not correct.",
        without="refused_in_words",
    ),
    ScoringRule(
        "blank_excluded",
        "Blank: excluded",
        "Blank answers that ended normally are excluded. By the standard rule they count as not correct: a model that "
        "says nothing has named nothing.",
        without="blank",
    ),
    ScoringRule(
        "excluded_wrong",
        "Excluded: not correct",
        "Every excluded answer counts as not correct: refused, failed at the provider, unreadable to the grader or not "
        "graded. This is the lowest accuracy that the excluded answers allow.",
        wrong="excluded",
    ),
    ScoringRule(
        "zero",
        "Invalid cases: zero",
        "A case without any answer that counts scores 0 and stays in, as in the published tables.",
        invalid="zero",
    ),
)
"""The rules to compare with the standard one."""


def rescore(
    outcomes: pd.DataFrame,
    rules: Sequence[ScoringRule],
    arms: Collection[Arm] | None = None,
    case_values: list[pd.DataFrame] | None = None,
) -> list[Row]:
    """Return the accuracy of every model and arm under each rule that applies to it, the standard rule first.

    ``concerned`` answers fall under the rule; ``changed`` of them count differently than by the standard rule.
    ``same_cases`` is the mean minus that of the standard rule on the ``n_same`` cases that both rules include, with its
    interval: excluding conversations also excludes cases, often the hard ones. ``None`` if no case counts.

    ``outcomes`` are the rows of ``core.store.queries.answers.ending_outcomes``; ``arms`` restricts the rows. The order
    is that of models, formats, question types and ``rules``. The values behind each row are appended to
    ``case_values`` (``MetricRequest.case_values``); a figure is an arm under a rule.
    """
    result: list[Row] = []
    selected_arms = [(f, q) for f in FORMATS for q in QUESTION_TYPES if arms is None or (f, q) in arms]
    groups = dict(list(outcomes.groupby(["model", "format", "question_type"], observed=True)))
    models = sorted({str(model) for model, _, _ in groups})
    for arm, model, rows in [
        (arm, model, groups[model, *arm]) for model in models for arm in selected_arms if (model, *arm) in groups
    ]:
        case, case_keys = pd.factorize(rows["case_key"].to_numpy())
        standard, usual = _cases(rows, case, STANDARD)
        for rule in (STANDARD, *(r for r in rules if r.key != STANDARD.key and r.applies(arm))):
            counted, scores = _cases(rows, case, rule)
            included = counted > 0 if rule.invalid == "exclude" else np.ones(counted.size, dtype=bool)
            changed = _changed(rows, rule)
            by_grade = rule.without or (rule.wrong and rule.mcq_rule == "usual")
            concerned = changed if by_grade else int(rows.loc[_concerned(rows, rule), "answers"].sum())
            in_both = included & (standard > 0)
            if case_values is not None:
                figure = f"{':'.join(arm)} {rule.key}"
                values = {"case_key": case_keys[included], "value": scores[included]}
                case_values.append(pd.DataFrame(values).assign(model=model, figure=figure))
            # a rule against itself has no difference to estimate
            difference, interval = (
                _difference(scores[in_both], usual[in_both]) if rule.key != STANDARD.key else (0.0, NOTHING)
            )
            result.append(
                Row(
                    {"model": model, "format": arm[0], "question_type": arm[1], "rule": rule.key},
                    float(scores[included].mean()) if included.any() else None,
                    *mean_interval(scores[included]),
                    int(included.sum()),
                    more={
                        "n_answers": int(counted.sum()),
                        "n_excluded": int(rows["answers"].sum() - counted.sum()),
                        "concerned": concerned,
                        "changed": changed,
                        **bounded("same_cases", difference, interval),
                        "n_same": int(in_both.sum()),
                    },
                )
            )
    return result


def _concerned(rows: pd.DataFrame, rule: ScoringRule) -> NDArray[np.bool_]:
    if rule.invalid == "zero":
        counted = pd.Series(_by_rule(rows, rule, "counted")).groupby(rows["case_key"].to_numpy()).transform("sum")
        return np.asarray(counted == 0, dtype=bool)
    if not rule.on_endings:
        return np.full(len(rows), rule.key != STANDARD.key)
    ended = rows["end_reason"].isin(list(rule.ended_by)).to_numpy()
    if rule.unconcluded:
        ended = ended | (~rows["concluded"] & rows["end_reason"].notna()).to_numpy(dtype=bool)
    return np.asarray(ended, dtype=bool)


def _cases(rows: pd.DataFrame, case: NDArray[np.intp], rule: ScoringRule) -> tuple[Floats, Floats]:
    """Return the number of counted answers and the score of each case of an arm; the order is that of ``case``."""
    correct, counted = _by_rule(rows, rule, "correct"), _by_rule(rows, rule, "counted")
    if rule.on_endings:
        unaffected = ~_concerned(rows, rule)
        correct = correct * unaffected
        counted = counted * unaffected if rule.becomes == "excluded" else counted
    if rule.without:
        counted = counted - rows[rule.without].to_numpy(dtype=np.float64)
    if rule.wrong:
        counted = counted + _by_rule(rows, rule, rule.wrong)
    size = int(case.max()) + 1 if case.size else 0
    right, answers = (np.bincount(case, values, size).astype(np.float64) for values in (correct, counted))
    return answers, right / np.maximum(answers, 1)


def _by_rule(rows: pd.DataFrame, rule: ScoringRule, name: str) -> Floats:
    """Return the count of answers named ``name`` by the multiple-choice rule that ``rule`` uses."""
    by_strict = rows["by_strict"] if rule.mcq_rule == "usual" else rule.mcq_rule == "mcq_strict"
    return np.where(by_strict, rows[f"strict_{name}"], rows[name]).astype(np.float64)


def _changed(rows: pd.DataFrame, rule: ScoringRule) -> int:
    """Return how many answers count differently than by the standard rule."""
    if rule.key == STANDARD.key:
        return 0
    if rule.mcq_rule != "usual":
        return int(rows["differ"].sum())
    if rule.wrong:
        return int(_by_rule(rows, rule, rule.wrong).sum())
    if rule.without:
        return int(rows[rule.without].sum())
    if not rule.on_endings:  # the rule includes cases that the standard rule excludes
        return int(rows.loc[_concerned(rows, rule), "answers"].sum())
    counts = _by_rule(rows, rule, "counted" if rule.becomes == "excluded" else "correct")
    return int(counts[_concerned(rows, rule)].sum())


def _difference(scores: Floats, before: Floats) -> tuple[float | None, Interval]:
    if not scores.size:
        return None, NOTHING
    compared = paired_difference(scores, before)
    return compared.mean, compared.interval


def read_outcomes(store: Store, selection: Selection) -> pd.DataFrame:
    """Return how often each case was right in each arm, split by how its conversations ended."""
    with store.read() as cursor:
        return ending_outcomes(cursor, selection)


def read_endings(store: Store, selection: Selection) -> pd.DataFrame:
    with store.read() as cursor:
        return conversation_endings(cursor, selection)


@metric(
    "endings",
    *CASES_OF_RUNS,
    "formats",
    "questions",
    empty="There is no conversation to report.",
    starts=(CAMPAIGN, RELEASE),
    page="accuracy",
)
def report(
    request: MetricRequest,
    part: Annotated[
        Literal["endings", "reasons", "turns", "rules"],
        "How many conversations ended without a diagnosis, why they ended, how long they were, or accuracy under other "
        "rules of stopping and grading.",
    ] = "endings",
    rules: Annotated[str | None, "Only these rules, by name with commas, next to the standard one."] = None,
) -> Iterator[Row]:
    """Report why conversations ended, how many ended without a diagnosis, and the accuracy under other rules."""
    selection = replace(request.selection, formats=None, question_types=None)
    if part == "rules":
        formats, questions = request.selection.formats or FORMATS, request.selection.question_types or QUESTION_TYPES
        arms = [(f, q) for f in formats for q in questions]
        case_values: list[pd.DataFrame] = []
        yield from rescore(request.read(read_outcomes, selection), _parse_rules(rules), arms, case_values)
        request.case_values = pd.concat(case_values) if case_values else None
        return
    rows_of = {"endings": endings, "reasons": reason_rows, "turns": turn_rows}[part]
    yield from rows_of(request.read(read_endings, selection))


def _parse_rules(names: str | None) -> list[ScoringRule]:
    if names is None:
        return list(RULES)
    rules = {rule.key: rule for rule in RULES}
    keys = [name.strip() for name in names.split(",")]
    if unknown := [key for key in keys if key not in rules]:
        raise UsageError(f"There is no rule {', '.join(unknown)}; there are {', '.join(rules)}.")
    return [rules[key] for key in keys]


SECTIONS = (
    Section(
        "Why conversations stopped",
        report,
        {"part": "reasons"},
        kind="shares",
        series="reason",
        place="model",
        axis="Share of conversations",
        colours=END_COLOUR,
        columns=("model", "reason", "conversations", "of", "share"),
        help="Final diagnosis: the doctor’s last message has “Final Diagnosis”; no question: neither that nor a "
        "question mark; message limit: the run’s maximum of messages; broke off: a provider failed, or a release’s "
        "record stops early.",
        folded=True,
        page="accuracy",
    ),
    Section(
        "Conversations without a final diagnosis",
        report,
        {"part": "endings"},
        kind="table",
        heads={
            "without_diagnosis": "Without",
            "without_diagnosis_share": "No final diagnosis",
            "turns_mean": "Mean turns",
            "turns_median": "Median",
            "turns_most": "Most",
            "n_cases": "Cases",
        },
        columns=(
            "model", "conversations", "without_diagnosis", "without_diagnosis_share", "ci_low", "ci_high", "turns_mean",
            "turns_median", "turns_most", "n_cases", "excluded",
        ),
        help="Turns: the doctor’s messages after the greeting; trials without a conversation are in no other number.",
        page="accuracy",
    ),
    Section(
        "How long the doctor asked",
        report,
        {"part": "turns"},
        kind="curve",
        series="model",
        place="turns",
        axis="Share of conversations",
        words={"turns": "Doctor’s messages after the greeting"},
        drawn=with_missing_turns,
        folded=True,
        page="accuracy",
    ),
    Section(
        "What if other rules had been used?",
        report,
        {"part": "rules"},
        kind="dots",
        series="model",
        place="rule",
        axis="Accuracy",
        heads={
            "same_cases": "On the same cases", "same_cases_low": "Same, low",
            "same_cases_high": "Same, high", "n_cases": "Cases",
        },
        columns=(
            "model", "format", "question_type", "rule", "mean", "ci_low", "ci_high", "same_cases", "same_cases_low",
            "same_cases_high", "concerned", "changed", "n_answers", "n_excluded", "n_cases",
        ),
        caption="Accuracy re-scored from stored answers, without new requests.",
        help="This shows the effect of a scoring rule, not of another stopping rule, under which conversations would "
        "have continued. On the same cases: accuracy minus that of the standard rule, on cases that both rules "
        "include. Concerned: answers under the rule; changed: answers that count differently.",
        page="accuracy",
    ),
)  # fmt: skip
REASONS, WITHOUT_DIAGNOSIS, TURNS, WHAT_IF = SECTIONS
