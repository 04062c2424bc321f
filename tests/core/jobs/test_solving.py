"""A solver answers from the beginnings of conversations: what it is shown, what is paid for, figures by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from core.asking.scene import Turn
from core.errors import AnamnesisError, UsageError
from core.events import Event
from core.frameworks.consultation.measures.prefixes import ASKED_AT, beginnings, prefix_rows, read_prefixes
from core.jobs.ask_job import AskOutcome, estimate_job, run_job
from core.jobs.engine import Options
from core.jobs.progress import Stop
from core.jobs.solving import Solving
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
"""Two exchanges; the last one brings the clue: at 100 % of the dialogue."""
FIVE = (
    "Hello?", "I itch, two.", "Since when?", "For long.", "Where?", CLUE, "Fever?", "No, none.", "Pets?", "A cat.",
    "Any pain?", "None at all.", "**Final Diagnosis:** Psoriasis",
)  # fmt: skip
"""Five exchanges; the second one brings the clue: from 40 % of the dialogue on."""
CALLS = 3 + 6
"""Beginnings that differ: two exchanges have ended at none, 0, 0, 1, 1 and 2 of the shares, five at each another."""


def told(*said: str) -> tuple[Turn, ...]:
    return tuple(Turn("patient" if n % 2 else "doctor", text) for n, text in enumerate(said))


def a_talk(run_id: str, number: int, said: Iterable[str], reason: str = "final_diagnosis") -> Any:
    stream: list[Event] = [Utterance(turn=n, role=one.role, text=one.text) for n, one in enumerate(told(*said))]
    stream += [Ended(reason=reason, doctor_turns=2), Finished(at=9.0)]  # type: ignore[arg-type]
    return a_trial(stream, trial_id=f"{run_id}/{number}", run_id=run_id, case_key=f"ours/{number}")


def two_talks(store: Store) -> None:
    """Write a run with a conversation of two exchanges, one of five, and one that a provider broke off."""
    cases = [*CASES, a_case(3)]
    header = a_header(cases=cases, arms=ARMS, grader="reference/names", trials=1)
    talks = [a_talk("run", 1, TWO), a_talk("run", 2, FIVE), a_talk("run", 3, TWO, "error")]
    write_journal(store.journals, "run", header, *talks)
    fold(store)


@pytest.fixture
def store(db: Path) -> Store:
    return copy_of(two_talks, db.parent)


def attentive(body: dict[str, Any]) -> str:
    """Answer rightly once the clue was told; a grader says that what it reads is right where it is eczema."""
    asked = str(body["messages"][-1]["content"])
    if "grader" in body["model"]:
        return "Eczema" if "Yes" not in asked and "same" not in asked.lower() else "Yes"
    return "Eczema" if CLUE in asked else "Psoriasis"


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
    **given: Any,
) -> AskOutcome:
    """Ask ``openai/solver`` for choices, one conversation after the other, unless others are ``given``."""
    asked = {"solver": "openai/solver", "question": "mcq", "base_url": provider.base_url, **given}
    return run_job(Solving(**asked), store, registry(*own), Options(1, budget_usd), stop)


def points_of(store: Store, **chosen: Any) -> dict[int, Row]:
    return {row["per_cent"]: row for row in prefix_rows(*read_prefixes(store, Selection(**chosen)))}


def rows_of(store: Store) -> list[tuple[Any, ...]]:
    with store.read() as cursor:
        return cursor.execute("SELECT * FROM prefix_answers ORDER BY ALL").fetchall()


def test_a_dialogue_begins_with_its_opening_and_goes_on_exchange_by_exchange() -> None:
    two = told(*TWO)
    assert beginnings(two) == [two[:2], two[:4], two[:6]], "a closing message belongs to none"
    assert beginnings(two[1:]) == [two[1:2], two[1:4], two[1:6]], "the patient may open"
    assert beginnings(two[:5]) == [two[:2], two[:4], two[:5]], "a last question that nobody answered is one"
    assert beginnings(two[1:2]) == [two[1:2]], "who asks nothing has the opening alone"


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


def test_a_solver_sees_no_more_than_has_passed(store: Store, solver: FakeProvider) -> None:
    solved(store, solver)
    shown = [str(body["messages"][-1]["content"]) for body in solver.bodies]
    assert len(set(shown)) == CALLS, "no beginning is asked about twice"
    said = [[line for line in TWO if line in text] for text in shown if TWO[1] in text]
    assert sorted(said, key=len) == [list(TWO[:2]), list(TWO[:4]), list(TWO[:6])]
    assert not any("Final Diagnosis" in text or "A girl of" in text for text in shown)
    assert all("A. Eczema" in text and "B. Psoriasis" in text for text in shown)


def test_what_a_provider_breaks_is_excluded_and_asked_again_alone(store: Store, solver: FakeProvider) -> None:
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


def test_a_refusal_is_excluded_and_final(store: Store, solver: FakeProvider) -> None:
    solver.script = lambda body: content_filtered() if CLUE in str(body) else attentive(body)
    done = solved(store, solver)
    assert (done.done, done.counts) == (2, {"refused": 5})
    assert points_of(store)[100].excluded == {"refused": 2}
    asked = len(solver.requests)
    assert (solved(store, solver).kept, len(solver.requests)) == (2, asked)


@pytest.mark.parametrize("after", [1, 3, CALLS - 1])
def test_stopped_anywhere_it_goes_on_and_pays_once(store: Store, solver: FakeProvider, after: int) -> None:
    stop = Stop()

    def stopping(body: dict[str, Any]) -> str:
        if len(solver.requests) == after:
            stop.ask("It was asked to stop.", at_once=False)
        return attentive(body)

    solver.script = stopping
    first = solved(store, solver, stop=stop)
    assert (first.stopped, len(solver.requests)) == ("It was asked to stop." if first.remaining else None, after)
    rest = solved(store, solver)
    assert first.done + rest.done == 2
    assert len(solver.requests) == first.calls + rest.calls == CALLS
    assert points_of(store)[40].estimate == 0.5


def test_a_lost_database_comes_back_from_the_journals(store: Store, solver: FakeProvider) -> None:
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


def test_a_budget_stops_it_and_holds_when_it_goes_on(store: Store, solver: FakeProvider, tmp_path: Path) -> None:
    own = tmp_path / "models.toml"
    own.write_text('[models."openai/solver"]\nprices = { input = 1000.0, output = 1000.0 }\n')  # $0.018 a call
    first = solved(store, solver, own=(own,), budget_usd=0.05)
    assert (first.calls, first.stopped) == (3, "The budget of $0.05 is used up.")
    assert solved(store, solver, own=(own,), budget_usd=0.05).calls == 0
    assert solved(store, solver, own=(own,), budget_usd=1.0).calls == CALLS - 3


def test_free_responses_are_graded_and_another_grader_is_given_what_was_said(
    store: Store, solver: FakeProvider
) -> None:
    done = solved(store, solver, question="frq")
    assert (done.done, done.calls) == (2, CALLS), "the run's own grader judges by rule"
    assert points_of(store)[40].estimate == 0.5
    assert "A. Eczema" not in str(solver.bodies)
    graded = solved(store, solver, question="frq", grader="openai/grader")
    asked = Counter(body["model"] for body in solver.bodies)
    assert (graded.done, asked["solver"]) == (2, CALLS), "the solver is not asked again"
    assert asked["grader"] > 0
    by = {row[7]: row[13][0] for row in rows_of(store) if row[0] == "run/1" and row[3] == 0}
    assert by["reference/names"] == by["openai/grader"], "the call that the response came from"


def test_what_no_grader_can_read_is_ungradable_and_excluded(store: Store, solver: FakeProvider) -> None:
    solver.script = lambda body: "Perhaps." if body["model"] == "grader" else attentive(body)
    done = solved(store, solver, question="frq", grader="openai/grader")
    assert done.done == 2
    assert points_of(store)[100].excluded == {"ungradable": 2}


def test_solvers_questions_and_conditions_are_never_pooled(store: Store, solver: FakeProvider) -> None:
    header = a_header("other", CASES, doctor="openai/b", arms=ARMS, grader="reference/names", trials=1)
    write_journal(store.journals, "other", header, a_talk("other", 1, TWO))
    fold(store)
    solved(store, solver, question=None)
    solved(store, solver, solver="reference", limit=2)
    answers, talks = read_prefixes(store)
    last = [row for row in prefix_rows(answers, talks) if row["per_cent"] == 100]
    found = {
        (row["model"], row["solver"], row["question_type"]): (row["n_conversations"], row["n_missing"]) for row in last
    }
    assert {key: n for key, n in found.items() if key[1] == "openai/solver"} == {
        (doctor, "openai/solver", kind): (n, 0)
        for doctor, n in (("openai/a", 2), ("openai/b", 1))
        for kind in ("mcq", "frq")
    }
    by_rule = [counts for (_, name, _), counts in found.items() if name == "reference/solver"]
    assert sum(n for n, _ in by_rule) == 2, "two conversations drawn of three"
    assert points_of(store, models=["openai/b"])[100]["n_conversations"] == 1


def test_choices_are_read_by_the_rule_that_is_asked_for(store: Store, solver: FakeProvider) -> None:
    solver.script = lambda body: "Eczema or Psoriasis"
    solved(store, solver)
    assert points_of(store)[0].estimate == 1, "the answer occurs in the response"
    assert points_of(store, mcq_rule="mcq_strict")[0].estimate == 0


def test_size_and_what_cannot_be_done(store: Store, solver: FakeProvider) -> None:
    size = estimate_job(Solving("openai/solver", question="mcq"), store, registry())
    assert (size.todo, size.calls, size.counts["solved before"]) == (2, CALLS, 0)
    assert estimate_job(Solving("openai/solver"), store, registry()).todo == 4, "as the run asked: choices and free"
    free = estimate_job(Solving("openai/solver", question="frq", grader="openai/grader"), store, registry())
    assert free.calls == CALLS + 2 * CALLS
    solved(store, solver)
    assert estimate_job(Solving("openai/solver", question="mcq"), store, registry()).todo == 0
    with pytest.raises(UsageError, match="budget needs prices"):
        run_job(Solving("openai/solver"), store, registry(), Options(1, 1.0))
    with pytest.raises(UsageError, match="A human cannot sit"):
        estimate_job(Solving("human"), store, registry())
    with pytest.raises(AnamnesisError, match="no conversation to ask a solver about"):
        estimate_job(Solving("reference", Selection(models=["nobody/there"])), store, registry())


def test_an_answer_to_another_content_of_the_case_does_not_count(store: Store, solver: FakeProvider) -> None:
    solved(store, solver)
    with store.write() as connection:
        connection.execute("UPDATE prefix_answers SET content_hash = 'older' WHERE trial_id = 'run/1'")
    assert (points_of(store)[0]["n_conversations"], points_of(store)[0]["n_missing"]) == (1, 1)
    assert (solved(store, solver).done, len(solver.requests)) == (1, CALLS + 3)
