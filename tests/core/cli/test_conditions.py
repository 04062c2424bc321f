"""No figure pools two conditions: runs that differ in one part of the condition give two rows in every report."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.cli.app import main
from core.cli.options import selected
from core.events import Answered, Ended, Event, Finished, Graded, Probed, Started, Utterance
from core.store.database import Store
from core.store.fold import fold
from core.store.selection import conditions
from tests.core.store.builders import a_case, a_header, a_trial, grades, write_journal

DOCTOR = "openai/a"
ARMS = [("vignette", "mcq"), ("multi_turn", "mcq"), ("summarized", "mcq"), ("vignette", "frq"), ("multi_turn", "frq")]
CASES = [a_case(n, vignette="A man has had an itching rash on his elbow for two weeks.") for n in range(1, 4)]

PARTS: dict[str, dict[str, Any]] = {
    "framework": {"protocol": "consultation", "settings": {"max_questions": 10, "solver": "openai/s"}},
    "version": {"code_version": "2"},
    "case set": {"case_set": "ours:1,2,3", "case_set_hash": "d"},
    "data set": {"case_set": "theirs", "case_set_hash": "d"},
    "temperature": {"settings": {"max_messages": 30, "temperature": 0.7}},
    "longest reply": {"settings": {"max_messages": 30, "max_tokens": 200}},
    "seed of the model": {"settings": {"max_messages": 30, "model_seed": 7}},
    "effort": {"settings": {"max_messages": 30, "reasoning_effort": "high"}},
    "prompts": {"prompt_hash": "other"},
    "cap": {"settings": {"max_messages": 4}},
    "patient": {"patient": "openai/q"},
    "persona": {"settings": {"max_messages": 30, "persona": "terse"}},
    "pictures": {"settings": {"max_messages": 30, "images": "with"}},
    "summariser": {"summariser": "openai/t"},
    "solver": {"protocol": "consultation", "settings": {"max_questions": 10, "solver": "openai/t"}},
    "doctor's prompt": {"settings": {"max_messages": 30, "doctor_prompt": "short"}},
}


def a_stream(trial_id: str, case_key: str, grader: str) -> list[Event]:
    """A conversation with a belief, and an answer in each arm: right on the vignette, wrong after the dialogue."""
    events: list[Event] = [
        Started(trial_id=trial_id, case_key=case_key, trial=0, seed=7, at=1.0),
        Utterance(turn=0, role="doctor", text="Hello, what brings you in?"),
        Utterance(turn=1, role="patient", text="I have an itching rash on my elbow."),
        Probed(turn=1, differential=(("Eczema", 0.75), ("Psoriasis", 0.25))),
        Utterance(turn=2, role="doctor", text="**Final Diagnosis:** Psoriasis"),
        Ended(reason="final_diagnosis", doctor_turns=1),
    ]
    for format_, question_type in ARMS:
        right = format_ == "vignette"
        place: Any = {"format": format_, "question_type": question_type}
        events.append(Answered(**place, response="Eczema" if right else "Psoriasis"))
        rules = ("mcq_loose", "mcq_strict") if question_type == "mcq" else ("frq",)
        events += [
            Graded(
                **place,
                grader="rule" if question_type == "mcq" else grader,
                rule=rule,
                extracted="Eczema",  # type: ignore[arg-type]
                verdict="correct" if right else "incorrect",
                at=5.0,
            )
            for rule in rules
        ]
    return [*events, Finished(at=9.0)]


def store_run(store: Store, run_id: str, grader: str = "openai/g", **changes: Any) -> None:
    trials = [
        a_trial(
            a_stream(f"{run_id}/{case.case_key}", case.case_key, grader),
            run_id=run_id,
            trial_id=f"{run_id}/{case.case_key}",
            case_key=case.case_key,
        )
        for case in CASES
    ]
    header = a_header(run_id, CASES, doctor=DOCTOR, arms=ARMS, trials=1, **changes)
    write_journal(store.journals, run_id, header, *trials)


REPORTS = {
    "accuracy": ["accuracy"],
    "accuracy, strict rule": ["accuracy", "--mcq-rule", "mcq_strict"],
    "accuracy by specialty": ["accuracy", "--by", "specialty"],
    "pairs": ["pairs"],
    "failures": ["failures"],
    "belief": ["belief"],
    "history": ["history"],
    "graders": ["graders", "--part", "accuracy"],
}


@pytest.fixture
def rows_of(db: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[dict[str, str]]]:
    def read(*report: str) -> list[dict[str, str]]:
        capsys.readouterr()
        fold(Store())
        assert main(["report", *report, "--format", "csv"]) == 0
        return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))

    return read


def test_runs_that_differ_in_one_part_are_separate_conditions(db: Path) -> None:
    """One run, and for each part another run that differs only in this part."""
    store = Store()
    store_run(store, "first")
    for number, changes in enumerate(PARTS.values()):
        store_run(store, f"run{number}", created_at=200.0 + number, **changes)
    fold(store)
    stored = conditions(store)
    assert [len(condition.runs) for condition in stored] == [1] * (1 + len(PARTS))
    names = {condition.name for condition in stored}
    assert len(names) == len(stored)
    assert all(name.partition(" · ")[0] == DOCTOR for name in names)


@pytest.mark.slow
def test_runs_and_their_later_verdicts_are_separate_rows_in_every_report(
    rows_of: Callable[..., list[dict[str, str]]],
) -> None:
    """Two runs alike, one of which another grader and another choice reader read later, and one of another patient."""
    store = Store()
    store_run(store, "first")
    store_run(store, "second", created_at=200.0)
    assert {row["model"] for row in rows_of("accuracy")} == {DOCTOR}, "equal in all parts: one condition"
    again: dict[str, Any] = {"extracted": "Eczema", "verdict": "correct", "at": 20.0}
    regraded = [
        Graded(format=format_, question_type="frq", grader="openai/h", rule="frq", prompt_hash="abc", **again)
        for format_ in ("vignette", "multi_turn")
    ]
    reread = [
        Graded(format=format_, question_type="mcq", grader="rule", rule="mcq_strict", rule_version=2, **again)
        for format_ in ("vignette", "multi_turn", "summarized")
    ]
    verdicts = [grades(f"second/{case.case_key}", *regraded, *reread, run_id="second") for case in CASES]
    write_journal(store.journals, "second", *verdicts)
    store_run(store, "third", created_at=300.0, patient="openai/q")
    separate = {
        f"{DOCTOR} · patient openai/p · grader openai/g · choice reader 1",
        f"{DOCTOR} · patient openai/p · grader openai/h · choice reader 2",
        f"{DOCTOR} · patient openai/q · grader openai/g · choice reader 1",
    }
    for name, report in REPORTS.items():
        rows = rows_of(*report)
        models = {row["model"] for row in rows}
        if name == "graders":  # it compares graders, which are no part of its conditions
            assert models == {re.sub(" · grader openai/[gh]", "", model) for model in separate}
            continue
        assert models == separate, name
        assert {row.get("n_trials", "3") for row in rows} == {"3"}, "a row is of the three cases of one run"


def test_a_version_with_several_conditions_is_compared_by_its_newest(
    db: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store()
    store_run(store, "first")
    store_run(store, "second", created_at=200.0, patient="openai/q")
    newest, older = f"{DOCTOR} · patient openai/q", f"{DOCTOR} · patient openai/p"
    fold(store)
    assert main(["report", "monitor", "--versions", f"{DOCTOR},{older}", "--format", "csv"]) == 0
    printed = capsys.readouterr()
    rows = csv.DictReader(io.StringIO(printed.out))
    assert {(row["first"], row["second"]) for row in rows} == {(newest, older)}
    assert f"The newest condition is compared: {newest}" in printed.err


def test_every_condition_can_be_selected_by_its_name(db: Path) -> None:
    """Also if its name contains commas, which separate names in options."""
    store = Store()
    store_run(store, "first")
    store_run(store, "second", case_set="ours:1,2,3", case_set_hash="d", created_at=200.0)
    store_run(store, "third", settings={"max_messages": 30, "temperature": 0.7, "max_tokens": 200}, created_at=300.0)
    fold(store)
    models = sorted(condition.name for condition in conditions(store))
    assert sum("," in model for model in models) == 2, models
    for named in (*([model] for model in models), models):
        assert sorted(selected(store, None, ",".join(named)).models or ()) == named


def test_pooled_rows_are_marked(rows_of: Callable[..., list[dict[str, str]]]) -> None:
    store = Store()
    store_run(store, "first")
    store_run(store, "second", created_at=200.0, patient="openai/q")
    rows = rows_of("accuracy", "--pool")
    assert {row["model"] for row in rows} == {f"{DOCTOR} · 2 conditions combined"}
    assert {row["n_trials"] for row in rows} == {"6"}
