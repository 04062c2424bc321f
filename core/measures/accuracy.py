"""Accuracy of an arm: the mean over a case's counted trials, then over cases (Johri et al. 2025, Methods).

Nothing is dropped silently: every row carries its numbers of cases and trials, and what it excluded and why. Scores,
one row for each case in one arm of one model, are what every comparison and test is made of. Published figures are rows
with a ``source``: they stand next to computed ones and are never mixed into one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache
from itertools import chain, product
from typing import Annotated, Any, Literal

import numpy as np

from core.agents.mcq import STRICT_VERSION
from core.datasets.published import (
    RELEASE_DATASETS,
    AccuracyFigure,
    LeaderboardRow,
    Printed,
    accuracy_figures,
    figures_by_cell,
    inferred_single_diagnosis,
    leaderboard,
    printed_sets,
)
from core.errors import AnamnesisError, UsageError
from core.events import FORMATS, QUESTION_TYPES, Format
from core.frameworks.base import released
from core.measures.base import MEAN, Asked, Columns, NameOf, Note, Row, metric
from core.measures.choice_rules import gaps_in_words, rule_gaps
from core.measures.comparison import DifferenceInterval, corrected
from core.measures.extent import on_shared_cases
from core.measures.notes import excluded_note
from core.measures.paired import BASELINE, Group, format_pairs, group_of_score, read_scores
from core.models.registry import load_registry
from core.stats.bootstrap import bootstrap_interval, exact_interval, resampled_interval
from core.stats.corrections import Correction
from core.stats.intervals import Interval, t_interval
from core.stats.smoothed import mean_interval
from core.store.conditions import doctor_of
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.cases import single_diagnosis_keys
from core.store.queries.grades import count_read_before
from core.store.selection import McqRule, Selection
from core.words import arm as arm_in_words

Split = Literal["specialty", "dataset", "served", "dermatology", "single"]
"""A group, or dermatology's cases alone by data set, all of them or those with one single diagnosis."""
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

    Estimates lie between 0 and 1; estimate and bounds are ``None`` where no case counts, and the normal theory gives
    one case no interval. ``excluded`` counts trials by verdict (``ungraded``: no grade yet), ``n_cases_excluded`` cases
    without a counted trial. Of the ``n_trials`` counted ones, ``n_refused_in_words`` were refusals and ``n_blank`` were
    blank. ``n_repeats`` trials were left out because their cases were played with the same seed before.

    ``interval``: ``smoothed`` (``core.stats.smoothed``) holds near 0 and 1 as well; ``bootstrap``, percentiles over
    resampled cases, is exact if it can be, else by random numbers; ``exact`` refuses these, ``resampled`` always
    takes them; ``normal`` is mean ± t · sd / √n. A case without a counted trial is left out. Levels are 95 %.
    """
    return accuracy_of(read_scores(store, selection, mcq_rule, by_served=by == "served"), by, interval=interval)


def accuracy_of(
    scores: Iterable[CaseScore], by: Group | None = None, *, interval: IntervalKind = "smoothed"
) -> list[Row]:
    """Return the rows of ``accuracy`` from scores that were read already; conditions in the order of the scores."""
    place: dict[str, int] = {}
    groups: dict[tuple[int, int, int, str], list[CaseScore]] = {}
    arms = {arm: (FORMATS.index(arm[0]), QUESTION_TYPES.index(arm[1])) for arm in product(FORMATS, QUESTION_TYPES)}
    for s in scores:
        key = (place.setdefault(s.model, len(place)), *arms[s.format, s.question_type], group_of_score(s, by) or "")
        groups.setdefault(key, []).append(s)
    return [_row(groups[key], by, interval) for key in sorted(groups)]


def interval_of(values: Sequence[float], kind: IntervalKind) -> Interval:
    """Return the 95 % interval of a mean over cases; raises ``UsageError`` where ``exact`` is not possible."""
    found = _INTERVALS[kind](values)
    if found is None:
        raise UsageError(
            "The exact bootstrap needs scores that are fractions of a few trials: use --interval bootstrap."
        )
    return found


_INTERVALS: dict[IntervalKind, Callable[[Sequence[float]], Interval | None]] = {
    "smoothed": mean_interval,
    "bootstrap": bootstrap_interval,
    "exact": exact_interval,
    "resampled": resampled_interval,
    "normal": t_interval,
}


def _row(scores: list[CaseScore], by: Group | None, kind: IntervalKind) -> Row:
    first = scores[0]
    values = [s.score for s in scores if s.score is not None]
    reasons: Counter[str] = Counter()
    for reason, n in chain.from_iterable(score.excluded.items() for score in scores):
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
            "n_trials": sum(s.counted for s in scores),
            "n_refused_in_words": sum(s.refused_in_words for s in scores),
            "n_blank": sum(s.blank for s in scores),
            "n_excluded": reasons.total(),
            "n_cases_excluded": len(scores) - len(values),
            "n_repeats": sum(s.repeats for s in scores),
        },
        columns=_COLUMNS,
        by=by or "",
    )


_SCOPES: Mapping[Split | None, tuple[str, ...]] = {
    None: ("overall", "monitoring", "multimodal"),
    "specialty": ("specialty",),
    "dermatology": ("dataset",),
    "single": ("dataset_single_dx",),
}
"""What is published for each way of splitting the cases; by data set, only for dermatology."""
_LESS_CASES = ("gpt_4v", "gpt_4v_without_image")
"""Published on 74 cases with images, not on the 2,004: shown if they are named."""


def group_of(split: Split | None) -> Group | None:
    """Return by what a split groups the scores it leaves."""
    return "dataset" if split in ("dermatology", "single") else split  # type: ignore[return-value]


def scores_of(
    scores: Iterable[CaseScore], split: Split | None, single_diagnosis: Set[str] = frozenset()
) -> list[CaseScore]:
    """Return the scores that a split is about.

    ``dermatology``: its cases only. ``single``: those of them with one single most likely diagnosis, by key.
    """
    if split not in ("dermatology", "single"):
        return list(scores)
    of_skin = [score for score in scores if score.specialty == "Dermatology"]
    return [s for s in of_skin if s.case_key in single_diagnosis] if split == "single" else of_skin


def published_rows(case_set: str, split: Split | None = None) -> list[Row]:
    """Return what is published of a case set and a split, a figure once, whichever tables print it."""
    rows = []
    for printed in figures_by_cell(case_set, _SCOPES.get(split, ())):
        figure = printed[0]
        # the intervals of table 4 are those of table 1 by mistake: an interval without its own mean is not shown
        sound = figure.ci_low <= figure.mean <= figure.ci_high
        low, high = (figure.ci_low, figure.ci_high) if sound else (None, None)
        arm = {"model": figure.model, "format": figure.format, "question_type": figure.question_type}
        others = (f"; {one.source}, prints {one.mean:.3f}" for one in _differing(printed))
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


def printed_twice(rows: Iterable[Row], case_set: str, split: Split | None = None, name: NameOf = str) -> str:
    """Return a sentence on the published rows of which two tables print different numbers; empty if there is none."""
    shown = {_place(row) for row in rows if row.source}
    words = []
    for printed in figures_by_cell(case_set, _SCOPES.get(split, ())):
        figure, differing = printed[0], _differing(printed)
        if differing and (figure.model, figure.format, figure.question_type, _group_printed(figure)) in shown:
            numbers = ", ".join(f"{one.mean:.3f} in {one.source}" for one in (figure, *differing))
            words.append(f"{name(figure.model)}, {arm_in_words(figure.format, figure.question_type)}: {numbers}")
    return f"Printed with two numbers, the first of which is shown: {'; '.join(words)}." if words else ""


def _differing(printed: Printed) -> Printed:
    """Return what other tables print of the same figure, if it is another number."""
    return tuple(one for one in printed[1:] if one.mean != printed[0].mean)


def _group_printed(figure: AccuracyFigure) -> str | None:
    return figure.specialty_name or (RELEASE_DATASETS[figure.dataset] if figure.dataset else None)


def _place(row: Row) -> tuple[str, str, str, str | None]:
    return row.label["model"], row.label["format"], row.label["question_type"], row.label.get("group")


def published_label(model: str) -> str:
    """Return the publication's label of a model or of a condition's doctor, or its full name."""
    doctor = doctor_of(model)
    return _published_labels().get(doctor, doctor)


@cache
def _published_labels() -> dict[str, str]:
    printed = {figure.model for figure in accuracy_figures()}
    return {full: alias for alias, full in load_registry().aliases.items() if alias in printed}


def with_published(own: Sequence[Row], published: Sequence[Row]) -> list[Row]:
    """Return the computed rows, then the published ones of arms that no model of that label covers."""
    covered = {(published_label(row.label["model"]), *_place(row)[1:]) for row in own}
    return [*own, *(row for row in published if _place(row) not in covered)]


_COLUMNS = Columns(excluded="excluded_by_reason")


@metric(
    "accuracy",
    "run",
    "models",
    "cases",
    "formats",
    "questions",
    "datasets",
    "specialties",
    "pool",
    "asks_for",
    "mcq_rule",
    decimals=".6f",
    empty="There is nothing to report yet: start with `python -m core run --doctor reference/bayes`.",
    page="accuracy",
)
def report(
    asked: Asked,
    by: Annotated[
        Split | None,
        "Split by specialty, dataset, or served: the name by which the provider called the model. dermatology and "
        "single: its cases by data set, all or those with one single diagnosis.",
    ] = None,
    interval: Annotated[IntervalKind, "Interval of the mean."] = "smoothed",
    shared_cases: Annotated[bool, "Only cases that all conditions in the table were asked, arm by arm."] = False,
    whole: Annotated[bool, "With a split: all cases together, too."] = False,
    versus_vignette: Annotated[bool, "Compare each format with the same model's vignettes, paired by case."] = False,
    published: Annotated[bool, "Add published figures of what no condition here covers."] = False,
    correction: Annotated[Correction, "Correction of p over all comparisons in the table."] = "holm",
) -> Iterator[Row]:
    """Mean over trials for each case, then over cases, with a 95 % interval, and what was excluded.

    A row is a condition: runs of one model that differ in patient, prompts, cap, grader, cases … are rows apart, named
    by what differs, the newest first.
    """
    wanted = asked.selection
    formats = wanted.formats
    if versus_vignette and formats is not None and BASELINE not in formats:
        wanted = replace(wanted, formats=(*formats, BASELINE))
    scores = scores_behind(replace(asked, selection=wanted), by, shared_cases=shared_cases)
    groups = [None, group_of(by)] if whole and by else [group_of(by)]
    rows = []
    for group in groups:
        found = accuracy_of(scores, group, interval=interval)
        rows += _with_comparisons(found, scores, group, interval) if versus_vignette else found
    if len(groups) > 1:
        rows = [replace(row, label=_in_groups(row.label), by=by or "") for row in rows]
    rows = [row for row in rows if formats is None or row.label["format"] in formats]
    if shared_cases and not rows and scores_behind(asked, by):
        raise AnamnesisError("No case was asked of all these conditions: leave --shared-cases out, or name --models.")
    if not rows and not published and wanted.asks_for and accuracy(asked.store, None, replace(wanted, asks_for=None)):
        raise AnamnesisError("No answered case asks for this: leave --asks-for out, or choose another kind.")
    if published:
        rows = with_published([row for row in rows if row.estimate is not None], _published(wanted, formats, by))
        _note_published(asked, rows, by)
    rows = corrected(rows, correction)
    yield from (_printed(row) for row in rows) if versus_vignette else rows
    own = [row for row in rows if not row.source]
    _note_rules(asked, own)
    asked.notes += _notes_on_counts(own, asked.name)


def scores_behind(asked: Asked, split: Split | None = None, *, shared_cases: bool = False) -> list[CaseScore]:
    """Return the scores that the rows of ``report`` are means of."""
    selection = asked.selection
    scores = asked.read(read_scores, selection, selection.mcq_rule, by_served=split == "served")
    scores = scores_of(scores, split, _single_diagnosis(asked) if split == "single" else frozenset())
    return on_shared_cases(scores) if shared_cases else scores


def _single_diagnosis(asked: Asked) -> frozenset[str]:
    """Return the keys of cases with one single most likely diagnosis, as stored or as the publication's figures say."""
    inferred = {f"{released('accuracy').name}/{case}" for case, single in inferred_single_diagnosis().items() if single}
    return asked.read(_single_diagnosis_stored) | inferred


