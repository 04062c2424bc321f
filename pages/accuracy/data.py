"""Figures of the Accuracy page: cells and pairs, read once for each state of the store."""

from dataclasses import replace

from core.datasets.published import inferred_single_diagnosis, printed_sets
from core.frameworks.base import released
from core.jobs.reread import count_outdated
from core.measures.accuracy import Cell, Split, group_of, own_cells, published_cells, scores_of, with_published
from core.measures.choice_rules import RuleGap, gaps_of
from core.measures.compare import FormatPair, format_pairs
from core.measures.extent import on_shared_cases
from core.store.conditions import SEPARATOR
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.cases import kinds_asked_for, single_diagnosis_keys
from pages.kit.cached import ask, cached_query
from pages.kit.names import dataset_name, label_of
from pages.kit.stored import conditions, known_case_sets, scores
from pages.kit.view import Offer, View

SPLIT: dict[Split, str] = {
    "all": "All together",
    "specialty": "Specialty",
    "dataset": "Data set",
    "dermatology": "Dermatology by data set",
    "single": "Dermatology, single diagnosis",
}


def offers() -> dict[str, Offer]:
    """Return case set → what its cases can be narrowed by; those with published figures are always there."""
    return {
        name: Offer(
            asks_for=tuple(ask(kinds_asked_for, name)),
            several_conditions=any(SEPARATOR in one.name for one in conditions(name)),
        )
        for name in known_case_sets()
    }


def splits_of(view: View) -> list[Split]:
    """Return how the cases of a view can be split; by data set where there are several."""
    if view.case_set in printed_sets():
        return list(SPLIT)
    several = len({score.dataset for score in viewed_scores(view, "all")}) > 1
    return ["all", "specialty", "dataset"] if several else ["all", "specialty"]


def viewed_scores(view: View, split: Split) -> list[CaseScore]:
    """Return the scores that a split of a view is about."""
    found = scores(view.rule, view.case_set, view.asks_for, pooled=view.pooled)
    if view.shared_cases:
        found = on_shared_cases([score for score in found if score.model in view.models])
    return scores_of(found, view.case_set, split, _single_diagnosis() if split == "single" else frozenset())


def figures(view: View, split: Split) -> tuple[list[Cell], list[FormatPair]]:
    """Return the cells of a view, published ones where nothing of ours covers them, and each format's pair.

    A pair is a format against the same model's vignette. What is published is about every question, whatever it asks
    for: beside some of them it has no place.
    """
    # nothing else of a view matters here: p-values are corrected over what is shown
    return _figures(
        View(
            view.case_set,
            view.models if view.shared_cases else (),
            asks_for=view.asks_for,
            rule=view.rule,
            interval=view.interval,
            pooled=view.pooled,
            shared_cases=view.shared_cases,
        ),
        split,
    )


@cached_query(entries=48)
def _figures(view: View, split: Split) -> tuple[list[Cell], list[FormatPair]]:
    held = viewed_scores(view, split)
    published = [] if view.asks_for else published_cells(view.case_set, split)
    cells = with_published(own_cells(held, split, view.interval), published, label_of)
    return cells, format_pairs(held, group_of(split), view.interval)


def gaps(view: View) -> list[RuleGap]:
    """Return where the two rules for choices are far apart, over the cases of a view that are not split."""
    return _gaps(View(view.case_set, asks_for=view.asks_for, pooled=view.pooled))


@cached_query(entries=16)
def _gaps(view: View) -> list[RuleGap]:
    loose, strict = (viewed_scores(replace(view, rule=rule), "all") for rule in ("mcq_loose", "mcq_strict"))
    return gaps_of(loose, strict)


@cached_query(entries=4)
def read_before() -> int:
    """Return how many answers with choices an earlier version of the strict rule read."""
    return count_outdated(Store())


@cached_query(entries=4)
def _single_diagnosis() -> frozenset[str]:
    inferred = {f"{released('accuracy').name}/{case}" for case, single in inferred_single_diagnosis().items() if single}
    return frozenset(ask(single_diagnosis_keys) | inferred)


def group_name(group: str | None) -> str:
    """Return a group of cases as pages show it: a specialty, a data set, or all."""
    return "All" if group is None else dataset_name(group)
