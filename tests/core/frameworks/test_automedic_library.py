"""AutoMedic over the library with the reference cast: endings, replies from own knowledge only, value of the staff."""

from __future__ import annotations

import asyncio
from statistics import fmean
from typing import Any

import pytest

from core.agents.reference.grader import ReferenceGrader
from core.asking.scene import Turn
from core.case import Case, Fact
from core.datasets.library import library
from core.events import Answered, Assessed, Ended, Event, Failed, Graded, Probed, Utterance
from core.frameworks.automedic import ARMS, FRAMEWORK, MAX_TURNS, AutoMedicCast, AutoMedicSettings
from core.frameworks.automedic.reference import (
    NOT_JUDGED,
    ReferenceAutoMedicPatient,
    ReferenceStaff,
    ReferenceTagDoctor,
    reported,
)
from core.frameworks.automedic.roles import NOT_AVAILABLE, Facts
from core.frameworks.automedic.tags import queries_of
from core.frameworks.base import Trial
from core.journal import seed_of

pytestmark = pytest.mark.xdist_group("automedic_library")  # one worker plays the library for all tests

Played = dict[str, list[Event]]
"""Case → the events of one trial."""


class WithoutResults(ReferenceStaff):
    """A staff without results."""

    def named(self, query: str, results: Facts) -> list[Fact]:
        return []


STAFF = ReferenceStaff()


def play(cases: tuple[Case, ...] = library(), *, staff: ReferenceStaff = STAFF, seed: int = 20) -> Played:
    cast = AutoMedicCast(ReferenceTagDoctor(), ReferenceAutoMedicPatient(), staff, ReferenceGrader())

    async def everything() -> Played:
        trials = [Trial("t", case, 0, seed_of(seed, case.case_key, 0), ARMS[:2]) for case in cases]
        return {t.case.case_key: [e async for e in FRAMEWORK.play(t, cast, AutoMedicSettings())] for t in trials}

    return asyncio.run(everything())


@pytest.fixture(scope="module")
def played() -> Played:
    return play()


def accuracy(trials: Played, format_: str) -> float:
    graded = [
        e
        for events in trials.values()
        for e in events
        if isinstance(e, Graded) and (e.rule, e.format) == ("mcq_strict", format_)
    ]
    assert len(graded) == len(library()) == 60
    return fmean(e.verdict == "correct" for e in graded)


def dialogue(events: list[Event]) -> tuple[Turn, ...]:
    return tuple(Turn(e.role, e.text) for e in events if isinstance(e, Utterance))


def story(events: list[Event]) -> list[dict[str, Any]]:
    return [{k: v for k, v in e.model_dump(mode="json").items() if k != "at"} for e in events]


@pytest.mark.slow
def test_every_trial_ends_properly(played: Played) -> None:
    for case in library():
        events = played[case.case_key]
        (end,) = (e for e in events if isinstance(e, Ended))
        assert end.reason in ("end_tag", "turn_cap")
        assert 4 <= end.doctor_turns <= MAX_TURNS
        assert end.doctor_turns == len(queries_of(dialogue(events)))
        assert not [e for e in events if isinstance(e, Failed)]
        assert len([e for e in events if isinstance(e, Probed)]) == end.doctor_turns
        (rating,) = (e for e in events if isinstance(e, Assessed))  # the only assessment: no message broke the protocol
        assert rating.turn is None
        assert rating.value is None
        assert rating.words == NOT_JUDGED
        assert [(e.format, e.status) for e in events if isinstance(e, Answered)] == [
            ("vignette", "answered"),
            ("multi_turn", "answered"),
        ]


@pytest.mark.slow
def test_the_staff_reports_results_only(played: Played) -> None:
    for case in library():
        assert case.profile is not None
        results = {reported(fact) for fact in case.profile.optional}
        for turn in dialogue(played[case.case_key]):
            if turn.role == "staff" and turn.text != NOT_AVAILABLE:
                rest = turn.text
                for result in results:
                    rest = rest.replace(result, "")
                assert not rest.strip(), turn.text


@pytest.mark.slow
def test_the_patient_tells_no_result(played: Played) -> None:
    """The patient tells no finding of examination or tests, neither in clinical nor in lay words."""
    for case in library():
        assert case.profile is not None
        own_facts = " ".join(fact.lay for fact in case.profile.demographics + case.profile.basic)
        replies = " ".join(t.text for t in dialogue(played[case.case_key]) if t.role == "patient")
        for fact in case.profile.optional:
            assert fact.lay in own_facts or fact.lay not in replies


@pytest.mark.slow
def test_the_vignette_is_easier_than_the_conversation_and_the_staff_helps(played: Played) -> None:
    """Over the 60 cases with one seed: 1.00 on the vignette, 0.98 after the conversation, 0.97 without the staff."""
    static, after = accuracy(played, "vignette"), accuracy(played, "multi_turn")
    without_staff = accuracy(play(staff=WithoutResults()), "multi_turn")
    assert static >= after > without_staff
    assert without_staff > 0.6


@pytest.mark.slow
def test_the_same_seed_gives_the_same_events(played: Played) -> None:
    cases = library()[::10]
    repeated, other = play(cases), play(cases, seed=21)
    for case in cases:
        assert story(repeated[case.case_key]) == story(played[case.case_key])
    assert any(story(other[c.case_key])[1:] != story(played[c.case_key])[1:] for c in cases)
