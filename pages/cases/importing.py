"""Imports cases from a file: format, preview, rejected rows with their reasons, then the import."""

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
from core.callbacks import ProgressCallback, StopCallback
from core.datasets.archive import ArchiveLimits
from core.datasets.importing import ImportedDataset, credited, import_file, list_in, name_of, preview_of, would_replace
from core.datasets.readers import FORMATS, read_cases
from core.datasets.readers.engine import chosen_format
from core.datasets.readers.files import LIMITS, FileRows, Record
from core.datasets.readers.formats.plain import FIRST, guess_columns, has_needed_columns
from core.datasets.reading import ImportPreview, ReadCases, Remark
from core.errors import AnamnesisError, UsageError
from core.frameworks.base import frameworks
from core.frameworks.release import Release
from core.images import MAX_BYTES, MAX_PIXELS
from core.jobs.background import Job, begin, begin_import, importing, job_at, remove_job
from core.jobs.release.importing import ImportReport, report_lines
from core.store.database import Store
from core.store.queries.case_labels import add_labels_of_file
from core.text.demographics import age_and_sex
from pages.kit.controls import choose
from pages.kit.jobs import draw_work
from pages.kit.look import counted, first_words, plain
from pages.kit.names import model_name
from pages.kit.navigation import link
from pages.kit.page import draw_fold
from pages.kit.tables import draw_table
from pages.kit.visitor import draw_button, only

T = TypeVar("T")
_WAIT_S = 1.5
"""Seconds to wait for a file before its progress is drawn."""
_PREVIEW_ROWS = 5
"""Rows shown of a file in an unknown format."""
_KINDS = ["csv", "tsv", "json", "jsonl", "ndjson", "parquet", "txt", "xlsx"]
_KINDS += ["zip", "tar", "gz", "tgz", "bz2", "xz"]


@dataclass(frozen=True)
class CaseFile:
    """A file to read, on disk (``path``) or uploaded (``data``). ``stamp`` changes with the contents."""

    name: str
    stamp: str
    path: Path | None = None
    data: bytes = b""

    @contextmanager
    def on_disk(self) -> Iterator[Path]:
        """Yield the file’s path; uploaded bytes are written to a temporary folder for the time being."""
        if self.path is not None:
            yield self.path
            return
        with tempfile.TemporaryDirectory(prefix="anamnesis-") as folder:
            path = Path(folder) / self.name
            path.write_bytes(self.data)
            yield path


@dataclass(frozen=True)
class FilePreview:
    """The fields of a file and its first records, from which a user says what each field means."""

    fields: tuple[str, ...]
    first: Sequence[Record]


def ask_file(
    key: str, label: str, kinds: list[str], help: str | None = None, *, folders: bool = False
) -> CaseFile | None:
    """Ask for a file, uploaded or by its path (with ``folders`` also a folder’s); ``None`` until there is one."""
    where = st.segmented_control(
        "File",
        ["upload", "path"],
        default="upload",
        required=True,
        key=f"{key}_where",
        format_func={"upload": "Upload", "path": "Path on the server"}.__getitem__,
        help=help,
    )
    if where == "upload":
        upload = st.file_uploader(label, kinds, key=f"{key}_upload")
        if upload is None:
            return None
        data = upload.getvalue()
        return CaseFile(Path(upload.name).name, hashlib.sha256(data).hexdigest(), data=data)
    hint = "/home/me/release" if folders else "/home/me/medqa/test.jsonl"
    text = st.text_input("Path", key=f"{key}_path", placeholder=hint).strip().strip('"')
    if not text:
        return None
    path = allowed_path(text)
    if not (path.is_file() or (folders and path.is_dir())):
        what = "file or folder" if folders else "file"
        raise UsageError(f"There is no {what} {path}: give the absolute path on the computer that runs Anamnesis.")
    return CaseFile(path.name, f"{path}-{path.stat().st_mtime_ns}-{path.stat().st_size}", path)


def read_file(file: CaseFile, dataset: str, format_: str, columns: Mapping[str, str]) -> ReadCases | None:
    """Read the file, once for each set of choices; draw the progress and return ``None`` while reading a large file."""
    key = ("read", file.stamp, dataset, format_, *sorted(columns.items()))

    def read(on_progress: ProgressCallback, should_stop: StopCallback) -> ReadCases:
        with file.on_disk() as path, list_in(path) as list_path:
            return read_cases(list_path, dataset, format_, dict(columns), on_progress, should_stop)

    return _result_of(key, read, f"Reading {file.name}")


