"""Runs as Inspect logs: scores, excluded verdicts, figures, experts; and the same log read back."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from core.cli.app import main
from core.datasets.archive import ArchiveLimits
from core.errors import AnamnesisError
from core.events import IMPORTED_SCORE, Assessed, Ended, Finished, Probed
from core.interchange.expert_scores import expert_scores
from core.interchange.inspect_import import import_log
from core.interchange.inspect_log import write_log
from core.measures.accuracy import accuracy
from core.measures.accuracy import report as accuracy_report
from core.measures.base import MetricRequest
from core.measures.notes import result_of
from core.reviews.answering import record
from core.reviews.reviewing import plan_review, unblind
from core.reviews.state import state_of
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.answers import results
from core.store.queries.runs import run_record
from core.store.queries.trials import trial_events
from core.store.review_records import planned
from core.store.selection import Selection
from core.store.upkeep import verify
from tests.core.interchange.logged_study import GRADERS_WORDS, RUN, THOUGHT, logged_study, spoken, thoughts
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, write_journal
from tests.support.stores import copy_of

TRIALS = ("t10", "t11", "t20", "t21", "t30", "t31")
LIBRARY = "ANAMNESIS_INSPECT_PYTHON"


@pytest.fixture
def study(tmp_path: Path) -> Store:
    return copy_of(logged_study, tmp_path / "from")


@pytest.fixture
def empty(tmp_path: Path) -> Store:
    return Store(tmp_path / "to" / "anamnesis.duckdb")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    write_log(copy_of(logged_study, folder), RUN, folder / "log.json")
    return folder / "log.json"


@pytest.fixture
def log(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(written, tmp_path))


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def by_trial(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {sample["uuid"]: sample for sample in content["samples"]}


def verdicts(store: Store) -> list[tuple[Any, ...]]:
    """Return every verdict that counts with all that tells verdicts apart, without what names the condition."""
    with store.read() as cursor:
        table = results(cursor, Selection(runs=[RUN])).drop_columns(["condition", "source"])
    return sorted(tuple(row.values()) for row in table.to_pylist())


def figures(store: Store) -> list[tuple[Any, ...]]:
    rows = accuracy(store, selection=Selection(runs=[RUN]))
    return [(r.label["format"], r.label["question_type"], r.estimate, r.low, r.high, r.n, r.excluded) for r in rows]


def test_a_verdict_is_a_letter_and_an_excluded_one_is_unscored(log: Path) -> None:
    scores = {uuid: sample["scores"] for uuid, sample in by_trial(read(log)).items()}
    values = {uuid: of_trial["multi_turn_frq"]["value"] for uuid, of_trial in scores.items()}
    assert [values["t10"], values["t11"], values["t30"]] == ["C", "I", "C"]
    assert all(isinstance(values[uuid], float) and math.isnan(values[uuid]) for uuid in ("t20", "t21", "t31"))
    # NaN stands as Inspect writes it, which is no strict JSON
    text = log.read_text(encoding="utf-8")
    assert '"value": NaN' in text
    assert "u:p@" not in text
    assert "Grace" not in text, "who started the run"
    reasons = {uuid: of_trial["multi_turn_frq"].get("reason") for uuid, of_trial in scores.items()}
    assert reasons == {
        "t10": None, "t11": None, "t30": None, "t20": "provider_error", "t21": "refusal", "t31": "provider_error",
    }  # fmt: skip
    assert scores["t10"]["multi_turn_frq"]["answer"] == "eczema"
    assert scores["t10"]["multi_turn_frq"]["explanation"] == GRADERS_WORDS
    assert "it broke" in scores["t21"]["multi_turn_frq"]["explanation"]
    assert scores["t10"]["vignette_mcq"]["value"] == "C"


@pytest.mark.slow
def test_the_figures_of_a_log_are_those_of_the_report(study: Store, log: Path) -> None:
    content = read(log)
    frq = next(score for score in content["results"]["scores"] if score["name"] == "multi_turn_frq")
    # case 1: one of two is right, case 2 has no counted trial, case 3: the only counted one is right
    assert frq["metrics"]["accuracy"]["value"] == pytest.approx(0.75)
    assert (frq["scored_samples"], frq["unscored_samples"], frq["metadata"]["cases"]) == (3, 3, 2)
    assert frq["metadata"]["excluded"] == {"provider_error": 2, "refused": 1}
    row = next(r for r in accuracy(study, selection=Selection(runs=[RUN])) if r.label["question_type"] == "frq")
    assert (frq["metrics"]["ci_low"]["value"], frq["metrics"]["ci_high"]["value"]) == (row.low, row.high)
    # Inspect's own way: the mean over epochs of what is scored, then over samples
    by_case: dict[str, list[float]] = {}
    for sample in content["samples"]:
        value = sample["scores"]["multi_turn_frq"]["value"]
        if isinstance(value, str):
            by_case.setdefault(sample["id"], []).append(float(value == "C"))
    assert fmean(map(fmean, by_case.values())) == pytest.approx(frq["metrics"]["accuracy"]["value"])


@pytest.mark.slow
def test_a_log_has_the_conversation_its_reasoning_and_its_usage(log: Path) -> None:
    content = read(log)
    sample = by_trial(content)["t10"]
    assert (sample["id"], sample["epoch"], sample["target"]) == ("ours/1", 1, "Eczema")
    assert [message["role"] for message in sample["messages"]] == ["assistant", "user", "assistant"]
    assert sample["messages"][1]["content"] == "A lump, “t10”.\nIt itches."
    assert sample["messages"][2]["content"][0] == {"type": "reasoning", "reasoning": THOUGHT}
    assert sample["messages"][2]["model"] == "a-2026"
    # of ten prompt tokens, four were cached: Inspect counts these apart
    doctor = sample["role_usage"]["doctor"]
    assert (doctor["input_tokens"], doctor["input_tokens_cache_read"], doctor["output_tokens"]) == (6, 4, 3)
    assert doctor["total_cost"] == pytest.approx(0.25)
    assert sample["metadata"]["belief"] == [{"turn": 1, "differential": [["Lipoma", 0.75], ["Eczema", 0.25]]}]
    assert (sample["metadata"]["end_reason"], sample["metadata"]["specialty"]) == ("final_diagnosis", "Dermatology")
    assert by_trial(content)["t31"]["error"]["message"] == "the server is down"
    assert content["eval"]["model_roles"]["grader"] == {"model": "openai/g"}
    assert content["eval"]["model_generate_config"] == {"temperature": 0.5}


def test_a_log_read_into_an_empty_database_has_the_same_messages_verdicts_and_figures(
    study: Store, empty: Store, log: Path
) -> None:
    imported = import_log(empty, log, ArchiveLimits())
    assert (imported.run_id, imported.conversations, imported.scores, imported.own) == (RUN, 6, 0, True)
    assert figures(empty) == figures(study)
    assert verdicts(empty) == verdicts(study)
    with study.read() as before, empty.read() as after:
        for trial in TRIALS:
            events, copied = trial_events(before, trial), trial_events(after, trial)
            assert spoken(copied) == spoken(events)
            assert thoughts(copied) == thoughts(events)
            for kind in (Probed, Assessed, Ended):
                assert [e for e in copied if isinstance(e, kind)] == [e for e in events if isinstance(e, kind)]
        stored = run_record(after, RUN)
    assert stored is not None
    assert (stored.source, stored.origin, stored.doctor, stored.settings["temperature"]) == (
        "imported", "imported", "openai/a", 0.5,
    )  # fmt: skip
    assert not verify(empty).findings


@pytest.mark.slow
def test_figures_of_an_imported_log_say_so_and_are_not_pooled_with_runs_made_here(
    study: Store, empty: Store, log: Path
) -> None:
    import_log(empty, log, ArchiveLimits())
    settings = read(log)["eval"]["metadata"]["anamnesis"]["run"]["settings"]
    header = a_header("here", [a_case(number) for number in (1, 2, 3)], settings=settings)
    trial = a_trial([answered(), graded("incorrect"), Finished(at=3.0)], trial_id="h10", run_id="here")
    write_journal(empty.journals, "here", header, trial)
    fold(empty)
    result = result_of(accuracy_report, MetricRequest(empty))
    frq = {row.label["model"]: row.estimate for row in result.figures if row.label["question_type"] == "frq"}
    assert frq == {"openai/a": 0.0, "openai/a · imported": pytest.approx(0.75)}
    assert [note.models for note in result.warnings if note.kind == "imported"] == [("openai/a · imported",)]


@pytest.mark.slow
def test_a_second_import_changes_nothing(study: Store, empty: Store, log: Path) -> None:
    import_log(empty, log, ArchiveLimits())
    before = figures(empty)
    assert not import_log(empty, log, ArchiveLimits()).new
    assert figures(empty) == before
    # nor does an import where the run was played
    assert not import_log(study, log, ArchiveLimits()).new


def test_a_score_that_another_program_added_or_changed_is_no_verdict(study: Store, empty: Store, log: Path) -> None:
    content = read(log)
    scores = by_trial(content)["t11"]["scores"]
    scores["multi_turn_frq"]["value"] = "C"
    scores["helpful"] = {"value": {"tone": 1, "length": math.nan}, "explanation": "fine"}
    log.write_text(json.dumps(content), encoding="utf-8")
    assert import_log(empty, log, ArchiveLimits()).scores == 3
    assert figures(empty) == figures(study)
    with empty.read() as cursor:
        events = trial_events(cursor, "t11")
    remarks = [event.values for event in events if isinstance(event, Assessed) and event.name == IMPORTED_SCORE]
    assert remarks == [("multi_turn_frq (changed)", "C"), ("helpful.tone", "1"), ("helpful.length", "unscored")]


@pytest.mark.slow
def test_a_branch_comes_back_as_a_conversation_that_no_figure_counts(empty: Store, tmp_path: Path) -> None:
    store = Store(tmp_path / "branch" / "anamnesis.duckdb")
    write_journal(store.journals, "fork-1", a_header("fork-1", [], source="fork"), a_trial(run_id="fork-1"))
    main_log = tmp_path / "fork.json"
    fold(store)
    write_log(store, "fork-1", main_log)
    import_log(empty, main_log, ArchiveLimits())
    with empty.read() as cursor:
        stored = run_record(cursor, "fork-1")
    assert stored is not None
    assert stored.source == "replay"
    assert accuracy(empty) == []
    assert len(accuracy(empty, selection=Selection(runs=["fork-1"]))) > 0


def test_a_log_cannot_name_a_folder_outside_the_journals(empty: Store, log: Path) -> None:
    content = read(log)
    for run_id in ("../outside", "/tmp/x", "", "a\0b", 7):
        content["eval"]["metadata"]["anamnesis"]["run"]["run_id"] = run_id
        log.write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(AnamnesisError, match="is no id"):
            import_log(empty, log, ArchiveLimits())
        assert not empty.journals.exists() or not list(empty.journals.iterdir()), run_id


def test_trials_of_a_log_that_are_stored_elsewhere_are_refused(study: Store, log: Path) -> None:
    content = read(log)
    content["eval"]["metadata"]["anamnesis"]["run"]["run_id"] = "another"
    log.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(AnamnesisError, match="6 of its trials are stored already, in run 20260101-logged"):
        import_log(study, log, ArchiveLimits())
    assert not (study.journals / "another").exists()


def test_experts_verdicts_are_written_for_inspect_unless_they_are_blinded(study: Store, tmp_path: Path) -> None:
    plan = planned(kind="answers", number=3, annotators=("Ada",), shared=0.0, seed=1, runs=(RUN,))
    review = plan_review(study, "Answers", plan)
    with_answers = state_of(study, "Answers")
    for number in range(1, 4):
        record(study, review.review_id, number, "Ada", "equivalent", "yes" if number < 3 else "no")
    scores, blinded = expert_scores(study, RUN)
    assert (scores, blinded) == ([], ["Answers"])
    unblind(study, "Answers", "Ada")
    (experts,), blinded = expert_scores(study, RUN)
    assert blinded == []
    assert sorted(record_["value"] for record_ in experts.records) == ["C", "C", "I"]
    # each record is about the trial of its item
    trial_of = {item.number: item.item.split(":")[1] for item in with_answers.items}
    wrong = next(record_ for record_ in experts.records if record_["value"] == "I")
    assert (wrong["id"], wrong["epoch"]) == (f"ours/{trial_of[3][1]}", int(trial_of[3][2]) + 1)
    assert "Ada" not in experts.lines


def test_the_commands_write_a_folder_and_read_it(
    study: Store, empty: Store, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(study.path))
    out = tmp_path / "logs"
    assert main(["export", "inspect", "20260101", "--out", str(out)]) == 0
    assert "12 scores, of which 4 unscored" in capsys.readouterr().out
    assert main(["export", "inspect", RUN, "--out", str(out)]) == 1  # the file exists
    (out / "notes.json").write_text("[]")
    monkeypatch.setenv("ANAMNESIS_DB", str(empty.path))
    capsys.readouterr()
    assert main(["import", "inspect", str(out)]) == 0
    captured = capsys.readouterr()
    assert "6 conversations of openai/a" in captured.out
    assert captured.err.startswith("Left out: notes.json")
    assert main(["import", "inspect", str(out / "notes.json")]) == 1
    assert main(["import", "inspect", str(tmp_path / "nowhere")]) == 2
    assert figures(empty) == figures(study)


_ROUND_TRIP = """
import json, math, sys
from inspect_ai import score
from inspect_ai.log import list_eval_logs, read_eval_log, write_eval_log
from inspect_ai.scorer import precomputed_scores
folder, ratings = sys.argv[1:]
(info,) = list_eval_logs(folder, formats=["json"])
log = read_eval_log(info.name)
for kind in ("json", "eval"):
    write_eval_log(log, f"{folder}/rewritten/log.{kind}", format=kind)
