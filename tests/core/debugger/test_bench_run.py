"""All arms of one case in a thread: progress, storing like any run, stops and errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from core.debugger.run import matrix, resume_bench, start_bench, start_edited
from core.debugger.stored import load_bench, load_record, sessions
from core.errors import UsageError
from core.events import Answered, Event, Finished, Utterance
from core.frameworks.casting import CastNames
from core.frameworks.craftmd import CraftMdSettings
from core.journal import journal_path
from core.models.registry import load_registry
from core.store.database import Store
from core.store.queries.runs import run as stored_run
from core.store.queries.runs import run_ids
from tests.core.debugger.bench_stage import ARMS, REFERENCE, bench, campaign
from tests.core.frameworks.stage import CASE, Actors, is_answer, role_of
from tests.core.store.builders import answered, graded
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


@pytest.mark.slow
def test_every_arm_of_every_trial_gets_a_verdict_and_the_run_is_stored(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = Actors()
    run = bench(fake_provider_thread.base_url, trials=3)
    assert run.error is None
    assert (run.progress.done, run.progress.planned) == (3, 3)
    assert run.progress.calls == len(fake_provider_thread.requests)
    assert run.progress.tokens == 18 * run.progress.calls  # 11 + 7 of every call

    rows = run.matrix()
    assert [(row.format, row.question_type) for row in rows] == [
        ("vignette", "mcq"),
        ("vignette", "frq"),
        ("multi_turn", "mcq"),
        ("multi_turn_exam", "frq"),
        ("summarized", "frq"),
    ]
    assert all(row.correct() == (3, 3) for row in rows)
    for number in range(3):  # in the order of the arms, however they finish
        answered_arms = [(e.format, e.question_type) for e in run.snapshot()[number] if isinstance(e, Answered)]
        assert answered_arms == list(ARMS)

    loaded = load_bench(run.run_id)
    assert loaded is not None
    assert loaded.header == run.header
    assert loaded.case == CASE
    assert loaded.events == run.snapshot()
    with Store().read() as cursor:
        stored = stored_run(cursor, run.run_id)
    assert stored is not None
    assert (stored.source, stored.state) == ("bench", "complete")


@pytest.mark.slow
def test_two_runs_of_one_campaign_in_one_second_are_stored_separately() -> None:
    first, second = bench(names=REFERENCE), bench(names=REFERENCE)
    assert first.run_id != second.run_id
    with Store().read() as cursor:
        assert sorted(run_ids(cursor)) == sorted([first.run_id, second.run_id])
    assert load_record(first.trials[0].trial_id) == first.record(0)
    journal_path(first.run_id).unlink()
    record = load_record(first.trials[0].trial_id)
    assert record is not None, "without a journal, the trial is read from the database"
    assert record.header == first.header.model_copy(update={"cases": []})
    assert load_bench("unknown") is None


@pytest.mark.slow
def test_the_matrix_fills_while_the_run_is_running(fake_provider_thread: FakeProvider) -> None:
    """The answer of the fourth arm is delayed: the cells of the others are filled, and this one is waiting."""
    go_on = threading.Event()

    class DelayedExam(Actors):
        def __call__(self, body: dict[str, Any]) -> Any:
            exam = role_of(body) == "doctor" and is_answer(body) and "examination" in str(body["messages"][-1])
            if exam and not go_on.is_set():
                return Reply(status=429, error={"error": {"message": "wait"}}, headers={"Retry-After": "0.05"})
            return super().__call__(body)

    fake_provider_thread.script = DelayedExam()
    run = start_bench(campaign(settings=CraftMdSettings(base_url=fake_provider_thread.base_url)), load_registry())
    until(lambda: sum(row.cells[0].state == "graded" for row in run.matrix()) == 4)
    partial = run.matrix()
    assert [row.cells[0].state for row in partial] == ["graded"] * 3 + ["waiting", "graded"]
    assert partial[3].correct() == (0, 0)
    assert any(isinstance(event, Utterance) for event in run.snapshot()[0])
    assert run.running
    go_on.set()
    run.join(60)
    assert [row.cells[0].verdict() for row in run.matrix()] == ["correct"] * 5


def test_a_run_stopped_without_a_trial_leaves_nothing(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = lambda body: Reply("Since when?", delay_s=60)
    run = start_bench(campaign(settings=CraftMdSettings(base_url=fake_provider_thread.base_url)))
    until(lambda: fake_provider_thread.requests)
    run.stop()
    run.join(30)
    assert not run.running
    assert run.stopped
    assert run.error is None
    assert not journal_path(run.run_id).exists()
    with Store().read() as cursor:
        assert run_ids(cursor) == []


@pytest.mark.slow
def test_at_most_sixteen_arms_are_asked_at_once(fake_provider_thread: FakeProvider) -> None:
    sixteen = Reply(
        "**Final Diagnosis:** Scabies", delay_s=0.05, until=lambda: len(fake_provider_thread.requests) >= 16
    )
    fake_provider_thread.script = [sixteen]
    run = bench(fake_provider_thread.base_url, arms=(("vignette", "mcq"), ("exam_only", "mcq")), trials=12)
    assert run.progress.done == 12
    assert fake_provider_thread.peak == 16  # of 24 calls that could all be made at once


def test_a_wrong_key_ends_the_run_with_a_message(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = [Reply(status=401, error={"error": {"message": "bad key"}})]
    run = bench(fake_provider_thread.base_url, trials=2)
    assert run.error is not None
    assert "key" in run.error
    assert "\n" not in run.error
    assert run.progress.done == 0


def test_a_failed_arm_is_excluded_and_the_others_continue(fake_provider_thread: FakeProvider) -> None:
    refused = Reply(status=400, error={"error": {"message": "no", "code": "content_filter"}})
    fake_provider_thread.script = Actors(
        fault=lambda body: refused if role_of(body) == "doctor" and "A. Scabies" in str(body) else None
    )
    run = bench(fake_provider_thread.base_url)
    cells = {(row.format, row.question_type): row.cells[0] for row in run.matrix()}
    assert (cells["vignette", "mcq"].state, cells["vignette", "mcq"].verdict()) == ("invalid", "refused")
    assert cells["vignette", "frq"].verdict() == "correct"
    assert run.matrix()[0].correct() == (0, 0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cases": ()}, "one case at a time"),
        ({"cases": (CASE, CASE)}, "one case at a time"),
        ({"names": CastNames("human")}, "cannot wait for a person"),
        ({"names": CastNames("openai/gpt-4o")}, "OPENAI_API_KEY"),
        ({"names": CastNames("unknown/x")}, "No model is called"),
        ({"protocol": "consultation"}, "does not ask vignette:mcq"),
        ({"prompts": "no-such-pack"}, "There are no prompts"),
    ],
)
def test_impossible_runs_are_refused_before_the_start(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        start_bench(campaign(**changes))


def test_the_matrix_of_given_events() -> None:
    """Two trials: answers judged twice (the later verdict counts), an invalid one, and one without a verdict yet."""
    first: list[Event] = [
        answered("vignette", "frq"),
        graded("incorrect", "vignette", "frq"),
        graded("correct", "vignette", "frq"),
        answered("vignette", "mcq"),
        graded("correct", "vignette", "mcq", rule="mcq_loose"),
        graded("incorrect", "vignette", "mcq", rule="mcq_strict"),
        Finished(),
    ]
    second: list[Event] = [
        Answered(
            format="vignette", question_type="frq", response=None, status="invalid", reason="refused", detail="filter"
        ),
        answered("vignette", "mcq"),
    ]
    mcq, frq = matrix({1: second, 0: first})
    assert [cell.trial for cell in mcq.cells] == [0, 1]
    assert [cell.verdict() for cell in mcq.cells] == ["correct", None]
    assert mcq.cells[0].verdict("mcq_strict") == "incorrect"
    assert [cell.state for cell in mcq.cells] == ["graded", "answered"]
    assert (mcq.correct(), mcq.correct("mcq_strict")) == ((1, 1), (0, 1))
    assert [cell.verdict() for cell in frq.cells] == ["correct", "refused"]
    assert frq.cells[1].detail == "filter"
    assert frq.correct() == (1, 1)
    assert [row.cells[0].state for row in matrix({0: []}, ARMS)] == ["waiting"] * 5


def test_a_stopped_run_resumes_and_pays_for_no_reply_twice(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = actors = Actors()
    whole = bench(fake_provider_thread.base_url, trials=2)
    unbroken = len(fake_provider_thread.requests)
    fake_provider_thread.requests.clear()
    answered_calls = iter(range(unbroken - 3))

    def hanging(body: dict[str, Any]) -> Any:
        return actors(body) if next(answered_calls, None) is not None else Reply("…", delay_s=60)

    fake_provider_thread.script = hanging
    run = start_bench(campaign(settings=CraftMdSettings(base_url=fake_provider_thread.base_url), trials=2))
    # all other replies have come, and one call hangs
    until(lambda: len(fake_provider_thread.requests) > unbroken - 3 and run.progress.calls >= unbroken - 3)
    run.stop()
    run.join(30)
    assert run.progress.done < 2
    in_flight = len(fake_provider_thread.requests) - (unbroken - 3)
    fake_provider_thread.script = actors
    again = resume_bench(run.run_id)
    again.join(60)
    assert again.error is None
    assert len(fake_provider_thread.requests) == unbroken + in_flight
    assert [[cell.verdict() for cell in row.cells] for row in again.matrix()] == [
        [cell.verdict() for cell in row.cells] for row in whole.matrix()
    ]
    assert load_bench(run.run_id) is not None
    assert (again.progress.done, again.run_id) == (2, run.run_id)


def test_an_edited_prompt_only_repeats_the_changed_requests(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = actors = Actors()
    before = bench(fake_provider_thread.base_url, trials=2)
    requests = len(fake_provider_thread.requests)
    template = before.campaign.pack.prompts["answer_frq"].source
    actors.answer = lambda body: (
        "**Final Diagnosis:** Scabies" if "Name it at once." in str(body) else ("Allergic contact dermatitis")
    )
    actors.extract = lambda body: "Scabies" if "Scabies" in str(body["messages"][-1]) else "Allergic contact dermatitis"
    actors.judge = "No"
    run = start_edited(before.header, CASE, CASE.vignette, {"answer_frq": f"{template.strip()} Name it at once."})
    run.join(60)
    assert run.error is None
    # in each of 2 trials an answer in each of 3 free arms; one extraction and one judgement for all,
    # since all answers are equal
    assert len(fake_provider_thread.requests) - requests == 2 * 3 + 1 + 1
    assert [row.correct() for row in run.matrix()] == [(2, 2), (0, 2), (2, 2), (0, 2), (0, 2)]
    assert [trial.seed for trial in run.trials] == [trial.seed for trial in before.trials]
    assert run.header.prompt_pack.startswith("craftmd-edit-")
    with Store().read() as cursor:
        listed = sessions(cursor)
    assert [(session.run.run_id, session.edited_from) for session in listed] == [
        (run.run_id, before.run_id),
        (before.run_id, ""),
    ]
    with pytest.raises(UsageError, match="Nothing is edited"):
        start_edited(before.header, CASE, f" {CASE.vignette}", {"answer_frq": template})
    with pytest.raises(UsageError, match="cannot use nonsense"):
        start_edited(before.header, CASE, CASE.vignette, {"answer_frq": "{{ nonsense }}"})


@pytest.mark.slow
def test_an_edited_vignette_is_another_case_with_the_same_seeds() -> None:
    before = bench(names=REFERENCE, trials=2)
    story = CASE.vignette.replace("30-year-old woman", "63-year-old man")
    run = start_edited(before.header, CASE, story, {})
    run.join(60)
    assert run.error is None
    assert (run.case.case_key, run.case.age, run.case.sex, run.case.profile) == ("edited/1", 63, "male", None)
    assert [trial.seed for trial in run.trials] == [trial.seed for trial in before.trials]
    again = start_edited(run.header, run.case, CASE.vignette, {})
    again.join(60)
    assert (again.case.case_key, again.case.age) == ("edited/1", 30)
    assert [trial.seed for trial in again.trials] == [trial.seed for trial in before.trials]
    loaded = load_bench(run.run_id)
    assert loaded is not None
    assert (loaded.case, loaded.header.edited) == (run.case, run.header.edited)
