"""Published and own results: the paper's tables recomputed, and printed figures next to this database's figures."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, get_args

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.figures.marks import Mark, dots
from core.figures.style import GREY, RISE, Axis
from core.frameworks.consultation.measures.history_taking import MEASURES
from core.frameworks.consultation.measures.published import (
    HISTORY_DOCTORS,
    HISTORY_SETS,
    PUBLICATION,
    HistorySet,
    printed_histories,
)
from core.frameworks.consultation.measures.summary import measure_rows, read_doctors
from core.jobs.background import Job
from core.jobs.reproducing import finished_tables, reproducing
from core.measures.base import Result, Row, Section
from core.measures.counterparts import COUNTERPARTS, PUBLICATIONS, counterparts
from core.measures.printed import EXPERTS_PRINTED, TESTS_PRINTED
from core.measures.reproduce.release import (
    PAPER,
    STATUSES,
    TITLES,
    PrintedNumber,
    Reproduction,
    TableName,
    count,
    title_of_table,
)
from core.measures.reproduce.remarks import NO_RELEASE, read_reproduction
from core.store.database import Store
from core.store.queries.releases import release_digest
from core.store.selection import Selection
from pages.kit.cached import ask, cached_query
from pages.kit.controls import choose, choose_several
from pages.kit.look import FORMAT, QUESTION_TYPE, in_callback, plain
from pages.kit.names import RELEASED, model_name
from pages.kit.notes import basis, notes_on
from pages.kit.page import draw_sections, show
from pages.kit.section import draw_result, draw_section, section_result
from pages.kit.tables import draw_table
from pages.kit.view import ask_selection, in_words, names_on, offered

STATUS = {
    "match": "✓ match", "misprint": "✎ misprint", "differs": "✗ differs", "not_attempted": "– not attempted"
}  # fmt: skip
_HEADS = ("Match", "Misprint", "Differ", "Not attempted")
_QUANTITY = {
    "mean": "Mean", "ci_low": "Lower bound", "ci_high": "Upper bound", "p_value": "p", "p_adjusted": "Adjusted p"
}  # fmt: skip
_PUBLISHED_AND_OWN = "Published and own"
"""Title of the second tab."""
_WAIT_S = 1.0
"""Seconds to wait for the computation before its progress is drawn."""
_ICON = {"misprint": ":material/edit_note:", "unclear": ":material/help:", "note": ":material/info:"}


@cached_query("Reading the tables…", 2)
def _stored() -> Reproduction | None:
    return read_reproduction(Store())


def draw_cells() -> None:
    """Draw the paper's tables recomputed, or how to get the release with their data."""
    digest = ask(release_digest, PAPER)
    if digest is None:
        st.info(plain(NO_RELEASE), icon=":material/upload_file:")
        st.markdown(
            "The authors' release is in their public repository. With it, this page compares each printed number with "
            "the recomputed one, and lists misprints with their evidence."
        )
        return
    if (stored := _stored()) is not None:
        _draw_tables(stored)
        return
    work = reproducing(Store(), digest)
    work.join(_WAIT_S)
    if work.running:
        tables = finished_tables(Store())
        st.fragment(_draw_progress, run_every=0.5)(work, tables is not None)
        if tables is not None:
            _draw_tables(tables)
    elif work.result is None:
        st.error(plain(work.error or "The computation ended without a result."), icon=":material/error:")
        st.button("Try again", on_click=in_callback(reproducing), args=(Store(), digest), kwargs={"again": True})
    else:
        _draw_tables(work.result)


def _draw_progress(work: Job[Reproduction], tables_drawn: bool) -> None:
    """Draw how many tests are computed; the page is redrawn when tables are finished."""
    if not work.running or (not tables_drawn and finished_tables(Store()) is not None):
        st.rerun()
    words = f"Recomputing: {work.done:,} of {work.planned:,} tests" if work.planned else "Reading the release…"
    st.progress(work.done / max(1, work.planned), text=words)


