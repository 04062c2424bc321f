"""The data behind figures: planned and finished trials, the cases of a data set, and shared cases."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from core.cli.app import main
from core.measures.extent import on_different_cases, on_shared_cases, read_extents, shared_keys
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.run_cases import Extent
from core.store.selection import Selection
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, write_journal


def store_run(run: str, doctor: str, cases: Iterable[int], done: Iterable[tuple[int, int]], **header: Any) -> None:
    """Store a run with two planned trials of each case; ``done`` lists the finished (case, trial) pairs."""
    planned = [a_case(n, specialty="Neurology" if n > 20 else "Dermatology") for n in cases]
    lines = [
        a_trial(
            [answered("vignette", "mcq"), graded("correct", "vignette", "mcq")],
            trial_id=f"{run}/{n}/{t}",
            run_id=run,
            case_key=f"ours/{n}",
            trial=t,
        )
        for n, t in done
    ]
    fields = {"doctor": doctor, "arms": [("vignette", "mcq")], **header}
    write_journal(Store().journals, run, a_header(run, planned, **fields), *lines)


def twice(cases: Iterable[int]) -> list[tuple[int, int]]:
    return [(n, t) for n in cases for t in range(2)]


@pytest.fixture
def three_runs(db: Path) -> Store:
    """a: 20 of 60 cases, all done. b: 40 cases, 15 first trials done. c: 20 other cases, with an older header."""
    whole = {"data_set_hash": "w", "data_set_cases": 60}
    store_run("a", "openai/a", range(1, 21), twice(range(1, 21)), case_set="ours (first 20)", **whole)
    store_run(
        "b",
        "openai/b",
        range(1, 41),
        [(n, 0) for n in range(1, 16)],
        case_set="ours (sample of 40, seed 3)",
        case_set_hash="d",
        **whole,
    )
    store_run("c", "openai/c", range(21, 41), twice(range(21, 41)), case_set="ours (first 20)", case_set_hash="e")
    assert main(["runs"]) == 0  # folds
    return Store()


def extent(model: str, cases: Iterable[int], **changes: Any) -> Extent:
    fields: dict[str, Any] = {"data_set": "ours", "planned": 40, "done": 40, "failed": 0, "data_set_cases": 60}
    return Extent(model, cases=frozenset(f"ours/{n}" for n in cases), **{**fields, **changes})


def test_planned_and_finished_trials_and_cases_by_hand(three_runs: Store) -> None:
    a, b, c = read_extents(three_runs)
    assert (a.planned, a.done, len(a.cases), a.data_set_cases) == (40, 40, 20, 60)
    assert (b.planned, b.done, len(b.cases), b.data_set_cases) == (80, 15, 15, 60)
    assert (c.planned, c.done, len(c.cases)) == (40, 40, 20)
    assert c.data_set_cases == 60, "an older run does not give the size of its data set, other runs do"
    assert shared_keys([a, b]) == {f"ours/{n}" for n in range(1, 16)}
    assert shared_keys([a, c]) == frozenset()


def test_a_selection_of_cases_also_reduces_the_planned_trials(three_runs: Store) -> None:
    extents = read_extents(three_runs, Selection(specialties=["Neurology"]))
    by_model = {row.model: row for row in extents}
    assert (by_model["openai/b"].planned, by_model["openai/b"].done) == (40, 0)
    assert (by_model["openai/c"].planned, by_model["openai/c"].done) == (40, 40)
    assert {row.data_set_cases for row in extents} == {None}


def test_a_release_has_no_more_planned_than_finished_trials(db: Path) -> None:
    from tests.core.store.builders import as_released

    store_run("r", "gpt_4", range(1, 5), [(1, 0), (2, 0)])
    assert main(["runs"]) == 0
    as_released(Store(), "r")
    (released,) = read_extents(Store())
    assert (released.planned, released.done) == (2, 2)


def test_an_older_run_on_a_part_of_a_data_set_has_no_size(db: Path) -> None:
    store_run("r", "openai/a", range(1, 7), twice(range(1, 7)), case_set="ours (first 6)")
    assert main(["runs"]) == 0
    (run_extent,) = read_extents(Store())
    assert (run_extent.planned, run_extent.done, run_extent.data_set_cases) == (12, 12, None)


def test_an_older_run_on_a_full_data_set_has_its_size(db: Path) -> None:
    store_run("r", "openai/a", range(1, 7), [(1, 0)])
    assert main(["runs"]) == 0
    (run_extent,) = read_extents(Store())
    assert (run_extent.planned, run_extent.done, run_extent.data_set_cases) == (12, 1, 6)


def test_other_data_sets_and_conditions_without_trials_do_not_count_as_different_cases() -> None:
    alike = [extent("a", range(20)), extent("b", range(20))]
    assert on_different_cases([*alike, extent("c", range(5), data_set="theirs")]) == {}
    nothing_yet = extent("d", (), done=0)
    assert on_different_cases([*alike, nothing_yet]) == {}


def score(model: str, case: int, format_: Any = "vignette", data_set: str = "ours") -> CaseScore:
    return CaseScore(model, format_, "mcq", f"{data_set}/{case}", data_set, "Neurology", 1, 1, {})


def test_shared_cases_are_answered_by_all_models_of_an_arm_and_data_set() -> None:
    scores = [score("a", n) for n in (1, 2, 3)] + [score("b", n) for n in (2, 3, 4)]
    other_arm, other_set = score("a", 1, "multi_turn"), score("c", 9, data_set="theirs")
    shared = on_shared_cases([*scores, other_arm, other_set])
    assert {(case_score.model, case_score.case_key) for case_score in shared[:4]} == {
        (m, f"ours/{n}") for m in "ab" for n in (2, 3)
    }
    assert shared[4:] == [other_arm, other_set]


@pytest.mark.slow
def test_reports_give_the_extent_and_can_use_shared_cases_only(
    three_runs: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["report", "accuracy"]) == 0
    notes = capsys.readouterr().out
    assert "openai/b 15 of 80 planned trials" in notes
    assert "openai/a 20 of 60" in notes
    assert main(["report", "accuracy", "--models", "openai/a,openai/b", "--shared-cases", "--format", "csv"]) == 0
    rows = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    place = rows[0].index("n_cases")
    assert [row[place] for row in rows[1:]] == ["15", "15"]
    assert main(["report", "accuracy", "--models", "openai/a,openai/c", "--shared-cases"]) == 1
    assert "share no case" in capsys.readouterr().err


@pytest.mark.slow
def test_versions_are_compared_on_shared_cases_or_not_at_all(
    three_runs: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["report", "monitor", "--versions", "openai/a,openai/b", "--format", "csv"]) == 0
    out, notes = capsys.readouterr()
    (row,) = csv.DictReader(out.splitlines())
    assert (row["n_cases"], row["n_first_only"], row["n_second_only"]) == ("15", "5", "0")
    assert "15 of 80 planned trials" in notes
    assert main(["report", "monitor", "--versions", "openai/a,openai/c"]) == 1
    out, error = capsys.readouterr()
    assert out == ""
    assert "openai/a and openai/c share no case that counts in vignette:mcq" in error
