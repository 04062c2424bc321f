"""MELD end to end against a local server: requests, stored completions, repeated requests, and figures."""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path
from typing import Any

import pytest

from core import paths
from core.case import Case
from core.errors import AnamnesisError
from core.jobs.ask_job import AskOutcome, run_job
from core.jobs.completing import Completing
from core.jobs.engine import Options
from core.jobs.progress import Stop
from core.measures.memorisation import completing_pack, halves, histogram_of, model_rows, variant_of, with_and_without
from core.models.failures import RetryPolicy
from core.models.registry import load_registry
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.completions import completions
from core.store.tables import CompletionRow
from tests.support.fake_provider import running
from tests.support.replies import Reply, failing
from tests.support.thinking_aloud import aloud

VIGNETTES = {
    "known": "A man of forty has had a fever and a cough for ten days and feels very weak today.",
    "new": "A woman of thirty has a painful knee since she fell from her bicycle on Monday morning.",
}


def case(name: str) -> Case:
    return Case(case_key=f"t/{name}", dataset="t", specialty="Other", vignette=VIGNETTES[name], answer="Flu")


CASES = [case("known"), case("new")]


def recalls(body: dict[str, Any]) -> str:
    prompt = body["messages"][-1]["content"]
    parts = halves(VIGNETTES["known"])
    return parts.second if parts.first in prompt else "I cannot recall this text."


def ask(provider_url: str, store: Store, concurrency: int | None = None, **more: Any) -> AskOutcome:
    registry = load_registry(retry=RetryPolicy(attempts=1))
    job = Completing(tuple(CASES), "openai/fake", base_url=provider_url, **more)
    return run_job(job, store, registry, Options(concurrency))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "db.duckdb")


def counts_of(outcome: AskOutcome) -> tuple[int, int, int]:
    return outcome.done, outcome.failed, outcome.kept


def stored(store: Store) -> dict[str, CompletionRow]:
    with store.read() as cursor:
        return {completion.case_key: completion for completion in completions(cursor)}


def test_a_recalled_half_is_flagged_and_another_is_not(store: Store) -> None:
    with running(recalls) as provider:
        assert counts_of(ask(provider.base_url, store)) == (2, 0, 0)
        bodies = provider.bodies
    by_case = stored(store)
    assert by_case["t/known"].similarity == 1.0
    assert by_case["t/new"].similarity is not None
    assert by_case["t/new"].similarity < 0.5
    pair = [by_case[key] for key in ("t/known", "t/new")]
    (row,), counts = model_rows(pair), histogram_of(pair)
    assert (row["n"], row["flagged"], row["failed"], sum(counts), counts[-1]) == (2, 1, 0, 2, 1)
    assert len(bodies) == 2
    for body in bodies:
        text = body["messages"][-1]["content"]
        cut = next(halves(v) for v in VIGNETTES.values() if halves(v).first in text)
        assert cut.second not in text  # the request does not contain the second half
        assert re.search(rf"\b{cut.words} words", text)
        assert "temperature" not in body  # the model's default


def test_recalling_word_for_word_is_a_separate_variant(store: Store) -> None:
    with running(recalls) as provider:
        assert counts_of(ask(provider.base_url, store)) == (2, 0, 0)
        assert counts_of(ask(provider.base_url, store, variant="recall")) == (2, 0, 0)
        assert counts_of(ask(provider.base_url, store, variant="recall")) == (0, 0, 2)
        (_, continuing), (_, verbatim) = [(b, b["messages"][-1]["content"]) for b in provider.bodies[1:3]]
        assert [body.get("temperature") for body in provider.bodies] == [None, None, 0, 0]
    assert "word for word" in verbatim
    assert not [words for words in ("word for word", "recall", "original") if words in continuing]
    with store.read() as cursor:
        stored_completions = completions(cursor)
    rows = {row["variant"]: row for row in model_rows(stored_completions)}
    assert {variant: row.n for variant, row in rows.items()} == {"continue": 2, "recall": 2}
    assert variant_of("0123") == "prompt 0123"


def test_completions_from_before_the_variants_are_recall() -> None:
    # the hash of the former pack, which had one prompt
    text = (paths.PROMPTS / "memorisation" / "complete.md").read_bytes()
    former = hashlib.sha256(b"complete.md\0" + text + b"\0").hexdigest()[:16]
    assert variant_of(former) == "recall"


