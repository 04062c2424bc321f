"""Brings in cases on the Data page: file, format, what would be read and what not and why, then the import."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
import streamlit as st

from core.datasets.importing import import_file, name_of
from core.datasets.readers import FORMATS
from core.datasets.reading import Reading, Remark
from core.errors import AnamnesisError
from core.images import kept
from pages.parts.data_file import CaseFile, ask_file, glance_at, read_file, recognised
from pages.parts.data_words import counted
from pages.parts.look import plain

AUTO, PLAIN = "auto", "plain"
_MOST = 200
"""Rows of a preview's tables that are shown."""
_COLUMNS = {
    "vignette": ("Vignette", "The patient’s story. The question may stand at its end."),
    "question": ("Question", "Where it stands apart from the vignette."),
    "options": ("Choices", "One field with all of them, or a field for each, in their order."),
    "answer": ("Right answer", "Its text or its letter."),
    "id": ("Id", "A name of its own for each case; else its position."),
    "specialty": ("Specialty", "One of the twelve; else Other."),
    "image": ("Picture", "The path of a file beside the list, several parted by |, or an address."),
}
"""What a column may hold → its name and what belongs there."""
_NONE = "–"


def draw_import(held: Mapping[str, int]) -> None:
    """Draw the import, folded up; ``held`` are the data sets at hand with their numbers of cases."""
    box = st.expander("Import cases", icon=":material/upload_file:", on_change="rerun", key="data_import",
                      expanded=bool(st.query_params.get("import")))  # fmt: skip
    if not box.open:
        return
    with box:
        known = ", ".join(plain(one.title) for one in FORMATS.values() if one.name != PLAIN)
        st.caption(f"Formats that are recognised: {known}; of any other table you say what its columns hold.")
        try:
            _draw_steps(held)
        except AnamnesisError as error:
            st.error(plain(str(error)), icon=":material/error:")


def _draw_steps(held: Mapping[str, int]) -> None:
    file = ask_file()
    if file is None:
        return
    left, right = st.columns(2, vertical_alignment="bottom")
    format_ = right.selectbox(
        "Format", [AUTO, *FORMATS], key="data_format",
        format_func=lambda name: "Recognise it" if name == AUTO else FORMATS[name].title,
    ) or AUTO  # fmt: skip
    name = left.text_input(
        "Name of the data set", name_of(Path(file.name)), key=f"data_name_{file.stamp}",
        help="Lower-case letters, digits, - and _. Cases are called NAME/ID.",
    ).strip()  # fmt: skip
    if format_ != AUTO:
        st.caption(plain(FORMATS[format_].reads))
    columns: dict[str, str] = {}
    known = recognised(file) if format_ == AUTO else format_
    if known in (None, PLAIN):
        format_, asked = PLAIN, _ask_columns(file)
        if asked is None:
            return
        columns = asked
    reading = read_file(file, name, format_, columns)
    _draw_preview(reading)
    if reading.cases:
        _ask_and_import(file, name, format_, columns, reading, held)


def _ask_columns(file: CaseFile) -> dict[str, str] | None:
    """Show the file's first rows and ask what its fields hold; ``None`` until there is enough to read cases."""
    seen = glance_at(file)
    st.markdown("**What do its columns hold?** :gray[It is in no published format that is known. Its first rows:]")
    st.dataframe(
        pd.DataFrame([{field: _short(record.get(field)) for field in seen.fields} for record in seen.first]),
        hide_index=True, placeholder=_NONE, alt="The file’s first rows",
    )  # fmt: skip
    places = st.columns(3)
    chosen: dict[str, str] = {}
    for number, (name, (label, help_)) in enumerate(_COLUMNS.items()):
        key, place = f"data_column_{name}_{file.stamp}", places[number % 3]
        likely = [field for field in seen.fields if field.strip().lower() == name]
        if name == "options":
            chosen[name] = "+".join(place.multiselect(label, seen.fields, likely, key=key, help=help_))
        else:
            options = [_NONE, *seen.fields]
            field = place.selectbox(label, options, options.index(likely[0]) if likely else 0, key=key, help=help_)
            chosen[name] = "" if field in (None, _NONE) else field
    named = {name: field for name, field in chosen.items() if field}
    if not {"vignette", "question"} & named.keys() or "answer" not in named:
        st.caption("At least the vignette (or the question) and the right answer are needed.")
        return None
    return named


