"""The command line from end to end: importing cases, a campaign, its figures and its exports."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet
import pytest

from core.cli.app import main
from core.measures.accuracy import accuracy
from core.store.database import Store
from tests.core.jobs.workshop import core, run_ids, spawn
from tests.support.campaigns import BESIDE_RULES
from tests.support.fake_provider import FakeProvider, running
from tests.support.replies import Reply, failing

HEADER = "case_vignette,choice_1,choice_2,choice_3,choice_4,answer,category,dataset,case_id"
TOE = "A {} man has had a swollen big toe since last night. What is the most likely diagnosis?"


def row(number: int, answer: str, category: str, dataset: str) -> str:
    vignette = TOE.format(f"{40 + number}-year-old")
    return f"{vignette},Gout,Cellulitis,Bunion,Fracture,{answer},{category},{dataset},{number}"


CASES = "\n".join([
    HEADER,
    row(0, "Gout", "Rheumatology", "MedQA-USMLE"),
    row(1, "Gout", "Rheumatology", "MedQA-USMLE"),
    row(2, "Gout", "Cardiovascular System", "Derm-Public"),
    row(3, "Cellulitis", "Cardiovascular System", "Derm-Public"),
    row(4, "Gout", "Cardiovascular System", "Derm-Public"),
])  # fmt: skip


def says_gout(body: dict[str, Any]) -> Reply | str:
    """A doctor that always answers gout; its provider fails on the fifth case."""
    return failing(400, "too old") if "A 44-year-old" in str(body) else "**Final Diagnosis:** Gout"


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProvider]:
    with running(says_gout) as provider:
        yield provider


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory, provider: FakeProvider) -> dict[str, str]:
    """The output of an import and a run of five cases, two trials and two arms."""
    folder = tmp_path_factory.mktemp("campaign")
    db, file = folder / "anamnesis.duckdb", folder / "Toes 1.csv"
    file.write_text(CASES)
    imported = core(db, "import", "cases", str(file))
    assert (imported.returncode, imported.stderr) == (0, "")
    ran = core(
        db,
        "run",
        "--doctor",
        "openai/doctor",
        "--cases",
        "toes-1",
        "--trials",
        "2",
        "--base-url",
        provider.base_url,
        *BESIDE_RULES,
        "--arms",
        "vignette:mcq,vignette:frq",
        "--concurrency",
        "4",
    )
    assert ran.returncode == 0, ran.stderr
    (run_id,) = run_ids(db)
    return {"db": str(db), "import": imported.stdout, "run": ran.stdout, "progress": ran.stderr, "id": run_id}


@pytest.fixture
def campaign_db(outputs: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANAMNESIS_DB", outputs["db"])
    return Path(outputs["db"])


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    """Return the output of a command, or its errors if ``status`` is not 0."""
    returned = main(list(arguments))
    printed = capsys.readouterr()
    assert returned == status, printed.err
    assert "Traceback" not in printed.err
    return printed.out if status == 0 else printed.err


def test_an_import_reports_its_cases_by_specialty(outputs: dict[str, str]) -> None:
    lines = outputs["import"].splitlines()
    assert lines[0] == "Imported 5 cases as data set 'toes-1'."
    assert lines[1] == "Format: CRAFT-MD; licence: not known."
    assert [line.split() for line in lines[2:4]] == [["Cardiology", "3"], ["Rheumatology", "2"]]
    assert lines[-1] == "Run them with: python -m core run --doctor reference/bayes --cases toes-1 --limit 20"


def test_a_run_reports_its_verdicts_and_exclusions(outputs: dict[str, str]) -> None:
    """Four cases are answered twice in two arms; on the fifth the provider fails four times."""
    lines = outputs["run"].splitlines()
    assert lines[0] == f"Run {outputs['id']} is complete: 10 trials, {16 * 18} tokens."
    # 6 right and 2 wrong by the rule of choices that counts, and as many free responses
    assert lines[1] == "Verdicts: 12 correct, 4 incorrect, 4 provider_error."
    assert lines[2] == f"See: python -m core report accuracy --run {outputs['id']}"
    *progress, warning = outputs["progress"].splitlines()
    assert progress[-1] == f"{outputs['id']}: 10 of 10 trials; 20 calls"
    assert "4 of 20 answers" in warning
    assert "The model openai/doctor " in warning
    assert "HTTP 400 (too old)" in warning


def test_a_run_without_any_verdict_fails(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The grader's provider fails on every answer: status 1 and the provider's message."""
    with running(lambda body: failing(400, "no") if body["model"] == "grader" else "Gout") as provider:
        status = main(
            [
                "run",
                "--doctor",
                "openai/doctor",
                "--grader",
                "openai/grader",
                "--base-url",
                provider.base_url,
                "--limit",
                "2",
                "--trials",
                "1",
                "--arms",
                "vignette:frq",
            ]
        )
    printed = capsys.readouterr()
    assert status == 1
    assert "2 of 2 answers" in printed.err
    assert "The model openai/grader " in printed.err
    assert "Verdicts: 2 provider_error." in printed.out


