"""What is published beside what is found here: the paper's tables recomputed, and printed figures beside one's own."""

from collections.abc import Mapping, Sequence
from typing import Literal

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.errors import AnamnesisError
from core.figures.marks import Mark, dots
from core.figures.style import GREY, RISE, Axis
from core.frameworks.consultation.measures.published import (
    HISTORY_DOCTORS,
    HISTORY_SETS,
    PUBLICATION,
    printed_histories,
)
from core.frameworks.consultation.measures.summary import own_histories, read_doctors
from core.measures.counterparts import DERMATOLOGY, PUBLICATIONS, Beside, beside, own_accuracies, printed_figures
from core.measures.reproduce.release import STATUSES, Cell, Reproduction, count
from core.measures.reproduce.remarks import reproduce
from core.store.database import Store
from core.store.selection import Selection
from pages.kit.cached import cached_query
from pages.kit.controls import choose, choose_several
from pages.kit.figures import draw_figure
from pages.kit.look import FORMAT, QUESTION_TYPE, arm, plain
from pages.kit.names import RELEASED, label_of, model_name
from pages.kit.notes import basis, draw_notes, notes_on
from pages.kit.page import draw_sections, show
from pages.kit.stored import scores
from pages.kit.tables import draw_table
from pages.kit.view import View, ask_view, offers_of

STATUS = {
    "match": "✓ match", "misprint": "✎ misprint", "differs": "✗ differs", "not_attempted": "– not attempted"
}  # fmt: skip
_HEADS = ("Match", "Misprint", "Differ", "Not attempted")
_QUANTITY = {
    "mean": "Mean", "ci_low": "Lower bound", "ci_high": "Upper bound", "p_value": "p", "p_adjusted": "Adjusted p"
}  # fmt: skip
_ICON = {"misprint": ":material/edit_note:", "unclear": ":material/help:", "note": ":material/info:"}


@cached_query("Recomputing every table of the paper…", 2)
def _reproduction() -> Reproduction:
    return reproduce(Store())


def draw_cells() -> None:
    """Draw the paper's tables recomputed, or how to get the release that they are recomputed from."""
    try:
        result = _reproduction()
    except AnamnesisError as error:
        st.info(plain(str(error)), icon=":material/upload_file:")
        st.markdown(
            "The authors' release is on their public repository. With it, this page shows each printed number beside "
            "the recomputed one, and the misprints with their evidence."
        )
        return
    for column, status, name in zip(st.columns(4), STATUSES, _HEADS, strict=True):
        column.metric(name, f"{result.counts[status]:,}", border=True)
    st.caption(
        "Imported: " + ", ".join(f"{model_name(label)} ({data.cases:,} cases)" for label, data in result.models.items())
    )
    table = overview(result)

    def choose_table(row: int) -> None:
        st.session_state["reproduce_table"] = int(table["Table"].iloc[row])

    draw_table(table, "reproduce_overview", on_row=choose_table, height=360, download="")
    left, right = st.columns([3, 2])
    titles = {number: f"Table {number}: {result.titles.get(number, '')}" for number in table["Table"]}
    number = choose("Table", list(titles), "reproduce_table", names=titles, where=left)
    wanted = choose_several(
        "Results", STATUSES, "reproduce_status", names=STATUS, where=right, placeholder="All that were attempted"
    )
    cells = [cell for cell in result.cells if cell.table == number and cell.status in (wanted or STATUSES[:3])]
    if cells:
        draw_table(cells_table(cells), f"{RELEASED.name}_table_{number}")
    else:
        st.caption("No cell of this table has such a result; add “not attempted” to see why.")
    _draw_remarks(result, number)
    st.subheader("What is wrong or unclear in print", anchor=False)
    _draw_remarks(result)


def overview(result: Reproduction) -> pd.DataFrame:
    """Return a row a table: how many of its cells match, and how many not."""
    rows = []
    for number in dict.fromkeys(cell.table for cell in result.cells):
        counts = count([cell for cell in result.cells if cell.table == number])
        numbers = {name: counts[status] for name, status in zip(_HEADS, STATUSES, strict=True)}
        rows.append({"Table": number, "What it holds": result.titles.get(number, ""), **numbers})
    return pd.DataFrame(rows)


def cells_table(cells: Sequence[Cell]) -> pd.DataFrame:
    """Return cells with plain heads; columns that are empty throughout are left out."""
    table = pd.DataFrame(
        {
            "Model": model_name(cell.model) if cell.model else None,
            "Question": QUESTION_TYPE.get(cell.question_type, cell.question_type),  # type: ignore[call-overload]
            "Format": FORMAT.get(cell.format, cell.format),  # type: ignore[call-overload]
            "Specialty": cell.specialty,
            "Data set": cell.dataset,
            "Arm A": cell.arm_a,
            "Arm B": cell.arm_b,
            "Figure": _QUANTITY[cell.quantity],
            "Published": cell.printed,
            "Recomputed": cell.recomputed,
            "Result": STATUS[cell.status],
            "Why": cell.reason,
        }
        for cell in cells
    )
    return table.dropna(axis="columns", how="all")


def _draw_remarks(result: Reproduction, number: int | None = None) -> None:
    """Draw all that is to be said of one table, or what is wrong or unclear in any, each with its evidence."""
    for remark in result.remarks:
        if remark.kind == "note" if number is None else remark.table != number:
            continue
        with st.expander(f"Table {remark.table}: {remark.title}", icon=_ICON[remark.kind]):
            for sentence in remark.evidence[:40]:
                st.markdown(plain(sentence))


