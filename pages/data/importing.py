"""Brings in cases: the file, its format, what would be read and what not and why, then the import."""

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pandas as pd
import streamlit as st

from core.access import allowed_path
from core.callbacks import Progress, Stop
from core.datasets.importing import Imported, import_file, list_in, name_of
from core.datasets.readers import FORMATS, read_cases
from core.datasets.readers.engine import chosen_format
from core.datasets.readers.files import LIMITS, Record, Rows
from core.datasets.readers.formats.plain import FIRST, guess_columns, has_needed_columns
from core.datasets.reading import Reading, Remark
from core.errors import AnamnesisError, UsageError
from core.images import MAX_BYTES, MAX_PIXELS, local_images
from core.jobs.background import Job, begin, forget, job_at
from core.text.demographics import age_and_sex
from pages.kit.jobs import draw_work
from pages.kit.look import counted, plain
from pages.kit.tables import draw_table
from pages.kit.visitor import only

T = TypeVar("T")
_READ = "data_read"
"""Where a session keeps what was read last, and of which file."""
_SOON_S = 1.5
"""A file that is read within so many seconds is waited for."""
_FIRST = 5
"""Rows of an unrecognised file that are shown."""
_KINDS = ["csv", "tsv", "json", "jsonl", "ndjson", "parquet", "txt", "xlsx"]
_KINDS += ["zip", "tar", "gz", "tgz", "bz2", "xz"]


@dataclass(frozen=True)
class CaseFile:
    """A file to read: its name, a text that changes with its contents, and where it lies or its uploaded bytes."""

    name: str
    stamp: str
    path: Path | None = None
    data: bytes = b""

    @contextmanager
    def lent(self) -> Iterator[Path]:
        """Lend the file's path; uploaded bytes lie in a temporary folder meanwhile."""
        if self.path is not None:
            yield self.path
            return
        with tempfile.TemporaryDirectory(prefix="anamnesis-") as folder:
            path = Path(folder) / self.name
            path.write_bytes(self.data)
            yield path


@dataclass(frozen=True)
class Glance:
    """The fields of a file and its first records, for somebody to say what is what."""

    fields: tuple[str, ...]
    first: Sequence[Record]


def ask_file(
    key: str, label: str, kinds: list[str], help: str | None = None, *, folders: bool = False
) -> CaseFile | None:
    """Ask for a file, uploaded or by its path, which may be a folder's; ``None`` until there is one."""
    where = st.segmented_control(
        "File",
        ["upload", "path"],
        default="upload",
        required=True,
        key=f"{key}_where",
        format_func={"upload": "Upload it", "path": "On this server’s disk"}.__getitem__,
    )
    if where == "upload":
        given = st.file_uploader(label, kinds, key=f"{key}_upload", help=help)
        if given is None:
            return None
        data = given.getvalue()
        return CaseFile(Path(given.name).name, hashlib.sha256(data).hexdigest(), data=data)
    hint = "/home/me/release" if folders else "/home/me/medqa/test.jsonl"
    text = st.text_input("Path", key=f"{key}_path", placeholder=hint).strip().strip('"')
    if not text:
        return None
    path = allowed_path(text)
    if not (path.is_file() or (folders and path.is_dir())):
        what = "file or folder" if folders else "file"
        raise UsageError(f"There is no {what} {path}: give the whole path of one on the computer Anamnesis runs on.")
    return CaseFile(path.name, f"{path}-{path.stat().st_mtime_ns}-{path.stat().st_size}", path)


def read_file(file: CaseFile, dataset: str, format_: str, columns: Mapping[str, str]) -> Reading | None:
    """Read the file, once for each way of reading it; of a large one, draw how far that is, and return ``None``."""
    key = ("read", file.stamp, dataset, format_, *sorted(columns.items()))
    if (kept := st.session_state.get(_READ)) and kept[0] == key:
        reading: Reading = kept[1]
        return reading

    def read(told: Progress, asked_to_stop: Stop) -> Reading:
        with file.lent() as path, list_in(path) as held:
            return read_cases(held, dataset, format_, dict(columns), told, asked_to_stop)

    found = _done(key, read, f"Reading {file.name}")
    if found is not None:
        st.session_state[_READ] = key, found
    return found


