"""Differences in settings between the runs behind two figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from core.measures.provenance import ComparedRuns, differing, settings_side_by_side, side_of_run
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.runs import CAMPAIGNS, Run, run_records
from tests.core.store.builders import a_case, a_header, write_journal


@pytest.fixture
def stored(tmp_path: Path) -> dict[str, Run]:
    store = Store(tmp_path / "a.duckdb")
    case = a_case(1)
    headers = [
        a_header("one", [case]),
        a_header(
            "two",
            [case, a_case(2)],
            patient="openai/other",
            prompt_hash="g" * 16,
            created_at=200.0,
            settings={"max_messages": None, "temperature": 0.5},
        ),
        a_header("three", [case], settings={"max_messages": 30, "temperature": None}, trials=5, created_at=300.0),
        a_header("watched", [case], source="live", created_at=400.0),
    ]
    for header in headers:
        write_journal(store.journals, header.run_id, header)
    fold(store)
    with store.read() as cursor:
        return {cast.run_id: cast for cast in run_records(cursor, sources=CAMPAIGNS)}


def test_casts_are_the_campaigns_newest_first(stored: dict[str, Run]) -> None:
    assert list(stored) == ["three", "two", "one"]
    assert (stored["two"].cases, stored["two"].patient, stored["two"].settings["temperature"]) == (
        2,
        "openai/other",
        0.5,
    )


def test_every_difference_is_named_with_both_values(stored: dict[str, Run]) -> None:
    differences = {
        s.name: s.values
        for s in differing(settings_side_by_side([side_of_run(stored["one"]), side_of_run(stored["two"])]))
    }
    assert differences == {
        "Prompts": ("default h", "default gggggggg"),
        "Patient": ("openai/p", "openai/other"),
        "Limit of messages": ("30 messages", "none"),
        "Case set": ("ours c, 1 cases", "ours c, 2 cases"),
        "Temperature": ("default", "0.5"),
    }


def test_the_same_settings_are_no_difference(stored: dict[str, Run]) -> None:
    settings = settings_side_by_side([side_of_run(stored["one"]), side_of_run(stored["three"])])
    assert [s.name for s in differing(settings)] == ["Trials of a case"]
    assert {s.name for s in settings if s.same} >= {"Patient", "Grader", "Seed", "Limit of messages"}


def test_runs_of_one_side_that_disagree_are_all_named(stored: dict[str, Run]) -> None:
    settings = settings_side_by_side([ComparedRuns(list(stored.values())), ComparedRuns([])])
    (side,) = [setting for setting in settings if setting.name == "Limit of messages"]
    assert side.values == ("30 messages / none", "no run")
    assert not side.same


@pytest.mark.slow
@pytest.mark.parametrize(
    "case_set", ["ours", "ours (first 20)", "ours:Cardiology", "ours:Cardiology (first 5)", "ours:1,2,7"]
)
def test_a_run_on_part_of_the_cases_belongs_to_their_data_set(stored: dict[str, Run], case_set: str) -> None:
    assert replace(stored["one"], case_set=case_set).data_set == "ours"
