"""A model fills in the form of a review: blinded, with checked quotations, and apart from people."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.cli.app import main
from core.errors import UsageError
from core.jobs.ask_job import AskOutcome, run_job
from core.jobs.engine import Options
from core.jobs.raters import VOID, answers_in
from core.jobs.rating import FormRating
from core.judging.form import FormQuestion
from core.measures.base import MetricRequest, Row
from core.measures.experts.ratings import report
from core.models import keys
from core.models.registry import load_registry
from core.reviews.answering import record
from core.reviews.reviewing import plan_review, unblind
from core.reviews.state import state_of
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.model_ratings import model_ratings
from core.store.review_records import Review, planned
from tests.core.measures.experts.reviews import store_conversations
from tests.support.fake_provider import FakeProvider, running
from tests.support.replies import failing

MODEL = "openai/rater"
FORM = """
title: Manners
subject: conversation
decision: majority
questions:
  - {id: polite, title: Polite, wording: "Is the doctor polite?", cannot_judge: true}
  - {id: warm, title: Warmth, wording: "How warm is the doctor?", form: scale, options: {1: Cold, 2: Neutral, 3: Warm}}
  - {id: words, title: Words, wording: "Which words?", form: span, optional: true}
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANAMNESIS_MODELS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(keys, "SECRETS", tmp_path / "secrets.toml")
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "a.duckdb"))
    (tmp_path / "reviews").mkdir()
    (tmp_path / "reviews" / "manners.yaml").write_text(FORM)
    return store_conversations(Store(tmp_path / "a.duckdb"))


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with running([]) as fake:
        fake.script = lambda body: reply()
        yield fake


def reply(words: str = "What brings you in?", polite: str = "yes", warm: object = 2, message: int = 0) -> str:
    quoted = {"message": message, "words": words, "reason": "It says so."}
    answers = [{"id": "polite", **quoted, "answer": polite}, {"id": "warm", **quoted, "answer": warm}]
    return json.dumps({"answers": answers})


def a_review(store: Store, number: int = 6, **fields: object) -> Review:
    plan = planned(kind="manners", number=number, annotators=("Ada", "Ben"), shared=1.0, seed=1, **fields)
    return plan_review(store, "Manners", plan)


def rate(provider: FakeProvider, store: Store, **options: Any) -> AskOutcome:
    job = FormRating("Manners", MODEL, base_url=provider.base_url, **options)
    return run_job(job, store, load_registry(), Options(1))


def ratings_of(store: Store) -> list[Any]:
    with store.read() as cursor:
        return model_ratings(cursor, "manners", [item.item for item in state_of(store, "Manners").items])


def rows(store: Store, part: str, **options: Any) -> tuple[list[Row], MetricRequest]:
    request = MetricRequest(store)
    listed = list(report.rows(request, review="Manners", part=part, **options))
    return [row for row in listed if isinstance(row, Row)], request


def test_a_model_rates_blinded_items_once_and_apart_from_people(store: Store, provider: FakeProvider) -> None:
    a_review(store)
    outcome = rate(provider, store)
    assert (outcome.done, outcome.failed, outcome.counts["void"]) == (6, 0, 0)
    sent = str(provider.requests[0])
    assert "I itch since day" in sent
    assert "secret" not in sent  # neither the models' names nor what a doctor says of itself
    assert {(r.question, r.value) for r in ratings_of(store)} == {("polite", "yes"), ("warm", "2")}
    assert state_of(store, "Manners").newest == {}
    requests = len(provider.requests)
    assert rate(provider, store).kept == 6
    assert len(provider.requests) == requests
    before = ratings_of(store)
    store.path.unlink()
    fold(store)
    assert ratings_of(store) == before


@pytest.mark.slow
def test_another_wording_of_the_form_is_another_rater(store: Store, provider: FakeProvider) -> None:
    a_review(store)
    rate(provider, store, limit=2)
    form = store.path.parent / "reviews" / "manners.yaml"
    form.write_text(FORM.replace("Is the doctor polite?", "Is the doctor civil?"))
    plan_review(store, "Again", planned(kind="manners", number=6, annotators=("Ada",), shared=0.0, seed=1))
    job = FormRating("Again", MODEL, base_url=provider.base_url)
    assert run_job(job, store, load_registry(), Options(1)).done == 6
    assert len({rating.prompt_hash for rating in ratings_of(store)}) == 2


def test_invented_words_void_an_answer_and_words_of_another_message_are_repaired(
    store: Store, provider: FakeProvider
) -> None:
    a_review(store)
    provider.script = lambda body: reply("I am a Nobel laureate")
    outcome = rate(provider, store, limit=2)
    assert (outcome.done, outcome.counts["void"]) == (2, 4)
    assert {(r.value, r.failure, r.quotations[0].status) for r in ratings_of(store)} == {(None, VOID, "unverified")}
    provider.script = lambda body: reply("brings  YOU in", message=1)
    rate(provider, store)
    repaired = [r.quotations[0] for r in ratings_of(store) if r.value]
    assert {(q.message, q.words, q.status) for q in repaired} == {(0, "brings you in", "repaired")}


