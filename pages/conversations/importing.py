"""Imports conversations of another system: what the file means, what may identify people, then the import."""

import tempfile
from itertools import islice
from pathlib import Path

import pandas as pd
import streamlit as st

from core.datasets.archive import ArchiveLimits
from core.datasets.conversations.conversation import (
    FIELDS,
    SEATS,
    Columns,
    Loaded,
    ReadConversations,
    Seat,
    guess_columns,
    guess_speakers,
    read_conversations,
)
from core.datasets.conversations.files import MAX_BYTES, load
from core.datasets.conversations.personal import pointed_out
from core.datasets.select import cases_of, datasets
from core.interchange.conversation_import import (
    PROTOCOL,
    WITHOUT,
    ConversationImport,
    attach_cases,
    cases_by_id,
    import_conversations,
    is_log,
    runs_without_cases,
)
from core.interchange.inspect_import import ImportedLog, import_log
from core.store.database import Store
from pages.kit.controls import choose
from pages.kit.look import counted, plain, show_errors
from pages.kit.names import dataset_name
from pages.kit.tables import draw_table
from pages.kit.visitor import draw_button

_KINDS = ["csv", "tsv", "txt", "xlsx", "parquet", "json", "jsonl", "ndjson", "eval"]
_DONE = "conversations_import_done"
"""Session state key: what the last import did, in words."""
_NO_COLUMN = "—"


def draw_import() -> None:
    """Ask for a file, show what was understood, and import it; nothing is stored before the last click."""
    if done := st.session_state.pop(_DONE, ""):
        st.success(plain(done), icon=":material/check:")
    file = st.file_uploader(
        "Conversations of another system",
        _KINDS,
        key="conversations_import_file",
        help=f"A row for each message (CSV, Excel, Parquet), a line for each chat (JSON Lines), or a log of Inspect. "
        f"At most {MAX_BYTES // 1_000_000} MB.",
    )
    if file is not None:
        with show_errors(), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / Path(file.name).name
            path.write_bytes(file.getvalue())
            draw_file(path, file.file_id)
    with show_errors():
        draw_attaching()


def draw_file(path: Path, stamp: str) -> None:
    """Draw what a file holds, and import it on a click; ``stamp`` tells files with one name apart."""
    label = st.text_input(
        "Version or arm",
        key=f"conversations_import_label_{stamp}",
        placeholder="pilot, June",
        help="Conversations are compared by it. A column of versions is added to it.",
    ).strip()
    if is_log(path):
        if draw_button("Import the log of Inspect", key="conversations_import_go", role="run"):
            _finish([import_log(Store(), path, ArchiveLimits(), label)])
        return
    loaded = load(path)
    columns = _ask_columns(loaded, stamp)
    loaded.check(columns)
    read = read_conversations(loaded, columns, _ask_speakers(loaded, columns, stamp))
    st.caption(f"{counted(len(read.conversations), 'conversation')}, read as {loaded.encoding or 'UTF-8'}.")
    for title, rows in {"Cannot be used": read.faults, "Remarks": read.remarks}.items():
        if rows:
            with st.expander(f"{title}: {len(rows):,}", expanded=title != "Remarks"):
                listed = [{loaded.unit.capitalize(): str(row or "all"), "Why": reason} for row, reason in rows]
                draw_table(pd.DataFrame(listed), f"conversations-{title.lower()}", height="content")
    masking = _draw_people(read, stamp)
    if read.conversations:
        first = read.conversations[0]
        said = [{"Who": SEATS[seat], "Message": text} for seat, text in first.messages[:5]]
        st.dataframe(said, hide_index=True, alt=f"The first messages of conversation {first.id}")
    case_set = PROTOCOL
    if any(conversation.case for conversation in read.conversations):
        case_set = st.text_input(
            "Set of the ids of cases",
            PROTOCOL,
            key=f"conversations_import_set_{stamp}",
            help="Imports with one set are about the same cases, and are compared case by case.",
        ).strip()
    why_not = "" if label or "version" in columns else "Name the version or arm."
    if read.faults and not st.checkbox(
        f"Leave out {counted(len(read.faults), 'conversation')} that cannot be used",
        key=f"conversations_import_skip_{stamp}",
    ):
        why_not = "Some conversations cannot be used: leave them out, or mend the file."
    if draw_button(
        f"Import {counted(len(read.conversations), 'conversation')}",
        why_not if read.conversations else "There is no conversation that can be used.",
        type="primary",
        icon=":material/upload_file:",
        key="conversations_import_go",
        role="run",
    ):
        how = ConversationImport(loaded.name, label, case_set, masking)
        _finish(import_conversations(Store(), read.conversations, how))


