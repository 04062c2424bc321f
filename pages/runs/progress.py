"""How far a run is: its progress, and the buttons that stop, resume, label and delete it."""

import time
from collections.abc import Mapping
from typing import Any

import streamlit as st

from core.jobs.plan import HUMAN
from core.jobs.progress import ask_to_stop, last_status, run_state, status
from core.jobs.run import go_on, last_words
from core.store.database import Store
from core.store.queries.run_labels import delete_run, run_contents
from core.store.queries.runs import RunProgress
from pages.kit.cached import ask
from pages.kit.campaigns import draw_label
from pages.kit.look import counted, duration, in_callback, plain, store_error
from pages.kit.visitor import draw_button, only

_IN_SIGHT = """<style>
[data-testid="stLayoutWrapper"]:has(> .st-key-run_progress) {{ position: sticky; top: 3.6rem; z-index: 90; }}
.st-key-run_progress {{ background: {ground}; padding-bottom: 0.5rem; border-bottom: 1px solid {border}; }}
</style>"""


def share_of(run: RunProgress) -> float | None:
    """Return the share of a run that is done, 0 to 1, in calls as long as it is not complete; ``None`` if unknown."""
    if run.state != "complete" and (progress := last_status(run.run_id)) and "share" in progress:
        return float(progress["share"])
    return run.done / run.planned if run.planned else None


def draw_run_progress(run: RunProgress) -> None:
    """Draw how far a run is and its buttons; those of a running run stay in sight when the page is scrolled."""
    state = run_state(run)
    progress = status(run.run_id) if state == "running" else None
    if state == "running":
        theme = f"theme.{st.context.theme.type or 'light'}"
        ground, border = (st.get_option(f"{theme}.{part}Color") for part in ("background", "border"))
        st.html(_IN_SIGHT.format(ground=ground, border=border))
    with st.container(key="run_progress", gap="small"):
        if state != "complete":
            st.progress(share_of(run) or 0.0, text=progress_in_words(run, state, progress))
        _draw_buttons(run, state)
    if progress and progress["details"]:
        st.caption(plain(progress["details"]))
    if progress and progress["forecast"]:
        st.caption(f":material/query_stats: {plain(progress['forecast'])}")
    if progress and progress["trouble"]:
        st.warning(plain(progress["trouble"]), icon=":material/gavel:")


def progress_in_words(run: RunProgress, state: str, progress: Mapping[str, Any] | None) -> str:
    """Return how far a run is: its calls and the time left while it runs, what is stored once it has stopped."""
    trials = f"{run.done:,} of {format(run.planned, ',') if run.planned else '?'} trials"
    if state == "stopped" and (replies := sum(use.calls - use.failed for use in run.use.values())):
        stored = counted(replies, "reply", "replies")
        return f"Stopped: {stored} and {trials} are stored; resuming pays for none of them again"
    if progress is None:
        return f"{state.capitalize()}: {trials}"
    words = [f"{'Waiting' if progress['batch'] else 'Running'}: {trials}"]
    if progress["calls_expected"]:
        words[0] += f", {progress['calls_so_far']:,} of about {progress['calls_expected']:,} calls"
    time_left = f", about {duration(progress['seconds_left'])} left" if progress["seconds_left"] else ""
    words.append(f"{duration(time.time() - progress['started_at'])} so far{time_left}")
    return "; ".join(words)


def _draw_buttons(run: RunProgress, state: str) -> None:
    # Callbacks, because a redraw between a click and its button would lose the click.
    stopping_key, error_key = f"stopping_{run.run_id}", f"refused_{run.run_id}"

    def stop() -> None:
        ask_to_stop(run.run_id)
        st.session_state[stopping_key] = True

    def resume() -> None:
        with store_error(error_key):
            go_on(run.run_id)

    with st.container(horizontal=True, vertical_alignment="center"):
        if state == "running":
            is_stopping = bool(st.session_state.get(stopping_key))
            draw_button(
                "Stop",
                "It stops when the running calls have ended." if is_stopping else "",
                role="run",
                icon=":material/stop:",
                key=f"stop_{run.run_id}",
                on_click=in_callback(stop),
                help="Every reply is stored; the run can be resumed.",
            )
        elif state == "stopped" and run.doctor.startswith(f"{HUMAN}/"):
            st.caption("People answer this run on the page Trust, under Experts.")
        elif state == "stopped" and run.source == "local":
            st.session_state.pop(stopping_key, None)
            st.button(
                "Resume",
                icon=":material/play_arrow:",
                type="primary",
                key=f"resume_{run.run_id}",
                on_click=resume,
                **only("run"),
            )
            if error := st.session_state.get(error_key) or last_words(run.run_id):
                st.caption(plain(error))
        if state == "complete":
            st.markdown(progress_in_words(run, state, None), width="content")
        draw_label(run.run_id, f"{run.doctor} on {run.case_set}")
        if state != "running" and run.source != "release":
            draw_delete(run)
        st.caption(f"`{run.run_id}`")


def draw_delete(run: RunProgress) -> None:
    """Draw the button that deletes a run, with what is deleted and what stays."""
    error_key = f"delete_refused_{run.run_id}"

    def delete() -> None:
        with store_error(error_key):
            delete_run(Store(), run.run_id)
            st.query_params.pop("run", None)

    with st.popover("Delete", icon=":material/delete:", key=f"delete_{run.run_id}"):
        contents = ask(run_contents, run.run_id)
        deleted_counts = {
            "trials": contents.trials,
            "answers": contents.answers,
            "verdicts": contents.verdicts,
            "scores": contents.scores,
        }
        deleted_counts |= {"experts’ annotations": contents.annotations}
        st.markdown(
            f"Deleted with it: {', '.join(f'{n:,} {what}' for what, n in deleted_counts.items() if n) or 'nothing'}. "
            f"The cost of its {contents.calls:,} calls stays counted."
        )
        if contents.branches:
            st.markdown(
                f"{contents.branches:,} branches of other runs stay, without the conversations they branch off."
            )
        st.button("Delete for good", type="primary", key=f"delete_yes_{run.run_id}", on_click=delete, **only("run"))
        if error := st.session_state.get(error_key):
            st.warning(plain(error), icon=":material/error:")
