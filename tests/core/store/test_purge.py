"""Purged runs: none of their words is in a file of the data folder, and nothing of another run is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.cli.app import main
from core.errors import UsageError
from core.events import Answered, Ended, Finished, Parent, Started, Utterance
from core.journal import ReplyLine, RowLine, WrittenLine, append_shared, journal_path
from core.judging.judgement import Quotation
from core.store.database import Store
from core.store.fold import fold
from core.store.purge import purge_run
from core.store.queries.cases import cases
from core.store.queries.judgements import add_judgements
from core.store.queries.run_labels import Label, delete_run, label_run
from core.store.queries.runs import run_ids
from core.store.upkeep import verify
from core.store.written import journal_of, write
from tests.core.store.builders import a_call, a_case, a_header, a_trial, graded, write_journal
from tests.support.answering import an_answer
from tests.support.stores import copy_of

TOKEN = "ZANZIBAR"


def _play(store: Store, run_id: str, token: str) -> str:
    trial = f"{run_id}/1/0"
    call = a_call(f"{run_id}-call", response=f"{token} asks", reasoning=f"{token} thinks").call
    reply = ReplyLine(run_id=run_id, trial_id=trial, unit=trial, key="k", number=0, place=0, call=call)
    events = [
        Started(trial_id=trial, case_key="ours/1", trial=0, seed=7),
        a_call(f"{run_id}-own", response=f"{token} again"),
        Utterance(turn=0, role="doctor", text=f"{token} doctor"),
        Utterance(turn=1, role="patient", text=f"{token} patient"),
        Ended(reason="turn_cap", doctor_turns=1, detail=f"{token} end"),
        Answered(format="multi_turn", question_type="frq", response=f"{token} answer"),
        graded("correct", extracted=f"{token} grader"),
        Finished(at=9.0),
    ]
    header = a_header(run_id, [a_case()])
    write_journal(store.journals, run_id, header, reply, a_trial(events, trial_id=trial, run_id=run_id))
    return trial


def _judge(store: Store, trial: str, token: str) -> None:
    """Write what jobs and people say about a trial, with its words."""
    verdict = {
        "trial_id": trial, "model": "openai/j", "prompt_hash": "p", "batch": 1, "rubric": "r", "rubric_hash": "h",
        "criterion": "c", "criterion_hash": "x", "repeat": 0, "verdict": "met", "voided": False,
        "quotations": f'["{token} quoted"]', "reason": f"{token} because", "failure": "",
        "calls": f'["judge-{trial}"]', "judged_at": 5.0,
    }  # fmt: skip
    rating = {
        "item": f"answer:{trial}:multi_turn:frq", "form": "f", "question": "q", "model": "openai/j",
        "prompt_hash": "p", "value": "1", "reason": "", "failure": "",
        "quotations": f'[{{"message": 0, "words": "{token} rated", "status": "verified"}}]',
        "call_ids": [f"rate-{trial}"], "rated_at": 5.0,
    }  # fmt: skip

    def asked(call_id: str, unit: str) -> ReplyLine:
        call = a_call(call_id, role="grader", response=f"{token} verdict").call
        return ReplyLine(run_id="judging", trial_id="judging", unit=unit, key=call_id, number=0, place=0, call=call)

    lines = [
        asked(f"judge-{trial}", f"hash-of-{trial.replace('/', '')}"),
        RowLine(table="rubric_judgements", row=verdict),
        asked(f"rate-{trial}", "another"),
        RowLine(table="model_ratings", row=rating),
        asked(f"unread-{trial}", f"judging {trial}"),
    ]
    append_shared(journal_path("judging-1", store.journals), lines)
    fold(store)
    label_run(store, trial.partition("/")[0], Label(f"{token} name", (), f"{token} note"))
    marked = Quotation(0, f"{token} words", start=0, end=5)
    answer = an_answer(
        f"talk:{trial}", "Ada", "q", "1", f"{token} comment", at=6.0, review_id="both", quotations=(marked,)
    )
    former = {
        "item": f"talk:{trial}", "annotator": "Ben", "question": "q", "value": "1", "comment": f"{token} comment",
        "annotated_at": 6.0, "review_id": "both", "reason": "", "spans": None, "seconds": 1.0,
    }  # fmt: skip
    with store.write() as connection:
        add_judgements(connection, [answer])
    line = WrittenLine(line_id=f"former-{token}", kind="annotation", at=6.0, by="Ben", what=former)
    append_shared(journal_of(store.path), [line])
    fold(store)


def two_runs(store: Store) -> None:
    trials = [_play(store, "gone", TOKEN), _play(store, "stays", "OTHER")]
    fold(store)
    items = [{"item": f"talk:{trial}", "number": n, "annotators": ["Ada"]} for n, trial in enumerate(trials, start=1)]
    review = {"review_id": "both", "name": "Both", "kind": "conversations", "plan": "{}", "created_at": 4.0}
    with store.write() as connection:
        write(connection, "review", [{**review, "items": items}])
    for trial, token in zip(trials, (TOKEN, "OTHER"), strict=True):
        _judge(store, trial, token)


@pytest.fixture
def played(tmp_path: Path) -> Store:
    return copy_of(two_runs, tmp_path)


def _holding(folder: Path, token: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and token.encode() in path.read_bytes()]


def _rows(store: Store) -> dict[str, int]:
    tables = ("trials", "utterances", "calls", "grades", "judgements", "run_labels")
    with store.read() as cursor:
        return {table: cursor.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0] for table in tables}


@pytest.mark.parametrize("deleted_before", [False, True])
def test_no_word_of_a_purged_run_is_in_any_file(played: Store, deleted_before: bool) -> None:
    before = _rows(played)
    left = journal_path("gone", played.journals).with_name("imported.body")
    left.write_text(TOKEN, encoding="utf-8")
    backup = played.path.with_name("backup.tar.gz")
    backup.touch()
    if deleted_before:
        delete_run(played, "gone")
    assert _holding(played.path.parent, TOKEN)
    purged = purge_run(played, "gone")
    assert not _holding(played.path.parent, TOKEN)
    assert (purged.journals, purged.copies) == (2, (backup,))
    assert _holding(played.path.parent, "OTHER")
    assert _rows(played) == {table: number // 2 for table, number in before.items()}
    with played.read() as cursor:
        assert run_ids(cursor) == ["stays"]
        assert [case.case_key for case in cases(cursor)] == ["ours/1"]
    assert not verify(played).findings
    played.path.unlink()
    fold(played)
    assert _rows(played) == {table: number // 2 for table, number in before.items()}


def test_the_command_purges_and_names_the_copies(
    played: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(played.path))
    folder = played.path.parent
    backup, export, other = (folder / name for name in ("backup.tar.gz", "rows.csv", "others.csv"))
    backup.touch()
    export.write_text(f"run_id,response\ngone,{TOKEN} answer\n", encoding="utf-8")
    other.write_text("run_id,response\nstays,OTHER answer\n", encoding="utf-8")
    assert main(["delete", "gone", "--purge", "--yes"]) == 0
    assert _holding(folder, TOKEN) == [export], "a file that the user wrote is the user's"
    said = capsys.readouterr().out
    assert [path.name in said for path in (backup, export, other)] == [True, True, False]
    assert main(["delete", "gone", "--purge", "--yes"]) == 2, "there is nothing left to delete"


def test_a_run_whose_messages_a_branch_contains_is_not_purged(played: Store) -> None:
    parent = Parent(trial_id="gone/1/0", turn=1)
    started = Started(trial_id="fork/1/0", case_key="ours/1", trial=0, seed=7, parent=parent)
    write_journal(
        played.journals, "fork", a_header("fork", [a_case()], source="fork"),
        a_trial([started, Finished(at=9.0)], trial_id="fork/1/0", run_id="fork"),
    )  # fmt: skip
    with pytest.raises(UsageError, match="fork"):
        purge_run(played, "gone")
    assert _holding(played.path.parent, TOKEN)
    purge_run(played, "fork")
    purge_run(played, "gone")
    assert not _holding(played.path.parent, TOKEN)
