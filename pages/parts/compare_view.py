"""Draws a comparison: every arm with its difference, the cases of one arm by outcome, and what else differs."""

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.figures.marks import Mark, dots
from core.figures.style import FALL, RISE, Axis
from core.measures.compare import Comparison, adjusted_p
from core.measures.provenance import UNKNOWN, differing, side_by_side
from core.stats.corrections import LABELS, Correction, format_p, stars
from core.stats.mcnemar import mcnemar
from pages.parts.compare_data import Side, Who, comparison, runs_of
from pages.parts.compare_setup import Asked
from pages.parts.figure_controls import CHART, STARS, three_decimals
from pages.parts.look import arm, plain

_LEVEL = 0.05
_SECOND = {"arms": "Second arm", "personas": "Other persona"}


def results_of(asked: Asked) -> tuple[list[Comparison], list[float]]:
    """Return the comparisons asked for, and their p-values corrected over all of them."""
    found = [comparison(first, second, asked.scope) for first, second in asked.pairs]
    return found, adjusted_p(found, asked.correction)


def side_name(side: Side, asked: Asked) -> str:
    """Return what tells the two sides apart: the arm, the model or run, or the persona."""
    return arm(*side.arm) if asked.by_arms else asked.names[side.who]


def draw_overview(asked: Asked, found: Sequence[Comparison], adjusted: Sequence[float]) -> None:
    """Draw all arms as a figure of differences and as a table."""
    first = asked.pairs[0][0]
    baseline = side_name(first, asked)
    rows = asked.rows
    second = _SECOND.get(asked.what) or asked.names[asked.pairs[0][1].who]
    what = f"{second} minus {baseline}"
    figure = difference_chart(rows, found, adjusted, dark=st.context.theme.type == "dark")
    st.markdown(f"**Difference in accuracy: {plain(what)}**")
    st.plotly_chart(
        figure, key="cmp_chart", alt=f"Difference in accuracy with 95 % intervals: {what}",
        config={**CHART, "toImageButtonOptions": {"format": "svg", "filename": "comparison"}},
    )  # fmt: skip
    table = overview_table(rows, found, adjusted, (baseline, second))
    if asked.what == "personas":
        table = table.rename(columns={"Arm": "Persona"})
    st.dataframe(table, hide_index=True, key="cmp_table", column_config=three_decimals(table))
    st.download_button(
        "Download as CSV", table.to_csv(index=False), "comparison.csv", "text/csv", icon=":material/download:",
        key="cmp_csv",
    )  # fmt: skip
    st.caption(
        f"Paired by case; p by the paired bootstrap, corrected by {LABELS[asked.correction]} over the {len(found)} "
        f"rows; {STARS}. Filled dots: adjusted p ≤ .05. A case improved or regressed when its share of right trials "
        "rose or fell. Invalid answers are excluded, and a case that counts on one side only is left out."
    )


def overview_table(
    rows: Sequence[str], found: Sequence[Comparison], adjusted: Sequence[float], heads: tuple[str, str]
) -> pd.DataFrame:  # fmt: skip
    """Return one line for each pair of sides, whose means stand under ``heads``."""
    return pd.DataFrame(
        [
            {
                "Arm": name,
                heads[0]: round(result.first_mean, 3),
                heads[1]: round(result.second_mean, 3),
                "Δ": round(result.difference, 3),
                "Low": round(result.ci_low, 3),
                "High": round(result.ci_high, 3),
                "p": format_p(result.p),
                "Adjusted p": format_p(p),
                "Stars": stars(p),
                "Improved": result.improved,
                "Regressed": result.regressed,
                "Equal": result.equal,
                "Cases": result.n,
                "Left out": result.first_alone + result.second_alone,
            }
            for name, result, p in zip(rows, found, adjusted, strict=True)
        ]
    )


