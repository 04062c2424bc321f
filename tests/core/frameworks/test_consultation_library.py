"""Consultation over the library with the reference cast: the bounds, the oracle, and the items that are told."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from statistics import fmean

import pytest

from core.asking.scene import Turn
from core.case import Case
from core.datasets.library import library
from core.events import Ended, Event, Graded, Utterance
from core.frameworks.base import Trial, default_pack
from core.frameworks.casting import Casting
from core.frameworks.consultation import ARMS
from core.frameworks.consultation.measures.history_taking import Measures, measure, yardstick
from core.frameworks.consultation.roles import BY_NAME, CLOSING, QUESTION, briefing_of
from core.journal import seed_of
from core.models.registry import load_registry
from core.prompts import load_pack
from core.text.case_items import itemized
from tests.support.campaigns import beside_rules
from tests.support.playing import opened

ORACLES = ("direct", "random", "reversed")
CAP = 10
Played = dict[str, list[Event]]
"""Case → the events of one trial."""


async def _play(doctor: str, cases: tuple[Case, ...], cap: int) -> Played:
    casting = Casting(load_registry(), load_pack("consultation"), grading=default_pack())
    play_trial = opened(casting, beside_rules(doctor), "consultation", max_questions=cap)
    trials = [Trial(f"{doctor} {case.case_key}", case, 0, seed_of(20, case.case_key, 0), ARMS[:1]) for case in cases]
    return {t.case.case_key: [event async for event in play_trial(t)] for t in trials}


def play(doctor: str, cases: tuple[Case, ...] = library(), cap: int = CAP) -> Played:
    return asyncio.run(_play(doctor, cases, cap))


@pytest.fixture(scope="module")
def played() -> dict[str, Played]:
    return {name: play(name) for name in BY_NAME}


def accuracy(trials: Played) -> float:
    """Return the share of cases whose answer is correct by the strict rule."""
    graded = [e for events in trials.values() for e in events if isinstance(e, Graded) and e.rule == "mcq_strict"]
    assert len(graded) == len(library()) == 60
    return fmean(e.verdict == "correct" for e in graded)


def dialogue(events: list[Event]) -> list[Turn]:
    return [Turn(e.role, e.text) for e in events if isinstance(e, Utterance)]


@pytest.fixture(scope="module")
def measured(played: dict[str, Played]) -> dict[str, list[Measures]]:
    """Return order of the oracle → the measures of its conversations."""
    cases = [(item.case.case_key, yardstick(item.case.vignette, item.items)) for item in map(itemized, library())]
    return {
        order: [measure(dialogue(played[f"reference/oracle-{order}"][key]), against) for key, against in cases]
        for order in ORACLES
    }


@pytest.mark.slow
def test_the_oracle_is_between_the_bounds(played: dict[str, Played]) -> None:
    upper, lower = accuracy(played["reference/upper-bound"]), accuracy(played["reference/lower-bound"])
    assert lower >= 0.25
    for order in ORACLES:
        oracle = accuracy(played[f"reference/oracle-{order}"])
        assert upper >= oracle >= lower
        # with nearly all items the oracle is near the upper bound; the opening alone is little better than chance
        assert oracle - lower > 0.4


@pytest.mark.slow
def test_the_recall_rises_during_the_dialogue(measured: dict[str, list[Measures]]) -> None:
    for order, measures in measured.items():
        curves = [m.curves["patient_recall"] for m in measures]
        means = [fmean(float(curve[at] or 0) for curve in curves) for at in (0, 3, 6, 10)]
        assert all(later > earlier + 0.05 for earlier, later in pairwise(means)), (order, means)


IMPORTED = Case(
    case_key="x/1",
    dataset="x",
    specialty="Other",
    answer="Pleurisy",
    choices=("Pleurisy", "Gout"),
    vignette=(
        "A 46-year-old woman comes to the clinic because of chest pain. The pain began three days ago and is sharp. It "
        "gets worse when she breathes in. She also has a dry cough. She denies fever and chills. Past medical history "
        "includes asthma. She takes albuterol daily. She is allergic to penicillin. Her father had a stroke. She "
        "smokes one pack of cigarettes a day and works as a teacher. She recently traveled to Peru. Her pulse is "
        "96/min and blood pressure is 120/80 mm Hg. Auscultation shows a friction rub. Laboratory studies show a "
        "hemoglobin of 12 g/dL. An x-ray of the chest shows no abnormalities."
    ),
)
"""A case without a profile, as imported; its sentences make 16 items."""


@pytest.mark.slow
@pytest.mark.parametrize("order", ORACLES)
def test_the_oracle_asks_for_every_item_and_gets_it(played: dict[str, Played], order: str) -> None:
    """Each question names another item, and the patient tells only this item; there is no cap."""
    events_of = {**played[f"reference/oracle-{order}"], **play(f"reference/oracle-{order}", (IMPORTED,))}
    for case in map(itemized, (*library(), IMPORTED)):
        events = events_of[case.case.case_key]
        turns = dialogue(events)
        questions = [t.text for t in turns if t.role == "doctor" and t.text != CLOSING]
        keys = [QUESTION.format(key=item.key) for item in case.items]
        assert sorted(questions) == sorted(keys)
        assert len(set(questions)) == len(questions)
        if order != "random":
            assert questions == (keys if order == "direct" else keys[::-1])
        replies = {q.text: a.text for q, a in pairwise(turns) if q.role == "doctor"}
        lay = {QUESTION.format(key=item.key): item.lay for item in briefing_of(case).items}
        assert replies == lay  # all items are told
        (end,) = (e for e in events if isinstance(e, Ended))
        assert (end.reason, end.doctor_turns) == ("no_question", len(keys) + 1)
    assert len(itemized(IMPORTED).items) == 16 > CAP


@pytest.mark.slow
def test_all_orders_end_with_the_same_items(measured: dict[str, list[Measures]]) -> None:
    ends = [[(m.patient_recall, m.doctor_recall) for m in measures] for measures in measured.values()]
    assert ends[0] == ends[1] == ends[2]
    assert {doctor for _, doctor in ends[0]} == {1.0}
    assert sum(len(itemized(case).items) > CAP for case in library()) == 54


@pytest.mark.slow
def test_random_orders_differ_between_trials_and_are_the_same_for_one_seed(played: dict[str, Played]) -> None:
    cases = library()[:5]
    repeated = play("reference/oracle-random", cases)
    first = [dialogue(played["reference/oracle-random"][case.case_key]) for case in cases]
    assert first == [dialogue(repeated[case.case_key]) for case in cases]
    direct = [dialogue(played["reference/oracle-direct"][case.case_key]) for case in cases]
    assert all(random_order != direct_order for random_order, direct_order in zip(first, direct, strict=True))


@pytest.mark.slow
def test_the_cap_binds_others_and_not_the_oracle(played: dict[str, Played]) -> None:
    cases = library()[:10]
    assert {key: dialogue(events) for key, events in play("reference/oracle-direct", cases, cap=2).items()} == {
        case.case_key: dialogue(played["reference/oracle-direct"][case.case_key]) for case in cases
    }
    capped = play("reference/bayes", cases, cap=2)
    assert {sum(turn.role == "doctor" for turn in dialogue(events)) for events in capped.values()} == {2}


@pytest.mark.slow
def test_the_lower_bound_is_the_opening_alone(played: dict[str, Played]) -> None:
    for case in map(itemized, library()):
        turns = dialogue(played["reference/lower-bound"][case.case.case_key])
        assert turns == [Turn("patient", case.opening)]
        assert dialogue(played["reference/upper-bound"][case.case.case_key]) == []
