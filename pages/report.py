"""The evaluation report of runs: what the journals fill in, the fields that people write, and the file."""

import functools
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pandas as pd
import streamlit as st

from core.report.blocks import (
    Block,
    Bullets,
    Heading,
    Listing,
    Paragraph,
    Picture,
    QuotedMessage,
    Reference,
    Report,
    Table,
    cell_text,
)
from core.report.evaluation import (
    PARTS,
    STATES,
    Evaluation,
    Part,
    State,
    evaluated,
    report_of,
    save_texts,
    with_current_texts,
)
from core.report.forms import REPORT_FORMS
from core.report.guidelines import guideline, guidelines
from core.report.making import begin_facts, facts_job
from core.store.database import Store
from pages.kit.campaigns import campaigns, run_title
from pages.kit.controls import choose, choose_several
from pages.kit.figures import draw_svg, is_dark
from pages.kit.jobs import draw_work
from pages.kit.look import in_callback, plain
from pages.kit.page import draw_sections, say_how_to_begin, show
from pages.kit.visitor import only

_STATE: dict[State, str] = {
    "filled": "✓ filled",
    "to be written": "✎ to be written",
    "not applicable": "– not applicable",
}
_LABELS = {"html": ("Web page (HTML)", "html"), "md": ("Text (Markdown)", "description"), "docx": ("Word", "article")}
_TITLES = {name: guideline(name, PARTS).title for name in guidelines()}


def draw_report() -> None:
    """Ask for runs and a guideline; draw what they fill in, or the button that reads it."""
    runs = {run.run_id: run_title(run) for run in campaigns()}
    if not runs:
        say_how_to_begin("No run is stored yet.")
        return
    chosen = _choose_runs(runs)
    name = choose("Guideline", list(_TITLES), "report_for", names=_TITLES, shape="segments")
    if not chosen:
        st.info("Choose runs. A report on several runs compares their conditions.", icon=":material/info:")
        return
    work = facts_job(Store(), chosen)
    if work is None:
        st.button(
            "Make the report",
            icon=":material/article:",
            type="primary",
            on_click=in_callback(begin_facts),
            args=(Store(), chosen),
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
        on_click=in_callback(begin_facts),
        args=(Store(), chosen),
        help=f"{at}Reads the figures of these runs again, with trials and verdicts that came since.",
    )


def _draw_evaluation(evaluation: Evaluation, chosen: Sequence[str], read_at: float) -> None:
    for column, state in zip(st.columns(3), STATES, strict=True):
        column.metric(state.capitalize(), evaluation.count(state), border=True)
    report = report_of(evaluation)
    with st.container(horizontal=True):
        for form in REPORT_FORMS.values():
            label, icon = _LABELS[form.name]
            st.download_button(
                label,
                functools.partial(form.render, report),
                f"report-{evaluation.guideline.name}.{form.name}",
                form.mime,
                key=f"report_take_{form.name}",
                icon=f":material/{icon}:",
                on_click="ignore",
            )
        _draw_again(chosen, read_at)
    draw_sections({"Items and fields": _draw_items, "The report": _draw_blocks}, "report_tab", evaluation, report)


def _draw_items(evaluation: Evaluation, report: Report) -> None:
    """Draw the items of each section with their states, and a form with the fields that people write."""
    drawn: set[str] = set()
    answered = {item.item.item: item for item in evaluation.items}
    for section, items in evaluation.guideline.sections.items():
        st.header(section, anchor=False)
        rows = [answered[item.item] for item in items]
        table = pd.DataFrame(
            {
                "Item": row.item.item,
                "State": _STATE[row.state],
                "Content": row.item.label,
                "To be written": ", ".join(part.title for part in row.parts if part.state == "to be written"),
            }
            for row in rows
        )
        narrow = {"Item": st.column_config.Column(width=60), "State": st.column_config.Column(width=130)}
        st.dataframe(table, hide_index=True, height="content", column_config=narrow, key=f"report_items_{section}")
        parts = {part.name: part for row in rows for part in row.parts if _is_written(part) and part.name not in drawn}
        drawn |= parts.keys()
        if parts:
            _draw_form(section, list(parts.values()), evaluation.facts.run_ids)


def _is_written(part: Part) -> bool:
    """Return whether people write a part: it has a text, or neither a text nor everything in the journals."""
    return part.written is not None or part.state == "to be written"


def _draw_form(section: str, parts: Sequence[Part], run_ids: Sequence[str]) -> None:
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


def _draw_blocks(evaluation: Evaluation, report: Report) -> None:
    """Draw the report as its file has it."""
    for number, block in enumerate(report.blocks):
        _draw_block(block, number)


def _draw_block(block: Block, number: int) -> None:
    match block:
        case Heading():
            mark = f" :gray-badge[{block.mark}]" if block.mark else ""
            text = f"{plain(block.text)}{mark}"
            if block.level == 2:
                st.header(text, anchor=False)
            elif block.level == 3:
                st.subheader(text, anchor=False)
            else:
                st.markdown(f"**{text}**")
        case Paragraph(tone="command"):
            st.code(block.text, language=None, wrap_lines=True)
        case Paragraph(tone="warning"):
            st.warning(plain(block.text), icon=":material/warning:")
        case Paragraph(tone="soft" | "open"):
            st.caption(plain(block.text))
        case Paragraph():
            st.markdown(plain(block.text))
        case Bullets():
            st.markdown("\n".join(f"- {plain(text)}" for text in block.items))
        case Reference():
            st.caption(plain(f"{block.before}{block.link.text}."))
        case Table():
            with st.expander(plain(block.caption or "Table"), expanded=not block.folded):
                st.dataframe(_frame(block), hide_index=True, key=f"report_table_{number}")
        case Picture():
            draw_svg(block.dark if is_dark() else block.svg, block.width, block.alternative)
            st.caption(plain(block.caption))
        case Listing():
            with st.expander(plain(block.title)):
                st.code(block.text, language=None, wrap_lines=True)
        case QuotedMessage():
            st.markdown(f"**{plain(block.speaker)}**: {plain(block.text)}")


def _frame(table: Table) -> pd.DataFrame:
    return pd.DataFrame(
        [{table.head(name): cell_text(row.get(name), name) for name in table.columns} for row in table.rows]
    )


if __name__ == "__main__":
    show(
        "Evaluation report",
        draw_report,
        "Your runs by the items of a reporting guideline: filled in from the journals, with fields to write.",
    )
