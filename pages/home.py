"""Where one begins: ways in while nothing is stored; then what goes on, what came of it, and what to do next."""

from typing import Any

import streamlit as st

from core import access
from core.callbacks import Progress, Stop
from core.figures.report import chart_of
from core.frameworks.base import title_of
from core.jobs.background import Job, begin, begin_all, job_at, measuring_all
from core.jobs.progress import ask_to_stop
from core.measures.accuracy import printed_twice, published_rows
from core.measures.missing import count_missing, seconds_for
from core.measures.registry import measures
from core.store.database import Store
from core.store.queries.runs import RunProgress
from core.store.queries.trials import conversations
from core.store.sample import SAMPLE, add_sample, remove_sample
from core.store.selection import Selection
from pages.kit.cached import ask
from pages.kit.campaigns import (
    accuracy_chart,
    accuracy_rows,
    campaigns,
    choices_by,
    cost_in_words,
    in_transcripts,
    run_title,
    state_of,
)
from pages.kit.figures import draw_figure
from pages.kit.get_model import draw_offers
from pages.kit.jobs import draw_work
from pages.kit.look import STATE_ICON, duration, in_callback, plain, when
from pages.kit.names import RELEASED, model_colours, model_name, unique_names
from pages.kit.navigation import go_to, link
from pages.kit.page import show, under_way
from pages.kit.visitor import only

_LISTED = 6
_WAYS = {
    "live": (
        "Watch a consultation",
        "forum",
        "A doctor questions a patient while you look on; you may take either seat. No key is needed.",
    ),
    "debugger": (
        "Debug a case",
        "bug_report",
        "Choose or paste one case, run every arm of it, and see what was sent, what came back and why it counts.",
    ),
    "models": (
        "Set up a model",
        "memory",
        "Enter a model and its address, test it with a call or three, and give it any seat.",
    ),
}
"""Page → what it is for, its icon, and what one does there."""


def draw_home() -> None:
    """Draw the ways in and the published field, or the study that is under way."""
    if "trial" in st.query_params:  # an address without a page is of a consultation
        go_to("live", **st.query_params.to_dict())
    if known := campaigns():
        draw_study(known)
        return
    st.markdown(
        "**Anamnesis tests clinical language models as patients meet them: in conversation.** A doctor model questions "
        "a simulated patient, a grader judges its diagnosis, and every figure leads to the words that were said."
    )
    draw_ways_in()
    draw_sample()
    draw_offers()
    draw_field()


def draw_ways_in() -> None:
    """Draw the ways in beside one another."""
    for column, (page, (title, icon, about)) in zip(st.columns(3), _WAYS.items(), strict=True):
        with column, st.container(border=True, height="stretch"):
            st.markdown(f"##### :material/{icon}: {title}")
            st.caption(about)
            link(page, title, "arrow_forward")


def draw_sample() -> None:
    """Draw what the sample study is, with the button that takes it in, or out where it is here."""
    held = [run for run in campaigns() if run.study == SAMPLE]
    with st.container(border=True):
        left, right = st.columns([4, 1], vertical_alignment="center")
        if held:
            left.markdown(
                f"**The sample study is here:** {len(held)} runs whose figures are marked as the sample’s and stand "
                "apart from your own. What was made of them goes with them."
            )
            if right.button("Remove it", icon=":material/delete_sweep:", width="stretch", **only("manage")):
                remove_sample(Store())
                st.rerun()
            return
        left.markdown(
            "**Look at a study first.** Reference doctors and a small real model, before and after training, on the "
            "cases that come with the program: figures, conversations and judges to look through at once."
        )
        if right.button("Open the sample study", icon=":material/science:", width="stretch", **only("manage")):
            with st.spinner("Unpacking…"):
                add_sample(Store())
            begin_waiting(tuple(measures()))
            st.rerun()


def draw_field() -> None:
    """Draw what is published: accuracy of models on the same cases, on paper and in conversation."""
    rows = [
        row
        for row in published_rows(RELEASED.name)
        if row.label["question_type"] in ("mcq", "frq") and not row.label["model"].startswith("gpt_4v")
    ]
    models = unique_names(row.label["model"] for row in rows)
    st.subheader("The field, as published", anchor=False)
    layout: Any = {"series": "model", "place": "format", "panel": "question_type", "axis": "Accuracy"}
    draw_figure(
        lambda dark: chart_of(rows, kind="bars", names=models, colours=model_colours(models), dark=dark, **layout),
        "home_field",
        "Accuracy falls when the case has to be asked for",
        f"{RELEASED.title}: {RELEASED.publication.source}, supplementary tables; means of cases with 95 % intervals.",
    )
    twice = printed_twice(rows, RELEASED.name, name=model_name)
    st.caption(f"{twice} Run your own model on cases of this kind, and it stands beside these.".strip())
    with st.container(horizontal=True):
        link("accuracy", "All published figures", "bar_chart")
        link("data", "Bring in cases or a release", "upload_file")
        link("runs", "Run a campaign", "play_arrow")


