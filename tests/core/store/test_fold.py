"""Folding: each line of a journal is stored once, also after a kill, a torn line, damage or a second fold."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from core.errors import AnamnesisError
from core.journal import JournalWriter, ReplyLine, journal_path
from core.store import fold as fold_module
from core.store.database import Store
from core.store.fold import FoldReport, fold, fold_if_free, following
from core.store.queries.calls import calls_of
from core.store.queries.grades import grade_history, latest_grades
from core.store.queries.run_labels import labels
from core.store.queries.runs import run
from core.store.queries.trials import done_trial_ids
from core.store.upkeep import verify
from tests.core.store.builders import (
    a_call,
    a_case,
    a_header,
    a_stream,
    a_trial,
    as_bytes,
    graded,
    grades,
    write_journal,
)
from tests.core.store.leasing import ROOT

TABLES = ("runs", "cases", "run_cases", "trials", "utterances", "answers", "grades", "calls", "probes")


def counts(store: Store) -> dict[str, int]:
    with store.read() as cursor:
        return {t: cursor.execute(f"SELECT count(*) FROM {t}").fetchall()[0][0] for t in TABLES}


def stored_trials(store: Store, run_id: str = "run") -> set[str]:
    with store.read() as cursor:
        return done_trial_ids(cursor, run_id)


def test_rows_of_a_kind_that_this_version_does_not_have_are_skipped_and_counted(store: Store) -> None:
    write_journal(store.journals, "run", a_header(cases=[a_case()]), a_trial())
    path = journal_path("replicates-1", store.journals)
    path.parent.mkdir(parents=True)
    path.write_text(
        '{"schema_version":5,"type":"row","table":"replicates","row":{"trial_id":"run/1/0","answer":1}}\n' * 2
    )
    report = fold(store)
    assert (report.trials, report.removed, report.damaged) == (1, {"replicates": 2}, ())


def test_every_table_gets_its_rows_once_and_new_lines_are_folded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    write_journal(store.journals, "run", a_header(cases=[a_case()]), a_trial())
    assert fold(store) == FoldReport(journals=1, runs=1, trials=1, grades=3)
    assert counts(store) == {
        "runs": 1,
        "cases": 1,
        "run_cases": 1,
        "trials": 1,
        "utterances": 3,
        "answers": 2,
        "grades": 3,
        "calls": 2,
        "probes": 2,
    }
    before = counts(store)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "write", None)
        assert fold(store) == FoldReport()
    assert counts(store) == before
    write_journal(store.journals, "run", a_trial(trial_id="run/1/1", trial=1))
    assert fold(store) == FoldReport(journals=1, trials=1, grades=3)
    with store.read() as cursor:
        hashes = cursor.execute("SELECT DISTINCT content_hash FROM trials").fetchall()
    assert hashes == [(a_case().content_hash,)]
    late, early = graded("correct", at=30.0, grader="openai/g2"), graded("incorrect", at=20.0)
    write_journal(store.journals, "run", grades("run/1/0", late), grades("run/1/0", early))
    assert fold(store).grades == 2
    with store.read() as cursor:
        history = [g for g in grade_history(cursor, "run/1/0") if g.rule == "frq"]
        newest = [g for g in latest_grades(cursor, "run/1/0") if g.rule == "frq"]
    assert [g.verdict for g in history] == ["provider_error", "incorrect", "correct"]
    assert newest == [late]


def test_without_journals_nothing_is_opened(store: Store) -> None:
    assert fold(store) == FoldReport()
    assert not store.path.exists()


def test_a_torn_last_line_is_folded_when_it_is_complete(store: Store) -> None:
    path = write_journal(store.journals, "run", a_header())
    line = as_bytes(a_trial())
    with path.open("ab") as file:
        file.write(line[:100])
    assert fold(store).trials == 0
    with path.open("ab") as file:
        file.write(line[100:])
    assert fold(store).trials == 1


def test_a_damaged_journal_is_reported_and_the_others_are_folded(store: Store) -> None:
    broken = write_journal(store.journals, "a", a_header("a"), a_trial(trial_id="a/1", run_id="a"))
    with broken.open("ab") as file:
        file.write(b'{"type": "trial"}\n')
    write_journal(store.journals, "a", a_trial(trial_id="a/2", run_id="a"))
    write_journal(store.journals, "b", a_header("b"), a_trial(trial_id="b/1", run_id="b"))
    report = fold(store)
    assert [d.path for d in report.damaged] == [broken]
    assert "damaged" in report.damaged[0].message
    assert (stored_trials(store, "a"), stored_trials(store, "b")) == ({"a/1"}, {"b/1"})
    assert len(fold(store).damaged) == 1


def test_the_same_lines_read_again_from_the_start_add_nothing(store: Store) -> None:
    path = write_journal(
        store.journals, "run", a_header(cases=[a_case()]), a_trial(), grades("run/1/0", graded("correct"))
    )
    fold(store)
    before = counts(store)
    shutil.copytree(path.parent, store.journals / "again")
    report = fold(store)
    assert (report.runs, report.trials, report.grades) == (0, 0, 0)
    assert counts(store) == before


def test_a_journal_replaced_by_a_shorter_one_is_read_again(store: Store) -> None:
    path = write_journal(store.journals, "run", a_header(), a_trial(), a_trial(trial_id="run/1/1"))
    fold(store)
    path.unlink()
    write_journal(store.journals, "run", a_header(), a_trial(trial_id="run/1/2"))
    assert fold(store).trials == 1
    assert stored_trials(store) == {"run/1/0", "run/1/1", "run/1/2"}
    assert fold(store) == FoldReport()


def test_of_two_lines_for_one_trial_the_first_counts(store: Store) -> None:
    write_journal(store.journals, "run", a_header(), a_trial(), a_trial(a_stream()[:4]))
    assert fold(store).trials == 1
    write_journal(store.journals, "run", a_trial(a_stream()[:4]))
    assert fold(store).trials == 0
    assert counts(store)["utterances"] == 3


def test_the_calls_of_a_regrading_are_stored_once(store: Store) -> None:
    judged = grades("run/1/0", graded("correct", at=30.0, grader="openai/g2"))
    call = a_call("judge-1").call
    reply = ReplyLine(run_id="run", trial_id="run/1/0", unit="again", key="k", number=0, place=0, call=call)
    write_journal(store.journals, "run", a_header(), a_trial(), reply, reply, judged)
    fold(store)
    with store.read() as cursor:
        call_ids = [call.call_id for call in calls_of(cursor, "run/1/0")]
    assert call_ids.count("judge-1") == 1
    assert call_ids[-1] == "judge-1", "the calls of the trial itself come first"


def test_a_case_that_changed_is_another_row_and_trials_keep_theirs(store: Store) -> None:
    changed = a_case(answer="Psoriasis")
    write_journal(store.journals, "run", a_header(cases=[a_case()]), a_trial())
    write_journal(store.journals, "new", a_header("new", cases=[changed]), a_trial(trial_id="new/1", run_id="new"))
    fold(store)
    with store.read() as cursor:
        answers = cursor.execute(
            "SELECT run_id, answer FROM trials JOIN cases USING (case_key, content_hash) ORDER BY run_id"
        ).fetchall()
    assert answers == [("new", "Psoriasis"), ("run", "Eczema")]


def test_a_trial_without_its_end_is_a_failed_one(store: Store) -> None:
    stream = [*a_stream()[:4], a_stream()[13]]
    write_journal(store.journals, "run", a_header(), a_trial(stream))
    fold(store)
    with store.read() as cursor:
        row = cursor.execute("SELECT status, end_reason, failure, failure_message FROM trials").fetchall()
    assert row == [("failed", None, "timeout", "too slow")]


FOLD = """
import sys
from pathlib import Path
from core.store.database import Store
from core.store.fold import fold
print(fold(Store(Path(sys.argv[1]))).trials)
"""


@pytest.mark.slow
def test_two_processes_that_fold_at_the_same_time_store_every_trial_once(store: Store) -> None:
    for name in ("a", "b"):
        lines = [a_trial(trial_id=f"{name}/{n}", run_id=name) for n in range(300)]
        write_journal(store.journals, name, a_header(name), *lines)
    command = [sys.executable, "-c", FOLD, str(store.path)]
    pair = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    numbers = [int(process.communicate(timeout=60)[0]) for process in pair]
    assert [p.returncode for p in pair] == [0, 0]
    assert sum(numbers) == 600
    assert counts(store)["trials"] == 600
    assert counts(store)["grades"] == 1_800
    assert fold(store) == FoldReport()


def test_unchanged_journals_are_recognised_without_opening_the_database(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_journal(store.journals, "run", a_header(), a_trial())
    assert fold(store).trials == 1
    assert fold(store) == FoldReport()
    with monkeypatch.context() as patch:
        patch.setattr(Store, "read", lambda *args: pytest.fail("opened"))
        assert fold(store) == FoldReport()
    write_journal(store.journals, "other", a_header("other"), a_trial(trial_id="other/1", run_id="other"))
    assert fold(store).trials == 1
    store.path.unlink()
    assert fold(store).trials == 2


def test_many_trials_come_in_transactions_and_a_stopped_fold_continues_after_the_last(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.store.inserts.CHUNK_TRIALS", 40)
    write_journal(store.journals, "run", a_header(), *[a_trial(trial_id=f"run/{n}") for n in range(100)])
    write = Store.write
    allowed = iter([write, write])
    monkeypatch.setattr(Store, "write", lambda *args: next(allowed)(*args))
    with pytest.raises(StopIteration):
        fold(store)
    monkeypatch.setattr(Store, "write", write)
    assert fold(store).trials == 20
    assert counts(store)["trials"] == 100
    with store.read() as cursor:
        assert cursor.execute("SELECT count(*) FROM journal_positions").fetchall() == [(3,)]


def test_fold_if_free_does_not_wait(store: Store) -> None:
    write_journal(store.journals, "run", a_header(), a_trial())
    reading, over = threading.Event(), threading.Event()

    def read() -> None:
        with store.read():
            reading.set()
            over.wait(60)

    reader = threading.Thread(target=read)
    reader.start()
    reading.wait(60)
    assert fold_if_free(store) is None
    over.set()
    reader.join()
    report = fold_if_free(store)
    assert report is not None
    assert report.trials == 1


def follower() -> psutil.Process:
    (process,) = [
        child for child in psutil.Process().children() if child.is_running() and "follow()" in "".join(child.cmdline())
    ]
    return process


@pytest.mark.parametrize(
    ("folds", "most_bytes"), [(1, 10**9), pytest.param(99, 100, marks=pytest.mark.slow)], ids=["long", "much"]
)
async def test_the_database_of_a_long_job_follows_in_a_process_that_may_die(
    store: Store, monkeypatch: pytest.MonkeyPatch, folds: int, most_bytes: int
) -> None:
    monkeypatch.setattr(fold_module, "PROCESS_AFTER_FOLDS", folds)
    monkeypatch.setattr(fold_module, "PROCESS_AFTER_BYTES", most_bytes)
    write_journal(store.journals, "run", a_header(), a_trial())
    async with following(store) as follow:
        await follow()
        assert counts(store)["trials"] == 1
        with pytest.raises(ValueError, match="not enough values"):
            follower()
        write_journal(store.journals, "run", a_trial(trial_id="run/1/0", case_key="case_1"))
        await follow()
        follower().kill()
        with pytest.raises(AnamnesisError, match=r"The process that folds journals into .* ended \(-9\)"):
            await follow()
        write_journal(store.journals, "run", a_trial(trial_id="run/1/1", trial=1))
        await follow()
        assert counts(store)["trials"] == 2
        child = follower()
        store.path.write_bytes(b"no database")
        with pytest.raises(AnamnesisError, match="cannot be opened"):
            await follow()
    assert not child.is_running()


def test_a_journal_of_the_journal_writer_is_folded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "mine.duckdb"))
    header, trial = a_header(cases=[a_case()]), a_trial()
    with JournalWriter(journal_path("run")) as journal:
        journal.append(header)
        journal.append(trial)
    report = fold(Store())
    assert not report.damaged
    assert report.trials == 1
    with Store().read() as cursor:
        stored = run(cursor, "run")
    assert stored is not None
    assert stored.cases == 1


HUGE = 10**12


def _impossible_lines() -> dict[str, list[dict[str, Any]]]:
    """Return what is impossible → the lines of a journal in which one number is."""
    header, trial = (
        a_header("bad", [a_case()]).model_dump(mode="json"),
        a_trial(trial_id="bad/1/0", run_id="bad").model_dump(mode="json"),
    )

    def changed_event(kind: str, **changes: object) -> list[dict[str, Any]]:
        events = [{**event, **changes} if event["kind"] == kind else event for event in trial["events"]]
        return [header, {**trial, "events": events}]

    def changed_call(**changes: object) -> list[dict[str, Any]]:
        events = [
            {**event, "call": {**event["call"], **changes}} if event["kind"] == "called" else event
            for event in trial["events"]
        ]
        return [header, {**trial, "events": events}]

    def judged(**changes: object) -> list[dict[str, Any]]:
        row = {
            "trial_id": "run/1/0", "model": "openai/j", "prompt_hash": "p", "terms": "[]", "dropped": 0, "failure": "",
            "calls": "[]", "tokens": 5, "cost_usd": 0.0, "judged_at": 5.0,
        }  # fmt: skip
        return [{"type": "row", "table": "patient_judgements", "row": {**row, **changes}}]

    def labelled(**changes: object) -> list[dict[str, Any]]:
        what = {"run_id": "run", "name": "mine", "tags": [], "note": "", "labelled_at": 5.0}
        return [{"type": "written", "line_id": "x", "kind": "label", "at": 5.0, "what": {**what, **changes}}]

    case = header["cases"][0]
    return {
        "number of a trial": [header, {**trial, "trial": HUGE}],
        "trials of a run": [{**header, "trials": HUGE}, trial],
        "seed of a run": [{**header, "seed": 2**63}, trial],
        "seed of a trial": [header, {**trial, "seed": -(2**63) - 1}],
        "moment of a run": [{**header, "created_at": 1e300}, trial],
        "moment of a trial": [header, {**trial, "finished_at": -1e15}],
        "no moment": [header, {**trial, "finished_at": None}],
        "moment of a verdict": changed_event("graded", at=1e18),
        "turn of a message": changed_event("utterance", turn=HUGE),
        "version of a rule": changed_event("graded", rule_version=2**31),
        "messages of a doctor": changed_event("ended", doctor_turns=2**40),
        "probability": changed_event("probed", differential=[["flu", None]]),
        "tokens": changed_call(prompt_tokens=2**62),
        "tokens below zero": changed_call(completion_tokens=-5),
        "attempts": changed_call(attempts=2**33),
        "cost": changed_call(cost_usd=1e308),
        "seconds": changed_call(latency_s=1e200),
        "cases of a data set": [{**header, "data_set_cases": 2**64 - 1}, trial],
        "age": [{**header, "cases": [{**case, "age": 1e100}]}, trial],
        "text that is no text": [header, {**trial, "run_id": 5}],
        "words of a judge": judged(terms='[{"turn": 1}]'),
        "moment of a judge": judged(judged_at=1e200),
        "column that is not there": [{"type": "row", "table": "patient_judgements", "row": {"trial_id": "run/1/0"}}],
        "column of another type": judged(dropped="many"),
        "JSON that is none": judged(terms="{"),
        "moment of a label": labelled(labelled_at=1e17),
        "label without its run": labelled(run_id=None),
        "tags that are no list": labelled(tags=5),
        "items that are no list": [
            {"type": "written", "line_id": "y", "kind": "review", "at": 1, "what": {"items": 5, "created_at": 1}}
        ],
    }


def test_a_journal_with_an_impossible_value_is_set_aside_and_all_else_works(store: Store) -> None:
    write_journal(store.journals, "run", a_header(cases=[a_case()]), a_trial())
    impossible = _impossible_lines()
    for name, lines in impossible.items():
        path = journal_path(name, store.journals)
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    named = {damage.path.parent.name for damage in fold(store).damaged if str(damage.path) in damage.message}
    assert impossible.keys() - named == set()
    with store.read() as cursor:
        assert done_trial_ids(cursor, "run") == {"run/1/0"}
    assert (counts(store)["answers"], counts(store)["grades"]) == (2, 3)
    assert {finding.where for finding in verify(store).findings if finding.kind == "damaged"} == impossible.keys()


def test_the_lines_before_one_that_cannot_be_stored_are_in_the_database(store: Store) -> None:
    good, bad = (
        {"type": "row", "table": "run_labels", "row": row}
        for row in (
            {"run_id": "run", "name": f"name {number}", "tags": [], "note": "", "labelled_at": float(number)}
            for number in range(2)
        )
    )
    bad["row"]["run_id"] = None
    path = journal_path("labels", store.journals)
    path.parent.mkdir(parents=True)
    before = orjson.dumps(good) + b"\n"
    path.write_bytes(before + orjson.dumps(bad) + b"\n" + before)
    (damage,) = fold(store).damaged
    assert f"byte {len(before) + len(orjson.dumps(bad)) + 1}:" in damage.message
    with store.read() as cursor:
        assert [label.name for label in labels(cursor).values()] == ["name 0"]
