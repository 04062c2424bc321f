"""A budget limits every paid job across resumes, and is exceeded by one call at most.

Every call costs $0.018: 11 + 7 tokens of models at $1000 a million. So $0.045 are used up by the third call and
$0.08 by the fifth, in every job.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from core.case import Case
from core.frameworks.base import Arm
from core.jobs.ask_job import run_job
from core.jobs.completing import Completing
from core.jobs.engine import Options
from core.jobs.judge import Judging
from core.jobs.profiling import Profiling
from core.jobs.regrade import Regrading
from core.jobs.run import carry_out
from core.models.registry import load_registry
from core.store.database import Store
from core.store.fold import fold
from tests.core.jobs.test_everything_paid import world
from tests.core.jobs.workshop import CONVERSATION, begun, plan, six_conversations, small_cases
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply
from tests.support.stores import copy_of

FREE: tuple[Arm, ...] = (("vignette", "frq"),)
MODELS = ("doctor", "patient", "kind", "judge", "profiler", "completer")
Go = Callable[[float, int], object]


@pytest.fixture
def paying(fake_provider_thread: FakeProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProvider:
    models_file = tmp_path / "models.toml"
    models_file.write_text(
        "".join(f'[models."openai/{m}"]\nprices = {{ input = 1000.0, output = 1000.0 }}\n' for m in MODELS)
    )
    monkeypatch.setenv("ANAMNESIS_MODELS", str(models_file))
    diseases = count()

    def script(body: dict[str, Any]) -> str:
        message = str(body["messages"][-1]["content"])
        if body["model"] == "kind":  # no two responses are the same
            match = re.search(r"Disease \d+", message)
            return match[0] if match and "doctor wrote" in message else "Yes"
        if body["model"] == "doctor" and len(body["messages"]) < 3 and "name of one single" in message:
            return f"**Final Diagnosis:** Disease {next(diseases)}"
        return world(body)

    fake_provider_thread.script = script
    return fake_provider_thread


def campaign(provider: FakeProvider) -> Go:
    header = begun(plan(6, arms=CONVERSATION, names=beside_rules("openai/doctor"), base_url=provider.base_url))
    return lambda budget, at_once: carry_out(header, load_registry(), Options(at_once, budget))


def regrading(provider: FakeProvider) -> Go:
    """Two runs, the first with one answer: it is graded completely before the budget is used up."""
    headers = [begun(plan(n, arms=FREE, seed=n, base_url=provider.base_url)) for n in (1, 6)]
    for header in headers:
        carry_out(header, load_registry(), Options())
    job = Regrading(tuple(header.run_id for header in headers), "openai/kind", base_url=provider.base_url)
    return lambda budget, at_once: run_job(job, Store(), load_registry(), Options(at_once, budget))


def judging(form: str) -> Callable[[FakeProvider], Go]:
    def prepared(provider: FakeProvider) -> Go:
        copy_of(six_conversations, Store().path.parent)
        job = Judging(form, ("openai/judge",), base_url=provider.base_url)
        return lambda budget, at_once: run_job(job, Store(), load_registry(), Options(at_once, budget))

    return prepared


def profiles(provider: FakeProvider, cases: Sequence[Case] = small_cases(6)) -> Go:
    job = Profiling(tuple(cases), "openai/profiler", base_url=provider.base_url)
    return lambda budget, at_once: run_job(job, Store(), load_registry(), Options(at_once, budget))


def completions(provider: FakeProvider, cases: Sequence[Case] = small_cases(6)) -> Go:
    job = Completing(tuple(cases), "openai/completer", base_url=provider.base_url)
    return lambda budget, at_once: run_job(job, Store(), load_registry(), Options(at_once, budget))


JOBS: dict[str, Callable[[FakeProvider], Go]] = {
    "campaign": campaign, "re-grading": regrading, "terms": judging("patient_terms"),
    "facts": judging("facts"), "profiles": profiles, "completions": completions,
}  # fmt: skip


@pytest.mark.parametrize(
    "name",  # terms are judged by the same job as facts
    [pytest.param(name, marks=pytest.mark.slow) if name == "terms" else name for name in JOBS],
)
def test_a_budget_holds_across_resumes(name: str, paying: FakeProvider) -> None:
    """The budget is independent of the concurrency: four calls at once, then one at a time."""
    job = JOBS[name](paying)
    paying.requests.clear()
    for budget, at_once, requests in [(0.045, 4, 3), (0.045, 1, 3), (0.08, 1, 5)]:
        job(budget, at_once)
        assert len(paying.requests) == requests


@pytest.mark.parametrize("made", [profiles, completions])
def test_other_cases_have_a_separate_budget(
    made: Callable[[FakeProvider, Sequence[Case]], Go], paying: FakeProvider
) -> None:
    first, second = small_cases(8)[:4], small_cases(8)[4:]
    made(paying, first)(0.045, 1)
    made(paying, second)(0.045, 1)
    assert len(paying.requests) == 6


WAYS_TO_BILL_FOR_NOTHING = {
    "an empty reply": Reply("", usage=(40, 60)),
    "nothing but blanks": Reply(" \n", usage=(40, 60)),
    "a content filter": Reply("I would", finish_reason="content_filter", usage=(40, 60)),
    "a refusal in its own field": Reply("", refusal="No.", usage=(40, 60)),
    "a reply that ends before its end": Reply("one two three", end_after=2, usage=(40, 60)),
    "an error in the middle": Reply("one two three", error_after=2, error={"message": "overloaded"}),
}


@pytest.mark.parametrize("way", WAYS_TO_BILL_FOR_NOTHING)
def test_a_budget_counts_what_is_billed_for_no_reply(paying: FakeProvider, way: str) -> None:
    """$0.05 and 100 tokens at $1,000 a million: half of one request is paid for before the job ends."""
    paying.script = lambda body: WAYS_TO_BILL_FOR_NOTHING[way]
    header = begun(plan(30, arms=FREE, names=beside_rules("openai/doctor"), base_url=paying.base_url))
    at_once = 4
    outcome = carry_out(header, load_registry(), Options(at_once, 0.05))
    assert "budget" in (outcome.stopped or "")
    assert len(paying.requests) <= at_once, "at most one round of calls in flight above it"
    with Store().read() as cursor:
        rows = cursor.execute("SELECT error, cost_usd, prompt_tokens, tokens_estimated FROM calls").fetchall()
    assert rows
    assert all(error and cost for error, cost, *_ in rows)
    spent = sum(cost for _, cost, *_ in rows)
    honest = not way.startswith(("a reply that ends", "an error"))
    if honest:
        assert spent == pytest.approx(0.1 * len(paying.requests), rel=0.01)
    else:  # without usage, tokens are estimated from the prompt and the received words, and marked
        assert all(estimated and prompt > 5 for *_, prompt, estimated in rows)
    requests_before = len(paying.requests)
    again = carry_out(header, load_registry(), Options(at_once, 0.05))
    assert "budget" in (again.stopped or "")
    assert len(paying.requests) == requests_before, "a resumed run remembers its cost"


def grading(provider: FakeProvider) -> Go:
    """A campaign with a free doctor and a paid grader."""
    names = beside_rules("reference/bayes").but(grader="openai/kind")
    header = begun(plan(30, arms=FREE, names=names, base_url=provider.base_url))
    return lambda budget, at_once: carry_out(header, load_registry(), Options(at_once, budget))


JUDGES = {"the grader's seat": grading, **{name: JOBS[name] for name in ("re-grading", "terms", "facts")}}
WAYS_TO_JUDGE_NOTHING = {
    "an empty reply": Reply("", usage=(40, 60)),
    "a content filter": Reply("I would", finish_reason="content_filter", usage=(40, 60)),
    "a reply that is cut": Reply("hm, " * 100, finish_reason="length", usage=(40, 60)),
    "nothing but thoughts": Reply("<think>Is it?</think>", usage=(40, 60)),
    "words that cannot be read": Reply("hm, " * 100, usage=(40, 60)),
}


def spent() -> float:
    fold(Store())
    with Store().read() as cursor:
        ((dollars,),) = cursor.execute("SELECT coalesce(sum(cost_usd), 0) FROM calls").fetchall()
    return float(dollars)


CHANGE_OFTEN = {("the grader's seat", way) for way in WAYS_TO_JUDGE_NOTHING} | {
    (name, "words that cannot be read") for name in JUDGES
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "way"),
    [
        pytest.param(*pair, marks=() if pair in CHANGE_OFTEN else pytest.mark.slow)
        for pair in itertools.product(JUDGES, WAYS_TO_JUDGE_NOTHING)
    ],
)
def test_a_budget_counts_what_a_judge_bills_for_nothing(name: str, way: str, paying: FakeProvider) -> None:
    """$0.05, and $0.10 a request: only the requests in flight at the first charge are paid."""
    job = JUDGES[name](paying)
    paying.script = lambda body: WAYS_TO_JUDGE_NOTHING[way]
    paying.requests.clear()
    spent_before, at_once = spent(), 4
    job(0.05, at_once)
    sent = len(paying.requests)
    assert 1 <= sent <= at_once, "at most one round of calls in flight above it"
    assert spent() - spent_before == pytest.approx(0.1 * sent, rel=0.01), "its charges are recorded"
    job(0.05, at_once)
    assert len(paying.requests) == sent, "a resumed job remembers its cost"
