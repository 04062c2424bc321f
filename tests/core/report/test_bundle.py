"""Bundles: made of runs, and verified without their database."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pyarrow as pa
import pytest

from core.errors import AnamnesisError
from core.events import Utterance
from core.journal import DeletedLine, JournalLine, ReplyLine, RowLine, SpokenLine, WrittenLine, journal_path, line_bytes
from core.report import bundle
from core.report.bundle import Cells, differing_cells, make_bundle
from core.report.bundle_check import verify_bundle
from core.report.bundle_journals import BLINDED, OTHER_RUNS, Belonging, job_lines, peoples_lines, without_texts
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.judgements import add_judgements
from core.store.queries.trials import conversations, done_trial_ids
from core.store.run_files import header_with_cases, read_run_tables, write_run_tables
from core.store.selection import Selection
from core.store.tables import TABLES
from core.store.written import JournalContents, write
from tests.core.jobs.workshop import core, run_ids
from tests.core.store.builders import (
    a_call,
    a_case,
    a_header,
    a_trial,
    answered,
    as_released,
    graded,
    grades,
    write_journal,
)
from tests.support.answering import an_answer
from tests.support.campaigns import BESIDE_RULES
from tests.support.fake_provider import FakeProvider, running
from tests.support.stores import campaign, copy_of

HEADER = "case_vignette,choice_1,choice_2,choice_3,choice_4,answer,category,dataset,case_id"
VIGNETTE = "A {}-year-old stonemason from Aberlour has had a swollen big toe since midnight. What is the diagnosis?"
SECRET_WORDS = ("stonemason", "Aberlour", "midnight", "Podagra")
"""Words of the cases and of the answers, which must not leave unless the licence allows it."""
CASES = "\n".join(
    [
        HEADER,
        *(
            f"{VIGNETTE.format(40 + n)},Podagra,Cellulitis,Bunion,Fracture,Podagra,Rheumatology,Own,{n}"
            for n in range(5)
        ),
    ]
)
KEY = "sk-abcdefghijklmnop1234"


def scripted(body: dict[str, Any]) -> str:
    """Play a doctor that asks two questions, and is wrong about the 41-year-old."""
    said = [message for message in body["messages"] if message["role"] == "assistant"]
    asked = str(body["messages"][-1]["content"])
    if len(said) < 3 and "A. " not in asked and "diagnosis" not in asked.lower():
        return ("What brings you in?", "Since when?", "Where does it hurt?")[len(said)]
    return f"**Final Diagnosis:** {'Bunion' if 'A 41-year-old' in str(body) else 'Podagra'}"


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProvider]:
    with running(scripted) as provider:
        yield provider


def played(folder: Path, provider: FakeProvider, licence: str) -> Path:
    """Return the database of a run of five cases, two trials each, on cases with this licence."""
    db, file = folder / "here" / "anamnesis.duckdb", folder / "toes.csv"
    file.write_text(CASES)
    imported = core(db, "import", "cases", str(file), "--name", "toes", "--licence", licence)
    assert imported.returncode == 0, imported.stderr
    arms = ("--arms", "vignette:mcq,multi_turn:frq", "--trials", "2")
    ran = core(
        db, "run", "--doctor", "openai/doctor", "--cases", "toes", "--base-url", provider.base_url, *BESIDE_RULES, *arms
    )
    assert ran.returncode == 0, ran.stderr
    return db


@pytest.fixture(scope="module")
def open_db(tmp_path_factory: pytest.TempPathFactory, provider: FakeProvider) -> Path:
    return played(tmp_path_factory.mktemp("open"), provider, "MIT")


@pytest.fixture(scope="module")
def open_bundle(open_db: Path) -> Path:
    return bundled_accuracy(open_db, open_db.parent / "study.zip")


@pytest.fixture(scope="module")
def closed_db(tmp_path_factory: pytest.TempPathFactory, provider: FakeProvider) -> Path:
    return played(tmp_path_factory.mktemp("closed"), provider, "for this hospital alone")


@pytest.fixture(scope="module")
def closed_bundle(closed_db: Path) -> Path:
    return bundled(closed_db, closed_db.parent / "study.zip")


@pytest.fixture
def one_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only accuracy, for bundles whose further figures no test reads."""
    monkeypatch.setattr(bundle, "FIGURES", bundle.FIGURES[:1])