def _result_of(key: tuple[object, ...], task: Callable[[ProgressCallback, StopCallback], T], title: str) -> T | None:
    """Return the result of background work on a file, starting the work at the first call.

    Draws the progress and returns ``None`` while the work runs or once it was stopped. Raises ``AnamnesisError`` if it
    failed.
    """
    work: Job[T] = job_at(key) or begin(key, task, title)
    work.join(_WAIT_S)
    if work.running:
        st.fragment(draw_work, run_every=1.0)(
            work, title, f"{title} …", "data_work", "MB", figures=False, stopped="Nothing is imported then."
        )
        return None
    if work.result is not None:
        return work.result
    st.button("Try again", icon=":material/refresh:", key="cases_again", on_click=remove_job, args=(key,))
    raise AnamnesisError(work.error or "")


@st.cache_data(max_entries=8, show_spinner=False)
def recognised_format(stamp: str, _file: CaseFile) -> str | None:
    """Return the format that the file’s first records show, or ``None``; raises if the file is damaged."""
    with _file.on_disk() as path, list_in(path) as list_path:
        rows = FileRows(list_path)
        try:
            return chosen_format("auto", rows, columns=False)[0].name
        except UsageError:
            return None


@st.cache_resource(max_entries=2, show_spinner=False)
def first_records_of(stamp: str, _file: CaseFile) -> FilePreview:
    """Return the file’s fields and first records; raises ``AnamnesisError`` if it has no named fields."""
    with _file.on_disk() as path, list_in(path) as list_path:
        _, rows = chosen_format("auto", FileRows(list_path), columns=True)
        preview = FilePreview(rows.columns, rows.first(_PREVIEW_ROWS))
    if not preview.fields:
        raise AnamnesisError(f"{_file.name} has no named fields: a table needs a header, a JSON file objects.")
    return preview


AUTO, PLAIN = "auto", "plain"
_MAX_ROWS = 200
"""Rows shown of a preview’s tables."""
_COLUMNS = {
    "vignette": ("Vignette", "May end with the question."),
    "question": ("Question", "If separate from the vignette."),
    "options": ("Choices", "One field with all, or one field for each, in order."),
    "answer": ("Right answer", "Its text, letter or position."),
    "id": ("Id", "Unique; otherwise the row number."),
    "specialty": ("Specialty", "As spelled in the file."),
    "image": ("Picture", "Paths separated by |, or an address."),
}
"""Part of a case → label of its control, and help."""
_NONE = "–"
_PARTS = {
    "Rejected": ("block", "Rows with a fault."),
    "Left out": ("filter_alt", "Valid rows that are no cases in this format."),
    "Remarks": ("info", ""),
}
"""Rows that a preview lists → icon, and help."""


def draw_import(sizes: Mapping[str, int]) -> None:
    """Draw the import of cases; ``sizes`` are the numbers of cases by data set."""
    titles = ", ".join(plain(form.title) for form in FORMATS.values() if form.name != PLAIN)
    st.caption("Formats are detected. For any other table, name its columns.", help=f"Detected: {titles}.")
    help_ = (
        f"Also compressed (.gz, .bz2, .xz). With pictures: an archive of the list and the pictures at the paths in it. "
        f"Limits: {LIMITS}; a picture {MAX_BYTES // 1024**2} MB and {MAX_PIXELS // 1_000_000} million pixels. Larger "
        f"than {st.get_option('server.maxUploadSize')} MB: give the path on the server."
    )
    file = ask_file("cases", "CSV, Excel, JSON, JSON Lines or Parquet", _KINDS, help_)
    if file is None:
        return
    left, right = st.columns(2, vertical_alignment="bottom")
    format_ = (
        right.selectbox(
            "Format",
            [AUTO, *FORMATS],
            key="cases_format",
            format_func=lambda name: "Detect" if name == AUTO else FORMATS[name].title,
        )
        or AUTO
    )
    name = left.text_input(
        "Name of the data set",
        name_of(Path(file.name)),
        key=f"cases_name_{file.stamp}",
        help="Lower-case letters, digits, - and _.",
    ).strip()
    if format_ != AUTO:
        st.caption(plain(FORMATS[format_].reads))
    columns: dict[str, str] = {}
    detected = recognised_format(file.stamp, file) if format_ == AUTO else format_
    if detected in (None, PLAIN):
        format_, chosen_columns = PLAIN, _ask_columns(file)
        if chosen_columns is None:
            return
        columns = chosen_columns
    reading = read_file(file, name, format_, columns)
    if reading is None:
        return
    draw_preview(preview_of(reading, file.name, name))
    st.dataframe(
        preview_table(reading),
        hide_index=True,
        height=220,
        placeholder=_NONE,
        alt="Cases as they would be imported",
        column_config=dict.fromkeys(("Vignette", "Question", "Choices"), st.column_config.TextColumn(width="medium")),
    )
    if len(reading.cases) > _MAX_ROWS:
        st.caption(f"The first {_MAX_ROWS} of {len(reading.cases):,} cases.")
    if reading.cases:
        _ask_and_import(file, name, format_, columns, reading, sizes)


