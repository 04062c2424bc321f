"""The sample study: it is never pooled with own runs, can be removed completely, and contains what the docs say."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from core.cli.app import main
from core.errors import AnamnesisError
from core.measures.accuracy import accuracy
from core.paths import ROOT
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.reviews import candidates, reviews
from core.store.queries.runs import runs
from core.store.review_records import ReviewPlan
from core.store.sample import PACKED, SAMPLE, add_sample, remove_sample, sample_runs
from core.store.selection import Selection, conditions
from core.store.tables import TABLES
from tests.core.store.builders import a_case, a_header, a_trial, graded, grades, write_journal
from tests.support.stores import copy_of

CASES = ("cardiology-1", "dermatology-2")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "a.duckdb"))
    return Store()


@pytest.fixture
def sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    store = copy_of(add_sample, tmp_path)
    monkeypatch.setenv("ANAMNESIS_DB", str(store.path))
    return store


def rows(store: Store) -> dict[str, int]:
    """Return the number of rows by table, without the library's cases and the history items made of them."""
    with store.read() as cursor:
        counts = {t: cursor.execute(f"SELECT count(*) FROM {t}").fetchall()[0][0] for t in TABLES if t != "migrations"}
    return {t: n for t, n in counts.items() if n and t not in ("cases", "case_lists")}


def test_it_has_models_before_and_after_training_and_is_small(sampled: Store) -> None:
    assert PACKED.stat().st_size < 3_000_000
    with sampled.read() as cursor:
        stored = runs(cursor)
        assert reviews(cursor), "an expert's review"
    doctors = {run.doctor for run in stored}
    assert {"reference/bayes", "hf/smollm2-135m", "hf/smollm2-135m-history"} <= doctors
    assert {run.protocol for run in stored} == {"craftmd", "consultation", "automedic"}
    assert {run.study for run in stored} == {SAMPLE}
    assert all(run.state == "complete" for run in stored)
    assert {run.source for run in stored} >= {"local", "fork"}


def sample_runs_of(store: Store) -> list[str]:
    with store.read() as cursor:
        return sample_runs(cursor)


@pytest.mark.slow
def test_it_is_separate_from_own_runs_of_the_same_model_and_can_be_removed(store: Store) -> None:
    header = a_header(cases=[a_case()], doctor="reference/bayes")
    write_journal(store.journals, "run", header, a_trial(), grades("run/1/0", graded("correct")))
    fold(store)
    bayes = Selection(models=["reference/bayes"])
    own, before = accuracy(store, selection=bayes), rows(store)
    assert own
    assert add_sample(store) == len(sample_runs_of(store))
    assert add_sample(store) == len(sample_runs_of(store)), "a second import adds nothing"
    names = {condition.name for condition in conditions(store) if condition.doctor == "reference/bayes"}
    assert {name for name in names if " · sample" not in name} == {"reference/bayes"}
    assert len(names) == 4, "in addition one of the sample for each framework"
    figures = accuracy(store, selection=bayes)
    assert [row for row in figures if " · sample" not in row["model"]] == own
    with store.read() as cursor:
        drawn = candidates(cursor, ReviewPlan(kind="conversations", number=1, annotators=("a",), shared=0))
    assert {conversation.model for conversation in drawn} <= {"reference/bayes"}
    assert not any(conversation.case_key.startswith("library/") for conversation in drawn), (
        "a review draws own conversations only"
    )
    pooled = accuracy(store, selection=replace(bayes, pooled=True))
    assert {row["model"] for row in pooled} == {
        "reference/bayes · ours",
        "reference/bayes · sample · library · 3 conditions combined",
    }
    assert remove_sample(store) > 0
    assert rows(store) == before
    assert [path.name for path in store.journals.iterdir() if path.is_dir()] == ["run"]
    assert remove_sample(store) == 0


