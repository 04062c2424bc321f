"""The published tables as the Reproduce page shows them: an overview, and every cell of a table."""

import pandas as pd
import streamlit as st

from core.measures.reproduce.release import STATUSES, Cell, Reproduction, count
from core.measures.reproduce.remarks import reproduce
from core.store.database import Store
from pages.parts.figures import model_name
from pages.parts.look import FORMAT, QUESTION_TYPE, plain

STATUS = {
    "match": "✓ match", "misprint": "✎ misprint", "differs": "✗ differs", "not_attempted": "– not attempted"
}  # fmt: skip
_QUANTITY = {
    "mean": "Mean", "ci_low": "Lower bound", "ci_high": "Upper bound", "p_value": "p", "p_adjusted": "Adjusted p"
}  # fmt: skip


@st.cache_resource(max_entries=2, show_spinner="Recomputing every table of the paper…")
def reproduction(version: str) -> Reproduction:
    """Return all cells for one state of the database; raises ``AnamnesisError`` without a release."""
    return reproduce(Store())


def overview(result: Reproduction) -> pd.DataFrame:
    """Return a row a table: how many of its cells match, and how many not."""
    rows = []
    for number in dict.fromkeys(cell.table for cell in result.cells):
        counts = count([cell for cell in result.cells if cell.table == number])
        names = ("Match", "Misprint", "Differ", "Not attempted")
        rows.append(
            {
                "Table": number,
                "What it holds": result.titles.get(number, ""),
                **{name: counts[status] for name, status in zip(names, STATUSES, strict=True)},
            }
        )
    return pd.DataFrame(rows)


def cells_table(cells: list[Cell]) -> pd.DataFrame:
    """Return cells with plain heads; columns that are empty throughout are left out."""
    table = pd.DataFrame(
        [
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
        ]
    )
    return table.dropna(axis="columns", how="all")


def draw_remarks(result: Reproduction, number: int | None = None) -> None:
    """Draw all that is to be said of one table, or what is wrong or unclear in any, each with its evidence."""
    for remark in result.remarks:
        if remark.kind == "note" if number is None else remark.table != number:
            continue
        icon = {"misprint": ":material/edit_note:", "unclear": ":material/help:", "note": ":material/info:"}
        with st.expander(f"Table {remark.table}: {remark.title}", icon=icon[remark.kind]):
            for sentence in remark.evidence[:40]:
                st.markdown(plain(sentence))
