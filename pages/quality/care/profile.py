"""The four parts of CARE: a panel for each and a radar of all; by data set, normalised; static beside conversation."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.figures.marks import Mark, dots
from core.figures.radar import radar
from core.figures.scatter import Line, Spot, scatter
from core.figures.style import GREY, PALETTE, Axis
from core.frameworks.automedic.measures import across
from core.frameworks.automedic.measures.profile import (
    PARTS,
    CareProfile,
    Estimate,
    Part,
    profiles,
    read_care,
    without_blank,
)
from core.frameworks.automedic.queries import RULES, CareQuestion
from core.measures.base import Note
from core.measures.choice_rules import RULE_WORDS, RuleGap, gaps_in_words, rule_gaps
from core.models.registry import load_registry
from core.store.database import Store
from core.store.selection import Selection, staffed
from pages.kit.cached import ask, cached_query
from pages.kit.controls import choose
from pages.kit.figures import draw_conditions, draw_figure, draw_what_differs
from pages.kit.look import plain
from pages.kit.names import dataset_name, model_colours, unique_names
from pages.kit.notes import basis, draw_notes, notes_on
from pages.kit.stored import care_conditions
from pages.kit.tables import draw_table, offer_csv
from pages.kit.view import View
from pages.quality.care.tables import (
    COUNTS,
    FORMULA_NOTE,
    PART,
    PUBLISHED_SET,
    SOURCE,
    PublishedProfile,
    in_order,
    intervals_table,
    profile_table,
    published_profiles,
    published_r,
    why_excluded,
)

_HOW = {"all": "Over all", "dataset": "By data set", "normalised": "Normalised"}
_LINES = {"all": "All models", "group": "By group of models"}
_AXIS: dict[Part, tuple[float, float] | None] = {
    "accuracy": (-0.02, 1.02), "efficiency": None, "empathy": (0.18, 1.02), "robustness": (-0.02, 1.02),
}  # fmt: skip
"""Where the axes begin and end; a rating of 1 is an empathy of 0.2."""
_LONG = 24
"""Characters of a name beyond which it takes two lines."""
_AIR = 1.06
"""How far beyond the farthest whisker an axis goes on."""
_POLYGONS = 8
"""Models up to which a radar can be read."""


@cached_query("Reading the conversations…", entries=4)
def stored_trials(question: CareQuestion) -> pd.DataFrame:
    """Return a row for each trial of each condition."""
    return read_care(Store(), question)


@cached_query()
def trials(view: View) -> pd.DataFrame:
    """Return the trials that are looked at."""
    found = view.rows(stored_trials(view.questions[0]))  # type: ignore[arg-type]
    return without_blank(found) if view.without_blank else found


@cached_query("Computing intervals…", entries=32)
def care_profiles(view: View, *, by_dataset: bool) -> list[CareProfile]:
    """Return the profile of every condition in its order, over all or by data set."""
    return in_order(profiles(trials(view), "dataset" if by_dataset else None), view.names)


def rests(view: View) -> str:
    """Return what the figures of a view rest on."""
    table = trials(view)
    sets = ", ".join(map(dataset_name, sorted(table["dataset"].dropna().unique())))
    chosen = f"; {', '.join(view.specialties)}" if view.specialties else ""
    rule = RULE_WORDS.get(RULES[view.questions[0]])  # type: ignore[index]
    by = f", choices by {rule}" if rule else ""
    return f"{len(table):,} conversations on {table['case_key'].nunique():,} cases ({sets}{chosen}{by})"


@cached_query(entries=4)
def _gaps() -> list[RuleGap]:
    return rule_gaps(Store(), Selection(frameworks=staffed()))


@dataclass(frozen=True)
class Row:
    """A row of a panel: one estimate with its colour, or a heading where there is no ``colour``.

    ``open_`` dots are not ours but published; ``note`` is added to what hovering says.
    """

    label: str
    estimate: Estimate | None = None
    colour: str = ""
    open_: bool = False
    note: str = ""


def panel(
    rows: Sequence[Row], title: str, *, axis: tuple[float, float] | None = None, decimals: int = 3, dark: bool = False
) -> go.Figure:
    """Return a dot with its interval in each row; headings divide the rows. ``axis``: where it begins and ends."""
    places = {str(n): two_lines(row.label) if row.colour else f"<b>{row.label}</b>" for n, row in enumerate(rows)}
    marks = [
        Mark(str(n), e.value, e.low, e.high, "row", words=row.note, colour=row.colour, open=row.open_)
        for n, row in enumerate(rows)
        if (e := row.estimate) and row.colour
    ]
    most = max([bound for mark in marks for bound in (mark.high or mark.estimate or 0,)] or [1])
    numbers = Axis(title, axis or (0.0, _AIR * most or 1.0), "~g", None, f".{decimals}f")
    return dots(marks, {"row": ""}, {}, numbers, places=places, legend=False, dark=dark)


def two_lines(name: str) -> str:
    """Return a name for an axis: a long one is broken where its last part begins."""
    for mark, kept in ((" · ", ""), ("/", "/")):
        head, found, tail = name.rpartition(mark)
        if found and len(name) > _LONG:
            return f"{head}{kept}<br>{tail}"
    return name


def draw_profile(view: View) -> None:
    """Draw the four parts of every model, and the table with what they rest on."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        how = choose(
            "Figures",
            list(_HOW),
            "care_how",
            names=_HOW,
            shape="segments",
            help="Normalised: within each data set from 0 (the lowest model) to 1 (the highest), then the mean over "
            "data sets.",
        )
        whole = how != "normalised"
        with_printed = st.toggle(
            "Published figures", value=True, key="care_published", bind="query-params", disabled=not whole
        )
        bounds = st.toggle(
            "Intervals in the table",
            key="care_bounds",
            bind="query-params",
            disabled=not whole,
            help="95 %, cases resampled.",
        )
    if not whole:
        draw_normalised(view)
        return
    found = care_profiles(view, by_dataset=how == "dataset")
    notes = _notes(view, found)
    draw_notes(notes)
    printed = published_profiles() if with_printed else []
    names, colours = view.names, model_colours(list(view.names))
    rows: dict[Part, list[Row]] = {part: [] for part in PARTS}
    for part, held in rows.items():
        headed: str | None = None
        for profile in found:
            if profile.group is not None and profile.group != headed:
                headed = profile.group
                held.append(Row(dataset_name(headed)))
            one = profile.part(part)
            held.append(Row(names[profile.seat], one, colours[profile.seat], note=f"{one.n:,} cases"))
    draw_parts(rows, printed, f"{rests(view)}; 95 % intervals, cases resampled")
    if how == "all":
        draw_radar(found, names, colours, printed, rests(view))
    draw_table_of(found, names, printed, bounds=bounds)

    excluded, static = (
        "; ".join(
            f"{plain(names[seat])} {', '.join(f'{n:,} {why_excluded(v)}' for v, n in counts.items())}"
            for seat in names
            if (counts := sum((Counter(getattr(p, kind)) for p in found if p.seat == seat), Counter[str]()))
        )
        for kind in ("excluded", "excluded_static")
    )
    answers = f" Answers to the whole question that are left out: {static}." if static else ""
    st.caption(f"Excluded, and not counted as wrong or failed: {excluded or 'nothing'}.{answers}")
    named = {seat: name for seat, name in names.items() if any(profile.seat == seat for profile in found)}
    if len(named) > 1:
        draw_what_differs(named, care_conditions(), "these models")
    draw_conditions(named, care_conditions())


