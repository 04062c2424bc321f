"""Words and tables of the part History taking: measures, the published doctors, the rules of the virtues."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from core.frameworks.consultation.measures.history_taking import LENGTHS
from core.frameworks.consultation.measures.published import HISTORY_DOCTORS, HISTORY_SETS, printed_histories
from core.frameworks.consultation.measures.summary import Figure, ItemGroup, MeasureRow
from core.store.conditions import Condition

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
    for one in printed_histories(dataset):
        found.setdefault(one.model, {})[one.what] = one.value
    return [PublishedRow(HISTORY_DOCTORS[m], HISTORY_SETS[dataset], values) for m, values in found.items()]


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


def measures_table(rows: Sequence[MeasureRow], names: Mapping[str, str]) -> pd.DataFrame:
    """Return every figure in a row of its own, with its interval and what it rests on."""
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
        ]
    )


def group_words(group: ItemGroup) -> str:
    """Return what a group of cases is called."""
    size = f"{group.least}" if group.least == group.most else f"{group.least}–{group.most}"
    return f"{('Fewest', 'Middle', 'Most')[group.number]}: {size} items"


def estimate(figure: Figure) -> dict[str, float | int | None]:
    """Return a figure as columns of a table."""
    return {"Mean": figure.mean, "Low": figure.ci_low, "High": figure.ci_high, "Cases": figure.n_cases}
