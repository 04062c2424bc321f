"""Rubrics on the page Cases: import from a file, and download."""

import tempfile
from pathlib import Path

import streamlit as st

from core.judging.rubric import cases_of_rubric, to_yaml, version_of
from core.measures.rubrics.readers import import_rubric
from core.reviews.rubrics import rubric_entries, save_rubric
from core.store.database import Store
from pages.cases.importing import draw_preview
from pages.kit.cached import read
from pages.kit.controls import choose
from pages.kit.look import counted, plain, show_errors
from pages.kit.navigation import link
from pages.kit.visitor import draw_button

_IMPORTED = "cases_rubric_imported"
"""Session state key: name of a rubric that was just imported, to be chosen."""
_TYPES = ["yaml", "yml", "csv", "xlsx", "json", "jsonl", "parquet"]


def draw_rubric_files() -> None:
    """Draw the rubrics with their download and the import."""
    entries = read(rubric_entries)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        names = {name: entry.form.title for name, entry in entries.items()}
        imported = st.session_state.pop(_IMPORTED, None)
        name = choose("Rubric", list(entries), "cases_rubric", names=names, width=360, chosen=imported)
        rubric, saved = entries[name]
        st.download_button(
            "Download as YAML", to_yaml(rubric), f"{name}.yaml", icon=":material/download:", key="cases_rubric_get"
        )
        link("rubrics", "Scores under this rubric", "monitoring", rubric=name)
    criteria = counted(len(rubric.questions), "criterion", "criteria")
    cases = cases_of_rubric(rubric)
    scope = f" for {counted(len(cases), 'case')}" if cases else ""
    origin = "imported" if saved else "from the program’s files"
    source = f" · {plain(rubric.source)}" if rubric.source else ""
    st.caption(f"{criteria}{scope} · version {version_of(rubric)[:8]} · {origin}{source}")
    with st.container(border=True):
        file = st.file_uploader(
            "Import a rubric",
            _TYPES,
            key="cases_rubric_file",
            help="YAML as in the download, a table with the columns criterion and points, or HealthBench.",
        )
        if file is None:
            return
        name_column, set_column = st.columns(2)
        new_name = name_column.text_input("Name", Path(file.name).stem.lower(), key=f"cases_rubric_name_{file.file_id}")
        data_set = set_column.text_input(
            "Data set of the cases",
            key=f"cases_rubric_set_{file.file_id}",
            help="If the file has ids of cases without a data set.",
        )
        with show_errors(), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / Path(file.name).name
            path.write_bytes(file.getvalue())
            imported = import_rubric(path, new_name.strip() or path.stem.lower(), data_set=data_set.strip())
            preview = imported.preview(path.name, {name: entry.form for name, entry in read(rubric_entries).items()})
            draw_preview(preview)
            confirmed = not preview.replaces or st.checkbox(
                f"Make a new version of {plain(preview.name)}", key=f"cases_rubric_new_{preview.name}_{file.file_id}"
            )
            why_not = (
                "" if confirmed else f"There is a rubric {preview.name}: confirm the new version, or name another."
            )
            if not draw_button("Import", why_not, icon=":material/upload:", key="cases_rubric_go", role="run"):
                return
            with Store().write() as connection:
                save_rubric(connection, imported.form)
            if imported.rejected:
                st.session_state["cases_told"] = f"{counted(len(imported.rejected), 'record')} could not be read."
            st.session_state[_IMPORTED] = preview.name
            st.rerun()
