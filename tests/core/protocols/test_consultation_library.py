"""Consultation over the whole library with the reference cast: bounds and oracle in their order, and what comes out."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from statistics import fmean

import pytest

from core.agents.base import Turn
from core.agents.casting import CONSULTATION_PROMPTS, Casting, craftmd_pack
from core.agents.oracle import BY_NAME, CLOSING, QUESTION
from core.campaigns.plan import seed_of
from core.case import Case
from core.consultation.items import consultation_case
from core.datasets.library import library
from core.events import Ended, Event, Graded, Utterance
from core.metrics.history.measures import Measures, measure, yardstick
from core.models.registry import load_registry
from core.prompts import load_pack
from core.protocols.consultation import ConsultationRules, run_consultation
from core.protocols.craftmd import Trial
from tests.support.campaigns import beside_rules

ORACLES = ("direct", "random", "reversed")
CAP = 10
Played = dict[str, list[Event]]
"""Case → the events of one trial."""


async def _play(doctor: str, cases: tuple[Case, ...], cap: int) -> Played:
    casting = Casting(load_registry(), load_pack("consultation", CONSULTATION_PROMPTS))
    cast = casting.consultation(beside_rules(doctor), "reference/solver", "", cap, craftmd_pack())
    rules = ConsultationRules(max_questions=cap)
    trials = [Trial(f"{doctor} {case.case_key}", case, 0, seed_of(20, case.case_key, 0)) for case in cases]
    return {t.case.case_key: [event async for event in run_consultation(t, cast, rules)] for t in trials}


def play(doctor: str, cases: tuple[Case, ...] = library(), cap: int = CAP) -> Played:
    return asyncio.run(_play(doctor, cases, cap))


@pytest.fixture(scope="module")
def played() -> dict[str, Played]:
    return {name: play(name) for name in BY_NAME}


def accuracy(trials: Played) -> float:
    """The share of cases that the strict rule counts as correct."""
    graded = [e for events in trials.values() for e in events if isinstance(e, Graded) and e.rule == "mcq_strict"]
    assert len(graded) == len(library()) == 60
    return fmean(e.verdict == "correct" for e in graded)


def dialogue(events: list[Event]) -> list[Turn]:
    return [Turn(e.role, e.text) for e in events if isinstance(e, Utterance)]


def measured(trials: Played) -> list[Measures]:
    cases = [consultation_case(case) for case in library()]
    return [measure(dialogue(trials[c.case.case_key]), yardstick(c.information, c.items)) for c in cases]


@pytest.mark.parametrize("order", ORACLES)
def test_the_oracle_lies_between_the_bounds(played: dict[str, Played], order: str) -> None:
    upper, lower = accuracy(played["reference/upper-bound"]), accuracy(played["reference/lower-bound"])
    oracle = accuracy(played[f"reference/oracle-{order}"])
    assert upper >= oracle >= lower
    # with all but a few items told the oracle is near the upper bound, and the opening alone is little more than chance
    assert oracle - lower > 0.4
    assert lower >= 0.25


@pytest.mark.parametrize("order", ORACLES)
def test_the_more_of_the_dialogue_the_more_is_uncovered(played: dict[str, Played], order: str) -> None:
    curves = [m.curves["patient_recall"] for m in measured(played[f"reference/oracle-{order}"])]
    means = [fmean(float(curve[at] or 0) for curve in curves) for at in (0, 3, 6, 10)]
    assert all(later > earlier + 0.05 for earlier, later in pairwise(means)), means


@pytest.mark.parametrize("order", ORACLES)
def test_every_question_of_the_oracle_uncovers_its_item_until_the_cap(played: dict[str, Played], order: str) -> None:
    """Each question names another item, and the patient tells just that one."""
    for case in map(consultation_case, library()):
        events = played[f"reference/oracle-{order}"][case.case.case_key]
        turns = dialogue(events)
        asked = [t.text for t in turns if t.role == "doctor" and t.text != CLOSING]
        keys = [QUESTION.format(key=item.key) for item in case.items]
        assert len(asked) == min(CAP, len(keys))
        if order == "direct":
            assert asked == keys[:CAP]
        elif order == "reversed":
            assert asked == keys[::-1][:CAP]
        assert len(set(asked)) == len(asked)
        assert set(asked) <= set(keys)
        (end,) = (e for e in events if isinstance(e, Ended))
        assert end.reason == ("turn_cap" if len(keys) >= CAP else "no_question")
        assert "I don't know" not in " ".join(t.text for t in turns)


def test_random_orders_differ_between_trials_and_are_the_same_for_one_seed(played: dict[str, Played]) -> None:
    cases = library()[:5]
    again = play("reference/oracle-random", cases)
    first = [dialogue(played["reference/oracle-random"][case.case_key]) for case in cases]
    assert first == [dialogue(again[case.case_key]) for case in cases]
    direct = [dialogue(played["reference/oracle-direct"][case.case_key]) for case in cases]
    assert all(one != other for one, other in zip(first, direct, strict=True))


def test_more_questions_uncover_more(played: dict[str, Played]) -> None:
    """With two questions instead of ten the oracle learns less in every case."""
    few = [m.patient_recall for m in measured(play("reference/oracle-direct", cap=2))]
    many = [m.patient_recall for m in measured(played["reference/oracle-direct"])]
    assert all((one or 0) < (other or 0) for one, other in zip(few, many, strict=True))


def test_the_lower_bound_is_the_opening_alone(played: dict[str, Played]) -> None:
    for case in map(consultation_case, library()):
        turns = dialogue(played["reference/lower-bound"][case.case.case_key])
        assert turns == [Turn("patient", case.opening)]
        assert dialogue(played["reference/upper-bound"][case.case.case_key]) == []