def _notes(view: View, found: Sequence[CareProfile]) -> tuple[Note, ...]:
    named = {seat: name for seat, name in view.names.items() if any(profile.seat == seat for profile in found)}
    gaps = [gap for gap in _gaps() if gap.model in named] if view.questions == ("mcq",) else []
    more = [Note("choice_rules", sentence, "high") for sentence in gaps_in_words(gaps, view.names.__getitem__)]
    return notes_on(basis(Selection(frameworks=staffed())), named, more=more)


def draw_published() -> None:
    """Draw what the paper prints, where nothing of ours is stored."""
    printed = published_profiles()
    draw_parts({part: [] for part in PARTS}, printed, "No conversation of one’s own is stored")
    draw_radar([], {}, {}, printed, "")
    draw_table_of([], {}, printed, bounds=False)


def draw_parts(
    ours: Mapping[Part, Sequence[Row]], printed: Sequence[PublishedProfile], rested: str, *, unit: str = ""
) -> None:
    """Draw a panel for each part: ours, then what is published under a heading; with how each is computed.

    Parts that are normalised are of a ``unit``, which the axis says, and are computed as that says.
    """
    source = f". {_printed_words(printed)}" if printed else ""
    for left in (0, 2):
        for column, part in zip(st.columns(2, gap="medium"), PARTS[left : left + 2], strict=True):
            name, words = PART[part]
            rows = [*ours[part], *([Row("Published")] if printed else [])]
            for p in printed:
                note = f"published, table 3: {p.conversations} conversations<br>{PUBLISHED_SET}"
                rows.append(Row(p.model, Estimate(p.values[part]), GREY, open_=True, note=note))
            axis = (-0.03, 1.03) if unit else _AXIS[part]
            with column:
                draw_figure(
                    lambda dark, rows=rows, title=unit or name, axis=axis: panel(rows, title, axis=axis, dark=dark),  # type: ignore[misc]
                    f"care_{part}",
                    name,
                    f"{rested}{source}" if unit else f"{words} {rested}{source}",
                )
                if not unit:
                    st.caption(words)