def _single_diagnosis_stored(store: Store) -> frozenset[str]:
    with store.read() as cursor:
        return frozenset(single_diagnosis_keys(cursor))


def _count_outdated(store: Store, selection: Selection) -> int:
    with store.read() as cursor:
        return count_read_before(cursor, STRICT_VERSION, selection)


def _published(wanted: Selection, formats: Collection[str] | None, split: Split | None) -> list[Row]:
    """Return the published rows of a selection; none if it leaves cases out that they are on."""
    if wanted.asks_for or wanted.datasets or (wanted.specialties and split != "specialty"):
        return []
    sets = [name for name in printed_sets() if wanted.case_sets is None or name in wanted.case_sets]
    filters: dict[str, Collection[str] | None] = {
        "model": wanted.models if wanted.conditions is None else wanted.conditions,
        "format": formats,
        "question_type": wanted.question_types,
    }
    if split == "specialty":
        filters["group"] = wanted.specialties
    return [
        row
        for name in sets
        for row in published_rows(name, split)
        if all(chosen is None or row.label[part] in chosen for part, chosen in filters.items())
        and (filters["model"] is not None or row.label["model"] not in _LESS_CASES)
    ]


def _note_published(asked: Asked, rows: Sequence[Row], split: Split | None) -> None:
    """Note where published rows are from, and what is special about them."""
    tables = {int(found[1]) for row in rows if (found := re.search(r"table (\d+)", row.source))}
    if not tables:
        return
    listed = f"table{'s' * (len(tables) > 1)} {', '.join(map(str, sorted(tables)))}"
    sentences = [f"Published figures: Johri et al. 2025, supplementary {listed}."]
    sentences += [words for table, words in _ABOUT_TABLES.items() if table in tables]
    sentences += [printed_twice(rows, name, split, asked.name) for name in printed_sets()]
    asked.note(" ".join(filter(None, sentences)), kind="published", page="reproduce")


