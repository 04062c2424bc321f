"""Failures on the CARE page: how many of which kind, a list of them, and the message that shows one."""

from collections.abc import Sequence

import streamlit as st

from core.figures.shares import Segment, stacked
from core.measures.care.profile import CareProfile
from core.store.queries.care import CAUSES, FAILURES, Failure
from pages.parts.accuracy_view import is_dark
from pages.parts.care_charts import two_lines
from pages.parts.care_data import care_profiles, failed
from pages.parts.care_shown import Shown, choose_row
from pages.parts.care_tables import counts_table, failures_table, in_order
from pages.parts.care_transcript import draw_conversation
from pages.parts.care_words import CAUSE, FAILURE, FAILURE_WORDS
from pages.parts.figure_controls import CHART, ask_several, chosen_point
from pages.parts.history_shown import draw_as_table
from pages.parts.look import plain

_ADDRESS = "care_failure"
_CHART = "care_failures_chart"


def draw_failures(shown: Shown) -> None:
    """Draw the failures by kind and cause, then the list of them."""
    profiles = in_order(care_profiles(shown.view, by_dataset=False), shown.names)
    if not any(_counting(profile) for profile in profiles):
        st.info("No conversation here counts: all of them broke off, or nobody has judged their answers.")
        return
    if not any(profile.failed for profile in profiles):
        st.success("No conversation here failed: the doctor played nobody else, no conversation ended "
                   "abruptly, every answer named just one.", icon=":material/check:")  # fmt: skip
        return
    labels = [f"{two_lines(shown.names[p.seat])}<br>n = {_counting(p):,}" for p in profiles]
    st.plotly_chart(
        stacked(labels, segments(profiles), "Failures as share of conversations", "conversations", whole=False,
                dark=is_dark()),
        key=_CHART, on_select=_take_click, selection_mode="points", alt="Failures of each model by kind and cause",
        config={**CHART, "toImageButtonOptions": {"format": "svg", "filename": "care-failures"}},
    )  # fmt: skip
    kinds = " ".join(f"**{FAILURE[kind]}.** {FAILURE_WORDS[kind]}" for kind in FAILURES)
    st.caption(
        f"Click a part of a bar for its conversations. n: conversations that count. {kinds} A conversation that failed "
        "in several ways stands in each of them, and counts once in robustness."
    )
    draw_as_table(counts_table(profiles, shown.names), "care-failures")
    _draw_list(shown)


def segments(profiles: Sequence[CareProfile]) -> list[Segment]:
    """Return the bars' parts: how often each cause occurs, as share of the conversations that count."""
    return [
        Segment(
            f"{FAILURE[kind]}: {CAUSE[cause][0].lower()}" if len(CAUSES[kind]) > 1 else FAILURE[kind],
            *CAUSE[cause][1:], [p.causes[kind, cause] / max(1, _counting(p)) for p in profiles],
            [p.causes[kind, cause] for p in profiles], [(p.seat, cause) for p in profiles],
        )
        for kind in FAILURES for cause in CAUSES[kind]
    ]  # fmt: skip


def _counting(profile: CareProfile) -> int:
    return profile.trials - sum(profile.excluded.values())


def _take_click() -> None:
    """Choose the model and the cause of the part of a bar that was clicked."""
    point = chosen_point(st.session_state.get(_CHART))
    if point:
        st.session_state["care_failed_models"], st.session_state["care_causes"] = [point[1]], [point[2]]
        st.query_params.pop(_ADDRESS, None)


def _draw_list(shown: Shown) -> None:
    st.subheader("The conversations that failed", anchor=False)
    every = failed(shown.view)
    seats = {id(f): shown.seat_of[f.run_id] for f in every}
    left, right = st.columns(2)
    held = [key for key in shown.names if key in set(seats.values())]
    models = ask_several(left, "Models that failed", "care_failed_models", held, shown.names)
    known = [cause for cause in CAUSE if any(f.cause == cause for f in every)]
    causes = ask_several(right, "Causes", "care_causes", known, {cause: CAUSE[cause][0] for cause in known})
    found = [f for f in every if (not models or seats[id(f)] in models) and (not causes or f.cause in causes)]
    if not found:
        st.info("No failure fits: take a model or a cause away.", icon=":material/filter_alt_off:")
        return
    names = [shown.names[seats[id(f)]] for f in found]
    config = {"What shows it": st.column_config.TextColumn(width="large"),
              "Message": st.column_config.NumberColumn(help="The message that shows it, counted from 1.")}  # fmt: skip
    ids = [address_of(f) for f in found]
    chosen = choose_row(failures_table(found, names), ids, _ADDRESS, "care-failed", "Failures", config)
    if chosen is not None:
        place = ids.index(chosen)
        _open(found[place], names[place])


def address_of(failure: Failure) -> str:
    """Return how a failure is named in the address."""
    return f"{failure.trial_id}|{failure.kind}"


def _open(failure: Failure, model: str) -> None:
    cause = "" if len(CAUSES[failure.kind]) < 2 else f": {CAUSE[failure.cause][0].lower()}"
    note = f"**{plain(model)}** :red-badge[{FAILURE[failure.kind]}{cause}]  \n{FAILURE_WORDS[failure.kind]}"
    draw_conversation(failure.trial_id, failure.turn, note)
