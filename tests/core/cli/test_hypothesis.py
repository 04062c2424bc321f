"""The hypothesis of a run is in its journal before the first call, and nothing changes it later."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.cli.app import main
from core.journal import Hypothesis, read_header
from core.models import keys
from core.paths import journals_folder
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.runs import runs
from tests.support.fake_provider import FakeProvider, running

STATED = Hypothesis(text="New is as good.", primary="vignette:mcq", margin=0.1)
OPTIONS = ("--hypothesis", STATED.text, "--primary", STATED.primary, "--margin", "0.1")


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[FakeProvider, list[Hypothesis | None]]]:
    """A doctor, with the hypothesis in the journal at each of its calls."""
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "a.duckdb"))
    monkeypatch.setattr(keys, "SECRETS", tmp_path / "secrets.toml")
    stated: list[Hypothesis | None] = []

    def reply(body: dict[str, Any]) -> str:
        (path,) = journals_folder().glob("*/journal.jsonl")
        stated.append(read_header(path).hypothesis)
        return "**Final Diagnosis:** Gout"

    with running(reply) as provider:
        yield provider, stated


def command(provider: FakeProvider, *options: str) -> list[str]:
    campaign = ["--doctor", "openai/new", "--limit", "2", "--trials", "1", "--arms", "vignette:mcq"]
    return ["run", *campaign, "--base-url", provider.base_url, *options]


@pytest.mark.slow
def test_it_is_stored_before_the_first_call_and_shown_with_the_run(
    seen: tuple[FakeProvider, list[Hypothesis | None]], capsys: pytest.CaptureFixture[str]
) -> None:
    provider, stated = seen
    assert main(command(provider, *OPTIONS)) == 0
    assert set(stated) == {STATED}
    capsys.readouterr()
    assert main(["runs", "--format", "json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["hypothesis"] == STATED.model_dump()
    store = Store()
    store.path.unlink()
    fold(store)
    with store.read() as cursor:
        (run,) = runs(cursor)
    assert run.hypothesis == STATED


def test_an_unfinished_run_keeps_its_hypothesis_and_gets_no_other(
    seen: tuple[FakeProvider, list[Hypothesis | None]], capsys: pytest.CaptureFixture[str]
) -> None:
    provider, stated = seen
    assert main(command(provider, *OPTIONS)) == 0
    calls = len(stated)
    (path,) = journals_folder().glob("*/journal.jsonl")
    header, *_ = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(header)  # as after a kill before the first reply
    Store().path.unlink()
    assert main(command(provider, "--hypothesis", "New is better.", "--margin", "0.1")) == 2
    assert "stated before the first call" in capsys.readouterr().err
    assert len(stated) == calls
    assert main(["resume", path.parent.name]) == 0
    assert stated == [STATED] * 2 * calls


@pytest.mark.parametrize(
    "options",
    [
        ("--primary", "vignette:mcq"),
        ("--hypothesis", "It is good.", "--primary", "vignette:frq"),
        ("--hypothesis", "It is good.", "--margin", "0.6"),
        ("--hypothesis", "It is good.", "--margin", "0"),
    ],
)
def test_a_hypothesis_that_is_not_complete_starts_nothing(
    options: tuple[str, ...], seen: tuple[FakeProvider, list[Hypothesis | None]]
) -> None:
    provider, stated = seen
    assert main(command(provider, *options)) == 2
    assert stated == []
    assert not list(journals_folder().glob("*/journal.jsonl"))