_ABOUT_TABLES = {
    4: "Table 4 repeats table 1's intervals by mistake, so its figures have none.",
    22: "Table 22's free responses come from an unnamed part of the cases.",
    19: "GPT-4V was asked 74 cases with images, not the 2,004.",
    1: "The GPT models had an older doctor's prompt and no cap of messages; the open ones had a cap.",
}


def _in_groups(label: Mapping[str, Any]) -> dict[str, Any]:
    """Return a label with a group: all cases, where it has none."""
    *arm, rule = label.items()
    return dict([*arm, *([] if "group" in label else [("group", _WHOLE)]), rule])


_WHOLE = "All cases"


def _with_comparisons(
    rows: Sequence[Row], scores: Iterable[CaseScore], group: Group | None, interval: IntervalKind
) -> list[Row]:
    kind: DifferenceInterval = interval if interval in ("smoothed", "normal") else "bootstrap"
    compared = {
        (*place[:3], place[3] or ("?" if group else None)): comparison
        for place, comparison in format_pairs(scores, group, kind).items()
    }
    return [replace(row, comparison=compared.get(_place(row))) for row in rows]


def _printed(row: Row) -> Row:
    """Return a row with its comparison among the columns."""
    against = row.comparison
    shown = {
        "difference": against and against.difference,
        "difference_low": against and against.low,
        "difference_high": against and against.high,
        "p": against and against.p,
        "p_adjusted": against and against.adjusted_p,
        "n_pairs": against and against.n,
    }
    return replace(row, more={**row.more, **shown})


