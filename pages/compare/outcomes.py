"""Draws a comparison: every arm with its difference, one arm by who got which case right, and what else differs."""

from collections.abc import Callable, Mapping, Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.figures.marks import Mark, dots
from core.figures.style import FALL, RISE, Axis
from core.measures.base import Note
from core.measures.choice_rules import rules_in_words
from core.measures.compare import LEVEL, Comparison
from core.measures.provenance import UNKNOWN, differing, graders, side_by_side, side_of
from core.stats.corrections import LABELS, Correction, format_p, stars
from core.stats.differences import mcnemar
from pages.compare.data import Who, condition_of
from pages.kit.figures import draw_figure
from pages.kit.look import STARS, plain
from pages.kit.names import dataset_name
from pages.kit.stored import run_casts
from pages.kit.tables import draw_table
from pages.kit.view import INTERVALS, View


def mixed_rules(found: Mapping[str, Comparison]) -> list[Note]:
    """Return a note on the rows whose sides count choices by different rules."""
    mixed = ", ".join(name for name, result in found.items() if result.mixed)
    text = (
        f"The two sides count choices by different rules, their frameworks’ own, in: {mixed}. Choose one rule for both "
        "under Statistics."
    )
    return [Note("choice_rules", text, "high")] if mixed else []


def draw_overview(
    view: View,
    found: Mapping[str, Comparison],
    adjusted: Sequence[float],
    heads: tuple[str, str],
    row: str,
    on_row: Callable[[str], None],
) -> None:
    """Draw all rows as a figure of differences and as a table, with the sides' means under ``heads``.

    ``on_row`` is given the name of the row that was clicked in either.
    """
    what = f"{heads[1]} minus {heads[0]}"
    where = f"{dataset_name(view.case_set)}" + (f" ({', '.join(view.specialties)})" if view.specialties else "")
    n = [result.n for result in found.values() if result.n]
    named = rules_in_words((name, rule) for name, result in found.items() for rule in result.rules)
    by = f"; choices by {named}" if named else ""
    draw_figure(
        lambda dark: difference_chart(found, adjusted, dark=dark),
        "comparison_differences",
        f"Difference in accuracy: {what}",
        f"{where}, {min(n, default=0):,} to {max(n, default=0):,} cases a row, paired by case; 95 % intervals: "
        f"{INTERVALS[view.interval].lower()}; filled: adjusted p ≤ .05 ({LABELS[view.correction]}){by}.",
        on_point=lambda data: on_row(data[1]),
    )
    table = pd.DataFrame(
        [
            {
                row: name,
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
            for (name, result), p in zip(found.items(), adjusted, strict=True)
        ]
    )
    draw_table(table, "comparison", on_row=lambda place: on_row(list(found)[place]))
    st.caption(
        f"Paired by case; p by the sign-flip test, corrected by {LABELS[view.correction]} over the {len(found)} "
        f"rows; {STARS}. Filled dots: adjusted p ≤ .05. A case improved or regressed when its share of right trials "
        "rose or fell. Invalid answers are excluded, and a case that counts on one side only is left out."
    )


def difference_chart(found: Mapping[str, Comparison], adjusted: Sequence[float], *, dark: bool = False) -> go.Figure:
    """Return a dot with its interval for each row, blue where accuracy rose, orange where it fell; filled if sure."""
    marks = [
        Mark(
            name,
            r.difference,
            r.ci_low,
            r.ci_high,
            "both",
            words=f"adjusted p {format_p(p)}, {r.n:,} cases",
            open=p > LEVEL,
            colour=RISE if r.difference >= 0 else FALL,
            data=(name,),
        )
        for (name, r), p in zip(found.items(), adjusted, strict=True)
        if r.n
    ]
    axis = Axis("", None, "+.2f", None, "+.3f", zero=True)
    return dots(marks, {"both": ""}, {}, axis, places=list(found), legend=False, dark=dark)


def draw_outcomes(first: str, second: str, result: Comparison, adjusted: float, correction: Correction) -> None:
    """Draw one pair of sides: numbers, and the table of who got which case right with its margins."""
    first, second = plain(first), plain(second)
    numbers = st.columns(5)
    numbers[0].metric(first, f"{result.first_mean:.3f}")
    numbers[1].metric(second, f"{result.second_mean:.3f}")
    numbers[2].metric(
        "Δ, 95 % interval",
        f"{result.difference:+.3f}",
        delta=f"{result.ci_low:+.3f} to {result.ci_high:+.3f}",
        delta_color="off",
        delta_arrow="off",
    )
    numbers[3].metric("Adjusted p", f"{format_p(adjusted)} {stars(adjusted)}", help=LABELS[correction])
    numbers[4].metric("Improved / regressed / equal", f"{result.improved} / {result.regressed} / {result.equal}")
    c = result.counts
    rows = [[*row, sum(row)] for row in ([c.both, c.first_only], [c.second_only, c.neither])]
    rows.append([sum(column) for column in zip(*rows, strict=True)])
    heads = [f"{second}: right", f"{second}: wrong", "All"]
    left, words = st.columns([3, 2], vertical_alignment="center")
    left.table(pd.DataFrame(rows, [f"{first}: right", f"{first}: wrong", "All"], heads))
    p = format_p(mcnemar(c).p)
    words.markdown(
        f"A case counts as right here when at least half of its counted trials are right. "
        f"**{c.first_only + c.second_only:,}** of {result.n:,} cases flipped: {c.second_only:,} became right, "
        f"{c.first_only:,} became wrong.  \n"
        f"McNemar’s exact test on these: p {p if p.startswith('<') else f'= {p}'}, not corrected."
    )
    alone = {"first": result.first_alone, "second": result.second_alone}
    left_out = [f"{n:,} count for the {side} only" for side, n in alone.items() if n]
    if left_out:
        words.caption(f"Left out for want of a counted answer on the other side: {', '.join(left_out)}.")


def draw_differences(sides: Sequence[Who], labels: Sequence[str]) -> None:
    """Say what else differs between the sides, and what does not."""
    st.subheader("What else differs", anchor=False)
    if len(set(sides)) == 1:
        st.markdown("Nothing: both arms were asked in the same trials.")
        return
    behind = [condition_of(who) for who in sides]
    settings = side_by_side([side_of(condition, run_casts()) for condition in behind])
    apart = differing(settings)
    same = [s.name.lower() for s in settings if s.same and s.values[0] != UNKNOWN]
    if apart:
        rows = [{"": s.name, **dict(zip(labels, s.values, strict=True))} for s in apart]
        draw_table(pd.DataFrame(rows), "comparison_settings", download="")
    else:
        st.markdown("Nothing that is recorded.")
    st.caption(f"The same on both sides: {', '.join(same) or 'nothing'}.")
    judged_by = zip(labels, graders([side_of(condition, run_casts()) for condition in behind]), strict=True)
    st.caption(f"Whose verdicts count: {plain('; '.join(f'{label}: {grader}' for label, grader in judged_by))}.")
