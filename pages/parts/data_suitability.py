"""How far a data set can be played as consultations: the share that passes, reasons, fields, and making profiles."""

from collections import Counter
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.text.profiles import Coverage, Generated
from pages.parts.accuracy_view import is_dark
from pages.parts.data_charts import coverage_chart, reasons_chart
from pages.parts.data_make import draw_making
from pages.parts.data_published import PAPER, published_for, sentence
from pages.parts.data_sets import Line, coverage_of
from pages.parts.data_words import CAME, FIELD, REASON_HELP, maker_words, reason_words
from pages.parts.history_shown import draw_figure, draw_table
from pages.parts.look import plain


def draw_suitability(name: str, held: Sequence[Line]) -> None:
    """Draw how many cases pass the filter and what their profiles say, and the way to make profiles."""
    draw_making(name, held)
    words = [line.word for line in held if line.word is not None]
    printed = published_for(name)
    if printed:
        st.info(f"**Published** ({PAPER}): {sentence(printed)}.", icon=":material/menu_book:")
    if not words:
        st.info(
            "Nobody has looked at these cases yet. Make profiles above: by rule it takes seconds and needs no model.",
            icon=":material/person_search:",
        )
        return
    counts = coverage_of(name)
    _draw_share(counts, len(held), words)
    if not counts.reasons:
        st.caption("Every case that was looked at can be played as a consultation.")
        _draw_fields(counts, name)
        return
    left, right = st.columns(2, gap="medium")
    with left:
        _draw_reasons(counts, name)
    with right:
        _draw_fields(counts, name)


def _draw_share(counts: Coverage, cases: int, words: Sequence[Generated]) -> None:
    low, high = counts.interval.low, counts.interval.high
    with st.container(border=True, horizontal=True):
        st.metric("Suitable", f"{counts.share:.1%}", width="content", help="Share of the cases that were looked at.")
        st.metric("95 % interval", f"{low:.1%} – {high:.1%}", width="content", help="Wilson’s.")
        st.metric("Suitable cases", f"{counts.suitable:,}", width="content")
        st.metric("Looked at", f"{counts.n:,} of {cases:,}", width="content")
    counted_makers = Counter(maker_words(word.made_by) for word in words).most_common()
    makers = [f"{maker.lower() if maker == CAME else maker} ({number:,})" for maker, number in counted_makers]
    st.caption(f"Profiles by maker: {plain(', '.join(makers))}. A case’s newest profile counts.")


def _draw_reasons(counts: Coverage, name: str) -> None:
    st.markdown("**Why cases are not suitable**")
    draw_figure(
        reasons_chart(counts.reasons, counts.n, dark=is_dark()), f"{name}-reasons", "Reasons why cases are not suitable"
    )
    with st.expander("The figures as a table"):
        draw_table(reasons_table(counts), f"{name}-suitability-reasons", _SHARE)


def _draw_fields(counts: Coverage, name: str) -> None:
    st.markdown("**What the profiles say**")
    if not counts.suitable:
        st.caption("No case is suitable, so there are no profiles.")
        return
    draw_figure(
        coverage_chart(counts, dark=is_dark()), f"{name}-fields", "Fields of a profile: present, imputed or absent"
    )
    with st.expander("The figures as a table"):
        draw_table(fields_table(counts), f"{name}-suitability-fields", _SHARE)


_SHARE = dict.fromkeys(("Share", "Present", "Imputed", "Absent"), st.column_config.NumberColumn(format="percent"))


def reasons_table(counts: Coverage) -> pd.DataFrame:
    """Return a row for each reason, the most frequent first."""
    order = sorted(counts.reasons, key=lambda reason: -counts.reasons[reason])
    return pd.DataFrame(
        [
            {
                "Reason": reason_words(reason), "Cases": counts.reasons[reason],
                "Share": counts.reasons[reason] / counts.n, "Meaning": REASON_HELP[reason],
            }
            for reason in order
        ]
    )  # fmt: skip


def fields_table(counts: Coverage) -> pd.DataFrame:
    """Return a row for each field of a profile."""
    return pd.DataFrame(
        [
            {
                "Field": FIELD[shares.field], "Present": shares.share("present"), "Imputed": shares.share("imputed"),
                "Absent": shares.share("absent"), "Suitable cases": shares.n,
            }
            for shares in counts.fields
        ]
    )  # fmt: skip
