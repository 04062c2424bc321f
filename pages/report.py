"""The evaluation report of runs: what the store fills in, the fields that people write, and the file."""

import functools
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pandas as pd
import streamlit as st

from core import access
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.jobs.background import Job, begin, job_at, remove_job
from core.report.evaluation import (
    STATES,
    AnsweredPart,
    Evaluation,
    EvaluationFacts,
    State,
    evaluated,
    read_facts,
    save_texts,
    with_current_texts,
)
from core.report.first_page import HEADS
from core.report.forms import REPORT_FORMS, prompts_to_markdown
from core.report.guidelines import guideline, guidelines
from core.report.parts import PARTS
from core.store.database import Store
from pages.kit.campaigns import campaigns, run_title
from pages.kit.controls import choose, choose_several
from pages.kit.empty import draw_empty
from pages.kit.jobs import draw_work
from pages.kit.look import in_callback, plain
from pages.kit.page import draw_tabs, show
from pages.kit.visitor import only

_STATE: dict[State, str] = {
    "filled": "✓ filled",
    "to be written": "✎ to be written",
    "not applicable": "– not applicable",
}
_LABELS = {"html": ("Web page (HTML)", "html"), "md": ("Text (Markdown)", "description")}
_TITLES = {name: guideline(name, PARTS).title for name in guidelines()}


def job_key(run_ids: Sequence[str]) -> tuple[object, ...]:
    """Return the key of the job that reads the facts: visitors who see other rows have other facts."""
    return ("evaluation", Store().path, access.visible_owner(), tuple(sorted(run_ids)))


def begin_reading(run_ids: Sequence[str]) -> Job[EvaluationFacts]:
    """Read the facts of these runs in a thread, also if they were read before."""
    store, key = Store(), job_key(run_ids)
    if (earlier := job_at(key)) is not None and not earlier.running:
        remove_job(key)
    return begin(key, lambda tell, stop: read_facts(store, run_ids, tell, stop), "Evaluation report")


def draw_report() -> None:
    """Ask for runs and a guideline; draw what they fill in, or the button that reads it."""
    runs = {run.run_id: run_title(run) for run in campaigns()}
    if not runs:
        draw_empty("No run is stored yet.", CAMPAIGN, RELEASE)
        return
    chosen = _choose_runs(runs)
    name = choose("Guideline", list(_TITLES), "report_for", names=_TITLES, shape="segments")
    if not chosen:
        st.info("Choose runs. A report on several runs compares their conditions.", icon=":material/info:")
        return
    work: Job[EvaluationFacts] | None = job_at(job_key(chosen))
    if work is None:
        st.button(
            "Make the report",
            icon=":material/article:",
            type="primary",
            on_click=in_callback(begin_reading),
            args=(chosen,),
        )
        st.caption("Reads every figure of these runs, which takes some seconds, and calls no model.")
    elif work.running:
        st.fragment(draw_work, run_every=0.5)(work, "Reading", "Reading…", "report", "figures", figures=False)
    elif work.result is None:
        st.error(plain(work.error or "The report ended without a result."), icon=":material/error:")
        _draw_again(chosen)
    else:
        evaluation = evaluated(guideline(name, PARTS), with_current_texts(work.result, Store()))
        _draw_evaluation(evaluation, chosen, work.finished_at or 0.0)


def _choose_runs(titles: Mapping[str, str]) -> tuple[str, ...]:
    """Ask for runs by title, and by id if runs share one; the URL parameter ``runs`` stores the ids, with commas."""
    key, counts = "report_runs", Counter(titles.values())

    def store_choice() -> None:
        st.query_params["runs"] = ",".join(st.session_state[key])

    requested = [run_id for run_id in st.query_params.get("runs", "").split(",") if run_id in titles]
    if requested and key not in st.session_state:
        st.session_state[key] = requested
    return choose_several(
        "Runs",
        list(titles),
        key,
        names={run_id: title if counts[title] == 1 else f"{title} · {run_id}" for run_id, title in titles.items()},
        placeholder="Choose the runs of your study",
        on_change=store_choice,
        bound=False,
    )


def _draw_again(chosen: Sequence[str], read_at: float = 0.0) -> None:
    at = f"Read {datetime.fromtimestamp(read_at, UTC):%H:%M} UTC. " if read_at else ""
    st.button(
        "Read again",
        icon=":material/refresh:",
        on_click=in_callback(begin_reading),
        args=(chosen,),
        help=f"{at}Reads the figures of these runs again, with trials and verdicts that came since.",
    )