def _note_rules(asked: Asked, rows: Sequence[Row]) -> None:
    """Note where rules for choices are far apart, and which answers an earlier version of a rule read."""
    wanted = asked.selection
    if any(row.label["question_type"].startswith("mcq") for row in rows):
        shown = {_place(row)[:3] for row in rows}
        gaps = [
            g
            for g in asked.read(rule_gaps, replace(wanted, mcq_rule="usual"))
            if (g.model, g.format, g.question_type) in shown
        ]
        for sentence in gaps_in_words(gaps, asked.name):
            asked.note(sentence, "high", kind="choice_rules", page="accuracy")
    by_strict = any("mcq_strict" in row.label["rule"] for row in rows)
    if by_strict and (outdated := asked.read(_count_outdated, wanted.of_conversations)):
        asked.note(
            f"{outdated:,} answers with choices were read by an earlier version of the strict rule: "
            "`python -m core job reread` reads them again, at no cost.",
            kind="rule_version",
        )


def _notes_on_counts(rows: Sequence[Row], name: NameOf) -> Iterator[Note]:
    """Yield a note on what is excluded, and one for each kind of answer that counts as not correct."""
    by_model: dict[str, list[Row]] = {}
    for row in rows:
        by_model.setdefault(row.label["model"], []).append(row)
    if not by_model:
        return
    yield excluded_note(
        {model: sum((Counter(row.excluded) for row in of), Counter()) for model, of in by_model.items()}, name
    )
    for column, kind in _COUNTED_AS_WRONG.items():
        words = [
            f"{name(model)} {n:,} of {sum(row.more['n_trials'] for row in of):,} answers"
            for model, of in by_model.items()
            if (n := sum(row.more[column] for row in of))
        ]
        if words:
            yield Note("counted_as_wrong", f"{kind}: {'; '.join(words)}. `report endings` has the accuracy without.")


