"""Home: ways to start while nothing is stored; otherwise running work, the latest result, the runs, the next steps."""

from typing import Any

import streamlit as st

from core import access
from core.callbacks import ProgressCallback, StopCallback
from core.figures.report import chart_of
from core.frameworks.base import title_of
from core.jobs.background import Job, begin, begin_all, job_at, measuring_all
from core.jobs.progress import ask_to_stop, run_state
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
)
from pages.kit.figures import draw_figure
from pages.kit.get_model import draw_offers
from pages.kit.jobs import draw_work
from pages.kit.look import STATE_ICON, duration, in_callback, plain, when
from pages.kit.names import RELEASED, model_colours, model_name, unique_names
from pages.kit.navigation import go_to, link
from pages.kit.page import running_work, show
from pages.kit.visitor import only

_LISTED = 6
_WAYS = {
    "live": (
        "Watch a consultation",
        "forum",
        "A doctor questions a patient while you watch, or you play one of them. No key is needed.",
    ),
    "debugger": (
        "Debug a case",
        "bug_report",
        "Choose or paste a case, run all its arms, and see each request, each reply and why an answer counts.",
    ),
    "models": (
        "Set up a model",
        "memory",
        "Enter a model and its address, test it with up to three calls, and use it in any seat.",
    ),
}
"""Page → title, icon and description of its link."""


def draw_home() -> None:
    """Draw the study if there are campaigns; otherwise the introduction and the published results."""
    if "trial" in st.query_params:  # a URL without a page that names a trial is a consultation
        go_to("live", **st.query_params.to_dict())
    if runs := campaigns():
        draw_study(runs)
        return
    st.markdown(
        "**Anamnesis tests clinical language models as patients meet them: in conversation.** A doctor model questions "
        "a simulated patient, a grader judges its diagnosis, and every figure links to its conversations."
    )
    draw_ways_in()
    draw_sample()
    draw_offers()
    draw_field()


def draw_ways_in() -> None:
    for column, (page, (title, icon, about)) in zip(st.columns(3), _WAYS.items(), strict=True):
        with column, st.container(border=True, height="stretch"):
            st.markdown(f"**:material/{icon}: {title}**")
            st.caption(about)
            link(page, title, "arrow_forward")


def draw_sample() -> None:
    """Draw a description of the sample study with the button that adds it, or removes it if it is stored."""
    sample_runs = [run for run in campaigns() if run.study == SAMPLE]
    with st.container(border=True):
        text, button = st.columns([4, 1], vertical_alignment="center")
        if sample_runs:
            text.markdown(
                f"**The sample study is stored:** {len(sample_runs)} runs, marked and separate from yours. Removing it "
                "also removes what was derived from it."
            )
            if button.button("Remove it", icon=":material/delete_sweep:", width="stretch", **only("manage")):
                remove_sample(Store())
                st.rerun()
            return
        text.markdown(
            "**Look at a study first.** Reference doctors and a small real model, before and after training, on the "
            "built-in cases: figures, conversations and judges to explore at once."
        )
        if button.button("Open the sample study", icon=":material/science:", width="stretch", **only("manage")):
            with st.spinner("Unpacking…"):
                add_sample(Store())
            begin_waiting(tuple(measures()))
            st.rerun()


def draw_field() -> None:
    """Draw the published accuracy of models on the same cases, as vignettes and in conversation."""
    rows = [
        row
        for row in published_rows(RELEASED.name)
        if row.label["question_type"] in ("mcq", "frq") and not row.label["model"].startswith("gpt_4v")
    ]
    models = unique_names(row.label["model"] for row in rows)
    st.header("The field, as published", anchor=False)
    layout: Any = {"series": "model", "place": "format", "panel": "question_type", "axis": "Accuracy"}
    draw_figure(
        lambda dark: chart_of(rows, kind="bars", names=models, colours=model_colours(models), dark=dark, **layout),
        "home_field",
        "Accuracy falls when the case has to be asked for",
        f"{RELEASED.title}: {RELEASED.publication.source}, supplementary tables; means of cases with 95 % intervals.",
    )
    twice = printed_twice(rows, RELEASED.name, name=model_name)
    st.caption(f"{twice} Run your model on such cases to compare it with these.".strip())
    with st.container(horizontal=True):
        link("accuracy", "All published figures", "bar_chart")
        link("data", "Bring in cases or a release", "upload_file")
        link("runs", "Run a campaign", "play_arrow")