def test_an_answer_outside_the_options_is_requested_again_and_a_failure_counts_nowhere(
    store: Store, provider: FakeProvider
) -> None:
    a_review(store)
    provider.script = lambda body: reply(polite="perhaps") if len(provider.requests) == 1 else reply()
    assert rate(provider, store, limit=1).done == 1
    assert len(provider.requests) == 2
    provider.script = lambda body: failing(400, "too long")
    assert rate(provider, store, limit=2).failed == 1
    provider.script = lambda body: "I cannot."
    assert rate(provider, store, limit=2).failed == 1
    assert len({rating.item for rating in ratings_of(store)}) == 1
    provider.script = lambda body: reply()
    assert rate(provider, store, limit=2).done == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"answers": [{"id": "q", "answer": "1"}, {"id": "q", "answer": "2"}]}', "answered twice"),
        ('{"answers": [{"id": "other", "answer": "1"}]}', "other, q"),
        ('{"answers": [{"id": "q", "answer": "7"}]}', "enter 1, 2"),
    ],
)
def test_a_faulty_reply_has_a_reason_that_the_model_can_act_on(text: str, why: str) -> None:
    question = FormQuestion.model_validate({"id": "q", "title": "Q", "wording": "W", "options": {"1": "a", "2": "b"}})
    with pytest.raises(ValueError, match=why):
        answers_in(text, [question], {})


@pytest.mark.slow
def test_agreement_with_people_and_that_few_people_do_not_calibrate(store: Store, provider: FakeProvider) -> None:
    """People: warmth 2 and 2 on items 1 to 3, 3 and 2 on the others. The model says 2 of all, and polite of all."""
    review = a_review(store)
    rate(provider, store)
    for item in state_of(store, review.review_id).items:
        for annotator in ("Ada", "Ben"):
            record(store, "Manners", item.number, annotator, "polite", "no" if item.number == 6 else "yes")
            warm = "3" if annotator == "Ada" and item.number > 3 else "2"
            record(store, "Manners", item.number, annotator, "warm", warm)
    with pytest.raises(UsageError, match="blinded"):
        rows(store, "models")
    unblind(store, "Manners", "Ada")
    figures, request = rows(store, "models")
    values = {(row.label["question"], row.label["measure"]): row for row in figures}
    polite = values["Polite", "percent agreement"]
    assert (polite.estimate, polite.n) == (pytest.approx(5 / 6), 6)
    assert polite.low is not None
    assert polite.low < 5 / 6 < (polite.high or 0)
    assert values["Polite", "Cohen's kappa"].estimate == pytest.approx(0)  # the model never says no
    # pairs of the model and a person: of three items both agree; of three one agrees, and one is a point apart (2/3)
    expected = (3 + 3 * (1 + 2 / 3) / 2) / 6
    assert values["Warmth", "percent agreement"].estimate == pytest.approx(expected)
    assert {row.more["status"] for row in figures} == {"not calibrated"}
    assert [note.severity for note in request.notes] == ["high"]
    figures, request = rows(store, "models", least_items=6, least_agreement=0.8)
    assert {row.more["status"] for row in figures} == {"calibrated"}
    assert request.notes == []

    people, _ = rows(store, "means")
    assert sum(row.n or 0 for row in people) == 6
    assert all(row.estimate == pytest.approx(2.25, abs=0.3) for row in people)
    model, request = rows(store, "means", rater=MODEL)
    assert {row.estimate for row in model} == {2.0}
    assert request.notes[0].severity == "high"


def test_void_and_unjudged_answers_are_excluded_and_counted(store: Store, provider: FakeProvider) -> None:
    review = a_review(store)
    script = iter([reply("nowhere said"), reply(polite="cannot judge"), *[reply()] * 4])
    provider.script = lambda body: next(script)
    rate(provider, store)
    for item in state_of(store, review.review_id).items[:5]:
        for annotator in ("Ada", "Ben"):
            record(store, "Manners", item.number, annotator, "polite", "yes")
    unblind(store, "Manners", "Ada", "early")
    polite = next(row for row in rows(store, "models")[0] if row.label["question"] == "Polite")
    excluded = Counter(polite.excluded)
    assert excluded["void"] == 1
    assert excluded["the model cannot judge"] == 1
    assert (polite.n or 0) + excluded.total() == 6


@pytest.mark.slow
def test_the_command_rates_the_rest_of_the_pool(
    store: Store, provider: FakeProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    a_review(store, number=2)
    arguments = ["job", "ratings", "Manners", "--model", MODEL, "--base-url", provider.base_url]
    assert main([*arguments, "--all", "--dry-run"]) == 0
    assert "12 items to rate" in capsys.readouterr().out
    assert main(arguments) == 0
    assert main([*arguments, "--all", "--limit", "5"]) == 0
    assert "3 items rated" in capsys.readouterr().out
    unblind(store, "Manners", "Ada", "early")
    figures, _ = rows(store, "means", rater=MODEL)
    assert sum(row.n or 0 for row in figures) == 5
    assert main(["job", "ratings", "No such review", "--model", MODEL]) == 2


@pytest.mark.slow
def test_a_form_without_options_is_refused(store: Store, provider: FakeProvider) -> None:
    plan_review(
        store, "Own words", planned(kind="baseline", number=1, annotators=("Ada",), shared=0.0, case_set="library")
    )
    job = FormRating("Own words", MODEL, base_url=provider.base_url)
    with pytest.raises(UsageError, match="answer vignettes in a run"):
        run_job(job, store, load_registry(), Options(1))
