"""A solver answers from the beginnings of conversations: its prompts, its cost, and figures by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from core.asking.scene import Turn
from core.errors import AnamnesisError, UsageError
from core.events import Event
from core.frameworks.consultation.jobs import Solving
from core.frameworks.consultation.measures.prefixes import ASKED_AT, beginnings, prefix_rows, read_prefixes
from core.jobs.ask_job import AskOutcome, estimate_job, run_job
from core.jobs.engine import Options
from core.jobs.progress import Stop
from core.measures.base import Row
from core.models.failures import RetryPolicy
from core.models.registry import Registry, load_registry
from core.models.settings import SHIPPED
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.runs import spending
from core.store.selection import Selection
from tests.core.store.builders import Ended, Finished, Utterance, a_case, a_header, a_trial, write_journal
from tests.support.fake_provider import FakeProvider
from tests.support.replies import content_filtered, failing
from tests.support.stores import copy_of

ARMS = [("multi_turn", "mcq"), ("multi_turn", "frq")]
CASES = [a_case(n, vignette=f"A girl of {n + 10} years itches.", profile=None) for n in (1, 2)]
CLUE = "It is in the folds of my elbows."
TWO = ("Hello?", "I itch, one.", "Since when?", "For years.", "Where?", CLUE, "**Final Diagnosis:** Eczema")
"""Two exchanges; the clue is in the last: at 100 % of the dialogue."""
FIVE = (
    "Hello?", "I itch, two.", "Since when?", "For long.", "Where?", CLUE, "Fever?", "No, none.", "Pets?", "A cat.",
    "Any pain?", "None at all.", "**Final Diagnosis:** Psoriasis",
)  # fmt: skip
"""Five exchanges; the clue is in the second: from 40 % of the dialogue."""
CALLS = 3 + 6
"""Distinct beginnings: the dialogue of two exchanges has 3 for the six shares, the one of five exchanges has 6."""


def turns(*texts: str) -> tuple[Turn, ...]:
    return tuple(Turn("patient" if n % 2 else "doctor", text) for n, text in enumerate(texts))


def a_conversation(run_id: str, number: int, texts: Iterable[str], reason: str = "final_diagnosis") -> Any:
    stream: list[Event] = [Utterance(turn=n, role=turn.role, text=turn.text) for n, turn in enumerate(turns(*texts))]
    stream += [Ended(reason=reason, doctor_turns=2), Finished(at=9.0)]  # type: ignore[arg-type]
    return a_trial(stream, trial_id=f"{run_id}/{number}", run_id=run_id, case_key=f"ours/{number}")


def two_conversations(store: Store) -> None:
    """Write a run with three conversations: two exchanges, five exchanges, and one that a provider ended."""
    cases = [*CASES, a_case(3)]
    header = a_header(cases=cases, arms=ARMS, grader="reference/names", trials=1)
    conversations = [
        a_conversation("run", 1, TWO),
        a_conversation("run", 2, FIVE),
        a_conversation("run", 3, TWO, "error"),
    ]
    write_journal(store.journals, "run", header, *conversations)
    fold(store)


@pytest.fixture
def store(db: Path) -> Store:
    return copy_of(two_conversations, db.parent)


def attentive(body: dict[str, Any]) -> str:
    """Answer correctly if the dialogue contains the clue; a grader accepts eczema."""
    prompt = str(body["messages"][-1]["content"])
    if "grader" in body["model"]:
        return "Eczema" if "Yes" not in prompt and "same" not in prompt.lower() else "Yes"
    return "Eczema" if CLUE in prompt else "Psoriasis"


@pytest.fixture
def solver(fake_provider_thread: FakeProvider) -> FakeProvider:
    fake_provider_thread.script = attentive
    return fake_provider_thread


def registry(*own: Path) -> Registry:
    return load_registry([SHIPPED, *own], retry=RetryPolicy(attempts=1))


def solved(
    store: Store,
    provider: FakeProvider,
    *,
    stop: Stop | None = None,
    own: tuple[Path, ...] = (),
    budget_usd: float | None = None,
    **fields: Any,
) -> AskOutcome:
    """Run ``openai/solver`` on choices, one conversation after the other; ``fields`` change the job."""
    all_fields = {"solver": "openai/solver", "question": "mcq", "base_url": provider.base_url, **fields}
    return run_job(Solving(**all_fields), store, registry(*own), Options(1, budget_usd), stop)


def points_of(store: Store, **chosen: Any) -> dict[int, Row]:
    return {row["per_cent"]: row for row in prefix_rows(*read_prefixes(store, Selection(**chosen)))}


def rows_of(store: Store) -> list[tuple[Any, ...]]:
    with store.read() as cursor:
        return cursor.execute("SELECT * FROM prefix_answers ORDER BY ALL").fetchall()


def test_beginnings_grow_by_one_exchange() -> None:
    two = turns(*TWO)
    assert beginnings(two) == [two[:2], two[:4], two[:6]], "the closing message is in no beginning"
    assert beginnings(two[1:]) == [two[1:2], two[1:4], two[1:6]], "the patient may open"
    assert beginnings(two[:5]) == [two[:2], two[:4], two[:5]], "an unanswered last question makes a beginning"
    assert beginnings(two[1:2]) == [two[1:2]], "without a question there is only the opening"


def test_figures_by_hand(store: Store, solver: FakeProvider) -> None:
    done = solved(store, solver)
    assert (done.done, done.failed, done.kept, done.calls, len(solver.requests)) == (2, 0, 0, CALLS, CALLS)
    assert (done.by, done.tokens, done.remaining, done.stopped) == ("openai/solver", CALLS * 18, 0, None)
    points = points_of(store)
    # case 1 is right at 100 % only, case 2 from 40 % on
    assert {share: point.estimate for share, point in points.items()} == {
        0: 0, 20: 0, 40: 0.5, 60: 0.5, 80: 0.5, 100: 1
    }  # fmt: skip
    last = points[100]
    assert (last.n, last["n_conversations"], last.excluded, last["n_missing"]) == (2, 2, {}, 0)
    # 2 of 2: the quantile of Beta(2.5, 0.5) at the tail of Student's t with 8 degrees, 0.010555
    assert (last.low, last.high) == pytest.approx((0.240132, 1), abs=1e-6)
    assert (last["model"], last["solver"], last["question_type"]) == ("openai/a", "openai/solver", "mcq")


def test_a_solver_sees_only_its_part_of_the_dialogue(store: Store, solver: FakeProvider) -> None:
    solved(store, solver)
    prompts = [str(body["messages"][-1]["content"]) for body in solver.bodies]
    assert len(set(prompts)) == CALLS, "no beginning is requested twice"
    messages = [[line for line in TWO if line in text] for text in prompts if TWO[1] in text]
    assert sorted(messages, key=len) == [list(TWO[:2]), list(TWO[:4]), list(TWO)], "the last share has all messages"
    assert sum("Final Diagnosis" in text for text in prompts) == 2, "only the last share has the closing message"
    assert not any("A girl of" in text for text in prompts)
    assert all("A. Eczema" in text and "B. Psoriasis" in text for text in prompts)


def diagnosing(body: dict[str, Any]) -> str:
    """Answer with the diagnosis of the doctor's closing message if the dialogue has one, otherwise wrongly."""
    return "Eczema" if "**Final Diagnosis:** Eczema" in str(body) else "Psoriasis"


