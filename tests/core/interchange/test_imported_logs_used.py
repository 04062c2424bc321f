"""What can be done with imported conversations: grading, judging, branches, gate, report, exports and bundle."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from core.cli.app import main
from core.datasets.archive import ArchiveLimits
from core.debugger.stored import load_record
from core.errors import UsageError
from core.interchange.inspect_import import import_log
from core.interchange.inspect_log import write_log
from core.jobs.ask_job import run_job
from core.jobs.engine import Options
from core.jobs.judge import Judging
from core.judging.rubric import rubric_of
from core.live.branch import check_origin, stored_origin
from core.measures.accuracy import accuracy
from core.models.registry import load_registry
from core.report import evaluation
from core.report.bundle import make_bundle
from core.report.bundle_check import verify_bundle
from core.report.evaluation import evaluated, read_facts
from core.report.guidelines import guideline
from core.report.parts import FIGURES, PARTS
from core.reviews.rubrics import save_rubric
from core.store.database import Store
from core.store.queries.trials import conversation_ids
from core.store.selection import Selection
from tests.core.interchange.logged_study import RUN, logged_study
from tests.support.fake_provider import running
from tests.support.rubric_judges import by_last_word, judge
from tests.support.stores import copy_of

ARCHIVE = Path(__file__).parent / "files" / "mock_consultation.eval"
"""A log of another program: two cases in two epochs."""
RUBRIC = {
    "name": "demo",
    "all": [
        {"id": f"about_{word}", "criterion": f"The doctor speaks of {word}", "points": 1, "axis": "reasoning"}
        for word in ("eczema", "fever", "gout")
    ],
}


def both_logs(store: Store) -> None:
    """Import the run of ``logged_study`` from its log ``log.json``, and a log of another program; save a rubric."""
    log = store.path.parent / "log.json"
    with tempfile.TemporaryDirectory() as folder:
        write_log(copy_of(logged_study, Path(folder)), RUN, log)
    import_log(store, log, ArchiveLimits())
    import_log(store, ARCHIVE, ArchiveLimits())
    with store.write() as connection:
        save_rubric(connection, rubric_of(RUBRIC, "demo"))


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    store = copy_of(both_logs, tmp_path)
    monkeypatch.setenv("ANAMNESIS_DB", str(store.path))
    return store


def runs_of(store: Store) -> tuple[str, str]:
    """Return the ids of the own run and of the run of another program."""
    with store.read() as cursor:
        ids = [str(row[0]) for row in cursor.execute("SELECT run_id FROM runs").fetchall()]
    (other,) = set(ids) - {RUN}
    return RUN, other


def a_trial_of(store: Store, run_id: str) -> str:
    with store.read() as cursor:
        return conversation_ids(cursor, Selection(runs=[run_id]))[0]


@pytest.mark.slow
def test_another_grader_judges_answers_of_both_logs(imported: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """An answer of the other log counts once a grader has read it: two cases, none excluded."""
    _, other = runs_of(imported)
    before = {row.label["model"]: row for row in accuracy(imported, selection=Selection(runs=[other]))}
    assert [row.estimate for row in before.values()] == [None]
    assert main(["job", "regrade", "--grader", "reference/names", "--run", other]) == 0
    assert "Graded 4 answers" in capsys.readouterr().out
    (row,) = accuracy(imported, selection=Selection(runs=[other]))
    assert row.n == 2
    assert not row.excluded
    assert main(["job", "regrade", "--grader", "reference/names", "--run", RUN]) == 0
    assert "Graded" in capsys.readouterr().out


@pytest.mark.slow
def test_a_judge_reads_the_messages_of_both_logs_and_no_other_words(imported: Store) -> None:
    own, other = runs_of(imported)
    with running(judge(by_last_word)) as provider:
        job = Judging("rubric:demo", ("openai/fake",), Selection(runs=[own, other]), base_url=provider.base_url)
        run_job(job, imported, load_registry(), Options(1), None)
    rows = {}
    with imported.read() as cursor:
        for run in (own, other):
            trials = conversation_ids(cursor, Selection(runs=[run]))
            sql = "SELECT question, value FROM judgements WHERE trial_id = ?"
            rows[run] = {trial: cursor.execute(sql, [trial]).fetchall() for trial in trials}
    met = {
        trial: {criterion for criterion, verdict in judged if verdict == "met"} for trial, judged in rows[own].items()
    }
    # the diagnosis of every conversation but the one that broke off, which has no messages
    assert met == {trial: {"about_eczema"} for trial in ("t10", "t11", "t20", "t21", "t30")} | {"t31": set()}
    assert [len(judged) for judged in rows[other].values()] == [3] * 4


@pytest.mark.slow
def test_the_rule_judge_says_that_a_rubric_has_no_criteria_for_the_cases(
    imported: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    _, other = runs_of(imported)
    assert main(["job", "judge", "rubric:library", "--by", "reference/words", "--run", other]) == 1
    assert "nothing to judge by the form rubric:library" in capsys.readouterr().err


@pytest.mark.slow
def test_a_conversation_of_another_program_is_neither_continued_nor_taken_apart(
    imported: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    own, other = runs_of(imported)
    trial = a_trial_of(imported, other)
    assert main(["branch", trial, "--turn", "1"]) == 2
    printed = capsys.readouterr()
    assert "Another program" in printed.err
    assert "no protocol" not in printed.err
    with pytest.raises(UsageError, match="Another program"):
        load_record(trial)
    check_origin(stored_origin(a_trial_of(imported, own)))
    assert load_record(a_trial_of(imported, own)) is not None


@pytest.mark.slow
def test_a_gate_takes_the_name_of_the_log_for_no_difference(
    imported: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, other = runs_of(imported)
    log = tmp_path / "second.json"
    text = (tmp_path / "log.json").read_text().replace(RUN, "20260102-second")
    for trial in ("t10", "t11", "t20", "t21", "t30", "t31"):
        text = text.replace(f'"{trial}"', f'"s{trial}"').replace(f"{trial}/c", f"s{trial}/c")
    log.write_text(text)
    import_log(imported, log, ArchiveLimits())
    assert main(["gate", "20260102-second", "--against", RUN, "--arm", "vignette:mcq"]) == 2
    printed = capsys.readouterr().out
    assert "imported logs" in printed
    assert "second.json" not in printed
    assert main(["gate", other, "--against", RUN]) == 2
    assert "they share none" in capsys.readouterr().err


@pytest.mark.slow
def test_a_report_claims_nothing_about_requests_of_another_program(
    imported: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = {name: FIGURES[name] for name in ("settings", "dates")}  # the figures of these items
    monkeypatch.setattr(evaluation, "FIGURES", behind)
    own, other = runs_of(imported)
    chart = guideline("chart", PARTS)

    def states(*run_ids: str) -> dict[str, str]:
        written = evaluated(chart, read_facts(imported, run_ids))
        return {item.item.item: item.state for item in written.items}

    assert [states(other)[number] for number in ("6a", "6c", "6d", "12e")] == ["to be written"] * 4
    # this program played the other run: each trial was a session of its own
    assert [states(own)[number] for number in ("6a", "6c", "6d")] == ["filled", "filled", "to be written"]
    assert states(own, other)["6c"] == "to be written"


@pytest.mark.slow
def test_exports_have_the_answers_of_both_logs(
    imported: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, other = runs_of(imported)
    for run_id, answers in ((own, 5 * 2), (other, 4)):  # one of the six own trials broke off
        table = tmp_path / f"{run_id}.parquet"
        assert main(["export", "results", "--run", run_id, "--out", str(table)]) == 0
        stored = pq.read_table(table, columns=["trial_id", "format", "question_type"]).to_pylist()
        assert len({tuple(row.values()) for row in stored}) == answers
    words = ["--out", str(tmp_path / "eee"), "--organization", "Us", "--relationship", "third_party"]
    assert main(["export", "eee", other, *words]) == 1
    assert "No answer of these runs counts" in capsys.readouterr().err
    assert main(["job", "regrade", "--grader", "reference/names", "--run", other]) == 0
    assert main(["export", "eee", other, *words]) == 0
    assert "4 answers; 0 are excluded" in capsys.readouterr().out


@pytest.mark.slow
def test_a_bundle_has_the_figures_of_either_log(imported: Store, tmp_path: Path) -> None:
    for run_id in runs_of(imported):
        made = make_bundle(imported, [run_id], tmp_path / f"{run_id}.zip")
        verified = verify_bundle(tmp_path / f"{run_id}.zip")
        assert verified.sound
        assert "accuracy" in verified.figures
        assert not any("every request as it was sent" in sentence for sentence in made.manifest.left_out)
