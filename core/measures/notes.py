"""Results of metrics with all their notes: reasons why a reader should be careful with figures.

Commands, pages, exports and pictures show the same notes: those on the conditions behind the rows
(``core.measures.condition_notes``), on samples, on the smallest difference that the data detect, and those that only a
metric can know (``MetricRequest.note``).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from core.errors import AnamnesisError, UsageError
from core.events import FORMATS
from core.frameworks.starts import in_terminal
from core.judging.form import RUBRIC, forms
from core.judging.judgement import Judge
from core.measures.base import CaseTrials, Listed, Measure, Metric, MetricRequest, NameOf, Note, Result, Row, Severity
from core.measures.condition_notes import Arm, Basis, in_order, notes_of, read_basis
from core.measures.extent import changed_keys
from core.stats.power import detectable_effect
from core.store.database import Store
from core.store.queries.judgements import answers_given, same_words
from core.store.queries.run_cases import Extent, count_trials
from core.store.queries.scores import unmeasured
from core.store.selection import Selection, conditions, sample_size


def result_of(
    metric: Metric,
    request: MetricRequest,
    options: Mapping[str, Any] | None = None,
    *,
    name: NameOf = str,
    data_set_name: NameOf = str,
) -> Result:
    """Return the rows of a metric for a selection, with all notes on the conditions in its rows.

    ``name`` and ``data_set_name``: see ``notes_of``.
    """
    request.name = name
    try:
        rows = tuple(metric.rows(request, **(options or {})))
    except UsageError:
        raise
    except AnamnesisError as error:
        empty = why_empty(metric, request, options, str(error))
        if not empty.filtered:
            raise
        raise AnamnesisError(empty.reason) from error
    behind = (request.basis or request.selection).of_conversations
    basis = read_basis(request.read, behind) if rows and metric.noted else Basis((), ())
    names, arms = shown_in(rows, {condition.name for condition in basis.conditions})
    selected = names if request.conditions is None else set(request.conditions)
    published = any(row.source for row in rows if isinstance(row, Row))
    notes = notes_of(
        basis,
        selected,
        arms,
        compared=metric.compared,
        published=published,
        by_specialty=(options or {}).get("by") == "specialty" or bool(request.selection.specialties),
        name=name,
        data_set_name=data_set_name,
    )
    sampled = sample_notes(request.read, request.selection) if rows else ()
    unread = unmeasured_notes(request, metric.measure) if rows and metric.measure else ()
    between = detectable_between(request.case_values, basis.extents) if rows and metric.compared else ()
    sizes = [*between, *detectable_notes(rows)]
    of_judges = judge_notes(request) if rows and request.judges else ()
    return Result(metric.title, rows, in_order([*sampled, *unread, *request.notes, *of_judges, *notes, *sizes]))


def unmeasured_notes(request: MetricRequest, measure: Measure) -> Iterator[Note]:
    """Yield a note on the trials that the measure has not read against the present cases and lists."""
    conversations = replace(request.selection, formats=None, question_types=None, mcq_rule="usual")
    if number := request.read(read_unmeasured, measure, conversations):
        text = f"Not measured against the present cases and lists, and left out: {number:,} conversations."
        yield Note("not_measured", text, "high")


def read_unmeasured(store: Store, measure: Measure, selection: Selection) -> int:
    with store.read() as cursor:
        return len(unmeasured(cursor, measure, selection))


def read_given(
    store: Store, forms: tuple[str, ...], selection: Selection
) -> dict[tuple[str, str, Judge], Counter[str]]:
    with store.read() as cursor:
        return answers_given(cursor, forms, selection)


def read_same_words(
    store: Store, forms: tuple[str, ...], selection: Selection
) -> dict[tuple[str, Judge], tuple[float, int]]:
    with store.read() as cursor:
        return same_words(cursor, forms, selection)


ENOUGH_ANSWERS = 10
"""Answers from which it is worth a warning that all are the same."""


def judge_notes(request: MetricRequest) -> Iterator[Note]:
    """Yield a note on each judge behind the rows that answers without reading.

    It gives the same answer to a question about every item (the criteria of a rubric, and the facts of cases, count
    together: of one of them that may well be right), or quotes the same words for most questions about an item.
    """
    counts: dict[tuple[Judge, str], dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    selection = replace(request.selection, pooled=False)
    by_forms = tuple(sorted(request.judges))
    for (form, question, judge), given in request.read(read_given, by_forms, selection).items():
        declared = forms().get(form)
        asked = declared.question(question) if declared else None
        if judge in request.judges[form] and (asked is None or asked.options):
            by_case = form.startswith(RUBRIC) or (declared is not None and declared.of_facts)
            counts[judge, form][form if by_case else question] += given
    for (judge, form), by_question in counts.items():
        for question, values in by_question.items():
            if len(values) == 1 and values.total() >= ENOUGH_ANSWERS:
                about = form if question == form else f"{form}, {question}"
                text = f"{_who(judge)} answers “{next(iter(values))}” to {about} in all of {values.total():,} answers."
                yield Note("judge", text, "high", "trust")
    for (form, judge), (share, answers) in request.read(read_same_words, by_forms, selection).items():
        if judge in request.judges[form] and share > 0.5 and answers >= ENOUGH_ANSWERS:
            text = (
                f"{_who(judge)} quotes the same words for {share:.0%} of its answers about an item to {form}: it may "
                "not have looked for each."
            )
            yield Note("judge", text, "high", "trust")


def _who(judge: Judge) -> str:
    return f"{judge.name} (prompts {judge.prompt_hash[:6]})"


_NARROWING = {
    "runs": "runs",
    "models": "models",
    "conditions": "conditions",
    "origins": "sources",
    "case_sets": "data sets",
    "datasets": "sources of cases",
    "specialties": "specialties",
    "asks_for": "questions for",
    "formats": "formats",
    "question_types": "question types",
}
"""Field of a selection → its name in the sentence on a filter that leaves nothing."""


class Empty(NamedTuple):
    """Why a metric has no rows, in a sentence, and whether that is because of the filters of the selection."""

    reason: str
    filtered: bool = False


def why_empty(
    metric: Metric, request: MetricRequest, options: Mapping[str, Any] | None = None, reason: str = ""
) -> Empty:
    """Return why a metric has no rows: the filters that leave no trial or without which it has rows, or its reason.

    ``reason`` is the error of the metric, by default its ``empty``.
    """
    unfiltered = Empty(reason or in_terminal(metric.empty, metric.starts))
    narrowed = {field: values for field in _NARROWING if (values := getattr(request.selection, field))}
    if not narrowed or not request.read(conditions):
        return unfiltered
    chosen = request.selection.conditions
    behind = read_basis(request.read, request.selection.of_conversations)
    trials = sum(extent.done for extent in behind.extents if chosen is None or extent.model in chosen)
    notes = [note for note in notes_of(behind) if note.kind == "without_case"]
    lacking = [note.text for note in notes if len(note.models) == len(behind.conditions)]
    unfiltered = unfiltered._replace(reason=" ".join([unfiltered.reason, *lacking]))
    if trials:
        runs = [run for condition in behind.conditions for run in condition.runs]
        of_conversations = not {"formats", "question_types"} & narrowed.keys() and len(runs) == len(set(runs))
        if of_conversations and trials == request.read(read_trials):  # the filters leave out nothing
            return unfiltered
        everything: dict[str, Any] = dict.fromkeys(narrowed)
        selection = replace(request.selection, **everything)
        whole = MetricRequest(request.store, selection, request.progress, query=request.query)
        try:
            if not any(True for _ in metric.rows(whole, **(options or {}))):
                return unfiltered
        except AnamnesisError:
            return unfiltered
    words = "; ".join(f"{_NARROWING[field]} {', '.join(map(str, values))}" for field, values in narrowed.items())
    return Empty(" ".join([f"The filter leaves nothing: {words}.", *lacking]), filtered=True)


def read_trials(store: Store) -> int:
    with store.read() as cursor:
        return count_trials(cursor)


def sample_notes(read: Callable[..., Any], selection: Selection) -> tuple[Note, ...]:
    """Return the note on figures of a sample of a selection; empty if the sample contains all trials.

    ``read`` calls a query of the store with its arguments, such as ``MetricRequest.read``.
    """
    if selection.sample is None:
        return ()
    size, trials = read(read_sample_size, replace(selection, pooled=False))  # pooling merges figures, not samples
    text = (
        f"Random sample: {size:,} of {trials:,} trials, at most {selection.sample:,} of each condition. Intervals are "
        "wider than those of all trials."
    )
    return (Note("sample", text, "high"),) if size < trials else ()


def read_sample_size(store: Store, selection: Selection) -> tuple[int, int]:
    """Return the number of trials in the sample of a selection, and in the whole selection."""
    with store.read() as cursor:
        return sample_size(cursor, selection)


class Detectable(NamedTuple):
    """The smallest true difference that a comparison detects with a power of 80 %, and the data that it depends on."""

    size: float
    n: int
    trials: CaseTrials | None

    @property
    def in_words(self) -> str:
        size = f"{self.size:.3f}" if self.size < 1 else f"{self.size:.3g}"
        return f"{size} (with {data_in_words(self.n, self.trials)})"


def data_in_words(cases: int, trials: CaseTrials | None) -> str:
    """Return the number of cases and, if they have trials, those of a case and the share of cases that flip."""
    words = f"{cases:,} cases"
    if trials is not None:
        words += f" × {trials.mean:.3g} trials"
        if not math.isnan(trials.flip_rate):
            words += f", {100 * trials.flip_rate:.0f} % of which flip"
    return words


def detectable_notes(rows: Iterable[Listed]) -> Iterator[Note]:
    """Yield a note on the smallest difference that the comparisons in rows can detect, if there are comparisons."""
    comparisons = [row.comparison for row in rows if isinstance(row, Row) and row.comparison is not None]
    sizes = [Detectable(size, c.n, c.trials) for c in comparisons if (size := c.detectable) is not None]
    yield from _detectable(sizes, "a comparison here")


def detectable_between(case_values: pd.DataFrame | None, extents: Sequence[Extent] = ()) -> Iterator[Note]:
    """Yield a note on the smallest difference between two conditions that the values of their shared cases can detect.

    ``case_values``: see ``MetricRequest``. Cases with different content in the ``extents`` of the two conditions are
    not shared; if a name is not that of a condition, nor are cases that changed between any conditions.
    """
    if case_values is None:
        return
    sizes: list[Detectable] = []
    by_name = {extent.model: extent for extent in extents}
    changed_anywhere = changed_keys(extents)
    figures, figure_names = pd.factorize(case_values["figure"])
    cases, keys = pd.factorize(case_values["case_key"], sort=True)
    models, names = pd.factorize(case_values["model"], sort=True)
    columns = [name for name in ("value", "trials", "flips") if name in case_values]
    numbers = {name: case_values[name].to_numpy(dtype=np.float64) for name in columns}
    for figure in range(len(figure_names)):
        rows = np.flatnonzero(figures == figure)
        present, column = np.unique(models[rows], return_inverse=True)
        by_case = {name: np.full((len(keys), present.size), np.nan) for name in columns}
        for name in columns:
            by_case[name][cases[rows], column] = numbers[name][rows]
        for pair in combinations(range(present.size), 2):
            first, second = by_case["value"][:, pair].T
            shared = np.isfinite(first) & np.isfinite(second)
            if changed_anywhere:
                sides = [by_name[name] for place in pair if (name := names[present[place]]) in by_name]
                changed = changed_keys(sides) if len(sides) == len(pair) else changed_anywhere
                shared &= ~keys.isin(list(changed))
            n = int(shared.sum())
            spread = float((second - first)[shared].std(ddof=1)) if n > 1 else 0.0
            if spread > _NOTHING_VARIES:
                trials = None
                if "flips" in by_case:
                    flips = by_case["flips"][:, pair][shared]
                    repeated = flips[np.isfinite(flips)]
                    flip_rate = float(repeated.mean()) if repeated.size else math.nan
                    trials = CaseTrials(float(by_case["trials"][:, pair][shared].mean()), flip_rate)
                sizes.append(Detectable(spread * detectable_effect(n), n, trials))
    yield from _detectable(sizes, "a comparison of two conditions here")


_NOTHING_VARIES = 1e-9


def _detectable(sizes: Collection[Detectable], what: str) -> Iterator[Note]:
    if sizes:
        least, most = min(sizes), max(sizes)
        largest = f" to {most.in_words}" if most.size > least.size else ""
        text = (
            f"Smallest true difference that {what} detects with a power of 80 %: {least.in_words}{largest}. "
            "Smaller differences may exist without being detected."
        )
        yield Note("detectable", text, page="accuracy")


def shown_in(rows: Iterable[object], conditions_: Collection[str]) -> tuple[set[str], set[Arm] | None]:
    """Return the conditions and the arms in the labels of rows; arms are ``None`` if a label has none.

    ``conditions_`` are names of conditions. The part of a label that names a condition depends on the metric, so all
    parts are searched.
    """
    names: set[str] = set()
    arms: set[Arm] = set()
    unknown = False
    for row in rows:
        label = row.label if isinstance(row, Row) else row
        if not isinstance(label, Mapping):
            continue
        names.update(value for value in label.values() if isinstance(value, str) and value in conditions_)
        formats = [label[key] for key in ("format", "first", "second") if label.get(key) in FORMATS]
        if formats and "question_type" in label:
            arms.update((format_, label["question_type"]) for format_ in formats)
        else:
            unknown = True
    return names, None if unknown or not arms else arms


def sentences(notes: Iterable[Note], severity: Severity | None = None) -> str:
    """Return the text of notes, of one severity or all, as one paragraph."""
    return " ".join(note.text for note in notes if severity in (None, note.severity))


def excluded_note(excluded: Mapping[str, Mapping[str, int]], name: NameOf = str) -> Note:
    """Return the note on excluded answers; ``excluded`` is condition → reason → number of answers."""
    words = [
        f"{name(model)}: " + ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in reasons.items())
        for model, reasons in excluded.items()
        if reasons
    ]
    return Note("excluded", f"Excluded, and not counted as wrong: {'; '.join(words) or 'nothing'}.", page="accuracy")