@pytest.fixture
def only_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of ``open_bundle``, so that no others are computed when it is verified."""
    monkeypatch.setattr(bundle, "FIGURES", bundle.FIGURES[:2])


def bundled(db: Path, out: Path, *options: str) -> Path:
    made = core(db, "bundle", "make", *run_ids(db), "--out", str(out), *options)
    assert made.returncode == 0, made.stderr
    return out


def bundled_accuracy(db: Path, out: Path) -> Path:
    """Make a bundle with no figures but accuracy, with and without specialties: the others take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle, "FIGURES", bundle.FIGURES[:2])
        return bundled(db, out)


def edited(bundle: Path, out: Path, edit: Callable[[dict[str, bytes]], None], *, hashed: bool = False) -> Path:
    """Write a bundle with changed members; with ``hashed`` the manifest is changed to fit."""
    with zipfile.ZipFile(bundle) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    edit(members)
    if hashed:
        manifest = json.loads(members["manifest.json"])
        manifest["files"] = {name: hashlib.sha256(members[name]).hexdigest() for name in manifest["files"]}
        members["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out


def texts_in(bundle: Path) -> str:
    with zipfile.ZipFile(bundle) as archive:
        return "\n".join(archive.read(name).decode() for name in archive.namelist())


def figures_in(bundle: Path) -> list[dict[str, str]]:
    with zipfile.ZipFile(bundle) as archive:
        return list(csv.DictReader(archive.read("figures.csv").decode().splitlines()))


def journal_in(members: dict[str, bytes]) -> str:
    (name,) = (name for name in members if name.endswith("journal.jsonl"))
    return name


def make_wrong(members: dict[str, bytes]) -> None:
    """Turn the first right verdict of the first trial in the journal into a wrong one."""
    name = journal_in(members)
    lines = members[name].splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines) if b'"verdict":"correct"' in line)
    lines[number] = lines[number].replace(b'"verdict":"correct"', b'"verdict":"incorrect"', 1)
    members[name] = b"".join(lines)


@pytest.mark.slow
def test_a_bundle_is_verified_without_its_database(open_bundle: Path, tmp_path: Path) -> None:
    elsewhere = shutil.copy(open_bundle, tmp_path / "study.zip")
    verified = core(tmp_path / "none" / "a.duckdb", "bundle", "verify", str(elsewhere))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "equal: accuracy, accuracy by=specialty" in verified.stdout
    assert not (tmp_path / "none").exists()


def test_the_bundle_contains_what_the_figures_depend_on(open_bundle: Path, open_db: Path) -> None:
    with zipfile.ZipFile(open_bundle) as archive:
        names = set(archive.namelist())
        manifest = json.loads(archive.read("manifest.json"))
        cases = [json.loads(line) for line in archive.read("cases/cases.jsonl").splitlines()]
    (run_id,) = run_ids(open_db)
    assert {"README.md", "figures.csv", f"runs/{run_id}.json", f"journals/{run_id}/journal.jsonl"} <= names
    assert manifest["files"].keys() == names - {"manifest.json"}
    assert any(name.startswith("prompts/craftmd-") and name.endswith("/doctor.md") for name in names)
    assert sorted(case["case_key"] for case in cases) == [f"toes/{n}" for n in range(5)]
    assert manifest["locks"]["requirements.lock"] == hashlib.sha256(Path("requirements.lock").read_bytes()).hexdigest()
    means = {
        cell["row"]: float(cell["value"])
        for cell in figures_in(open_bundle)
        if (cell["figure"], cell["column"]) == ("accuracy", "mean")
    }
    (vignettes,) = (mean for row, mean in means.items() if "format=vignette" in row)
    assert vignettes == pytest.approx(0.8)  # four of five cases


@pytest.mark.slow
def test_equal_contents_give_equal_bytes(open_db: Path, open_bundle: Path, tmp_path: Path) -> None:
    again = bundled_accuracy(open_db, tmp_path / "again.zip")
    assert again.read_bytes() == open_bundle.read_bytes()


