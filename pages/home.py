"""Home: a consultation to watch, what models lose in conversation; with campaigns, the latest result and the runs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import streamlit as st

from core.datasets.library import demonstration, library
from core.figures.report import chart_of
from core.frameworks.base import title_of
from core.frameworks.casting import is_model
from core.jobs.progress import run_state
from core.live.start import start_demonstration
from core.measures.accuracy import printed_twice, published_rows
from core.models.register import own_names
from core.store.database import Store
from core.store.queries.runs import RunProgress
from core.store.queries.trials import conversations
from core.store.sample import SAMPLE, add_sample, remove_sample
from core.store.selection import Selection
from pages.kit.cached import ask
from pages.kit.campaigns import accuracy_rows, campaigns, cost_in_words, draw_accuracy, in_conversations, run_title
from pages.kit.figures import draw_figure
from pages.kit.get_model import draw_offers
from pages.kit.look import FORMAT, QUESTION_TYPE, STATE_ICON, in_callback, plain, when
from pages.kit.names import RELEASED, case_name, model_name, unique_names
from pages.kit.navigation import go_to, link
from pages.kit.page import show
from pages.kit.sessions import DEMONSTRATION, remember, watched
from pages.kit.subjects import draw_comparison_link, in_results
from pages.kit.visitor import only
from pages.kit.watched import draw_outcome, draw_players, draw_watched_chat, redrawn

_LISTED = 6
_COMPARED: Final = ("vignette", "multi_turn")


def draw_home() -> None:
    """Draw the way in while there are no campaigns of one's own, and the results or the published figure."""
    if "trial" in st.query_params:  # a URL without a page that names a trial is a consultation
        go_to("live", **st.query_params.to_dict())
    runs = campaigns()
    own_runs = [run for run in runs if run.study != SAMPLE]
    if not own_runs:
        st.markdown(
            "**Anamnesis tests clinical language models as patients meet them: in conversation.** A doctor model "
            "questions a simulated patient, and a grader judges its diagnosis."
        )
        draw_demonstration()
    tested = [run for run in own_runs if run.answers and is_model(run.doctor)]
    if not tested:
        draw_thesis(runs)
    if newest := next((run for run in own_runs if run.answers), None):
        main, side = st.columns([3, 2], gap="large")
        with main:
            draw_result(newest)
        with side:
            draw_runs(runs)
    elif runs:
        draw_runs(runs)
    if not own_runs or len(own_runs) < len(runs):
        draw_sample()
    if not own_runs or not own_names():
        draw_offers()


def draw_demonstration() -> None:
    """Draw the button that starts a consultation, and the consultation below it."""
    entry = watched(st.session_state.get(DEMONSTRATION, ""))
    if entry is None:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button(
                "Watch a consultation",
                key="home_watch",
                type="primary",
                icon=":material/play_arrow:",
                on_click=in_callback(start_next_demonstration),
                **only("run"),
            )
            st.caption("It plays here. No model, key or network is needed.")
        return
    with st.container(border=True):
        draw_players(entry)

        def draw() -> None:
            draw_outcome(entry)
            draw_watched_chat(entry, entry.session.snapshot(), height=340)
            with st.container(horizontal=True, vertical_alignment="center"):
                if not entry.session.running and st.button(
                    "Watch another",
                    key="home_watch",
                    icon=":material/play_arrow:",
                    on_click=in_callback(start_next_demonstration),
                    **only("run"),
                ):
                    st.rerun()  # the click reran only this fragment, which draws the previous consultation
                link("live", "Open with facts, differential and answers", "open_in_full", trial=entry.trial_id)

        redrawn([entry.session], draw)


def start_next_demonstration() -> None:
    """Start the demonstration case after the previous one, and show it on this page."""
    by_key = {case.case_key: case for case in library()}
    keys = list(demonstration())
    previous = watched(st.session_state.get(DEMONSTRATION, ""))
    last = previous.case.case_key if previous is not None and previous.case is not None else ""
    case = by_key[keys[(keys.index(last) + 1) % len(keys) if last in keys else 0]]
    st.session_state[DEMONSTRATION] = remember(start_demonstration(case), case).trial_id


