"""The editor of rubrics on Data: import, a table of criteria, warnings, versions, and download."""

import tempfile
from pathlib import Path

import pandas as pd
import streamlit as st

from core.case import Case
from core.datasets.select import cases_of, datasets
from core.errors import AnamnesisError
from core.measures.rubrics.lint import RubricWarning, lint_rubric
from core.measures.rubrics.readers import RUBRIC_FORMATS, import_rubric, rubric_from_table, rubric_table
from core.measures.rubrics.rubric import AXES, PRIORITIES, Rubric, to_yaml
from core.measures.rubrics.stored import RubricEntry, rubric_entries, save_rubric, versions_of
from core.store.database import Store
from pages.kit.cached import cached_query, read
from pages.kit.controls import choose
from pages.kit.look import counted, plain, show_errors
from pages.kit.navigation import link
from pages.kit.visitor import only

_OPEN = "rubrics"
"""URL parameter that opens the editor."""
_SAVED = "data_rubric_saved"
"""Name of a rubric that was just saved, to be chosen."""
_TYPES = ["yaml", "yml", "csv", "xlsx", "json", "jsonl", "parquet"]


def draw_rubric_editor() -> None:
    """Draw the editor of rubrics, folded up."""
    box = st.expander(
        "Rubrics", icon=":material/rule:", on_change="rerun", key="data_rubrics", expanded=_OPEN in st.query_params
    )
    if not box.open:
        return
    with box:
        entries = {entry.rubric.name: entry for entry in read(rubric_entries)}
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            names = {name: entry.rubric.title or name for name, entry in entries.items()}
            saved = st.session_state.pop(_SAVED, None)
            name = choose("Rubric", list(entries), "data_rubric", names=names, width=360, chosen=saved)
            link("rubrics", "Scores under this rubric", "monitoring", rubric=name)
        _draw_about(entries[name])
        _draw_table(entries[name].rubric)
        _draw_import()


def _draw_about(entry: RubricEntry) -> None:
    rubric = entry.rubric
    criteria = counted(sum(1 for _ in rubric.scoped()), "criterion", "criteria")
    scope = f" for {counted(len(rubric.cases), 'case')}" if rubric.cases else ""
    versions = len(read(versions_of, rubric.name))
    origin = f"{counted(versions, 'saved version')}" if entry.version else "from the program’s files"
    source = f" · {plain(rubric.source)}" if rubric.source else ""
    st.caption(f"{criteria}{scope} · version {rubric.hash[:8]} · {origin}{source}")


def _draw_table(rubric: Rubric) -> None:
    """Draw the criteria as a table to edit, of one case or all, with the warnings and the button that saves them."""
    rows = rubric_table(rubric)
    scopes = list(dict.fromkeys(row["case"] or row["specialty"] or "all cases" for row in rows))
    scope = choose("Criteria of", ["everything", *scopes], f"data_rubric_of_{rubric.name}", width=360, bound=False)
    in_scope = [row for row in rows if scope in ("everything", row["case"] or row["specialty"] or "all cases")]
    others = [row for row in rows if row not in in_scope]
    edited = st.data_editor(
        pd.DataFrame(in_scope),
        num_rows="dynamic",
        hide_index=True,
        key=f"data_rubric_edit_{rubric.name}_{rubric.hash}_{scope}",  # a new version resets the editor
        column_order=["criterion", "points", "axis", "priority", "case", "specialty", "when", "id", "source"],
        column_config={
            "case": st.column_config.TextColumn("Case", help="Key of a case; empty: see specialty."),
            "specialty": st.column_config.TextColumn("Specialty", help="Empty, and no case: for all cases."),
            "id": st.column_config.TextColumn("Id"),
            "criterion": st.column_config.TextColumn("Criterion", required=True, width="large"),
            "points": st.column_config.NumberColumn("Points", required=True, help="Negative for harm."),
            "axis": st.column_config.SelectboxColumn(
                "Axis", options=list(dict.fromkeys([*AXES, *(row["axis"] for row in rows)]))
            ),
            "priority": st.column_config.SelectboxColumn("Priority", options=list(PRIORITIES)),
            "when": st.column_config.TextColumn("Applies if", width="medium"),
            "source": st.column_config.TextColumn("Source"),
        },
    )
    records = edited.astype(object).where(edited.notna(), None).to_dict("records")
    try:
        changed = rubric_from_table([*others, *({str(k): v for k, v in row.items()} for row in records)], rubric)
    except AnamnesisError as error:
        st.error(plain(str(error)), icon=":material/edit_off:")
        return
    _draw_warnings(_warnings(changed.hash, changed))
    with st.container(horizontal=True):
        is_changed = changed.hash != rubric.hash
        if st.button(
            "Save as a new version",
            type="primary",
            icon=":material/save:",
            key="data_rubric_save",
            **only("run", disabled=not is_changed),
        ):
            _save(changed)
        st.download_button(
            "Download as YAML",
            to_yaml(changed),
            f"{rubric.name}.yaml",
            icon=":material/download:",
            key="data_rubric_get",
        )


def _draw_warnings(warnings: list[RubricWarning]) -> None:
    if warnings:
        with st.expander(counted(len(warnings), "warning"), icon=":material/rule:"):
            heads = ("Criteria of", "Criterion", "Fault", "Warning")
            st.dataframe(pd.DataFrame(warnings, columns=pd.Index(heads)), hide_index=True)
            st.caption("Rules on words, which are often wrong: a person decides.")


@cached_query(spinner=False)
def _warnings(rubric_hash: str, _rubric: Rubric) -> list[RubricWarning]:
    by_key = _cases(tuple(sorted({key.partition("/")[0] for key in _rubric.cases})))
    return lint_rubric(_rubric, by_key or None)


def _cases(names: tuple[str, ...]) -> dict[str, Case]:
    stored = set(datasets())
    return {case.case_key: case for name in names if name in stored for case in cases_of(name)}


def _draw_import() -> None:
    formats = ", ".join(rubric_format.title for rubric_format in RUBRIC_FORMATS.values())
    with st.form("data_rubric_import", border=True):
        file = st.file_uploader("Import a rubric", _TYPES, help=f"{formats}, and YAML of this project.")
        name_column, set_column = st.columns(2)
        name = name_column.text_input("Name", help="By default the file’s. An existing name gets a new version.")
        data_set = set_column.text_input(
            "Data set of the cases", help="If the file has ids of cases without a data set."
        )
        if not st.form_submit_button("Import", icon=":material/upload:", **only("run")) or file is None:
            return
    with show_errors(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / Path(file.name).name
        path.write_bytes(file.getvalue())
        imported = import_rubric(path, name.strip() or path.stem.lower(), data_set=data_set.strip())
        if imported.rejected:
            st.session_state["data_told"] = f"{counted(len(imported.rejected), 'record')} could not be read."
        _save(imported.rubric)


def _save(rubric: Rubric) -> None:
    with show_errors():
        with Store().write() as connection:
            save_rubric(connection, rubric)
        st.session_state[_SAVED] = rubric.name
        st.rerun()
