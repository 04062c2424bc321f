"""Reasons why a reader should be careful with figures; all general notes are made here.

``read_basis`` reads the trials, cases and traits of the conditions of a selection; ``notes_of`` makes notes from them
for any of these conditions and any of their arms. Commands, pages, exports and pictures show the same notes. A metric
adds notes that only it can know (``MetricRequest.note``).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from core.errors import AnamnesisError, UsageError
from core.events import FORMATS, GRADED_TYPES, Format, QuestionType
from core.frameworks.base import WITHOUT_CONVERSATION, title_of
from core.frameworks.casting import is_model, is_rule
from core.frameworks.starts import in_terminal
from core.journal import IMPORTED
from core.judging.form import RUBRIC, forms
from core.judging.judgement import Judge
from core.judging.worth import Given, single_answers
from core.measures.base import CaseTrials, Listed, Metric, MetricRequest, NameOf, Note, Result, Row, Severity
from core.measures.extent import by_data_set, changed_keys, on_different_cases, read_extents, shared_keys
from core.stats.power import detectable_effect
from core.store.condition_parts import DOCTOR, ConditionPart
from core.store.conditions import Condition
from core.store.database import Store
from core.store.queries.cases import CaseTraits, case_traits
from core.store.queries.judgements import answers_given
from core.store.queries.run_cases import Extent, extents
from core.store.selection import Selection, conditions, sample_size
from core.text.profiles import WITHOUT_PROFILE
from core.words import ASKS_FOR

Arm = tuple[Format, QuestionType]
NEARLY_ALL = 0.95
"""If conditions share at least this part of their cases, the note on different cases has low severity."""
FEW_FAULTY = 0.01
"""If at most this part of the cases is faulty, no figure changes by more than that: the note has low severity."""
MOST_NAMES = 4
"""Maximum number of conditions, or cases, that a note names; it counts the others."""
_ROLES = {
    "patient": "patients",
    "staff": "staff",
    "summariser": "summarisers",
    "solver": "solvers",
    "grader": "graders",
}
"""Role → plural."""
_COMPARED: Mapping[ConditionPart, str] = {
    "doctor_prompt": "the doctor's prompt",
    "prompts": "prompts",
    "sampling": "sampling settings",
    "cap": "the cap on messages",
    "persona": "persona",
    "pictures": "pictures",
    "openings": "openings",
    "items": "the items of the history",
    "reader": "the choice reader's version",
    "version": "code version",
}
"""Parts of a condition other than its seats and cases, as a note names them."""


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
        sentence = why_empty(metric, request, options, str(error))
        if sentence == str(error):
            raise
        raise AnamnesisError(sentence) from error
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
    between = detectable_between(request.case_values, basis.extents) if rows and metric.compared else ()
    sizes = [*between, *detectable_notes(rows)]
    of_judges = judge_notes(request) if rows and request.judges else ()
    return Result(metric.title, rows, in_order([*sampled, *request.notes, *of_judges, *notes, *sizes]))


def read_given(
    store: Store, forms: tuple[str, ...], selection: Selection
) -> dict[tuple[str, str, Judge], Counter[Given]]:
    with store.read() as cursor:
        return answers_given(cursor, forms, selection)


def judge_notes(request: MetricRequest) -> Iterator[Note]:
    """Yield a note on each judge behind the rows that gives the same answer to a question about every item.

    The criteria of a rubric, and the facts of cases, count together: of one of them that may well be right.
    """
    counts: dict[tuple[Judge, str], dict[str, Counter[Given]]] = defaultdict(lambda: defaultdict(Counter))
    selection = replace(request.selection, pooled=False)
    for (form, question, judge), given in request.read(read_given, tuple(sorted(request.judges)), selection).items():
        declared = forms().get(form)
        asked = declared.question(question) if declared else None
        if judge in request.judges[form] and (asked is None or asked.options):
            by_case = form.startswith(RUBRIC) or (declared is not None and declared.of_facts)
            counts[judge, form][form if by_case else question] += given
    for (judge, form), by_question in counts.items():
        for question, answer, n in single_answers(by_question.items()):
            about = form if question == form else f"{form}, {question}"
            text = (
                f"{judge.name} (prompts {judge.prompt_hash[:6]}) answers “{answer}” to {about} in all of {n:,} answers."
            )
            yield Note("judge", text, "high", "judges")


_NARROWING = {
    "runs": "runs",
    "models": "models",
    "origins": "sources",
    "case_sets": "data sets",
    "datasets": "sources of cases",
    "specialties": "specialties",
    "asks_for": "questions for",
    "formats": "formats",
    "question_types": "question types",
}
"""Field of a selection → its name in the sentence on a filter that leaves nothing."""
_OF_ANSWERS = ("formats", "question_types")


def why_empty(
    metric: Metric, request: MetricRequest, options: Mapping[str, Any] | None = None, reason: str = ""
) -> str:
    """Return why a metric has no rows: the filters that leave no trial or without which it has rows, or its reason.

    ``reason`` is the error of the metric, by default its ``empty``.
    """
    narrowed = {field: values for field in _NARROWING if (values := getattr(request.selection, field))}
    if not narrowed or not request.read(conditions):
        return reason or in_terminal(metric.empty, metric.starts)
    if any(extent.cases for extent in request.read(read_extents, request.selection)):
        unfiltered: dict[str, Any] = dict.fromkeys(narrowed)
        selection = replace(request.selection, **unfiltered)
        whole = MetricRequest(request.store, selection, request.progress, query=request.query)
        try:
            has_rows = any(True for _ in metric.rows(whole, **(options or {})))
        except AnamnesisError:
            has_rows = False
        if not has_rows:
            return reason or in_terminal(metric.empty, metric.starts)
    words = "; ".join(f"{_NARROWING[field]} {', '.join(map(str, values))}" for field, values in narrowed.items())
    return f"The filter leaves nothing: {words}."


def leaves_nothing(selection: Selection, read: Callable[..., Any]) -> bool:
    """Return whether a selection leaves none of the stored trials, or chooses among their answers.

    ``read`` calls a query of the store with its arguments, such as ``MetricRequest.read``.
    """
    if not any(getattr(selection, field) for field in (*_NARROWING, "conditions")) or not read(conditions):
        return False
    if any(getattr(selection, field) for field in _OF_ANSWERS):
        return True
    return not any(extent.cases for extent in read(read_extents, selection))


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
    sizes: list[Detectable] = []
    by_name = {extent.model: extent for extent in extents}
    changed_anywhere = changed_keys(extents)
    for _, figure in case_values.groupby("figure", sort=False) if case_values is not None else ():
        if figure["model"].nunique() < 2:
            continue
        columns = [name for name in ("value", "trials", "flips") if name in figure]
        wide = figure.pivot(index="case_key", columns="model", values=columns)
        by_case = {name: wide[name].to_numpy(dtype=np.float64) for name in columns}
        names = wide["value"].columns
        for pair in combinations(range(figure["model"].nunique()), 2):
            first, second = by_case["value"][:, pair].T
            shared = np.isfinite(first) & np.isfinite(second)
            if changed_anywhere:
                sides = [by_name[name] for place in pair if (name := names[place]) in by_name]
                changed = changed_keys(sides) if len(sides) == len(pair) else changed_anywhere
                shared &= ~wide.index.isin(list(changed))
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
        yield Note("detectable", text, page="measures")


@dataclass(frozen=True)
class Basis:
    """The data behind the conditions of a selection.

    ``traits`` is case key → what the question of the case asks for, and whether the case is faulty. ``left_out`` are
    the extents with only the cases that the figures leave out, because they were used to write prompts.
    """

    conditions: Sequence[Condition]
    extents: Sequence[Extent]
    traits: Mapping[str, CaseTraits] = field(default_factory=dict)
    left_out: Sequence[Extent] = ()


def read_basis(read: Callable[..., Any], selection: Selection) -> Basis:
    """Read the conditions of a selection, with their planned and stored trials and their cases.

    ``read`` calls a query of the store with its arguments, such as ``MetricRequest.read``. Traits are read for whole
    data sets, so that a cache can answer for any part of a data set.
    """
    conditions_, stored = read(_read_conditions, replace(selection, sample=None))  # a sample has the same conditions
    data_sets = {extent.data_set for extent in stored if extent.cases}
    traits = read(_read_traits, tuple(sorted(data_sets)))
    left_out: list[Extent] = []
    marked = {key for key, case in traits.items() if case.development}
    if marked and selection.leaves_out_development:
        _, complete = read(_read_conditions, replace(selection, sample=None, development=True))
        left_out = [replace(extent, cases=extent.cases & marked) for extent in complete]
    return Basis(conditions_, stored, traits, left_out)


def _read_conditions(store: Store, selection: Selection) -> tuple[list[Condition], list[Extent]]:
    selected = conditions(store, selection)
    with store.read() as cursor:
        return selected, extents(cursor, selected, selection)


def _read_traits(store: Store, data_sets: tuple[str, ...]) -> Mapping[str, CaseTraits]:
    with store.read() as cursor:
        return case_traits(cursor, data_sets)


def notes_of(
    basis: Basis,
    selected: Collection[str] | None = None,
    arms: Collection[Arm] | None = None,
    *,
    compared: bool = True,
    published: bool = False,
    by_specialty: bool = False,
    name: NameOf = str,
    data_set_name: NameOf = str,
) -> tuple[Note, ...]:
    """Return the notes on conditions, the severe notes first.

    Args:
        basis: The result of ``read_basis``.
        selected: Names of conditions; all if ``None``.
        arms: The arms of the figures; seats that do nothing in these arms are not compared. All if ``None``.
        compared: Whether the conditions are compared with each other, so that other seats and settings matter. Other
            data sets and cases always matter: conditions on one axis are read against each other.
        published: Whether published figures are shown next to them.
        by_specialty: Whether the figures are split or filtered by the specialty of cases.
        name: Returns the display name of a condition.
        data_set_name: Returns the display name of a data set.
    """
    behind = [condition for condition in basis.conditions if selected is None or condition.name in selected]
    names = {condition.name for condition in behind}
    extents = [extent for extent in basis.extents if extent.model in names]
    notes = [
        *(_seats(behind, arms, name) if compared else ()),
        *_different_data_sets(extents, name, data_set_name),
        *_different_cases(extents, name, data_set_name),
        *_unfinished(extents, name),
        *_imported(behind, name),
        *_served(behind, name),
        *_graded_by_themselves(behind, arms, name),
        *_without_profile(extents, data_set_name),
        *_faulty_cases(extents, basis.traits, data_set_name),
        *_development(extents, [extent for extent in basis.left_out if extent.model in names], basis, data_set_name),
        *(_specialties_by_models(extents, basis.traits, data_set_name) if by_specialty else ()),
        *(_mixed_questions(behind, extents, basis.traits, data_set_name) if published else ()),
        *(_other_settings(behind) if compared else ()),
        *_partial_case_set_notes(extents, data_set_name),
        *_addresses(behind, name),
        *_repeats(behind, name),
        *_remarks(behind, name),
    ]
    return in_order(notes)


def in_order(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return the severe notes, those on different data sets and cases first, then the others, without duplicates."""
    unequal = ("data_sets", "cases")
    return tuple(sorted(dict.fromkeys(notes), key=lambda note: (note.severity != "high", note.kind not in unequal)))


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


