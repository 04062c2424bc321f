"""Figures of the Accuracy page: cells and pairs, read once for each state of the store, and their tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from core.datasets.published import LeaderboardRow, inferred_single_diagnosis, printed_sets
from core.frameworks.base import released
from core.jobs.reread import count_outdated
from core.measures.accuracy import Cell, Split, group_of, own_cells, published_cells, scores_of, with_published
from core.measures.compare import FormatPair, format_pairs
from core.stats.corrections import format_p, stars
from core.store.conditions import SEPARATOR
from core.store.database import Store
from core.store.queries.accuracy import CaseScore
from core.store.queries.cases import kinds_asked_for, single_diagnosis_keys
from pages.kit.cached import ask, cached_query
from pages.kit.cases import excluded_in_words
from pages.kit.look import FORMAT, QUESTION_TYPE
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
    held = scores(view.rule, view.case_set, view.asks_for, pooled=view.pooled)
    return scores_of(held, view.case_set, split, _single_diagnosis() if split == "single" else frozenset())


def figures(view: View, split: Split) -> tuple[list[Cell], list[FormatPair]]:
    """Return the cells of a view, published ones where nothing of ours covers them, and each format's pair.

    A pair is a format against the same model's vignette. What is published is about every question, whatever it asks
    for: beside some of them it has no place.
    """
    # nothing else of a view matters here: p-values are corrected over what is shown
    return _figures(
        View(view.case_set, asks_for=view.asks_for, rule=view.rule, interval=view.interval, pooled=view.pooled), split
    )


@cached_query(entries=48)
def _figures(view: View, split: Split) -> tuple[list[Cell], list[FormatPair]]:
    held = viewed_scores(view, split)
    published = [] if view.asks_for else published_cells(view.case_set, split)
    cells = with_published(own_cells(held, split, view.interval), published, label_of)
    return cells, format_pairs(held, group_of(split), view.interval)


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


def cells_table(cells: Sequence[Cell], names: Mapping[str, str]) -> pd.DataFrame:
    """Return the figures with where each comes from; a published one has no numbers of its own."""
    return pd.DataFrame(
        [
            {
                "Model": names[c.model],
                "Group": group_name(c.group),
                "Question": QUESTION_TYPE[c.question_type],
                "Format": FORMAT[c.format],
                "Accuracy": round(c.mean, 3),
                "Low": None if c.ci_low is None else round(c.ci_low, 3),
                "High": None if c.ci_high is None else round(c.ci_high, 3),
                "Cases": c.own.n_cases if c.own else None,
                "Trials": c.own.n_trials if c.own else None,
                "Refused in words": c.own.n_refused if c.own else None,
                "Excluded": c.own.n_excluded if c.own else None,
                "Why": excluded_in_words(c.own.excluded_by_reason) if c.own else "",
                "From": "this database" if c.own else f"published, supplementary table {c.table}",
            }
            for c in cells
        ]
    ).astype({"Cases": "Int64", "Trials": "Int64", "Refused in words": "Int64", "Excluded": "Int64"})


def pairs_table(pairs: Sequence[FormatPair], adjusted: Sequence[float], names: Mapping[str, str]) -> pd.DataFrame:
    """Return each format against the vignette, with the p-value before and after correction."""
    return pd.DataFrame(
        [
            {
                "Model": names[pair.model],
                "Group": group_name(pair.group),
                "Question": QUESTION_TYPE[pair.question_type],
                "Format": FORMAT[pair.format],
                "Δ to vignette": round(pair.result.difference, 3),
                "Low": round(pair.result.ci_low, 3),
                "High": round(pair.result.ci_high, 3),
                "p": format_p(pair.result.p),
                "Adjusted p": format_p(p),
                "Stars": stars(p),
                "Cases": pair.result.n,
            }
            for pair, p in zip(pairs, adjusted, strict=True)
        ]
    )


def cases_table(scores: Iterable[CaseScore]) -> pd.DataFrame:
    """Return cases with their score, the share of counted trials that were right."""
    return pd.DataFrame(
        [
            {
                "Case": s.case_key,
                "Specialty": s.specialty,
                "Data set": dataset_name(s.dataset),
                "Score": s.score,
                "Right": s.correct,
                "Counted": s.counted,
                "Excluded": sum(s.excluded.values()),
                "Why": excluded_in_words(s.excluded),
            }
            for s in scores
        ],
        columns=["Case", "Specialty", "Data set", "Score", "Right", "Counted", "Excluded", "Why"],
    )


def leaderboard_table(rows: Sequence[LeaderboardRow], own: Sequence[Cell], names: Mapping[str, str]) -> pd.DataFrame:
    """Return the authors' leaderboard as published, after what was found here: a row for each model and question."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in own:
        row = found.setdefault((cell.model, cell.question_type), {"Model": names[cell.model]})
        row |= {FORMAT[cell.format]: round(cell.mean, 3), "Question": QUESTION_TYPE[cell.question_type]}
        row |= {"From": "this database", "Cases": f"{cell.own.n_cases:,}" if cell.own else ""}
    published = [
        {"Rank": row.rank, "Model": row.model, "Organisation": row.organisation, "Year": str(row.year)}
        | {FORMAT[name]: mean for name, mean in row.means.items()}  # type: ignore[index]
        | {"Question": QUESTION_TYPE[row.question_type], "From": "published leaderboard", "Cases": "2,004"}
        for row in rows
    ]
    means = [FORMAT[name] for name in rows[0].means]  # type: ignore[index]
    columns = ["Rank", "Model", "Organisation", "Year", *means, "Question", "From", "Cases"]
    return pd.DataFrame([*found.values(), *published], columns=columns).astype({"Rank": "Int64"})