@pytest.mark.slow
def test_answers_without_the_closing_message_stay_a_condition_of_their_own(store: Store, solver: FakeProvider) -> None:
    """Answers as version 0.5 stored them are shown under their name; new ones never replace or join them."""
    solver.script = diagnosing
    before = solved(store, solver, closing="without")
    assert (before.done, before.calls) == (2, CALLS)
    assert not any("Final Diagnosis" in str(body["messages"][-1]["content"]) for body in solver.bodies)
    old = points_of(store)[100]
    assert (old["closing"], old.estimate, old["n_conversations"], old["n_missing"]) == ("without", 0, 2, 0)
    assert solved(store, solver, closing="without").kept == 2

    requests = len(solver.requests)
    done = solved(store, solver)
    assert (done.done, len(solver.requests) - requests) == (2, 2), "only the last share is asked again"
    new = points_of(store)[100]
    assert (new["closing"], new.estimate, new["n_conversations"]) == ("with", 0.5, 2)
    answers, conversations = read_prefixes(store)
    rows = {row["per_cent"]: row for row in prefix_rows(answers, conversations, "without")}
    assert rows[100].estimate == 0
    assert rows[100]["n_conversations"] == 2
    assert solved(store, solver).kept == solved(store, solver, closing="without").kept == 2


