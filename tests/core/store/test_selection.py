"""Conditions: the answers that may be pooled, the names of conditions, and that no figure pools two of them."""

from __future__ import annotations

from typing import Any

import pytest

from core.events import Answered, Event, Finished, Graded, Started
from core.measures.accuracy import accuracy
from core.prompts import known_parts
from core.store.conditions import comparable
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.runs import Run
from core.store.selection import Selection, conditions, sample_size, select
from tests.core.store.builders import a_case, a_header, a_trial, conditions_of, grades, write_journal


def a_run(run_id: str, **changes: Any) -> Run:
    defaults: dict[str, Any] = {
        "run_id": run_id,
        "protocol": "craftmd",
        "doctor": "openai/a",
        "patient": "openai/p",
        "grader": "g",
        "summariser": "s",
        "prompt_pack": "craftmd",
        "prompt_hash": "h",
        "case_set": "library",
        "case_set_hash": "c",
        "trials": 1,
        "seed": 20,
        "settings": {},
        "code_version": "1",
        "source": "local",
        "created_at": 1.0,
        "cases": 1,
    }
    return Run(**{**defaults, **changes})


def names(*runs: Run) -> dict[str, tuple[str, ...]]:
    return {condition.name: condition.runs for condition in conditions_of(runs)}


def test_runs_that_differ_in_seed_and_number_of_trials_are_one_condition() -> None:
    assert names(a_run("2", seed=1, trials=3), a_run("1")) == {"openai/a": ("1", "2")}


def test_a_study_of_the_program_is_separate_and_leaves_the_names_of_own_runs() -> None:
    own, sample = a_run("1"), a_run("2", settings={"study": "sample"}, code_version="2")
    assert names(own, sample) == {"openai/a": ("1",), "openai/a · sample": ("2",)}
    equal = a_run("3", settings={"study": "sample"})
    assert names(own, equal) == {"openai/a": ("1",), "openai/a · sample": ("3",)}
    assert {
        part for condition in conditions_of([equal]) for part, words in condition.parts.items() if words == "sample"
    } == {"study"}


def test_every_part_makes_another_condition_which_is_named_by_it(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], str, str]] = [
        ({"protocol": "consultation"}, "CRAFT-MD", "Consultation"),
        ({"code_version": "2"}, "version 1", "version 2"),
        ({"case_set": "craftmd"}, "library", "craftmd"),
        ({"case_set": "library:Cardiology", "case_set_hash": "d"}, "1 cases", "library:Cardiology"),
        ({"settings": {"temperature": 0.7}}, "", "temperature 0.7"),
        ({"settings": {"max_tokens": 300, "model_seed": 4}}, "", "at most 300 tokens, model seed 4"),
        ({"settings": {"reasoning_effort": "high"}}, "", "effort high"),
        ({"prompt_pack": "mine", "prompt_hash": "i"}, "prompts craftmd", "prompts mine"),
        ({"prompt_hash": "0123456789"}, "prompts craftmd h", "prompts craftmd 012345"),
        ({"settings": {"max_messages": 4}}, "", "at most 4 messages"),
        ({"settings": {"max_messages": None}}, "", "no message limit"),
        ({"patient": "openai/q"}, "patient openai/p", "patient openai/q"),
        ({"settings": {"persona": "terse"}}, "", "persona terse"),
        ({"settings": {"images": "with"}}, "", "with pictures"),
        ({"summariser": "openai/t"}, "summariser s", "summariser openai/t"),
        ({"settings": {"solver": "openai/t"}}, "", "solver openai/t"),
        ({"settings": {"staff": "openai/t"}}, "", "staff openai/t"),
        ({"settings": {"doctor_prompt": "short"}}, "", "short prompt"),
    ]
    for changes, first, second in rows:
        with subtests.test(changes=changes, first=first):
            runs_by_name = names(a_run("1"), a_run("2", **changes))
            expected = [" · ".join(filter(None, ("openai/a", words))) for words in (first, second)]
            assert runs_by_name == {expected[0]: ("1",), expected[1]: ("2",)}


