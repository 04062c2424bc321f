"""Why conversations ended and how long they were, and what accuracy other rules of stopping would give.

Made of what ``core.store.queries.answers`` reads; no model is asked again. A rule leaves conversations out, or lets
their answers count as no diagnosis, by how they ended; or it grades otherwise; or it lets answers that are excluded
count as wrong. It is compared with the standard rule arm by arm, and on the cases that both rules keep.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.errors import UsageError
from core.events import FORMATS, QUESTION_TYPES, EndReason, Format, QuestionType
from core.measures.base import Asked, Columns, Row, Section, bounded, metric
from core.stats.differences import paired_difference
from core.stats.intervals import NOTHING, Interval
from core.stats.smoothed import mean_interval
from core.store.database import Store
from core.store.queries.answers import conversation_endings, ending_outcomes
from core.store.selection import McqRule, Selection

END_REASONS: tuple[EndReason, ...] = get_args(EndReason)


def endings(table: pd.DataFrame) -> list[Row]:
    """Return how each model's conversations ended, in the order of names.

    The estimate is the share (0 to 1) of each case's conversations that ended without the words "final diagnosis" in
    their last message, then the mean over cases; ``without_diagnosis`` counts them. ``reasons`` counts conversations;
    trials that held none are excluded, and in no other number. Turns are the doctor's messages after the greeting.
    """
    found = []
    for model, trials in table.groupby("model", observed=True):
        rows = trials[trials["end_reason"].notna()]
        counts = rows["end_reason"].value_counts()
        open_ended = ~rows["concluded"]
        by_case = open_ended.groupby(rows["case_key"], observed=True).mean().to_numpy(dtype=np.float64)
        turns = rows["doctor_turns"].dropna().to_numpy(dtype=np.float64)
        found.append(
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
            )
        )
    return found


def reason_rows(table: pd.DataFrame) -> list[Row]:
    """Return for each model and reason the share (0 to 1) of its conversations that ended for it, if any did."""
    return [
        Row(
            {"model": row["model"], "reason": reason, "conversations": count},
            count / row["conversations"],
            n=row["conversations"],
            unit="conversations",
            columns=Columns("share", None, None, "of"),
        )
        for row in endings(table)
        for reason, count in row.more["reasons"].items()
    ]


def turn_rows(table: pd.DataFrame) -> list[Row]:
    """Return how many ``conversations`` of each model had so many doctor ``turns``, and which share (0 to 1) it is.

    Without the numbers of turns that none has.
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
            )
            for n, count in zip(turns.tolist(), counts.tolist(), strict=True)
        ]
    return rows


Floats = NDArray[np.float64]
Arm = tuple[Format, QuestionType]

AFTER_CONVERSATION: tuple[Format, ...] = ("multi_turn", "multi_turn_exam", "summarized")
"""Formats in which the doctor is shown what the whole conversation brought: their answers depend on its end."""