@pytest.mark.slow
def test_a_dialogue_without_a_closing_message_has_one_answer_at_its_end(store: Store, solver: FakeProvider) -> None:
    header = a_header("capped", cases=CASES[:1], arms=ARMS, grader="reference/names", trials=1)
    write_journal(store.journals, "capped", header, a_conversation("capped", 1, TWO[:6], "turn_cap"))
    assert solved(store, solver, conversations=Selection(runs=("capped",))).done == 1
    requests = len(solver.requests)
    assert solved(store, solver, conversations=Selection(runs=("capped",)), closing="without").kept == 1
    assert len(solver.requests) == requests
    for closing in ("with", "without"):
        rows = prefix_rows(*read_prefixes(store, Selection(runs=("capped",))), closing)
        assert {row["per_cent"]: row.estimate for row in rows}[100] == 1


def test_failed_requests_are_excluded_and_repeated_alone(store: Store, solver: FakeProvider) -> None:
    solver.script = lambda body: failing(500) if CLUE in str(body) else attentive(body)
    done = solved(store, solver)
    # case 1 lacks 100 %, case 2 lacks 40 % to 100 %
    assert (done.done, done.failed, done.counts) == (0, 2, {"provider_error": 5})
    points = points_of(store)
    assert (points[40].estimate, points[40].n, points[40].excluded) == (0, 1, {"provider_error": 1})
    assert (points[100].estimate, points[100]["n_conversations"]) == (None, 0), "never wrong"
    solver.script, before = attentive, len(solver.requests)
    again = solved(store, solver)
    assert (again.done, again.kept, len(solver.requests) - before) == (2, 0, 5)
    assert points_of(store)[100].estimate == 1


@pytest.mark.slow
def test_a_refusal_is_excluded_and_final(store: Store, solver: FakeProvider) -> None:
    solver.script = lambda body: content_filtered() if CLUE in str(body) else attentive(body)
    done = solved(store, solver)
    assert (done.done, done.counts) == (2, {"refused": 5})
    assert points_of(store)[100].excluded == {"refused": 2}
    requests = len(solver.requests)
    assert (solved(store, solver).kept, len(solver.requests)) == (2, requests)


@pytest.mark.parametrize("after", [3, *(pytest.param(after, marks=pytest.mark.slow) for after in (1, CALLS - 1))])
def test_a_stopped_job_resumes_and_pays_once(store: Store, solver: FakeProvider, after: int) -> None:
    stop = Stop()

    def stopping(body: dict[str, Any]) -> str:
        if len(solver.requests) == after:
            stop.ask("It was asked to stop.", at_once=False)
        return attentive(body)

    solver.script = stopping
    first = solved(store, solver, stop=stop)
    assert (first.stopped, len(solver.requests)) == ("It was asked to stop." if first.remaining else None, after)
    second = solved(store, solver)
    assert first.done + second.done == 2
    assert len(solver.requests) == first.calls + second.calls == CALLS
    assert points_of(store)[40].estimate == 0.5


@pytest.mark.slow
def test_a_lost_database_is_rebuilt_from_the_journals(store: Store, solver: FakeProvider) -> None:
    solved(store, solver)
    before = rows_of(store)
    assert len(before) == 2 * len(ASKED_AT)
    with store.read() as cursor:
        (cost,) = [row for row in spending(cursor) if str(row["run_id"]).startswith("solving-")]
    assert (cost["calls"], cost["model"], cost["role"]) == (CALLS, "openai/solver", "solver")
    store.path.unlink()
    fold(store)
    assert rows_of(store) == before
    with store.read() as cursor:
        assert cost in spending(cursor)
    assert (solved(store, solver).kept, len(solver.requests)) == (2, CALLS)
    fold(store)
    assert rows_of(store) == before, "folding again adds nothing"


@pytest.mark.slow
def test_a_budget_stops_the_job_and_limits_the_next_start(store: Store, solver: FakeProvider, tmp_path: Path) -> None:
    own = tmp_path / "models.toml"
    own.write_text('[models."openai/solver"]\nprices = { input = 1000.0, output = 1000.0 }\n')  # $0.018 a call
    first = solved(store, solver, own=(own,), budget_usd=0.05)
    assert (first.calls, first.stopped) == (3, "The budget of $0.05 is used up.")
    assert solved(store, solver, own=(own,), budget_usd=0.05).calls == 0
    assert solved(store, solver, own=(own,), budget_usd=1.0).calls == CALLS - 3