def _draw_evaluation(evaluation: Evaluation, chosen: Sequence[str], read_at: float) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        for state in STATES:
            st.metric(state.capitalize(), evaluation.count(state), width="content")
        for suffix, (mime, render) in REPORT_FORMS.items():
            label, icon = _LABELS[suffix]
            st.download_button(
                label,
                functools.partial(render, evaluation),
                f"report-{evaluation.guideline.name}.{suffix}",
                mime,
                key=f"report_take_{suffix}",
                icon=f":material/{icon}:",
                on_click="ignore",
            )
        if evaluation.prompts:
            st.download_button(
                "Prompts (Markdown)",
                functools.partial(prompts_to_markdown, evaluation),
                f"report-{evaluation.guideline.name}-prompts.md",
                "text/markdown",
                key="report_take_prompts",
                icon=":material/description:",
                on_click="ignore",
            )
        _draw_again(chosen, read_at)
    sections = {"In short": _draw_first_page, "Items and fields": _draw_items, "Figures": _draw_figures}
    draw_tabs(sections, "report_tab", evaluation)


def _draw_first_page(evaluation: Evaluation) -> None:
    """Draw the first page of the report: the question, what was compared, the result and its limits."""
    page = evaluation.first_page
    for title, lines in {"Question": page.question, "What was compared": page.compared}.items():
        st.subheader(title, anchor=False)
        st.markdown("  \n".join(map(plain, lines)))
    st.subheader("Result", anchor=False)
    if page.rows:
        st.dataframe(pd.DataFrame(page.rows, columns=list(HEADS)), hide_index=True, key="report_result")
    if page.more_rows:
        st.caption(f"{page.more_rows} more rows are in the table Accuracy.")
    st.caption("  \n".join(map(plain, page.result)))
    st.subheader("Limits", anchor=False)
    for line in page.limits:
        st.warning(plain(line), icon=":material/warning:")


def _draw_items(evaluation: Evaluation) -> None:
    """Draw the items of each section with their states, and a form with the fields that people write."""
    drawn: set[str] = set()
    for section, answers in evaluation.sections.items():
        st.header(section, anchor=False)
        table = pd.DataFrame(
            {
                "Item": answer.item.item,
                "State": _STATE[answer.state],
                "Content": answer.item.label,
                "To be written": answer.open_parts,
            }
            for answer in answers
        )
        narrow = {"Item": st.column_config.Column(width=60), "State": st.column_config.Column(width=130)}
        st.dataframe(table, hide_index=True, height="content", column_config=narrow, key=f"report_items_{section}")
        parts = {
            part.name: part
            for answer in answers
            for part in answer.parts
            if (part.written is not None or part.state == "to be written") and part.name not in drawn
        }
        drawn |= parts.keys()
        if parts:
            _draw_form(section, list(parts.values()), evaluation.facts.run_ids)


def _draw_form(section: str, parts: Sequence[AnsweredPart], run_ids: Sequence[str]) -> None:
    prefix = f"report_{hashlib.sha256(' '.join(run_ids).encode()).hexdigest()[:8]}"
    open_parts = sum(part.state == "to be written" for part in parts)
    with (
        st.expander(
            f"Fields: {open_parts} of {len(parts)} to be written",
            icon=":material/edit:",
            key=f"{prefix}_{section}_fields",  # a new number in its title does not close it
            on_change="rerun",
        ),
        st.form(f"{prefix}_{section}", border=False),
    ):
        for part in parts:
            text = part.written.text if part.written else ""
            st.text_area(part.title, text, key=f"{prefix}_{part.name}", help=part.missing or None, height=90)
            st.checkbox(
                "Does not apply; the text says why",
                value=part.written is not None and not part.written.applies,
                key=f"{prefix}_{part.name}_not",
            )
        names = tuple(part.name for part in parts)
        st.form_submit_button(
            "Save",
            icon=":material/save:",
            on_click=in_callback(_save),
            args=(prefix, names, tuple(run_ids)),
            **only("run"),
        )


def _save(prefix: str, names: Sequence[str], run_ids: Sequence[str]) -> None:
    texts = {
        name: (str(st.session_state[f"{prefix}_{name}"]), not st.session_state[f"{prefix}_{name}_not"])
        for name in names
    }
    save_texts(Store(), run_ids, texts)


def _draw_figures(evaluation: Evaluation) -> None:
    """Draw the tables of the report, each with its severe notes and its command."""
    parts = [part for answer in evaluation.items for part in answer.parts if part.name not in answer.earlier]
    for table in (table for part in (*parts, *evaluation.further) for table in part.tables):
        st.subheader(plain(table.title), anchor=False)
        for note in table.notes:
            st.warning(plain(note), icon=":material/warning:")
        frame = pd.DataFrame(table.rows, columns=list(table.heads))
        st.dataframe(frame, hide_index=True, key=f"report_table_{table.name}")
        if table.left_out:
            st.caption(f"{table.left_out:,} more rows are printed by:")
        st.code(table.command, language=None, wrap_lines=True)


if __name__ == "__main__":
    show(
        "Evaluation report",
        draw_report,
        "Your runs by the items of a reporting guideline: filled in from the store, with fields to write.",
    )