def draw_sample() -> None:
    """Draw a description of the sample study with the button that adds it, or removes it if it is stored."""
    sample_runs = [run for run in campaigns() if run.study == SAMPLE]
    with st.container(border=True):
        text, button = st.columns([4, 1], vertical_alignment="center")
        if sample_runs:
            text.markdown(
                f"**The sample study is stored:** {len(sample_runs)} runs, marked and separate from yours. Removing it "
                "also removes its derived results."
            )
            if button.button("Remove it", icon=":material/delete_sweep:", width="stretch", **only("local")):
                remove_sample(Store())
                st.rerun()
            return
        text.markdown(
            "**A sample study.** Reference doctors and a small real model, before and after training, on the built-in "
            "cases."
        )
        if button.button("Open the sample study", icon=":material/science:", width="stretch", **only("local")):
            with st.spinner("Unpacking…"):
                add_sample(Store())
            st.rerun()


def draw_thesis(runs: Sequence[RunProgress]) -> None:
    """Draw the published accuracy of models with the whole case before them, and where they have to ask for it.

    The small model of the sample study has too few cases to show a difference, so that a sentence leads to its figures.
    """
    rows = [
        replace(row, label={part: row.label[part] for part in ("model", "format", "question_type")})  # in one panel
        for row in published_rows(RELEASED.name)
        if not row.label["model"].startswith("gpt_4v")
        and row.label["format"] in _COMPARED
        and row.label["question_type"] in ("mcq", "frq")
    ]
    models = unique_names(row.label["model"] for row in rows)
    words: dict[str, str] = {**models, **dict(FORMAT.items()), **dict(QUESTION_TYPE.items())}
    layout: Any = {"series": "format", "place": "model", "panel": "question_type", "axis": "Accuracy"}
    printed = f"Published in {RELEASED.publication.source}; means, with the 95 % intervals that it prints."
    caption = f"Vignette: the whole case at once; multi-turn: asked for. {printed}"
    draw_figure(
        lambda dark: chart_of(rows, kind="bars", names=words, colours={}, dark=dark, **layout),
        "home_field",
        "Accuracy falls when the case has to be asked for",
        caption,
    )
    st.caption(caption, help=printed_twice(rows, RELEASED.name, name=model_name) or None)
    small = (run for run in runs if run.study == SAMPLE and run.protocol == RELEASED.name and is_model(run.doctor))
    if sampled := next(small, None):
        cases = max((row.n or 0 for row in accuracy_rows(sampled.run_id)), default=0)
        link("runs", f"Sample study: {cases} cases, too few to show it", "science", run=sampled.run_id)
    with st.container(horizontal=True):
        link("accuracy", "All published figures", "bar_chart")
        link("cases", "Bring in cases or a release", "upload_file")
        link("runs", "Run a campaign", "play_arrow")


def draw_runs(runs: Sequence[RunProgress]) -> None:
    """Draw links to the newest runs, and to the newest watched consultations."""
    st.header("Runs", anchor=False)
    for run in runs[:_LISTED]:
        icon = STATE_ICON[run_state(run)].split("/")[1].rstrip(":")
        trials = f"{run.done:,} of {run.planned or run.done:,} trials"
        cost = cost_in_words(run).replace("unknown", "cost unknown")
        day = when(run.created_at).partition(" ")[0]
        with st.container(gap=None):  # the caption stands closer to its link than to the next
            link("runs", plain(run_title(run)), icon, run=run.run_id)
            st.caption(" · ".join([plain(day), trials, plain(cost), title_of(run.protocol)]))
    if len(runs) > _LISTED:
        link("runs", f"All {len(runs):,} runs", "list")
    if recent := ask(conversations, Selection(sources=["live"]), limit=3):
        st.header("Recent consultations", anchor=False)
        for conversation in recent:
            name = plain(f"{model_name(conversation.doctor)} on {case_name(conversation.case_key)}")
            link("live", name, "play_circle", trial=conversation.trial_id)


def draw_result(run: RunProgress) -> None:
    """Draw the accuracy of a run, with links to pages that show more."""
    st.header("Latest result", anchor=False)
    draw_accuracy(run, run_title(run))
    with st.container(horizontal=True):
        link("conversations", "Read its conversations", "forum", **in_conversations([run.run_id]))
        link("failures", "Why answers are wrong", "troubleshoot", **in_results(run.run_id))
        link("accuracy", "Accuracy", "bar_chart", **in_results(run.run_id))
        draw_comparison_link(run.run_id)


if __name__ == "__main__":
    show("Anamnesis", draw_home)
