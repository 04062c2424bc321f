"""No export has a text of a case without an open licence; with one, or on demand, the texts are there."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from core.case import Case
from core.cli import training
from core.cli.app import main
from core.datasets.library import library
from core.events import Assessed, Ended, Failed, Finished, Probed, Summarised, Utterance
from core.export.document import document_of_events
from core.export.forms import FORMS
from core.report import bundle
from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import a_call, a_case, a_header, a_trial, answered, graded, write_journal
from tests.support.stores import copy_of

TOKEN = "Zwiebelkuchenfieber"
RUN, OPEN_RUN = "planted", "open"
EXPORTS = {
    "results.csv": ["export", "results", "--out", "{out}"],
    "results.parquet": ["export", "results", "--out", "{out}"],
    "transcripts.jsonl": ["export", "transcripts", RUN, "--calls", "--out", "{out}"],
    "logs": ["export", "inspect", RUN, "--out", "{out}"],
    "eee": ["export", "eee", RUN, "--out", "{out}", "--organization", "Lab", "--relationship", "third_party"],
    "one.html": ["export", "conversation", f"{RUN}/1/0", "--out", "{out}"],
    "one.md": ["export", "conversation", f"{RUN}/1/0", "--out", "{out}"],
    "one.json": ["export", "conversation", f"{RUN}/1/0", f"{RUN}/2/0", "--out", "{out}"],
    "copy.duckdb": ["export", "duckdb", "--out", "{out}"],
    "study.zip": ["bundle", "make", RUN, "--out", "{out}"],
}
QUOTING = (*("prefix_answers", "variants", "scores", "completions", "case_lists", "profiles", "judgements"),)
"""Tables whose rows quote cases or conversations."""


def planted_cases(licence: str) -> list[Case]:
    secret = {
        "vignette": f"A man has {TOKEN}.",
        "question": f"What is the most likely diagnosis of this {TOKEN}?",
        "answer": TOKEN,
    }
    return [
        a_case(1, **secret, choices=(TOKEN, "Eczema"), synonyms=(f"{TOKEN} minor",), licence=licence),
        a_case(2, licence="MIT"),
    ]


def plant(store: Store, licence: str) -> None:
    """Write a run with the token in every text of case 1, and rows that quote it in every table that can."""
    events = [
        a_call(
            "planted-call",
            request={"messages": [{"role": "user", "content": TOKEN}]},
            response=f"{TOKEN}, surely.",
            reasoning=TOKEN,
        ),
        Utterance(turn=0, role="doctor", text="Hello, what brings you in?"),
        Utterance(turn=1, role="patient", text=f"I have {TOKEN}.", call_id="planted-call"),
        Probed(turn=1, differential=((TOKEN, 0.5),)),
        Assessed(name="empathy", turn=1, value=3, most=5, by="patient", words=f"He knew {TOKEN}."),
        Ended(reason="final_diagnosis", doctor_turns=1, detail=TOKEN),
        Summarised(text=f"A man with {TOKEN}."),
        answered().model_copy(update={"response": TOKEN, "detail": TOKEN}),
        graded("correct").model_copy(update={"extracted": TOKEN}),
        Finished(at=2.0),
    ]
    trials = [
        a_trial(events, trial_id=f"{RUN}/1/0", run_id=RUN, case_key="ours/1"),
        a_trial(
            [Failed(where="patient", failure="server_error", message=f"{TOKEN} is not JSON")],
            trial_id=f"{RUN}/1/1",
            run_id=RUN,
            case_key="ours/1",
            trial=1,
        ),
        a_trial(
            [Utterance(turn=0, role="patient", text="An open word."), answered(), graded("correct"), Finished(at=2.0)],
            trial_id=f"{RUN}/2/0",
            run_id=RUN,
            case_key="ours/2",
        ),
    ]
    write_journal(store.journals, RUN, a_header(RUN, planted_cases(licence), trials=2), *trials)
    fold(store)
    with store.write() as connection:
        for table in QUOTING:
            columns = connection.execute(
                "SELECT column_name, data_type FROM duckdb_columns() "
                "WHERE table_name = ? AND database_name = current_database()",
                [table],
            ).fetchall()
            row = {name: value_of(name, type_) for name, type_ in columns}
            marks = ", ".join("?" for _ in row)
            connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values()))


def value_of(name: str, type_: str) -> Any:
    item = f"talk:{RUN}/1/0"
    known = {"trial_id": f"{RUN}/1/0", "case_key": "ours/1", "item": item, "subject": item, "review_id": "none"}
    if name in known:
        return known[name]
    if type_ == "JSON":
        return json.dumps([{"words": TOKEN}])
    if type_.endswith("[]"):
        return [] if "DOUBLE" in type_ else [TOKEN]
    return {"VARCHAR": TOKEN, "BOOLEAN": True}.get(type_, 1)


def closed(store: Store) -> None:
    plant(store, "")


def open_(store: Store) -> None:
    plant(store, "MIT")


def written(path: Path) -> str:
    """Return all that is readable in a file or folder: bytes, members of archives, and values of tables."""
    if path.is_dir():
        return "\n".join(f"{each.name}\n{written(each)}" for each in sorted(path.rglob("*")) if each.is_file())
    text = path.read_bytes().decode("utf-8", "replace")
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            text += "\n".join(archive.read(name).decode("utf-8", "replace") for name in archive.namelist())
    if path.suffix == ".parquet":
        text += str(pq.read_table(path).to_pylist())
    if path.suffix == ".duckdb":
        with duckdb.connect(str(path), read_only=True) as copy:
            tables = copy.execute("SELECT table_name FROM duckdb_tables()").fetchall()
            text += "\n".join(str(copy.execute(f"SELECT * FROM {table}").fetchall()) for (table,) in tables)
    return text


@pytest.mark.parametrize(
    ("fill", "options", "inside"),
    [
        (closed, [], False),
        pytest.param(closed, ["--with-cases"], True, marks=pytest.mark.slow),
        pytest.param(open_, [], True, marks=pytest.mark.slow),
    ],
)
def test_texts_of_a_case_are_in_an_export_only_with_an_open_licence_or_on_demand(
    fill: Any, options: list[str], inside: bool, tmp_path: Path, monkeypatch, capsys
) -> None:
    store = copy_of(fill, tmp_path / "db")
    monkeypatch.setenv("ANAMNESIS_DB", str(store.path))
    monkeypatch.setattr(bundle, "FIGURES", bundle.FIGURES[:1])  # test_bundle.py reads the others
    wrong = []
    for name, command in EXPORTS.items():
        out = tmp_path / name
        code = main([*(word.format(out=out) for word in command), *options])
        said = capsys.readouterr()
        if code:
            wrong.append((name, said.err))
            continue
        if (TOKEN in written(out)) != inside:
            wrong.append((name, "has the texts" if not inside else "lacks the texts"))
        if ("--with-cases" in said.out) == inside:
            wrong.append((name, said.out))
    assert wrong == []


def test_open_cases_of_the_same_run_keep_their_texts(tmp_path: Path, monkeypatch) -> None:
    store = copy_of(closed, tmp_path / "db")
    monkeypatch.setenv("ANAMNESIS_DB", str(store.path))
    wrong = []
    for name in ("transcripts.jsonl", "logs", "one.json", "copy.duckdb"):
        out = tmp_path / name
        assert main([word.format(out=out) for word in EXPORTS[name]]) == 0
        if "An open word." not in written(out):
            wrong.append(name)
    assert wrong == []
    # a copy of the database opens, with all verdicts, and without hashes that would confirm a guess of a closed text
    closed_case, open_case = planted_cases("")
    with Store(tmp_path / "copy.duckdb").read() as cursor:
        hashes = set(cursor.execute("SELECT text_hash, words_hash FROM cases").fetchall())
        assert (open_case.text_hash, open_case.words_hash) in hashes
        assert not {closed_case.text_hash, closed_case.words_hash} & {name for pair in hashes for name in pair}
        assert cursor.execute("SELECT count(*) FROM verdicts WHERE verdict = 'correct'").fetchall() == [(2,)]


def test_a_training_set_has_no_case_without_an_open_licence(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    table = [("", [], False), ("", ["--with-cases"], True), ("MIT", [], True)]
    wrong = []
    for number, (licence, options, inside) in enumerate(table):
        cases = [*library()[:8], *planted_cases(licence)[:1]]
        monkeypatch.setattr(training, "select", lambda *_, cases=cases: cases)
        out = tmp_path / f"golden{number}"
        assert main(["export", "training", "--out", str(out), *options]) == 0
        if (TOKEN in written(out)) != inside or ("--with-cases" in capsys.readouterr().out) == inside:
            wrong.append((licence, options))
    assert wrong == []
    monkeypatch.setattr(training, "select", lambda *_: planted_cases("")[:1])
    assert main(["export", "training", "--out", str(tmp_path / "none")]) != 0
    assert not (tmp_path / "none").exists()


def test_a_running_conversation_is_exported_by_the_same_rule() -> None:
    for licence, with_cases, inside in (("", False, False), ("", True, True), ("MIT", False, True)):
        case = planted_cases(licence)[0]
        document = document_of_events(
            case, [Utterance(turn=0, role="patient", text=f"I have {TOKEN}.")], with_cases=with_cases
        )
        for name in ("html", "md", "json"):
            assert (TOKEN in FORMS[name].render(document).decode()) == inside, (licence, name)
        assert bool(document.withheld) != inside