@pytest.mark.slow
@pytest.mark.usefixtures("only_accuracy")
def test_a_changed_byte_of_a_journal_is_named(open_bundle: Path, tmp_path: Path) -> None:
    changed = edited(open_bundle, tmp_path / "changed.zip", make_wrong)
    with zipfile.ZipFile(changed) as archive:
        name = next(name for name in archive.namelist() if name.endswith("journal.jsonl"))
    assert verify_bundle(changed).damage == [f"{name} is not as it was."]
    assert core(tmp_path / "a.duckdb", "bundle", "verify", str(changed)).returncode == 1


@pytest.mark.slow
@pytest.mark.usefixtures("only_accuracy")
def test_a_changed_verdict_changes_figures_even_if_the_manifest_was_changed_to_fit(
    open_bundle: Path, tmp_path: Path
) -> None:
    verified = verify_bundle(edited(open_bundle, tmp_path / "changed.zip", make_wrong, hashed=True))
    assert not verified.damage
    assert not verified.sound
    (mean,) = [cell for cell in verified.differing if cell.startswith("accuracy: ") and ": mean is " in cell]
    assert mean.endswith("mean is 0.8, computed 0.7")


@pytest.mark.usefixtures("only_accuracy")
def test_a_changed_cell_is_named_with_both_values_and_an_empty_file_fails(open_bundle: Path, tmp_path: Path) -> None:
    def better(members: dict[str, bytes]) -> None:
        lines = members["figures.csv"].decode().splitlines()
        number = next(n for n, line in enumerate(lines) if "format=vignette" in line and ",mean,0.8" in line)
        lines[number] = lines[number].replace(",mean,0.8", ",mean,0.95")
        members["figures.csv"] = "\r\n".join([*lines, ""]).encode()

    def emptied(members: dict[str, bytes]) -> None:
        members["figures.csv"] = members["figures.csv"].splitlines(keepends=True)[0]

    changed = edited(open_bundle, tmp_path / "better.zip", better, hashed=True)
    said = core(tmp_path / "a.duckdb", "bundle", "verify", str(changed))
    assert said.returncode == 1
    (difference,) = [line for line in said.stdout.splitlines() if line.startswith("Different: ")]
    assert difference.startswith("Different: accuracy: ")
    assert difference.endswith(": mean is 0.95, computed 0.8")
    empty = verify_bundle(edited(open_bundle, tmp_path / "empty.zip", emptied, hashed=True))
    assert empty.damage == ["figures.csv cannot be read (it has no figure)."]
    assert not empty.sound


def test_no_word_of_a_case_leaves_without_a_licence(closed_bundle: Path, closed_db: Path) -> None:
    inside = texts_in(closed_bundle)
    assert [word for word in SECRET_WORDS if word.lower() in inside.lower()] == []
    stored = journal_path(run_ids(closed_db)[0], closed_db.with_suffix(".journals")).read_text()
    assert all(word in stored for word in SECRET_WORDS)
    assert "for this hospital alone" in inside  # the reason is stated
    verified = verify_bundle(closed_bundle)
    assert verified.sound
    assert {"accuracy", "spend"} <= {*verified.figures}
    # why a conversation ended is read in its words
    assert verified.manifest.figures_left_out == ["endings"]
    assert not any(cell["figure"] == "endings" for cell in figures_in(closed_bundle))


@pytest.mark.slow
def test_with_cases_includes_them_whatever_the_licence(closed_db: Path, tmp_path: Path) -> None:
    inside = texts_in(bundled(closed_db, tmp_path / "all.zip", "--with-cases"))
    assert all(word in inside for word in SECRET_WORDS)


def review(store: Store, name: str, run: str, *, unblinded: bool) -> None:
    items = [f"talk:{run}/{n}/0" for n in range(1, 4)]
    plan = {"kind": "conversations", "number": 3, "annotators": ["Ann", "Bob"]}
    with store.write() as connection:
        row = {"review_id": name, "name": name, "kind": "conversations", "plan": json.dumps(plan), "created_at": 5.0}
        parts = [{"item": item, "number": n, "annotators": ["Ann", "Bob"]} for n, item in enumerate(items, start=1)]
        write(connection, "review", [{**row, "items": parts}])
        remark = f"a remark in {name}"
        add_judgements(
            connection,
            [an_answer(item, "Ann", "complete_history", "yes", remark, at=6.0, review_id=name) for item in items],
        )
        if unblinded:
            by = {"review_id": name, "unblinded_by": "Ann", "reason": "", "unblinded_at": 7.0}
            write(connection, "unblinding", [by])