@pytest.mark.slow
def test_free_responses_can_be_graded_by_another_grader_without_new_answers(store: Store, solver: FakeProvider) -> None:
    done = solved(store, solver, question="frq")
    assert (done.done, done.calls) == (2, CALLS), "the run's own grader judges by rule"
    assert points_of(store)[40].estimate == 0.5
    assert "A. Eczema" not in str(solver.bodies)
    graded = solved(store, solver, question="frq", grader="openai/grader")
    calls_by_model = Counter(body["model"] for body in solver.bodies)
    assert (graded.done, calls_by_model["solver"]) == (2, CALLS), "no new request to the solver"
    assert calls_by_model["grader"] > 0
    by = {row[7]: row[13][0] for row in rows_of(store) if row[0] == "run/1" and row[3] == 0}
    assert by["reference/names"] == by["openai/grader"], "the call of the response"


@pytest.mark.slow
def test_responses_without_a_readable_verdict_are_excluded(store: Store, solver: FakeProvider) -> None:
    solver.script = lambda body: "Perhaps." if body["model"] == "grader" else attentive(body)
    done = solved(store, solver, question="frq", grader="openai/grader")
    assert done.done == 2
    assert points_of(store)[100].excluded == {"ungradable": 2}


def test_solvers_questions_and_conditions_are_never_pooled(store: Store, solver: FakeProvider) -> None:
    header = a_header("other", CASES, doctor="openai/b", arms=ARMS, grader="reference/names", trials=1)
    write_journal(store.journals, "other", header, a_conversation("other", 1, TWO))
    fold(store)
    solved(store, solver, question=None)
    solved(store, solver, solver="reference", limit=2)
    answers, conversations = read_prefixes(store)
    last = [row for row in prefix_rows(answers, conversations) if row["per_cent"] == 100]
    counts_of = {
        (row["model"], row["solver"], row["question_type"]): (row["n_conversations"], row["n_missing"]) for row in last
    }
    assert {key: n for key, n in counts_of.items() if key[1] == "openai/solver"} == {
        (doctor, "openai/solver", kind): (n, 0)
        for doctor, n in (("openai/a", 2), ("openai/b", 1))
        for kind in ("mcq", "frq")
    }
    by_rule = [counts for (_, name, _), counts in counts_of.items() if name == "reference/solver"]
    assert sum(n for n, _ in by_rule) == 2, "two conversations drawn of three"
    assert points_of(store, models=["openai/b"])[100]["n_conversations"] == 1


@pytest.mark.slow
def test_choices_are_read_by_the_selected_rule(store: Store, solver: FakeProvider) -> None:
    solver.script = lambda body: "Eczema or Psoriasis"
    solved(store, solver)
    assert points_of(store)[0].estimate == 1, "the answer occurs in the response"
    assert points_of(store, mcq_rule="mcq_strict")[0].estimate == 0


def test_estimates_and_impossible_jobs(store: Store, solver: FakeProvider) -> None:
    size = estimate_job(Solving("openai/solver", question="mcq"), store, registry())
    assert (size.todo, size.calls, size.counts["solved before"]) == (2, CALLS, 0)
    assert estimate_job(Solving("openai/solver"), store, registry()).todo == 4, (
        "the question types of the run: choices and free responses"
    )
    free = estimate_job(Solving("openai/solver", question="frq", grader="openai/grader"), store, registry())
    assert free.calls == CALLS + 2 * CALLS
    solved(store, solver)
    assert estimate_job(Solving("openai/solver", question="mcq"), store, registry()).todo == 0
    with pytest.raises(UsageError, match="budget needs prices"):
        run_job(Solving("openai/solver"), store, registry(), Options(1, 1.0))
    with pytest.raises(UsageError, match="A person cannot play"):
        estimate_job(Solving("human"), store, registry())
    with pytest.raises(AnamnesisError, match="no conversation to ask a solver about"):
        estimate_job(Solving("reference", Selection(models=["unknown/model"])), store, registry())


@pytest.mark.slow
def test_an_answer_to_an_earlier_text_of_the_case_does_not_count(store: Store, solver: FakeProvider) -> None:
    solved(store, solver)
    with store.write() as connection:
        connection.execute("UPDATE prefix_answers SET content_hash = 'older' WHERE trial_id = 'run/1'")
    assert (points_of(store)[0]["n_conversations"], points_of(store)[0]["n_missing"]) == (1, 1)
    assert (solved(store, solver).done, len(solver.requests)) == (1, CALLS + 3)
