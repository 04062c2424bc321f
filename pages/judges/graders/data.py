"""What the part Graders shows: read once for each state of the database, computed once for each choice.

A section is about the answers of a view, and about some graders of them.
"""

from collections import Counter
from collections.abc import Sequence

from core.events import FORMATS, QUESTION_TYPES
from core.measures.graders.agreement import (
    NOT_JUDGED,
    FlipRate,
    GraderAgreement,
    Judged,
    common_agreement,
    flip_rates,
    pair_agreements,
    read_graders,
    read_judged,
)
from core.measures.graders.panels import CorrectedAccuracy, JudgeAccuracy, accuracy_by_judge, corrected_by_judge
from core.store.database import Store
from core.store.queries.grades_by_grader import Direction, GraderHeld, Wanted
from core.store.selection import Selection
from pages.kit.cached import cached_query
from pages.kit.view import Offer, View

Graders = tuple[str, ...]


@cached_query(entries=2)
def graders() -> list[GraderHeld]:
    """Return who has judged free responses of campaigns and releases."""
    return read_graders(Store())


@cached_query("Reading the verdicts…", 2)
def _everything() -> Judged:
    return read_judged(Store(), [one.grader for one in graders()])


@cached_query(entries=2)
def offers() -> dict[str, tuple[Offer, frozenset[str]]]:
    """Return case set → what its free responses can be narrowed by, and who judged any; that with most comes first."""
    found = _everything()
    sizes: Counter[str] = Counter()
    for one in found.counts:
        sizes[one.case_key.partition("/")[0]] += one.n
    held = {}
    for name, _ in sizes.most_common():
        mine = found.narrowed(name)
        formats, types = {one.format for one in mine.counts}, {one.question_type for one in mine.counts}
        spoken = (mine.codes != NOT_JUDGED).any(axis=0)
        offer = Offer(
            tuple(dict.fromkeys(one.model for one in mine.counts)),
            tuple(one for one in FORMATS if one in formats),
            tuple(one for one in QUESTION_TYPES if one in types),
        )
        held[name] = (offer, frozenset(g for g, spoke in zip(found.graders, spoken, strict=True) if spoke))
    return held


@cached_query(entries=8)
def judged(view: View, of: Graders) -> Judged:
    """Return some graders' verdicts on the answers of a view."""
    return _everything().narrowed(view.case_set, view.models, view.formats, view.questions).of(of)


@cached_query("Resampling the cases…")
def agreements(view: View, of: Graders) -> tuple[list[GraderAgreement], list[GraderAgreement]]:
    """Return how far every two graders agree, and all of them together."""
    found = judged(view, of)
    return pair_agreements(found), common_agreement(found)


@cached_query("Computing the accuracies…")
def accuracies(view: View, of: Graders, panel: Graders, *, common: bool) -> list[JudgeAccuracy]:
    """Return accuracy by each grader, and by the panel."""
    return accuracy_by_judge(judged(view, of), panel, common=common)


@cached_query(entries=8)
def corrections(of: Graders, panel: Graders) -> list[CorrectedAccuracy]:
    """Return the accuracies that experts' judgements allow to correct."""
    return corrected_by_judge(Store(), of, panel)


@cached_query("Looking for words that were judged twice…", 8)
def rates(view: View | None = None) -> list[FlipRate]:
    """Return how often each grader contradicted itself on the answers of each model of a view, by default of all."""
    return flip_rates(Store(), None if view is None else wanted(view, None).selection)


def wanted(view: View, pair: tuple[str, str] | None, directions: Sequence[Direction] = ()) -> Wanted:
    """Return which differences in a view these are, between two graders or from one verdict to the next."""
    selection = Selection(
        case_sets=(view.case_set,),
        models=view.models or None,
        formats=view.formats or None,  # type: ignore[arg-type]
        question_types=view.questions or None,  # type: ignore[arg-type]
    )
    return Wanted(pair, selection, tuple(directions))
