"""The four parts of CARE on the CARE page: a panel for each, over all, by data set or normalised; the table."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import streamlit as st

from core.measures.care.across import normalised
from core.measures.care.profile import PARTS, CareProfile, Estimate, Part
from pages.parts.accuracy_view import is_dark
from pages.parts.care_charts import PRINTED, Row, panel
from pages.parts.care_data import care_profiles
from pages.parts.care_shown import Shown
from pages.parts.care_tables import (
    COUNTS,
    PublishedProfile,
    in_order,
    intervals_table,
    normalised_table,
    profile_table,
    published_profiles,
)
from pages.parts.care_words import FORMULA_NOTE, PART, PUBLISHED_SET, SOURCE, why_excluded
from pages.parts.conditions import draw_conditions, draw_what_differs
from pages.parts.figure_controls import dataset_name
from pages.parts.history_shown import draw_figure, draw_table, offer_csv
from pages.parts.look import plain

_HOW = {"all": "Over all", "dataset": "By data set", "normalised": "Normalised"}
_AXIS: dict[Part, tuple[float, float] | None] = {
    "accuracy": (-0.02, 1.02), "efficiency": None, "empathy": (0.18, 1.02), "robustness": (-0.02, 1.02),
}  # fmt: skip
"""Where the axes begin and end; a rating of 1 is an empathy of 0.2."""


def draw_profile(shown: Shown) -> None:
    """Draw the four parts of every model, and the table with what they rest on."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        how = st.segmented_control(
            "Figures", list(_HOW), default="all", required=True, format_func=_HOW.__getitem__, key="care_how",
            bind="query-params",
            help="Normalised: within each data set from 0 (the lowest model) to 1 (the highest), then the mean over "
            "data sets.",
        ) or "all"  # fmt: skip
        with_printed = st.toggle("Published figures", value=True, key="care_published", bind="query-params",
                                 disabled=how == "normalised")  # fmt: skip
        bounds = st.toggle("Intervals in the table", key="care_bounds", bind="query-params",
                           disabled=how == "normalised", help="95 %, cases resampled.")  # fmt: skip
    if how == "normalised":
        _draw_normalised(shown)
        return
    profiles = care_profiles(shown.view, by_dataset=how == "dataset")
    printed = published_profiles() if with_printed else []
    draw_parts({part: part_rows(profiles, part, shown, printed) for part in PARTS}, explained=True)
    draw_table_of(profiles, shown.names, printed, bounds=bounds)
    _draw_excluded(profiles, shown)
    _draw_unlike(profiles, shown)


def draw_published() -> None:
    """Draw what the paper prints, where nothing of ours is stored."""
    printed = published_profiles()
    draw_parts({part: published_rows(printed, part) for part in PARTS}, explained=True)
    draw_table_of([], {}, printed, bounds=False)


def draw_parts(rows: Mapping[Part, Sequence[Row]], *, explained: bool, unit: str = "") -> None:
    """Draw a panel for each part, with how it is computed."""
    for left in (0, 2):
        for column, part in zip(st.columns(2, gap="medium"), PARTS[left : left + 2], strict=True):
            name, words = PART[part]
            axis = (-0.03, 1.03) if unit else _AXIS[part]
            with column:
                st.markdown(f"**{name}**")
                draw_figure(
                    panel(rows[part], unit or name, axis=axis, dark=is_dark()), f"care_{part}",
                    f"{name} of each model, with its 95 % interval",
                )  # fmt: skip
                if explained:
                    st.caption(words)


def part_rows(
    profiles: Sequence[CareProfile], part: Part, shown: Shown, printed: Sequence[PublishedProfile]
) -> list[Row]:
    """Return the rows of a panel: ours under their data sets, if any, then what is published."""
    rows: list[Row] = []
    headed: str | None = None
    for profile in in_order(profiles, shown.names):
        if profile.group is not None and profile.group != headed:
            headed = profile.group
            rows.append(Row(dataset_name(headed)))
        estimate = profile.part(part)
        rows.append(Row(shown.names[profile.seat], estimate, shown.colours[profile.seat],
                        note=f"{estimate.n:,} cases"))  # fmt: skip
    return rows + published_rows(printed, part)


def published_rows(printed: Sequence[PublishedProfile], part: Part) -> list[Row]:
    """Return the rows of a panel of what is published, under a heading; none where nothing is."""
    rows = [Row("Published")] if printed else []
    for p in printed:
        note = f"published, table 3: {p.conversations} conversations<br>{PUBLISHED_SET}"
        rows.append(Row(p.model, Estimate(p.values[part]), PRINTED, open_=True, note=note))
    return rows