def _ask_columns(file: CaseFile) -> dict[str, str] | None:
    """Show the file’s first rows and ask what its fields hold; ``None`` until there is enough to read cases."""
    preview = first_records_of(file.stamp, file)
    st.markdown("**What does each column hold?** :gray[Unknown format. First rows:]")
    st.dataframe(
        pd.DataFrame([{field: _short(record.get(field)) for field in preview.fields} for record in preview.first]),
        hide_index=True,
        placeholder=_NONE,
        alt="The file’s first rows",
    )
    places = st.columns(3)
    chosen: dict[str, str] = {}
    likely = guess_columns(preview.fields)
    for number, (name, (label, help_)) in enumerate(_COLUMNS.items()):
        key, place = f"cases_column_{name}_{file.stamp}", places[number % 3]
        if name == "options":
            default_fields = likely[name].split("+") if name in likely else []
            chosen[name] = "+".join(place.multiselect(label, preview.fields, default_fields, key=key, help=help_))
        else:
            options = [_NONE, *preview.fields]
            field = place.selectbox(label, options, options.index(likely.get(name, _NONE)), key=key, help=help_)
            chosen[name] = "" if field in (None, _NONE) else field
    first_position = places[len(_COLUMNS) % 3].selectbox(
        "Positions count from",
        [_NONE, "0", "1"],
        key=f"cases_column_{FIRST}_{file.stamp}",
        help="If right answers are positions of choices.",
    )
    chosen[FIRST] = "" if first_position in (None, _NONE) else first_position
    columns = {name: field for name, field in chosen.items() if field}
    if not has_needed_columns(columns):
        st.caption("Needed: the vignette (or the question) and the right answer.")
        return None
    return columns


def draw_preview(preview: ImportPreview) -> None:
    """Draw what an import would store, and every row that it would not use or that is remarked on, with its reason."""
    with st.container(border=True, horizontal=True):
        for label, value in preview.understood.items():
            st.metric(label, plain(value), width="content")
        for label, rows in preview.rows.items():
            if label == "Rejected" or (label == "Left out" and rows):
                st.metric(label, f"{len(rows):,}", width="content", help=_PARTS[label][1])
    draw_rows(preview.rows, preview.unit, {label: len(rows) for label, rows in preview.rows.items()})


def draw_rows(rows: Mapping[str, Sequence[Remark]], unit: str, counts: Mapping[str, int]) -> None:
    """Draw the rows of a file that are no cases or that are remarked on, each with its reason.

    ``counts`` are the numbers of all such rows, also of those that are not listed.
    """
    for label, listed in rows.items():
        if listed:
            title = f"{label}: {counts[label]:,}"
            if counts[label] > len(listed):
                title += f", of which the first {len(listed):,} are listed"
            with st.expander(title, icon=f":material/{_PARTS[label][0]}:", expanded=label == "Rejected"):
                table = remarks_table(listed, unit)
                draw_table(table, f"{label.lower()}-rows", height="content" if len(listed) <= 8 else 300)


def preview_table(reading: ReadCases) -> pd.DataFrame:
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
            for case in reading.cases[:_MAX_ROWS]
        ]
    )


def remarks_table(remarks: Sequence[Remark], unit: str) -> pd.DataFrame:
    """Return remarks by row of the file; a remark on the whole file has the row “all”."""
    return pd.DataFrame([{unit.capitalize(): str(row) if row else "all", "Why": reason} for row, reason in remarks])


