"""Draws a comparison: all differences, one of them as a table of outcomes, and what else differs."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pandas as pd
import streamlit as st

from core.measures.base import Comparison, Note, Result, Row, Section
from core.measures.choice_rules import rules_in_words
from core.measures.compare import report_pairs
from core.measures.provenance import UNKNOWN, differing, graders, settings_side_by_side, side_of
from core.stats.corrections import LABELS, Correction, format_p, stars
from core.stats.differences import PairedCounts, mcnemar
from core.store.selection import Selection
from pages.kit.look import STARS, plain
from pages.kit.section import draw_result
from pages.kit.stored import run_casts
from pages.kit.subjects import Subject, condition_of
from pages.kit.tables import draw_table
from pages.kit.view import INTERVALS, Statistics

DIFFERENCES = Section(
    "Difference in accuracy",
    report_pairs,
    kind="dots",
    axis="Difference",
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


def mixed_rules(rows: Sequence[Row]) -> list[Note]:
    """Return a note on the rows whose sides judge choices by different rules."""
    labels = ", ".join(next(iter(row.label.values())) for row in rows if row.comparison and row.comparison.mixed)
    text = (
        f"The two sides judge choices by their frameworks’ different rules in: {labels}. Choose one rule under "
        "Statistics."
    )
    return [Note("choice_rules", text, "high")] if labels else []


def draw_overview(
    selection: Selection,
    statistics: Statistics,
    rows: Sequence[Row],
    notes: Sequence[Note],
    heads: tuple[str, str],
    on_row: Callable[[str], None],
) -> None:
    """Draw all rows as a figure of differences and as a table; ``heads`` name the columns of the sides’ means.

    ``on_row`` gets the name of the clicked row.
    """
    part = next(iter(rows[0].label))
    rules = rules_in_words((row.label[part], rule) for row in rows if row.comparison for rule in row.comparison.rules)
    section = replace(
        DIFFERENCES,
        title=f"Difference in accuracy: {heads[1]} minus {heads[0]}",
        series=part,
        place=part,
        heads={"first_mean": heads[0], "second_mean": heads[1]},
        caption="Paired by case. Filled dots: adjusted p ≤ .05.",
        help=f"{INTERVALS[statistics.interval]}; p by the sign-flip test, corrected by "
        f"{LABELS[statistics.correction]} over the {len(rows)} rows{f'; choices by {rules}' if rules else ''}. A case "
        "improved (regressed) if its share of right trials rose (fell). Invalid answers, and cases that count on one "
        "side only, are excluded.",
    )
    draw_result(
        section,
        Result(section.title, tuple(rows), tuple(notes)),
        {},
        name="comparison",
        selection=selection,
        on_row=lambda row: on_row(row.label[part]),
    )


def draw_outcomes(first: str, second: str, result: Comparison, correction: Correction) -> None:
    """Draw one pair of sides: figures, and the table of right and wrong cases with margins."""
    first, second = plain(first), plain(second)
    adjusted = float("nan") if result.adjusted_p is None else result.adjusted_p
    numbers = st.columns(5)
    numbers[0].metric(first, f"{result.first_mean:.3f}")
    numbers[1].metric(second, f"{result.second_mean:.3f}")
    numbers[2].metric(
        "Δ, 95 % interval",
        f"{result.difference:+.3f}",
        delta=f"{result.low:+.3f} to {result.high:+.3f}",
        delta_color="off",
        delta_arrow="off",
    )
    numbers[3].metric("Adjusted p", f"{format_p(adjusted)} {stars(adjusted)}", help=f"{LABELS[correction]}. {STARS}")
    numbers[4].metric("Improved / regressed / equal", f"{result.improved} / {result.regressed} / {result.equal}")
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


def draw_differences(sides: Sequence[Subject], labels: Sequence[str]) -> None:
    """Draw what else differs between the sides, and what is the same."""
    st.header("What else differs", anchor=False)
    conditions = [condition_of(subject) for subject in sides]
    settings = settings_side_by_side([side_of(condition, run_casts()) for condition in conditions])
    differing_settings = differing(settings)
    equal = [s.name.lower() for s in settings if s.same and s.values[0] != UNKNOWN]
    if differing_settings:
        rows = [{"Setting": s.name, **dict(zip(labels, s.values, strict=True))} for s in differing_settings]
        draw_table(pd.DataFrame(rows), "comparison_settings", download="")
    else:
        st.markdown("Nothing in the stored settings.")
    st.caption(f"The same on both sides: {', '.join(equal) or 'nothing'}.")
    judged_by = zip(labels, graders([side_of(condition, run_casts()) for condition in conditions]), strict=True)
    st.caption(f"Whose verdicts count: {plain('; '.join(f'{label}: {grader}' for label, grader in judged_by))}.")
