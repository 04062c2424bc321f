"""Settings, served models, dates, hypotheses, prompts and case sources of runs, as their reports print them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.cli.app import main
from core.events import Finished
from core.journal import Hypothesis
from core.prompts import load_pack
from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import (
    a_call,
    a_case,
    a_header,
    a_trial,
    answered,
    as_released,
    graded,
    invalid,
    write_journal,
)


@pytest.fixture(autouse=True)
def study(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Two runs: the provider of the first changed its model between two trials, that of the second names none."""
    monkeypatch.setenv("ANAMNESIS_DB", str(store.path))
    pack = load_pack("craftmd")
    for run_id, doctor, names in (("run-a", "openai/a", ("a-1", "a-2")), ("run-b", "openai/b", (None, None))):
        cases = [a_case(number) for number in (1, 2)]
        trials = [
            a_trial(
                [
                    a_call(f"{run_id}-{number}", model=doctor, served_by=name),
                    answered(),
                    Finished(at=86_400.0 * number + 60),
                ],
                trial_id=f"{run_id}/{number}/0",
                run_id=run_id,
                case_key=f"ours/{number}",
                started_at=86_400.0 * number,
                finished_at=86_400.0 * number + 60,
            )
            for number, name in enumerate(names, start=1)
        ]
        changes: dict[str, Any] = {"prompt_pack": "craftmd", "prompt_hash": pack.hash} if run_id == "run-a" else {}
        header = a_header(run_id, cases, doctor=doctor, arms=(("multi_turn", "frq"),), **changes)
        write_journal(store.journals, run_id, header, *trials)
    fold(store)
    return store


def rows(capsys: pytest.CaptureFixture[str], name: str, *options: str) -> list[dict[str, Any]]:
    assert main(["report", name, *options, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_served_has_each_name_with_its_calls_and_dates(capsys: pytest.CaptureFixture[str]) -> None:
    printed = [(r["requested"], r["served_as"], r["calls"]) for r in rows(capsys, "served")]
    assert sorted(printed, key=str) == [("openai/a", "a-1", 1), ("openai/a", "a-2", 1), ("openai/b", None, 2)]
    (first,) = [r for r in rows(capsys, "served", "--run", "run-a") if r["served_as"] == "a-1"]
    assert first["last"].startswith("1970-01-02 00:01")


def test_dates_are_those_of_the_trials_and_unknown_in_a_release(
    study: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    (row,) = rows(capsys, "dates", "--run", "run-a")
    assert (row["trials"], row["failed"]) == (2, 0)
    assert row["last"].startswith("1970-01-03 00:01")
    as_released(study, "run-a")
    (row,) = rows(capsys, "dates", "--run", "run-a")
    assert (row["first"], row["last"], row["trials"]) == (None, None, 2)


def test_prompts_are_those_of_the_unchanged_pack(capsys: pytest.CaptureFixture[str]) -> None:
    pack = load_pack("craftmd")
    printed = {row["prompt"]: (row["hash"], row["characters"]) for row in rows(capsys, "prompts")}
    assert printed == {name: (prompt.hash, len(prompt.source)) for name, prompt in pack.prompts.items()}


def test_settings_have_shared_values_once(capsys: pytest.CaptureFixture[str]) -> None:
    printed = rows(capsys, "settings")
    doctors = {row["condition"]: row["value"] for row in printed if row["setting"] == "Doctor"}
    assert set(doctors.values()) == {"openai/a", "openai/b"}
    shared = {row["setting"] for row in printed if row["condition"] == "all"}
    differing = {row["setting"] for row in printed if row["condition"] in doctors} - {"Doctor"}
    assert "Seed" in shared
    assert differing
    assert not shared & differing


def test_played_cases_have_source_and_licence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (row,) = rows(capsys, "played_cases")
    assert (row["data_set"], row["cases"]) == ("ours", 2)
    assert {"source", "licence", "specialties"} <= row.keys()


def test_hypotheses_say_what_was_done_differently(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    stated = Hypothesis(text="New is as good.", primary="vignette:mcq", margin=0.1)
    arms = (("vignette", "mcq"), ("multi_turn", "frq"))
    header = a_header("stated", [a_case(1)], doctor="openai/c", trials=2, arms=arms, hypothesis=stated)
    events = [answered("vignette", "mcq"), graded("correct", "vignette", "mcq"), invalid("refused"), Finished(at=9.0)]
    write_journal(store.journals, "stated", header, a_trial(events, trial_id="stated/1/0", run_id="stated"))
    fold(store)
    (row,) = rows(capsys, "hypotheses")
    assert (row["run"], row["hypothesis"], row["primary"], row["margin"]) == (
        "stated",
        "New is as good.",
        "vignette:mcq",
        0.1,
    )
    # one of two trials is played, and its free response is refused
    assert row["done_differently"] == ("1 of 2 trials; 1 of 2 answers excluded; further outcomes: multi_turn:frq")
