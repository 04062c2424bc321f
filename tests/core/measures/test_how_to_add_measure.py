"""A measure is one file in a folder of extensions: it is discovered, measured, stored with evidence, and reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

import core.measures
from core import paths
from core.cli.app import main
from core.errors import UsageError
from core.frameworks import starts
from core.measures.measuring import measure_trials
from core.measures.registry import measures, metrics
from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import Ended, Finished, Utterance, a_case, a_header, a_trial, write_journal
from tests.support.commands import in_turn
from tests.support.stores import count_unmeasured

TOY = '''
"""How long the doctor's questions are."""

from core.measures.base import Evidence, Measure, Record, Score


class QuestionLength(Measure):
    """Mean number of words in the doctor's questions."""

    name = "question_length"

    def scores(self, record: Record):
        messages = enumerate(record.dialogue)
        questions = [(n, turn.text) for n, turn in messages if turn.role == "doctor" and "?" in turn.text]
        if questions:
            longest = max(questions, key=lambda question: len(question[1].split()))
            mean = sum(len(text.split()) for _, text in questions) / len(questions)
            yield Score("words", mean, (Evidence(*longest),))
'''
COUNTING = '''
from typing import Annotated

from core.measures.base import Columns, Row, metric


@metric("trials", empty="There is no trial.")
def report(request, least: Annotated[int, "Cases with fewer trials are left out."] = 1):
    """Count the trials of each case."""
    with request.store.read() as cursor:
        rows = cursor.execute("SELECT case_key, count(*) FROM trials GROUP BY case_key ORDER BY case_key").fetchall()
    for case, n in rows:
        if n >= least:
            yield Row({"case": case}, n, columns=Columns("trials", n=None))