@pytest.mark.parametrize(
    ("reply", "verdict", "excluded"),
    [("", "empty", False), (Reply("Go", finish_reason="length"), "cut", True)],
    ids=["blank", "cut"],
)
def test_the_last_lines_of_a_run_count_what_its_accuracy_counts(
    db: Path, capsys: pytest.CaptureFixture[str], reply: Reply | str, verdict: str, excluded: bool
) -> None:
    """Two cases, two trials each; a blank answer is wrong, one that was cut at its limit is excluded."""
    with running(lambda body: reply) as provider:
        arguments = ["--base-url", provider.base_url, "--limit", "2", "--trials", "2", "--arms", "vignette:mcq"]
        status = main(["run", "--doctor", "openai/doctor", *BESIDE_RULES, *arguments])
    printed = capsys.readouterr()
    assert f"Verdicts: 4 {verdict}." in printed.out
    assert (status, "4 of 4 answers" in printed.err) == (int(excluded), excluded)
    (row,) = accuracy(Store())
    assert (row["n_trials"], row["n_excluded"]) == ((0, 4) if excluded else (4, 0))


def test_accuracy_as_csv_by_hand(outputs: dict[str, str], campaign_db: Path) -> None:
    done = core(
        campaign_db, "report", "accuracy", "--run", outputs["id"], "--models", "openai/doctor", "--format", "csv"
    )
    assert done.returncode == 0
    assert "Note: " not in done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(r["model"], r["format"], r["question_type"]) for r in rows] == [
        ("openai/doctor", "vignette", "mcq"),
        ("openai/doctor", "vignette", "frq"),
    ]
    for r in rows:  # three of four cases, each twice; the fifth has no counted trial
        assert (r["mean"], r["n_cases"], r["n_trials"]) == ("0.750000", "4", "8")
        assert (r["n_excluded"], r["excluded_by_reason"]) == ("2", "provider_error=2")
        assert 0 <= float(r["ci_low"]) < 0.75 < float(r["ci_high"]) <= 1


def test_a_run_or_model_that_is_not_stored_is_named(campaign_db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there are those of openai/doctor" in run_command(
        capsys, "report", "accuracy", "--models", "reference/bayes", status=2
    )
    assert "There is no run '1999'" in run_command(capsys, "report", "accuracy", "--run", "1999", status=2)


