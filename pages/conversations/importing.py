"""Imports conversations of another system: what the file means, what may identify people, then the import."""

import tempfile
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.datasets.archive import ArchiveLimits
from core.datasets.conversations.conversation import SEATS, Columns, Loaded, ReadConversations, Seat, read_conversations
from core.datasets.conversations.files import MAX_BYTES, load
from core.datasets.conversations.personal import in_words, pointed_out
from core.datasets.select import cases_of, datasets
from core.interchange.conversation_import import (
    PROTOCOL,
    ConversationImport,
    attach_cases,
    cases_by_id,
    import_conversations,
    is_log,
)
from core.interchange.inspect_import import ImportedLog, import_log
from core.store.database import Store
from core.store.queries.run_cases import without_case
from pages.kit.cached import ask
from pages.kit.controls import choose
from pages.kit.look import counted, plain, show_errors
from pages.kit.names import dataset_name
from pages.kit.tables import draw_table
from pages.kit.visitor import draw_button

_KEY = "conversations_import"
_KINDS = ["csv", "tsv", "txt", "xlsx", "parquet", "json", "jsonl", "ndjson", "eval"]
_NO_COLUMN = "—"


def draw_import() -> None:
    """Ask for a file, show what was understood, and import it; nothing is stored before the last click."""
    if done := st.session_state.pop(f"{_KEY}_done", ""):
        st.success(plain(done), icon=":material/check:")
    file = st.file_uploader(
        "Conversations of another system",
        _KINDS,
        key=f"{_KEY}_file",
        help="A row for each message (CSV, Excel, Parquet), a line for each chat (JSON Lines), or a log of Inspect. "
        f"At most {MAX_BYTES // 1_000_000} MB.",
    )
    if file is not None:
        with show_errors(), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / Path(file.name).name
            path.write_bytes(file.getbuffer())
            _draw_file(path, file.file_id)
    with show_errors():
        draw_attaching()


def _draw_file(path: Path, stamp: str) -> None:
    """Draw what a file holds, and import it on a click; ``stamp`` tells files with one name apart."""
    left, right = st.columns(2)
    label = left.text_input(
        "Version",
        key=f"{_KEY}_label_{stamp}",
        placeholder="pilot, June",
        help="Conversations are compared by it. A column of versions is added to it.",
    ).strip()
    if is_log(path):
        if draw_button("Import the log of Inspect", key=f"{_KEY}_go", type="primary", role="run"):
            _finish([import_log(Store(), path, ArchiveLimits(), label)])
        return
    loaded = _loaded(stamp, path)
    guessed = loaded.guess_columns()
    table: dict[str, list[Any]] = {
        "Meaning": loaded.fields,
        "Column": [guessed.get(name, _NO_COLUMN) for name in loaded.fields],
    }
    meant = _corrected(left, f"columns_{stamp}", table, [_NO_COLUMN, *loaded.columns])
    columns = {name: column for name, column in zip(loaded.fields, meant, strict=True) if column != _NO_COLUMN}
    case_set = PROTOCOL
    if "case" in columns:
        case_set = right.text_input(
            "Set of the ids of cases",
            PROTOCOL,
            key=f"{_KEY}_set_{stamp}",
            help="Imports with one set are about the same cases, and are compared case by case.",
        ).strip()
    who = loaded.guess_speakers(columns)
    table = {"Speaker": list(who), "Messages": [n for _, n in who.values()], "Is": [SEATS[s] for s, _ in who.values()]}
    words = _corrected(right, f"speakers_{stamp}_{columns.get('speaker')}", table, list(SEATS.values()))
    by_word = {word: seat for seat, word in SEATS.items()}
    seats = {speaker: by_word[word] for speaker, word in zip(who, words, strict=True)}
    read, found = _read(stamp, columns, seats, loaded)
    total = f"{counted(len(read.conversations), 'conversation')}, {counted(sum(1 for _ in read.texts), 'message')}"
    st.markdown(f"**{total}** :gray[· read as {loaded.encoding}]")
    for title, rows in {"Cannot be used": read.faults, "Remarks": read.remarks}.items():
        if rows:
            with st.expander(f"{title}: {len(rows):,}", expanded=title != "Remarks"):
                listed = [{loaded.unit.capitalize(): str(row or "all"), "Why": reason} for row, reason in rows]
                draw_table(pd.DataFrame(listed), f"conversations-{title.lower()}", height="content")
    if read.conversations:
        first = read.conversations[0]
        said = [{"Who": SEATS[seat], "Message": text} for seat, text in first.messages[:5]]
        st.dataframe(said, hide_index=True, alt=f"The first messages of conversation {first.id}")
    if found:
        about = [
            {"What": kind, "Found": of_kind.total(), "Examples": ", ".join(islice(of_kind, 3))}
            for kind, of_kind in found.items()
        ]
        st.dataframe(about, hide_index=True, alt="Words that may identify people")
    masking = st.checkbox("Replace them by their kind, as in [name]", key=f"{_KEY}_mask_{stamp}")
    how = ConversationImport(loaded.name, label, case_set, masking)
    st.caption(" ".join(filter(None, [in_words(found, masking=masking), how.known(Store(), read.conversations)])))
    why_not = "" if label or "version" in columns else "Name the version."
    if read.faults and not st.checkbox("Leave out what cannot be used", key=f"{_KEY}_skip_{stamp}"):
        why_not = "Some conversations cannot be used: leave them out, or mend the file."
    if draw_button(
        f"Import {counted(len(read.conversations), 'conversation')}",
        why_not if read.conversations else "There is no conversation that can be used.",
        type="primary",
        icon=":material/upload_file:",
        key=f"{_KEY}_go",
        role="run",
    ):
        _finish(import_conversations(Store(), read.conversations, how))