def test_a_prompt_belongs_to_the_part_of_its_seat_and_an_equal_seat_to_one_condition() -> None:
    """Two packs of version 0.6 differ in the prompts for sections and beliefs alone; the last run is a later one."""
    packs = ("19407fbc5172d6cb", "472458f098b7f25b")
    cast: dict[str, Any] = {"grader": "openai/g", "summariser": "openai/s"}
    seats = dict(known_parts("craftmd", packs[0]))
    new: dict[str, Any] = {"prompt_hash": "later", "settings": {"prompts_by_seat": seats}}
    assert names(*(a_run(hash_, prompt_hash=hash_, **cast) for hash_ in packs), a_run("new", **cast, **new)) == {
        "openai/a": ("19407fbc5172d6cb", "472458f098b7f25b", "new")
    }
    asked: dict[str, Any] = {**cast, "settings": {"probe": True}, "arms": (("multi_turn", "frq"),)}
    probed = [a_run(hash_, prompt_hash=hash_, **asked) for hash_ in packs]
    first, second = conditions_of(probed)
    assert {first.name, second.name} == {"openai/a · beliefs 475c3a", "openai/a · beliefs db7998"}
    assert comparable(first, second)
    assert set(names(probed[0], a_run("unprobed", prompt_hash=packs[1], **cast))) == {"openai/a"}
    capped = a_run("capped", prompt_hash=packs[1], **{**asked, "settings": {"max_messages": 4}})
    assert set(names(probed[0], capped)) == {"openai/a", "openai/a · at most 4 messages"}
    for seat, words in {
        "doctor": ("prompts craftmd 2003c0", "prompts craftmd other"),
        "patient": ("patient openai/p e0fb4a", "patient openai/p other"),
        "summariser": ("summariser openai/s b711db", "summariser openai/s other"),
    }.items():
        changed = {**new, "settings": {"prompts_by_seat": {**seats, seat: "other"}}}
        found = names(a_run("1", prompt_hash=packs[0], **cast), a_run("2", **cast, **changed))
        assert found == {f"openai/a · {words[0]}": ("1",), f"openai/a · {words[1]}": ("2",)}, seat
        # no model reads the prompt of a seat that a rule plays
        rules = {**cast, "patient": "reference/p", "summariser": "reference/s"}
        found = names(a_run("1", prompt_hash=packs[0], **rules), a_run("2", **rules, **changed))
        assert (len(found) == 2) is (seat == "doctor"), seat


def test_names_have_the_framework_and_the_differences_within_it() -> None:
    solved = {"solver": "openai/s", "doctor_prompt": "short", "max_questions": 10}
    runs = [
        a_run("1"),
        a_run("2", protocol="consultation", prompt_hash="i", settings=solved),
        a_run("3", protocol="consultation", prompt_hash="i", settings={**solved, "max_questions": 5}),
    ]
    assert set(names(*runs)) == {
        "openai/a · CRAFT-MD",
        "openai/a · Consultation · at most 10 questions",
        "openai/a · Consultation · at most 5 questions",
    }


def test_the_name_of_a_doctor_has_no_part_that_varies_only_for_others() -> None:
    assert set(names(a_run("1"), a_run("2", doctor="openai/b", patient="openai/q"))) == {"openai/a", "openai/b"}


def test_the_newest_condition_of_a_doctor_comes_first() -> None:
    old, new = a_run("1", created_at=1.0), a_run("2", patient="openai/q", created_at=2.0)
    assert list(names(old, new)) == ["openai/a · patient openai/q", "openai/a · patient openai/p"]


FRQ: dict[str, Any] = {"format": "vignette", "question_type": "frq"}


def graded(verdict: str, at: float = 5.0, grader: str = "g", prompt_hash: str = "") -> Graded:
    return Graded(**FRQ, grader=grader, rule="frq", extracted="Gout", verdict=verdict, at=at, prompt_hash=prompt_hash)


