"""Sections of history taking on pages, and the names of its measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from core import words
from core.asking.scene import Turn
from core.case import Case
from core.events import Event, Utterance
from core.frameworks.consultation.measures import prefixes, summary
from core.frameworks.consultation.measures.history_taking import LENGTHS, information_of, measure, yardstick
from core.frameworks.consultation.measures.published import HISTORY_DOCTORS
from core.measures.base import MetricRequest, Row, Section
from core.stats.corrections import LABELS
from core.store.database import Store
from core.store.display_names import model_name
from core.store.queries.history_items import stored_items
from core.text.case_items import items_by_rule
from core.text.topics import TOPICS

MEASURE: Final[dict[str, tuple[str, str]]] = {
    "patient_recall": ("Patient recall", "Share of the words of the case’s items that the patient said (ROUGE-1 recall "
                       "against the items’ values, words stemmed)."),
    "patient_precision": ("Patient precision", "Share of the patient’s words that are words of the items’ values."),
    "patient_f1": ("Patient F1", "Harmonic mean of the patient’s recall and precision in each conversation."),
    "patient_words": ("Patient words", "Mean length of the patient’s messages in words."),
    "doctor_recall": ("Doctor recall", "Share of the words of the items’ keys that are in the doctor’s questions."),
    "doctor_precision": ("Doctor precision", "Share of the words of the doctor’s questions that are words of keys."),
    "doctor_f1": ("Doctor F1", "Harmonic mean of the doctor’s recall and precision in each conversation."),
    "doctor_words": ("Doctor words", "Mean length of the doctor’s questions in words, without greeting and closing "
                     "message."),
    "doctor_turns": ("Doctor turns", "The doctor’s messages after the greeting, including a closing message."),
    "queries": ("Questions", "The doctor’s questions, without greeting and closing message."),
    "accuracy": ("Accuracy", "Share of right answers after the conversation to the case’s question with its choices: "
                 "by the doctor, or by a separate solver if there is one."),
    "repetition_1": ("Repetition R-1", "Mean ROUGE-1 F1 between the questions of one conversation, pair by pair; lower "
                     "is more varied. Only conversations with two or more questions have a value."),
    "repetition_2": ("Repetition R-2", "The same with ROUGE-2: pairs of words."),
    "repetition_l": ("Repetition R-L", "The same with ROUGE-L: the longest common sequence of words."),
    "honesty": ("Honesty", "Share of the patient’s statements that the case supports."),
    "strictness": ("Strictness", "Share of the patient’s replies that tell nothing that the question did not ask for."),
    "colloquialism": ("Colloquialism", "Share of the patient’s words that are everyday words."),
}  # fmt: skip
"""Measure → its name and what it means, in the order of tables."""
VIRTUE_RULES: Final = (
    "- **Honesty.** A statement is a sentence of the patient with content (no courtesy, no “I don’t know”); a bare yes "
    "or no states the question. It is supported if the case has at least half of its telling words.\n"
    "- **Strictness.** Of the replies to narrow questions, the share that tells no new item without being asked: a "
    "question asks for an item if they share a telling word. Replies to open questions (“anything else?”) do not "
    "count.\n"
    "- **Colloquialism.** The share of the patient’s words, without numbers, that are not medical terms: neither on a "
    "short list nor with a technical ending such as -itis.\n\n"
    "Rules on words cannot judge meaning: a free paraphrase looks unsupported. They compare patients on average; for "
    "one conversation open its facts on **Conversations**."
)
THIRDS: Final = {"1": "Least uncovered", "2": "Middle", "3": "Most uncovered"}
GROUPS: Final = {1: "Fewest", 2: "Middle", 3: "Most"}
_DONE: Final = "Dialogue done, %"
_WORDS: Final[dict[str, str]] = {
    **{measure: name for measure, (name, _) in MEASURE.items()},
    **HISTORY_DOCTORS,
    **{str(topic): topic.capitalize() for topic in TOPICS},
    "per_cent": _DONE,
}
_OPENING: Final = "0 % is only the patient’s opening."
_MEAN: Final = ("mean", "ci_low", "ci_high", "n_cases")
_HEADS: Final = {
    "model": "Doctor",
    "n_cases": "Cases",
    "n_without": "Without",
    "n_excluded": "Excluded",
    "per_cent": _DONE,
}


def reached(rows: Sequence[Row], request: MetricRequest, options: Mapping[str, Any]) -> list[Row]:
    """Return accuracy with the ``patient_recall`` of the same doctor; without conversations by design it has none."""
    figures = {(row.label["model"], row.label["cases"], row.label["measure"]): row for row in rows}
    points = []
    for (model, cases, name), accuracy in figures.items():
        recall = figures.get((model, cases, "patient_recall"))
        if name != "accuracy" or recall is None or accuracy.estimate is None:
            continue
        if recall.estimate is not None or accuracy.source or not any(recall.excluded.values()):
            across = {"patient_recall": recall.estimate, "patient_recall_low": recall.low}
            more = {**across, "patient_recall_high": recall.high}
            points.append(replace(accuracy, label={"model": model, "cases": cases}, more=more, excluded={}))
    return points


def comparable(rows: Sequence[Row], request: MetricRequest, options: Mapping[str, Any]) -> list[Row]:
    """Return the rows that share an axis: shares on more than one case, without lengths."""
    return [row for row in rows if row.label["measure"] not in LENGTHS and (row.n or 0) > 1]


def by_group(rows: Sequence[Row], request: MetricRequest, options: Mapping[str, Any]) -> list[Row]:
    """Return the rows with the number of items in the name of their group of cases."""

    def named(row: Row) -> str:
        least, most = row.label["least_items"], row.label["most_items"]
        return f"{GROUPS[row.label['group']]}: {least if least == most else f'{least}–{most}'} items"

    return [
        replace(row, label={**{p: row.label[p] for p in ("model", "measure")}, "group": named(row)}) for row in rows
    ]


def by_solver(rows: Sequence[Row], request: MetricRequest, options: Mapping[str, Any]) -> list[Row]:
    """Return the rows with one part of the label, ``asked``, for solver, question and grader; solvers never mix."""
    parts = ("solver", "question_type", "grader", "prompt_hash", "grader_prompts")
    if len({tuple(row.label[part] for part in parts) for row in rows}) < 2:
        return list(rows)

    def asked(label: Mapping[str, Any]) -> str:
        graded = f", graded by {model_name(label['grader'])}" * bool(label["grader"])
        question = words.QUESTION_TYPE[label["question_type"]].lower()
        return f"{model_name(label['solver'])}, {question}{graded} (prompts {label['prompt_hash'][:8]})"

    return [replace(row, label={**row.label, "asked": asked(row.label)}) for row in rows]


_SHOWN: Final = (
    "patient_recall",
    "patient_precision",
    "doctor_recall",
    "queries",
    "repetition_1",
    "honesty",
    "strictness",
)
"""Measures of a single conversation."""


def of_conversation(store: Store, case: Case, events: Sequence[Event]) -> dict[str, list[dict[str, Any]]]:
    """Return the measures of a conversation, and the items of its case with when the patient first told them."""
    items = stored_items(store, case) or items_by_rule(case)
    dialogue = [Turn(event.role, event.text) for event in events if isinstance(event, Utterance)]
    measures = measure(dialogue, yardstick(information_of(case), items.items))
    values = {name: getattr(measures, name) for name in _SHOWN}
    told = [measures.order.get(item.topic) for item in items.items]
    maker = {"rules": "rule, from the vignette", "profile": "rule, from the profile", "mediq": "MediQ’s facts"}
    made_by = maker.get(items.made_by.partition("-")[0], items.made_by)
    return {
        "Measures of this conversation": [
            {"Measure": MEASURE[name][0], "Value": None if value is None else round(value, 3)}
            for name, value in values.items()
        ],
        f"Items of the case, by {made_by}": [
            {
                "Asked as": item.key,
                "In the case": item.value,
                "First told at, %": None if share is None else round(100 * share),
            }
            for item, share in zip(items.items, told, strict=True)
        ],
    }


FIGURES = Section(
    "Patient recall and accuracy",
    summary.report,
    {"part": "measures"},
    controls=("published",),
    kind="scatter",
    series="model",
    place="cases",
    across="patient_recall",
    drawn=reached,
    axis="Accuracy of the task",
    caption="Right answers against how much of the case the patient told.",
    help="Accuracy of the task against patient recall, by doctor. Dashed lines are answers without a conversation; "
    "open circles are published.",
    heads=_HEADS,
    columns=("model", "measure", *_MEAN, "n_conversations", "n_without", "n_excluded"),
    words=_WORDS,
    folded=True,
    page="quality",
)
DOCTORS = Section(
    "All measures of each doctor",
    summary.report,
    {"part": "measures"},
    controls=("published",),
    kind="table",
    wide="measure",
    columns=("model",),
    heads=_HEADS,
    help="ROUGE-1 of stemmed words: the patient’s against the values of the case’s items, the doctor’s questions "
    "against their keys. Means over a case’s conversations, then over cases. Intervals and counts stand in the table "
    "of the figure above.",
    words=_WORDS,
    page="quality",
)
UNCOVERED = Section(
    "Completeness of the history and right answers",
    summary.report,
    {"part": "uncovered"},
    kind="dots",
    series="model",
    place="third",
    axis="Share right",
    caption="All these conversations in thirds, by how much of the case the patient told.",
    help="Thirds of all these conversations by patient recall; the first has the lowest. Only conversations whose "
    "answer to the question with choices counts are included.",
    heads={
        **_HEADS,
        "recall_from": "Patient recall from",
        "recall_to": "To",
        "share_right": "Share right",
        "n_right": "Right",
        "n_wrong": "Wrong",
    },
    columns=(
        "model",
        "third",
        "recall_from",
        "recall_to",
        "n_right",
        "n_wrong",
        "share_right",
        "ci_low",
        "ci_high",
        "n_conversations",
        "n_cases",
    ),
    words={**_WORDS, **THIRDS},
    folded=True,
    page="quality",
)
CURVES = Section(
    "Over the dialogue",
    summary.report,
    {"part": "curves"},
    controls=("speaker",),
    kind="curve",
    series="model",
    place="per_cent",
    figure="measure",
    caption=_OPENING,
    help=f"{_OPENING} Bands are 95 % intervals over cases. F1 is computed in each conversation, then averaged.",
    heads=_HEADS,
    columns=("model", "measure", "per_cent", *_MEAN),
    words=_WORDS,
    folded=True,
    page="quality",
)
ACCURACY = Section(
    "Accuracy over the dialogue",
    prefixes.report,
    controls=("closing",),
    kind="curve",
    series="model",
    place="per_cent",
    figure="asked",
    drawn=by_solver,
    axis="Accuracy",
    caption=f"The solver sees the beginning of each conversation. {_OPENING}",
    help="The solver sees the beginning of each conversation. Means over a case’s answers, then over cases. Click a "
    "point for its answers.",
    heads={**_HEADS, "n_missing": "Not asked"},
    columns=("model", "per_cent", *_MEAN, "n_conversations", "excluded", "n_missing"),
    words=_WORDS,
    folded=True,
    page="quality",
)
ANSWERS = Section(
    "Answers of the solver",
    prefixes.report,
    {"part": "answers"},
    controls=("closing",),
    kind="list",
    narrowed=("model", "per_cent", "verdict"),
    row_id=("trial_id", "per_cent", "solver", "question_type"),
    note=("per_cent", "response"),
    columns=("case_key", "model", "trial", "per_cent", "verdict", "response", "answer", "messages"),
    heads={
        **_HEADS,
        "case_key": "Case",
        "verdict": "Verdict",
        "response": "Answer",
        "answer": "Right answer",
        "messages": "Messages shown",
    },
    words={str(verdict): name for verdict, name in words.VERDICT.items()},
    page="quality",
)
ORDER = Section(
    "Order of inquiry",
    summary.report,
    {"part": "order"},
    kind="dots",
    series="model",
    place="topic",
    by_size=True,
    axis="First told, as share of the dialogue",
    caption="Topics that the patient could tell, the earliest on top.",
    help="The share of the dialogue at which the patient first tells it, over conversations in which it is told.",
    heads={
        **_HEADS,
        "mean": "First told at",
        "n_cases": "Cases where told",
        "told_mean": "Told in",
        "told_ci_low": "Told, low",
        "told_ci_high": "Told, high",
        "told_n_cases": "Cases with the topic",
    },
    columns=("model", "topic", *_MEAN, "told_mean", "told_ci_low", "told_ci_high", "told_n_cases"),
    words=_WORDS,
    folded=True,
    page="quality",
)
TOLD = replace(
    ORDER,
    title="Topics that patients told, by their words",
    kind="heat",
    by_size=False,
    estimate="told",
    axis="Conversations in which it is told",
    columns=("model", "topic", "told_mean", "told_ci_low", "told_ci_high", "told_n_cases"),
    caption="Share of conversations in which the patient’s messages contain the words of an item of the case.",
    help="Words cannot judge meaning: compare topics and doctors, not single conversations.",
    page="failures",
)
BY_ITEMS = Section(
    "Shorter and longer histories",
    summary.report,
    {"part": "groups"},
    controls=("measure",),
    kind="dots",
    series="model",
    place="group",
    figure="measure",
    help="Three equal groups of the selected cases by their number of items.",
    heads={**_HEADS, "group": "Cases with", "least_items": "Items from", "most_items": "Items to"},
    columns=("model", "group", "least_items", "most_items", "measure", *_MEAN),
    drawn=by_group,
    words=_WORDS,
    folded=True,
    page="quality",
)
CHANGE = Section(
    "Difference",
    summary.report,
    {"part": "change"},
    controls=("correction",),
    kind="dots",
    place="measure",
    drawn=comparable,
    axis="Difference",
    caption="First model minus second, paired by case. Filled: adjusted p ≤ .05.",
    help="Paired by case; smoothed intervals, p by the sign-flip test over cases in pairs. Turns, questions and words "
    "are not shares, and so not in the chart.",
    columns=("measure", "after", "before", "change", "ci_low", "ci_high", "p", "p_holm", "p_bh", "p_none", "n_cases"),
    heads={**_HEADS, **{f"p_{correction}": f"p ({label})" for correction, label in LABELS.items()}},
    words=_WORDS,
    page="quality",
)
PATIENT = Section(
    "Honesty, strictness and colloquialism of the patient, by doctor",
    summary.report,
    {"part": "virtues"},
    kind="dots",
    series="model",
    place="measure",
    axis="Share",
    help=VIRTUE_RULES,
    heads=_HEADS,
    columns=("model", "patient", "measure", *_MEAN, "n_conversations", "n_without", "n_excluded"),
    words=_WORDS,
    page="quality",
)
CASES = Section(
    "Cases",
    summary.report,
    {"part": "cases"},
    kind="list",
    narrowed=("model", "specialty"),
    row_id=("model", "case_key"),
    panels=of_conversation,
    columns=(
        "case_key", "model", "dataset", "specialty", "n_items", "patient_recall", "patient_precision", "doctor_recall",
        "doctor_turns", "repetition_1", "accuracy", "conversations",
    ),
    heads={
        "model": "Doctor", "case_key": "Case", "dataset": "Data set", "specialty": "Specialty", "n_items": "Items",
        **{name: head for name, (head, _) in MEASURE.items()},
    },
    page="quality",
)  # fmt: skip
SECTIONS = (FIGURES, DOCTORS, UNCOVERED, CURVES, ACCURACY, ANSWERS, ORDER, TOLD, BY_ITEMS, CHANGE, PATIENT, CASES)