@pytest.mark.slow
def test_a_slow_case_does_not_delay_the_others(store: Store) -> None:
    """The first of 70 cases takes two seconds; in this time the second worker completes the others."""
    cases = [
        Case(case_key=f"t/{n}", dataset="t", specialty="Other", vignette=f"Case {n} has a fever now.", answer="Flu")
        for n in range(70)
    ]
    progress_reports: list[int] = []

    def script(body: dict[str, Any]) -> Reply:
        slow = "Case 0 " in body["messages"][-1]["content"]
        return Reply("Something.", delay_s=2.0 if slow else 0.0)

    with running(script) as provider:
        job = Completing(tuple(cases), "openai/fake", base_url=provider.base_url)
        began = time.monotonic()
        outcome = run_job(
            job, store, load_registry(), Options(2, on_progress=lambda p: progress_reports.append(p.done))
        )
        assert outcome.done == 70
        order = ["Case 0 " in body["messages"][-1]["content"] for body in provider.bodies]
    assert order[0]
    assert time.monotonic() - began < 30
    with store.read() as cursor:
        times = {completion.case_key: completion.made_at for completion in completions(cursor)}
    assert sum(made_at < times["t/0"] for key, made_at in times.items()) > 40, "others were completed meanwhile"


@pytest.mark.parametrize("form", ["a tag", "a closing tag alone", "reasoning"])
def test_a_model_that_recalls_and_thinks_aloud_is_flagged_all_the_same(store: Store, form: str) -> None:
    with running(aloud(recalls, form)) as provider:
        assert counts_of(ask(provider.base_url, store)) == (2, 0, 0)
    by_case = stored(store)
    assert by_case["t/known"].similarity == 1.0
    assert by_case["t/known"].completion == halves(VIGNETTES["known"]).second
    assert by_case["t/known"].tokens == 11 + 70, "thoughts are paid for"


def test_only_failures_are_requested_again_unless_again_is_set(store: Store) -> None:
    with running([failing(500), Reply("Something.")]) as broken:
        first = ask(broken.base_url, store, concurrency=1)
    assert (first.done, first.failed) == (1, 1)
    assert "server" in first.failure
    failures = [completion for completion in stored(store).values() if completion.completion is None]
    assert all(completion.similarity is None and completion.failure for completion in failures)
    with running(recalls) as provider:
        second = ask(provider.base_url, store)
        assert (second.done, second.kept) == (first.failed, first.done)
        assert ask(provider.base_url, store).kept == 2
        assert ask(provider.base_url, store, again=True).done == 2
        assert len(provider.requests) == first.failed + 2


def test_an_empty_reply_is_a_failure_and_no_low_similarity(store: Store) -> None:
    with running([Reply("")]) as provider:
        outcome = ask(provider.base_url, store)
    assert (outcome.done, outcome.failed) == (0, 2)
    (row,) = model_rows(stored(store).values())
    assert (row["n"], row["failed"], row["flagged"]) == (0, 2, 0)


def test_a_refused_key_ends_the_job(store: Store) -> None:
    with running([failing(401, "no such key")]) as provider, pytest.raises(AnamnesisError, match="key"):
        ask(provider.base_url, store)


def test_a_stop_before_the_first_call_sends_nothing(store: Store) -> None:
    with running(recalls) as provider:
        job = Completing(tuple(CASES), "openai/fake", base_url=provider.base_url)
        outcome = run_job(job, store, load_registry(), stop=Stop("It was asked to stop."))
        assert outcome.done == 0
        assert not provider.requests


def test_accuracy_without_flagged_cases_by_hand() -> None:
    def completion(key: str, similarity: float | None) -> CompletionRow:
        return CompletionRow(key, "h", "m", "p", "a", "b", "b", "", similarity, "{}", 1, None, 0.0)

    stored_completions = [completion(f"{n}", value) for n, value in enumerate((0.99, 0.2, 0.95, 0.94, None), 1)]
    right = {"1": 2, "2": 1, "3": 2, "4": 0, "5": 2, "6": 2}
    scores = [CaseScore("m", "vignette", "mcq", key, None, None, n, 2, {}) for key, n in right.items()]
    capped = [CaseScore("m · at most 4 messages", "vignette", "mcq", "2", None, None, 2, 2, {})]
    row, other = with_and_without(stored_completions, [*scores, *capped])
    assert (other["model"], other.n, other.estimate) == ("m · at most 4 messages", 1, 1.0)
    assert row["model"] == "m"
    # 5 failed and 6 has no completion: the mean of 1–4 is 2.5/4, and 0.5/2 without 1 and 3, which are flagged
    assert (row.n, row.estimate) == (4, pytest.approx(0.625))
    assert (row["n_without"], row["without"]) == (2, pytest.approx(0.25))


def test_the_prompt_pack_has_a_hash() -> None:
    assert completing_pack().hash
