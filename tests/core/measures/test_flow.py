"""The flow of runs loses nothing without a reason: each level is the one before it minus its losses."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest

from core.datasets.select import choose, full_data_set, select
from core.events import COUNTED, Ended, Event, Failed, Finished, Started, Utterance
from core.journal import TrialLine
from core.measures.base import MetricRequest
from core.measures.flow import Flow, Stage, flow, flow_of
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.answers import case_scores
from core.store.queries.case_labels import add_labels, label_of
from core.store.queries.profiles import add_profiles
from core.store.selection import Selection, conditions
from core.text.profiles import Generated
from tests.core.store.builders import (
    a_case,
    a_header,
    a_trial,
    answered,
    as_released,
    graded,
    grades,
    invalid,
    write_journal,
)

BY_CHOICE, FREE = ("vignette", "mcq"), ("multi_turn", "frq")


def a_conversation(reason: str) -> list[Event]:
    return [Utterance(turn=0, role="doctor", text="What brings you in?"), Ended(reason=reason, doctor_turns=1)]


def of_choice(verdict: str) -> list[Event]:
    return [
        answered(*BY_CHOICE),
        graded(verdict, *BY_CHOICE, grader="rule"),
        graded(verdict, *BY_CHOICE, grader="rule", rule="mcq_strict"),
    ]


def a_played(run_id: str, number: int, *events: Event, whole: bool = True, case: int = 1, **changes: Any) -> TrialLine:
    trial_id = f"{run_id}/{case}/{number}"
    start = Started(trial_id=trial_id, case_key=f"ours/{case}", trial=number, seed=number, at=1.0)
    stream = [start, *events, *([Finished(at=9.0)] if whole else [])]
    fields = {"case_key": f"ours/{case}", "trial": number, "seed": number, **changes}
    return a_trial(stream, trial_id=trial_id, run_id=run_id, **fields)


def stage_of(diagram: Flow, name: str) -> Stage:
    return next(stage for stage in diagram.stages if stage.name == name)


def losses(stage: Stage) -> dict[str, int]:
    return {loss.name: loss.n for loss in stage.losses}


def adds_up(diagram: Flow) -> None:
    """Check that no level has more or fewer than the level before leaves, and that parts make up their level."""
    for stage in diagram.stages:
        assert all(count.n > 0 for count in (*stage.losses, *stage.added, *stage.parts))
        if stage.parts:
            assert sum(part.n for part in stage.parts) == stage.n
        if stage.n is None:
            assert stage.unknown
    chains = (("data_set", "cases"), ("planned", "trials", "conversations"))
    for chain in (*chains, ("requested", "answers", "valid", "graded", "counted")):
        for before, after in itertools.pairwise(chain):
            left = stage_of(diagram, before).remaining or 0
            assert left + sum(count.n for count in stage_of(diagram, after).added) == stage_of(diagram, after).n


def test_every_loss_has_its_reason_and_number(store: Store) -> None:
    """Ten cases, of which the first four were chosen and three could be played, twice; of six trials five are there."""
    cases = [a_case(number) for number in (1, 2, 3)]
    header = a_header(cases=cases, case_set="ours (first 4)", data_set_cases=10)
    timeout = Failed(where="conversation", failure="timeout", message="too slow")
    write_journal(
        store.journals,
        "run",
        header,
        a_played("run", 0, *a_conversation("final_diagnosis"), *of_choice("correct"), answered(), graded("correct")),
        a_played("run", 1, timeout, *a_conversation("error"), *of_choice("incorrect"), invalid("provider_error")),
        a_played("run", 0, *of_choice("correct"), whole=False, case=2),
        a_played("run", 1, *a_conversation("final_diagnosis"), invalid("refused", *BY_CHOICE), invalid("cut"), case=2),
        a_played(
            "run", 0, *a_conversation("turn_cap"), *of_choice("no_diagnosis"), answered(), graded("ungradable"), case=3
        ),
    )
    fold(store)
    diagram = flow_of(store, ["run"])
    adds_up(diagram)
    assert [(stage.name, stage.n) for stage in diagram.stages] == [
        ("data_set", 10),
        ("cases", 3),
        ("planned", 6),
        ("trials", 5),
        ("conversations", 3),
        ("requested", 10),
        ("answers", 9),
        ("valid", 6),
        ("graded", 5),
        ("counted", 5),
    ]
    by_stage = {stage.name: sorted(losses(stage).values()) for stage in diagram.stages if stage.losses}
    assert by_stage == {
        "data_set": [1, 6],
        "planned": [1],
        "trials": [1, 1],
        "requested": [1],
        "answers": [1, 1, 1],
        "valid": [1],
    }
    assert any("timeout" in name for name in losses(stage_of(diagram, "trials")))


def test_cases_outside_the_selection_are_told_apart_if_the_data_set_is_installed(store: Store) -> None:
    """Of the library, cardiology was chosen, of it the first two cases, of which one could not become a patient."""
    whole, in_part = full_data_set("library"), select("library:Cardiology")
    header = a_header(
        cases=in_part[:1], case_set="library:Cardiology (first 2)", data_set_cases=whole.cases, data_set_hash=whole.hash
    )
    write_journal(store.journals, "run", header)
    fold(store)
    rejection = Generated(suitable=False, reason="image_dependent", note="It needs a picture.", made_by="Ada")
    with store.write() as connection:
        add_profiles(connection, [(in_part[1], rejection)])
    diagram = flow_of(store, ["run"])
    adds_up(diagram)
    assert sorted(losses(stage_of(diagram, "data_set")).values()) == sorted(
        [whole.cases - len(in_part), len(in_part) - 2, 1]
    )
    (reason,) = (name for name, n in losses(stage_of(diagram, "data_set")).items() if "patient" in name)
    assert "image dependent" in reason


@pytest.mark.slow
def test_cases_outside_the_selection_add_up_without_their_data_set(store: Store, subtests: pytest.Subtests) -> None:
    """Three of ten cases are in the run; the data set is no longer installed."""
    expected = {
        "ours:Cardiology": [7],
        "ours:1,2,3": [7],
        "ours (sample of 4, seed 20)": [1, 6],
        "ours (first 3)": [7],
        "ours:Cardiology (first 4)": [1, 6],
        "ours:test@folder": [7],
        "ours": [7],
    }
    cases = [a_case(n) for n in (1, 2, 3)]
    for number, case_set in enumerate(expected):
        header = a_header(f"run-{number}", cases, case_set=case_set, data_set_cases=10, data_set_hash="old")
        write_journal(store.journals, f"run-{number}", header)
    fold(store)
    for number, (case_set, left_out) in enumerate(expected.items()):
        with subtests.test(case_set=case_set):
            diagram = flow_of(store, [f"run-{number}"])
            adds_up(diagram)
            assert sorted(losses(stage_of(diagram, "data_set")).values()) == left_out
            assert stage_of(diagram, "trials").n == 0


@pytest.mark.slow
def test_cases_outside_an_installed_selection_add_up(store: Store, subtests: pytest.Subtests) -> None:
    whole = full_data_set("library")
    selections = ("library:Cardiology", "library:cardiology-1,cardiology-2", "library")
    chosen = {f"run-{n}": choose(*of) for n, of in enumerate(itertools.product(selections, (None, 2)))}
    for run, data_set in chosen.items():
        fields = {"case_set": data_set.name, "data_set_cases": whole.cases, "data_set_hash": whole.hash}
        write_journal(store.journals, run, a_header(run, data_set.cases, **fields))
    fold(store)
    for run, data_set in chosen.items():
        with subtests.test(case_set=data_set.name):
            diagram = flow_of(store, [run])
            adds_up(diagram)
            left_out = sum(losses(stage_of(diagram, "data_set")).values())
            assert left_out == whole.cases - len(data_set.cases)
            assert not any("played" in name for name in losses(stage_of(diagram, "data_set")))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_random_runs_add_up_and_count_what_accuracy_counts(store: Store, seed: int) -> None:
    """Runs of every mishap: what counts is what the accuracy of the same runs rests on."""
    random, expected = Random(seed), 0
    for run in ("a", "b"):
        n_cases, trials = random.randint(1, 4), random.randint(1, 3)
        cases = [a_case(number) for number in range(1, n_cases + 1)]
        lines = []
        for case in range(1, n_cases + 1):
            for number in range(trials):
                if random.random() < 0.2:
                    continue
                events: list[Event] = []
                whole = random.random() > 0.2
                if whole or random.random() < 0.5:
                    events += a_conversation(random.choice(["final_diagnosis", "turn_cap", "error", "refusal"]))
                verdict = random.choice(["correct", "incorrect", "multiple", "refused", "empty", ""])
                expected += verdict in COUNTED
                if verdict in ("refused", "empty"):
                    events.append(invalid(verdict, *BY_CHOICE))
                elif verdict:
                    events += of_choice(verdict)
                verdict = random.choice(["correct", "no_diagnosis", "ungradable", "provider_error", "ungraded", ""])
                expected += verdict in COUNTED
                events += [answered()] if verdict else []
                events += [graded(verdict)] if verdict not in ("", "ungraded") else []
                lines.append(a_played(run, number, *events, whole=whole, case=case))
        write_journal(store.journals, run, a_header(run, cases, trials=trials, doctor=f"openai/{run}"), *lines)
    fold(store)
    diagram = flow_of(store, ["a", "b"])
    adds_up(diagram)
    with store.read() as cursor:
        counted = sum(score.counted for score in case_scores(cursor, Selection(runs=["a", "b"])))
    assert stage_of(diagram, "counted").n == counted == expected


def test_repeats_and_cases_of_development_are_the_last_losses(store: Store) -> None:
    """Run b plays the two cases of run a again with the same seeds, and one more; case 3 was used to write prompts."""
    cases = [a_case(number) for number in (1, 2, 3)]
    for at, (run, played) in enumerate({"a": cases[:2], "b": cases}.items()):
        header = a_header(run, played, trials=1, created_at=100.0 + at)
        lines = [
            a_played(
                run,
                0,
                *of_choice("correct"),
                answered(),
                graded("correct"),
                case=int(case.case_key[-1]),
                finished_at=9.0 + at,
            )
            for case in played
        ]
        write_journal(store.journals, run, header, *lines)
    fold(store)
    add_labels(store, [label_of(cases[2], "development", "yes", "person", "me")])
    diagram = flow_of(store, ["a", "b"])
    adds_up(diagram)
    assert stage_of(diagram, "graded").n == 10
    assert sorted(losses(stage_of(diagram, "graded")).values()) == [2, 4]
    assert stage_of(diagram, "counted").n == 4
    with store.read() as cursor:
        assert sum(score.counted for score in case_scores(cursor, Selection(runs=["a", "b"]))) == 4


def test_an_answer_of_two_graders_is_counted_once(store: Store) -> None:
    """A later grader of two of three trials makes a second condition: its verdicts add no answer and take none away."""
    played = [
        a_played("run", number, *a_conversation("turn_cap"), *of_choice("correct"), answered(), graded("correct"))
        for number in range(3)
    ]
    later = [
        grades("run/1/0", graded("incorrect", grader="openai/other", at=20.0)),
        grades("run/1/1", graded("ungradable", grader="openai/other", at=20.0)),
    ]
    write_journal(store.journals, "run", a_header(cases=[a_case()], trials=3), *played, *later)
    fold(store)
    assert len(conditions(store, Selection(runs=["run"]))) == 2
    diagram = flow_of(store, ["run"])
    adds_up(diagram)
    assert stage_of(diagram, "counted").n == 6


def test_a_release_has_no_plan_instead_of_an_empty_one(store: Store) -> None:
    write_journal(store.journals, "run", a_header(cases=[a_case()]), a_trial())
    as_released(store, "run")
    diagram = flow_of(store, ["run"])
    adds_up(diagram)
    assert stage_of(diagram, "planned").n is None
    assert [count.n for count in stage_of(diagram, "trials").added] == [1]
    assert any("plan" in note for note in diagram.notes)
    rows: list[Any] = list(flow.rows(MetricRequest(store)))
    assert {row["n"] for row in rows if row["level"] == stage_of(diagram, "planned").title} == {None}