def _seats(behind: Sequence[Condition], arms: Collection[Arm] | None, name: NameOf) -> Iterator[Note]:
    """Yield a note for each role whose seats differ between conditions on one data set under one framework."""
    for group in _comparable(behind):
        for role, plural in _ROLES.items():
            if not _has_part(role, arms):
                continue
            by_seat: dict[str, list[str]] = defaultdict(list)
            for condition in group:
                by_seat[condition.seats.get(role, "")].append(condition.name)
            by_seat.pop("", None)  # a condition whose arms do not use the seat
            if len(by_seat) > 1:
                parts = "; ".join(f"{seat} ({_names(models, name)})" for seat, models in by_seat.items())
                yield Note("seats", f"Different {plural}: {parts}.", "high", "compare", _all(by_seat.values()))


def _comparable(behind: Sequence[Condition]) -> list[list[Condition]]:
    """Return the conditions grouped by data set and framework; between groups, seats differ by design."""
    groups: dict[tuple[str, str], list[Condition]] = defaultdict(list)
    for condition in behind:
        groups[condition.newest.data_set, condition.newest.protocol].append(condition)
    return list(groups.values())


def _has_part(role: str, arms: Collection[Arm] | None) -> bool:
    """Return whether a seat can influence the answers in these arms."""
    if arms is None:
        return True
    if role == "grader":
        return any(question_type in GRADED_TYPES for _, question_type in arms)
    if role == "summariser":
        return any(format_ == "summarized" for format_, _ in arms)
    return any(format_ not in WITHOUT_CONVERSATION for format_, _ in arms)


