"""``report graders`` from end to end."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from core.cli.app import main
from core.events import Finished
from core.store.database import Store
from core.store.fold import fold
from tests.core.measures.graders.graded import OTHER, OWN, THIRD, judge_again, store_graded, three_graders
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, write_journal


@pytest.fixture
def judged(db: Path) -> Store:
    return three_graders(Store(db))


def report(capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, str]]:
    assert main(["report", "graders", *options, "--format", "csv"]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


@pytest.mark.slow
def test_differences_and_flips(judged: Store, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = report(capsys, "--part", "differences", "--panel", f"{OWN},{OTHER}")
    assert [(row["trial_id"], row["first_verdict"]) for row in rows] == [("t001", "incorrect"), ("t011", "correct")]
    rows = report(capsys, "--part", "flips")
    assert ("openai/h", "the same response", "2") in {(r["grader"], r["judged_again"], r["pairs"]) for r in rows}
    out = tmp_path / "flips.csv"
    assert main(["report", "graders", "--part", "flips", "--format", "csv", "--out", str(out)]) == 0
    assert f"Wrote {len(rows)} rows" in capsys.readouterr().out
    assert len(out.read_text().splitlines()) == len(rows) + 1
    assert main(["report", "graders", "--part", "flips", "--out", str(out)]) == 1
    assert "exists already" in capsys.readouterr().err


@pytest.mark.slow
def test_rows_can_be_restricted_to_some_graders(judged: Store, capsys: pytest.CaptureFixture[str]) -> None:
    answers = {row["grader"]: row["answers"] for row in report(capsys, "--part", "judged")}
    assert answers == {OWN: "11", OTHER: "5", THIRD: "4"}
    assert {row["graders"] for row in report(capsys, "--graders", f"{THIRD},{OWN}")} == {f"{OWN}, {THIRD}"}
    for part, column in (("accuracy", "judge"), ("flips", "grader"), ("judged", "grader")):
        assert {row[column] for row in report(capsys, "--part", part, "--graders", OTHER)} == {OTHER}, part
    assert main(["report", "graders", "--graders", "openai/x"]) == 2
    assert "No grader 'openai/x'" in capsys.readouterr().err


def test_no_row_pools_models_data_sets_or_versions_of_a_graders_prompts(
    judged: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other grader judges two answers of the second doctor under other prompts, and agrees twice."""
    judge_again(judged, OTHER, {"t100": "incorrect", "t110": "incorrect"}, 40.0, "def")
    old, new = f"{OTHER} · prompts abc", f"{OTHER} · prompts def"
    rows = [row for row in report(capsys) if row["measure"] == "percent agreement" and row["verdicts"] != "all kinds"]
    agreement = {(row["graders"], row["model"]): (row["n_answers"], float(row["value"])) for row in rows}
    assert agreement[f"{OWN}, {old}", "openai/a"] == ("5", 0.6)
    assert agreement[f"{OWN}, {new}", "openai/b"] == ("2", 1.0)
    assert {model for _, model in agreement} == {"openai/a", "openai/b"}
    assert {row["model"] for row in report(capsys, "--models", "openai/b")} == {"openai/b"}
    assert main(["report", "graders", "--panel", f"{OWN},{OTHER}"]) == 2
    assert new in capsys.readouterr().err, "the error lists the versions"
    by_grader = {(row["judge"], row["model"]): row["n_trials"] for row in report(capsys, "--part", "accuracy")}
    assert (by_grader[old, "openai/a"], by_grader[new, "openai/b"]) == ("5", "2")
    # "Gout" was judged twice: of the second doctor alike under the new prompts, of the first both ways under the old
    flips = {
        (row["grader"], row["model"]): (row["pairs"], row["both_ways"])
        for row in report(capsys, "--part", "flips")
        if row["judged_again"] == "the same response"
    }
    assert (flips[old, "openai/a"], flips[new, "openai/b"]) == (("2", "2"), ("1", "0"))


@pytest.mark.slow
def test_answers_on_two_data_sets_are_separate_rows(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(db)
    for data_set, verdict in (("ours", "correct"), ("theirs", "incorrect")):
        case = a_case(1, case_key=f"{data_set}/1", profile=None)
        header = a_header(data_set, [case], case_set=data_set, doctor="openai/a", arms=[("multi_turn", "frq")])
        events = [
            answered(response="Eczema"),
            graded("correct"),
            graded(verdict, grader=OTHER, at=5.0),
            Finished(at=9.0),
        ]
        line = a_trial(events, trial_id=data_set, run_id=data_set, case_key=case.case_key, trial=0)
        write_journal(store.journals, data_set, header, line)
    fold(store)
    rows = [row for row in report(capsys) if row["measure"] == "percent agreement" and row["verdicts"] != "all kinds"]
    assert {(row["model"], row["n_answers"], float(row["value"])) for row in rows} == {
        ("openai/a · ours", "1", 1.0),
        ("openai/a · theirs", "1", 0.0),
    }
    assert {row["model"] for row in report(capsys, "--cases", "theirs")} == {"openai/a"}


def test_impossible_reports_fail_with_a_sentence(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "graders"]) == 1
    assert "No grader has judged a free response here" in capsys.readouterr().err
    store_graded(Store(db))
    assert main(["report", "graders"]) == 1
    assert "no answer was judged by two graders (openai/g" in capsys.readouterr().err
    assert main(["report", "graders", "--part", "accuracy", "--panel", "openai/g"]) == 2
    assert "A panel needs two or more different graders" in capsys.readouterr().err
    assert main(["report", "graders", "--part", "differences", "--panel", "openai/g,openai/x"]) == 2
    assert "No grader 'openai/x'" in capsys.readouterr().err
    assert main(["report", "graders", "--part", "differences"]) == 1
    assert "There is no difference" in capsys.readouterr().err