def draw_study(known: list[RunProgress]) -> None:
    """Draw what goes on, the newest result, the runs, what waits to be computed, and the next step."""
    if any(state_of(run) == "running" for run in known) or under_way():
        draw_going_on()
    done = [run for run in known if run.answers]
    left, right = st.columns([3, 2], gap="large")
    with left:
        if done:
            draw_result(done[0])
    with right:
        st.subheader("Runs", anchor=False)
        for run in known[:_LISTED]:
            icon = STATE_ICON[state_of(run)].split("/")[1].rstrip(":")
            link("runs", plain(run_title(run)), icon, run=run.run_id)
            trials = f"{run.done:,} of {run.planned or run.done:,} trials"
            cost = cost_in_words(run).replace("unknown", "cost unknown")
            day = when(run.created_at).partition(" ")[0]
            st.caption(" · ".join([plain(day), trials, plain(cost), title_of(run.protocol)]))
        if len(known) > _LISTED:
            link("runs", f"All {len(known):,} runs", "list")
        if found := ask(conversations, Selection(sources=["live"]), limit=3):
            st.subheader("Watched lately", anchor=False)
            for talk in found:
                name = plain(f"{model_name(talk.doctor)} on {talk.case_key}")
                link("live", name, "play_circle", trial=talk.trial_id)
    draw_waiting()
    if any(run.study == SAMPLE for run in known):
        draw_sample()
    st.subheader("What to do next", anchor=False)
    draw_ways_in()


@st.fragment(run_every=2.0)
def draw_going_on() -> None:
    """Draw what is under way, with how far it is; redrawn every two seconds."""
    found = under_way()
    if not found:
        st.rerun()
    st.subheader("Under way", anchor=False)
    for one in found:
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            share = min(1.0, (one.done or 0) / one.planned) if one.planned else 0.0
            st.progress(share, text=plain(one.in_words), width="stretch")
            if one.page:
                link(one.page, "Open", "open_in_new", **one.query)
            if run := one.query.get("run"):
                st.button(
                    "Stop",
                    icon=":material/stop:",
                    key=f"home_stop_{run}",
                    on_click=in_callback(ask_to_stop),
                    args=(run,),
                    **only("run"),
                )


def draw_result(run: RunProgress) -> None:
    """Draw what was found last: the accuracy of a run's arms, and where to read on."""
    st.subheader("Latest result", anchor=False)
    if rows := accuracy_rows(run.run_id):
        n = max(row.n or 0 for row in rows)
        draw_figure(
            lambda dark: accuracy_chart(rows, dark=dark),
            f"home_{run.run_id}",
            run_title(run),
            f"{run.doctor} on {run.case_set}: accuracy by format, n = {n:,} cases, 95 % "
            f"intervals{choices_by(rows)}; run {run.run_id}.",
        )
    with st.container(horizontal=True):
        link("transcripts", "Read its conversations", "forum", **in_transcripts([run.run_id]))
        link("failures", "Why answers are wrong", "troubleshoot")
        link("accuracy", "Beside other models", "bar_chart")
        link("compare", "Compare two", "compare_arrows")


def counting() -> Job[dict[str, int]]:
    """Return the count of conversations that each measure has not read yet, made once for each state of the store."""
    store = Store()
    key = ("missing", str(store.path), access.visible_owner(), store.version)

    def count(tell: Progress, stop: Stop) -> dict[str, int]:
        return {name: n for name, one in measures().items() if not stop() and (n := count_missing(store, one))}

    return job_at(key) or begin(key, count)


def begin_waiting(names: tuple[str, ...]) -> None:
    """Start to measure all of it."""
    begin_all(Store(), [measures()[name] for name in names])


def draw_waiting() -> None:
    """Draw what waits to be computed, with one button for all of it."""
    work = measuring_all(Store())
    if work is not None and work.running:
        st.fragment(draw_work, run_every=1.0)(work, "Measuring", "Starting…", "home", figures=False)
        return
    if work is not None and work.error:
        st.error(plain(work.error))
    counted = counting()
    if counted.running:

        @st.fragment(run_every=1.0)
        def wait() -> None:
            st.caption(":material/hourglass: Looking for what is not measured yet…")
            if not counted.running:
                st.rerun()

        wait()
        return
    waiting = counted.result
    if not waiting:
        return
    known = measures()
    seconds = sum(seconds_for(known[name], n) for name, n in waiting.items())
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        counts = ", ".join(f"{(known[name].title or name).lower()} of {n:,}" for name, n in waiting.items())
        st.markdown(
            f"**Not measured yet:** {plain(counts)} conversations. That takes about {duration(max(2.0, seconds))} "
            "once, needs no model, and is kept; pages go on meanwhile.",
            width="stretch",
        )
        st.button(
            "Measure them all",
            icon=":material/straighten:",
            type="primary",
            on_click=in_callback(begin_waiting),
            args=(tuple(waiting),),
            **only("run"),
        )


if __name__ == "__main__":
    show("Anamnesis", draw_home)
