"""The first figures of a large study: those of a random sample, while measuring all trials is offered as a job.

What takes a few seconds is measured without a click. The note on a sample is made by ``core.measures.notes``.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st

from core.jobs.background import Job, begin_measuring, measuring, measuring_few
from core.measures.base import Measure
from core.measures.missing import FEW, count_missing, seconds_for
from core.measures.notes import read_sample_size
from core.store.database import Store
from core.store.selection import Selection, conditions
from pages.kit.cached import cached_query, read
from pages.kit.jobs import draw_work
from pages.kit.look import duration, in_callback, plain
from pages.kit.visitor import only

SAMPLE = 500
"""Trials of a sample, over all conditions."""
_LEAST = 20
"""Trials of each condition, if so many conditions share the sample that it would have fewer."""
_QUICK_S = 4.0
"""Measuring that takes up to this many seconds in one process starts without a click."""
_WAIT_S = 3.0
"""Seconds to wait for quick measuring before its progress is drawn; a few trials are always awaited."""


def sample_of(selection: Selection) -> Selection:
    """Return the selection restricted to a random sample that is always the same."""
    number = len(read(conditions, selection))
    return replace(selection, sample=max(_LEAST, round(SAMPLE / max(1, number))))


def measured(
    measure: Measure, selection: Selection, key: str, explains: str, verb: str = "measure"
) -> Selection | None:
    """Measure the trials of a selection, or a sample if all of them take long; return the selection to show.

    Return ``None`` while measuring takes longer than a moment; its progress is drawn. If a sample is shown, a button
    that measures all trials is drawn, or the progress of this job.

    Args:
        measure: The measure whose scores the figures need.
        selection: The trials that the page is about.
        key: Prefix of the widget keys.
        explains: What is measured.
        verb: What it is called on the page ("measure", "mark").
    """
    store = Store()
    missing = _missing(selection, measure.name, measure)
    if not missing:
        return selection
    all_work = measuring(store, measure)
    takes_long = missing > SAMPLE and missing * measure.seconds_each > _QUICK_S
    shown = sample_of(selection) if takes_long else selection
    doing = f"{verb.removesuffix('e').capitalize()}ing {explains}"
    if number := _missing(shown, measure.name, measure):
        work = measuring_few(store, measure, shown)
        with st.spinner(f"{doing}…"):
            work.join(None if number <= FEW else _WAIT_S)
        if work.running:
            st.fragment(draw_work, run_every=0.5)(work, doing, f"{doing}…", key, "trials", figures=False)
            return None
        if work.error:
            st.info(plain(work.error), icon=":material/info:")
            return selection
    if takes_long:
        draw_rest(
            all_work,
            shown,
            seconds_for(measure, missing),
            lambda: begin_measuring(store, measure, selection),
            key,
            doing=doing,
            label=f"{verb.capitalize()} all",
        )
    return shown


@cached_query(entries=32)
def _missing(selection: Selection, name: str, _measure: Measure) -> int:
    return count_missing(Store(), _measure, selection)


def draw_rest(
    work: Job[Any] | None,
    sample: Selection,
    seconds: float,
    begin: Callable[[], object],
    key: str,
    *,
    doing: str,
    label: str,
) -> None:
    """Draw the button that computes the figures of a sample from all trials, or the progress of this job."""
    if work is not None and work.running:
        st.fragment(draw_work, run_every=1.0)(work, doing, "Starting…", key, "trials")
        return
    if work is not None and work.error:
        st.error(plain(work.error), icon=":material/error:")
    _, trials = read(read_sample_size, sample)
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.markdown(
            f"**Figures of all {trials:,} trials** take about {duration(max(2.0, seconds))}, once.", width="stretch"
        )
        st.button(
            label,
            icon=":material/select_all:",
            type="primary",
            on_click=in_callback(begin),
            key=f"{key}_begin",
            **only("run"),
        )
