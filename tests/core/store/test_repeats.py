"""Trials of one condition are identified by case and seed: two runs with the same seeds make one trial, not two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from core.events import Answered, Ended, Event, Failed, Finished, Graded, Started, Summarised, Utterance, Verdict
from core.journal import TrialLine, seed_of
from core.measures.accuracy import accuracy
from core.measures.base import Row
from core.measures.paired import read_scores
from core.stats.trials import pass_hat_k, variance_components
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.answers import conversation_endings, ending_outcomes, results
from core.store.queries.judgements import judgeable_items
from core.store.selection import Selection, conditions
from tests.core.store.builders import a_case, a_header, a_trial, as_released, grades, write_journal

FRQ, MCQ = ("multi_turn", "frq"), ("multi_turn", "mcq")


def played(
    run_id: str, case: int, trial: int, verdicts: Mapping[tuple[str, str], Verdict], *, at: float, seed: int = 20
) -> TrialLine:
    """Return a trial with a short conversation and a graded answer in each arm."""
    trial_id, case_key = f"{run_id}/{case}/{trial}", a_case(case).case_key
    events: list[Event] = [
        Started(trial_id=trial_id, case_key=case_key, trial=trial, seed=1, at=at - 1),
        Utterance(turn=0, role="doctor", text="Hello?"),
        Utterance(turn=1, role="patient", text="A lump."),
        Ended(reason="final_diagnosis", doctor_turns=1, detail=""),
    ]
    if any(format_ == "summarized" for format_, _ in verdicts):
        events.append(Summarised(text="A man with a lump."))
    for (format_, question_type), verdict in verdicts.items():
        arm: dict[str, Any] = {"format": format_, "question_type": question_type}
        events.append(Answered(**arm, response="Eczema"))
        for rule in ("mcq_loose", "mcq_strict") if question_type == "mcq" else ("frq",):
            events.append(Graded(**arm, grader="g", rule=rule, extracted=None, verdict=verdict, at=at))
    return a_trial(
        [*events, Finished(at=at)],
        trial_id=trial_id,
        run_id=run_id,
        case_key=case_key,
        trial=trial,
        seed=seed_of(seed, case_key, trial),
        finished_at=at,
    )


def run(store: Store, run_id: str, verdicts: Mapping[tuple[int, int], Verdict], *, at: float, **changes: Any) -> None:
    """Store a run whose trials, by (case, trial), have the given verdict in each arm."""
    arms = changes.get("arms", [FRQ])
    cases = [a_case(n) for n in (1, 2)]
    header = a_header(run_id, cases, **{"arms": arms, "created_at": at, **changes})
    seed = changes.get("seed", 20)
    lines = [
        played(run_id, case, trial, dict.fromkeys(arms, verdict), at=at, seed=seed)
        for (case, trial), verdict in verdicts.items()
    ]
    write_journal(store.journals, run_id, header, *lines)
    fold(store)


FIRST: dict[tuple[int, int], Verdict] = {
    (1, 0): "correct", (1, 1): "correct", (2, 0): "correct", (2, 1): "incorrect",
}  # fmt: skip
AGAIN: dict[tuple[int, int], Verdict] = dict.fromkeys(FIRST, "incorrect")


def row(store: Store, selection: Selection | None = None, question_type: str = "frq", **more: Any) -> Row:
    (match,) = [
        candidate
        for candidate in accuracy(store, selection=selection, **more)
        if candidate["question_type"] == question_type
    ]
    return match


PATHS = {"tallies": Selection(), "trials": Selection(statuses=["finished"])}


@pytest.mark.parametrize("selection", PATHS.values(), ids=PATHS)
def test_the_same_campaign_run_twice_is_one_trial_each_and_the_first_counts(store: Store, selection: Selection) -> None:
    """Case 1 is right in 2 of 2 trials, case 2 in 1 of 2: .75. Both runs pooled would give 3 of 8."""
    run(store, "b", AGAIN, at=200.0)
    run(store, "a", FIRST, at=100.0)
    result = row(store, selection)
    assert (result.estimate, result["n_trials"], result.n, result["n_repeats"]) == (0.75, 4, 2, 4)
    (condition,) = conditions(store)
    assert (condition.runs, condition.repeats) == (("a", "b"), 4)


def test_repeats_are_no_further_trials_of_reliability(store: Store) -> None:
    """With two trials of each case, pass^2 is (1 + 0) / 2; with four it would be (1/6 + 0) / 2."""
    run(store, "a", FIRST, at=100.0)
    before = {score.case_key: (score.correct, score.counted) for score in read_scores(store)}
    run(store, "b", AGAIN, at=200.0)
    after = {score.case_key: (score.correct, score.counted) for score in read_scores(store)}
    assert after == before == {"ours/1": (2, 2), "ours/2": (1, 2)}
    correct, counted = zip(*after.values(), strict=True)
    assert pass_hat_k(correct, counted, 2).value == 0.5
    assert variance_components(correct, counted).trials_per_case == 2


@pytest.mark.slow
def test_runs_with_other_seeds_or_of_a_release_are_trials_of_their_own(store: Store) -> None:
    run(store, "a", FIRST, at=100.0)
    run(store, "b", AGAIN, at=200.0, seed=21)
    assert (row(store)["n_trials"], row(store)["n_repeats"]) == (8, 0)
    run(store, "c", FIRST, at=300.0)
    as_released(store, "c")
    as_released(store, "a")
    counts = {result["model"]: (result["n_trials"], result["n_repeats"]) for result in accuracy(store)}
    assert sum(trials for trials, _ in counts.values()) == 12
    assert not any(repeats for _, repeats in counts.values())


@pytest.mark.slow
def test_a_run_by_itself_has_all_its_trials(store: Store) -> None:
    run(store, "a", FIRST, at=100.0)
    run(store, "b", AGAIN, at=200.0)
    assert (row(store, Selection(runs=["b"])).estimate, row(store, Selection(runs=["b"]))["n_repeats"]) == (0.0, 0)


@pytest.mark.slow
def test_a_trial_that_broke_off_gives_way_to_its_repeat(store: Store) -> None:
    run(store, "a", {(1, 0): "correct"}, at=100.0, trials=1)
    broken = a_trial(
        [Failed(where="doctor", failure="timeout", message="slow")],
        trial_id="a/2/0",
        run_id="a",
        case_key="ours/2",
        seed=seed_of(20, "ours/2", 0),
        finished_at=100.0,
    )
    write_journal(store.journals, "a", broken)
    fold(store)
    assert (row(store).estimate, row(store)["n_trials"], row(store).excluded) == (1.0, 1, {"provider_error": 1})
    run(store, "b", {(1, 0): "incorrect", (2, 0): "incorrect"}, at=200.0, trials=1)
    for selection in (Selection(), Selection(case="ours")):
        result = row(store, selection)
        assert (result.estimate, result["n_trials"], result["n_excluded"], result["n_repeats"]) == (0.5, 2, 0, 2)
    assert row(store, Selection(verdicts=["incorrect"], arm="multi_turn:frq"))["n_trials"] == 1


@pytest.mark.slow
def test_a_later_run_adds_the_arms_that_the_first_did_not_ask(store: Store) -> None:
    """Run b has the first free responses; its choices and its conversations are repeats."""
    run(store, "a", FIRST, at=100.0, arms=[MCQ])
    run(store, "b", AGAIN, at=200.0, arms=[MCQ, FRQ])
    for selection in PATHS.values():
        choices, free = row(store, selection, "mcq"), row(store, selection)
        assert (choices.estimate, choices["n_trials"], choices["n_repeats"]) == (0.75, 4, 4)
        assert (free.estimate, free["n_trials"], free["n_repeats"]) == (0.0, 4, 0)
    with store.read() as cursor:
        assert len(conversation_endings(cursor)) == 4
        outcomes = ending_outcomes(cursor)
    by_type = outcomes.groupby("question_type", observed=True)[["answers", "correct", "strict_correct"]].sum()
    assert by_type.loc["mcq"].tolist() == [4, 3, 3]
    assert by_type.loc["frq"].tolist() == [4, 0, 0]


@pytest.mark.slow
def test_of_repeated_conversations_one_with_a_summary_is_judged(store: Store) -> None:
    run(store, "a", AGAIN, at=10, arms=[MCQ])
    run(store, "b", AGAIN, at=20, arms=[FRQ, ("summarized", "frq")])
    run(store, "c", AGAIN, at=30, arms=[FRQ, ("summarized", "frq")])
    for summarised in (True, False):
        with store.read() as cursor:
            items = judgeable_items(cursor, "conversation", summarised=summarised)
        assert {item.subject.split("/")[0] for item in items} == {"talk:b"}, "once, the first with a summary"
        assert len(items) == 4


def test_what_another_grader_judged_is_another_condition_and_repeats_nothing(store: Store) -> None:
    run(store, "a", FIRST, at=100.0)
    run(store, "b", AGAIN, at=200.0)
    lenient = [
        grades(
            f"b/{case}/{trial}",
            Graded(
                format="multi_turn", question_type="frq", grader="h", rule="frq", extracted=None, verdict="correct",
                at=300.0,
            ),
            run_id="b",
        )
        for case, trial in AGAIN
    ]  # fmt: skip
    write_journal(store.journals, "b", *lenient[:1])
    fold(store)
    counts = {result["model"]: (result.estimate, result["n_trials"], result["n_repeats"]) for result in accuracy(store)}
    assert counts == {"openai/a": (0.75, 4, 4), "openai/a · grader h (1 of 4 answers)": (1.0, 1, 0)}
    write_journal(store.journals, "b", *lenient[1:])
    fold(store)
    counts = {result["model"]: (result.estimate, result["n_trials"], result["n_repeats"]) for result in accuracy(store)}
    assert counts == {"openai/a · grader g": (0.75, 4, 0), "openai/a · grader h": (1.0, 4, 0)}


@pytest.mark.slow
def test_pooled_conditions_do_not_repeat_each_other(store: Store) -> None:
    run(store, "a", FIRST, at=100.0)
    run(store, "b", AGAIN, at=200.0, patient="openai/q")
    run(store, "c", AGAIN, at=300.0, patient="openai/q")
    result = row(store, Selection(pooled=True))
    assert (result["n_trials"], result["n_repeats"]) == (8, 4)


@pytest.mark.slow
def test_results_have_every_answer_and_say_which_are_repeats(store: Store) -> None:
    run(store, "a", FIRST, at=100.0)
    run(store, "b", AGAIN, at=200.0)
    with store.read() as cursor:
        table = results(cursor).to_pandas()
    assert table.groupby("run_id")["repeat"].agg(["size", "sum"]).values.tolist() == [[4, 0], [4, 4]]
