"""The gate passes, fails or cannot say, with its reason; runs that cannot be compared are never decided."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.cli.app import main
from core.events import Ended, Finished, Started, Utterance
from core.jobs.ask_job import run_job
from core.jobs.engine import Options
from core.jobs.judge import Judging
from core.journal import RUBRIC_SCORES, Hypothesis
from core.models.registry import load_registry
from core.report.breaks import find_breaks
from core.report.gate import NO_SIGN, GateResult, GateRule, gate, run_side, shared_arm
from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import a_header, a_trial, write_journal
from tests.support.fake_provider import running
from tests.support.judged_rubric import CASES, RUBRIC, overlooks, store_judged
from tests.support.rubric_judges import judge
from tests.support.stores import copy_of
from tests.support.two_doctors import write_run

N = 60
RULE = GateRule("vignette:frq", margin=0.1)
OLD: dict[str, Any] = {"doctor": "openai/old", "created_at": 1.0}
NEW: dict[str, Any] = {"doctor": "openai/new", "created_at": 2.0}


def verdicts(wrong: int, number: int = N) -> list[list[str]]:
    return [["incorrect" if case < wrong else "correct"] for case in range(number)]


def of(store: Store, rule: GateRule = RULE) -> GateResult:
    return gate(store, run_side(store, "new"), run_side(store, "old"), rule)


INCOMPARABLE: list[tuple[dict[str, Any], str]] = [
    ({"case_set_hash": "d"}, "differ in case set (d against c)"),
    ({"grader": "openai/h"}, "differ in grader"),
    ({"settings": {"max_messages": 20}}, "differ in cap (20 against 30)"),
    ({"prompt_hash": "i"}, "differ in prompts"),
    ({"trials": 2}, "is unfinished: 20 of 40 trials."),
    ({"arms": [("vignette", "mcq")]}, "has no answers in vignette:frq."),
]
"""What a run has that makes it incomparable with the run "short" → words of the reason."""


def many_runs(store: Store) -> None:
    """References and runs to compare with them, which are read one by one."""
    stated = Hypothesis(text="It is as good.", primary="vignette:mcq", margin=0.2)
    own = Hypothesis(text="New is as good.", primary="vignette:frq", margin=0.5)
    old = {"created_at": 1.0}
    runs: dict[str, tuple[list[list[str]], dict[str, Any]]] = {
        "old": (verdicts(0), old),
        "ten": (verdicts(10), old),
        "short": (verdicts(0, 20), old),
        "nineteen": (verdicts(0, 19), old),
        "useless": (verdicts(20, 20), {**old, "doctor": "openai/later"}),
        "few": (verdicts(18, 20), old),
        "as_good": ([*verdicts(10)[1:], ["incorrect"]], {}),  # the tenth case improves, the last gets worse
        "right": (verdicts(0), {}),
        "far": (verdicts(20), {"hypothesis": own}),
        "between": (verdicts(5), {}),
        "failed_7": ([["provider_error"]] * 7 + verdicts(0)[7:], {}),
        "failed_6": ([["provider_error"]] * 6 + verdicts(0)[6:], {}),
        "also_nineteen": (verdicts(0, 19), {}),
        "later": (verdicts(20, 20), {"created_at": 0.5}),
        "low": (verdicts(18, 20), {"hypothesis": stated}),
        **{f"other_{n}": (verdicts(0, 20), changes) for n, (changes, _) in enumerate(INCOMPARABLE)},
    }
    for run_id, (given, header) in runs.items():
        written: dict[str, Any] = {"doctor": f"openai/{run_id}", "created_at": 2.0, **header}
        write_run(store, run_id, given, folded=False, **written)
    fold(store)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return copy_of(many_runs, tmp_path_factory.mktemp("runs"))


def compared(store: Store, new: str, reference: str, margin: float = 0.1) -> GateResult:
    return gate(store, run_side(store, new), run_side(store, reference), GateRule("vignette:frq", margin=margin))


def test_a_run_as_good_as_the_reference_passes_a_worse_one_fails_and_one_in_between_is_not_decided(runs: Store) -> None:
    result = compared(runs, "as_good", "ten")
    assert (result.verdict, result.status) == ("pass", 0)
    assert result.comparison is not None
    assert (result.comparison.n, result.comparison.improved, result.comparison.regressed) == (N, 1, 1)
    means = result.comparison.first_mean, result.comparison.second_mean
    assert means == (pytest.approx(50 / 60), pytest.approx(50 / 60))
    assert result.interval is not None
    assert -0.1 < result.interval.low < 0 < result.interval.high
    result = compared(runs, "between", "old")
    assert (result.verdict, result.status) == ("cannot say", 2)
    assert "contains −0.1" in result.reason


@pytest.mark.slow
def test_a_pass_that_is_worse_by_less_than_the_margin_says_so(store: Store) -> None:
    write_run(store, "old", verdicts(0), **OLD)
    write_run(store, "new", verdicts(6), **NEW)
    result = of(store, GateRule("vignette:frq", margin=0.3))
    assert result.verdict == "pass"
    assert result.interval is not None
    assert result.interval.high < 0
    assert result.notes[0].kind == "worse"


@pytest.mark.slow
def test_two_runs_of_one_doctor_with_the_same_seeds_are_compared(store: Store) -> None:
    """A figure of both would leave the second run out as repeats of the first."""
    write_run(store, "old", verdicts(0), **{**OLD, "doctor": "openai/new"})
    write_run(store, "new", verdicts(20), **NEW)
    result = of(store)
    assert (result.verdict, result.comparison and result.comparison.regressed) == ("fail", 20)


def test_runs_that_cannot_be_compared_are_not_decided(runs: Store) -> None:
    reference, wrong = run_side(runs, "short"), []
    for number, (_, words) in enumerate(INCOMPARABLE):
        result = gate(runs, run_side(runs, f"other_{number}"), reference, RULE)
        if (result.verdict, result.comparison) != ("cannot say", None) or words not in result.reason:
            wrong.append((words, result))
    assert wrong == []


@pytest.mark.slow
def test_a_patient_who_says_nothing_in_the_arm_and_parts_under_test_may_differ(store: Store) -> None:
    write_run(store, "old", verdicts(0), **OLD)
    write_run(store, "new", verdicts(0), **{**NEW, "patient": "openai/q", "prompt_hash": "i"})
    assert "prompts" in of(store).reason
    assert of(store, GateRule("vignette:frq", margin=0.1, under_test=("prompts",))).verdict == "pass"


def test_notes_say_where_the_test_says_little(runs: Store) -> None:
    severe = {note.kind: note.severity == "high" for note in compared(runs, "later", "useless").notes}
    assert severe.items() >= {
        ("no_sign_of_quality", True),
        ("order", True),
        ("condition", False),
        ("hypothesis", False),
    }
    few, low = run_side(runs, "few"), run_side(runs, "low")
    notes = {note.kind: note for note in gate(runs, low, few, RULE).notes}
    assert "the reference has 0.100" in notes[NO_SIGN].text
    assert notes["hypothesis"].severity == "high"
    assert "vignette:frq instead of vignette:mcq; margin 0.1 instead of 0.2" in notes["hypothesis"].text
    assert {"ceiling", "order", "condition"}.isdisjoint(notes)
    itself = gate(runs, low, low, RULE)
    assert (itself.verdict, itself.reason) == ("cannot say", "low is compared with itself.")
    assert shared_arm(low, few) == "vignette:mcq"
    assert shared_arm(few, few) == "vignette:frq"


def test_a_margin_that_decides_nothing_gives_no_figure_and_too_few_cases_are_not_decided(runs: Store) -> None:
    new, reference = run_side(runs, "right"), run_side(runs, "old")
    for margin, verdict in (
        (0.6, "cannot say"),
        (0.0, "cannot say"),
        (-0.1, "cannot say"),
        (float("nan"), "cannot say"),
        (0.5, "pass"),
    ):
        result = gate(runs, new, reference, GateRule("vignette:frq", margin=margin))
        assert (result.verdict, result.power is None) == (verdict, verdict != "pass"), margin
        assert verdict == "pass" or f"{margin:g}" in result.reason
    assert compared(runs, "also_nineteen", "nineteen", 0.5).reason.startswith("Too few cases: 19 ")


def test_many_excluded_answers_are_not_decided_and_never_wrong(runs: Store) -> None:
    result = compared(runs, "failed_7", "old")
    assert result.verdict == "cannot say"
    assert "11.7% of the answers are excluded" in result.reason
    assert result.excluded["failed_7"] == {"provider_error": 7}
    allowed = compared(runs, "failed_6", "old")
    assert allowed.comparison is not None
    assert (allowed.verdict, allowed.comparison.n, allowed.comparison.second_mean) == ("pass", 54, 1.0)
    assert any("6 provider error" in note.text for note in allowed.notes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "severity", "words"),
    [
        (RULE, "low", "are those that the run states"),
        (GateRule("vignette:frq", margin=0.2), "high", "margin 0.2 instead of 0.1"),
    ],
)
def test_a_gate_says_where_it_differs_from_the_hypothesis_of_the_run(
    store: Store, rule: GateRule, severity: str, words: str
) -> None:
    stated = Hypothesis(text="New is as good.", primary="vignette:frq", margin=0.1)
    write_run(store, "old", verdicts(0), **OLD)
    write_run(store, "new", verdicts(0), hypothesis=stated, **NEW)
    (note,) = (note for note in of(store, rule).notes if note.kind == "hypothesis")
    assert note.severity == severity
    assert words in note.text


@pytest.fixture
def judged(store: Store) -> Store:
    """Asked about fever, a must: the run "old" in the cases 1 to 7, and the run "new" in 2 to 8; not judged yet."""
    fever = {**RUBRIC["all"][0], "priority": "must"}  # type: ignore[index, dict-item]
    store_judged(store, {**RUBRIC, "all": [fever]})
    for run_id, asked in (("old", range(1, 8)), ("new", range(2, 9))):
        lines = []
        for number in range(1, 11):
            trial_id = f"{run_id}/{number}"
            turns = [
                Utterance(turn=0, role="doctor", text="Hello."),
                Utterance(turn=1, role="patient", text="I feel ill."),
                Utterance(turn=2, role="doctor", text=f"Any {'fever' if number in asked else 'pain'}?"),
                Utterance(turn=3, role="patient", text=f"No. I am number {number}."),
            ]
            started = Started(trial_id=trial_id, case_key=f"ours/{number}", trial=0, seed=2, at=1.0)
            events = [started, *turns, Ended(reason="final_diagnosis", doctor_turns=2), Finished(at=9.0)]
            lines.append(a_trial(events, trial_id=trial_id, run_id=run_id, case_key=f"ours/{number}", seed=2))
        write_journal(store.journals, run_id, a_header(run_id, CASES, doctor=f"openai/{run_id}", trials=1), *lines)
    fold(store)
    return store


@pytest.mark.slow
def test_a_new_critical_failure_is_found_and_scores_by_a_rubric_are_compared(judged: Store) -> None:
    assert "new is judged by a rubric" in find_breaks("must", judged, "new", "old").problem
    with running(judge(overlooks)) as provider:
        job = Judging("rubric:demo", ("openai/fake",), base_url=provider.base_url)
        run_job(job, judged, load_registry(), Options(1))
    fold(judged)
    found = find_breaks("must", judged, "new", "old")
    assert found.failures == ("ours/1: must missed: The doctor asks about fever (1 of 1 trials)",)
    assert (found.gone, found.compared, found.undecided) == (1, 10, 0)
    assert find_breaks("must-not", judged, "new", "old").compared == 0
    new, old = run_side(judged, "new"), run_side(judged, "old")
    rule = GateRule(RUBRIC_SCORES, margin=0.5, breaks=("must",))
    result = gate(judged, new, old, rule)
    assert (result.verdict, result.status) == ("fail", 1)
    assert result.comparison is not None
    # seven of ten conversations reach all points on both sides: case 1 gets worse, case 8 better
    assert (result.comparison.n, result.comparison.improved, result.comparison.regressed) == (10, 1, 1)
    assert (result.comparison.first_mean, result.comparison.second_mean) == pytest.approx((0.7, 0.7))
    undecided = gate(judged, new, old, GateRule(RUBRIC_SCORES, margin=0.5))
    assert undecided.reason.startswith("Too few cases: 10 ")


def test_the_command_prints_json_and_takes_the_outcome_and_margin_of_the_run(
    runs: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(runs.path))
    against = ["gate", "openai/far", "--against", "old", "--json"]
    assert main([*against, "--arm", "vignette:frq", "--margin", "0.1"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert (printed["verdict"], printed["status"], printed["n_cases"]) == ("fail", 1, N)
    assert printed["difference"] == pytest.approx(-1 / 3)
    assert main([*against[:-1], "--arm", "vignette:frq", "--margin", "0.1"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("Fail. ")
    for words in ("0.667 against 1.000", "-0.333 (", "60, 20 discordant: 0 improved, 20 regressed", "margin 0.1"):
        assert words in text
    assert main(against) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["verdict"], printed["outcome"], printed["margin"]) == ("pass", "vignette:frq", 0.5)
    assert 0.9 < printed["power"] <= 1
    assert main(["gate", "nobody", "--against", "old"]) == 2
    assert "There is no run 'nobody'" in capsys.readouterr().err
    assert main([*against, "--arm", "vignette:frq", "--metric", "rubric_scores"]) == 2
