"""Annotations come in from files, and all of them go out as CSV."""

import io

import streamlit as st

from core.errors import AnamnesisError
from core.measures.experts.workbooks import COLUMNS, export_annotations, import_csv
from core.store.database import Store
from core.store.review_records import QUESTIONS
from pages.parts.look import plain

_SHOWN = 20


def draw_exchange() -> None:
    """Draw the export and the import of annotations."""
    st.markdown("**Export**")
    st.download_button(
        "All annotations as CSV", _csv, "annotations.csv", "text/csv", icon=":material/download:", on_click="ignore",
        key="experts_export", help="Every answer with its history; rows of a blinded review name no model.",
    )  # fmt: skip
    st.markdown("**Import**")
    st.caption(
        f"A CSV with the columns {', '.join(COLUMNS)}: item, or model and case, may be left out. Questions are "
        f"{', '.join(QUESTIONS)}; values yes or no."
    )
    file = st.file_uploader("CSV with annotations", type="csv", key="experts_file")
    if file is not None and st.button("Take them in", icon=":material/playlist_add:", key="experts_import"):
        _import(file.getvalue())


def _csv() -> bytes:
    text = io.StringIO()
    export_annotations(Store(), text)
    return text.getvalue().encode()


def _import(content: bytes) -> None:
    try:
        found = import_csv(Store(), content)
    except AnamnesisError as error:
        st.error(plain(str(error)))
        return
    st.success(f"{found.added:,} annotations came in, {found.known:,} were here already.")
    if found.rejected:
        st.warning(f"{len(found.rejected):,} rows were left out.", icon=":material/rule:")
        lines = [{"Line": line, "Why": reason} for line, reason in found.rejected[:_SHOWN]]
        st.dataframe(lines, hide_index=True, key="experts_rejected")
