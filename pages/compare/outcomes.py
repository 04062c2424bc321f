"""What a comparison shows: all differences, one of them as a table of outcomes, and notes of its own."""

import pandas as pd
import streamlit as st

from core.measures.base import Comparison, Section
from core.measures.compare import report_pairs
from core.stats.corrections import format_p
from core.stats.differences import PairedCounts, mcnemar
from pages.kit.look import plain

DIFFERENCES = Section(
    "Difference in accuracy",
    report_pairs,
    kind="dots",
    axis="Difference",
    caption="Paired by case. Filled dots: adjusted p ≤ .05.",
    columns=(
        "answer",
        "persona",
        "first_mean",
        "second_mean",
        "difference",
        "ci_low",
        "ci_high",
        "p",
        "p_adjusted",
        "improved",
        "regressed",
        "equal",
        "n_cases",
        "left_out",
    ),
)


def draw_outcomes(first: str, second: str, result: Comparison) -> None:
    """Draw the table of right and wrong cases of one pair of sides, with margins and McNemar’s test."""
    first, second = plain(first), plain(second)
    c = result.counts or PairedCounts(0, 0, 0, 0)
    rows = [[*row, sum(row)] for row in ([c.both, c.first_only], [c.second_only, c.neither])]
    rows.append([sum(column) for column in zip(*rows, strict=True)])
    heads = [f"{second}: right", f"{second}: wrong", "All"]
    table, words = st.columns([3, 2], vertical_alignment="center")
    index = pd.Index([f"{first}: right", f"{first}: wrong", "All"], name="Cases")
    table.table(pd.DataFrame(rows, index, heads))
    p = format_p(mcnemar(c).p)
    words.markdown(
        f"**{c.first_only + c.second_only:,}** of {result.n:,} cases flipped: {c.second_only:,} became right, "
        f"{c.first_only:,} became wrong.",
        help="Here a case is right if at least half of its counted trials are right. McNemar’s exact test on these: "
        f"p {p if p.startswith('<') else f'= {p}'}, not corrected.",
    )
    one_sided = {"first": result.first_alone, "second": result.second_alone}
    left_out = [f"{n:,} count for the {side} only" for side, n in one_sided.items() if n]
    if left_out:
        words.caption(f"Left out because the other side has no counted answer: {', '.join(left_out)}.")