def openly_licensed(store: Store) -> None:
    """The small campaign on cases with an open licence."""
    with_licence(store, "MIT")


def closed(store: Store) -> None:
    """The small campaign on cases without an open licence."""
    with_licence(store, "all rights reserved")


def with_licence(store: Store, licence: str) -> None:
    campaign(store)
    for path in store.journals.glob("*/journal.jsonl"):
        first, _, rest = path.read_bytes().partition(b"\n")
        header = orjson.loads(first)
        for case in header["cases"]:
            case["licence"] = licence
        path.write_bytes(orjson.dumps(header) + b"\n" + rest)
    store.path.unlink()
    fold(store)


@pytest.mark.usefixtures("one_figure")
def test_keys_blinded_reviews_other_runs_and_deleted_conversations_stay_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    store = copy_of(openly_licensed, tmp_path)
    review(store, "opened", "run-a", unblinded=True)
    review(store, "blinded", "run-a", unblinded=False)
    review(store, "of-b", "run-b", unblinded=True)
    plan = {"line_id": "p", "kind": "plan", "at": 1.0, "what": {"name": "of version 0.5"}}
    with journal_path("people", store.journals).open("ab") as journal:
        journal.write(orjson.dumps({"type": "written", **plan}) + b"\n")
    settings = {"base_url": "https://me:pass-word@models.example/v1?key=in-the-address", "max_messages": 30}
    failed = a_call("c1", error=f"401 for https://models.example/v1?token=in-the-error with {KEY}").call
    regretted = a_call("c9", response="I should not have said this.").call
    replies = [
        ReplyLine(run_id="run", trial_id=trial, unit=trial, key="k", number=0, place=0, call=call)
        for trial, call in (("run/1/0", failed), ("run/1/1", regretted))
    ]
    lines = (*replies, a_trial(), a_trial(trial_id="run/1/1", trial=1), DeletedLine(run_id="run", trial_id="run/1/1"))
    write_journal(store.journals, "run", a_header("run", [a_case(1)], settings=settings, visitor="dr.who"), *lines)
    made = make_bundle(store, ["run-a", "run"], tmp_path / "study.zip")
    inside = texts_in(tmp_path / "study.zip")
    assert "Reviews not unblinded: 1." in made.manifest.left_out
    stays = (
        *("a remark in blinded", "a remark in of-b", "of version 0.5", "openai/b", "I should not have said this."),
        *(KEY, "pass-word", "in-the-address", "in-the-error", "dr.who", str(tmp_path)),
    )
    assert [words for words in stays if words in inside] == []
    leaves = ("a remark in opened", "https://models.example/v1", "A lump on my NECK.")
    assert [words for words in leaves if words not in inside] == []
    assert verify_bundle(tmp_path / "study.zip").sound


@pytest.mark.usefixtures("one_figure")
def test_an_imported_run_travels_without_a_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    store = copy_of(openly_licensed, tmp_path)
    as_released(store, "run-a")
    shutil.rmtree(store.journals / "run-a")
    make_bundle(store, ["run-a"], tmp_path / "study.zip")
    verified = verify_bundle(tmp_path / "study.zip")
    assert verified.sound
    assert "accuracy" in verified.figures
    assert "A lump on my neck" in texts_in(tmp_path / "study.zip")


def row_of(table: str, trial: str, call_id: str) -> dict[str, Any]:
    """Return a row of a table of results, with a value of each column's type."""
    values = {pa.string(): "x", pa.int64(): 1, pa.float64(): 8.0, pa.bool_(): False, pa.list_(pa.string()): [call_id]}
    row = {field.name: values[field.type] for field in TABLES[table].schema}
    if "subject" in row:
        row["subject"] = f"talk:{trial}"
    return row | {"trial_id": trial} | ({"calls": json.dumps([call_id])} if row.get("calls") == "x" else {})