'''
IN_A_PROCESS = """
from core.measures.measuring import measure_trials
from core.measures.registry import measures
from core.store.database import Store
print(measure_trials(Store(), [measures()["triage_words"]], processes=1), *measures())
"""
MESSAGES = {
    "run/1/0": ("Fever?", "No.", "Since when do you cough?", "Monday."),  # 1 and 5 words
    "run/1/1": ("Any pain in your chest?", "No.", "Thank you.", "Bye."),  # 5 words
    "run/2/0": ("Do you smoke at all now?", "No.", "I see.", "Yes."),  # 6 words
    "run/2/1": ("Hello.", "I cough.", "I see.", "Yes."),  # no question
}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A database with two trials of each of two cases, and a folder of extensions with the measure."""
    folder = tmp_path / "extensions"
    (folder / "measures").mkdir(parents=True)
    (folder / "measures" / "question_length.py").write_text(TOY)
    monkeypatch.setenv("ANAMNESIS_EXTENSIONS", f"{tmp_path / 'none'}{os.pathsep}{folder}")
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "results.duckdb"))
    monkeypatch.setattr(core.measures, "__path__", list(core.measures.__path__))
    monkeypatch.delitem(sys.modules, "core.measures.question_length", raising=False)
    store = Store()
    lines = [
        a_trial(
            [
                *(Utterance(turn=n, role="patient" if n % 2 else "doctor", text=text) for n, text in enumerate(texts)),
                Ended(reason="no_question", doctor_turns=1),
                Finished(),
            ],
            trial_id=trial,
            case_key=f"ours/{trial[4]}",
            trial=int(trial[-1]),
        )
        for trial, texts in MESSAGES.items()
    ]
    write_journal(store.journals, "run", a_header(cases=[a_case(1), a_case(2)]), *lines)
    return store


def reports(*commands: tuple[str, ...]) -> list[str]:
    """Return the outputs of ``python -m core report`` for each tuple of options, run in another process."""
    return [command.stdout for command in in_turn(os.environ, *(("report", *options) for options in commands))]


@pytest.mark.slow
def test_a_measure_is_reported_and_a_metric_has_its_own_rows_and_options(store: Store, tmp_path: Path) -> None:
    (tmp_path / "extensions" / "measures" / "trials.py").write_text(COUNTING)
    out = tmp_path / "trials.csv"
    rows, evidence, help_text, counted, written, help_of_trials = reports(
        ("question_length", "--format", "json"),
        ("question_length", "--part", "evidence", "--format", "json"),
        ("--help",),
        ("trials", "--least", "2", "--format", "json"),
        ("trials", "--format", "csv", "--out", str(out)),
        ("trials", "--help"),
    )
    (row,) = json.loads(rows)
    # case 1: (3 + 5) / 2, case 2: 6; the means of all resamples of the two are between 4 and 6
    assert (row["model"], row["score"], row["mean"]) == ("openai/a", "words", 5.0)
    assert (row["ci_low"], row["ci_high"]) == (4.0, 6.0)
    assert (row["n_cases"], row["n_trials"], row["excluded"]) == (2, 3, {"nothing to measure": 1})
    assert [(e["trial_id"], e["value"], e["turn"], e["words"]) for e in json.loads(evidence)] == [
        ("run/1/0", 3.0, 2, "Since when do you cough?"),
        ("run/1/1", 5.0, 0, "Any pain in your chest?"),
        ("run/2/0", 6.0, 0, "Do you smoke at all now?"),
    ]
    assert "Mean number of words in the doctor's questions." in help_text
    assert json.loads(counted) == [
        {"case": "ours/1", "trials": 2, "ci_low": None, "ci_high": None},
        {"case": "ours/2", "trials": 2, "ci_low": None, "ci_high": None},
    ]
    assert written == f"Wrote 2 rows to {out}.\n"
    assert out.read_text().splitlines() == ["case,trials,ci_low,ci_high", "ours/1,2,,", "ours/2,2,,"]
    assert "Cases with fewer trials are left out." in help_of_trials


@pytest.mark.slow
def test_it_is_measured_in_processes_and_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fold(store)
    toy = measures()["question_length"]
    assert count_unmeasured(store, toy) == 4
    assert measure_trials(store, [toy], processes=1) == 4
    assert measure_trials(store, [toy]) == 0
    with store.read() as cursor:
        scores = cursor.execute(
            "SELECT trial_id, name, value, evidence FROM scores WHERE name <> '' ORDER BY trial_id"
        ).fetchall()
    assert [(trial, name, value) for trial, name, value, _ in scores] == [
        ("run/1/0", "words", 3.0),
        ("run/1/1", "words", 5.0),
        ("run/2/0", "words", 6.0),
    ]
    assert json.loads(scores[0][3]) == [{"turn": 2, "words": "Since when do you cough?"}]
    monkeypatch.setattr(type(toy), "version", "2")
    assert count_unmeasured(store, toy) == 4


@pytest.mark.slow
def test_a_framework_can_have_measures(store: Store, tmp_path: Path) -> None:
    """One framework has a module, another a package of measures; other modules are not searched."""
    folder, framework = tmp_path / "extensions" / "frameworks", "from core.frameworks.craftmd import FRAMEWORK\n"
    for place, text in {
        "triage/__init__.py": framework,
        "triage/measures.py": TOY.replace("question_length", "triage_words"),
        "triage/other.py": TOY.replace("question_length", "no_measure_here"),
        "ward/__init__.py": framework,
        "ward/measures/__init__.py": "",
        "ward/measures/words.py": TOY.replace("question_length", "ward_words"),
    }.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text)
    fold(store)
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS], cwd=paths.ROOT, capture_output=True, text=True, check=True
    )
    measured, *names = done.stdout.split()
    assert measured == "4"
    assert {"question_length", "triage_words", "ward_words"} <= set(names)
    assert "no_measure_here" not in names
    (words,) = reports(("ward_words", "--format", "json"))
    assert [(row["score"], row["mean"]) for row in json.loads(words)] == [("words", 5.0)]


def test_a_file_that_cannot_be_read_is_named(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "extensions" / "measures"
    (folder / "broken.py").write_text("import nothing_of_this_name")
    with pytest.raises(UsageError, match=f"The measures in {folder / 'broken'} cannot be read: ModuleNotFoundError"):
        metrics()


def test_every_metric_has_help_and_every_measure_is_known() -> None:
    assert {"history_taking", "patient_marks"} <= set(measures())
    assert set(measures()) <= set(metrics())
    assert all(
        metric.help.splitlines()[0].endswith(".") and metric.empty.endswith(".") for metric in metrics().values()
    )


def test_what_a_metric_needs_is_named_without_a_command_and_made_by_one_that_exists(
    capsys: pytest.CaptureFixture[str],
) -> None:
    listed = {start for metric in metrics().values() for start in metric.starts}
    listed |= {start for start in vars(starts).values() if isinstance(start, starts.Start)}
    assert [metric.name for metric in metrics().values() if "`" in metric.empty or "--" in metric.empty] == []
    for start in listed:
        words = start.arguments.split()
        named = list(takewhile(lambda word: word.islower() and not word.startswith("--"), words))
        assert main([*named, "--help"]) == 0, start.arguments
        printed = capsys.readouterr().out
        assert [word for word in words if word.startswith("--") and word not in printed] == [], start.arguments
    missing = starts.Missing("Nothing is here.", starts.CASES, starts.URGENCY)
    assert str(missing) == (
        "Nothing is here. Import cases: `python -m core import cases PATH`. Ask how urgent they are: "
        "`python -m core job judge urgency_forced`."
    )
    assert (missing.sentence, missing.starts) == ("Nothing is here.", (starts.CASES, starts.URGENCY))
