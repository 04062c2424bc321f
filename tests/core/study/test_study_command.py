"""`study` through the real command: two scripted doctors on an Excel file of twenty cases, three of them faulty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from core.cli.app import main
from core.jobs.repeat import run_command_of
from core.journal import read_header
from core.measures.paired import read_scores
from core.models import keys
from core.paths import journals_folder
from core.store.database import Store
from core.store.queries.runs import runs
from core.study.result import StudyResult, studies, study_result
from tests.support.fake_provider import running
from tests.support.replies import Reply

ILLNESSES = {
    "Gout": "His big toe was red and burning after a feast",
    "Shingles": "She has a stripe of blisters on one side of her back",
    "Measles": "The child has white spots in the mouth and then a rash",
    "Appendicitis": "The pain moved from the navel to the right side below",
    "Migraine": "She sees zigzag lines and then one half of her head throbs",
    "Scabies": "He itches at night, and so does everybody at home",
    "Asthma": "He whistles when he breathes out in cold air",
    "Anaemia": "She is pale, tired, and her heart races on the stairs",
    "Otitis media": "The baby pulls its ear and has a fever",
    "Cystitis": "It burns when she passes water, and she goes often",
    "Mumps": "Both cheeks of the boy are swollen below the ears",
    "Tonsillitis": "He cannot swallow and his throat has white dots",
    "Hepatitis": "His eyes are yellow and his urine is like cola",
    "Sciatica": "The pain shoots from his back down to his heel",
    "Glaucoma": "She sees halos round lamps and her eye is hard as a stone",
    "Psoriasis": "Silvery scales cover his elbows and knees",
    "Hypothyroidism": "She is cold, slow, and has gained weight",
    "Pneumonia": "He coughs rusty phlegm and shivers",
}
FAULTY = [
    ["no-answer", "A man of 40 years feels ill since Monday.", "What is it?", None],
    ["again", f"{ILLNESSES['Gout']}.", "What is it?", "Gout"],
    ["leaked", "A woman of 50 years says that she has rosacea on her nose.", "What is it?", "Rosacea"],
]
GOOD = dict(list(ILLNESSES.items())[:17])


@dataclass
class Doctors:
    """Scripted doctors: model → the cases that it gets right; those in ``down`` refuse every request."""

    right: dict[str, Collection[int]]
    base_url: str = ""
    down: set[str] = field(default_factory=set)
    paid: Counter[str] = field(default_factory=Counter)

    def reply(self, body: dict[str, Any]) -> Reply:
        model, words = body["model"], str(body["messages"])
        if model in self.down:
            return Reply(status=401, error="the key is wrong")
        self.paid[model] += 1
        number = next(n for n, text in enumerate(ILLNESSES.values()) if text in words)
        diagnosis = list(ILLNESSES)[number] if number in self.right[model] else "Lumbago"
        return Reply(f"**Final Diagnosis:** {diagnosis}")


def workbook(path: Path, illnesses: dict[str, str], faulty: list[list[str | None]]) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["id", "vignette", "question", "answer"])
    for number, (answer, words) in enumerate(illnesses.items()):
        sheet.append([f"{path.stem}-{number}", f"{words}.", "What is the diagnosis?", answer])
    for row in faulty:
        sheet.append(row)
    book.save(path)


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
    assert "no third" in capsys.readouterr().err
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
