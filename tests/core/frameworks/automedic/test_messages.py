"""A conversation in tags as a reader is shown it, and what of a profile it has brought to the doctor."""

from __future__ import annotations

import pytest

from core.asking.scene import Turn
from core.events import Assessed, Ended, Event, Utterance
from core.frameworks.automedic.tags import (
    EMPATHY,
    GOES,
    MISUSE,
    Goes,
    message_of,
    queries_passed_on,
    speaks_in_tags,
    without_tags,
)
from core.frameworks.speech import ShownMessage
from core.measures.coverage import gathered
from tests.core.store.builders import a_case, a_stream
from tests.support.tagged import misused_events, the_case, untagged_events


def said(text: str, turn: int = 0, role: str = "doctor") -> Utterance:
    return Utterance(turn=turn, role=role, text=text)


@pytest.mark.parametrize(
    ("written", "goes", "text"),
    [
        ("<patient>How long?</patient>", "patient", "How long?"),
        ("<clinical>Vital signs?</clinical>\n", "staff", "Vital signs?"),
        ("</end>", "end", ""),
    ],
)
def test_a_message_that_is_nothing_but_its_tag_is_shown_without_it(written: str, goes: Goes, text: str) -> None:
    assert message_of(written) == ShownMessage(GOES[goes], text, goes)


@pytest.mark.parametrize(
    ("written", "goes", "text"),
    [
        ("<think>a, b</think><patient>How long?</patient>", "patient", "How long?"),
        ("Well. <patient>How long?</patient>", "patient", "How long?"),
        ("<patient>How long?</patient></end>", "end", ""),
        ("<nurse>How long?</nurse>", "nowhere", "<nurse>How long?</nurse>"),
        ("How long?", "nowhere", "How long?"),
    ],
)
def test_what_holds_more_than_its_query_can_be_seen_whole(written: str, goes: str, text: str) -> None:
    shown = message_of(written)
    assert (shown.goes, shown.text) == (goes, text)
    assert shown.whole == (written if goes != "nowhere" else None)


@pytest.mark.parametrize(
    ("so_far", "words"),
    [
        ("<think>It may be", ""),
        ("<think>x</think><pati", ""),
        ("<patient>How lo", "How lo"),
        ("<patient>How long?</pat", "How long?"),
        ("Is it < 3 days?", "Is it"),
    ],
)
def test_a_message_that_is_still_being_said_shows_no_half_tags(so_far: str, words: str) -> None:
    assert without_tags(so_far) == words


def test_a_conversation_is_known_by_what_no_other_protocol_has() -> None:
    assert speaks_in_tags(misused_events())
    assert speaks_in_tags(untagged_events())
    assert speaks_in_tags([said("<clinical>Vital signs?</clinical>", turn=4)]), "a part of one"
    alone: list[Event] = [
        said("Fine.", role="staff"),
        Assessed(name=MISUSE, turn=0, values=("no_tag",)),
        Assessed(name=EMPATHY, most=5, by="p"),
        Ended(reason="no_tag", doctor_turns=0),
    ]
    assert all(speaks_in_tags([event]) for event in alone)


def test_other_protocols_are_not_taken_for_it() -> None:
    assert not speaks_in_tags(a_stream())
    assert not speaks_in_tags([])
    greeted = [said("Hello, what brings you in?"), said("It itches.", 1, "patient"), said("<patient>?</patient>", 2)]
    assert not speaks_in_tags(greeted), "the doctor's first message decides"
    opened = [said("Please help.", role="patient"), said("Since when?", 1)]
    assert not speaks_in_tags(opened)
    # words that look like tags, a model that thinks aloud, and tags after a patient who opened
    assert not speaks_in_tags([said("Hello, <patient>. Where does it hurt at the <end> of the day?")])
    assert not speaks_in_tags([said("Please help.", role="patient")])
    assert not speaks_in_tags([said("Please help.", role="patient"), said("<patient>Since when?</patient>", 1)])
    assert not speaks_in_tags([Ended(reason="turn_cap", doctor_turns=3)])


def test_queries_and_misuses_are_told_by_their_messages() -> None:
    assert queries_passed_on(misused_events()) == 3
    assert queries_passed_on(untagged_events()) == 0
    assert {
        event.turn: event.values for event in misused_events() if isinstance(event, Assessed) and event.turn is not None
    } == {2: ("text_outside",), 4: ("text_outside", "speaks_for_others"), 6: ("end_with_query",)}


def test_a_fact_is_brought_by_who_holds_it_alone() -> None:
    case = the_case()
    assert case.profile is not None
    basic, optional = case.profile.basic[0], case.profile.optional[0]
    before = gathered(case, ())
    assert before.demographics == case.profile.demographics
    assert before.brought == 0
    told = [Turn("doctor", basic.value), Turn("patient", basic.lay), Turn("doctor", "?"), Turn("staff", optional.value)]
    after = gathered(case, told)
    assert (after.patient[0].turn, after.staff[0].turn) == (1, 3)
    swapped = gathered(case, [Turn("staff", basic.lay), Turn("patient", optional.value)])
    assert (swapped.patient[0].turn, swapped.staff[0].turn) == (None, None)
    assert len(after.asked) == len(case.profile.basic) + len(case.profile.optional)


def test_a_case_without_a_profile_has_nothing_to_gather() -> None:
    assert gathered(a_case(profile=None), [Turn("patient", "Vignette 1.")]).asked == ()