@st.cache_resource(max_entries=2, show_spinner="Reading the file…")
def _loaded(stamp: str, _path: Path) -> Loaded:
    return load(_path)


@st.cache_resource(max_entries=2, show_spinner="Reading the conversations…")
def _read(
    stamp: str, columns: Columns, seats: Mapping[str, Seat], _loaded: Loaded
) -> tuple[ReadConversations, Mapping[str, Counter[str]]]:
    read = read_conversations(_loaded, columns, seats)
    return read, pointed_out(read.texts)


def _corrected(where: DeltaGenerator, key: str, table: Mapping[str, list[Any]], options: list[str]) -> list[str]:
    """Draw a table whose last column can be corrected, and return that column."""
    *_, last = table
    edited = where.data_editor(
        pd.DataFrame(table),
        key=f"{_KEY}_{key}",
        hide_index=True,
        disabled=[name for name in table if name != last],
        column_config={last: st.column_config.SelectboxColumn(options=options, required=True)},
    )
    return list(edited[last])


def _finish(runs: list[ImportedLog]) -> None:
    new = counted(sum(run.conversations for run in runs if run.new), "conversation")
    before = "" if all(run.new for run in runs) else " The others were stored before."
    st.session_state[f"{_KEY}_done"] = f"Imported {new} of {', '.join(run.doctor for run in runs)}.{before}"
    st.rerun()


def draw_attaching() -> None:
    """Ask for a run with conversations that have no case, and for the data set that has them; attach these by id."""
    if not (runs := ask(without_case)):
        return
    st.subheader("Conversations without a case", anchor=False)
    st.caption("Accuracy, facts and the matrix of cases need a vignette and a right answer; judgements need neither.")
    left, right = st.columns(2)
    with left:
        run_id = choose(
            "Run",
            list(runs),
            "conversations_attach_run",
            names={
                run_id: f"{doctor} · {number:,} without a case · {run_id}" for run_id, (doctor, number) in runs.items()
            },
            bound=False,
        )
    with right:
        data_set = choose(
            "Data set with these cases",
            ["", *datasets()],
            "conversations_attach_cases",
            names=lambda name: dataset_name(name) if name else "None",
            bound=False,
            help="Its vignettes and right answers are attached by id.",
        )
    if draw_button(
        "Attach its cases by id", "" if data_set else "Choose the data set.", key="conversations_attach_go", role="run"
    ):
        done = attach_cases(Store(), run_id, cases_by_id(cases_of(data_set)))
        st.session_state[f"{_KEY}_done"] = f"{counted(done, 'conversation')} of {runs[run_id][0]} got a case."
        st.rerun()
