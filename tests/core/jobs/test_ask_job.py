"""A toy job declared in an extensions folder gets its command, estimate, budget, stop and resume."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from core.errors import AnamnesisError
from core.jobs.ask_job import AskJob, begin_job, estimate_job, job_of, run_job
from core.jobs.engine import Options
from core.jobs.progress import Stop
from core.models.failures import RetryPolicy
from core.models.registry import Registry, load_registry
from core.store.database import Store
from core.store.fold import fold
from tests.core.jobs.workshop import environment, small_cases
from tests.support.commands import in_turn
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, failing

TOY = '''
"""Asks a model for the first word of a vignette."""

import time
from dataclasses import dataclass
from typing import Annotated

from core.asking.ask import Request
from core.asking.parts import instruction_part
from core.case import Case
from core.jobs.ask_job import ItemResult, JobPlan, OfCases, RequestJob, journal_of
from core.prompts import load_pack
from core.store.queries.history_items import opened_by, opening_row
from core.store.rows import row_line


def read(text: str) -> str:
    if len(text.split()) != 1:
        raise ValueError("it is not one word")
    return text


@dataclass(frozen=True)
class FirstWords(OfCases, RequestJob[Case]):
    """Ask for the first word of each vignette."""

    name, title, verb, participle = "first_words", "First words", "read", "read"
    role, reply_tokens = "profiler", 2

    cases: tuple[Case, ...]
    model: Annotated[str, "Who is asked."]
    aloud: Annotated[bool, "Ask for it in capitals."] = False

    @property
    def pack(self):
        return load_pack("memorisation", ("continue",))

    def plan(self, store, registry):
        model = registry.spec(self.model).name
        with store.read() as cursor:
            before = opened_by(cursor, f"toy {model}")
        todo = [case for case in self.cases if (case.case_key, case.content_hash) not in before]
        part = self.part(journal_of("toy", model), todo, self.cases)
        return JobPlan(model, [part], len(self.cases) - len(todo), [model])

    def request(self, item, pack):
        prompt = instruction_part(pack, "continue", first_half=item.vignette, words=1)
        return Request("continue", [prompt], "profiler", "profile", read, "one word")

    def answer(self, item, reply, seat):
        if reply.value is None:
            return reply.answer()
        row = opening_row(item, reply.value, f"toy {seat.voice.model.name}", time.time())
        return reply.answer(row_line(row), letters=len(reply.value))
'''
CASES = small_cases(4)
OWN = '[models."openai/fake"]\nprices = { input = 1000.0, output = 1000.0 }\n'
"""A call of 11 + 7 tokens costs $0.018."""


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> type[AskJob[Any]]:
    path = tmp_path_factory.mktemp("extensions") / "jobs" / "first_words.py"
    path.parent.mkdir()
    path.write_text(TOY)
    spec = importlib.util.spec_from_file_location("toy_job", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["toy_job"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.FirstWords  # type: ignore[no-any-return]


@pytest.fixture
def provider(fake_provider_thread: FakeProvider) -> FakeProvider:
    fake_provider_thread.script = lambda body: "Word"
    return fake_provider_thread


@pytest.fixture(autouse=True)
def priced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAMNESIS_MODELS", str(tmp_path / "models.toml"))
    (tmp_path / "models.toml").write_text(OWN)


def registry() -> Registry:
    """A new registry: a job closes its registry when it ends."""
    return load_registry(retry=RetryPolicy(attempts=1))


def words(store: Store) -> list[str]:
    with store.read() as cursor:
        rows = cursor.execute("SELECT items FROM case_lists ORDER BY case_key").fetchall()
    return [json.loads(items)[0]["value"] for (items,) in rows]


def test_the_estimate_is_that_of_the_requests(toy: Any, provider: FakeProvider) -> None:
    job = toy(tuple(CASES), "openai/fake", base_url=provider.base_url)
    size = estimate_job(job, Store(), registry())
    run_job(job, Store(), registry())
    sent = sum(len(str(body["messages"][0]["content"]).split()) for body in provider.bodies)
    (role,) = size.roles
    assert (size.counts, role.calls, role.completion_tokens) == ({"cases to read": 4, "read before": 0}, 4, 4 * 2)
    assert role.prompt_tokens == pytest.approx(sent * 4 / 3, abs=1)
    assert estimate_job(job, Store(), registry()).todo == 0


def test_a_long_job_is_estimated_from_a_sample_of_its_requests(toy: Any) -> None:
    cases = tuple(small_cases(500))
    size = estimate_job(toy(cases, "openai/fake"), Store(), registry())
    few = estimate_job(toy(cases[:50], "openai/fake"), Store(), registry())
    assert size.calls == 500
    assert size.roles[0].prompt_tokens == pytest.approx(10 * few.roles[0].prompt_tokens, rel=0.05)


def test_a_job_stopped_by_its_budget_resumes_without_repeated_requests(toy: Any, provider: FakeProvider) -> None:
    job = toy(tuple(CASES), "openai/fake", base_url=provider.base_url)
    first = run_job(job, Store(), registry(), Options(1, 0.03))
    assert (first.done, first.remaining, first.stopped) == (2, 2, "The budget of $0.03 is used up.")
    assert run_job(job, Store(), registry(), Options(1, 0.03)).calls == 0, "earlier cost counts"
    assert run_job(job, Store(), registry()).stopped == first.stopped, "the same again has the same budget"
    assert any("--budget-usd" in words for words in type(job).shortfall(first))
    rest = run_job(job, Store(), registry(), Options(1, math.inf))
    assert (rest.done, rest.kept, rest.stopped, len(provider.requests)) == (2, 2, None, 4)
    assert rest.counts["letters"] == 2 * len("Word")
    Store().path.unlink()
    fold(Store())
    assert words(Store()) == ["Word"] * 4
    assert run_job(job, Store(), registry()).kept == len(provider.requests) == 4


def test_a_job_stopped_between_two_requests_reuses_the_first_reply(toy: Any, provider: FakeProvider) -> None:
    job, stop = toy(tuple(CASES[:1]), "openai/fake", base_url=provider.base_url), Stop()

    def two_words(body: dict[str, Any]) -> str:
        stop.ask("It was asked to stop.", at_once=False)
        return "Two words"

    provider.script = two_words
    assert run_job(job, Store(), registry(), Options(1), stop).remaining == 1
    provider.script = lambda body: "Word"
    outcome = run_job(job, Store(), registry())
    assert (outcome.done, outcome.calls, len(provider.requests)) == (1, 1, 2)
    assert provider.bodies[-1]["messages"][1]["content"] == "Two words", "the repair quotes the reply"


def test_failed_calls_and_unusable_replies_count_as_failures(toy: Any, provider: FakeProvider) -> None:
    replies: dict[str, Any] = {"A": failing(400, "too long"), "B": Reply("Two words")}
    broken, useless = CASES[0].vignette, CASES[1].vignette
    provider.script = lambda body: (
        replies["A"]
        if broken in str(body["messages"][0]["content"])
        else replies["B"]
        if useless in str(body["messages"][0]["content"])
        else "Word"
    )
    job = toy(tuple(CASES), "openai/fake", base_url=provider.base_url)
    outcome = run_job(job, Store(), registry(), Options(1))
    assert (outcome.done, outcome.failed, outcome.stopped) == (2, 2, None)
    reasons = dict(outcome.remarks)
    assert "too long" in reasons[CASES[0].case_key]
    assert "it is not one word" in reasons[CASES[1].case_key]
    assert words(Store()) == ["Word"] * 2
    provider.script = lambda body: "Word"
    assert run_job(job, Store(), registry()).done == 2


def test_a_refused_key_ends_the_job_with_a_message(toy: Any, provider: FakeProvider) -> None:
    provider.script = lambda body: failing(401, "who are you?")
    with pytest.raises(AnamnesisError, match="key"):
        run_job(toy(tuple(CASES), "openai/fake", base_url=provider.base_url), Store(), registry())


def test_a_page_can_start_watch_and_stop_a_job(toy: Any, provider: FakeProvider) -> None:
    provider.script = lambda body: Reply("Word", delay_s=60)
    job = toy(tuple(CASES), "openai/fake", base_url=provider.base_url)
    work = begin_job(job)
    assert job_of(toy) is work
    assert begin_job(job) is work, "one at a time"
    while not provider.requests:
        work.join(0.01)
    work.stop()
    work.join(30)
    assert work.result is not None
    assert (work.result.done, work.result.stopped) == (0, "It was asked to stop.")


@pytest.mark.slow
def test_a_declared_job_has_a_command(db: Path, provider: FakeProvider, tmp_path: Path) -> None:
    folder = tmp_path / "extensions"
    (folder / "jobs").mkdir(parents=True)
    (folder / "jobs" / "first_words.py").write_text(TOY)
    variables = environment(db, ANAMNESIS_EXTENSIONS=str(folder), ANAMNESIS_MODELS=str(tmp_path / "models.toml"))
    job = ("job", "first_words", "--cases", "library", "--limit", "2", "--model", "openai/fake")
    job = (*job, "--base-url", provider.base_url)
    commands = [("job", "--help"), (*job[:2], "--help"), (*job, "--dry-run"), job, job]
    listed, help_, dry, first, again = in_turn(variables, *commands)
    assert "first_words" in listed.stdout
    assert "--aloud" in help_.stdout
    assert "Ask for it in capitals." in help_.stdout
    assert dry.stdout.startswith("2 cases to read, 0 read before.\nAbout 2 calls,")
    assert "2 cases read by openai/fake." in first.stdout
    assert "2 were read before and are unchanged." in again.stdout
    assert len(provider.requests) == 2