def _printed_words(printed: Sequence[PublishedProfile]) -> str:
    return (
        f"Published ({SOURCE}, table 3): {printed[0].conversations} conversations of each model that experts also "
        f"rated; {PUBLISHED_SET}. No interval is printed."
    )


def draw_radar(
    found: Sequence[CareProfile],
    names: Mapping[str, str],
    colours: Mapping[str, str],
    printed: Sequence[PublishedProfile],
    rested: str,
) -> None:
    """Draw the four parts of each model as one profile, where there are few models, each with three parts or more."""
    marks = [
        Mark(part, e.value, e.low, e.high, p.seat, words=f"{e.n:,} cases")
        for p in found
        for part in PARTS
        if (e := p.part(part)).value is not None
    ]
    marks += [Mark(part, p.values[part], series=p.model, published=True) for p in printed for part in PARTS]
    if len({mark.place for mark in marks}) < len(PARTS) - 1 or len(found) > _POLYGONS:
        return
    most = max((mark.high or mark.estimate or 0 for mark in marks if mark.place == "efficiency"), default=0) or 1
    axes = {str(part): Axis("", (0, 1)) for part in PARTS} | {"efficiency": Axis("", (0, float(f"{_AIR * most:.2g}")))}
    every = {**names, **{p.model: p.model for p in printed}}
    others = (ink for ink in PALETTE if ink not in colours.values() and ink != GREY)
    inks = {**colours, **{p.model: next(others, GREY) for p in printed}}
    spokes: dict[str, str] = {part: PART[part][0].replace(" and ", "<br>and ") for part in PARTS}
    source = _printed_words(printed) if printed else ""
    draw_figure(
        lambda dark: radar(marks, every, inks, spokes, axes=axes, dark=dark),
        "care_radar",
        "The four parts together",
        " ".join(filter(None, [f"{rested}; 95 % intervals, cases resampled." if rested else "", source])),
    )
    st.caption(
        "The same figures as above, each part along a line of its own, from the middle to the end that stands beside "
        "its name. The area means nothing: it depends on the order of the parts."
    )


def draw_table_of(
    found: Sequence[CareProfile], names: Mapping[str, str], printed: Sequence[PublishedProfile], *, bounds: bool
) -> None:
    """Draw the table of the parts, both accuracies beside them."""
    told = {
        **{PART[part][0]: PART[part][1] for part in PARTS},
        "After the conversation": "Share of right answers after the conversation, over cases with both answers.",
        "Whole question": "Share of right answers to the whole question at once, over the same cases.",
    }
    counts = {
        "Cases": "Cases with any trial.",
        "With both answers": "Cases with both answers: accuracy rests on these.",
        "Trials": "Conversations, broken ones among them.",
        "Excluded": "Trials that a provider’s failure or a refusal broke, or whose answer nobody judged: in no part.",
        "Not rated": "Conversations in which no rating could be read: not in empathy.",
    }
    columns: dict[str, Any] = {
        name: st.column_config.TextColumn(help=words)
        if bounds
        else st.column_config.NumberColumn(help=words, format="%.3f")
        for name, words in told.items()
    }
    columns |= {name: st.column_config.NumberColumn(format="localized", help=counts[name]) for name in COUNTS}
    columns["Penalty"] = st.column_config.NumberColumn(
        format="%.3f", help="Accuracy after the conversation ÷ on the whole question, at most 1."
    )
    columns["Model"] = st.column_config.TextColumn(pinned=True)
    columns["Data set"] = st.column_config.TextColumn(width=170)
    draw_table(profile_table(found, names, printed, bounds=bounds), "care", columns, height="content")
    if found:
        offer_csv(intervals_table(found, names), "care-intervals", "CSV with intervals")
    whiskers = "Whiskers: 95 %, cases resampled. " if found else ""
    source = f" Open circles and rows marked so: {_printed_words(printed)}" if printed else ""
    st.caption(f"{whiskers}{FORMULA_NOTE}{source}")