def _draw_tables(result: Reproduction) -> None:
    for column, status, name in zip(st.columns(4), STATUSES, _HEADS, strict=True):
        column.metric(name, f"{result.counts[status]:,}", border=True)
    st.caption(
        "Imported: " + ", ".join(f"{model_name(label)} ({data.cases:,} cases)" for label, data in result.models.items())
    )
    table = overview(result)
    numbers = list(dict.fromkeys(cell.table for cell in result.cells))

    def choose_table(row: int) -> None:
        st.session_state["reproduce_table"] = numbers[row]

    draw_table(table, "reproduce_overview", on_row=choose_table, height=360, download="")
    table_column, status_column = st.columns([3, 2])
    titles = {number: title_of_table(number) for number in numbers}
    number = choose("Table", list(titles), "reproduce_table", names=titles, where=table_column)
    chosen_statuses = choose_several(
        "Results", STATUSES, "reproduce_status", names=STATUS, where=status_column, placeholder="All attempted"
    )
    cells = [cell for cell in result.cells if cell.table == number and cell.status in (chosen_statuses or STATUSES[:3])]
    if cells:
        draw_table(cells_table(cells), f"{RELEASED.name}_table_{number}")
    else:
        st.caption("No cell of this table has these results. Add “not attempted” to see why.")
    _draw_remarks(result, number)
    if any(remark.kind != "note" for remark in result.remarks):
        st.header("Misprints and unclear points", anchor=False)
        _draw_remarks(result)


def overview(result: Reproduction) -> pd.DataFrame:
    """Return the number of cells of each status, in a row for each table."""
    rows = []
    for number in dict.fromkeys(cell.table for cell in result.cells):
        counts = count([cell for cell in result.cells if cell.table == number])
        numbers = {name: counts[status] for name, status in zip(_HEADS, STATUSES, strict=True)}
        rows.append({"Table": str(number) if isinstance(number, int) else "", "Title": TITLES[number], **numbers})
    return pd.DataFrame(rows)


def cells_table(cells: Sequence[PrintedNumber]) -> pd.DataFrame:
    """Return cells as a table with heads in words, without empty columns."""
    table = pd.DataFrame(
        {
            "Model": name_of_printed(cell.model) if cell.model else None,
            "Question": QUESTION_TYPE.get(cell.question_type, cell.question_type),  # type: ignore[call-overload]
            "Format": FORMAT.get(cell.format, cell.format),  # type: ignore[call-overload]
            "Specialty": cell.specialty,
            "Data set": cell.dataset,
            "Arm A": cell.arm_a,
            "Arm B": cell.arm_b,
            "Figure": words_of_figure(cell.figure) if cell.figure else _QUANTITY[cell.quantity],
            "Printed in": cell.place or None,
            "Published": cell.printed,
            "Recomputed": None if cell.recomputed is None else f"{cell.recomputed:.{cell.decimals}f}",
            "Result": STATUS[cell.status],
            "Why": cell.reason,
        }
        for cell in cells
    )
    return table.dropna(axis="columns", how="all")


def words_of_figure(name: str) -> str:
    words = name.replace("_", " ")
    return re.sub(r"\b(ai|mcq|frq)\b", lambda match: match[0].upper(), words[:1].upper() + words[1:], flags=re.I)


def name_of_printed(label: str) -> str:
    """Return the name of a printed model, or of the two models of a test; other labels in words."""
    names = [model_name(model) for model in label.split("_vs_")]
    return words_of_figure(label) if names == [label] else " and ".join(names)


def _draw_remarks(result: Reproduction, number: TableName | None = None) -> None:
    """Draw the remarks on one table; without ``number`` the errors and unclear points of all, with evidence."""
    for remark in result.remarks:
        if remark.kind == "note" if number is None else remark.table != number:
            continue
        with st.expander(f"Table {remark.table}: {remark.title}", icon=_ICON[remark.kind]):
            for sentence in remark.evidence[:40]:
                st.markdown(plain(sentence))


_Publication = Literal["paper", "text", "preprint", "tests", "experts", "history"]
_PUBLICATIONS: dict[_Publication, str] = {
    **dict(PUBLICATIONS.items()),
    "tests": "Johri et al. 2023, preprint: tests between arms",
    "experts": "Johri et al. 2025 and preprint: experts, patients and graders",
    "history": PUBLICATION,
}
_PRINTED = {"tests": TESTS_PRINTED, "experts": EXPERTS_PRINTED}
_SETS: tuple[HistorySet, ...] = get_args(HistorySet)
_SERIES = {"published": "Published", "same": "This database, same model", "other": "This database, another model"}
_COLOURS = {"published": GREY, "same": RISE, "other": "#E69F00"}


