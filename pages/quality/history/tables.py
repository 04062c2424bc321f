"""Words and tables of the part History taking: measures, the published doctors, the rules of the virtues."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from core.datasets import published
from core.frameworks.base import publisher
from core.measures.history.measures import LENGTHS
from core.measures.history.summary import ComparisonRow, Figure, ItemGroup, MeasureRow, OrderRow, UncoveredRow
from core.stats.corrections import LABELS, Correction, format_p, stars
from core.store.conditions import Condition
from pages.kit.names import dataset_name, natural

MEASURE: Final[dict[str, tuple[str, str]]] = {
    "patient_recall": ("Patient recall", "Share of the words of the case’s items that the patient said: what was "
                       "uncovered (ROUGE-1 recall against the items’ values, words stemmed)."),
    "patient_precision": ("Patient precision", "Share of the patient’s words that are words of the items’ values."),
    "patient_f1": ("Patient F1", "Harmonic mean of the patient’s recall and precision in each conversation."),
    "patient_words": ("Patient words", "Mean length of the patient’s messages in words."),
    "doctor_recall": ("Doctor recall", "Share of the words of the items’ keys that the doctor’s questions hold."),
    "doctor_precision": ("Doctor precision", "Share of the words of the doctor’s questions that are words of keys."),
    "doctor_f1": ("Doctor F1", "Harmonic mean of the doctor’s recall and precision in each conversation."),
    "doctor_words": ("Doctor words", "Mean length of the doctor’s questions in words; greeting and closing message "
                     "are no questions."),
    "doctor_turns": ("Doctor turns", "The doctor’s messages after the greeting, a closing one included."),
    "queries": ("Questions", "The doctor’s questions: without greeting and closing message."),
    "accuracy": ("Accuracy", "Share of right answers to the case’s question with its choices, given after the "
                 "conversation: by the doctor, or by a separate solver where there is one."),
    "repetition_1": ("Repetition R-1", "Mean ROUGE-1 F1 between the questions of one conversation, pair by pair; lower "
                     "is more varied. Conversations with fewer than two questions have none."),
    "repetition_2": ("Repetition R-2", "The same with ROUGE-2: pairs of words."),
    "repetition_l": ("Repetition R-L", "The same with ROUGE-L: the longest common sequence of words."),
    "honesty": ("Honesty", "Share of the patient’s statements that the case supports."),
    "strictness": ("Strictness", "Share of the patient’s replies that bring nothing that was not asked for."),
    "colloquialism": ("Colloquialism", "Share of the patient’s words that are everyday words."),
}  # fmt: skip
"""Measure → its name and what it means, in the order of tables."""
VIRTUES = ("honesty", "strictness", "colloquialism")
PUBLISHED_SETS = {"medqa": "MedQA", "qmax": "QMax", "sample_exam": "Sample exam"}
PUBLISHED_DOCTORS = {
    "upper_bound": "Upper bound", "lower_bound": "Lower bound", "chatgpt_long": "ChatGPT, long prompt",
    "chatgpt_short": "ChatGPT, short prompt", "vicuna": "Vicuna", "vicuna_ft": "Vicuna, fine-tuned",
}  # fmt: skip
PUBLISHED_MEASURES = {
    "patient_recall": "patient_recall", "patient_precision": "patient_precision", "patient_f1": "patient_f1",
    "patient_len": "patient_words", "doctor_recall": "doctor_recall", "doctor_precision": "doctor_precision",
    "doctor_f1": "doctor_f1", "doctor_len": "doctor_words", "turn": "doctor_turns", "accuracy": "accuracy",
    "rouge_1": "repetition_1", "rouge_2": "repetition_2", "rouge_l": "repetition_l",
}  # fmt: skip
"""Label of a published metric → our measure."""
VIRTUE_RULES = (
    "- **Honesty.** A statement is a sentence of the patient that says something (no courtesy, no “I don’t know”); a "
    "bare yes or no states what was asked. It is supported where the case holds at least half of its telling words.\n"
    "- **Strictness.** Of the replies to narrow questions, the share that brings no item first that the question did "
    "not ask for: the question shares a telling word with the item. Replies to open questions (“anything else?”) do "
    "not count.\n"
    "- **Colloquialism.** The share of the patient’s words, numbers aside, that are no medical terms: neither on a "
    "short list nor with a technical ending such as -itis.\n\n"
    "Rules on words cannot judge meaning: a free paraphrase looks unsupported. They compare patients on average; for "
    "one conversation open its facts ledger under **Cases**."
)
_FIRST = ("accuracy", "doctor_turns")
TABLE_2 = (*_FIRST, *(name for name in MEASURE if name not in (*_FIRST, *VIRTUES, "queries")))
"""The measures of the paper's tables 2 and 3, what came of it first."""
THIRDS = ("Least uncovered", "Middle", "Most uncovered")