def draw_table_of(
    profiles: Sequence[CareProfile], names: Mapping[str, str], printed: Sequence[PublishedProfile], *, bounds: bool
) -> None:
    """Draw the table of the parts, both accuracies beside them."""
    table = profile_table(profiles, names, printed, bounds=bounds)
    st.dataframe(table, hide_index=True, key=f"care_table_{bounds}", placeholder="–", height="content",
                 column_config=_columns(bounds=bounds))  # fmt: skip
    with st.container(horizontal=True):
        offer_csv(table, "care")
        if profiles:
            offer_csv(intervals_table(profiles, names), "care-intervals", "CSV with intervals")
    source = "" if not printed else (
        f" Open circles and rows marked so are **published** ({SOURCE}, table 3): {printed[0].conversations} "
        f"conversations of each model that experts also rated; {PUBLISHED_SET}. No interval is printed."
    )  # fmt: skip
    whiskers = "Whiskers: 95 %, cases resampled. " if profiles else ""
    st.caption(f"{whiskers}{FORMULA_NOTE}{source}")


def _columns(*, bounds: bool) -> dict[str, Any]:
    told = {
        **{PART[part][0]: PART[part][1] for part in PARTS},
        "After the conversation": "Share of right answers after the conversation, over cases with both answers.",
        "Whole question": "Share of right answers to the whole question at once, over the same cases.",
    }  # fmt: skip
    counts = {
        "Cases": "Cases with any trial.", "With both answers": "Cases with both answers: accuracy rests on these.",
        "Trials": "Conversations, broken ones among them.",
        "Excluded": "Trials that a provider’s failure or a refusal broke, or whose answer nobody judged: in no part.",
        "Not rated": "Conversations in which no rating could be read: not in empathy.",
    }  # fmt: skip
    return {
        **{
            name: st.column_config.TextColumn(help=words)
            if bounds
            else st.column_config.NumberColumn(help=words, format="%.3f")
            for name, words in told.items()
        },
        "Penalty": st.column_config.NumberColumn(
            format="%.3f", help="Accuracy after the conversation ÷ on the whole question, at most 1."
        ),
        **{name: st.column_config.NumberColumn(format="localized", help=counts[name]) for name in COUNTS},
        "Model": st.column_config.TextColumn(pinned=True),
        "Data set": st.column_config.TextColumn(width=170),
    }


def _draw_excluded(profiles: Sequence[CareProfile], shown: Shown) -> None:
    conversations = _excluded(((p.seat, p.excluded) for p in profiles), shown)
    answers = _excluded(((p.seat, p.excluded_static) for p in profiles), shown)
    static = f" Answers to the whole question that are left out: {answers}." if answers else ""
    st.caption(f"Excluded, and not counted as wrong or failed: {conversations or 'nothing'}.{static}")


def _excluded(counts: Iterable[tuple[str, Mapping[str, int]]], shown: Shown) -> str:
    """Return by model what does not count, and why."""
    held: dict[str, Counter[str]] = {}
    for seat, found in counts:
        held.setdefault(seat, Counter()).update(found)
    return "; ".join(
        f"{plain(shown.names[seat])} {', '.join(f'{n:,} {why_excluded(v)}' for v, n in held[seat].items())}"
        for seat in shown.names if held.get(seat)
    )  # fmt: skip


def _draw_unlike(profiles: Sequence[CareProfile], shown: Shown) -> None:
    """Say where models were not asked the same cases, and what else differs between them."""
    cases: dict[str, int] = {}
    for profile in profiles:
        cases[profile.seat] = cases.get(profile.seat, 0) + profile.items
    if len(set(cases.values())) > 1:
        words = ", ".join(f"{shown.names[key]} {cases[key]:,}" for key in shown.names if key in cases)
        st.warning(f"These models were not asked the same cases: {plain(words)}.", icon=":material/difference:")
    named = {key: name for key, name in shown.names.items() if key in cases}
    if len(named) > 1:
        draw_what_differs(named, shown.seats, "these models")
    draw_conditions(named, shown.seats)


def _draw_normalised(shown: Shown) -> None:
    found = normalised(care_profiles(shown.view, by_dataset=True))
    rows: dict[Part, list[Row]] = {}
    for part in PARTS:
        held = {row.seat: row for row in found if row.part == part}
        rows[part] = [
            Row(shown.names[key], Estimate(held[key].value), shown.colours[key],
                note=f"mean of {held[key].n_datasets} data sets")
            for key in shown.names if key in held
        ]  # fmt: skip
    if all(row.value is None for row in found):
        st.info("There is no scale: normalising needs two models with different figures on the same data set.")
        return
    draw_parts(rows, explained=False, unit="0: lowest of a data set, 1: highest")
    draw_table(normalised_table(found, shown.names), "care-normalised")
    st.caption(
        "Each part within each data set from 0 (the lowest of the models chosen) to 1 (the highest), then the mean "
        "over data sets. A data set where fewer than two models differ has no scale and is left out: a dash. Whoever "
        "is chosen beside a model moves it here; published figures are of other conversations and not among them."
    )