def store_run(store: Store, run_id: str, verdicts: list[str], **changes: Any) -> None:
    """Store a run with one trial of each case; each trial has one free response with the grader's verdict."""
    header = a_header(
        run_id, [a_case(n) for n in range(len(verdicts))], trials=1, arms=[("vignette", "frq")], **changes
    )
    trials = []
    for n, verdict in enumerate(verdicts):
        trial_id = f"{run_id}/{n}"
        events: list[Event] = [
            Started(trial_id=trial_id, case_key=a_case(n).case_key, trial=0, seed=1, at=1.0),
            Answered(**FRQ, response="Gout"),
            graded(verdict),
            Finished(at=6.0),
        ]
        trials.append(a_trial(events, trial_id=trial_id, run_id=run_id, case_key=a_case(n).case_key))
    write_journal(store.journals, run_id, header, *trials)
    fold(store)


def regrade(store: Store, verdicts: dict[str, str], at: float, grader: str = "h", prompt_hash: str = "abc") -> None:
    lines = [
        grades(trial, graded(verdict, at, grader, prompt_hash), run_id=trial.partition("/")[0])
        for trial, verdict in verdicts.items()
    ]
    for line in lines:
        write_journal(store.journals, line.run_id, line)
    fold(store)


def means(store: Store, **filters: Any) -> dict[str, tuple[float | None, int]]:
    return {row["model"]: (row.estimate, row["n_trials"]) for row in accuracy(store, selection=Selection(**filters))}


def test_a_complete_regrading_replaces_the_first_grader(store: Store) -> None:
    store_run(store, "r", ["correct", "correct", "incorrect", "incorrect"])
    assert means(store) == {"openai/a": (0.5, 4)}
    regrade(store, {f"r/{n}": "correct" for n in range(4)}, at=10.0)
    assert means(store) == {"openai/a": (1.0, 4)}


def test_a_partial_regrading_is_a_separate_condition_with_its_coverage(store: Store) -> None:
    store_run(store, "r", ["correct", "correct", "incorrect", "incorrect"])
    regrade(store, {"r/0": "incorrect", "r/2": "correct", "r/3": "correct"}, at=10.0)
    assert means(store) == {"openai/a": (0.5, 4), "openai/a · grader h (3 of 4 answers)": (2 / 3, 3)}
    partial = conditions(store)[-1]
    assert (partial.covered, partial.answers, partial.partial) == (3, 4, True)
    regrade(store, {"r/1": "correct"}, at=11.0)
    assert means(store) == {"openai/a": (0.75, 4)}


def test_an_older_partial_grading_is_history_once_all_is_graded_again(store: Store) -> None:
    store_run(store, "r", ["correct", "incorrect"])
    regrade(store, {"r/0": "incorrect"}, at=10.0, grader="part")
    regrade(store, {"r/0": "correct", "r/1": "correct"}, at=20.0)
    assert means(store) == {"openai/a": (1.0, 2)}


def test_runs_with_different_final_graders_are_two_conditions(store: Store) -> None:
    store_run(store, "r", ["correct", "incorrect"])
    store_run(store, "s", ["correct", "incorrect"], seed=21)
    assert means(store) == {"openai/a": (0.5, 4)}
    regrade(store, {"r/0": "correct", "r/1": "correct"}, at=20.0)
    assert means(store) == {"openai/a · grader g": (0.5, 2), "openai/a · grader h": (1.0, 2)}


@pytest.mark.slow
def test_the_same_grader_under_other_prompts_is_another_one(store: Store) -> None:
    store_run(store, "r", ["correct", "incorrect"])
    store_run(store, "s", ["incorrect", "incorrect"])
    regrade(store, {"r/0": "correct", "r/1": "correct"}, at=20.0, prompt_hash="aaaaaaaaaa")
    regrade(store, {"s/0": "correct", "s/1": "incorrect"}, at=20.0, prompt_hash="bbbbbbbbbb")
    assert means(store) == {"openai/a · grader h aaaaaa": (1.0, 2), "openai/a · grader h bbbbbb": (0.5, 2)}