@dataclass(frozen=True)
class PublishedRow:
    """A doctor of the paper (Liao et al., tables 2 and 3) on one of its data sets; lengths aside between 0 and 1."""

    doctor: str
    dataset: str
    values: Mapping[str, float]


def published_rows(dataset: str) -> list[PublishedRow]:
    """Return the paper's doctors on a data set; repetition is printed for all of them together."""
    found: dict[str, dict[str, float]] = {}
    for row in published.rows(publisher("history").name):
        printed = (row["table"], row["dataset"]) in (("2", dataset), ("3", ""))
        if printed and row["model"] and row["metric"] in PUBLISHED_MEASURES:
            measure = PUBLISHED_MEASURES[row["metric"]]
            unit = 1 if measure in LENGTHS else 100
            found.setdefault(row["model"], {})[measure] = float(row["value"]) / unit
    return [PublishedRow(PUBLISHED_DOCTORS[m], PUBLISHED_SETS[dataset], values) for m, values in found.items()]


def overview_table(
    rows: Sequence[MeasureRow],
    names: Mapping[str, str],
    conditions: Sequence[Condition],
    printed: Sequence[PublishedRow],
    *,
    bounds: bool = False,
) -> pd.DataFrame:
    """Return a row for each doctor, ours and then the published ones; with ``bounds`` as text with intervals."""

    def shown(value: float | None, measure: str, figure: Figure | None = None) -> float | str | None:
        if not bounds:
            return value
        if value is None:
            return "–"
        if figure is None:
            return decimal(value, measure)
        if figure.ci_low is None or figure.ci_high is None:
            return f"{decimal(value, measure)} (no interval)"
        return f"{decimal(value, measure)} ({decimal(figure.ci_low, measure)}–{decimal(figure.ci_high, measure)})"

    found = {(row.model, row.measure): row for row in rows}
    behind = {one.name: one for one in conditions}
    lines: list[dict[str, Any]] = []
    for key in (key for key in names if (key, TABLE_2[0]) in found):
        talks, task, one = found[key, "doctor_turns"], found[key, "accuracy"], behind[key]
        figures = {m: found[key, m].figure for m in TABLE_2}
        lines.append(
            {
                "Doctor": names[key],
                "From": f"{one.parts['framework']}, {'release' if one.newest.source == 'release' else 'run here'}",
                **{MEASURE[m][0]: shown(figure.mean, m, figure) for m, figure in figures.items()},
                "Cases": max(talks.figure.n_cases, task.figure.n_cases),
                "Conversations": talks.n_conversations,
                "Broke off": talks.n_excluded,
                "Not measured": talks.n_missing,
                "Answers": task.n_conversations,
                "Answers excluded": task.n_excluded,
            }
        )
    for row in printed:
        figures_printed = {MEASURE[m][0]: shown(row.values.get(m), m) for m in TABLE_2}
        lines.append({"Doctor": row.doctor, "From": f"published, {row.dataset}", **figures_printed})
    return pd.DataFrame(lines)