def test_runs_are_listed(outputs: dict[str, str], campaign_db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(capsys, "runs").split() == [
        outputs["id"],
        "complete",
        "10/10",
        "trials",
        "openai/doctor",
        "$0.00",
    ]
    (listed,) = json.loads(run_command(capsys, "runs", "--format", "json"))
    assert listed["run_id"] == outputs["id"]
    assert (listed["state"], listed["trials_done"], listed["trials_planned"]) == ("complete", 10, 10)
    assert (listed["calls"], listed["cost_usd"]) == (20, 0.0)  # two answers a trial, from a local server


def test_resuming_a_complete_run_sends_no_request(
    outputs: dict[str, str], campaign_db: Path, provider: FakeProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    before = len(provider.requests)
    printed = run_command(capsys, "resume", outputs["id"][:13])
    assert printed.splitlines()[0] == f"Run {outputs['id']} is complete: 10 trials."
    assert len(provider.requests) == before


def test_results_are_exported(campaign_db: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results.csv"
    printed = run_command(capsys, "export", "results", "--with-cases", "--out", str(out))
    assert printed == f"Wrote 30 rows to {out}.\n"  # ten answers × two rules, ten × one
    rows = list(csv.DictReader(out.open()))
    assert len(rows) == 30
    right = [r for r in rows if r["verdict"] == "correct"]
    assert {(r["rule"], r["case_key"]) for r in right} == {
        (rule, f"toes-1/{n}") for rule in ("mcq_loose", "mcq_strict", "frq") for n in range(3)
    }
    assert {r["response"] for r in rows if r["case_key"] != "toes-1/4"} == {"**Final Diagnosis:** Gout"}
    assert f"Wrote 30 rows to {tmp_path / 'r.parquet'}." in run_command(
        capsys, "export", "results", "--out", str(tmp_path / "r.parquet")
    )
    assert pyarrow.parquet.read_table(tmp_path / "r.parquet").num_rows == 30
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


def test_transcripts_are_exported(
    outputs: dict[str, str], campaign_db: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "conversations.jsonl"
    printed = run_command(capsys, "export", "transcripts", outputs["id"], "--with-cases", "--out", str(out), "--calls")
    assert printed == f"Wrote 10 transcripts to {out}.\n"
    trials = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(t["case_key"], t["trial"]) for t in trials] == [(f"toes-1/{n}", t) for n in range(5) for t in range(2)]
    calls = [e["call"] for e in trials[0]["events"] if e["kind"] == "called"]
    assert [c["response"] for c in calls] == ["**Final Diagnosis:** Gout"] * 2
    assert "A 40-year-old man" in calls[0]["request"]["messages"][-1]["content"]


def test_the_database_is_exported(campaign_db: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "copy.duckdb"
    run_command(capsys, "export", "duckdb", "--out", str(out))
    with duckdb.connect(str(out), read_only=True) as copy:
        assert copy.execute("SELECT count(*) FROM trials").fetchall() == [(10,)]


@pytest.mark.slow
def test_a_stored_run_is_graded_again(outputs: dict[str, str], tmp_path: Path, provider: FakeProvider) -> None:
    """On a copy of the journal: a grader that says no to everything."""
    source, db = Path(outputs["db"]), tmp_path / "again.duckdb"
    journal = db.parent / "again.journals" / outputs["id"] / "journal.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_bytes((source.parent / f"{source.stem}.journals" / outputs["id"] / "journal.jsonl").read_bytes())
    with running(lambda body: "Gout" if "what a doctor wrote" in str(body) else "No") as grader:
        done = core(
            db, "job", "regrade", "--run", outputs["id"], "--grader", "openai/grader", "--base-url", grader.base_url
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "Graded 8 answers by openai/grader: 6 verdicts changed."
    rows = list(csv.DictReader(io.StringIO(core(db, "report", "accuracy", "--format", "csv").stdout)))
    assert [(r["question_type"], r["mean"]) for r in rows] == [("mcq", "0.750000"), ("frq", "0.000000")]


DRY = ["run", "--doctor", "openai/gpt-4o", *BESIDE_RULES, "--cases", "toes", "--trials", "2", "--dry-run",
       "--arms", "vignette:mcq,multi_turn:frq"]  # fmt: skip


def test_a_dry_run_starts_nothing_and_counts_by_hand(db: Path, tmp_path: Path) -> None:
    file = tmp_path / "toes.csv"
    file.write_text(CASES)
    assert main(["import", "cases", str(file)]) == 0
    done = core(db, *DRY)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "5 cases, 10 trials, 10 conversations, 20 answers."
    # 10 × 7 questions and 20 answers; a conversation of seven questions sends 7 system prompts of 230 tokens and
    # 7 · 6 / 2 · 2 earlier messages of 22; an answer is asked on the conversation, 14 · 22 tokens, and a question of 90
    prompt = 10 * (7 * 230 + 42 * 22) + 20 * (14 * 22 + 90)
    completion = 70 * 22 + 20 * 14
    dollars = (prompt * 2.5 + completion * 10) / 1e6
    assert (prompt, completion) == (33_300, 1_820)
    assert lines[1] == f"About 90 calls, 35,120 tokens, ${dollars:.4f}, 14 s."  # one wave, 9 calls a trial, 1.5 s each
    assert lines[2].split() == [
        "doctor",
        "openai/gpt-4o",
        "90",
        "calls",
        "33,300",
        "+",
        "1,820",
        "tokens",
        f"${dollars:.4f}",
    ]
    assert [line.split()[0] for line in lines[2:6]] == ["doctor", "patient", "grader", "summariser"]
    assert lines[6] == f"Prices: genai-prices {version('genai-prices')}."
    assert lines[7].startswith("With 5 cases × 2 trials, ")
    assert lines[8:] == ["Note that rules play the patient and the grader."]
    assert all("0 calls" in line for line in lines[3:6])
    assert run_ids(db) == []
    assert not db.exists()


def test_a_dry_run_names_an_unknown_price(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = run_command(capsys, "run", "--doctor", "openai/no-price", "--limit", "2", "--dry-run")
    assert "cost unknown" in output
    assert "price unknown" in output
    assert "Prices: not known." in output


@pytest.mark.slow
def test_the_same_command_resumes_an_unfinished_campaign(
    db: Path, tmp_path: Path, provider: FakeProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another concurrency does not make another campaign."""
    file = tmp_path / "toes.csv"
    file.write_text(CASES)
    run_command(capsys, "import", "cases", str(file))
    run = [
        "run",
        "--doctor",
        "openai/doctor",
        "--cases",
        "toes",
        "--trials",
        "2",
        "--arms",
        "vignette:mcq",
        "--base-url",
        provider.base_url,
    ]
    assert main([*run, "--concurrency", "1"]) == 0
    (run_id,) = run_ids(db)
    journal = db.parent / "anamnesis.journals" / run_id / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:9]))  # four of ten trials
    db.unlink()
    before = len(provider.requests)
    capsys.readouterr()
    assert main([*run, "--concurrency", "7"]) == 0
    printed = capsys.readouterr()
    assert printed.err.splitlines()[0] == f"Resuming the unfinished run {run_id} of the same campaign."
    assert f"Run {run_id} is complete: 10 trials" in printed.out
    assert len(provider.requests) - before == 6
    assert run_ids(db) == [run_id]


@pytest.mark.slow
def test_readers_and_a_running_campaign_do_not_disturb_each_other(db: Path) -> None:
    """Reports and a thread that reads like a dashboard, while a campaign runs in another process."""
    campaign = spawn(
        db,
        "run",
        "--doctor",
        "reference/bayes",
        "--limit",
        "12",
        "--trials",
        "2",
        "--arms",
        "multi_turn:frq",
        "--concurrency",
        "4",
    )
    over = threading.Event()
    errors: list[BaseException] = []
    looks: list[int] = []

    def look() -> None:
        while not over.is_set():
            try:
                looks.append(len(accuracy(Store())))
            except BaseException as error:
                errors.append(error)
            over.wait(0.2)

    watching = threading.Thread(target=look)
    watching.start()
    reports = []
    try:
        while campaign.poll() is None:
            reports.append(core(db, "report", "accuracy", "--format", "csv"))
            over.wait(0.5)
    finally:
        over.set()
        watching.join()
    out, err = campaign.communicate()
    assert campaign.returncode == 0, err
    assert "is complete: 24 trials" in out
    assert errors == []
    assert len(looks) > 5
    assert reports
    for report in reports:
        assert report.returncode in (0, 1)
        assert report.returncode == 0 or report.stderr.startswith("There is nothing to report yet")
    for text in (err, *(r.stderr for r in reports)):
        assert "lock" not in text.lower()
        assert "Traceback" not in text
    final = core(db, "report", "accuracy", "--format", "csv")
    assert next(csv.DictReader(io.StringIO(final.stdout)))["n_trials"] == "24"
