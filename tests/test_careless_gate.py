"""Mistakes of users of the gate and of rankings, and what they see; see ``tests/test_careless_user.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.careless import assert_sees, row, says, silent, status
from tests.test_careless_user import CAST, CHOICES, FREE, IMPORT, SPOKEN, Situation, situation

pytestmark = pytest.mark.slow
ONCE = f"{CHOICES} --trials 1"
RUNS = (
    IMPORT,
    f"{ONCE} --doctor openai/gout",  # 1
    f"{ONCE} --doctor openai/first-38",
    f"{ONCE} --doctor openai/bunion-a",
    f"{ONCE} --doctor openai/bunion-b",
    f"{ONCE} --limit 20 --doctor openai/gout-b",  # 5
    f"{ONCE.replace('toes', 'toes:toe-20,toe-21,toe-22')} --doctor openai/gout-c",
    f"{CHOICES} --trials 3 --doctor openai/first-39",
    f"-{ONCE} --doctor openai/fifth",
    f"-{ONCE} --doctor openai/broken",
    f"{ONCE} --doctor openai/lists",  # 10
    f"{ONCE} --doctor openai/drifts",
    f"served=v-july {ONCE} --doctor openai/gout --fresh --seed 21",
    f"{ONCE} --doctor openai/gout --fresh",
    f"-{ONCE} --doctor openai/gout-costly --budget-usd 0.2 --concurrency 1",
)
GRADED = (
    IMPORT,
    f"{FREE} --doctor openai/gout-a --grader openai/fair",  # 1
    f"{FREE} --doctor openai/gout-b --grader openai/strict",
    f"{FREE} --doctor openai/gout-c --grader openai/fair",
    "job regrade --run {run3} --grader openai/lenient",
    f"{FREE} --doctor openai/gout-d --grader openai/fair --prompts {{files}}/after/grading",
    f"{SPOKEN} --doctor openai/gout-a {CAST}",  # 5
    f"{SPOKEN} --doctor openai/gout-b {CAST.replace('patient-a', 'patient-b')}",
)
BOTH_ARMS = ONCE.replace("vignette:mcq", "vignette:mcq,vignette:frq")
TWO_ARMS = (
    IMPORT,
    f"{BOTH_ARMS} --limit 10 --doctor openai/first-20 --grader openai/fair",
    f"{BOTH_ARMS} --limit 10 --doctor openai/first-21 --grader openai/fair",
)


SITUATIONS = (
    situation(
        "runs are compared in the wrong order",
        RUNS,
        "gate {run1} --against {run2}",
        says("started before the reference", r"openai/gout \(.*\) against openai/first-38"),
        "gate {run2} --against {run1} --margin 0.2",
        status(0),
        silent("wrong way round"),
    ),
    situation(
        "all answers of both runs are wrong, or all right",
        RUNS,
        "gate {run4} --against {run3}",
        status(2),
        says("Cannot say. Both score 0", "no difference is no sign of quality"),
        "gate {run13} --against {run1}",
        says("Both score 1", "same condition"),
    ),
    situation(
        "the margin is as large as the accuracy of the reference",
        RUNS,
        "gate {run4} --against {run3} --margin 0.5",
        status(2),
        says("Cannot say. Both score 0", "no difference is no sign of quality"),
        "gate {run10} --against {run2} --margin 0.97",
        status(2),
        says("A margin of 0.97 decides nothing"),
    ),
    situation(
        "a margin is no number between 0 and 1",
        RUNS,
        *(
            look_or_fact
            for option in ("--margin -0.1", "--margin 5", "--margin nan", "--margin 0")
            for look_or_fact in (f"gate {{run2}} --against {{run1}} {option}", status(2), says("at most 0.5"))
        ),
    ),
    situation(
        "a margin is too small for any number of cases",
        RUNS,
        "gate {run2} --against {run1} --margin 0.00001",
        status(2),
        says("over ten million"),
    ),
    situation(
        "two runs have different cases, and then are compared all the same",
        RUNS,
        "gate {run5} --against {run1}",
        status(2),
        says("differ in case set"),
        "gate {run5} --against {run1} --under-test case_set --margin 0.2",
        status(0),
        says("Note: Different cases", "20 others count on one side only"),
        "gate {run6} --against {run1} --under-test case_set",
        status(2),
        says("Too few cases: 3"),
        "gate {run6} --against {run5} --under-test case_set",
        status(2),
        says("Too few cases: 0", "no case is shared"),
    ),
    situation(
        "one run has three trials of a case, the other one",
        RUNS,
        "gate {run7} --against {run1} --margin 0.1",
        says("Trials of a case: 3 against 1"),
    ),
    situation(
        "a provider failed in one of the runs",
        RUNS,
        "gate {run8} --against {run1} --margin 0.2",
        status(2),
        says("Too many excluded answers", "20.0% .*8 provider error"),
        "gate {run9} --against {run1}",
        status(2),
        says("unfinished"),
    ),
    situation(
        "a doctor lists all choices in half of its answers",
        RUNS,
        "gate {run10} --against {run1} --margin 0.1",
        says("judged by mcq_loose", r"Note: By the strict rule .* fail: 0\.500 against 1\.000"),
    ),
    situation(
        "the provider serves another model under the same name",
        RUNS,
        "gate {run11} --against {run1}",
        says("Note: .*several served models.*drifts-july, drifts-june"),
        "gate {run12} --against {run1}",
        says("Served model of the doctor: v-july against fake-1"),
    ),
    situation(
        "a run is compared with itself",
        RUNS,
        "gate {run1} --against {run1}",
        status(2),
        says("compared with itself"),
        "gate openai/gout --against openai/gout",
        status(2),
        says("compared with itself"),
    ),
    situation(
        "a run stopped at its budget", RUNS, "gate {run14} --against {run1}", status(2), says(r"unfinished: 1\d of 40")
    ),
    situation(
        "a run, an arm or a part is misspelt",
        RUNS,
        "gate {run2} --against rum",
        status(2),
        says("no run 'rum'"),
        "gate openai/gaut --against {run1}",
        status(2),
        says("openai/gaut"),
        "gate {run2} --against {run1} --arm vignette:mqc",
        status(2),
        says("no answers in vignette:mqc"),
        "gate {run2} --against {run1} --under-test grdaer",
        status(2),
        says("no 'grdaer'"),
        "gate {run2} --against {run1} --break must-not",
        status(2),
        says("judged by a rubric"),
    ),
    situation(
        "graders, their prompts or patients differ",
        GRADED,
        "gate {run2} --against {run1}",
        status(2),
        says("differ in grader", "openai/strict", "openai/fair"),
        "gate {run3} --against {run1}",
        status(2),
        says("differ in grader", "openai/lenient"),
        "gate {run4} --against {run1}",
        status(2),
        says("differ in prompts"),
        "gate {run4} --against {run1} --under-test prompts",
        status(2),
        says("differ in grader"),
        "gate {run6} --against {run5}",
        status(2),
        says("differ in patient", "Note: Different patients"),
    ),
    situation(
        "two runs have two arms",
        TWO_ARMS,
        "gate {run2} --against {run1}",
        status(2),
        says("vignette:mcq", "vignette:frq"),
        "gate {run2} --against {run1} --arm vignette:frq",
        says("judged by openai/fair", "Too few cases: 10"),
    ),
    situation(
        "a ranking has one condition, or one with a few cases, or one without answers",
        RUNS,
        "report accuracy --rank --run {run1}",
        status(2),
        says("two conditions"),
        "report accuracy --rank --models openai/gout-b,openai/gout-c",
        status(2),
        "report accuracy --rank --models openai/first-38,openai/bunion-a,openai/bunion-b,openai/gout-c",
        says("Note: Not ranked.*gout-c"),
        row({"model": "bunion-a"}, rank="2–3", n_cases=40),
        row({"model": "bunion-b"}, rank="2–3", from_first=-0.95),
        "report accuracy --rank --models openai/first-38,openai/fifth",
        row({"model": "openai/fifth"}, mean=1, n_cases=32, provider_failures=8),
    ),
)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in SITUATIONS])
def test_the_user_of_a_gate_is_warned(case: Situation, tmp_path: Path) -> None:
    assert_sees(case.does, case.sees, tmp_path)
