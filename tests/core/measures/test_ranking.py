"""Rankings on conversations made by hand: common cases, ranks, costs, messages and failures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from core.errors import AnamnesisError
from core.events import Ended, Event, Failed, Finished, Utterance
from core.measures.accuracy import report
from core.measures.base import MetricRequest, Result, Row
from core.measures.notes import result_of
from core.measures.ranking import common_cases
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.answers import CaseScore
from core.store.selection import Selection
from tests.core.store.builders import a_call, a_case, a_header, a_trial, answered, graded, invalid, write_journal
from tests.support.stores import copy_of, shared

CASES = 10
_CALL = iter(range(10_000))


def conversation(
    run: str, case: int, *, right: bool, turns: int, costs: Sequence[float | None], last: str = "Final Diagnosis: x"
) -> Iterable[Event]:
    """Return a conversation whose doctor's messages have these costs, with answers and a grading that cost more."""
    yield Utterance(turn=0, role="doctor", text="Hello.")
    for number, cost in enumerate(costs):
        yield a_call(f"{run}-{next(_CALL)}", model=run, cost_usd=cost, latency_s=2.0)
        yield Utterance(turn=number + 1, role="doctor", text=last)
    yield a_call(f"{run}-{next(_CALL)}", role="patient", cost_usd=5.0)
    yield Ended(reason="final_diagnosis", doctor_turns=turns)
    yield a_call(f"{run}-{next(_CALL)}", purpose="answer", cost_usd=7.0)
    yield answered()
    yield graded("correct" if right else "incorrect")
    yield answered("vignette", "mcq")
    yield graded("correct", "vignette", "mcq")
    yield Finished(at=2.0)


def write_run(store: Store, doctor: str, trials: dict[int, Iterable[Event]], **changes: object) -> None:
    run = "run-" + doctor.replace("/", "-")
    cases = [a_case(case) for case in range(1, CASES + 1)]
    lines = [
        a_trial(events, trial_id=f"{run}/{case}/0", run_id=run, case_key=f"ours/{case}")
        for case, events in trials.items()
    ]
    write_journal(store.journals, run, a_header(run, cases, doctor=doctor, trials=1, **changes), *lines)


def fill(store: Store) -> None:
    """Ten cases: ``good`` right in all, ``thrifty`` in nine, ``bad`` in one; ``pilot`` ran on two cases only.

    A conversation of ``good`` costs 0.3 dollars for 3 messages; of ``thrifty`` 0.1 for 1; of ``bad`` 0.2 for 4, and
    its first ended without a diagnosis. One case of ``thrifty`` was broken off by the provider. The price of
    ``pilot`` is unknown. A rule costs nothing.
    """
    cases = range(1, CASES + 1)
    good = {case: conversation("good", case, right=True, turns=3, costs=[0.1, 0.1, 0.1]) for case in cases}
    thrifty: dict[int, Iterable[Event]] = {
        case: conversation("thrifty", case, right=case != 2, turns=1, costs=[0.1]) for case in cases
    }
    thrifty[1] = [
        Ended(reason="error", doctor_turns=0),
        invalid("provider_error"),
        Failed(where="doctor", failure="timeout", message="too slow"),
    ]
    bad = {
        case: conversation(
            "bad", case, right=case == 3, turns=4, costs=[0.2], last="Well." if case == 4 else "Final Diagnosis"
        )
        for case in cases
    }
    pilot = {case: conversation("pilot", case, right=True, turns=2, costs=[0.1, None]) for case in (2, 3)}
    for name, trials in {"good": good, "thrifty": thrifty, "bad": bad, "pilot": pilot}.items():
        write_run(store, f"openai/{name}", trials)
    write_run(
        store, "reference/rule", {case: conversation("rule", case, right=False, turns=2, costs=[]) for case in cases}
    )
    fold(store)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


@pytest.fixture
def unchanged() -> Store:
    return shared(fill)


def ranked(store: Store, selection: Selection | None = None, **options: object) -> Result:
    chosen = selection or Selection(formats=("multi_turn",))
    return result_of(report, MetricRequest(store, chosen), {"rank": True, **options})


def by_doctor(result: Result) -> dict[str, Row]:
    return {row.label["model"].partition("/")[2].partition(" ")[0]: row for row in result.figures}


def test_the_ranking_by_hand(unchanged: Store) -> None:
    rows = by_doctor(ranked(unchanged))
    # case 1 counts for thrifty no more, and the pilot has two cases: four conditions on nine cases are compared
    assert list(rows) == ["good", "thrifty", "bad", "rule"]
    assert {row.n for row in rows.values()} == {9}
    assert [row.estimate for row in rows.values()] == pytest.approx([1, 8 / 9, 1 / 9, 0])
    # 9, 8, 8 and 7 cases differ between one of the upper two and one of the lower two: p = 2/2⁹, 2/2⁸, 2/2⁸ and 2/2⁷,
    # times 6, 5, 4 and 3 at most .047; one case differs between the upper two, and one between the lower two
    assert [row.more["rank"] for row in rows.values()] == ["1–2", "1–2", "3–4", "3–4"]
    assert rows["good"].comparison is None
    assert rows["thrifty"].more["from_first"] == pytest.approx(-1 / 9)
    assert rows["rule"].more["p_adjusted"] == pytest.approx(6 * 2 / 2**9)