_COUNTED_AS_WRONG = {
    "n_refused_in_words": "Refused in words, and counted as not correct as in the papers",
    "n_blank": "Blank, and counted as not correct",
}


@metric(
    "leaderboard",
    "models",
    "cases",
    "mcq_rule",
    decimals=".6f",
    empty="No leaderboard is published.",
    compared=False,
    page="accuracy",
)
def report_leaderboard(
    asked: Asked, interval: Annotated[IntervalKind, "Interval of the mean of what was tested here."] = "smoothed"
) -> Iterator[Row]:
    """Show the authors' public leaderboard of 2 January 2025 (2,004 cases, no intervals) and the models tested here."""
    wanted = replace(asked.selection, formats=LEADERBOARD_FORMATS)
    scores = asked.read(read_scores, wanted, wanted.mcq_rule)
    for row in accuracy_of(scores, interval=interval):
        label = {part: row.label[part] for part in ("model", "format", "question_type")}
        if row.estimate is not None:
            yield replace(row, label=label, more=_ranked(None), columns=MEAN)
    if scores and (asked.selection.asks_for or not set(asked.selection.case_sets or ()) & set(printed_sets())):
        asked.note("What was tested here is on other cases than the leaderboard's.", "high", kind="cases", page="data")
    for entry in leaderboard():
        for format_, mean in entry.means.items():
            label = {"model": entry.model, "format": format_, "question_type": entry.question_type}
            yield Row(label, mean, n=_LEADERBOARD_CASES, more=_ranked(entry), source="public leaderboard")


def _ranked(entry: LeaderboardRow | None) -> dict[str, Any]:
    return {name: entry and getattr(entry, name) for name in ("rank", "organisation", "year")}


LEADERBOARD_FORMATS: tuple[Format, ...] = ("vignette", "multi_turn", "single_turn", "summarized")
_LEADERBOARD_CASES = 2004
