"""Accuracy of an arm: the mean over a case's counted trials, then over cases (Johri et al. 2025, Methods).

Nothing is dropped silently: every row has its numbers of cases and trials, and the excluded answers by reason. Scores
(one for each case in one arm of one model) are the input of every comparison and test. Published figures are rows with
a ``source``: they are shown next to computed figures and never pooled with them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from operator import attrgetter
from typing import Annotated, Any, Literal

import numpy as np

from core.agents.mcq import STRICT_VERSION
from core.datasets.published import (
    RELEASE_DATASETS,
    AccuracyFigure,
    PrintedFigures,
    accuracy_figures,
    figures_by_cell,
    inferred_single_diagnosis,
    printed_sets,
)
from core.errors import AnamnesisError, UsageError
from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.frameworks.base import released
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.measures.base import CASES_OF_RUNS, Columns, Counted, MetricRequest, NameOf, Note, Row, Side, metric
from core.measures.base import AccuracySplit as AccuracySplit
from core.measures.choice_rules import gaps_in_words, rule_gaps
from core.measures.comparison import DifferenceInterval, corrected
from core.measures.extent import on_shared_cases
from core.measures.notes import excluded_note
from core.measures.paired import BASELINE, Group, case_values, format_pairs, group_of_score, read_scores
from core.measures.periods import by_period
from core.measures.ranking import ranked
from core.models.registry import load_registry
from core.stats.bootstrap import bootstrap_interval, exact_interval, resampled_interval
from core.stats.corrections import Correction
from core.stats.intervals import Interval, t_interval
from core.stats.smoothed import mean_interval
from core.store.conditions import doctor_of
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.case_labels import FieldCoverage, single_diagnosis
from core.store.queries.grades import count_read_before
from core.store.selection import McqRule, Selection
from core.words import arm as arm_in_words

IntervalKind = Literal["smoothed", "bootstrap", "exact", "resampled", "normal"]


def accuracy(
    store: Store,
    by: Group | None = None,
    selection: Selection | None = None,
    *,
    interval: IntervalKind = "smoothed",
    mcq_rule: McqRule = "usual",
) -> list[Row]:
    """Return a row for each condition, arm and group, in the order of condition, format, question type and group.

    Estimates lie between 0 and 1; estimate and bounds are ``None`` if no case counts, and the normal theory has no
    interval for one case. ``excluded`` counts trials by verdict (``ungraded``: no grade yet), ``n_cases_excluded``
    cases without a counted trial. Of the ``n_trials`` counted trials, ``n_refused_in_words`` were refusals and
    ``n_blank`` blank. ``n_repeats`` trials are left out because their cases were played with the same seed before.

    ``interval``: ``smoothed`` (``core.stats.smoothed``) is valid near 0 and 1 too; ``bootstrap``, percentiles over
    resampled cases, is exact if possible, else random; ``exact`` raises an error instead, ``resampled`` is always
    random; ``normal`` is mean ± t · sd / √n. A case without a counted trial is left out. Levels are 95 %.
    """
    return accuracy_of(read_scores(store, selection, mcq_rule, by_served=by == "served"), by, interval=interval)


def accuracy_of(
    scores: Iterable[CaseScore], by: Group | None = None, *, interval: IntervalKind = "smoothed"
) -> list[Row]:
    """Return the rows of ``accuracy`` from scores; conditions in the order of the scores."""
    groups: dict[tuple[str, Format, QuestionType, str], list[CaseScore]] = {}
    for s in scores:
        group = group_of_score(s, by) or "" if by else ""
        groups.setdefault((s.model, s.format, s.question_type, group), []).append(s)
    place = {model: n for n, model in enumerate(dict.fromkeys(model for model, *_ in groups))}

    def order(key: tuple[str, Format, QuestionType, str]) -> tuple[int, int, int, str]:
        model, format_, question_type, group = key
        return place[model], FORMATS.index(format_), QUESTION_TYPES.index(question_type), group

    return [_accuracy_row(groups[key], by, interval) for key in sorted(groups, key=order)]


def interval_of(values: Sequence[float], kind: IntervalKind) -> Interval:
    """Return the 95 % interval of a mean over cases; raises ``UsageError`` if ``exact`` is not possible."""
    interval = _INTERVALS[kind](values)
    if interval is None:
        raise UsageError(
            "The exact bootstrap needs scores that are fractions of a few trials: use --interval bootstrap."
        )
    return interval


_INTERVALS: dict[IntervalKind, Callable[[Sequence[float]], Interval | None]] = {
    "smoothed": mean_interval,
    "bootstrap": bootstrap_interval,
    "exact": exact_interval,
    "resampled": resampled_interval,
    "normal": t_interval,
}


def _accuracy_row(scores: list[CaseScore], by: Group | None, kind: IntervalKind) -> Row:
    first = scores[0]
    values = [s.correct / s.counted for s in scores if s.counted]
    reasons: Counter[str] = Counter()
    for reason, n in chain.from_iterable(score.excluded.items() for score in scores if score.excluded):
        reasons[str(reason)] += n
    low, high = interval_of(values, kind)
    return Row(
        {
            "model": first.model,
            "format": first.format,
            "question_type": first.question_type,
            **({"group": group_of_score(first, by) or "?"} if by else {}),
            "rule": " + ".join(sorted({s.rule for s in scores if s.rule})),
        },
        float(np.mean(values)) if values else None,
        low,
        high,
        len(values),
        dict(sorted(reasons.items())),
        {
            "n_trials": sum(map(attrgetter("counted"), scores)),
            "n_refused_in_words": sum(map(attrgetter("refused_in_words"), scores)),
            "n_blank": sum(map(attrgetter("blank"), scores)),
            "n_excluded": reasons.total(),
            "n_cases_excluded": len(scores) - len(values),
            "n_repeats": sum(map(attrgetter("repeats"), scores)),
        },
        columns=_COLUMNS,
        by=by or "",
    )


_SCOPES: Mapping[AccuracySplit | None, tuple[str, ...]] = {
    None: ("overall", "monitoring", "multimodal"),
    "specialty": ("specialty",),
    "dermatology": ("dataset",),
    "single": ("dataset_single_dx",),
}
"""Scopes of published figures for each split of the cases; by data set, only for dermatology."""
_FEWER_CASES = ("gpt_4v", "gpt_4v_without_image")
"""Models whose published figures are on 74 cases with images, not on the 2,004: shown only if selected by name."""


def group_of(split: AccuracySplit | None) -> Group | None:
    return "dataset" if split in ("dermatology", "single") else split  # type: ignore[return-value]


def scores_of(
    scores: Iterable[CaseScore], split: AccuracySplit | None, single_diagnosis: Set[str] = frozenset()
) -> list[CaseScore]:
    """Return the scores of a split.

    ``dermatology``: only these cases. ``single``: only those whose key is in ``single_diagnosis``; of a data set with
    published figures only dermatology cases.
    """
    if split == "dermatology":
        return [score for score in scores if score.specialty == "Dermatology"]
    if split != "single":
        return list(scores)
    printed = printed_sets()
    return [
        score
        for score in scores
        if score.case_key in single_diagnosis
        and (score.specialty == "Dermatology" or score.case_key.partition("/")[0] not in printed)
    ]


def published_rows(case_set: str, split: AccuracySplit | None = None) -> list[Row]:
    """Return the published figures of a case set and a split, each once even if several tables print it."""
    rows = []
    for printed in figures_by_cell(case_set, _SCOPES.get(split, ())):
        figure = printed[0]
        # table 4 repeats the intervals of table 1 by mistake: an interval that does not contain its mean is not shown
        sound = figure.ci_low <= figure.mean <= figure.ci_high
        low, high = (figure.ci_low, figure.ci_high) if sound else (None, None)
        arm = {"model": figure.model, "format": figure.format, "question_type": figure.question_type}
        others = (f"; {other.source}, prints {other.mean:.3f}" for other in _differing(printed))
        rows.append(
            Row(
                {**arm, **({"group": _group_printed(figure)} if split else {}), "rule": ""},
                figure.mean,
                low,
                high,
                columns=_COLUMNS,
                by=split or "",
                source=f"supplementary {figure.source}{''.join(others)}",
            )
        )
    return rows


def printed_twice(rows: Iterable[Row], case_set: str, split: AccuracySplit | None = None, name: NameOf = str) -> str:
    """Return a sentence on published rows for which two tables print different numbers; empty if there are none."""
    places = {_row_key(row) for row in rows if row.source}
    words = []
    for printed in figures_by_cell(case_set, _SCOPES.get(split, ())):
        figure, differing = printed[0], _differing(printed)
        if differing and (figure.model, figure.format, figure.question_type, _group_printed(figure)) in places:
            numbers = ", ".join(f"{version.mean:.3f} in {version.source}" for version in (figure, *differing))
            words.append(f"{name(figure.model)}, {arm_in_words(figure.format, figure.question_type)}: {numbers}")
    return f"Printed with two numbers, the first of which is shown: {'; '.join(words)}." if words else ""


def _differing(printed: PrintedFigures) -> PrintedFigures:
    """Return the figures of other tables that differ from the first."""
    return tuple(figure for figure in printed[1:] if figure.mean != printed[0].mean)


def _group_printed(figure: AccuracyFigure) -> str | None:
    return figure.specialty_name or (RELEASE_DATASETS[figure.dataset] if figure.dataset else None)


def _row_key(row: Row) -> tuple[str, str, str, str | None]:
    return row.label["model"], row.label["format"], row.label["question_type"], row.label.get("group")


def published_label(model: str) -> str:
    """Return the publication's label of a model or of a condition's doctor, or its full name."""
    doctor = doctor_of(model)
    return _published_labels().get(doctor, doctor)


@cache
def _published_labels() -> dict[str, str]:
    printed = {figure.model for figure in accuracy_figures()}
    return {full: alias for alias, full in load_registry().aliases.items() if alias in printed}


def with_published(computed: Sequence[Row], published: Sequence[Row]) -> list[Row]:
    """Return the computed rows, then the published rows whose model and arm have no computed row."""
    covered = {(published_label(row.label["model"]), *_row_key(row)[1:]) for row in computed}
    return [*computed, *(row for row in published if _row_key(row) not in covered)]


_COLUMNS = Columns(excluded="excluded_by_reason")


@metric(
    "accuracy",
    *CASES_OF_RUNS,
    "formats",
    "questions",
    "pool",
    "asks_for",
    "mcq_rule",
    decimals=".6f",
    empty="There is nothing to report yet.",
    starts=(CAMPAIGN, RELEASE),
    page="accuracy",
)
def report(
    request: MetricRequest,
    by: Annotated[
        Literal[AccuracySplit, "period"] | None,
        "Split by specialty, dataset, or served: the model name that the provider reported. dermatology: these cases "
        "by data set. single: cases with one single most likely diagnosis by data set. period: cases from before and "
        "after the end of each model's training data (its cutoff).",
    ] = None,
    interval: Annotated[IntervalKind, "Interval of the mean."] = "smoothed",
    shared_cases: Annotated[bool, "Only cases that all conditions in the table have, arm by arm."] = False,
    whole: Annotated[bool, "With a split: also all cases together."] = False,
    versus_vignette: Annotated[bool, "Compare each format with the same model's vignettes, paired by case."] = False,
    published: Annotated[bool, "Add published figures that no condition here covers."] = False,
    correction: Annotated[Correction, "Correction of p over all comparisons in the table."] = "holm",
    rank: Annotated[
        bool,
        "Rank the conditions of each data set, framework and arm on their common cases, next to cost, messages, "
        "seconds and failures; with --shared-cases on the cases of all, even if one has only a few.",
    ] = False,
    cutoff: Annotated[str, "With --by period: this cutoff for all models, such as 2024-10."] = "",
) -> Iterator[Row]:
    """Mean over trials for each case, then over cases, with a 95 % interval and the excluded trials.

    A row is a condition: runs of one model that differ in patient, prompts, cap, grader, cases … are separate rows,
    named by the difference, the newest first.

    A rank is a range: conditions that the exact sign-flip test, paired by case and corrected by Holm over all pairs of
    the ranking, does not tell apart are tied. Costs are US dollars for the doctor's messages of a conversation.
    """
    if rank or by == "period":
        if versus_vignette or whole or published or (rank and by):
            raise UsageError("Omit --versus-vignette, --whole and --published with --rank and --by period.")
        if rank:
            yield from ranked(request, complete=shared_cases)
        else:
            scores = scores_behind(request, shared_cases=shared_cases)
            yield from by_period(request, scores, cutoff, partial(interval_of, kind=interval))
        return
    selection = request.selection
    formats = selection.formats
    if versus_vignette and formats is not None and BASELINE not in formats:
        selection = replace(selection, formats=(*formats, BASELINE))
    scores = scores_behind(replace(request, selection=selection), by, shared_cases=shared_cases)
    groups = [None, group_of(by)] if whole and by else [group_of(by)]
    rows = []
    for group in groups:
        computed = accuracy_of(scores, group, interval=interval)
        computed = [replace(row, counts=_counts(row, by, shared_cases=shared_cases)) for row in computed]
        rows += _with_comparisons(computed, scores, group, interval) if versus_vignette else computed
    if len(groups) > 1:
        rows = [replace(row, label=_in_groups(row.label), by=by or "") for row in rows]
    rows = [row for row in rows if formats is None or row.label["format"] in formats]
    if shared_cases and not rows and scores_behind(request, by):
        raise AnamnesisError("These conditions share no case: omit --shared-cases, or choose other --models.")
    any_kind = replace(selection, asks_for=None)
    if not rows and not published and selection.asks_for and accuracy(request.store, None, any_kind):
        raise AnamnesisError("No answered case asks for this: omit --asks-for, or choose another kind.")
    if published:
        rows = with_published([row for row in rows if row.estimate is not None], published_in(selection, formats, by))
        _note_published(request, rows, by)
    rows = corrected(rows, correction)
    request.case_values = case_values(scores if formats is None else [s for s in scores if s.format in formats])
    yield from (_printed(row) for row in rows) if versus_vignette else rows
    computed = [row for row in rows if not row.source]
    _note_rules(request, computed)
    request.notes += _notes_on_counts(computed, request.name)


def _counts(row: Row, by: AccuracySplit | None, *, shared_cases: bool) -> Counted | None:
    """Return what a row counts; ``None`` by served model, which splits the trials of one case."""
    if by == "served":
        return None
    group = row.label.get("group")
    side = Side(row.label["model"], (row.label["format"], row.label["question_type"]))
    return Counted((side,), by, "" if group == "?" else group, shared_cases)


def scores_behind(
    request: MetricRequest, split: AccuracySplit | None = None, *, shared_cases: bool = False
) -> list[CaseScore]:
    selection = request.selection
    scores = request.read(read_scores, selection, selection.mcq_rule, by_served=split == "served")
    if split == "single":
        scores = scores_of(scores, split, _of_single_diagnosis(request, scores))
    else:
        scores = scores_of(scores, split)
    return on_shared_cases(scores) if shared_cases else scores


def _of_single_diagnosis(request: MetricRequest, scores: Iterable[CaseScore]) -> frozenset[str]:
    """Return the keys of cases with one single most likely diagnosis, and note who said so.

    What the data set or a label states takes precedence over what is inferred from the publication.
    """
    stated = request.read(read_single_diagnosis)
    keys = {score.case_key for score in scores}
    name = released("accuracy").name
    inferred = {f"{name}/{case}": single for case, single in inferred_single_diagnosis().items()}
    single = {key: inferred.get(key) if (value := stated.single.get(key)) is None else value for key in keys}
    unknown = sum(value is None for value in single.values())
    sentences = [f"One single most likely diagnosis: {sum(map(bool, single.values())):,} of {len(keys):,} cases"]
    if unknown:
        sentences.append(f"for {unknown:,} it is not stated, and they are left out")
    by_labels = Counter(stated.made_by[key] for key in keys if key in stated.made_by)
    sentences += [f"{count:,} are labelled by {maker}" for maker, count in by_labels.most_common()]
    request.note(f"{'; '.join(sentences)}.", kind="single_diagnosis", page="cases")
    return frozenset(key for key, value in single.items() if value)


def read_single_diagnosis(store: Store) -> FieldCoverage:
    with store.read() as cursor:
        return single_diagnosis(cursor)


def _count_outdated(store: Store, selection: Selection) -> int:
    with store.read() as cursor:
        return count_read_before(cursor, STRICT_VERSION, selection)


def published_in(selection: Selection, formats: Collection[str] | None, split: AccuracySplit | None) -> list[Row]:
    """Return the published rows of a selection; none if the selection excludes some of their cases."""
    if selection.asks_for or selection.datasets or (selection.specialties and split != "specialty"):
        return []
    if not selection.has_published:
        return []
    case_sets = [name for name in printed_sets() if selection.case_sets is None or name in selection.case_sets]
    filters: dict[str, Collection[str] | None] = {
        "model": selection.models if selection.conditions is None else selection.conditions,
        "format": formats,
        "question_type": selection.question_types,
    }
    if split == "specialty":
        filters["group"] = selection.specialties
    return [
        row
        for name in case_sets
        for row in published_rows(name, split)
        if all(chosen is None or row.label[part] in chosen for part, chosen in filters.items())
        and (filters["model"] is not None or row.label["model"] not in _FEWER_CASES)
    ]


def _note_published(request: MetricRequest, rows: Sequence[Row], split: AccuracySplit | None) -> None:
    """Note the source of published rows, and known errors and differences of the tables."""
    tables = {int(match[1]) for row in rows if (match := re.search(r"table (\d+)", row.source))}
    if not tables:
        return
    listed = f"table{'s' * (len(tables) > 1)} {', '.join(map(str, sorted(tables)))}"
    sentences = [f"Published figures: Johri et al. 2025, supplementary {listed}."]
    sentences += [words for table, words in _ABOUT_TABLES.items() if table in tables]
    sentences += [printed_twice(rows, name, split, request.name) for name in printed_sets()]
    request.note(" ".join(filter(None, sentences)), kind="published", page="accuracy")


_ABOUT_TABLES = {
    4: "Table 4 repeats table 1's intervals by mistake, so its figures have no interval.",
    22: "Table 22's free responses come from an unnamed part of the cases.",
    19: "GPT-4V was tested on 74 cases with images, not the 2,004.",
    1: "The GPT models had an older doctor's prompt and no maximum of messages; the open models had one.",
}


def _in_groups(label: Mapping[str, Any]) -> dict[str, Any]:
    """Return a label with a group; a label without one gets ``All cases``."""
    *arm, rule = label.items()
    return dict([*arm, *([] if "group" in label else [("group", _ALL_CASES)]), rule])


_ALL_CASES = "All cases"


def _with_comparisons(
    rows: Sequence[Row], scores: Iterable[CaseScore], group: Group | None, interval: IntervalKind
) -> list[Row]:
    kind: DifferenceInterval = interval if interval in ("smoothed", "normal") else "bootstrap"
    compared = {
        (*place[:3], place[3] or ("?" if group else None)): comparison
        for place, comparison in format_pairs(scores, group, kind).items()
    }
    return [replace(row, comparison=compared.get(_row_key(row))) for row in rows]


def _printed(row: Row) -> Row:
    comparison = row.comparison
    columns = {
        "difference": comparison and comparison.difference,
        "difference_low": comparison and comparison.low,
        "difference_high": comparison and comparison.high,
        "p": comparison and comparison.p,
        "p_adjusted": comparison and comparison.adjusted_p,
        "n_pairs": comparison and comparison.n,
    }
    return replace(row, more={**row.more, **columns})


def _note_rules(request: MetricRequest, rows: Sequence[Row]) -> None:
    """Note large gaps between the rules for choices, and answers that an earlier version of a rule read."""
    selection = request.selection
    if any(row.label["question_type"].startswith("mcq") for row in rows):
        places = {_row_key(row)[:3] for row in rows}
        gaps = [
            gap
            for gap in request.read(rule_gaps, replace(selection, mcq_rule="usual"))
            if (gap.model, gap.format, gap.question_type) in places
        ]
        for sentence in gaps_in_words(gaps, request.name):
            request.note(sentence, "high", kind="choice_rules", page="accuracy")
    by_strict = any("mcq_strict" in row.label["rule"] for row in rows)
    if by_strict and (outdated := request.read(_count_outdated, selection.of_conversations)):
        request.note(
            f"{outdated:,} answers with choices were read by an earlier version of the strict rule: "
            "`python -m core job regrade --grader rules` reads them again, at no cost.",
            kind="rule_version",
        )


def _notes_on_counts(rows: Sequence[Row], name: NameOf) -> Iterator[Note]:
    """Yield a note on what is excluded, and one for each kind of answer that counts as not correct."""
    by_model: dict[str, list[Row]] = {}
    for row in rows:
        by_model.setdefault(row.label["model"], []).append(row)
    if not by_model:
        return
    excluded = {model: sum((Counter(row.excluded) for row in group), Counter()) for model, group in by_model.items()}
    yield excluded_note(excluded, name)
    for column, kind in _COUNTED_AS_WRONG.items():
        words = [
            f"{name(model)} {n:,} of {sum(row.more['n_trials'] for row in group):,} answers"
            for model, group in by_model.items()
            if (n := sum(row.more[column] for row in group))
        ]
        if words:
            yield Note(
                "counted_as_wrong", f"{kind}: {'; '.join(words)}. `report endings` shows the accuracy without these."
            )


_COUNTED_AS_WRONG = {
    "n_refused_in_words": "Refused in words, and counted as not correct as in the papers",
    "n_blank": "Blank, and counted as not correct",
}