model, log.eval.model, log.eval.model_roles = log.eval.model, "none/none", None  # no provider is installed there
rated = score(log, precomputed_scores(ratings), action="append")
def spelled(score): return "unscored" if isinstance(score.value, float) and math.isnan(score.value) else score.value
print(json.dumps({
    "status": log.status, "model": model,
    "messages": {s.uuid: [[m.role, m.text] for m in s.messages] for s in log.samples},
    "scores": {s.uuid: {name: spelled(score) for name, score in s.scores.items()} for s in log.samples},
    "results": {
        r.name: [r.metrics["accuracy"].value, r.scored_samples, r.unscored_samples] for r in log.results.scores
    },
    "experts": {s.uuid: spelled(s.scores["precomputed_scores"]) for s in rated.samples
                if "precomputed_scores" in (s.scores or {})},
}))
"""


@pytest.mark.skipif(LIBRARY not in os.environ, reason=f"{LIBRARY} does not name a Python with inspect-ai 0.3.285")
def test_inspect_reads_the_log_and_what_it_writes_again_comes_back(study: Store, tmp_path: Path) -> None:
    plan = planned(kind="answers", number=3, annotators=("Ada",), shared=0.0, seed=1, runs=(RUN,))
    review = plan_review(study, "Answers", plan)
    for number in range(1, 4):
        record(study, review.review_id, number, "Ada", "equivalent", "yes" if number < 3 else "no")
    unblind(study, "Answers", "Ada")
    (experts,), _ = expert_scores(study, RUN)
    folder = tmp_path / "logs"
    folder.mkdir()
    write_log(study, RUN, folder / "2026-01-01T00-00-00-00-00_anamnesis_run.json")
    ratings = tmp_path / "ratings.jsonl"
    ratings.write_text(experts.lines)
    done = subprocess.run(
        [os.environ[LIBRARY], "-c", _ROUND_TRIP, str(folder), str(ratings)],
        capture_output=True, text=True, timeout=240, check=False, env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert (seen["status"], seen["model"]) == ("success", "openai/a")
    assert seen["results"]["multi_turn_frq"] == [0.75, 3, 3]
    frq = {uuid: scores["multi_turn_frq"] for uuid, scores in seen["scores"].items()}
    assert frq == {"t10": "C", "t11": "I", "t20": "unscored", "t21": "unscored", "t30": "C", "t31": "unscored"}
    with study.read() as cursor:
        for trial, messages in seen["messages"].items():
            words = [text for _, _, text in spoken(trial_events(cursor, trial))]
            assert [text for _, text in messages] == words
    assert sorted(seen["experts"].values()) == ["C", "C", "I"]
    for kind in ("json", "eval"):
        store = Store(tmp_path / kind / "anamnesis.duckdb")
        assert import_log(store, folder / "rewritten" / f"log.{kind}", ArchiveLimits()).own
        assert figures(store) == figures(study)
        assert verdicts(store) == verdicts(study)
        with study.read() as before, store.read() as after:
            for trial in TRIALS:
                assert spoken(trial_events(after, trial)) == spoken(trial_events(before, trial))


@pytest.mark.slow
def test_the_product_never_imports_the_library() -> None:
    code = "import sys, core.cli.inspect_logs; sys.exit('inspect_ai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


@pytest.mark.slow
def test_a_person_is_a_number_in_a_log(empty: Store, tmp_path: Path) -> None:
    header = a_header("by-hand", [a_case(1)], trials=1, doctor="human/Zoë Ann", arms=[("vignette", "mcq")])
    events = [answered("vignette", "mcq"), graded("correct", "vignette", "mcq"), Finished(at=2.0)]
    write_journal(empty.journals, "by-hand", header, a_trial(events, trial_id="h/1", run_id="by-hand"))
    fold(empty)
    numbered = write_log(empty, "by-hand", tmp_path / "numbered.json")
    assert (numbered.doctor, numbered.people) == ("human/1", 1)
    assert "Zo" not in (tmp_path / "numbered.json").read_text()
    assert read(tmp_path / "numbered.json")["eval"]["model"] == "human/1"
    named = write_log(empty, "by-hand", tmp_path / "named.json", with_names=True)
    assert (named.doctor, named.people) == ("human/Zoë Ann", 0)
    assert read(tmp_path / "named.json")["eval"]["model"] == "human/Zoë Ann"