def _ask_columns(loaded: Loaded, stamp: str) -> Columns:
    guessed = guess_columns(loaded.fields, nested=loaded.nested)
    inside = ("speaker", "text", "time") if loaded.nested else ("messages", "completion")
    fields = [name for name in FIELDS if name not in inside]
    edited = st.data_editor(
        pd.DataFrame({"Meaning": fields, "Column": [guessed.get(name, _NO_COLUMN) for name in fields]}),
        key=f"conversations_import_columns_{stamp}",
        hide_index=True,
        disabled=["Meaning"],
        column_config={"Column": st.column_config.SelectboxColumn(options=[_NO_COLUMN, *loaded.fields], required=True)},
    )
    return {
        name: column for name, column in zip(fields, edited["Column"], strict=True) if column not in (None, _NO_COLUMN)
    }


def _ask_speakers(loaded: Loaded, columns: Columns, stamp: str) -> dict[str, Seat]:
    who = guess_speakers(loaded.lines(columns))
    by_word = {word: seat for seat, word in SEATS.items()}
    edited = st.data_editor(
        pd.DataFrame(
            {
                "Speaker": list(who),
                "Messages": [count for _, count in who.values()],
                "Is": [SEATS[seat] for seat, _ in who.values()],
            }
        ),
        key=f"conversations_import_speakers_{stamp}_{columns.get('speaker')}",
        hide_index=True,
        disabled=["Speaker", "Messages"],
        column_config={"Is": st.column_config.SelectboxColumn(options=list(by_word), required=True)},
    )
    return {speaker: by_word[word] for speaker, word in zip(who, edited["Is"], strict=True)}


def _draw_people(read: ReadConversations, stamp: str) -> bool:
    """Draw what may identify people, and ask whether it is masked."""
    found = pointed_out(message.text for conversation in read.conversations for message in conversation.messages)
    if found:
        listed = [
            {"What": kind, "Found": len(words), "Examples": ", ".join(islice(dict.fromkeys(words), 3))}
            for kind, words in found.items()
        ]
        st.dataframe(listed, hide_index=True, alt="Words that may identify people")
    masking = st.checkbox("Replace them by their kind, as in [name]", key=f"conversations_import_mask_{stamp}")
    st.caption(
        f"{counted(sum(map(len, found.values())), 'place')} may identify a person, by rules that miss many. "
        f"{'They are replaced' if masking else 'Masking is off'}: this is no anonymisation."
    )
    return masking


def _finish(runs: list[ImportedLog]) -> None:
    new = [run for run in runs if run.new]
    stored = f" {len(runs) - len(new):,} of them were stored before." if len(new) < len(runs) else ""
    total = counted(sum(run.conversations for run in new), "conversation")
    st.session_state[_DONE] = f"Imported {total} of {', '.join(run.doctor for run in runs)}.{stored}"
    st.rerun()


def draw_attaching() -> None:
    """Ask for a run with conversations that have no case, and for the data set that has them; attach these by id."""
    runs = {run.run_id: run for run in runs_without_cases(Store())}
    if not runs:
        return
    st.subheader("Conversations without a case", anchor=False)
    st.caption("Accuracy, facts and the matrix of cases need a vignette and a right answer; judgements need neither.")
    left, right = st.columns(2)
    with left:
        run_id = choose(
            "Run",
            list(runs),
            "conversations_attach_run",
            names=lambda run_id: f"{runs[run_id].doctor} · {runs[run_id].settings[WITHOUT]} without a case",
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
        st.session_state[_DONE] = f"{counted(done, 'conversation')} of {runs[run_id].doctor} got a case."
        st.rerun()