def _draw_preview(reading: Reading) -> None:
    """Draw what would be read, and every row that would not with the reason."""
    with st.container(border=True, horizontal=True):
        title = FORMATS[reading.format].title if reading.format in FORMATS else reading.format
        st.metric("Format", title, width="content")
        st.metric("Cases", f"{len(reading.cases):,}", width="content")
        pictured = sum(bool(kept(case.images)) for case in reading.cases)
        if pictured:
            st.metric("With picture", f"{pictured:,}", width="content", help="Cases whose picture is at hand.")
        st.metric("Rejected", f"{len(reading.rejected):,}", width="content", help="Rows that cannot be used.")
        if reading.left_out:
            st.metric("Left out", f"{len(reading.left_out):,}", width="content",
                      help="Sound rows that are no case by the format’s nature.")  # fmt: skip
    st.dataframe(
        preview_table(reading), hide_index=True, height=220, placeholder=_NONE, alt="Cases as they are read",
        column_config=dict.fromkeys(("Vignette", "Question", "Choices"), st.column_config.TextColumn(width="medium")),
    )  # fmt: skip
    if len(reading.cases) > _MOST:
        st.caption(f"The first {_MOST} of {len(reading.cases):,} cases.")
    for label, rows, icon in (
        ("Rejected", reading.rejected, "block"), ("Left out", reading.left_out, "filter_alt"),
        ("Remarks", reading.remarks, "info"),
    ):  # fmt: skip
        if rows:
            with st.expander(f"{label}: {len(rows):,}", icon=f":material/{icon}:", expanded=label == "Rejected"):
                table = remarks_table(rows, reading.unit)
                st.dataframe(table.head(_MOST), hide_index=True, height="content" if len(rows) <= 8 else 300)
                st.download_button("Download as CSV", table.to_csv(index=False), f"{label.lower()}-rows.csv",
                                   "text/csv", icon=":material/download:", key=f"data_rows_csv_{label}")  # fmt: skip


def preview_table(reading: Reading) -> pd.DataFrame:
    """Return the first cases as they would be imported."""
    return pd.DataFrame(
        [
            {
                "Case": case.case_key.partition("/")[2], "Specialty": case.specialty, "Patient": case.age_and_sex(),
                "Vignette": _short(case.vignette), "Question": _short(case.question),
                "Choices": "; ".join(case.choices), "Right answer": case.answer,
            }
            for case in reading.cases[:_MOST]
        ]
    )  # fmt: skip


def remarks_table(rows: Sequence[Remark], unit: str) -> pd.DataFrame:
    """Return what is said of rows, by their place in the file; what is about the whole file has none."""
    return pd.DataFrame([{unit.capitalize(): str(at) if at else "all", "Why": why} for at, why in rows])


def _ask_and_import(
    file: CaseFile, name: str, format_: str, columns: Mapping[str, str], reading: Reading, held: Mapping[str, int]
) -> None:
    usual = FORMATS.get(reading.format)
    left, right = st.columns(2)
    source = left.text_input("Source", usual.source if usual else "", key=f"data_source_{reading.format}_{file.stamp}")
    licence = right.text_input(
        "Licence", usual.licence if usual else "", key=f"data_licence_{reading.format}_{file.stamp}"
    )
    skip = not reading.rejected or st.checkbox(
        f"Leave out the {counted(len(reading.rejected), 'row')} that cannot be used", key=f"data_skip_{file.stamp}"
    )
    if name in held:
        st.warning(
            f"There is a data set {plain(name)} with {counted(held[name], 'case')}: this replaces it. Profiles stay "
            "with the cases that are the same in both.",
            icon=":material/swap_horiz:",
        )
    if st.button(
        f"Import {counted(len(reading.cases), 'case')}", type="primary", icon=":material/upload_file:",
        key="data_import_go", disabled=not skip,
    ):  # fmt: skip
        with st.spinner("Importing…"), file.lent() as path:
            done = import_file(
                path, name, format_, columns, skip_bad=bool(reading.rejected), source=source.strip() or None,
                licence=licence.strip() or None,
            )  # fmt: skip
        found = f"; the linter has {counted(len(done.findings), 'remark')}" if done.findings else ""
        st.session_state["data_told"] = f"Imported {counted(len(done.reading.cases), 'case')}{found}."
        st.query_params["dataset"] = done.dataset
        st.rerun()


def _short(value: object) -> str | None:
    if value is None:
        return None
    text = " ".join(str(value).split())
    return text if len(text) <= 200 else f"{text[:200]}…"