def _ask_and_import(
    file: CaseFile, name: str, format_: str, columns: Mapping[str, str], reading: ReadCases, sizes: Mapping[str, int]
) -> None:
    form = FORMATS.get(reading.format)
    left, right = st.columns(2)
    published = (
        form is not None
        and bool(form.source)
        and st.checkbox(f"This is the published set {plain(form.title)}", key=f"cases_published_{file.stamp}")
    )
    choice = f"{reading.format}_{published}_{file.stamp}"
    source = left.text_input("Source", form.source if form and published else "", key=f"cases_source_{choice}")
    licence = right.text_input(
        "Licence",
        form.licence if form and published else "",
        key=f"cases_licence_{choice}",
        help="Without an open licence, texts are left out of exports.",
    )
    skip = not reading.rejected or st.checkbox(
        f"Leave out {counted(len(reading.rejected), 'rejected row')}", key=f"cases_skip_{file.stamp}"
    )
    replaces = would_replace(name, credited(reading, source, licence))
    confirmed = not replaces or st.checkbox(
        f"Replace {plain(name)} with its {counted(sizes.get(name, 0), 'case')}",
        key=f"cases_replace_{name}_{file.stamp}",
        help="Unchanged cases keep their profiles.",
    )
    key = ("import", file.stamp, name, format_, *sorted(columns.items()))
    why_not = "" if skip else "Some rows were rejected: leave them out, or mend the file."
    if not confirmed:
        why_not = f"There is a data set {name}: confirm that it is replaced, or name another."
    if job_at(key) is not None or draw_button(
        f"Import {counted(len(reading.cases), 'case')}",
        why_not,
        type="primary",
        icon=":material/upload_file:",
        key="cases_import_go",
        role="run",
    ):

        def run_import(on_progress: ProgressCallback, should_stop: StopCallback) -> ImportedDataset:
            with file.on_disk() as path:
                done = import_file(
                    path,
                    name,
                    format_,
                    columns,
                    skip_bad=bool(reading.rejected),
                    source=source.strip() or None,
                    licence=licence.strip() or None,
                    replace=bool(confirmed),
                    on_progress=on_progress,
                    should_stop=should_stop,
                )
                add_labels_of_file(Store(), done.reading.cases, file.name)
                return done

        result = _result_of(key, run_import, f"Importing {file.name}")
        if result is None:
            return
        remove_job(key)
        remarks = f"; {counted(len(result.findings), 'fault')}" if result.findings else ""
        imported = f"Imported {counted(len(result.reading.cases), 'case')}{remarks}."
        st.session_state["cases_told"] = f"{imported} {result.replaced}".strip()
        st.query_params["dataset"] = result.dataset
        st.rerun()


def _short(value: object) -> str | None:
    return None if value is None else first_words(str(value), 200)


_ARCHIVES = ["zip", "tar", "gz", "tgz", "xz", "txz", "bz2"]
_LIMITS = ArchiveLimits(way_out="Unpack it yourself, and give the path of its folder.")
_OPEN = "release"
"""URL parameter that opens the form."""


def draw_release() -> None:
    """Draw the import of a release, folded up; draw its progress while an import runs."""
    published = (framework.publication.release for framework in frameworks().values())
    releases = {release.name: release for release in published if release}
    busy = next(
        (name for name, release in releases.items() if (work := importing(Store(), release)) and work.running), None
    )
    several = len(releases) > 1

    def draw() -> None:
        names = {name: release.about for name, release in releases.items()}
        name = busy or (
            choose("Release", list(releases), "cases_release_of", names=names) if several else next(iter(releases))
        )
        release = releases[name]
        work = importing(Store(), release)
        if work is not None and work.running:
            words = ("Reading case files", "Unpacking…", "cases_release", "files")
            st.fragment(draw_work, run_every=0.5)(work, *words, figures=False, stopped="Nothing is imported then.")
            return
        if work is not None and work.error:
            st.error(plain(work.error), icon=":material/error:")
        if work is not None and work.result is not None:
            draw_report(work.result, release)
        st.caption(
            "A folder or archive (zip, tar) of the authors’ repository; its conversations become runs.",
            help="A second import reads only what has changed.",
        )
        file = ask_file("cases_release", "An archive of the repository", _ARCHIVES, folders=True)
        if file is not None and st.button(
            "Import it", type="primary", icon=":material/upload_file:", key="cases_release_go", **only("run")
        ):
            begin_import(Store(), release, file.on_disk, file.name, _LIMITS)
            st.query_params[_OPEN] = "yes"  # stay open after the import, to show its report
            st.rerun()

    title = "Import conversations that authors released" if several else f"Import {next(iter(releases.values())).about}"
    draw_fold(title, draw, "cases_release", "inventory_2", open_=busy is not None or _OPEN in st.query_params)


def draw_report(report: ImportReport, release: Release) -> None:
    """Draw the result of an import, with links to the pages that show it."""
    trials = sum(model.trials for model in report.models)
    models = ", ".join(model_name(model.label) for model in report.models)
    summary = f"Imported {trials:,} trials of {plain(models)}" if trials else "Already imported"
    st.success(f"{summary}, on {report.cases:,} cases.", icon=":material/check:")
    with st.container(horizontal=True):
        link("accuracy", "Accuracy", "bar_chart")
        link("conversations", "Conversations", "forum", conversations_part="Conversations")
        link("runs", "Runs", "play_arrow")
        link("compare", "Compare two", "compare_arrows")
        link("cases", "Its cases", "database", dataset=release.name)
    with st.expander("Details of the import", icon=":material/list:", expanded=bool(report.quarantined)):
        st.markdown("\n".join(f"- {plain(line.strip())}" for line in report_lines(report, release)))