_Publication = Literal["paper", "preprint", "history"]
_PUBLICATIONS: dict[_Publication, str] = {**dict(PUBLICATIONS.items()), "history": PUBLICATION}
_SERIES = {"published": "Published", "same": "Ours, the same model", "other": "Ours, another model"}
_COLOURS = {"published": GREY, "same": RISE, "other": "#E69F00"}


def draw_beside() -> None:
    """Ask for a publication and for what of ours stands beside it; draw both, and the difference."""
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    publication = choose("Publication", list(_PUBLICATIONS), "reproduce_published", names=_PUBLICATIONS, where=left)
    dataset = "medqa"
    if publication == "history":
        dataset = choose("Printed of", list(HISTORY_SETS), "reproduce_printed", names=HISTORY_SETS, where=right)
    offers = offers_of(scores())
    view = ask_view(offers, "models", "datasets", "specialties") if offers else View("")
    rows, narrowed = _beside(view, publication, dataset)
    ours = "nothing is stored here yet" if not offers else f"ours on {view.in_words()}"
    ours += ", its dermatology cases alone" if narrowed else ""
    words = (
        f"{_PUBLICATIONS[publication]}; {ours}. Open circles are printed. Full dots are ours with 95 % intervals, "
        "cases resampled: the same model where it has answers, else the best one held (of lengths the nearest). "
        "Prompts, patients and cases differ unless the model and the cases are the same, so a difference is no test. "
        "Ours is left out where it cannot be told on which cases a printed figure rests."
    )
    own = {row.own.model: view.names.get(row.own.model, model_name(row.own.model)) for row in rows if row.own}
    notes = notes_on(basis(Selection()), own, published=True, compared=False)
    draw_notes(notes)
    draw_figure(
        lambda dark: beside_chart(rows, view.names, dark=dark), "published_beside_ours", "Published and ours", words
    )
    st.caption(words)
    table = pd.DataFrame(
        {
            "Model": _words(row)[0],
            "Figure": _words(row)[1],
            "Table": row.printed.table,
            "Printed of": row.printed.cases,
            "Published": row.printed.value,
            "Published, low": row.printed.low,
            "Published, high": row.printed.high,
            "Ours": view.names.get(row.own.model, model_name(row.own.model)) if row.own else None,
            "Same model": row.same_model,
            "Value": row.own.value if row.own else None,
            "Low": row.own.low if row.own else None,
            "High": row.own.high if row.own else None,
            "Cases": row.own.n_cases if row.own else None,
            "Difference": row.difference,
        }
        for row in rows
    ).astype({"Cases": "Int64", **dict.fromkeys(("Published, low", "Published, high", "Value", "Low", "High"), float)})
    signed = st.column_config.NumberColumn(format="%+.3f", help="Ours minus published.")
    draw_table(table, "published_beside_ours", {"Difference": signed})


@cached_query("Computing our figures…")
def _beside(view: View, publication: _Publication, dataset: str) -> tuple[list[Beside], bool]:
    """Return printed figures with ours; and whether ours were narrowed to dermatology, as the printed ones are."""
    if publication == "history":
        return beside(printed_histories(dataset), own_histories(view.rows(read_doctors(Store()))), label_of), False
    figures = printed_figures(publication)
    held = [s for s in scores() if view.has(s.model, s.case_key, s.dataset, s.specialty)]
    wanted = DERMATOLOGY if publication == "preprint" else ()
    narrowed = [score for score in held if score.dataset in wanted]
    return beside(figures, own_accuracies(narrowed or held), label_of), bool(narrowed)


def _words(row: Beside) -> tuple[str, str]:
    """Return whose a printed figure is and what it is, in words."""
    printed = row.printed
    what = arm(printed.format, printed.question_type)
    if printed.model in HISTORY_DOCTORS:
        head, _, tail = printed.what.partition("_")
        what = f"{head.capitalize()} {tail.upper() if len(tail) < 3 else tail}".strip()
    return HISTORY_DOCTORS.get(printed.model) or model_name(printed.model), what


def beside_chart(rows: Sequence[Beside], names: Mapping[str, str], *, dark: bool = False) -> go.Figure:
    """Return a row for each printed share, with an open circle, and a dot for ours; lengths are in the table alone."""
    marks, places = [], {}
    drawn = [row for row in rows if not row.printed.nearest]
    for row in sorted(drawn, key=lambda row: not row.printed.comparable):
        printed, (name, what) = row.printed, _words(row)
        if printed.model in HISTORY_DOCTORS:
            place, panel = what, printed.model
        else:
            of = [name, FORMAT[printed.format], "" if printed.comparable else printed.cases]
            place, panel = " · ".join(filter(None, of)), printed.question_type
        places[place] = place
        said = f"table {printed.table}, {printed.cases}"
        marks.append(Mark(place, printed.value, printed.low, printed.high, "published", panel, said, open=True))
        if (own := row.own) is not None:
            who = f"{names.get(own.model, model_name(own.model))}, {own.n_cases:,} cases"
            series = "same" if row.same_model else "other"
            marks.append(Mark(place, own.value, own.low, own.high, series, panel, who))
    panels: dict[str, str] = {**dict(QUESTION_TYPE.items()), **HISTORY_DOCTORS}
    axis = Axis("Share", (0, 1.02), ".1f", 0.2)
    return dots(marks, _SERIES, _COLOURS, axis, places=places, panels=panels, legend=True, dark=dark)


if __name__ == "__main__":
    show(
        "Reproduce",
        lambda: draw_sections({"Cell by cell": draw_cells, "Beside ours": draw_beside}, "reproduce_tab"),
        f"Every table of {RELEASED.title} ({RELEASED.publication.source}) recomputed from the authors' released "
        "answers under the paper's own rules, cell by cell; and what publications print beside the models of this "
        "database.",
    )