def _done(key: tuple[object, ...], do: Callable[[Progress, Stop], T], doing: str) -> T | None:
    """Return what came of work on a file; ``None`` while it goes on, which is drawn, or once it was stopped.

    It begins by itself the first time. Raises ``AnamnesisError`` where it failed.
    """
    work: Job[T] = job_at(key) or begin(key, do, doing)
    work.join(_SOON_S)
    if work.running:
        st.fragment(draw_work, run_every=1.0)(
            work, doing, f"{doing} …", "data_work", "MB", figures=False, stopped="Nothing is imported then."
        )
        return None
    if work.result is not None:
        forget(key)
        return work.result
    st.button("Try again", icon=":material/refresh:", key="data_again", on_click=forget, args=(key,))
    raise AnamnesisError(work.error or "")


@st.cache_data(max_entries=8, show_spinner=False)
def recognised(stamp: str, _file: CaseFile) -> str | None:
    """Return the format that the file's first records show, or ``None``; raises where it is damaged as a whole."""
    with _file.lent() as path, list_in(path) as held:
        rows = Rows(held)
        try:
            return chosen_format("auto", rows, columns=False)[0].name
        except UsageError:
            return None


@st.cache_resource(max_entries=2, show_spinner=False)
def glance_at(stamp: str, _file: CaseFile) -> Glance:
    """Return the file's fields and first records; raises ``AnamnesisError`` where it holds no records."""
    with _file.lent() as path, list_in(path) as held:
        _, rows = chosen_format("auto", Rows(held), columns=True)
        found = Glance(rows.columns, rows.first(_FIRST))
    if not found.fields:
        raise AnamnesisError(f"{_file.name} has no named fields: a table needs a header, a JSON file objects.")
    return found


AUTO, PLAIN = "auto", "plain"
_MOST = 200
"""Rows of a preview's tables that are shown."""
_COLUMNS = {
    "vignette": ("Vignette", "The patient’s story. The question may stand at its end."),
    "question": ("Question", "Where it stands apart from the vignette."),
    "options": ("Choices", "One field with all of them, or a field for each, in their order."),
    "answer": ("Right answer", "Its text, its letter or its place."),
    "id": ("Id", "A name of its own for each case; else its position."),
    "specialty": ("Specialty", "It stays as it is called there."),
    "image": ("Picture", "The path of a file beside the list, several parted by |, or an address."),
}
"""What a column may hold → its name and what belongs there."""
_NONE = "–"


def draw_import(held: Mapping[str, int]) -> None:
    """Draw the import, folded up; ``held`` are the data sets at hand with their numbers of cases."""
    box = st.expander(
        "Import cases",
        icon=":material/upload_file:",
        on_change="rerun",
        key="data_import",
        expanded=bool(st.query_params.get("import")),
    )
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
    packed = (
        "Also packed (.gz, .bz2, .xz). Cases with pictures: an archive with the list, and the pictures under the paths "
        "that it names."
    )
    st.caption(
        f"A list has {LIMITS}; a picture {MAX_BYTES // 1024**2} MB and {MAX_PIXELS // 1_000_000} million pixels. "
        f"More than {st.get_option('server.maxUploadSize')} MB is given by its path on the "
        "server’s disk."
    )
    file = ask_file("data", "CSV, Excel, JSON, JSON Lines or Parquet", _KINDS, packed)
    if file is None:
        return
    left, right = st.columns(2, vertical_alignment="bottom")
    format_ = (
        right.selectbox(
            "Format",
            [AUTO, *FORMATS],
            key="data_format",
            format_func=lambda name: "Recognise it" if name == AUTO else FORMATS[name].title,
        )
        or AUTO
    )
    name = left.text_input(
        "Name of the data set",
        name_of(Path(file.name)),
        key=f"data_name_{file.stamp}",
        help="Lower-case letters, digits, - and _. Cases are called NAME/ID.",
    ).strip()
    if format_ != AUTO:
        st.caption(plain(FORMATS[format_].reads))
    columns: dict[str, str] = {}
    known = recognised(file.stamp, file) if format_ == AUTO else format_
    if known in (None, PLAIN):
        format_, asked = PLAIN, _ask_columns(file)
        if asked is None:
            return
        columns = asked
    reading = read_file(file, name, format_, columns)
    if reading is None:
        return
    _draw_preview(reading)
    if reading.cases:
        _ask_and_import(file, name, format_, columns, reading, held)