def _different_cases(extents: Sequence[Extent], name: NameOf, data_set_name: NameOf) -> Iterator[Note]:
    for data_set, members in on_different_cases(extents).items():
        counts = ", ".join(f"{name(extent.model)} {_cases(extent)}" for extent in members[:MOST_NAMES])
        if len(members) > MOST_NAMES:
            counts += f" and {len(members) - MOST_NAMES} more"
        shared = len(shared_keys(members))
        words = f"{shared:,} case{'s are' if shared != 1 else ' is'} shared by all" if shared else "no case is shared"
        by_all = "" if shared or len(members) < 3 else " by all"
        few = shared < NEARLY_ALL * max(len(extent.cases) for extent in members)
        text = f"Different cases of {data_set_name(data_set)}: {counts}; {words}{by_all}."
        if changed := sorted(changed_keys(members)):
            text += (
                f" {len(changed):,} with one name differ in text, choices or answer, because the data set was imported "
                f"again, and are not compared: {_listed(changed)}."
            )
        yield Note("cases", text, "high" if few else "low", "compare", tuple(extent.model for extent in members))


def _different_data_sets(extents: Sequence[Extent], name: NameOf, data_set_name: NameOf) -> Iterator[Note]:
    """Yield a note if conditions that share no case are shown together, because they have different data sets."""
    sets = by_data_set(extents)
    if len(sets) > 1 and len({extent.model for members in sets.values() for extent in members}) > 1:
        parts = [
            f"{data_set_name(data_set)} ({_names([extent.model for extent in members], name)})"
            for data_set, members in sets.items()
        ]
        text = f"Different data sets: {'; '.join(parts)}. Their figures are on other cases and cannot be compared."
        yield Note("data_sets", text, "high", "compare", _all([e.model for e in members] for members in sets.values()))