def draw_normalised(view: View) -> None:
    """Draw the parts between 0 and 1, as means over data sets."""
    found = across.normalised(care_profiles(view, by_dataset=True), ask(across.across_data_sets))
    if all(row.value is None for row in found):
        st.info("There is no scale: normalising needs two models with different figures on the same data set.")
        return
    names = unique_names(list(dict.fromkeys(row.seat for row in found)))
    colours = model_colours(list(names))
    rows = {
        part: [
            Row(
                names[row.seat],
                Estimate(row.value),
                colours[row.seat],
                note=f"mean of {row.n_datasets} data set{'s' * (row.n_datasets != 1)}",
            )
            for row in found
            if row.part == part
        ]
        for part in PARTS
    }
    draw_parts(rows, [], f"{rests(view)}; means over data sets", unit="0: lowest of a data set, 1: highest")
    lines = (
        {
            "Model": names[row.seat],
            "Part": PART[row.part][0],
            "Normalised": row.value,
            "Data sets in it": row.n_datasets,
            **{dataset_name(name): value for name, value in row.by_dataset.items()},
        }
        for row in sorted(found, key=lambda r: (list(names).index(r.seat), PARTS.index(r.part)))
    )
    draw_table(pd.DataFrame(lines), "care-normalised")
    st.caption(
        "Each part within each data set from 0 (the lowest of the models chosen) to 1 (the highest), then the mean "
        "over the data sets of a model under one condition. Several conditions of a model on one data "
        "set stay apart. A data set where fewer than two models differ has no scale and is left out: a dash. Whoever "
        "is chosen beside a model moves it here; published figures are of other conversations and not among them."
    )


def draw_scatter(view: View) -> None:
    """Draw accuracy after the conversation against accuracy on the whole question."""
    points = across.scatter(care_profiles(view, by_dataset=True), load_registry().group)
    if not points:
        arms = ",".join(f"{form}:{view.questions[0]}" for form in ("vignette", "multi_turn"))
        st.info(f"No case has both answers: run with the arms `{arms}`.")
        return
    how = choose(
        "Fitted line",
        list(_LINES),
        "care_line",
        names=_LINES,
        shape="segments",
        help="A group is what a model’s entry in models.toml says, else its provider.",
    )
    by_group = how == "group"
    every = {_LINES["all"]: across.fit(points)}
    found = across.fits(points) if by_group else every
    groups = sorted({point.group for point in points})
    names = {group: group for group in groups} if by_group else dict(view.names)
    colours = model_colours(list(names))
    spots = [
        Spot(
            p.group if by_group else p.seat,
            p.conv,
            p.static,
            kind=p.dataset,
            label=view.names[p.seat] if by_group else "",
            words=f"{dataset_name(p.dataset)}, {p.n:,} cases",
        )
        for p in points
    ]
    lines = [Line("No drop", 1.0, dotted=True)]
    for name, fit in found.items():
        if fit.slope is not None and fit.intercept is not None:
            r = "" if fit.r is None else f", r = {fit.r:.2f}"
            lines.append(Line(f"{name}: fitted line{r}", fit.slope, fit.intercept, colours.get(name, ""), series=name))
    along = Axis("Static accuracy: the whole question at once", (0, 1.02), ".1f", 0.2)
    axis = Axis("Conversational accuracy", (0, 1.02), ".1f", 0.2)
    kinds = {name: dataset_name(name) for name in sorted({p.dataset for p in points})}
    left, right = st.columns([7, 5], gap="medium")
    with left:
        draw_figure(
            lambda dark: scatter(spots, names, colours, along, axis, kinds=kinds, lines=lines, dark=dark),
            "care_scatter",
            "Accuracy after the conversation against accuracy on the whole question",
            f"A mark for each model and data set, over the cases with both answers. {rests(view)}.",
        )
    with right:
        st.caption(
            "A mark for each model and data set, over the cases with both answers. Below the dotted line the "
            "conversation lost accuracy."
        )
        heads = {"r": "r", "Low": "low", "High": "high", "Slope": "slope", "Intercept": "intercept"}
        fitted = (
            {"Models": name, "Marks": fit.n, **{head: getattr(fit, one) for head, one in heads.items()}}
            for name, fit in {**found, **every}.items()
        )
        draw_table(pd.DataFrame(fitted).astype(dict.fromkeys(heads, "float64")), "care-fits")
        st.caption(
            "Least-squares lines; r is Pearson’s with its 95 % interval by Fisher’s z, which takes the marks as "
            "independent: marks of one model or data set are not, so it is rather too narrow. **Published** for "
            f"all models and data sets of the paper ({SOURCE}): r = {published_r():.4f}."
        )