def test_pooling_on_purpose_is_marked_and_never_mixes_data_sets(store: Store) -> None:
    store_run(store, "r", ["correct", "correct"])
    store_run(store, "s", ["incorrect", "incorrect"], prompt_hash="other")
    store_run(store, "t", ["incorrect", "incorrect"], case_set="elsewhere")
    pooled = means(store, pooled=True)
    assert pooled["openai/a · ours · 2 conditions combined"] == (0.5, 4)
    assert pooled["openai/a · elsewhere"] == (0.0, 2)


def test_a_player_without_a_task_in_a_run_makes_no_condition() -> None:
    """A run of vignettes with choices needs no patient, no summariser and no grader."""
    silent = (("vignette", "mcq"),)
    assert names(a_run("1", arms=silent), a_run("2", arms=silent, patient="openai/q", summariser="openai/t")) == {
        "openai/a": ("1", "2")
    }
    talked = (("multi_turn", "mcq"),)
    assert len(names(a_run("1", arms=talked), a_run("2", arms=talked, patient="openai/q"))) == 2


def test_vignettes_of_one_run_and_conversations_of_another_are_one_condition() -> None:
    vignettes, conversation = a_run("1", arms=(("vignette", "mcq"),)), a_run("2", arms=(("multi_turn", "mcq"),))
    assert names(vignettes, conversation) == {"openai/a": ("1", "2")}
    other = a_run("3", arms=(("multi_turn", "mcq"),), patient="openai/q")
    assert names(vignettes, conversation, other) == {
        "openai/a": ("1",),
        "openai/a · patient openai/p": ("2",),
        "openai/a · patient openai/q": ("3",),
    }, "with two patients, the vignettes belong to neither"


def test_runs_that_each_lack_another_seat_are_one_condition() -> None:
    vignettes, choices = a_run("1", arms=(("vignette", "mcq"),)), a_run("2", arms=(("multi_turn", "mcq"),))
    summed = a_run("3", arms=(("summarized", "mcq"),))
    assert names(vignettes, choices, summed) == {"openai/a": ("1", "2", "3")}


@pytest.mark.slow
def test_a_run_with_choices_alone_is_one_with_a_run_that_was_graded(store: Store) -> None:
    store_run(store, "graded", ["correct"])
    header = a_header("choices", [a_case(0)], trials=1, arms=[("vignette", "mcq")])
    arm: dict[str, Any] = {"format": "vignette", "question_type": "mcq"}
    right = Graded(**arm, grader="rule", rule="mcq_loose", extracted=None, verdict="correct", at=5.0)
    events: list[Event] = [
        Started(trial_id="choices/0", case_key=a_case(0).case_key, trial=0, seed=1, at=1.0),
        Answered(**arm, response="Gout"),
        right,
        Finished(at=6.0),
    ]
    write_journal(
        store.journals,
        "choices",
        header,
        a_trial(events, trial_id="choices/0", run_id="choices", case_key=a_case(0).case_key),
    )
    fold(store)
    (condition,) = conditions(store)
    assert condition.runs == ("choices", "graded")
    assert {row["question_type"]: row["model"] for row in accuracy(store)} == {"mcq": "openai/a", "frq": "openai/a"}


def test_a_condition_remarks_that_rules_play_the_patient() -> None:
    arms = (("multi_turn", "frq"),)
    (condition,) = conditions_of([a_run("1", arms=arms, patient="reference/profile")])
    assert condition.remarks == ("rules play the patient",)


@pytest.mark.slow
def test_the_name_of_a_doctor_selects_all_its_conditions(store: Store) -> None:
    store_run(store, "r", ["correct"])
    store_run(store, "s", ["incorrect"], prompt_pack="mine", prompt_hash="other")
    names_of_both = set(means(store))
    assert len(names_of_both) == 2
    assert set(means(store, models=["openai/a"])) == names_of_both
    assert means(store, models=["openai/a · prompts mine"]) == {"openai/a · prompts mine": (0.0, 1)}