def test_the_cost_is_that_of_the_doctors_messages(unchanged: Store) -> None:
    rows = by_doctor(ranked(unchanged))
    assert [row.more["cost_usd"] for row in rows.values()] == pytest.approx([0.3, 0.1, 0.2, 0])
    assert [row.more["turns"] for row in rows.values()] == [3, 1, 4, 2]
    assert [row.more["seconds"] for row in rows.values()] == [6, 2, 2, None]


def test_failures_of_the_provider_are_counted_and_never_wrong(unchanged: Store) -> None:
    rows = by_doctor(ranked(unchanged))
    assert rows["thrifty"].more["provider_failures"] == 1
    assert rows["thrifty"].excluded == {"provider_error": 1}
    assert rows["bad"].more["without_diagnosis"] == 1


def test_an_unknown_price_is_not_a_price_of_nothing(unchanged: Store) -> None:
    result = ranked(unchanged, shared_cases=True)
    rows = by_doctor(result)
    assert {row.n for row in rows.values()} == {2}
    assert rows["pilot"].more["cost_usd"] is None
    assert any(note.kind == "cost" and "openai/pilot" in note.models for note in result.notes)
    assert rows["rule"].more["cost_usd"] == 0


def test_conversations_without_stored_calls_have_no_known_cost(tmp_path: Path) -> None:
    store = Store(tmp_path / "results.duckdb")
    for name in ("openai/a", "openai/b"):
        write_run(store, name, {case: conversation(name, case, right=True, turns=2, costs=[]) for case in (1, 2)})
    fold(store)
    assert [(row.more["cost_usd"], row.more["seconds"], row.more["turns"]) for row in ranked(store).figures] == [
        (None, None, 2)
    ] * 2


def test_who_is_left_out_is_named(unchanged: Store) -> None:
    result = ranked(unchanged)
    (note,) = [note for note in result.warnings if "openai/pilot" in note.models and "Not ranked" in note.text]
    assert "2 cases" in note.text


def test_arms_are_never_pooled(unchanged: Store) -> None:
    rows = ranked(unchanged, Selection()).figures
    arms = {(row.label["format"], row.label["question_type"]) for row in rows}
    assert arms == {("vignette", "mcq"), ("multi_turn", "frq")}
    # the question about the vignette was not asked in the conversation: it has no cost of a conversation
    assert all(row.more["cost_usd"] is None for row in rows if row.label["format"] == "vignette")
    # each arm has its own first
    assert sum(row.comparison is None for row in rows) == 2


def test_frameworks_are_ranked_apart(store: Store) -> None:
    for name in ("x", "y"):
        trials = {case: conversation(name, case, right=case > 5, turns=2, costs=[0.1]) for case in (1, 2, 9, 10)}
        write_run(store, f"openai/{name}", trials, protocol="consultation")
    fold(store)
    rows = ranked(store).figures
    of_framework = {row.label["model"].partition(" ")[0]: row.label["framework"] for row in rows}
    assert of_framework["openai/x"] == of_framework["openai/y"] != of_framework["openai/good"]
    assert {row.n for row in rows if row.label["framework"] == of_framework["openai/x"]} == {4}


def test_one_condition_is_no_ranking(unchanged: Store) -> None:
    with pytest.raises(AnamnesisError, match="two conditions"):
        ranked(unchanged, Selection(models=("openai/good",)))


def scores(**cases: Iterable[int]) -> dict[str, dict[str, CaseScore]]:
    return {
        name: {f"ours/{n}": CaseScore(name, "vignette", "mcq", f"ours/{n}", None, None, 1, 1, {}) for n in numbers}
        for name, numbers in cases.items()
    }


def test_the_ranking_keeps_most_conditions_times_cases() -> None:
    # two with 100 cases (200) are more than three with 50 (150) …
    two = common_cases(scores(a=range(100), b=range(100), c=range(50)))
    assert (list(two.members), two.left_out) == (["a", "b"], {"c": 50})
    # … and less than three with 70
    assert list(common_cases(scores(a=range(100), b=range(100), c=range(70))).members) == ["a", "b", "c"]
    # the largest condition does not decide: it has other cases
    apart = common_cases(scores(a=range(1000, 1060), b=range(50), c=range(50)))
    assert (list(apart.members), apart.left_out) == (["b", "c"], {"a": 60})
    # all together, or not at all
    assert len(common_cases(scores(a=range(100), b=range(5)), complete=True).members["a"]) == 5
    assert not common_cases(scores(a=range(5), b=range(5), c=range(9, 12)), complete=True).members
