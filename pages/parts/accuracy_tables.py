"""Tables of the Accuracy page: figures, pairs, the cases behind a bar, the leaderboard."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from core.datasets.published import LeaderboardRow
from core.measures.accuracy import Cell
from core.measures.compare import FormatPair
from core.stats.corrections import format_p, stars
from core.store.queries.accuracy import CaseScore
from pages.parts.figure_controls import dataset_name
from pages.parts.look import FORMAT, QUESTION_TYPE, VERDICT


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
                "Excluded": c.own.n_excluded if c.own else None,
                "Why": reasons_text(c.own.excluded_by_reason) if c.own else "",
                "From": "this database" if c.own else f"published, supplementary table {c.table}",
            }
            for c in cells
        ]
    ).astype({"Cases": "Int64", "Trials": "Int64", "Excluded": "Int64"})


def pairs_table(
    pairs: Sequence[FormatPair], adjusted: Sequence[float], names: Mapping[str, str]
) -> pd.DataFrame:  # fmt: skip
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
                "Why": reasons_text({str(reason): n for reason, n in s.excluded.items()}),
            }
            for s in scores
        ],
        columns=["Case", "Specialty", "Data set", "Score", "Right", "Counted", "Excluded", "Why"],
    )


def leaderboard_table(rows: Sequence[LeaderboardRow]) -> pd.DataFrame:
    """Return the authors' leaderboard as published."""
    return pd.DataFrame(
        [
            {"Rank": row.rank, "Model": row.model, "Organisation": row.organisation, "Year": str(row.year)}
            | {FORMAT[name]: mean for name, mean in row.means.items()}  # type: ignore[index]
            | {"Question": QUESTION_TYPE[row.question_type], "From": "published leaderboard"}
            for row in rows
        ]
    )


def excluded_text(cells: Sequence[Cell], names: Mapping[str, str]) -> str:
    """Return in words what the shown figures leave out, by model; empty where nothing is."""
    found: dict[str, Counter[str]] = {}
    for cell in cells:
        if cell.own:
            found.setdefault(cell.model, Counter()).update(cell.own.excluded_by_reason)
    parts = [f"{names[model]}: {reasons_text(reasons)}" for model, reasons in found.items() if reasons]
    return "; ".join(parts)


def reasons_text(reasons: Mapping[str, int]) -> str:
    """Return verdicts that do not count, with their numbers."""
    return ", ".join(f"{count:,} {_reason(reason)}" for reason, count in reasons.items() if count)


def group_name(group: str | None) -> str:
    """Return a group of cases as pages show it: a specialty, a data set, or all."""
    return "All" if group is None else dataset_name(group)


def _reason(reason: str) -> str:
    return VERDICT[reason][0].partition(",")[0].lower() if reason in VERDICT else reason