def test_every_filter_narrows_the_figures_and_leaves_the_names_as_they_are(store: Store) -> None:
    store_run(store, "r", ["correct", "incorrect"])
    settings = {"max_messages": 30, "persona": "terse"}
    store_run(store, "s", ["incorrect", "incorrect"], prompt_pack="mine", prompt_hash="other", settings=settings)
    plain, terse = "openai/a · prompts default", "openai/a · prompts mine · persona terse"
    assert means(store) == {plain: (0.5, 2), terse: (0.0, 2)}
    assert means(store, packs=["mine"]) == means(store, personas=["terse"]) == {terse: (0.0, 2)}
    assert means(store, personas=[""]) == means(store, patients=["openai/p"], packs=["default"]) == {plain: (0.5, 2)}
    assert means(store, cases=["ours/0"]) == means(store, case="0") == {plain: (1.0, 1), terse: (0.0, 1)}
    assert means(store, verdicts=["correct"], arm="vignette:frq") == {plain: (1.0, 1)}
    assert means(store, pictures=False) == means(store, statuses=["finished"]) == means(store)
    assert means(store, pictures=True) == means(store, text="fever") == means(store, patients=["openai/none"]) == {}


def test_own_runs_the_sample_study_and_releases_are_told_apart_and_own_runs_come_first(store: Store) -> None:
    study = {"max_messages": 30, "study": "sample"}
    store_run(store, "r", ["correct", "incorrect"], doctor="openai/z")
    store_run(store, "s", ["incorrect"], doctor="openai/a", settings=study)
    store_run(store, "t", ["correct"], doctor="gpt_4")
    with store.write() as connection:  # an import of a release inserts its run, not the fold of a journal
        connection.execute("UPDATE runs SET source = 'release' WHERE run_id = 't'")
    own, sample, released = {"openai/z": (0.5, 2)}, {"openai/a · sample": (0.0, 1)}, {"gpt_4": (1.0, 1)}
    assert list(means(store)) == ["openai/z", "openai/a · sample", "gpt_4"]
    assert means(store, origins=["mine"]) == own
    assert means(store, origins=["sample"]) == sample
    assert means(store, origins=["published"]) == released
    assert means(store, origins=["published", "mine"]) == {**own, **released}
    assert means(store, origins=["sample"], runs=["r"]) == {}
    assert not Selection(origins=["mine"]).has_published
    assert Selection().has_published


def test_selected_trials_count_for_every_source_of_their_run(store: Store) -> None:
    store_run(store, "r", ["correct", "incorrect"], source="live")
    assert means(store) == {}
    assert means(store, trials=["r/1"]) == {"openai/a": (0.0, 1)}


def sampled(store: Store, **selected: Any) -> dict[str, set[str]]:
    """Return condition → the case keys of its trials in a selection."""
    with store.read() as cursor:
        select(cursor, Selection(**selected))
        sql = "SELECT model, list(case_key) FROM chosen JOIN seated USING (run_id) GROUP BY model"
        return {model: set(keys) for model, keys in cursor.execute(sql).fetchall()}


@pytest.mark.slow
def test_a_sample_is_always_the_same_on_the_same_cases_and_part_of_a_larger_one(store: Store) -> None:
    store_run(store, "a", ["correct"] * 9, doctor="openai/a")
    store_run(store, "b", ["incorrect"] * 9, doctor="openai/b")
    store_run(store, "c", ["correct"], doctor="openai/c")

    three = sampled(store, sample=3)
    assert three == sampled(store, sample=3)
    assert len(three["openai/a"]) == 3
    assert three["openai/a"] == three["openai/b"]
    assert len(three["openai/c"]) == 1, "a smaller condition is in it as a whole"
    assert three["openai/a"] < sampled(store, sample=5)["openai/a"]
    assert sampled(store, sample=3, conditions=["openai/a"]) == {"openai/a": three["openai/a"]}
    with store.read() as cursor:
        assert sample_size(cursor, Selection(sample=3)) == (7, 19)


def test_figures_of_a_sample_are_those_of_its_trials(store: Store) -> None:
    store_run(store, "a", ["correct", "incorrect", "correct", "incorrect"], doctor="openai/a")
    keys = sampled(store, sample=2)["openai/a"]
    right = sum(int(key.rpartition("/")[2]) % 2 == 0 for key in keys)
    assert means(store, sample=2) == {"openai/a": (right / 2, 2)}
