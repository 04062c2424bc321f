"""The cases at hand: data sets, each case with its faults and profile, suitability, import, delete."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.datasets import imported
from core.datasets.imported import DatasetInfo
from core.datasets.library import DATASET as LIBRARY
from core.figures.shares import Segment, stacked
from core.figures.style import RISE
from core.frameworks.automedic.measures.published import PAPER
from core.frameworks.base import publisher
from core.store.database import Store
from core.store.queries.profiles import delete_profiles
from pages.data.cases import draw_cases
from pages.data.importing import draw_import, remarks_table
from pages.data.release import draw_release
from pages.data.sets import Overview, lines, overviews, saved_profiles
from pages.data.suitability import draw_suitability, published_table
from pages.kit.cases import forget
from pages.kit.figures import draw_figure
from pages.kit.look import counted, maker_words, plain
from pages.kit.names import dataset_name
from pages.kit.page import draw_sections, show
from pages.kit.tables import draw_as_table, draw_table, percents
from pages.kit.visitor import only


def draw_list(held: Sequence[Overview]) -> None:
    """Draw the table of the data sets."""
    number = st.column_config.NumberColumn
    columns = {
        "Data set": st.column_config.TextColumn(pinned=True),
        "Rejected": number(format="localized", help="Rows of the file that could not be used."),
        "Cases": number(format="localized"),
        "With picture": number(
            format="localized", help="Cases that have a picture at hand, which a doctor can be shown."
        ),
        "Source": st.column_config.TextColumn(width="medium"),
        "Findings": number(
            format="localized",
            help="What the linter found: answers given away, answers that are no choice, duplicates, missing parts.",
        ),
        "Suitable": number(
            format="percent", help="Share that can be played as a consultation, of the cases that were looked at."
        ),
        "Looked at": number(format="localized", help="Cases whose suitability is known."),
        "Imported": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm"),
    }

    def choose(row: int) -> None:
        st.query_params["dataset"] = held[row].name

    sets = (
        {
            "Data set": dataset_name(one.name),
            "Format": format_title(one),
            "Cases": None if one.trouble else one.cases,
            "Specialties": len(one.specialties) or None,
            "With picture": one.pictured or None,
            "Rejected": one.info.rejected_count if one.info else None,
            "Findings": None if one.trouble else one.findings,
            "Suitable": one.suitable / one.looked_at if one.looked_at else None,
            "Looked at": None if one.trouble else one.looked_at,
            "Source": one.source,
            "Licence": one.licence,
            "Imported": imported_at(one),
        }
        for one in held
    )
    whole = ("Cases", "Specialties", "With picture", "Rejected", "Findings", "Looked at")
    table = pd.DataFrame(sets).astype(dict.fromkeys(whole, "Int64"))
    height: int | Literal["content"] = "content" if len(held) <= 12 else 460
    draw_table(table, "data_sets", columns, on_row=choose, height=height, alt="Data sets at hand")
    total = sum(one.cases for one in held)
    st.caption(f"{counted(total, 'case')}. Choose a row to see its cases, suitability and record.")


def format_title(one: Overview) -> str:
    """Return the title of the format that a data set was read from."""
    if one.info is None:
        return "Anamnesis" if one.name == LIBRARY else ""
    return one.info.title


def imported_at(one: Overview) -> datetime | None:
    """Return when a data set was imported, in UTC; ``None`` where it is not known."""
    return None if one.info is None else datetime.fromtimestamp(one.info.imported_at, UTC)


def draw_about(shown: Overview) -> None:
    """Draw the record of a data set; of an imported one also what can be changed about it."""
    rows = {"Format": format_title(shown), "Cases": f"{shown.cases:,}", "Specialties": ", ".join(shown.specialties)}
    if shown.info is not None:
        when = imported_at(shown)
        rows |= {"File": shown.info.file_name, "Imported": f"{when:%Y-%m-%d %H:%M} UTC" if when else ""}
    st.markdown("  \n".join(f"**{label}:** {plain(text)}" for label, text in rows.items() if text))
    _draw_specialties(shown)
    if shown.name == LIBRARY:
        st.markdown(f"**Source:** {plain(shown.source)}  \n**Licence:** {plain(shown.licence)}")
        st.caption("The library comes with Anamnesis and can be neither changed nor deleted here.")
        return
    _ask_rights(shown)
    if shown.info is not None:
        _draw_rows(shown.info)
    draw_delete(shown)


def _draw_specialties(shown: Overview) -> None:
    """Draw how the cases are spread over specialties."""
    counts = Counter(line.case.specialty for line in lines(shown.name))
    names = sorted(counts, key=lambda name: -counts[name])
    numbers = [counts[name] for name in names]
    shares = [number / max(1, shown.cases) for number in numbers]
    bar = Segment("Cases", RISE, "white", shares, numbers)

    def make(dark: bool) -> go.Figure:
        figure = stacked(names, [bar], "Share of the cases", "cases", whole=False, row=26, dark=dark)
        return figure.update_layout(showlegend=False)

    rests = f"{dataset_name(shown.name)}, n = {shown.cases:,} cases."
    draw_figure(make, f"{shown.name}-specialties", "Cases by specialty", rests)
    table = pd.DataFrame({"Specialty": names, "Cases": numbers, "Share": shares})
    draw_as_table(table, f"{shown.name}-specialties-table", percents("Share"))


def _ask_rights(shown: Overview) -> None:
    """Let source and licence be corrected; they are no part of what a result depends on."""
    with st.form(f"data_rights_{shown.name}", border=True):
        source = st.text_input("Source", shown.source, help="Where the cases come from: a paper, a page, a clinic.")
        licence = st.text_input("Licence", shown.licence, help="Under which terms they may be used.")
        if st.form_submit_button("Save source and licence", **only("edit")):
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


def draw_delete(shown: Overview) -> None:
    """Draw the way to delete a data set: what would be lost is said first."""
    with st.popover("Delete this data set…", icon=":material/delete:", key="data_delete"):
        saved = [one for one in saved_profiles().values() if one.case_key.startswith(f"{shown.name}/")]
        keys = sorted({one.case_key for one in saved})
        makers = ", ".join(sorted({maker_words(one.generated.made_by) for one in saved}))
        cases = "its cases" if shown.trouble else counted(shown.cases, "case")
        profiles = f" and the profiles saved for {len(keys):,} of them (made by {plain(makers)}), with every version"
        pictures = " Their pictures go, but for those that another data set has too." if shown.pictured else ""
        st.markdown(
            f"This deletes **{cases}**{profiles if keys else ''}. It cannot be undone: the cases can be imported again "
            f"from their file{', saved profiles cannot' if keys else ''}.\n\n"
            "Runs keep their own copies of the cases they played: conversations, answers and figures stay as they are."
            f"{pictures}"
        )
        if not st.button(
            "Delete it", type="primary", icon=":material/delete:", key="data_delete_yes", **only("manage")
        ):
            return
        with Store().write() as connection:
            delete_profiles(connection, keys)
        imported.delete(shown.name)
        forget("dataset", "case")
        st.session_state["data_told"] = f"{dataset_name(shown.name)} was deleted."
        st.rerun()


def draw_page() -> None:
    """Draw the data set in the address, or all of them."""
    told = st.session_state.pop("data_told", None)
    if told:
        st.toast(plain(told), icon=":material/check:")
    held = overviews()
    wanted = st.query_params.get("dataset")
    shown = next((one for one in held if one.name == wanted), None)
    if shown is not None:
        draw_one(shown)
        return
    st.caption(
        "The cases that can be run: the library that comes with Anamnesis, and what you import. Imported cases stay in "
        "the folder of the database."
    )
    if wanted:
        st.info(f"There is no data set {plain(wanted)} here. Import it below.", icon=":material/search_off:")
    for one in held:
        if one.trouble is not None:
            st.warning(f"**{plain(dataset_name(one.name))}:** {plain(one.trouble)}", icon=":material/broken_image:")
    draw_list(held)
    draw_import({one.name: one.cases for one in held})
    draw_release()
    with st.expander(
        f"What the {publisher('care').title} paper reports of published data sets", icon=":material/menu_book:"
    ):
        st.dataframe(published_table(), hide_index=True, placeholder="–", key="data_published")
        st.caption(f"**Published** ({PAPER}), as the text words it; nothing here was computed from this database.")


def draw_one(shown: Overview) -> None:
    """Draw one data set: its cases, how suitable they are, and its record."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "All data sets", icon=":material/arrow_back:", on_click=forget, args=("dataset", "case"), key="data_leave"
        )
        st.subheader(plain(dataset_name(shown.name)), anchor=False, width="content")
        title = format_title(shown)
        parts = [plain(title)] if title and title != dataset_name(shown.name) else []
        parts += [counted(shown.cases, "case"), counted(len(shown.specialties), "specialty", "specialties")]
        parts += [counted(shown.findings, "finding")] if shown.findings else []
        st.markdown("" if shown.trouble else f":gray[{' · '.join(parts)}]")
    if shown.trouble is not None:
        st.error(plain(shown.trouble), icon=":material/broken_image:")
        draw_delete(shown)
        return
    held = lines(shown.name)
    sections = {
        "Cases": lambda: draw_cases(shown.name, held),
        "Suitability": lambda: draw_suitability(shown.name, held),
        "Record": lambda: draw_about(shown),
    }
    draw_sections(sections, "data_tab")


if __name__ == "__main__":
    show("Data", draw_page)