def _unfinished(extents: Sequence[Extent], name: NameOf) -> Iterator[Note]:
    unfinished = [extent for extent in extents if extent.done < extent.planned]
    parts = [
        f"{name(extent.model)} {extent.done:,} of {extent.planned:,} planned trials"
        for extent in unfinished[:MOST_NAMES]
    ]
    if unfinished:
        more = f"; and {len(unfinished) - MOST_NAMES} more" if len(unfinished) > MOST_NAMES else ""
        models = tuple(extent.model for extent in unfinished)
        yield Note("unfinished", f"Unfinished: {'; '.join(parts)}{more}.", "high", "runs", models)


def _served(behind: Sequence[Condition], name: NameOf) -> Iterator[Note]:
    for condition in behind:
        for role, served in condition.served.items():
            if len(served) > 1:
                split = " (report --by served splits it)" if role == DOCTOR else ""
                text = f"{name(condition.name)}: several served models behind the {role}: {', '.join(served)}{split}."
                yield Note("served", text, "high", "monitoring", (condition.name,))


def _graded_by_themselves(behind: Sequence[Condition], arms: Collection[Arm] | None, name: NameOf) -> Iterator[Note]:
    if not _has_part("grader", arms):
        return
    for condition in behind:
        grader = condition.seats.get("grader", "").partition(" (prompts ")[0]
        answering = (condition.doctor, condition.seats.get("solver"))
        if is_model(grader) and not is_rule(grader) and grader in answering:
            text = f"{name(condition.name)}: {grader} grades its own answers."
            yield Note("self_graded", text, "high", "graders", (condition.name,))