def difference_chart(
    rows: Sequence[str], found: Sequence[Comparison], adjusted: Sequence[float], *, dark: bool = False
) -> go.Figure:  # fmt: skip
    """Return a dot with its interval for each row, blue where accuracy rose, orange where it fell; filled if sure."""
    marks = [
        Mark(
            name, r.difference, r.ci_low, r.ci_high, "both", words=f"adjusted p {format_p(p)}, {r.n:,} cases",
            open=p > _LEVEL, colour=RISE if r.difference >= 0 else FALL,
        )
        for name, r, p in zip(rows, found, adjusted, strict=True) if r.n
    ]  # fmt: skip
    axis = Axis("", None, "+.2f", None, "+.3f", zero=True)
    return dots(marks, {"both": ""}, {}, axis, places=list(rows), legend=False, dark=dark)


def draw_outcomes(first: str, second: str, result: Comparison, adjusted: float, correction: Correction) -> None:
    """Draw one pair of sides: numbers, and the table of who got which case right."""
    numbers = st.columns(5)
    numbers[0].metric(first, f"{result.first_mean:.3f}")
    numbers[1].metric(second, f"{result.second_mean:.3f}")
    numbers[2].metric(
        "Δ, 95 % interval", f"{result.difference:+.3f}",
        delta=f"{result.ci_low:+.3f} to {result.ci_high:+.3f}", delta_color="off", delta_arrow="off",
    )  # fmt: skip
    numbers[3].metric("Adjusted p", f"{format_p(adjusted)} {stars(adjusted)}", help=LABELS[correction])
    numbers[4].metric("Improved / regressed / equal", f"{result.improved} / {result.regressed} / {result.equal}")
    counts = result.counts
    table, words = st.columns([3, 2], vertical_alignment="center")
    with table:
        st.table(outcome_table(first, second, result))
    flipped = counts.first_only + counts.second_only
    words.markdown(
        f"A case counts as right here when at least half of its counted trials are right. **{flipped:,}** of "
        f"{result.n:,} cases flipped: {counts.second_only:,} became right, {counts.first_only:,} became wrong.  \n"
        f"McNemar’s exact test on these: p {_equals(mcnemar(counts).p)}, not corrected."
    )
    left_out = [f"{n:,} count for the {side} only" for side, n in _alone(result) if n]
    if left_out:
        words.caption(f"Left out for want of a counted answer on the other side: {', '.join(left_out)}.")


def outcome_table(first: str, second: str, result: Comparison) -> pd.DataFrame:
    """Return the 2×2 table of cases with its margins."""
    c = result.counts
    rows = [[c.both, c.first_only], [c.second_only, c.neither]]
    rows = [[*row, sum(row)] for row in rows]
    rows.append([sum(column) for column in zip(*rows, strict=True)])
    table = pd.DataFrame(rows, columns=[f"{second}: right", f"{second}: wrong", "All"])
    table.index = pd.Index([f"{first}: right", f"{first}: wrong", "All"])
    return table


def draw_differences(sides: Sequence[Who], labels: Sequence[str]) -> None:
    """Say what else differs between the sides, and what does not."""
    st.subheader("What else differs", anchor=False)
    if len(set(sides)) == 1:
        st.markdown("Nothing: both arms were asked in the same trials.")
        return
    settings = side_by_side([runs_of(who) for who in sides])
    apart = differing(settings)
    same = [s.name.lower() for s in settings if s.same and s.values[0] != UNKNOWN]
    if apart:
        rows = [{"": s.name, **dict(zip(labels, s.values, strict=True))} for s in apart]
        st.dataframe(rows, hide_index=True, key="cmp_settings")
    else:
        st.markdown("Nothing that is recorded.")
    st.caption(f"The same on both sides: {', '.join(same) or 'nothing'}.")


def _alone(result: Comparison) -> list[tuple[str, int]]:
    return [("first", result.first_alone), ("second", result.second_alone)]


def _equals(p: float) -> str:
    text = format_p(p)
    return text if text.startswith("<") else f"= {text}"