def decimal(value: float, measure: str) -> str:
    """Return a figure with as many decimals as it bears."""
    return f"{value:.2f}" if measure in LENGTHS else f"{value:.3f}"


def measures_table(rows: Sequence[MeasureRow], names: Mapping[str, str], measures: Iterable[str]) -> pd.DataFrame:
    """Return every figure in a row of its own, with its interval and what it rests on."""
    wanted = set(measures)
    return pd.DataFrame(
        [
            {
                "Doctor": names[row.model],
                "Measure": MEASURE[row.measure][0],
                **estimate(row.figure),
                "Conversations": row.n_conversations,
                "Without": row.n_without,
                "Broke off": row.n_excluded,
                "Not measured": row.n_missing,
            }
            for row in rows
            if row.measure in wanted
        ]
    )


def order_table(rows: Sequence[OrderRow], names: Mapping[str, str]) -> pd.DataFrame:
    """Return when and how often each topic is told."""
    return pd.DataFrame(
        [
            {
                "Doctor": names[row.model],
                "Topic": row.topic.capitalize(),
                "First told at": row.position.mean,
                "Low": row.position.ci_low,
                "High": row.position.ci_high,
                "Cases where told": row.position.n_cases,
                "Told in": row.told.mean,
                "Told, low": row.told.ci_low,
                "Told, high": row.told.ci_high,
                "Cases with the topic": row.told.n_cases,
            }
            for row in rows
        ]
    )


def uncovered_table(rows: Sequence[UncoveredRow], names: Mapping[str, str]) -> pd.DataFrame:
    """Return how often answers were right in each third of the conversations by what was uncovered."""
    return pd.DataFrame(
        [
            {
                "Doctor": names[row.model],
                "Third": THIRDS[row.third],
                "Patient recall from": row.least,
                "To": row.most,
                "Right": row.right,
                "Wrong": row.n - row.right,
                "Share right": row.right / row.n,
                "Low": row.interval.low,
                "High": row.interval.high,
                "Conversations": row.n,
                "Cases": row.cases,
            }
            for row in rows
        ]
    )


def comparison_table(rows: Sequence[ComparisonRow], first: str, second: str, correction: Correction) -> pd.DataFrame:
    """Return the differences of two doctors, in the order of ``MEASURE``."""
    return pd.DataFrame(
        [
            {
                "Measure": MEASURE[row.measure][0],
                first: row.first,
                second: row.second,
                "Difference": row.difference.mean,
                "Low": row.difference.interval.low,
                "High": row.difference.interval.high,
                "p": format_p(row.difference.p),
                f"p ({LABELS[correction]})": f"{format_p(row.p_adjusted)} {stars(row.p_adjusted)}",
                "Cases": row.difference.n,
            }
            for row in sorted(rows, key=lambda row: list(MEASURE).index(row.measure))
        ]
    )


def cases_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return a doctor's cases with their means, in the order of their keys."""
    ordered = table.iloc[sorted(range(len(table)), key=lambda i: natural(str(table["case_key"].iloc[i])))]
    return pd.DataFrame(
        {
            "Case": ordered["case_key"],
            "Data set": ordered["dataset"].map(dataset_name),
            "Specialty": ordered["specialty"],
            "Items": ordered["n_items"],
            **{MEASURE[m][0]: ordered[m] for m in _OF_CASES},
            "Conversations": ordered["conversations"],
        }
    ).reset_index(drop=True)


_OF_CASES = ("patient_recall", "patient_precision", "doctor_recall", "doctor_turns", "repetition_1", "accuracy")


def group_words(group: ItemGroup) -> str:
    """Return what a group of cases is called."""
    size = f"{group.least}" if group.least == group.most else f"{group.least}–{group.most}"
    return f"{('Fewest', 'Middle', 'Most')[group.number]}: {size} items"


def estimate(figure: Figure) -> dict[str, float | int | None]:
    """Return a figure as columns of a table."""
    return {"Mean": figure.mean, "Low": figure.ci_low, "High": figure.ci_high, "Cases": figure.n_cases}
