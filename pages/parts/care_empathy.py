"""Empathy on the CARE page: how the patients rated, what they were asked, and each rating in the rater's own words."""

from collections.abc import Sequence

import streamlit as st

from core.errors import AnamnesisError
from core.figures.shares import Segment, stacked
from core.measures.care.profile import Habits
from core.prompts import load_pack
from core.store.queries.care import Rating
from pages.parts.accuracy_view import is_dark
from pages.parts.care_charts import two_lines
from pages.parts.care_data import habits, rated
from pages.parts.care_shown import Shown, choose_row
from pages.parts.care_tables import ratings_table
from pages.parts.care_transcript import draw_conversation
from pages.parts.care_words import RATING
from pages.parts.figure_controls import ask_several
from pages.parts.figures import model_name
from pages.parts.history_shown import draw_figure
from pages.parts.look import plain
from pages.parts.stored import run_casts

_ADDRESS = "care_rating"
_PROMPT = "empathy"
_REFERENCE = "reference/"


def draw_empathy(shown: Shown) -> None:
    """Draw the distribution of the ratings, the wording that was asked, and the ratings one by one."""
    every = rated(shown.view)
    if not every:
        st.info("No patient has rated a doctor in these conversations.")
        return
    order = list(shown.names)
    rows = sorted(habits(shown.view), key=lambda h: order.index(h.seat))
    labels = [f"{two_lines(shown.names[h.seat])}<br>n = {h.conversations:,}" for h in rows]
    draw_figure(
        stacked(labels, segments(rows), "Share of conversations", "conversations", dark=is_dark()),
        "care_ratings", "Ratings of empathy from 1 to 5 by model",
    )  # fmt: skip
    st.caption(
        "Ratings of the doctor’s empathy by the patient after the conversation, 1 (worst) to 5. Where none could be "
        "read in three replies, there is none, and the conversation is not in the mean."
    )
    _draw_wording(shown, every)
    _draw_list(shown, every)


def segments(rows: Sequence[Habits]) -> list[Segment]:
    """Return the bars' parts: how often each rating was given, as share of the whole conversations."""
    found = []
    for rating, (name, colour, ink) in RATING.items():
        given = [h.conversations - sum(h.ratings.values()) if rating is None else h.ratings[rating] for h in rows]
        shares = [n / max(1, h.conversations) for n, h in zip(given, rows, strict=True)]
        found.append(Segment(name, colour, ink, shares, given))
    return found


def _draw_wording(shown: Shown, every: Sequence[Rating]) -> None:
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
        if not all(name.startswith(_REFERENCE) for name in raters):
            _draw_prompts({run for seat in shown.seats for run in seat.runs}, {r.run_id for r in every})


def _draw_prompts(known: set[str], wanted: set[str]) -> None:
    runs = [run for run in run_casts() if run.run_id in known & wanted]
    for pack, stored in dict.fromkeys((run.prompt_pack, run.prompt_hash) for run in runs):
        try:
            held = load_pack(pack, (_PROMPT,))
        except AnamnesisError as error:
            st.caption(f"The prompt of the pack {plain(pack)} cannot be shown: {plain(str(error))}")
            continue
        st.caption(
            plain(held.file_of(_PROMPT))
            + (
                ""
                if held.hash == stored
                else ". **The pack has changed since some of these ratings**: their wording may have been another."
            )
        )
        st.code(held.prompts[_PROMPT].source.strip(), language=None, wrap_lines=True)


def _draw_list(shown: Shown, every: Sequence[Rating]) -> None:
    st.subheader("The ratings one by one", anchor=False)
    seats = [shown.seat_of[rating.run_id] for rating in every]
    left, right = st.columns(2)
    held = [key for key in shown.names if key in set(seats)]
    models = ask_several(left, "Models rated", "care_rated_models", held, shown.names)
    given = {str(rating or 0): words[0] for rating, words in RATING.items()}
    offered = [key for key in given if any((r.rating or 0) == int(key) for r in every)]
    wanted = ask_several(right, "Ratings", "care_ratings_given", offered, given)
    found = [
        (rating, shown.names[seat]) for rating, seat in zip(every, seats, strict=True)
        if (not models or seat in models) and (not wanted or str(rating.rating or 0) in wanted)
    ]  # fmt: skip
    if not found:
        st.info("No rating fits: take a model or a rating away.", icon=":material/filter_alt_off:")
        return
    ratings, names = [rating for rating, _ in found], [name for _, name in found]
    ids = [rating.trial_id for rating in ratings]
    config = {"The rater’s words": st.column_config.TextColumn(width="large")}
    chosen = choose_row(ratings_table(ratings, names), ids, _ADDRESS, "care-ratings", "Ratings of empathy", config)
    if chosen is not None:
        one = ratings[ids.index(chosen)]
        value = "no rating read" if one.rating is None else f"{one.rating} of 5"
        note = f"**{plain(names[ids.index(chosen)])}** :blue-badge[Empathy: {value}]  \n“{plain(one.words)}”"
        draw_conversation(one.trial_id, None, f"{note} :gray[{plain(model_name(one.rater))}]")