def test_results_of_jobs_belong_to_their_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    store = copy_of(openly_licensed, tmp_path)
    with store.read() as cursor:
        trials = frozenset(done_trial_ids(cursor, "run-a"))
    belonging = Belonging(frozenset({"run-a"}), trials, frozenset(), {})
    for table in (t.name for t in TABLES.values() if t.of == "trial" and t.job and t.exported):
        lines: list[JournalLine] = []
        for run in ("run-a", "run-b"):
            call = a_call(f"call-{run}", role="grader", model="openai/judge", response=f"judged {run}").call
            unit = f"{run}/1/0"
            lines.append(ReplyLine(run_id="job", trial_id="job", unit=unit, key="k", number=0, place=0, call=call))
            lines.append(RowLine(table=table, row=row_of(table, f"{run}/1/0", call.call_id), unit=unit))
        write_journal(store.journals, f"job-{table}", *lines)
        written = journal_path(f"job-{table}", store.journals)
        journal = b"".join(job_lines(written, belonging, frozenset())).decode()
        assert "judged run-a" in journal, table
        assert "run-a/1/0" in journal, table
        assert "run-b" not in journal, table


OF_RUN_A = Belonging(frozenset({"a"}), frozenset({"a/1/0"}), frozenset({"ours/1"}), {"ours/2": "hash of the stand-in"})
"""The run a with a trial on a case with an open licence; the text of the case ours/2 may not leave."""


def case_label(case: str, field: str = "accepted", **changes: str) -> dict[str, Any]:
    label = {"case_key": case, "text_hash": "h", "field": field, "value": "Gout", "origin": "person", "made_by": "Ann"}
    return {**label, "note": "as the text says", "made_at": 4.0, **changes}


def test_labels_that_quote_a_withheld_case_stay_here() -> None:
    own, plain = case_label("ours/1"), case_label("ours/2", "urgency", value="2")
    table: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
        (own, own),
        (case_label("ours/3"), None),
        (case_label("ours/2"), None),
        (plain, {**plain, "text_hash": "hash of the stand-in", "note": ""}),
    ]
    assert [OF_RUN_A.label(label) for label, _ in table] == [expected for _, expected in table]


def test_entries_of_people_leave_with_their_runs_and_cases() -> None:
    def line(line_id: str, kind: str, /, **what: Any) -> WrittenLine:
        return WrittenLine(line_id=line_id, kind=kind, at=5.0, by="Ann", what=what)

    def a_review(review: str, *trials: str) -> WrittenLine:
        items = [{"item": f"talk:{trial}", "number": n, "annotators": ["Ann"]} for n, trial in enumerate(trials)]
        plan = json.dumps({"kind": "conversations", "number": len(trials), "annotators": ["Ann"]})
        fields = {"review_id": review, "name": review, "kind": "conversations", "plan": plan, "created_at": 4.0}
        return line(f"review {review}", "review", **fields, items=items)

    def unblinded(review: str) -> WrittenLine:
        by = {"unblinded_by": "Ann", "reason": "", "unblinded_at": 6.0}
        return line(f"unblinding {review}", "unblinding", review_id=review, **by)

    def labelled(run: str) -> WrittenLine:
        return line(f"label {run}", "label", run_id=run, name="mine", tags=[], note="", labelled_at=5.0)

    def facts(case: str) -> WrittenLine:
        return line(f"facts {case}", "facts", case_key=case, made_by="Ann", made_at=5.0, facts=[], content_hash="h")

    lines = [
        *(a_review("own", "a/1/0"), unblinded("own")),
        a_review("blinded", "a/1/0"),
        *(a_review("both", "a/1/0", "b/1/0"), unblinded("both")),
        *(a_review("foreign", "b/1/0"), unblinded("foreign")),
        *(labelled("a"), labelled("b"), facts("ours/1"), facts("ours/9")),
        *(line(f"case {n}", "case_label", **case_label(f"ours/{n}")) for n in (1, 2, 3)),
    ]
    contents = cast(JournalContents, SimpleNamespace(counting={each.line_id: each for each in lines}))
    leaving = peoples_lines(contents, OF_RUN_A)
    assert {each.line_id for each in leaving.lines} == {
        "review own", "unblinding own", "label a", "facts ours/1", "case 1",
    }  # fmt: skip
    assert leaving.left_out == {BLINDED: 1, OTHER_RUNS: 1}
    assert not [each for each in leaving.lines if each.kind in ("review", "unblinding") and "Ann" in str(each.what)]


