"""`study` through the real command: two scripted doctors on an Excel file of twenty cases, three of them faulty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.cli.app import main
from core.datasets.select import datasets
from core.jobs.repeat import run_command_of
from core.journal import read_header
from core.measures.paired import read_scores
from core.models import keys
from core.paths import journals_folder
from core.store.database import Store
from core.store.queries.runs import runs
from core.study.result import StudyResult, studies, study_result
from tests.support.fake_provider import running
from tests.support.own_cases import FAULTY, GOOD, ILLNESSES, Doctors, workbook
from tests.support.replies import Reply
from tests.support.rubric_judges import by_last_word, judge

RUBRIC = """
all:
  - {id: travel, criterion: The doctor asks about travel, points: 3}
  - {id: smoking, criterion: The doctor asks about smoking, points: 1}
"""
ASKED = {"new": "Do you often travel, and are you smoking?", "old": "Do you often travel?"}
"""What a doctor asks before the diagnosis: all, or three quarters, of the points of the rubric."""
PRICED = '[models."openai/{}"]\nprices = {{ input = 0.0, output = 100000.0 }}\n'
"""A call with ten tokens of output costs a dollar."""


def asking(body: dict[str, Any]) -> Reply:
    """Ask one question and then name an illness, or judge by the rubric, for a dollar a call."""
    model, words = body["model"], str(body["messages"])
    if model == "judge":
        return Reply(str(judge(by_last_word)(body)), usage=(0, 10))  # type: ignore[operator]
    return Reply("**Final Diagnosis:** Lumbago" if ASKED[model] in words else ASKED[model], usage=(0, 10))


@pytest.fixture
def doctors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Doctors]:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "a.duckdb"))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setattr(keys, "SECRETS", tmp_path / "secrets.toml")
    monkeypatch.chdir(tmp_path)
    workbook(tmp_path / "ward.xlsx", GOOD, FAULTY)
    doctors = Doctors({"new": range(15), "old": range(3)})
    with running(doctors.reply) as provider:
        doctors.base_url = provider.base_url
        yield doctors


def command(doctors: Doctors, *more: str) -> list[str]:
    shared = ["--base-url", doctors.base_url, "--both", "--patient reference --grader reference"]
    pair = ["--doctor", "openai/new", "--against", "openai/old", "--arm", "vignette:frq"]
    return ["study", "ward.xlsx", *pair, *shared, *more]


def newest() -> StudyResult:
    with Store().read() as cursor:
        run, *_ = studies(runs(cursor))
    assert run.hypothesis is not None
    return study_result(Store(), run.run_id, run.hypothesis.against)


def test_from_a_workbook_with_faults_to_two_looks_and_nothing_is_paid_for_twice(
    doctors: Doctors, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    doctors.right = {"new": range(9), "old": range(1, 10)}
    assert main(command(doctors)) == 2
    said = capsys.readouterr()
    assert "3 of 20" in said.out
    assert "ward/leaked" in said.out
    assert "--skip-bad" in said.err
    assert main(command(doctors, "--skip-bad", "--dry-run")) == 0
    assert "17 cases × 1 trial" in capsys.readouterr().out
    assert datasets() == ["library"]
    assert not list(journals_folder().glob("*/journal.jsonl")), "all is said before any call"

    doctors.down = {"new"}
    study = command(doctors, "--skip-bad", "--margin", "0.1")
    assert main(study) == 1
    assert doctors.paid == {"old": 17}
    stated = [read_header(path).hypothesis for path in journals_folder().glob("*/journal.jsonl")]
    assert [(each.primary, each.margin) for each in stated if each] == [("vignette:frq", 0.1)] * 2
    doctors.down = set()
    assert main(study) == 0
    assert doctors.paid == {"old": 17, "new": 17}, capsys.readouterr().out
    with Store().read() as cursor:
        casts = {(run.doctor, run.patient, run.grader, run.cases) for run in runs(cursor)}
    assert {cast[1:] for cast in casts} == {("reference/profile", "reference/names", 17)}
    assert len(casts) == 2

    first = newest()
    assert (first.verdict, first.obstacle, first.decision.margin) == ("cannot tell", "", 0.1)
    assert (first.decision.cases, len(first.decision.looks)) == (17, 1)
    assert first.decision.means == (0.0,)
    assert first.decision.needed
    assert Counter(case.flip for case in first.cases) == {"gained": 1, "lost": 1, "": 15}
    assert [conversation.why for conversation in first.reading] == ["lost", "gained", "both fail"]
    assert first.doctors == ("openai/new", "openai/old")
    assert main(study) == 0
    assert doctors.paid == {"old": 17, "new": 17}, "the same study shows its decision again"

    workbook(tmp_path / "more.xlsx", dict(list(ILLNESSES.items())[17:]), [])
    assert main(["study", "more.xlsx", "--extend", first.new_runs[0]]) == 0
    assert doctors.paid == {"old": 18, "new": 18}, "only the new case is paid for"
    second = newest()
    assert len(second.new_runs) == len(second.decision.looks) == 2
    assert second.decision.cases == 18
    assert second.decision.looks[0] == first.decision.looks[0], "the first look stays what it was"
    assert (second.obstacle, second.verdict) == ("", "cannot tell")
    assert main(["run", "--extend", first.new_runs[0], "--trials", "3"]) == 2
    assert "one extension" in capsys.readouterr().err
    assert doctors.paid == {"old": 18, "new": 18}


def test_a_finished_run_gets_more_trials_and_pays_for_these_alone(
    doctors: Doctors, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "cases", "ward.xlsx", "--skip-bad"]) == 0
    run = ["run", "--doctor", "openai/new", "--cases", "ward:ward-0,ward-16", "--trials", "1", "--base-url"]
    run += [doctors.base_url, "--arms", "vignette:frq", "--grader", "reference", "--patient", "reference"]
    assert main(run) == 0
    with Store().read() as cursor:
        (played,) = runs(cursor)
    doctors.down = {"new"}
    assert main(["run", "--extend", played.run_id, "--trials", "3"]) == 1
    doctors.down = set()
    assert main(["run", "--extend", played.run_id, "--trials", "3"]) == 0
    assert doctors.paid == {"new": 6}, "one extension, which went on"
    with Store().read() as cursor:
        stored = runs(cursor)
    assert [(run.trials, run.done) for run in stored] == [(2, 4), (1, 2)]
    assert run_command_of(stored[0]) == f"python -m core run --extend {played.run_id} --trials 3"
    scores = {score.case_key: (score.correct, score.counted) for score in read_scores(Store())}
    assert scores == {"ward/ward-0": (3, 3), "ward/ward-16": (0, 3)}, "one condition, with three trials of each case"
    assert main(["run", "--extend", played.run_id, "--trials", "2"]) == 2
    assert main(["run", "--extend", played.run_id, "--cases", "ward:ward-0,ward-1"]) == 0
    assert doctors.paid == {"new": 9}, "the new case, as often as the others"
    capsys.readouterr()


def test_doctors_that_no_figure_may_compare_are_refused_before_any_trial() -> None:
    words = ["study", "library:cardiology-1", "--doctor", "reference/bayes --max-messages 6", "--against"]
    assert main([*words, "reference/bayes"]) == 2
    assert not list(journals_folder().glob("*/journal.jsonl"))


@pytest.mark.slow
def test_a_rubric_and_a_model_that_judges_decide_within_a_budget(
    doctors: Doctors, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "asks.yaml").write_text(RUBRIC)
    (tmp_path / "models.toml").write_text("".join(map(PRICED.format, (*ASKED, "judge"))))
    monkeypatch.setenv("ANAMNESIS_MODELS", str(tmp_path / "models.toml"))
    assert main(["rubrics", "import", "asks.yaml"]) == 0
    workbook(tmp_path / "ward.xlsx", dict(list(ILLNESSES.items())[:12]), [])
    with running(asking) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        both = ["--both", "--patient reference --grader reference", "--rubric", "asks"]
        words = ["study", "ward.xlsx", "--against", "openai/old", *both]
        asked = [*words, "--doctor", "openai/new", "--judge", "openai/judge"]
        assert main([*asked, "--dry-run"]) == 0
        assert "24 conversations to judge" in capsys.readouterr().out
        for budget, stops_in in ((50, "new"), (80, "judge"), (500, "")):
            assert main([*asked, "--budget-usd", str(budget)]) == bool(stops_in)
            said = capsys.readouterr()
            assert (f"--budget-usd over {budget}" in said.err) == bool(stops_in)
            paid = Counter(body["model"] for body in provider.bodies)
            assert list(paid)[-1] == (stops_in or "judge")
        # a question, a diagnosis and the answer of each doctor about twelve cases, and each conversation judged once
        assert paid == {"old": 36, "new": 36, "judge": 24}
    result = newest()
    assert (result.verdict, result.decision.means, result.decision.cases) == ("better", (0.25,), 12)
    assert result.judge == "openai/judge"
    # the other way round every case loses 0.25: less than 0.45 in any case, and too near to 0.3 for twelve cases
    (new,), (old,) = result.new_runs, result.present_runs
    verdicts = {margin: study_result(Store(), old, new, margin=margin).verdict for margin in (0.45, 0.3)}
    assert verdicts == {0.45: "not worse", 0.3: "cannot tell"}