@pytest.mark.parametrize(
    ("framework", "message"),
    [
        ("craftmd", (2, "patient", "Well, doctor. I've had a sharp chest pain for two days.")),
        ("consultation", (11, "doctor", "Is it worse when you lie down and better when you lean forward?")),
    ],
)
def test_conversations_of_an_earlier_reference_cast_are_unchanged(
    sampled: Store, framework: str, message: tuple[int, str, str]
) -> None:
    lines = contents(sampled, framework)
    assert ("library/cardiology-1", "final_diagnosis", *message) in lines
    assert len(lines) == {"craftmd": 156, "consultation": 28}[framework]


def contents(store: Store, framework: str) -> list[tuple[object, ...]]:
    """Return all messages, answers and verdicts of the first trials of the reference doctor on ``CASES``."""
    study = "json_extract_string(settings, '$.study')"
    lines: list[tuple[object, ...]] = []
    with store.read() as cursor:
        for table, columns in (
            ("utterances", "position, role, text"),
            ("answers", "format, question_type, response, answers.status"),
            ("grades", "format, question_type, rule, verdict"),
        ):
            sql = f"""
                SELECT case_key, end_reason, {columns}
                FROM {table} JOIN trials USING (trial_id) JOIN runs USING (run_id)
                WHERE source = 'local' AND doctor = 'reference/bayes' AND protocol = $framework AND trial = 0
                    AND list_contains($cases, split_part(case_key, '/', 2)) AND {study} IS NOT NULL
                ORDER BY ALL"""
            table_rows = cursor.execute(sql, {"framework": framework, "cases": CASES}).fetchall()
            lines += table_rows
    return lines


ROW = re.compile(r"\| (.+?) \| ([\d.]+) \| ([\d.]+) \| ([+−]?[\d.]+) \[([+−]?[\d.]+), ([+−]?[\d.]+)\]")
MEASURES = {
    "doctor's recall (ROUGE-1 of the case's keys in its questions)": "doctor_recall",
    "patient's recall (of the case's facts that came out)": "patient_recall",
    "questions": "queries",
    "words a question": "doctor_words",
    "repetition (ROUGE-1 of a question with those before)": "repetition_1",
    "right answers of the solver, four choices": "accuracy",
}


@pytest.mark.slow
def test_the_figures_of_the_training_in_the_docs_are_those_of_the_sample(sampled: Store, tmp_path: Path) -> None:
    models, out = ["hf/smollm2-135m", "hf/smollm2-135m-history"], tmp_path / "change.json"
    with sampled.read() as cursor:
        run_ids = [run.run_id for run in runs(cursor) if run.doctor in models and run.protocol == "consultation"]
    run_options = [word for run_id in run_ids if not run_id.startswith("fork") for word in ("--run", run_id)]
    command = ["report", "history", "--part", "change", "--models", ",".join(models), "--format", "json"]
    assert main([*command, *run_options, "--out", str(out)]) == 0
    rows = {row["measure"]: row for row in json.loads(out.read_text())}
    documented = ROW.findall((ROOT / "docs" / "models.md").read_text())
    assert [words for words, *_ in documented] == list(MEASURES)
    for words, *numbers in documented:
        row = rows[MEASURES[words]]
        before, after, *change = (float(number.replace("−", "-")) for number in numbers)
        assert (before, after) == pytest.approx((row["before"], row["after"]), abs=0.051)
        assert change == pytest.approx([row["change"], row["ci_low"], row["ci_high"]], abs=0.006)


def test_a_damaged_file_is_reported_and_leaves_nothing(store: Store, tmp_path: Path) -> None:
    damaged = tmp_path / "study.tar.xz"
    damaged.write_bytes(PACKED.read_bytes()[:10_000])
    with pytest.raises(AnamnesisError, match=r"study\.tar\.xz could not be unpacked"):
        add_sample(store, damaged)
    assert not store.journals.exists() or list(store.journals.iterdir()) == []