def test_a_line_of_a_withheld_run_has_no_word_of_its_conversation() -> None:
    secret = "A stonemason from Aberlour."
    call = a_call("c1", response=secret, reasoning=secret, request={"messages": [{"role": "user", "content": secret}]})
    events = [call, Utterance(turn=0, role="patient", text=secret), answered(response=secret)]
    lines: list[JournalLine] = [
        a_trial(events),
        ReplyLine(run_id="run", trial_id="t", unit="t", key="k", number=0, place=0, call=call.call),
        grades("run/1/0", graded("correct", extracted=secret)).model_copy(update={"answers": [events[2]]}),
        DeletedLine(run_id="run", trial_id="run/1/0"),
    ]
    for line in lines:
        public = without_texts(line)
        assert public is not None
        assert (public.type, b"stonemason" in line_bytes(public)) == (line.type, False)
    assert without_texts(lines[3]) == lines[3]
    assert without_texts(SpokenLine(run_id="run", trial_id="t", role="doctor", text=secret, at=1.0)) is None


def test_the_rows_of_an_imported_run_move_with_or_without_its_texts(tmp_path: Path) -> None:
    store = copy_of(campaign, tmp_path / "here")
    as_released(store, "run-a")
    with store.read() as cursor:
        header = header_with_cases(cursor, "run-a")
        expected = {c.trial_id: c.verdicts for c in conversations(cursor, Selection(runs=["run-a"]), limit=None)}
        with pytest.raises(AnamnesisError, match="There is no run 'none'"):
            header_with_cases(cursor, "none")
        for withheld in ("", "not passed on"):
            folder = tmp_path / f"rows {withheld}"
            folder.mkdir()
            written = "".join(path.read_text() for path in write_run_tables(cursor, "run-a", folder, withheld))
            assert ("A lump on my neck" in written) == ("**Final Diagnosis:** Eczema" in written) == (not withheld)
            assert ("not passed on" in written) == bool(withheld)
    for withheld in ("", "not passed on"):
        other = Store(tmp_path / f"there {withheld}" / "anamnesis.duckdb")
        with other.write() as connection:
            read_run_tables(connection, header, tmp_path / f"rows {withheld}")
        with other.read() as cursor:
            found = {c.trial_id: c.verdicts for c in conversations(cursor, Selection(runs=["run-a"]), limit=None)}
        assert found == expected
    (tmp_path / "rows " / "answers.jsonl").write_text("[1]\n")
    with (
        pytest.raises(AnamnesisError, match="The rows of answers of run run-a cannot be read"),
        Store(tmp_path / "third" / "anamnesis.duckdb").write() as connection,
    ):
        read_run_tables(connection, header, tmp_path / "rows ")


def test_rows_of_a_job_leave_with_their_cases_and_a_line_in_writing_is_left_out(store: Store) -> None:
    rows = [
        RowLine(table="case_labels", row=case_label(f"ours/{n}", made_by="openai/j", origin="model")) for n in (1, 2, 3)
    ]
    path = write_journal(store.journals, "job", *rows)
    with path.open("ab") as file:
        file.write(b'{"type":"row","table":"case_la')
    leaving = [orjson.loads(line) for line in job_lines(path, OF_RUN_A, frozenset())]
    assert [line["row"] for line in leaving] == [case_label("ours/1", made_by="openai/j", origin="model")]
    with path.open("ab") as file:
        file.write(b"\n")
    with pytest.raises(AnamnesisError, match="is damaged: see"):
        list(job_lines(path, OF_RUN_A, frozenset()))
    run = write_journal(store.journals, "run", a_header(), a_trial())
    assert list(job_lines(run, OF_RUN_A, frozenset())) == []