def draw_study(runs: list[RunProgress]) -> None:
    """Draw the running work, the latest result, the runs, the missing measures, and the next steps."""
    if any(run_state(run) == "running" for run in runs) or running_work():
        draw_running_work()
    done = [run for run in runs if run.answers]
    main, side = st.columns([3, 2], gap="large")
    with main:
        if done:
            draw_result(done[0])
    with side:
        st.header("Runs", anchor=False)
        for run in runs[:_LISTED]:
            icon = STATE_ICON[run_state(run)].split("/")[1].rstrip(":")
            link("runs", plain(run_title(run)), icon, run=run.run_id)
            trials = f"{run.done:,} of {run.planned or run.done:,} trials"
            cost = cost_in_words(run).replace("unknown", "cost unknown")
            day = when(run.created_at).partition(" ")[0]
            st.caption(" · ".join([plain(day), trials, plain(cost), title_of(run.protocol)]))
        if len(runs) > _LISTED:
            link("runs", f"All {len(runs):,} runs", "list")
        if talks := ask(conversations, Selection(sources=["live"]), limit=3):
            st.header("Recent consultations", anchor=False)
            for talk in talks:
                name = plain(f"{model_name(talk.doctor)} on {talk.case_key}")
                link("live", name, "play_circle", trial=talk.trial_id)
    draw_waiting()
    if any(run.study == SAMPLE for run in runs):
        draw_sample()
    st.header("What to do next", anchor=False)
    draw_ways_in()


@st.fragment(run_every=2.0)
def draw_running_work() -> None:
    """Draw the running work with its progress, redrawn every two seconds."""
    work = running_work()
    if not work:
        st.rerun()
    st.header("Running", anchor=False)
    for item in work:
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            share = min(1.0, (item.done or 0) / item.planned) if item.planned else 0.0
            st.progress(share, text=plain(item.in_words), width="stretch")
            if item.page:
                link(item.page, "Open", "open_in_new", **item.query)
            if run := item.query.get("run"):
                st.button(
                    "Stop",
                    icon=":material/stop:",
                    key=f"home_stop_{run}",
                    on_click=in_callback(ask_to_stop),
                    args=(run,),
                    **only("run"),
                )


def draw_result(run: RunProgress) -> None:
    """Draw the accuracy of the arms of a run, with links to pages that show more."""
    st.header("Latest result", anchor=False)
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
        link("accuracy", "Compare with other models", "bar_chart")
        link("compare", "Compare two", "compare_arrows")


def counting() -> Job[dict[str, int]]:
    """Return the job that counts the unread conversations of each measure, started once for each state of the store."""
    store = Store()
    key = ("missing", str(store.path), access.visible_owner(), store.version)

    def count(tell: ProgressCallback, stop: StopCallback) -> dict[str, int]:
        return {name: n for name, measure in measures().items() if not stop() and (n := count_missing(store, measure))}

    return job_at(key) or begin(key, count)


def begin_waiting(names: tuple[str, ...]) -> None:
    begin_all(Store(), [measures()[name] for name in names])


def draw_waiting() -> None:
    """Draw the missing measures, with one button that computes all of them."""
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
            st.caption(":material/hourglass: Checking which measures are missing…")
            if not counted.running:
                st.rerun()

        wait()
        return
    waiting = counted.result
    if not waiting:
        return
    by_name = measures()
    seconds = sum(seconds_for(by_name[name], n) for name, n in waiting.items())
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        counts = ", ".join(f"{(by_name[name].title or name).lower()} of {n:,}" for name, n in waiting.items())
        st.markdown(
            f"**Not measured yet:** {plain(counts)} conversations. It takes about {duration(max(2.0, seconds))} and is "
            "done once, without a model; you can go on using the pages.",
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
