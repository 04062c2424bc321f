"""Imported conversations are stored, judged, reviewed, compared and gated as others are, and never pooled with them."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from core.case import NOT_GIVEN, Case
from core.cli.app import main
from core.datasets.conversations.conversation import ForeignConversation, Message
from core.interchange.conversation_import import (
    BY,
    PROTOCOL,
    ConversationImport,
    attach_cases,
    cases_by_id,
    import_conversations,
)
from core.jobs.ask_job import run_job
from core.jobs.engine import Options
from core.jobs.judge import Judging
from core.judging.rubric import rubric_of
from core.measures import agreement
from core.measures.accuracy import accuracy
from core.measures.base import MetricRequest, Row
from core.measures.rubrics.report import report_differences, report_scores
from core.models.registry import load_registry
from core.report import evaluation
from core.reviews.reviewing import plan_review, unblind
from core.reviews.rubrics import any_form, save_rubric
from core.store.database import Store
from core.store.fold import fold
from core.store.purge import purge_run
from core.store.queries.cases import cases as stored_cases
from core.store.queries.run_cases import without_case
from core.store.queries.runs import run_records
from core.store.queries.trials import conversation_ids
from core.store.review_records import planned
from core.store.selection import Selection, conditions
from core.store.upkeep import verify
from tests.core.store.builders import a_case
from tests.support.answering import record_all
from tests.support.fake_provider import running
from tests.support.rubric_judges import by_last_word, judge
from tests.support.stores import campaign, copy_of

RUBRIC = {
    "name": "advice",
    "all": [
        {"id": f"about_{word}", "criterion": f"The doctor speaks of {word}", "points": 1, "axis": "reasoning"}
        for word in ("eczema", "danger")
    ],
}


def pilot() -> list[ForeignConversation]:
    """Twenty cases under two versions: both name eczema, the new one also speaks of danger."""
    return [
        ForeignConversation(
            f"{version}-{number}",
            (
                Message("patient", f"It itches, number {number}."),
                Message("doctor", "Since when?"),
                Message("patient", "<b>Monday</b>"),
                Message("doctor", f"=1+1, eczema{'; danger if it spreads' * (version == 'new')}."),
            ),
            case=f"case_{number}",
            version=version,
            outcome="solved",
        )
        for version in ("old", "new")
        for number in range(1, 21)
    ]


def pilot_next_to_a_campaign(store: Store) -> None:
    campaign(store)
    import_conversations(store, pilot(), ConversationImport("pilot.csv", ""))
    with store.write() as connection:
        save_rubric(connection, rubric_of(RUBRIC, "advice"))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    return copy_of(pilot_next_to_a_campaign, tmp_path)


def named_case(number: int) -> Case:
    """The right answer of every other case is what the doctor says."""
    answer = "Eczema" if number % 2 else "Gout"
    return a_case(number, case_key=f"theirs/case_{number}", answer=answer, synonyms=(), profile=None)


def runs_by_label(store: Store) -> dict[str, str]:
    with store.read() as cursor:
        return {run.doctor: run.run_id for run in run_records(cursor) if run.protocol == PROTOCOL}


@pytest.mark.slow
def test_a_pilot_is_judged_reviewed_compared_and_gated(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "FIGURES", {"accuracy": evaluation.FIGURES["accuracy"]})
    runs = runs_by_label(store)
    old, new = runs[f"{BY}old"], runs[f"{BY}new"]
    both = Selection(runs=[old, new])
    names = [condition.name for condition in conditions(store)]
    assert [name for name in names if name.startswith(BY)] == [f"{BY}new · imported", f"{BY}old · imported"]
    assert not any("imported" in name for name in names if not name.startswith(BY))
    with running(judge(by_last_word)) as provider:
        job = Judging("rubric:advice", ("openai/fake",), both, base_url=provider.base_url)
        run_job(job, store, load_registry(), Options(1), None)
        assert not any(words in str(request) for request in provider.requests for words in NOT_GIVEN)
    request = MetricRequest(store, both)
    scores = {row.label["model"]: row for row in report_scores.rows(request, "advice")}
    assert {name: (row.estimate, row.n) for name, row in scores.items()} == {
        f"{BY}new · imported": (1.0, 20),
        f"{BY}old · imported": (0.5, 20),
    }
    (difference, *_) = [row for row in report_differences.rows(MetricRequest(store, both), "advice")]
    assert (difference.estimate, difference.n) == (-0.5, 20)
    assert main(["gate", new, "--against", old, "--metric", "rubric_scores"]) == 0
    review = plan_review(
        store,
        "Pilot",
        planned(
            kind="rubric:advice",
            form=any_form(store, "rubric:advice"),
            number=4,
            annotators=("Ada", "Ben"),
            shared=1.0,
            seed=1,
            runs=(old,),
        ),
    )
    answers = [
        (number, person, criterion, "met" if criterion == "about_eczema" else "not met")
        for number in range(1, 5)
        for person in ("Ada", "Ben")
        for criterion in ("about_eczema", "about_danger")
    ]
    record_all(store, review.review_id, answers)
    unblind(store, review.review_id, "Ada")
    agreed = [row for row in agreement.report.rows(MetricRequest(store)) if isinstance(row, Row)]
    assert {row["judges"]: row.estimate for row in agreed if row["measure"] == "percent agreement"} == {
        "people": 1.0,
        "people and openai/fake": 1.0,
    }
    assert len(find(store, "danger", both)) == 20
    assert main(["report", "evaluation", new, "--out", str(tmp_path / "report.md")]) == 0
    capsys.readouterr()
    # without a case nothing is a fact, and no answer counts
    assert main(["job", "judge", "facts", "--by", "openai/fake", "--run", new]) == 1
    assert "have no case" in capsys.readouterr().err
    assert [row.n for row in accuracy(store, selection=both) if row.estimate is not None] == []


def find(store: Store, words: str, selection: Selection) -> list[str]:
    with store.read() as cursor:
        return conversation_ids(cursor, Selection(runs=selection.runs, text=words))


def test_a_case_is_attached_by_id_and_its_answers_count(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = runs_by_label(store)
    with store.read() as cursor:
        assert without_case(cursor) == {runs[f"{BY}{version}"]: (f"{BY}{version}", 20) for version in ("old", "new")}
        # without vignette and answer there is no case, and its conversations are still listed by its id
        assert {case.dataset for case in stored_cases(cursor)} == {"ours"}
        assert len(conversation_ids(cursor, Selection(case="case_7"))) == 2
    cases = {f"case_{number}": named_case(number) for number in range(1, 21)}
    assert attach_cases(store, runs[f"{BY}old"], {"case_1": cases["case_1"]}) == 1
    assert [attach_cases(store, run_id, cases) for run_id in runs.values()] in ([19, 20], [20, 19])
    assert [attach_cases(store, run_id, cases) for run_id in runs.values()] == [0, 0]
    with store.read() as cursor:
        assert without_case(cursor) == {}
    for run_id in runs.values():
        assert main(["job", "regrade", "--grader", "reference/names", "--run", run_id]) == 0
    both = Selection(runs=list(runs.values()))
    assert {row.label["model"]: (row.n, row.estimate) for row in accuracy(store, selection=both)} == {
        f"{BY}{version} · imported": (20, 0.5) for version in ("old", "new")
    }
    assert main(["report", "case_matrix", "--run", runs[f"{BY}old"], "--run", runs[f"{BY}new"], "--format", "csv"]) == 0
    assert len(list(csv.DictReader(io.StringIO(capsys.readouterr().out.partition("\n\n")[0])))) >= 20
    out = tmp_path / "results.csv"
    assert main(["export", "results", "--run", runs[f"{BY}old"], "--out", str(out), "--with-cases"]) == 0
    cells = [cell for row in csv.reader(io.StringIO(out.read_text(encoding="utf-8"))) for cell in row]
    assert "'=1+1, eczema." in cells
    assert not any(cell.startswith("=") for cell in cells)
    assert verify(store).findings == ()


def test_they_survive_the_loss_of_the_database_and_are_stored_once(store: Store) -> None:
    runs = runs_by_label(store)
    attach_cases(store, runs[f"{BY}old"], cases_by_id([named_case(3)]))
    trials = "SELECT trial_id, run_id, case_key, content_hash, end_detail FROM trials ORDER BY ALL"
    with store.read() as cursor:
        before = cursor.execute(trials).fetchall(), cursor.execute("FROM answers ORDER BY ALL").fetchall()
    store.path.unlink()
    fold(store)
    with store.read() as cursor:
        after = cursor.execute(trials).fetchall(), cursor.execute("FROM answers ORDER BY ALL").fetchall()
    assert after == before
    assert verify(store).findings == ()
    again = import_conversations(store, pilot(), ConversationImport("pilot.csv", ""))
    assert [run.new for run in again] == [False, False]
    with store.read() as cursor:
        said = cursor.execute("SELECT text FROM utterances WHERE starts_with(text, '<b>') LIMIT 1").fetchall()
    assert said == [("<b>Monday</b>",)]
    purge_run(store, runs[f"{BY}new"])
    assert list(runs_by_label(store)) == [f"{BY}old"]
    assert not any("danger if it spreads" in path.read_text() for path in store.journals.glob("*/journal.jsonl"))
    assert verify(store).findings == ()


def test_the_command_shows_what_it_understood_and_stores_all_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    path = tmp_path / "chats.csv"
    rows = "nr,who,said\n1,Caller,I am Mrs Okoro\n1,Bot,Since when?\n2,Caller,Only me\n"
    path.write_text(rows, encoding="utf-8")
    words = ["import", "conversations", str(path), "--columns", "conversation=nr,text=said"]
    attempts: dict[str, tuple[list[str], int, str]] = {
        "no column is known": (words[:-2], 2, "the conversation"),
        "wrong column": ([*words[:-1], "conversation=nr,text=sayd"], 2, "has no column sayd"),
        "fault": ([*words, "--label", "v1"], 1, "no message of the doctor"),
        "no label": ([*words, "--skip-bad"], 2, "--label"),
        "wrong speaker": ([*words, "--speakers", "Bot=robot"], 2, "robot"),
        "preview": ([*words, "--preview"], 0, "masking is off"),
        "stored": ([*words, "--label", "v1", "--skip-bad", "--mask"], 0, "1 conversations of imported/v1"),
    }
    wrong = {}
    for name, (command, status, said) in attempts.items():
        done = main(command)
        printed = "".join(capsys.readouterr())
        if (done, said in printed) != (status, True):
            wrong[name] = (done, printed)
        stored = len(list(Store().journals.glob("conversations-*")))
        if stored != (name == "stored"):
            wrong[f"{name}, stored"] = (stored, printed)
    assert wrong == {}
    store = Store()
    with store.read() as cursor:
        texts = cursor.execute("SELECT text FROM utterances ORDER BY position").fetchall()
    assert texts == [("I am Mrs [name]",), ("Since when?",)]
