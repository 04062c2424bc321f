"""The record of a data set: where it came from, which rows were rejected, its licence; and the way to delete it."""

import streamlit as st

from core.datasets import imported
from core.datasets.imported import DatasetInfo
from core.datasets.library import DATASET as LIBRARY
from core.errors import AnamnesisError
from core.store.database import Store
from core.store.queries.cases import delete_profiles
from pages.parts.data_import import remarks_table
from pages.parts.data_list import format_title, imported_at
from pages.parts.data_sets import Overview, lines, saved_of
from pages.parts.data_words import counted, maker_words
from pages.parts.figure_controls import dataset_name
from pages.parts.look import plain

_PICTURES_GO = " Their pictures go, but for those that another data set has too."


def draw_about(shown: Overview) -> None:
    """Draw the record of a data set; of an imported one also what can be changed about it."""
    rows = {"Format": format_title(shown), "Cases": f"{shown.cases:,}", "Specialties": ", ".join(shown.specialties)}
    if shown.info is not None:
        when = imported_at(shown)
        rows |= {"File": shown.info.file_name, "Imported": f"{when:%Y-%m-%d %H:%M} UTC" if when else ""}
    st.markdown("  \n".join(f"**{label}:** {plain(text)}" for label, text in rows.items() if text))
    if shown.name == LIBRARY:
        st.markdown(f"**Source:** {plain(shown.source)}  \n**Licence:** {plain(shown.licence)}")
        st.caption("The library comes with Anamnesis and can be neither changed nor deleted here.")
        return
    _ask_rights(shown)
    if shown.info is not None:
        _draw_rows(shown.info)
    draw_delete(shown)


def draw_delete(shown: Overview) -> None:
    """Draw the way to delete a data set."""
    with st.popover("Delete this data set…", icon=":material/delete:", key="data_delete"):
        _ask_delete(shown)


def _ask_rights(shown: Overview) -> None:
    """Let source and licence be corrected; they are no part of what a result depends on."""
    with st.form(f"data_rights_{shown.name}", border=True):
        source = st.text_input("Source", shown.source, help="Where the cases come from: a paper, a page, a clinic.")
        licence = st.text_input("Licence", shown.licence, help="Under which terms they may be used.")
        if st.form_submit_button("Save source and licence"):
            cases = [
                line.case.model_copy(update={"source": source.strip(), "licence": licence.strip()})
                for line in lines(shown.name)
            ]
            info = shown.info and shown.info.model_copy(update={"source": source.strip(), "licence": licence.strip()})
            imported.save(shown.name, cases, info)
            st.rerun()


def _draw_rows(info: DatasetInfo) -> None:
    """Draw what became of the rows that are no case, and what was decided about others."""
    if info.rejected_count:
        with st.expander(f"{counted(info.rejected_count, 'row')} that could not be used", icon=":material/block:"):
            st.dataframe(remarks_table(info.rejected, info.unit), hide_index=True)
            if info.rejected_count > len(info.rejected):
                st.caption(f"The first {len(info.rejected):,} are kept.")
    if info.left_out:
        label = f"{counted(info.left_out_count, 'row')} that the format leaves out by its nature"
        with st.expander(label, icon=":material/filter_alt:"):
            st.dataframe([{"Why": why, "Rows": count} for why, count in info.left_out.items()], hide_index=True)
    if info.remarks_count:
        with st.expander(f"{counted(info.remarks_count, 'remark')} of the reader", icon=":material/info:"):
            st.dataframe(remarks_table(info.remarks, info.unit), hide_index=True)


def _ask_delete(shown: Overview) -> None:
    """Say what would be lost, and delete the data set once that is confirmed."""
    saved = saved_of(shown.name)
    keys = sorted({one.case_key for one in saved})
    makers = ", ".join(sorted({maker_words(one.generated.made_by) for one in saved}))
    cases = "its cases" if shown.trouble else counted(shown.cases, "case")
    profiles = f" and the profiles saved for {len(keys):,} of them (made by {plain(makers)}), with every version"
    st.markdown(
        f"This deletes **{cases}**{profiles if keys else ''}. It cannot be undone: the cases can be imported again "
        f"from their file{', saved profiles cannot' if keys else ''}.\n\n"
        "Runs keep their own copies of the cases they played: conversations, answers and figures stay as they are."
        f"{_PICTURES_GO if shown.pictured else ''}"
    )
    if st.button("Delete it", type="primary", icon=":material/delete:", key="data_delete_yes"):
        _delete(shown.name, keys)


def _delete(name: str, case_keys: list[str]) -> None:
    try:
        with Store().write() as connection:
            delete_profiles(connection, case_keys)
        imported.delete(name)
    except AnamnesisError as error:
        st.error(plain(str(error)))
        return
    for parameter in ("dataset", "case"):
        st.query_params.pop(parameter, None)
    st.session_state["data_told"] = f"{dataset_name(name)} was deleted."
    st.rerun()