def _without_profile(extents: Sequence[Extent], data_set_name: NameOf) -> Iterator[Note]:
    for data_set, members in by_data_set(extents).items():
        keys = frozenset.union(*(extent.cases for extent in members))
        without = frozenset.union(*(extent.without_profile for extent in members))
        if without:
            text = (
                f"Of the {len(keys):,} cases of {data_set_name(data_set)}, {len(without):,} were played without a "
                f"profile: {WITHOUT_PROFILE}."
            )
            models = tuple(extent.model for extent in members if extent.without_profile)
            yield Note("without_profile", text, "high", "data", models)


def _faulty_cases(extents: Sequence[Extent], traits: Mapping[str, CaseTraits], data_set_name: NameOf) -> Iterator[Note]:
    for data_set, members in by_data_set(extents).items():
        keys = frozenset.union(*(extent.cases for extent in members))
        stored = {key: traits[key] for key in sorted(keys) if key in traits}
        faulty = {
            "with the vignette of another": [key for key, case in stored.items() if case.duplicate],
            "whose answer is no choice": [key for key, case in stored.items() if case.answer_is_no_choice],
        }
        parts = [
            f"{len(fault_keys):,} {'case' if len(fault_keys) == 1 else 'cases'} {words} ({_listed(fault_keys)})"
            for words, fault_keys in faulty.items()
            if fault_keys
        ]
        if parts:
            many = len(set().union(*faulty.values())) > FEW_FAULTY * len(keys)
            text = f"Of the {len(keys):,} cases of {data_set_name(data_set)}: {' and '.join(parts)}."
            models = tuple(extent.model for extent in members)
            yield Note("faulty_cases", text, "high" if many else "low", "data", models)


def _development(
    extents: Sequence[Extent], left_out: Sequence[Extent], basis: Basis, data_set_name: NameOf
) -> Iterator[Note]:
    """Yield a note for each data set with played cases that were used to write prompts, left out or not."""
    for data_set, members in by_data_set(left_out).items():
        keys = sorted(frozenset.union(*(extent.cases for extent in members)))
        if keys:
            text = f"{data_set_name(data_set)}: {_counted(keys)} used to write prompts and left out ({_listed(keys)})."
            models = tuple(extent.model for extent in members if extent.cases)
            yield Note("development", text, page="data", models=models)
    for data_set, members in by_data_set(extents).items():
        keys = sorted(
            key
            for key in frozenset.union(*(extent.cases for extent in members))
            if key in basis.traits and basis.traits[key].development
        )
        if keys:
            text = (
                f"{data_set_name(data_set)}: {_counted(keys)} used to write prompts, and count here ({_listed(keys)})."
            )
            yield Note("development", text, "high", "data", tuple(extent.model for extent in members))


def _imported(behind: Sequence[Condition], name: NameOf) -> Iterator[Note]:
    imported = tuple(condition.name for condition in behind if condition.newest.source in IMPORTED)
    if imported:
        text = (
            f"From imported logs, which this program neither played nor checked: {_names(imported, name)}. A grader's "
            "verdicts are as the logs state them, unless the answers were graded again here."
        )
        yield Note("imported", text, "high", "runs", imported)


def _counted(keys: Sequence[str]) -> str:
    return f"{len(keys):,} {'case was' if len(keys) == 1 else 'cases were'}"


def _specialties_by_models(
    extents: Sequence[Extent], traits: Mapping[str, CaseTraits], data_set_name: NameOf
) -> Iterator[Note]:
    for data_set, members in by_data_set(extents).items():
        keys = frozenset.union(*(extent.cases for extent in members))
        makers = Counter(maker for key in keys if (case := traits.get(key)) and (maker := case.specialty_by))
        for maker, count in makers.items():
            text = (
                f"{data_set_name(data_set)}: the specialty of {count:,} of {len(keys):,} cases is by a model ({maker})."
            )
            yield Note("specialties", text, page="data", models=tuple(extent.model for extent in members))


