"""The stored data sets: their cases with findings and profiles, suitability, import, deletion."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from core.datasets import imported
from core.datasets.library import DATASET as LIBRARY
from core.jobs.ask_job import job_of, jobs
from core.measures.case_distribution import DISTRIBUTION
from core.measures.case_views import CaseView
from core.measures.registry import case_views
from core.store.database import Store
from core.store.queries.profiles import delete_profiles
from core.store.selection import Selection
from pages.cases.cases import ask_matches, draw_case, draw_cases
from pages.cases.importing import draw_import, draw_release, draw_rows
from pages.cases.labels import draw_labels
from pages.cases.rubrics import draw_rubric_files
from pages.cases.sets import CaseEntry, Overview, case_entries, overviews, saved_profiles
from pages.kit.cases import clear_parameters
from pages.kit.controls import choose, choose_several
from pages.kit.jobs import draw_judging
from pages.kit.look import FIELD, REASON, counted, maker_words, plain
from pages.kit.names import dataset_name
from pages.kit.page import draw_fold, draw_tabs, show
from pages.kit.section import draw_section, section_result
from pages.kit.tables import draw_table
from pages.kit.visitor import only

_SAMPLE = 500
"""Cases that a slow view reads at once."""
_WORDS: dict[str, str] = {**REASON, **{str(field): words for field, words in FIELD.items()}}


def draw_view(view: CaseView, name: str, entries: Sequence[CaseEntry]) -> None:
    """Draw the figures of a data set, what was published of it, and the form that makes the data."""
    without = view.assessed and all(entry.generated is None for entry in entries)
    options: dict[str, Any] = {"dataset": (name,)}
    if view.slow and len(entries) > _SAMPLE:
        label = f"All {len(entries):,} cases"
        every = st.toggle(label, key="cases_items_all", bind="query-params", help=f"Otherwise a sample of {_SAMPLE}.")
        options |= {} if every else {"limit": _SAMPLE}
    if view.printed is not None and (printed := view.printed(name)):
        st.info(f"**Published** ({view.source}): {plain(printed)}.", icon=":material/menu_book:")
    if without:
        st.info(view.empty, icon=":material/person_search:")
    drawn = False
    for key, section in () if without else view.sections.items():
        if section_result(section, Selection(), {**section.options, **options}).rows:
            names = {name: dataset_name(name), **(_WORDS if view.assessed else {})}
            draw_section(section, Selection(), options=options, names=names, name=f"{name}-{key}", titled=drawn)
            drawn = True
    if view.about:
        st.caption(view.about)
    kinds = {kind.title: kind for kind in (jobs()[job] for job in view.jobs)}
    open_ = without or any(job_of(kind, name) for kind in kinds.values())
    with st.expander(
        f"{view.title} by a model", icon=":material/person_add:", expanded=open_, key=f"cases_make_{open_}"
    ):
        kind = next(iter(kinds))
        if len(kinds) > 1:
            kind = choose("Make", list(kinds), "cases_make_kind", bound=False, shape="segments")
        help_ = "Also for cases that this model was asked about; the new result counts."
        again = st.checkbox("Make existing ones again", key="cases_make_again", help=help_)
        cases = tuple(entry.case for entry in entries)
        draw_judging(kinds[kind](cases, "", again), "cases_make")  # type: ignore[arg-type,call-arg]


def draw_by_set(view: CaseView, assessed: Sequence[str]) -> None:
    """Draw figures of several data sets next to each other."""
    sets = {name: dataset_name(name) for name in assessed}
    chosen = choose_several("Data sets", list(sets), "cases_suitable_sets", names=sets) or tuple(sets)
    for key, section in view.by_set.items():
        draw_section(section, Selection(), options={"dataset": chosen}, names={**sets, **_WORDS}, name=f"data-{key}")


def draw_published(view: CaseView) -> None:
    if view.table is not None:
        with st.expander("What a paper reports of published data sets", icon=":material/menu_book:"):
            st.dataframe(list(view.table()), hide_index=True, key="cases_published")
            st.caption(f"**Published** ({view.source}), in the words of the text; not computed from this database.")


def draw_data_sets(data_sets: Sequence[Overview]) -> None:
    number = st.column_config.NumberColumn
    columns = {
        "Data set": st.column_config.TextColumn(pinned=True),
        "Rejected": number(format="localized", help="Rows with a fault."),
        "Cases": number(format="localized"),
        "With picture": number(format="localized", help="Cases whose picture a doctor can see."),
        "Source": st.column_config.TextColumn(width="medium"),
        "Faults": number(format="localized", help="Faults in the cases: answer given away, duplicate, missing part."),
        "Suitable": number(format="percent", help="Share of the assessed cases that suit a consultation."),
        "Assessed": number(format="localized", help="Cases whose suitability was assessed."),
        "Imported": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm"),
    }
    rows = (
        {
            "Data set": dataset_name(data_set.name),
            "Format": format_title(data_set),
            "Cases": None if data_set.error else data_set.cases,
            "Specialties": len(data_set.specialties) or None,
            "With picture": data_set.pictured or None,
            "Rejected": data_set.info.rejected_count if data_set.info else None,
            "Faults": None if data_set.error else data_set.findings,
            "Suitable": data_set.suitable / data_set.looked_at if data_set.looked_at else None,
            "Assessed": None if data_set.error else data_set.looked_at,
            "Source": data_set.source,
            "Licence": data_set.licence,
            "Imported": imported_at(data_set),
        }
        for data_set in data_sets
    )
    counts = ("Cases", "Specialties", "With picture", "Rejected", "Faults", "Assessed")
    table = pd.DataFrame(rows).astype(dict.fromkeys(counts, "Int64"))
    draw_table(
        table,
        "data_sets",
        columns,
        on_row=lambda row: st.query_params.update(dataset=data_sets[row].name),
        height="content" if len(data_sets) <= 12 else 460,
        alt="Data sets",
    )
    total = sum(data_set.cases for data_set in data_sets)
    st.caption(f"{counted(total, 'case')}. Choose a row to see its cases.")


def format_title(data_set: Overview) -> str:
    """Return the title of the format that a data set was read from, or an empty text."""
    if data_set.info is None:
        return "Anamnesis" if data_set.name == LIBRARY else ""
    return data_set.info.title


def imported_at(data_set: Overview) -> datetime | None:
    """Return when a data set was imported, in UTC; ``None`` if unknown."""
    return None if data_set.info is None else datetime.fromtimestamp(data_set.info.imported_at, UTC)


def draw_about(data_set: Overview) -> None:
    """Draw the record of a data set, and the forms to change it if it was imported."""
    rows = {
        "Format": format_title(data_set),
        "Cases": f"{data_set.cases:,}",
        "Specialties": ", ".join(data_set.specialties),
    }
    if data_set.info is not None:
        when = imported_at(data_set)
        rows |= {"File": data_set.info.file_name, "Imported": f"{when:%Y-%m-%d %H:%M} UTC" if when else ""}
    st.markdown("  \n".join(f"**{label}:** {plain(text)}" for label, text in rows.items() if text))
    sources = {entry.case.dataset for entry in case_entries(data_set.name)}
    draw_section(
        DISTRIBUTION,
        Selection(),
        options={"data_set": (data_set.name,), "by": "both" if len(sources) > 1 else "specialty"},
        names={source: dataset_name(source) for source in sources},
        name=f"{data_set.name}-cases",
    )
    if data_set.name == LIBRARY:
        st.markdown(f"**Source:** {plain(data_set.source)}  \n**Licence:** {plain(data_set.licence)}")
        st.caption("The library comes with Anamnesis and cannot be changed or deleted.")
        return
    _ask_rights(data_set)
    if (info := data_set.info) is not None:
        counts = {"Rejected": info.rejected_count, "Remarks": info.remarks_count}
        draw_rows({"Rejected": info.rejected, "Remarks": info.remarks}, info.unit, counts)
        if info.left_out:
            with st.expander(f"Left out: {info.left_out_count:,}", icon=":material/filter_alt:"):
                st.dataframe([{"Why": why, "Rows": count} for why, count in info.left_out.items()], hide_index=True)
    draw_delete(data_set)


def _ask_rights(data_set: Overview) -> None:
    """Let source and licence be corrected; results do not depend on them."""
    with st.form(f"cases_rights_{data_set.name}", border=True):
        source = st.text_input("Source", data_set.source, help="A paper, a web page, a clinic.")
        licence = st.text_input("Licence", data_set.licence, help="Terms of use.")
        if st.form_submit_button("Save source and licence", **only("run")):
            cases = [
                entry.case.model_copy(update={"source": source.strip(), "licence": licence.strip()})
                for entry in case_entries(data_set.name)
            ]
            info = data_set.info and data_set.info.model_copy(
                update={"source": source.strip(), "licence": licence.strip()}
            )
            imported.save(data_set.name, cases, info)
            st.rerun()


def draw_delete(data_set: Overview) -> None:
    """Draw the button that deletes a data set, and above it what will be lost."""
    with st.popover("Delete this data set…", icon=":material/delete:", key="cases_delete"):
        saved = [profile for profile in saved_profiles().values() if profile.case_key.startswith(f"{data_set.name}/")]
        keys = sorted({profile.case_key for profile in saved})
        makers = ", ".join(sorted({maker_words(profile.generated.made_by) for profile in saved}))
        cases = "its cases" if data_set.error else counted(data_set.cases, "case")
        profiles = f" and all profiles of {len(keys):,} of them (by {plain(makers)})"
        pictures = " Pictures of this data set alone are deleted too." if data_set.pictured else ""
        st.markdown(
            f"Deletes **{cases}**{profiles if keys else ''} for good. The cases can be imported again"
            f"{'; the profiles cannot' if keys else ''}.\n\n"
            "Conversations, answers and figures stay: runs have copies of their cases."
            f"{pictures}"
        )
        if not st.button(
            "Delete it", type="primary", icon=":material/delete:", key="cases_delete_yes", **only("local")
        ):
            return
        with Store().write() as connection:
            delete_profiles(connection, keys)
        imported.delete(data_set.name)
        clear_parameters("dataset", "case")
        st.session_state["cases_told"] = f"{dataset_name(data_set.name)} was deleted."
        st.rerun()


def draw_page() -> None:
    notice = st.session_state.pop("cases_told", None)
    if notice:
        st.toast(plain(notice), icon=":material/check:")
    data_sets = overviews()
    name = st.query_params.get("dataset")
    chosen = next((data_set for data_set in data_sets if data_set.name == name), None)
    if chosen is not None:
        draw_data_set(chosen)
        return
    st.caption(
        "The library of cases that comes with Anamnesis, and the cases that you imported.",
        help="Imported cases are stored next to the database.",
    )
    if name:
        st.info(f"There is no data set {plain(name)}. Import it below.", icon=":material/search_off:")
    for data_set in data_sets:
        if data_set.error is not None:
            st.warning(
                f"**{plain(dataset_name(data_set.name))}:** {plain(data_set.error)}", icon=":material/broken_image:"
            )
    draw_data_sets(data_sets)
    assessed = [data_set.name for data_set in data_sets if data_set.looked_at]
    views = case_views()
    for view in views if len(assessed) > 1 else ():
        if view.by_set:
            draw_by_set(view, assessed)
    sizes = {data_set.name: data_set.cases for data_set in data_sets}
    importing = bool(st.query_params.get("import"))
    draw_fold("Import cases", partial(draw_import, sizes), "cases_import", "upload_file", open_=importing)
    draw_release()
    draw_fold("Rubrics", draw_rubric_files, "cases_rubrics", "rule", open_="rubrics" in st.query_params)
    for view in views:
        draw_published(view)


def draw_data_set(data_set: Overview) -> None:
    """Draw the case in the URL, or the data set: its cases, their suitability, labels and items, and its record."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "All data sets",
            icon=":material/arrow_back:",
            on_click=clear_parameters,
            args=("dataset", "case"),
            key="cases_leave",
        )
        st.header(plain(dataset_name(data_set.name)), anchor=False, width="content")
        title = format_title(data_set)
        parts = [plain(title)] if title and title != dataset_name(data_set.name) else []
        parts += [counted(data_set.cases, "case"), counted(len(data_set.specialties), "specialty", "specialties")]
        parts += [counted(data_set.findings, "fault")] if data_set.findings else []
        st.markdown("" if data_set.error else f":gray[{' · '.join(parts)}]")
    if data_set.error is not None:
        st.error(plain(data_set.error), icon=":material/broken_image:")
        draw_delete(data_set)
        return
    entries = case_entries(data_set.name)
    if opened := st.query_params.get("case"):
        with st.expander("Find cases", icon=":material/search:", key="cases_find"):
            matches = ask_matches(entries)
        draw_case(data_set.name, opened, entries, matches)
        return
    sections: dict[str, Callable[..., None]] = {
        "Cases": lambda: draw_cases(data_set.name, entries),
        **{view.title: partial(draw_view, view, data_set.name, entries) for view in case_views()},
        "Labels": lambda: draw_labels(data_set.name, entries),
        "Record": lambda: draw_about(data_set),
    }
    draw_tabs(sections, "cases_tab")


if __name__ == "__main__":
    show("Cases", draw_page)
