"""What the Graders page shows: read once for each state of the database, computed once for each choice."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import streamlit as st

from core.measures.graders.accuracy import CorrectedAccuracy, JudgeAccuracy, accuracy_by_judge, corrected_by_judge
from core.measures.graders.agreement import (
    NOT_JUDGED,
    FlipRate,
    GraderAgreement,
    Judged,
    common_agreement,
    cross_table,
    flip_rates,
    pair_agreements,
    read_graders,
    read_judged,
)
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.graders import (
    Difference,
    Direction,
    GraderHeld,
    Wanted,
    count_differences,
    difference_at,
    differences,
)
from core.store.selection import Selection

PAGE = 50
"""Differences on one page of the list."""


@dataclass(frozen=True)
class View:
    """Which answers are looked at, and by which graders; ``names`` are the graders' as the page shows them."""

    case_set: str
    graders: tuple[str, ...]
    models: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    question_types: tuple[str, ...] = ()
    names: dict[str, str] = field(default_factory=dict, compare=False, hash=False)

    @property
    def key(self) -> tuple[object, ...]:
        """Return what tells one view from another."""
        return self.case_set, self.graders, self.models, self.formats, self.question_types

    def wanted(self, pair: tuple[str, str] | None, directions: Sequence[Direction]) -> Wanted:
        """Return which differences these are."""
        selection = Selection(
            case_sets=(self.case_set,), models=self.models or None, formats=self.formats or None,  # type: ignore[arg-type]
            question_types=self.question_types or None,  # type: ignore[arg-type]
        )  # fmt: skip
        return Wanted(pair, selection, tuple(directions))


def graders() -> list[GraderHeld]:
    """Return who has judged free responses of campaigns and releases."""
    fold_if_free(Store())
    return _graders(*_key())


@dataclass(frozen=True)
class Offer:
    """What there is of one case set: who judged, whose answers, in which arms."""

    graders: frozenset[str]
    models: tuple[str, ...]
    formats: frozenset[str]
    question_types: frozenset[str]


def answers_by_set() -> dict[str, int]:
    """Return case set → how many free responses it has, the one with most first."""
    return _answers_by_set(*_key())


def offer(case_set: str) -> Offer:
    """Return what there is to choose from in a case set."""
    return _offer(*_key(), case_set)


def judged(view: View) -> Judged:
    """Return the verdicts that a view is about."""
    return _judged(*_key(), view.key)


def agreements(view: View) -> tuple[list[GraderAgreement], list[GraderAgreement]]:
    """Return how far every two graders agree, and all of them together."""
    return _agreements(*_key(), view.key)


def crossed(view: View, first: str, second: str) -> list[list[int]]:
    """Return the first grader's verdicts against the second's, as numbers of answers."""
    return [[int(n) for n in row] for row in cross_table(judged(view), first, second)]


def accuracies(view: View, panel: tuple[str, ...], *, common: bool) -> list[JudgeAccuracy]:
    """Return accuracy by each grader of a view, and by the panel."""
    return _accuracies(*_key(), view.key, panel, common)


def corrections(graders_: tuple[str, ...], panel: tuple[str, ...]) -> list[CorrectedAccuracy]:
    """Return the accuracies that experts' judgements allow to correct."""
    return _corrections(*_key(), graders_, panel)


def rates() -> list[FlipRate]:
    """Return how often each grader contradicted itself."""
    return _rates(*_key())


def number_of(wanted: Wanted) -> dict[Direction, int]:
    """Return how many differences there are in each direction."""
    return _number_of(*_key(), wanted)


def page_of(wanted: Wanted, page: int) -> list[Difference]:
    """Return one page of differences, from 0."""
    return _page_of(*_key(), wanted, page)


def every_difference(wanted: Wanted) -> list[Difference]:
    """Return all differences, for a download."""
    with Store().read() as cursor:
        return differences(cursor, wanted)


def difference(wanted: Wanted, trial_id: str, format_: str, question_type: str) -> Difference | None:
    """Return the difference on one answer."""
    with Store().read() as cursor:
        return difference_at(cursor, wanted, trial_id, format_, question_type)


def _key() -> tuple[str, str]:
    store = Store()
    return str(store.path), store.version


@st.cache_resource(max_entries=2, show_spinner=False)
def _graders(path: str, version: str) -> list[GraderHeld]:
    return read_graders(Store())


@st.cache_resource(max_entries=2, show_spinner="Reading the verdicts…")
def _everything(path: str, version: str) -> Judged:
    return read_judged(Store(), [one.grader for one in _graders(path, version)])


@st.cache_resource(max_entries=2, show_spinner=False)
def _answers_by_set(path: str, version: str) -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for one in _everything(path, version).counts:
        sizes[one.case_key.partition("/")[0]] += one.n
    return dict(sizes.most_common())


@st.cache_resource(max_entries=8, show_spinner=False)
def _offer(path: str, version: str, case_set: str) -> Offer:
    found = _everything(path, version)
    mine = found.narrowed(case_set)
    spoken = (mine.codes != NOT_JUDGED).any(axis=0)
    return Offer(
        frozenset(grader for grader, spoke in zip(found.graders, spoken, strict=True) if spoke),
        tuple(dict.fromkeys(one.model for one in mine.counts)), frozenset(one.format for one in mine.counts),
        frozenset(one.question_type for one in mine.counts),
    )  # fmt: skip


@st.cache_resource(max_entries=8, show_spinner=False)
def _judged(path: str, version: str, key: tuple[object, ...]) -> Judged:
    case_set, named, *filters = key
    return _everything(path, version).narrowed(case_set, *filters).of(named)  # type: ignore[arg-type]


@st.cache_resource(max_entries=16, show_spinner="Resampling the cases…")
def _agreements(
    path: str, version: str, key: tuple[object, ...]
) -> tuple[list[GraderAgreement], list[GraderAgreement]]:
    found = _judged(path, version, key)
    return pair_agreements(found), common_agreement(found)


@st.cache_resource(max_entries=16, show_spinner="Computing the accuracies…")
def _accuracies(
    path: str, version: str, key: tuple[object, ...], panel: tuple[str, ...], common: bool
) -> list[JudgeAccuracy]:
    return accuracy_by_judge(_judged(path, version, key), panel, common=common)


@st.cache_resource(max_entries=8, show_spinner=False)
def _corrections(path: str, version: str, graders_: tuple[str, ...], panel: tuple[str, ...]) -> list[CorrectedAccuracy]:
    return corrected_by_judge(Store(), graders_, panel)


@st.cache_resource(max_entries=2, show_spinner="Looking for words that were judged twice…")
def _rates(path: str, version: str) -> list[FlipRate]:
    return flip_rates(Store())


@st.cache_resource(max_entries=32, show_spinner=False)
def _number_of(path: str, version: str, wanted: Wanted) -> dict[Direction, int]:
    with Store().read() as cursor:
        return count_differences(cursor, wanted)


@st.cache_resource(max_entries=32, show_spinner=False)
def _page_of(path: str, version: str, wanted: Wanted, page: int) -> list[Difference]:
    with Store().read() as cursor:
        return differences(cursor, wanted, PAGE, page * PAGE)