def draw_counterparts() -> None:
    """Ask for a publication and a selection; draw published and own figures, and their differences."""
    publication_column, set_column = st.columns([3, 1], vertical_alignment="bottom")
    publication = choose(
        "Publication", list(_PUBLICATIONS), "reproduce_published", names=_PUBLICATIONS, where=publication_column
    )
    dataset: HistorySet = "medqa"
    if publication == "history":
        dataset = choose("Data set", _SETS, "reproduce_printed", names=HISTORY_SETS, where=set_column)
    offers = offered()
    selection = ask_selection(offers, "models", "datasets", "specialties") if offers else Selection()
    if publication in _PRINTED:
        _draw_printed(_PRINTED[publication], selection)
        return
    if publication == "history":
        result = _histories(selection, dataset)
    else:
        result = section_result(COUNTERPARTS, selection, {"publication": publication})
    own_data = f"this database on {in_words(selection)}" if offers else "nothing is stored yet"
    draw_result(
        replace(COUNTERPARTS, caption=f"{_PUBLICATIONS[publication]}; {own_data}. {COUNTERPARTS.caption}"),
        result,
        _label_names(result.figures, names_on(selection)),
        name="published_beside_ours",
        charts={"counterparts": counterparts_chart},
    )
    st.caption(COUNTERPARTS.caption)


def _draw_printed(section: Section, selection: Selection) -> None:
    """Draw a table of printed numbers next to own ones; models and figures by name."""
    labels = [row.label for row in section_result(section, selection).figures]
    names = {name: words_of_figure(name) for label in labels if (name := label.get("figure"))}
    names |= {model: name_of_printed(model) for label in labels if (model := label["model"])}
    names |= {
        str(label[part]): arm_in_words(label[part]) for label in labels for part in ("first", "second") if part in label
    }
    draw_section(section, selection, names={**names, **names_on(selection)}, name=section.metric.name, titled=False)


def arm_in_words(arm: str) -> str:
    format_, _, question_type = arm.partition(" ")
    return f"{FORMAT.get(format_, format_)}, {QUESTION_TYPE.get(question_type, question_type)}"  # type: ignore[call-overload]


@cached_query("Computing the figures…")
def _histories(selection: Selection, dataset: HistorySet) -> Result:
    table = read_doctors(Store(), selection)
    own_rows = measure_rows(table, MEASURES) if len(table) else []
    rows = counterparts(printed_histories(dataset), own_rows)
    names = names_on(selection)
    own_names = {row["ours"]: names[row["ours"]] for row in rows if row["ours"]}
    notes = notes_on(basis(selection), own_names, published=True, compared=False)
    return Result(COUNTERPARTS.title, tuple(rows), notes)


def _label_names(rows: Sequence[Row], names: Mapping[str, str]) -> dict[str, str]:
    """Return the names of conditions, published models and measures of history taking."""
    words = dict(names)
    for row in rows:
        head, _, tail = row["measure"].partition("_")
        words[row["measure"]] = f"{head.capitalize()} {tail.upper() if len(tail) < 3 else tail}".strip()
        words[row["model"]] = names.get(row["model"]) or HISTORY_DOCTORS.get(row["model"]) or model_name(row["model"])
    return words


def counterparts_chart(rows: Sequence[Row], names: Mapping[str, str], dark: bool) -> go.Figure:
    """Return a row for each printed share: an open circle, and a dot for this database; lengths are left out."""
    marks, places = [], {}
    drawn = [row for row in rows if not row["nearest"]]
    for row in sorted(drawn, key=lambda row: not row["comparable"]):
        if row["model"] in HISTORY_DOCTORS:
            place, panel = names[row["measure"]], row["model"]
        else:
            parts = [names[row["model"]], FORMAT[row["format"]], "" if row["comparable"] else row["cases"]]
            place, panel = " · ".join(filter(None, parts)), row["question_type"]
        places[place] = place
        printed = (row["published"], row["published_low"], row["published_high"])
        marks.append(Mark(place, *printed, "published", panel, f"{row['table']}, {row['cases']}", open=True))
        if row.estimate is not None:
            series = "same" if row["same_model"] else "other"
            note = f"{names.get(row['ours'], row['ours'])}, {row.n:,} cases"
            marks.append(Mark(place, row.estimate, row.low, row.high, series, panel, note))
    panels: dict[str, str] = {**dict(QUESTION_TYPE.items()), **HISTORY_DOCTORS}
    axis = Axis("Share", (0, 1.02), ".1f", 0.2)
    return dots(marks, _SERIES, _COLOURS, axis, places=places, panels=panels, legend=True, dark=dark)


def draw_reproduce() -> None:
    # older URLs have this value
    if st.query_params.get("reproduce_tab") == "Beside ours":
        st.session_state["reproduce_tab"] = _PUBLISHED_AND_OWN
    draw_sections({"Cell by cell": draw_cells, _PUBLISHED_AND_OWN: draw_counterparts}, "reproduce_tab")


if __name__ == "__main__":
    show(
        "Reproduce",
        draw_reproduce,
        f"The tables of {RELEASED.title} ({RELEASED.publication.source}), recomputed by the paper's rules from the "
        "authors' released answers; and published figures next to those of this database.",
    )
