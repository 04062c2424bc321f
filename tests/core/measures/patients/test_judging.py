"""A model judges stored conversations through a local server: terms, repeated requests, stop, resume and budget."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.asking.scene import Turn
from core.errors import AnamnesisError, UsageError
from core.jobs.ask_job import AskOutcome, estimate_job, run_job
from core.jobs.engine import Options
from core.jobs.judge import Judging
from core.jobs.progress import Progress, Stop
from core.judging.form import form_named
from core.judging.request import Material, answers_in, judging_pack
from core.models.failures import RetryPolicy
from core.models.registry import Registry, load_registry
from core.models.settings import default_paths
from core.store.database import Store
from core.store.queries.judgements import judgements
from tests.core.measures.patients.patient_conversations import stored
from tests.support.fake_provider import running
from tests.support.replies import NO_PLACES, Reply, Script, failing, prompt_of
from tests.support.stores import copy_of

PAPULES = ((5, "papules"),)


def latin(body: dict[str, Any]) -> str:
    """Answer as a judge that names one term of the reply, and one that is not in it."""
    match = re.search(r"^\[(\d+)\] Patient: .*papules", prompt_of(body), re.MULTILINE)
    places = [{"message": int(match[1]), "words": words} for words in ("papules", "urticaria")] if match else []
    return f"Here it is:\n```json\n{json.dumps({'q1': {'quotations': places}})}\n```"


def registry(prices: Path | None = None) -> Registry:
    return load_registry(default_paths() + ([prices] if prices else []), retry=RetryPolicy(attempts=1))


def judged(
    store: Store, script: Script, *, limit: int | None = None, stop: Stop | None = None, **options: Any
) -> tuple[AskOutcome, list[dict[str, Any]]]:
    with running(script) as provider:
        job = Judging("patient_terms", ("openai/fake",), limit=limit, base_url=provider.base_url)
        outcome = run_job(job, store, registry(), Options(**{"concurrency": 1, **options}), stop)
        return outcome, provider.bodies


Found = tuple[tuple[tuple[int, str], ...] | None, str]
"""The terms with their messages, ``None`` if the judging failed; and the failure."""


def stored_judgements(store: Store) -> dict[str, Found]:
    with store.read() as cursor:
        return {
            judgement.subject.removeprefix("talk:"): (
                None
                if judgement.value is None
                else tuple((q.message, q.words) for q in judgement.quotations if q.state != "unverified"),
                judgement.failure,
            )
            for judgement in judgements(cursor, ["patient_terms"])
        }


def fill(store: Store) -> None:
    stored(store.path)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


def test_terms_are_stored_invented_words_dropped_and_a_second_job_sends_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[tuple[int, int]] = []

    def show(progress: Progress) -> None:
        reports.append((progress.done, progress.planned))

    outcome, bodies = judged(store, latin, concurrency=8, on_progress=show)
    assert (reports[0], reports[-1]) == ((0, 4), (4, 4))
    assert (outcome.done, outcome.counts["dropped"], outcome.failed, outcome.stopped) == (4, 1, 0, None)
    assert (outcome.calls, outcome.tokens) == (4, 4 * (11 + 7))
    assert {body["temperature"] for body in bodies} == {0}
    found = stored_judgements(store)
    assert found.pop("m1/1/0") == (PAPULES, "")
    assert [terms for terms, _ in found.values()] == [(), (), ()]
    repeated, bodies = judged(store, latin)
    assert (repeated.done, repeated.kept, bodies) == (0, 4, [])
    rule = Judging("patient_terms", ("reference/terms",))
    assert run_job(rule, store, registry(), Options(1)).done == 4
    with store.read() as cursor:
        by_rule = {answer.subject: answer for answer in judgements(cursor, ["patient_terms"], kinds=["rule"])}
    assert [(q.message, q.words) for q in by_rule["talk:m1/1/0"].quotations] == [(5, "papules"), (5, "pruritus")]
    assert [by_rule[f"talk:{trial}"].value for trial in found] == ["0", "0", "0"]
    with store.read() as cursor:
        rows = cursor.execute("SELECT trial_id, calls FROM judgements WHERE judge_kind = 'model'").fetchall()
        (call_id,) = dict(rows)["m1/1/0"]
        ((request, response),) = cursor.execute(
            "SELECT request, response FROM calls WHERE call_id = ?", [call_id]
        ).fetchall()
    assert "[5] Patient: I have a few papules" in prompt_of(json.loads(request))
    assert "urticaria" in response
    another = replace(judging_pack(), hash="another")
    monkeypatch.setattr("core.jobs.judge.judging_pack", lambda: another)
    assert judged(store, latin)[0].done == 4  # with other prompts it is another judge


def test_an_unreadable_answer_is_requested_again_with_the_reason(store: Store) -> None:
    outcome, bodies = judged(store, ["I see none.", '{"q1": {"quotations": "none"}}', NO_PLACES], limit=1)
    assert (outcome.done, outcome.failed, outcome.calls, outcome.tokens) == (1, 0, 3, 54)
    first, second, third = ([message["content"] for message in body["messages"]] for body in bodies)
    assert second[:-1] == [*first, "I see none."]
    assert "no JSON object" in second[-1]
    assert third[:-1] == [*second, '{"q1": {"quotations": "none"}}']
    assert "quotations" in third[-1]


def test_an_answer_that_stays_unreadable_is_a_failure_and_is_judged_again(store: Store) -> None:
    outcome, bodies = judged(store, ["None."], limit=1)
    assert (outcome.done, outcome.failed, len(bodies)) == (0, 1, 2)
    assert "no readable answer in 2 tries" in outcome.failure
    assert list(stored_judgements(store).values()) == [(None, outcome.failure)]
    assert judged(store, latin, limit=1)[0].done == 1
    ((terms, failure),) = stored_judgements(store).values()
    assert (terms is not None, failure) == (True, "")


def test_a_providers_failure_is_no_judgement(store: Store) -> None:
    outcome, _ = judged(store, [failing(500), Reply(NO_PLACES)])
    assert (outcome.done, outcome.failed) == (3, 1)
    assert outcome.failure.startswith("server: ")
    assert [terms for terms, _ in stored_judgements(store).values()].count(None) == 1
    assert judged(store, latin)[0].done == 1


def test_a_later_failure_does_not_replace_a_judgement(store: Store) -> None:
    judged(store, latin)
    with store.write() as connection:
        connection.execute(
            "INSERT INTO judgements SELECT * REPLACE (NULL AS value, 'late' AS failure, judged_at + 1 AS judged_at) "
            "FROM judgements"
        )
    assert {failure for _, failure in stored_judgements(store).values()} == {""}


@pytest.mark.slow
def test_a_stopped_job_stores_its_judgements_and_continues(store: Store) -> None:
    stop = Stop()

    def then_stop(body: dict[str, Any]) -> str:
        stop.ask("It was asked to stop.")
        return latin(body)

    outcome, bodies = judged(store, [NO_PLACES], limit=2)
    assert (outcome.done, outcome.remaining) == (2, 0)
    first = set(stored_judgements(store))
    outcome, bodies = judged(store, then_stop, stop=stop)
    assert outcome.stopped == "It was asked to stop."
    assert len(bodies) == 1
    assert outcome.done + outcome.remaining == 2
    assert first <= set(stored_judgements(store))  # the first two of four are still stored
    outcome, bodies = judged(store, latin)
    assert outcome.done == len(bodies) == 4 - outcome.kept
    assert len(stored_judgements(store)) == 4


def test_a_refused_key_and_a_broken_provider_end_the_job(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AnamnesisError, match="key"):
        judged(store, [failing(401, "no such key")])
    monkeypatch.setattr("core.jobs.engine.GIVE_UP", 2)
    outcome, _ = judged(store, [failing(500)])
    assert (outcome.failed, outcome.remaining) == (2, 2)
    assert "2 times in a row" in str(outcome.stopped)


def test_the_estimate_and_what_cannot_be_run(store: Store, tmp_path: Path) -> None:
    size = estimate_job(Judging("patient_terms", ("openai/fake",)), store, registry())
    assert (size.todo, size.counts["answered before"], size.calls, size.cost_usd) == (4, 0, 4, None)
    judged(store, latin, limit=3)
    assert estimate_job(Judging("patient_terms", ("openai/fake",)), store, registry()).todo == 1
    assert estimate_job(Judging("patient_terms", ("openai/other",)), store, registry()).todo == 4
    with pytest.raises(UsageError, match="budget needs prices"):
        run_job(
            Judging("patient_terms", ("openai/fake",), base_url="https://models.example.org/v1"),
            store,
            registry(),
            Options(budget_usd=1.0),
        )
    with pytest.raises(AnamnesisError, match="nothing to judge"):
        estimate_job(Judging("patient_terms", ("openai/fake",)), Store(tmp_path / "empty.duckdb"), registry())


def test_each_term_is_the_patients_in_whatever_message() -> None:
    form = form_named("patient_terms")
    spoken = (
        Turn("doctor", "Any spots?"),
        Turn("patient", "Spots and itching."),
        Turn("doctor", "Since when?"),
        Turn("patient", "Since my MI in May I have papules and pruritus."),
    )
    # message, words → whether the place counts
    rows = {(3, "papules"): True, (3, " Papules "): True, (3, "MI"): True, (3, "erythema"): False, (1, "papules"): True}
    rows |= {(2, "spots"): True, (9, "papules"): True, (3, "papule"): False, (0, "Since when"): False}
    wrong = []
    for (message, words), counts in rows.items():
        reply = {"q1": {"quotations": [{"message": message, "words": words}, {"message": 3, "words": "pruritus"}]}}
        (answer,) = answers_in(json.dumps(reply), form, form.questions, Material(spoken))
        if (answer.value, answer.dropped) != (("2", 0) if counts else ("1", 1)):
            wrong.append((message, words, answer.value, answer.dropped))
    assert not wrong


def test_what_a_medical_term_is_stands_in_the_same_words_for_models_and_people() -> None:
    """But for the examples, which models quote."""
    people = form_named("conversations").question("medical_terms")
    (models,) = form_named("patient_terms").questions
    assert people is not None
    definition, everyday = re.split(r", such as [^.]*\. ", people.guidance)
    assert models.guidance.startswith(definition)
    assert everyday in models.guidance
