"""What one does with a run: name it, note something of it, delete it, and go on to what came of it."""

import time
from io import BytesIO
from typing import Any

import orjson
import pyarrow.csv
import streamlit as st

from core.errors import AnamnesisError
from core.export.run_report import report_of
from core.jobs.regrade import FREE
from core.spreadsheets import inert_table
from core.store.database import Store
from core.store.queries.labels import delete_run, held_by
from core.store.queries.transcripts import results, transcripts
from core.store.runs import RunProgress
from core.store.selection import Selection
from pages.kit.cached import ask
from pages.kit.campaigns import in_transcripts, label_of_run
from pages.kit.look import duration, plain
from pages.kit.names import model_name
from pages.kit.navigation import link
from pages.kit.visitor import only


def time_in_words(told: dict[str, Any] | None) -> str:
    """Return how long a run has been under way, and about how long it still takes; empty where it is not."""
    if not told or "started_at" not in told:
        return ""
    since = time.time() - told["started_at"]
    left = since / told["done_here"] * (told["planned"] - told["done"]) if told["done_here"] else None
    return f"{duration(since)} so far" + (f", about {duration(left)} left" if left else "")


def draw_note(run: RunProgress) -> None:
    """Draw the tags and the note of a run, where it has any."""
    held = label_of_run(run.run_id)
    if held.tags:
        st.markdown(" ".join(f":gray-badge[{plain(tag)}]" for tag in held.tags))
    if held.note:
        st.caption(f":material/sticky_note_2: {plain(held.note)}")


def draw_delete(run: RunProgress) -> None:
    """Draw the way to delete a run, with what goes with it and what stays."""
    refused = f"delete_refused_{run.run_id}"

    def delete() -> None:
        try:
            delete_run(Store(), run.run_id)
            st.query_params.pop("run", None)
        except AnamnesisError as error:
            st.session_state[refused] = str(error)

    with st.popover("Delete", icon=":material/delete:", key=f"delete_{run.run_id}"):
        held = ask(held_by, run.run_id)
        goes = {"trials": held.trials, "answers": held.answers, "verdicts": held.verdicts, "scores": held.scores}
        goes |= {"experts’ annotations": held.annotations}
        st.markdown(
            f"With it go {', '.join(f'{n:,} {what}' for what, n in goes.items() if n) or 'no answers'}. "
            f"What its {held.calls:,} calls cost stays counted."
        )
        if held.branches:
            st.markdown(f"{held.branches:,} branches of other runs stay, without the conversations they came from.")
        st.button("Delete for good", type="primary", key=f"delete_yes_{run.run_id}", on_click=delete, **only("edit"))
        if words := st.session_state.get(refused):
            st.warning(plain(words), icon=":material/error:")


def draw_ways_on(run: RunProgress) -> None:
    """Draw where the answers of a run are read, compared, graded again and taken out."""
    run_id = run.run_id
    with st.container(horizontal=True, vertical_alignment="center"):
        link("accuracy", "Beside other models", "bar_chart")
        link("transcripts", "Its conversations", "forum", **in_transcripts([run_id]))
        link("failures", "Why answers are wrong", "troubleshoot")
        link("compare", "Compare with another run", "compare_arrows")
        if any(question_type in FREE for _, question_type in run.arms):
            link(
                "graders",
                "Grade again",
                "rule",
                graders_tab="Grade again",
                graders_again_runs=f"{model_name(run.doctor)} · {run_id}",
            )
        with st.popover("Export", icon=":material/download:", key=f"export_{run_id}"):
            st.download_button(
                "Report (Markdown)",
                lambda: report_of(Store(), run_id),
                f"{run_id}-report.md",
                "text/markdown",
                key=f"export_report_{run_id}",
                on_click="ignore",
            )
            st.download_button(
                "Answers and verdicts (CSV)",
                lambda: _answers_csv(run_id),
                f"{run_id}-answers.csv",
                "text/csv",
                key=f"export_csv_{run_id}",
                on_click="ignore",
            )
            st.download_button(
                "Conversations (JSON Lines)",
                lambda: _conversations_lines(run_id),
                f"{run_id}-conversations.jsonl",
                "application/jsonl",
                key=f"export_jsonl_{run_id}",
                on_click="ignore",
            )


def _answers_csv(run_id: str) -> bytes:
    held = BytesIO()
    with Store().read() as cursor:
        pyarrow.csv.write_csv(inert_table(results(cursor, Selection(runs=[run_id]))), held)
    return held.getvalue()


def _conversations_lines(run_id: str) -> bytes:
    with Store().read() as cursor:
        return b"".join(orjson.dumps(line) + b"\n" for line in transcripts(cursor, run_id))