@pytest.mark.slow
@pytest.mark.usefixtures("one_figure")
def test_cases_of_prompts_are_left_out_also_without_their_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A case that was used to write prompts counts in no figure; its mark belongs to a text that is withheld."""
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    store = copy_of(closed, tmp_path)
    label = {"case_key": "ours/1", "text_hash": a_case(1).text_hash, "field": "development", "value": "yes"}
    with store.write() as connection:
        by = {"origin": "person", "made_by": "Ann", "note": "in a prompt", "made_at": 4.0}
        write(connection, "case_label", [{**label, **by}])
    made = make_bundle(store, ["run-a"], tmp_path / "study.zip")
    assert "accuracy" not in made.manifest.figures_left_out
    inside = texts_in(tmp_path / "study.zip")
    assert "Vignette 1." not in inside
    assert "in a prompt" not in inside
    counts = [cell["value"] for cell in figures_in(tmp_path / "study.zip") if cell["column"] == "n_cases"]
    assert counts[0] == "5.0"


def hostile_zip(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/"), data)
    return path


def test_hostile_files_get_one_sentence(open_bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("no zip")
    truncated = tmp_path / "short.zip"
    truncated.write_bytes(open_bundle.read_bytes()[:-200])
    flipped = bytearray(open_bundle.read_bytes())
    with zipfile.ZipFile(open_bundle) as archive:
        member = archive.getinfo("figures.csv")
    lengths = (flipped[member.header_offset + at : member.header_offset + at + 2] for at in (26, 28))
    begin = member.header_offset + 30 + sum(int.from_bytes(length, "little") for length in lengths)
    flipped[begin + member.compress_size // 2] ^= 0xFF
    (tmp_path / "flipped.zip").write_bytes(flipped)
    bomb = hostile_zip(tmp_path / "bomb.zip", bomb=b"\0" * 150_000_000)
    files = [
        (tmp_path / "text.zip", "neither"),
        (truncated, ""),
        (tmp_path / "flipped.zip", ""),
        (bomb, "500 times"),
        (hostile_zip(tmp_path / "out.zip", **{"..__out": b"x"}), "outside"),
        (hostile_zip(tmp_path / "bare.zip", a=b"x"), "no manifest.json"),
        (hostile_zip(tmp_path / "odd.zip", **{"manifest.json": b"[1]"}), "manifest.json"),
        (hostile_zip(tmp_path / "old.zip", **{"manifest.json": b'{"version":1,"made_with":"Anamnesis 0.5"}'}), "0.5"),
        (tmp_path / "missing.zip", "no file"),
    ]
    for path, words in files:
        answer = core(tmp_path / "a.duckdb", "bundle", "verify", str(path))
        assert answer.returncode in (1, 2), path
        assert words in (answer.stdout or answer.stderr)
        assert "Traceback" not in answer.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("only_accuracy")
def test_a_missing_and_a_surplus_file_are_named(open_bundle: Path, tmp_path: Path) -> None:
    def edit(members: dict[str, bytes]) -> None:
        del members["README.md"]
        members["surplus.txt"] = b"x"

    verified = verify_bundle(edited(open_bundle, tmp_path / "odd.zip", edit))
    assert verified.damage == ["README.md is missing.", "surplus.txt is not in the manifest."]


def test_a_running_or_unknown_run_is_refused(open_db: Path, tmp_path: Path) -> None:
    unknown = core(open_db, "bundle", "make", "nothing", "--out", str(tmp_path / "x.zip"))
    assert unknown.returncode == 2
    assert "There is no run 'nothing'" in unknown.stderr
    assert not list(tmp_path.iterdir())


def test_figures_of_another_version_may_have_further_columns_and_differ_by_rounding() -> None:
    row = ("accuracy", "model=a")
    recorded: Cells = {(*row, "mean"): 0.5, (*row, "p"): None}
    computed: Cells = {(*row, "mean"): 0.5 + 1e-13, (*row, "p"): None, (*row, "further"): 1.0}
    assert list(differing_cells(recorded, computed)) == []
    other: Cells = {("accuracy", "model=b", "mean"): 0.5}
    assert list(differing_cells({(*row, "mean"): 0.5}, other)) == [
        "accuracy: model=a: mean is 0.5 and cannot be computed again",
        "accuracy: model=b is missing",
    ]
