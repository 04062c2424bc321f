"""``report repeatability``: variance by source and the gain of more trials, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import scipy  # type: ignore[import-untyped]

from core.events import Event, Verdict
from core.jobs.ask_job import run_job
from core.jobs.regrade import Regrading
from core.measures.base import MetricRequest, Row
from core.measures.notes import result_of
from core.measures.repeatability import report
from core.store.database import Store
from core.store.fold import fold
from tests.core.jobs.workshop import begun, go, plan, registry
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, write_journal
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import FakeProvider


@pytest.fixture(autouse=True)
def db(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "a.duckdb"))


_VERDICTS: dict[str, Verdict] = {"1": "correct", "0": "incorrect", "x": "provider_error"}


def store_answers(right: dict[int, list[str]], *, reused: bool = False) -> None:
    """Store free responses; ``right`` gives for each case its trials, each with the marks of its gradings.

    Marks are right (1), wrong (0) or failed (x). Gradings have calls of their own, or are all ``reused`` from one call.
    """
    lines = []
    for case, trials in right.items():
        for n, marks in enumerate(trials):
            events: list[Event] = [answered()]
            for i, mark in enumerate(marks):
                calls = ("c0",) if reused else (f"c{i}",)
                events.append(graded(_VERDICTS[mark], call_ids=calls, at=10.0 + i))
            place = {"trial_id": f"run/{case}/{n}", "case_key": f"ours/{case}", "trial": n, "seed": 100 * case + n}
            lines.append(a_trial(events, run_id="run", **place))
    header = a_header("run", [a_case(n) for n in right], arms=[("multi_turn", "frq")])
    write_journal(Store().journals, "run", header, *lines)
    fold(Store())


def rows(part: str) -> list[dict[str, Any]]:
    return [row.cells() if isinstance(row, Row) else dict(row) for row in listed(part)]


def listed(part: str) -> Any:
    return result_of(report, MetricRequest(Store()), {"part": part}).rows


def test_variance_between_cases_trials_and_gradings_by_hand() -> None:
    store_answers({1: ["11", "10"], 2: ["00", "11"], 3: ["00", "00"], 4: ["x"]})
    cases, trials, gradings = listed("variance")
    assert [row.label["source"] for row in (cases, trials, gradings)] == ["cases", "trials", "gradings"]
    # half the squared difference of two gradings is 1/2 in one of the two trials of one of three cases
    of_gradings = (1 / 2 / 2) / 3
    # of two trials: mean square minus product of the means 1 and 1/2; 0 and 1; 0 and 0
    below = ((3 / 4 - 1 / 2) + 1 / 2 + 0) / 3
    # of two cases: means 3/4, 1/2 and 0; the one product that is not 0, of three pairs
    everything = (3 / 4 + 1 / 2 + 0) / 3 - (3 / 8) / 3
    assert gradings.estimate == pytest.approx(of_gradings)
    assert trials.estimate == pytest.approx(below - of_gradings)
    assert cases.estimate == pytest.approx(everything - below)
    assert all(row.low <= row.estimate <= row.high for row in (cases, trials, gradings))
    # the mean of three cases with two trials: trials and gradings vary twice in each
    total = (everything - below) + below / 2
    assert cases["share"] == pytest.approx((everything - below) / total)
    assert gradings["share"] == pytest.approx(of_gradings / 2 / total)
    assert trials.excluded == {"provider_error": 1}, "a provider's failure is counted, and is no wrong answer"


def test_a_reused_verdict_is_no_second_grading() -> None:
    store_answers({1: ["11", "11"], 2: ["00", "11"], 3: ["00", "00"]}, reused=True)
    assert [row["source"] for row in rows("variance")] == ["cases", "trials + gradings"]


def test_more_trials_narrow_the_interval_by_hand() -> None:
    marks = {1: ["1", "1"], 2: ["1", "0"], 3: ["0", "0"], 4: ["1"]}
    store_answers(marks)
    within = 1 / 6  # half squared differences 0, 1/2 and 0 of the three cases with two trials
    # mean square minus mean product over the pairs of the means 1, 1/2, 0 and 1
    between = (1 + 1 / 2 + 0 + 1) / 4 - (1 / 2 + 0 + 1 + 0 + 1 / 2 + 0) / 6 - within
    quantile = scipy.stats.t.ppf(0.975, 3)
    table = {row["more_trials"]: row for row in rows("more_trials")}
    # trials 2, 2, 2 and 1: the mean varies as with 4 / (1/2 + 1/2 + 1/2 + 1) of them
    assert table[0]["trials"] == pytest.approx(1.6)
    for more, row in table.items():
        assert row["half_width"] == pytest.approx(quantile * ((between + within / (1.6 + more)) / 4) ** 0.5)
        assert row["half_width_any_trials"] == pytest.approx(quantile * (between / 4) ** 0.5)


def test_trials_that_were_not_repeated_plan_nothing() -> None:
    store_answers({n: [str(n % 2)] for n in range(1, 6)})
    assert rows("more_trials") == []
    assert [row["source"] for row in rows("variance")] == ["cases + trials + gradings"]


def test_a_run_graded_again_by_its_grader_shows_the_graders_own_variance(fake_provider_thread: FakeProvider) -> None:
    verdicts = iter(["Yes", "No", "Yes", "No", "Yes", "Yes"])  # of three trials, then of the same three again

    def reply(body: dict[str, Any]) -> str:
        prompt = json.dumps(body["messages"])
        if body["model"] == "doctor":
            return f"**Final Diagnosis:** Gout {len(prompt)}"
        return "Podagra" if "doctor wrote" in prompt else next(verdicts)

    fake_provider_thread.script = reply
    names = beside_rules("openai/doctor", grader="openai/grader")
    arms = (("vignette", "frq"),)
    header = begun(plan(3, names=names, arms=arms, trials=1, base_url=fake_provider_thread.base_url))
    go(header)
    address = fake_provider_thread.base_url
    run_job(Regrading((header.run_id,), "openai/grader", again=True, base_url=address), Store(), registry())
    *_, gradings = listed("variance")
    assert gradings.label["source"] == "gradings"
    assert gradings.n == 3
    assert gradings.estimate > 0
