"""Makes profiles for the cases of a data set, by rule or with a model, in the background: progress, stop, outcome."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from core.case import Case
from core.errors import AnamnesisError
from core.frameworks.casting import is_model
from core.jobs.profiling import Made, begin_making, estimate, pending, work_key
from core.store.database import Store
from core.text.profile_rules import MADE_BY
from core.work import Work, work_at
from pages.parts.data_sets import Line
from pages.parts.data_words import counted, maker_words, reason_words
from pages.parts.look import money, plain
from pages.parts.setup import OTHER, ask_address, ask_seat, registry
from pages.parts.work_progress import draw_estimate, draw_work

BY_RULE = "reference/profiler"
"""Stands among the makers for the rules."""
_MOST_FAILURES = 200


def draw_making(name: str, held: Sequence[Line]) -> None:
    """Draw the work on this data set while it is under way, else what came of the last and the way to begin anew."""
    work = work_at(work_key(name))
    if work is not None and work.running:
        st.fragment(draw_work, run_every=1.0)(work, "Making profiles", "Looking for cases…", "data_make", "cases")
        return
    if work is not None:
        _draw_outcome(work)
    looked_at = any(line.word is not None for line in held)
    with st.expander("Make profiles", icon=":material/person_add:", expanded=not looked_at, key="data_make_box"):
        _ask(name, [line.case for line in held])


def _ask(name: str, cases: Sequence[Case]) -> None:
    left, right = st.columns(2)
    with left:
        maker = ask_seat("data", "profiler", label="Made by", kinds=(BY_RULE,))
    by_model = is_model(maker)
    with right:
        address = ask_address("data") if by_model else None
    if not by_model:
        st.caption(
            "The rules read the vignette, sort its sentences, and fill in past history, family history and lifestyle "
            "in neutral words where nothing is said of them. They need no model and no key."
        )
    again = st.checkbox(
        "Also where this maker has been before", key="data_make_again", help="A new version then counts for the case."
    )
    try:
        known = (registry().spec(maker).name if by_model else MADE_BY) if maker != OTHER else None
        problem = _problem(maker, address) if by_model else None
        todo = pending(Store(), cases, known, again=again) if known else []
    except AnamnesisError as error:
        known, problem, todo = None, str(error), []
    if problem:
        st.warning(plain(problem), icon=":material/key:")
    if by_model and known and todo:
        draw_estimate(estimate(todo, maker, registry(), of=len(cases), base_url=address))
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button(
            f"Make profiles of {counted(len(todo), 'case')}", type="primary", icon=":material/person_add:",
            key="data_make_go", disabled=not todo or bool(problem),
        )  # fmt: skip
        if todo:
            done = f"{len(cases) - len(todo):,} of {len(cases):,} are done. " if len(todo) < len(cases) else ""
            st.caption(f"{done}It goes on in the background; what is made by then is kept when it is stopped.")
        elif cases:
            st.caption("This maker has looked at every case.")
    if pressed:
        begin_making(Store(), name, todo, maker if by_model else None, again=True, base_url=address)
        st.rerun()


def _problem(model: str, address: str | None) -> str | None:
    """Return what keeps a model from being asked, or ``None``."""
    if model == OTHER:
        return "Name the model first."
    missing = registry().missing_key(model, base_url=address)
    if missing:
        return f"{model} needs a key: set the environment variable {missing} and start the dashboard again."
    return None


def _draw_outcome(work: Work[Any]) -> None:
    """Draw what came of the work that is over."""
    if work.error:
        st.error(plain(work.error), icon=":material/cloud_off:")
    made = work.result
    if not isinstance(made, Made):
        return
    st.success(outcome_words(made), icon=":material/check:") if made.made else None
    if made.gave_up:
        st.error(plain(f"{made.gave_up} What was made until then is kept."), icon=":material/cloud_off:")
    if made.failures:
        with st.expander(f"{counted(len(made.failures), 'case')} without a profile, and why", icon=":material/report:"):
            rows = [{"Case": one.case_key.partition("/")[2], "Why": one.why} for one in made.failures[:_MOST_FAILURES]]
            st.dataframe(rows, hide_index=True)
            st.caption(
                "A failure says nothing about the case: it is not counted as unsuitable, and can be tried again."
            )


def outcome_words(made: Made) -> str:
    """Return in a sentence or two what came of it."""
    reasons = ", ".join(f"{reason_words(reason).lower()}: {number:,}" for reason, number in made.reasons.items())
    words = [f"{maker_words(made.made_by)}: {counted(made.made, 'case')} looked at, {made.suitable:,} suitable."]
    words += [f"Not suitable: {reasons}."] if reasons else []
    words += [f"{counted(made.dropped, 'fact')} did not hold and were left out."] if made.dropped else []
    words += [f"{counted(made.remaining, 'case')} left."] if made.remaining else []
    if made.calls:
        cost = "cost unknown" if made.cost_usd is None else money(made.cost_usd)
        words.append(f"{counted(made.calls, 'call')}, {cost}.")
    return plain(" ".join(words))