def _ask_columns(file: CaseFile) -> dict[str, str] | None:
    """Show the file's first rows and ask what its fields hold; ``None`` until there is enough to read cases."""
    seen = glance_at(file.stamp, file)
    st.markdown("**What do its columns hold?** :gray[It is in no published format; this is how it looks:]")
    st.dataframe(
        pd.DataFrame([{field: _short(record.get(field)) for field in seen.fields} for record in seen.first]),
        hide_index=True,
        placeholder=_NONE,
        alt="The file’s first rows",
    )
    places = st.columns(3)
    chosen: dict[str, str] = {}
    likely = guess_columns(seen.fields)
    for number, (name, (label, help_)) in enumerate(_COLUMNS.items()):
        key, place = f"data_column_{name}_{file.stamp}", places[number % 3]
        if name == "options":
            several = likely[name].split("+") if name in likely else []
            chosen[name] = "+".join(place.multiselect(label, seen.fields, several, key=key, help=help_))
        else:
            options = [_NONE, *seen.fields]
            field = place.selectbox(label, options, options.index(likely.get(name, _NONE)), key=key, help=help_)
            chosen[name] = "" if field in (None, _NONE) else field
    begin = places[len(_COLUMNS) % 3].selectbox(
        "Places count from",
        [_NONE, "0", "1"],
        key=f"data_column_{FIRST}_{file.stamp}",
        help="Where right answers are places of choices and the file does not tell what the first one’s is.",
    )
    chosen[FIRST] = "" if begin in (None, _NONE) else begin
    named = {name: field for name, field in chosen.items() if field}
    if not has_needed_columns(named):
        st.caption("At least the vignette (or the question) and the right answer are needed.")
        return None
    return named


def _draw_preview(reading: Reading) -> None:
    """Draw what would be read, and every row that would not with the reason."""
    with st.container(border=True, horizontal=True):
        title = FORMATS[reading.format].title if reading.format in FORMATS else reading.format
        st.metric("Format", title, width="content")
        st.metric("Cases", f"{len(reading.cases):,}", width="content")
        pictured = sum(bool(local_images(case.images)) for case in reading.cases)
        if pictured:
            st.metric("With picture", f"{pictured:,}", width="content", help="Cases whose picture is at hand.")
        st.metric("Rejected", f"{len(reading.rejected):,}", width="content", help="Rows that cannot be used.")
        if reading.left_out:
            st.metric(
                "Left out",
                f"{len(reading.left_out):,}",
                width="content",
                help="Sound rows that are no case by the format’s nature.",
            )
    st.dataframe(
        preview_table(reading),
        hide_index=True,
        height=220,
        placeholder=_NONE,
        alt="Cases as they are read",
        column_config=dict.fromkeys(("Vignette", "Question", "Choices"), st.column_config.TextColumn(width="medium")),
    )
    if len(reading.cases) > _MOST:
        st.caption(f"The first {_MOST} of {len(reading.cases):,} cases.")
    for label, rows, icon in (
        ("Rejected", reading.rejected, "block"),
        ("Left out", reading.left_out, "filter_alt"),
        ("Remarks", reading.remarks, "info"),
    ):
        if rows:
            with st.expander(f"{label}: {len(rows):,}", icon=f":material/{icon}:", expanded=label == "Rejected"):
                table = remarks_table(rows, reading.unit)
                draw_table(table, f"{label.lower()}-rows", height="content" if len(rows) <= 8 else 300)


def preview_table(reading: Reading) -> pd.DataFrame:
    """Return the first cases as they would be imported."""
    return pd.DataFrame(
        [
            {
                "Case": case.case_key.partition("/")[2],
                "Specialty": case.specialty,
                "Patient": age_and_sex(case),
                "Vignette": _short(case.vignette),
                "Question": _short(case.question),
                "Choices": "; ".join(case.choices),
                "Right answer": case.answer,
            }
            for case in reading.cases[:_MOST]
        ]
    )


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
    key = ("import", file.stamp, name, format_, *sorted(columns.items()))
    if job_at(key) is not None or st.button(
        f"Import {counted(len(reading.cases), 'case')}",
        type="primary",
        icon=":material/upload_file:",
        key="data_import_go",
        **only("edit", disabled=not skip),
    ):

        def bring_in(told: Progress, asked_to_stop: Stop) -> Imported:
            with file.lent() as path:
                return import_file(
                    path,
                    name,
                    format_,
                    columns,
                    skip_bad=bool(reading.rejected),
                    source=source.strip() or None,
                    licence=licence.strip() or None,
                    on_progress=told,
                    should_stop=asked_to_stop,
                )

        done = _done(key, bring_in, f"Importing {file.name}")
        if done is None:
            return
        found = f"; the linter has {counted(len(done.findings), 'remark')}" if done.findings else ""
        st.session_state["data_told"] = f"Imported {counted(len(done.reading.cases), 'case')}{found}."
        st.query_params["dataset"] = done.dataset
        st.rerun()


def _short(value: object) -> str | None:
    if value is None:
        return None
    text = " ".join(str(value).split())
    return text if len(text) <= 200 else f"{text[:200]}…"
