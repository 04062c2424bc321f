"""``export conversation``: stored, forked and imported conversations as files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.cli.app import main
from core.store.database import Store
from tests.core.export.conversations import fill, read_back
from tests.core.store.builders import a_stream
from tests.support.release import write_release
from tests.support.stores import copy_of


@pytest.fixture
def filled(db: Path) -> Store:
    return copy_of(fill, db.parent)


@pytest.mark.slow
@pytest.mark.parametrize(("form", "begins"), [("html", "<!DOCTYPE html>"), ("md", "# 1, openai/a, trial 1")])
def test_a_conversation_becomes_a_file(filled: Store, tmp_path: Path, form: str, begins: str) -> None:
    out = tmp_path / f"conversation.{form}"
    assert main(["export", "conversation", "run/1/0", "--out", str(out)]) == 0
    assert out.read_text(encoding="utf-8").startswith(begins)
    assert "A lump on my NECK." in out.read_text(encoding="utf-8")


def test_two_conversations_in_a_file_of_the_named_format(
    filled: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "conversations.txt"
    assert main(["export", "conversation", "run/1/0", "run/1/1", "--format", "json", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"Wrote 2 conversations to {out}.\n"
    first, second = read_back(out.read_bytes()).conversations
    assert first.events == tuple(a_stream())
    assert second.parent is not None
    assert second.parent.trial_id == "run/1/0"


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["unknown", "--format", "md"], 2, "There is no conversation 'unknown' in this database: check its id."),
        (["run/1/0"], 2, "'txt' is no format of a conversation: use --format html, md, json or png."),
        (["run/1/0", "--format", "docx"], 2, "'docx' is no format of a conversation"),
    ],
)
def test_wrong_usage_is_one_sentence_and_leaves_no_file(
    filled: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, sentence: str
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    assert main(["export", "conversation", *arguments, "--out", str(folder / "conversation.txt")]) == status
    error = capsys.readouterr().err
    assert error.startswith(sentence)
    assert error.count("\n") == 1
    assert list(folder.iterdir()) == []


def test_an_existing_file_is_not_overwritten(filled: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "conversation.html"
    out.write_text("mine")
    assert main(["export", "conversation", "run/1/0", "--out", str(out)]) == 1
    assert "exists already" in capsys.readouterr().err
    assert out.read_text() == "mine"


def test_without_a_browser_png_is_refused(
    filled: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHROMIUM", "/no/such/browser")
    assert main(["export", "conversation", "run/1/0", "--out", str(tmp_path / "conversation.png")]) == 1
    assert capsys.readouterr().err.startswith("There is no Chrome or Chromium on this machine")


def test_a_conversation_of_a_release_marks_unrecorded_fields(
    db: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "craftmd", str(write_release(tmp_path / "release"))]) == 0
    with Store(db).read() as cursor:
        sql = "SELECT trial_id FROM trials WHERE case_key = 'craftmd/case_0' AND trial = 2 ORDER BY run_id"
        ids = [trial_id for (trial_id,) in cursor.execute(sql).fetchall()]
    assert len(ids) == 2
    out = tmp_path / "conversations.md"
    assert main(["export", "conversation", *ids, "--with-cases", "--out", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    assert text.startswith("# case\\_0: 2 conversations of gpt\\_3\\_5 and mistral\\_v1\\_7b\n")
    # both conversations are equal, so each message is shown once
    assert text.count("> I itch.\n") == 1
    assert "> **Final Diagnosis:** Scabies" in text
    assert "| Seed of the trial | not recorded | not recorded |" in text
    assert "| When | imported " in text
    assert text.count("No call of a model is recorded") == 2
    assert main(["export", "conversation", ids[0], "--out", str(tmp_path / "conversation.json")]) == 0
    (conversation,) = json.loads((tmp_path / "conversation.json").read_bytes())["conversations"]
    assert conversation["cast"]["source"] == "release"