def _listed(keys: Sequence[str]) -> str:
    listed = ", ".join(key.partition("/")[2] for key in keys[:MOST_NAMES])
    return f"{listed} and {len(keys) - MOST_NAMES} more" if len(keys) > MOST_NAMES else listed


def _mixed_questions(
    behind: Sequence[Condition], extents: Sequence[Extent], traits: Mapping[str, CaseTraits], data_set_name: NameOf
) -> Iterator[Note]:
    """Yield a note if the cases of local runs ask for different things; a release has the published cases."""
    released = {condition.name for condition in behind if condition.newest.source == "release"}
    for data_set, members in by_data_set([extent for extent in extents if extent.model not in released]).items():
        keys = frozenset.union(*(extent.cases for extent in members))
        kinds = Counter(kind for key in keys if (case := traits.get(key)) and (kind := case.asks_for))
        if len(kinds) > 1:
            counts = ", ".join(f"{count:,} {ASKS_FOR[kind].lower()}" for kind, count in kinds.most_common())
            text = (
                f"{data_set_name(data_set)}: the cases ask for different things ({counts}); the published figures "
                "are on other cases."
            )
            yield Note("question_kinds", text, "high", "data", tuple(extent.model for extent in members))


def _other_settings(behind: Sequence[Condition]) -> Iterator[Note]:
    for group in _comparable(behind):
        values = {part: {condition.parts.get(part, "") for condition in group} for part in _COMPARED}
        differ = [words for part, words in _COMPARED.items() if len(values[part]) > 1]
        if differ:
            under = f" under {title_of(group[0].newest.protocol)}" if len(_comparable(behind)) > 1 else ""
            text = f"The conditions{under} also differ in {', '.join(differ)}."
            yield Note("settings", text, page="compare", models=tuple(condition.name for condition in group))


def _partial_case_set_notes(extents: Sequence[Extent], data_set_name: NameOf) -> Iterator[Note]:
    for data_set, members in by_data_set(extents).items():
        same = len({extent.cases for extent in members}) == 1
        if same and len(members[0].cases) < max(extent.data_set_cases or 0 for extent in members):
            text = f"Cases: {_cases(members[0])} of {data_set_name(data_set)}."
            yield Note("part", text, models=tuple(extent.model for extent in members))


def _addresses(behind: Sequence[Condition], name: NameOf) -> Iterator[Note]:
    for condition in behind:
        for role, addresses in condition.addresses.items():
            if len(addresses) > 1:
                text = f"{name(condition.name)}: the {role} was reached at several addresses: {', '.join(addresses)}."
                yield Note("addresses", text, models=(condition.name,))


def _repeats(behind: Sequence[Condition], name: NameOf) -> Iterator[Note]:
    for condition in behind:
        if condition.repeats:
            text = (
                f"{name(condition.name)}: {condition.repeats:,} {'repeat' if condition.repeats == 1 else 'repeats'} of "
                "the same seed left out: if several runs played a case with one seed, the first finished trial counts."
            )
            yield Note("repeats", text, models=(condition.name,))


def _remarks(behind: Sequence[Condition], name: NameOf) -> Iterator[Note]:
    """Yield a note for each remark on seats played by rules, with all its conditions."""
    by_remark: dict[str, list[str]] = defaultdict(list)
    for condition in behind:
        for remark in condition.remarks:
            if not remark.endswith("grades itself"):  # ``_graded_by_themselves`` makes a note of it
                by_remark[remark].append(condition.name)
    for remark, models in by_remark.items():
        yield Note("rules", f"{_names(models, name)}: {remark}.", models=tuple(models))


def _names(models: Sequence[str], name: NameOf) -> str:
    listed = ", ".join(name(model) for model in models[:MOST_NAMES])
    return f"{listed} and {len(models) - MOST_NAMES} more" if len(models) > MOST_NAMES else listed


def _all(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(name for group in groups for name in group)


def _cases(extent: Extent) -> str:
    of = f" of {extent.data_set_cases:,}" if extent.data_set_cases else ""
    return f"{len(extent.cases):,}{of}"
