"""Failures and ratings on the part CARE, each down to the message, and how doctors converse."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from core.errors import AnamnesisError
from core.figures.shares import Segment, stacked
from core.frameworks.automedic.measures.profile import Habits, habits_of
from core.frameworks.automedic.queries import CAUSES, FAILURE_NAMES, FAILURES, Failure, Rating, failures, ratings
from core.prompts import load_pack
from core.store.database import Store
from pages.kit.cached import cached_query
from pages.kit.cases import choose_case, draw_answers_of, draw_conversation, forget
from pages.kit.controls import choose_several
from pages.kit.figures import draw_figure
from pages.kit.look import plain
from pages.kit.names import dataset_name, model_name
from pages.kit.stored import run_casts
from pages.kit.tables import draw_as_table
from pages.kit.view import View
from pages.quality.care.profile import care_profiles, rests, trials, two_lines
from pages.quality.care.tables import CAUSE, FAILURE_WORDS, RATING, case_name

_PROMPT = "empathy"
_REFERENCE = "reference/"


@cached_query()
def habits(view: View) -> list[Habits]:
    """Return how every doctor converses, in the order of names."""
    order = list(view.names)
    return sorted(habits_of(trials(view)), key=lambda one: order.index(one.seat))


@cached_query("Reading the failures…")
def failed(view: View) -> list[Failure]:
    """Return every failure, by model and case."""
    with Store().read() as cursor:
        return failures(cursor, trials(view))


@cached_query("Reading the ratings…")
def rated(view: View) -> list[Rating]:
    """Return every rating, the worst first."""
    with Store().read() as cursor:
        return ratings(cursor, trials(view))


def draw_shares(
    view: View,
    labels: Iterable[tuple[str, str]],
    segments: Sequence[Segment],
    axis: str,
    name: str,
    title: str,
    *,
    unit: str = "conversations",
    whole: bool = True,
    on_point: Callable[[Sequence[Any]], None] | None = None,
) -> None:
    """Draw a bar for each (condition, what it rests on), made of shares."""
    bars = [f"{two_lines(view.names[key])}<br>{n}" for key, n in labels]
    draw_figure(
        lambda dark: stacked(bars, segments, axis, unit, whole=whole, dark=dark),
        name,
        title,
        f"{rests(view)}.",
        on_point=on_point,
    )


def draw_failures(view: View) -> None:
    """Draw the failures by kind and cause, then the list of them."""
    found = care_profiles(view, by_dataset=False)
    counting = [p.trials - sum(p.excluded.values()) for p in found]
    if not any(counting):
        st.info("No conversation here counts: all of them broke off, or nobody has judged their answers.")
        return
    if not any(profile.failed for profile in found):
        st.success(
            "No conversation here failed: the doctor played nobody else, no conversation ended "
            "abruptly, every answer named just one.",
            icon=":material/check:",
        )
        return
    segments = [
        Segment(
            f"{FAILURE_NAMES[kind]}: {CAUSE[cause][0].lower()}" if len(CAUSES[kind]) > 1 else FAILURE_NAMES[kind],
            *CAUSE[cause][1:],
            [p.causes[kind, cause] / max(1, n) for p, n in zip(found, counting, strict=True)],
            [p.causes[kind, cause] for p in found],
            [(p.seat, cause) for p in found],
        )
        for kind in FAILURES
        for cause in CAUSES[kind]
    ]

    def take(point: Sequence[Any]) -> None:
        st.session_state["care_failed_models"], st.session_state["care_causes"] = [point[1]], [point[2]]
        forget("care_failure")

    draw_shares(
        view,
        [(p.seat, f"n = {n:,}") for p, n in zip(found, counting, strict=True)],
        segments,
        "Failures as share of conversations",
        "care_failures_chart",
        "Failures by kind and cause",
        whole=False,
        on_point=take,
    )
    kinds = " ".join(f"**{FAILURE_NAMES[kind]}.** {FAILURE_WORDS[kind]}" for kind in FAILURES)
    st.caption(
        f"Click a part of a bar for its conversations. n: conversations that count. {kinds} A conversation that failed "
        "in several ways stands in each of them, and counts once in robustness."
    )
    counts = (
        {
            "Model": view.names[p.seat],
            "Failed in any way": p.failed,
            **{FAILURE_NAMES[kind]: p.kinds[kind] for kind in FAILURES},
            **{
                f"{FAILURE_NAMES[kind]}: {CAUSE[cause][0].lower()}": n
                for (kind, cause), n in p.causes.items()
                if kind != "role_breaking"
            },
            "Trials that count": counted,
            "Excluded": p.trials - counted,
        }
        for p, counted in zip(found, counting, strict=True)
    )
    draw_as_table(pd.DataFrame(counts), "care-failures")

    st.subheader("The conversations that failed", anchor=False)
    every = failed(view)
    left, right = st.columns(2)
    held = [key for key in view.names if any(f.model == key for f in every)]
    models = choose_several("Models that failed", held, "care_failed_models", names=view.names, where=left)
    known = [cause for cause in CAUSE if any(f.cause == cause for f in every)]
    causes = choose_several("Causes", known, "care_causes", names=lambda cause: CAUSE[cause][0], where=right)
    listed = [f for f in every if (not models or f.model in models) and (not causes or f.cause in causes)]
    if not listed:
        st.info("No failure fits: remove a model or a cause.", icon=":material/filter_alt_off:")
        return
    st.caption(f"{len(listed):,} rows. Choose one to read its conversation.")
    columns = {
        "What shows it": st.column_config.TextColumn(width="large"),
        "Message": st.column_config.NumberColumn(help="The message that shows it, counted from 1."),
        "Trial": None,
    }
    ids = [f"{f.trial_id}|{f.kind}" for f in listed]
    table = pd.DataFrame(
        {
            "Case": case_name(f.case_key),
            "Data set": dataset_name(f.dataset),
            "Failure": FAILURE_NAMES[f.kind],
            "Cause": CAUSE[f.cause][0],
            "Message": None if f.turn is None else f.turn + 1,
            "What shows it": f.quote,
            "Model": view.names[f.model],
            "Trial": f.trial_id,
        }
        for f in listed
    ).astype({"Message": "Int64"})
    chosen = choose_case(table, "care-failed", "care_failure", columns, ids=ids, download="Download as CSV")
    if chosen is not None:
        one = listed[ids.index(chosen)]
        cause = "" if len(CAUSES[one.kind]) < 2 else f": {CAUSE[one.cause][0].lower()}"
        named = f"**{plain(view.names[one.model])}** :red-badge[{FAILURE_NAMES[one.kind]}{cause}]"
        draw_conversation(
            one.trial_id,
            "care",
            draw_answers_of,
            turn=one.turn,
            note=f"{named}  \n{FAILURE_WORDS[one.kind]}",
            here=f":material/arrow_downward: Message {(one.turn or 0) + 1}, the one that shows it",
        )


def draw_empathy(view: View) -> None:
    """Draw the distribution of the ratings, the wording that was asked, and the ratings one by one."""
    every = rated(view)
    if not every:
        st.info("No patient has rated a doctor in these conversations.")
        return
    rows = habits(view)
    segments = []
    for rating, (name, colour, ink) in RATING.items():
        given = [h.conversations - sum(h.ratings.values()) if rating is None else h.ratings[rating] for h in rows]
        shares = [n / max(1, h.conversations) for n, h in zip(given, rows, strict=True)]
        segments.append(Segment(name, colour, ink, shares, given))
    draw_shares(
        view,
        [(h.seat, f"n = {h.conversations:,}") for h in rows],
        segments,
        "Share of conversations",
        "care_ratings",
        "Ratings of empathy from 1 to 5 by model",
    )
    st.caption(
        "Ratings of the doctor’s empathy by the patient after the conversation, 1 (worst) to 5. Where none could be "
        "read in three replies, there is none, and the conversation is not in the mean."
    )
    draw_wording(view, every)

    st.subheader("The ratings one by one", anchor=False)
    left, right = st.columns(2)
    held = [key for key in view.names if any(r.model == key for r in every)]
    models = choose_several("Models rated", held, "care_rated_models", names=view.names, where=left)
    told = {str(rating or 0): words[0] for rating, words in RATING.items()}
    offered = [key for key in told if any(str(r.rating or 0) == key for r in every)]
    wanted = choose_several("Ratings", offered, "care_ratings_given", names=told, where=right)
    listed = [r for r in every if (not models or r.model in models) and (not wanted or str(r.rating or 0) in wanted)]
    if not listed:
        st.info("No rating fits: remove a model or a rating.", icon=":material/filter_alt_off:")
        return
    st.caption(f"{len(listed):,} rows. Choose one to read its conversation.")
    columns = {"The rater’s words": st.column_config.TextColumn(width="large"), "Trial": None}
    table = pd.DataFrame(
        {
            "Rating": r.rating,
            "The rater’s words": r.words,
            "Case": case_name(r.case_key),
            "Data set": dataset_name(r.dataset),
            "Model": view.names[r.model],
            "Rated by": model_name(r.rater),
            "Trial": r.trial_id,
        }
        for r in listed
    ).astype({"Rating": "Int64"})
    chosen = choose_case(table, "care-ratings", "care_rating", columns, of="Trial", download="Download as CSV")
    if chosen is not None:
        one = next(r for r in listed if r.trial_id == chosen)
        value = "no rating read" if one.rating is None else f"{one.rating} of 5"
        named = f"**{plain(view.names[one.model])}** :blue-badge[Empathy: {value}]"
        note = f"{named}  \n“{plain(one.words)}” :gray[{plain(model_name(one.rater))}]"
        draw_conversation(one.trial_id, "care", draw_answers_of, note=note)


def draw_wording(view: View, every: Sequence[Rating]) -> None:
    """Draw what the raters were asked, from the prompt pack of the runs; a reference patient rates by rule."""
    raters = list(dict.fromkeys(rating.rater for rating in every))
    with st.expander("What the rater was asked", icon=":material/format_quote:"):
        st.markdown(f"Rated by {plain(', '.join(model_name(name) for name in raters))}, as the patient.")
        if any(name.startswith(_REFERENCE) for name in raters):
            st.caption(
                "The reference patient asks no model. It begins at 2 and adds 1 each for a query about feelings, for "
                "courtesy in a quarter of the queries and for an open question; it takes off 1 each for more than one "
                "technical word in twenty and for a repeated query."
            )
        if all(name.startswith(_REFERENCE) for name in raters):
            return
        wanted = {rating.run_id for rating in every}
        packs = dict.fromkeys((run.prompt_pack, run.prompt_hash) for run in run_casts() if run.run_id in wanted)
        for pack, stored in packs:
            try:
                held = load_pack(pack, (_PROMPT,))
            except AnamnesisError as error:
                st.caption(f"The prompt of the pack {plain(pack)} cannot be shown: {plain(str(error))}")
                continue
            changed = ". **The pack has changed since some of these ratings**: their wording may have been another."
            st.caption(plain(held.file_of(_PROMPT)) + ("" if held.hash == stored else changed))
            st.code(held.prompts[_PROMPT].source.strip(), language=None, wrap_lines=True)