@dataclass(frozen=True)
class Rule:
    """A rule of scoring in words and in parts.

    ``unconcluded`` concerns conversations whose last message holds no final diagnosis, ``ended_by`` those that ended
    for these reasons; ``becomes`` says what their answers count as. A rule without either concerns grading only.
    ``wrong`` are excluded answers that count as not correct: those refused, or all but those to a question that the
    case does not allow (not applicable), which nobody could answer. ``without`` leaves out counted answers of a kind:
    those in which the doctor refused in words, or blank ones.
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
        """Whether the rule concerns conversations by how they ended."""
        return self.unconcluded or bool(self.ended_by)

    def applies(self, arm: Arm) -> bool:
        """Say whether the rule can change anything in an arm."""
        if self.on_endings:
            return arm[0] in AFTER_CONVERSATION
        if self.mcq_rule == "mcq_strict":
            return arm[1] in ("mcq", "mcq_answers")
        return self.mcq_rule == "usual" or arm[1] == "mcq_many"


STANDARD = Rule(
    "standard",
    "Standard rule",
    "Every conversation counts, however it ended. Multiple choice by the paper’s substring rule, many choices by the "
    "grader. Answers that a filter "
    "refused, that a provider failed to give or that are not graded are excluded, and so is a case without any answer "
    "that counts.",
)
RULES: tuple[Rule, ...] = (
    Rule(
        "no_diagnosis_excluded",
        "Without diagnosis: excluded",
        "Conversations whose last message holds no final diagnosis are left out.",
        unconcluded=True,
    ),
    Rule(
        "no_diagnosis_wrong",
        "Without diagnosis: not correct",
        "Conversations whose last message holds no final diagnosis count as no diagnosis, whatever the doctor answered "
        "when it was asked afterwards.",
        unconcluded=True,
        becomes="no_diagnosis",
    ),
    Rule(
        "cap_excluded",
        "At the cap: excluded",
        "Conversations that reached the cap of messages are left out.",
        ended_by=("turn_cap",),
    ),
    Rule(
        "cap_wrong",
        "At the cap: not correct",
        "Conversations that reached the cap of messages count as no diagnosis.",
        ended_by=("turn_cap",),
        becomes="no_diagnosis",
    ),
    Rule(
        "no_question_excluded",
        "No question: excluded",
        "Conversations that ended because the doctor’s message held neither a question nor a final diagnosis are left "
        "out.",
        ended_by=("no_question",),
    ),
    Rule(
        "strict",
        "Strict multiple choice",
        "A choice counts only where the answer names exactly one of them; listing several is not correct.",
        mcq_rule="mcq_strict",
    ),
    Rule(
        "strict_refused_wrong",
        "Strict, refused: not correct",
        "The strict rule, with a refusal to choose among the options counted as not correct, as the paper has it.",
        mcq_rule="mcq_strict",
        wrong="refused",
    ),
    Rule(
        "substring",
        "Many choices: substring",
        "Of many choices, which the grader judges so that names of the same disease count, the right one has to stand "
        "in the answer as the data set spells it.",
        mcq_rule="mcq_loose",
    ),
    Rule("refused_wrong", "Refused: not correct", "A refusal to answer counts as not correct.", wrong="refused"),
    Rule(
        "in_words_excluded",
        "Refused in words: excluded",
        "Answers in which the doctor itself declines to answer, as the grader quotes it, are left out. By the standard "
        "rule, and the papers’, they count as not correct.",
        without="refused_in_words",
    ),
    Rule(
        "blank_excluded",
        "Blank: excluded",
        "Blank answers, of which the provider reports a normal end, are left out. By the standard rule they count as "
        "not correct: a model that says nothing has named nothing.",
        without="blank",
    ),
    Rule(
        "excluded_wrong",
        "Excluded: not correct",
        "Every excluded answer counts as not correct: refused, never given because a provider failed, unreadable to "
        "the grader or not graded. The lowest accuracy that the excluded answers allow.",
        wrong="excluded",
    ),
    Rule(
        "zero",
        "Invalid cases: zero",
        "A case without any answer that counts scores 0 and stays in, as in the published tables.",
        invalid="zero",
    ),
)
"""The rules to compare with the standard one."""


def rescore(outcomes: pd.DataFrame, rules: Sequence[Rule], arms: Collection[Arm] | None = None) -> list[Row]:
    """Return the accuracy of every model and arm under each rule that applies to it, the standard rule first.

    ``concerned`` answers fall under the rule, ``changed`` of them count otherwise than by the standard rule.
    ``same_cases`` is the mean minus that of the standard rule on the ``n_same`` cases that both rules keep, with its
    interval: leaving conversations out also leaves out cases, and often the hard ones. ``None`` where no case counts.

    ``outcomes`` is what ``core.store.queries.answers.ending_outcomes`` reads; ``arms`` restricts to some. The
    order is that of models, formats, question types and ``rules``.
    """
    found: list[Row] = []
    wanted = [(f, q) for f in FORMATS for q in QUESTION_TYPES if arms is None or (f, q) in arms]
    groups = dict(list(outcomes.groupby(["model", "format", "question_type"], observed=True)))
    models = sorted({str(model) for model, _, _ in groups})
    for arm, model, rows in [
        (arm, model, groups[model, *arm]) for model in models for arm in wanted if (model, *arm) in groups
    ]:
        case = pd.factorize(rows["case_key"].to_numpy())[0]
        standard, usual = _cases(rows, case, STANDARD)
        for rule in (STANDARD, *(r for r in rules if r.key != STANDARD.key and r.applies(arm))):
            counted, scores = _cases(rows, case, rule)
            kept = counted > 0 if rule.invalid == "exclude" else np.ones(counted.size, dtype=bool)
            changed = _changed(rows, rule)
            by_grade = rule.without or (rule.wrong and rule.mcq_rule == "usual")
            concerned = changed if by_grade else int(rows.loc[_concerned(rows, rule), "answers"].sum())
            both = kept & (standard > 0)
            # a rule against itself has no difference to estimate
            same, interval = _difference(scores[both], usual[both]) if rule.key != STANDARD.key else (0.0, NOTHING)
            found.append(
                Row(
                    {"model": model, "format": arm[0], "question_type": arm[1], "rule": rule.key},
                    float(scores[kept].mean()) if kept.any() else None,
                    *mean_interval(scores[kept]),
                    int(kept.sum()),
                    more={
                        "n_answers": int(counted.sum()),
                        "n_excluded": int(rows["answers"].sum() - counted.sum()),
                        "concerned": concerned,
                        "changed": changed,
                        **bounded("same_cases", same, interval),
                        "n_same": int(both.sum()),
                    },
                )
            )
    return found


def _concerned(rows: pd.DataFrame, rule: Rule) -> NDArray[np.bool_]:
    """Return which rows fall under a rule."""
    if rule.invalid == "zero":
        counted = pd.Series(_by_rule(rows, rule, "counted")).groupby(rows["case_key"].to_numpy()).transform("sum")
        return np.asarray(counted == 0, dtype=bool)
    if not rule.on_endings:
        return np.full(len(rows), rule.key != STANDARD.key)
    ended = rows["end_reason"].isin(list(rule.ended_by)).to_numpy()
    if rule.unconcluded:
        ended = ended | (~rows["concluded"] & rows["end_reason"].notna()).to_numpy(dtype=bool)
    return np.asarray(ended, dtype=bool)


def _cases(rows: pd.DataFrame, case: NDArray[np.intp], rule: Rule) -> tuple[Floats, Floats]:
    """Return how many answers to each case of an arm count, and its score, in one order for all rules."""
    correct, counted = _by_rule(rows, rule, "correct"), _by_rule(rows, rule, "counted")
    if rule.on_endings:
        stays = ~_concerned(rows, rule)
        correct = correct * stays
        counted = counted * stays if rule.becomes == "excluded" else counted
    if rule.without:
        counted = counted - rows[rule.without].to_numpy(dtype=np.float64)
    if rule.wrong:
        counted = counted + _by_rule(rows, rule, rule.wrong)
    size = int(case.max()) + 1 if case.size else 0
    right, held = (np.bincount(case, values, size).astype(np.float64) for values in (correct, counted))
    return held, right / np.maximum(held, 1)


def _by_rule(rows: pd.DataFrame, rule: Rule, name: str) -> Floats:
    """Return a count of answers by the multiple-choice rule that a rule goes by."""
    by_strict = rows["by_strict"] if rule.mcq_rule == "usual" else rule.mcq_rule == "mcq_strict"
    return np.where(by_strict, rows[f"strict_{name}"], rows[name]).astype(np.float64)


def _changed(rows: pd.DataFrame, rule: Rule) -> int:
    """Return how many answers count otherwise than by the standard rule."""
    if rule.key == STANDARD.key:
        return 0
    if rule.mcq_rule != "usual":
        return int(rows["differ"].sum())
    if rule.wrong:
        return int(_by_rule(rows, rule, rule.wrong).sum())
    if rule.without:
        return int(rows[rule.without].sum())
    if not rule.on_endings:  # whole cases come in
        return int(rows.loc[_concerned(rows, rule), "answers"].sum())
    counts = _by_rule(rows, rule, "counted" if rule.becomes == "excluded" else "correct")
    return int(counts[_concerned(rows, rule)].sum())


def _difference(scores: Floats, before: Floats) -> tuple[float | None, Interval]:
    """Return the mean difference on the same cases with its interval."""
    if not scores.size:
        return None, NOTHING
    compared = paired_difference(scores, before)
    return compared.mean, compared.interval


def read_outcomes(store: Store, selection: Selection) -> pd.DataFrame:
    """Return how often each case was right in each arm, apart by how its conversations ended."""
    with store.read() as cursor:
        return ending_outcomes(cursor, selection)


def read_endings(store: Store, selection: Selection) -> pd.DataFrame:
    """Return how each conversation ended."""
    with store.read() as cursor:
        return conversation_endings(cursor, selection)


@metric(
    "endings", "run", "models", "cases", empty="There is no conversation to report: run a campaign.", page="accuracy"
)
def report(
    asked: Asked,
    part: Annotated[
        Literal["endings", "reasons", "turns", "rules"],
        "How many conversations ended without a diagnosis, why they ended, how long they were, or accuracy under other "
        "rules of stopping and grading.",
    ] = "endings",
    rules: Annotated[str | None, "Only these rules, by name with commas, next to the standard one."] = None,
) -> Iterator[Row]:
    """Report why conversations ended, how many without a diagnosis, and what other rules would make of them."""
    selection = replace(asked.selection, formats=None, question_types=None)
    if part == "rules":
        formats, questions = asked.selection.formats or FORMATS, asked.selection.question_types or QUESTION_TYPES
        yield from rescore(
            asked.read(read_outcomes, selection), _named(rules), [(f, q) for f in formats for q in questions]
        )
        return
    rows_of = {"endings": endings, "reasons": reason_rows, "turns": turn_rows}[part]
    yield from rows_of(asked.read(read_endings, selection))


def _named(names: str | None) -> list[Rule]:
    if names is None:
        return list(RULES)
    rules = {rule.key: rule for rule in RULES}
    wanted = [name.strip() for name in names.split(",")]
    if unknown := [name for name in wanted if name not in rules]:
        raise UsageError(f"There is no rule {', '.join(unknown)}; there are {', '.join(rules)}.")
    return [rules[name] for name in wanted]


SECTIONS = (
    Section(
        "Why conversations stopped",
        report,
        {"part": "reasons"},
        kind="reasons",
        columns=("model", "reason", "conversations", "of", "share"),
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
        page="accuracy",
    ),
    Section("How long the doctor asked", report, {"part": "turns"}, kind="turns", folded=True, page="accuracy"),
    Section(
        "What if other rules had been used?",
        report,
        {"part": "rules"},
        kind="what_if",
        figure="arm",
        axis="Accuracy",
        heads={
            "same_cases": "On the same cases", "same_cases_low": "Same, low", "same_cases_high": "Same, high",
            "n_cases": "Cases",
        },
        columns=(
            "model", "arm", "rule", "standard", "mean", "ci_low", "ci_high", "change", "same_cases", "same_cases_low",
            "same_cases_high", "concerned", "changed", "n_answers", "n_excluded", "n_cases",
        ),
        caption="Dotted: the standard rule.",
        page="accuracy",
    ),
)  # fmt: skip
REASONS, WITHOUT_DIAGNOSIS, TURNS, WHAT_IF = SECTIONS
