"""A conversation in tags as it is displayed, and the facts of a profile that the doctor has learned."""

from __future__ import annotations

import pytest

from core.asking.scene import Turn
from core.events import Assessed, Ended, Event, Utterance
from core.frameworks.automedic.tags import (
    EMPATHY,
    GOES,
    MISUSE,
    message_of,
    queries_passed_on,
    speaks_in_tags,
    without_tags,
)
from core.frameworks.speech import ShownMessage
from core.measures.coverage import gathered
from tests.core.store.builders import a_case, a_stream
from tests.support.tagged import misused_events, the_case, untagged_events


def message(text: str, turn: int = 0, role: str = "doctor") -> Utterance:
    return Utterance(turn=turn, role=role, text=text)


ONE_TAG = [
    ("<patient>How long?</patient>", "patient", "How long?"),
    ("<clinical>Vital signs?</clinical>\n", "staff", "Vital signs?"),
    ("</end>", "end", ""),
]


def test_a_message_with_one_tag_only_is_displayed_without_it() -> None:
    assert [
        content for content, goes, text in ONE_TAG if message_of(content) != ShownMessage(GOES[goes], text, goes)
    ] == []


@pytest.mark.parametrize(
    ("content", "goes", "text"),
    [
        ("<think>a, b</think><patient>How long?</patient>", "patient", "How long?"),
        ("Well. <patient>How long?</patient>", "patient", "How long?"),
        ("<patient>How long?</patient></end>", "end", ""),
        ("<nurse>How long?</nurse>", "nowhere", "<nurse>How long?</nurse>"),
        ("How long?", "nowhere", "How long?"),
    ],
)
def test_a_message_with_more_than_its_query_can_be_displayed_in_full(content: str, goes: str, text: str) -> None:
    displayed = message_of(content)
    assert (displayed.goes, displayed.text) == (goes, text)
    assert displayed.whole == (content if goes != "nowhere" else None)


def test_an_open_tag_is_passed_on_unless_its_conversation_ended_with_it() -> None:
    """A conversation of an earlier version ended at an open tag, and is displayed as it was played."""
    content = "<clinical>How is the pulse?"
    then = Assessed(name=MISUSE, turn=0, values=("no_tag", "unclosed"))
    now = Assessed(name=MISUSE, turn=0, values=("unclosed",))
    assert message_of(content, now) == ShownMessage(GOES["staff"], "How is the pulse?", "staff", content)
    assert message_of(content, then) == ShownMessage(GOES["nowhere"], content, "nowhere")
    assert queries_passed_on([message(content), now]) == 1
    assert queries_passed_on([message(content), then, Ended(reason="no_tag", doctor_turns=0)]) == 0


INCOMPLETE = [
    ("<think>It may be", ""),
    ("<think>x</think><pati", ""),
    ("<patient>How lo", "How lo"),
    ("<patient>How long?</pat", "How long?"),
    ("Is it < 3 days?", "Is it"),
]


def test_an_incomplete_message_is_displayed_without_partial_tags() -> None:
    assert [so_far for so_far, words in INCOMPLETE if without_tags(so_far) != words] == []


def test_a_conversation_in_tags_is_recognised_by_its_events() -> None:
    assert speaks_in_tags(misused_events())
    assert speaks_in_tags(untagged_events())
    assert speaks_in_tags([message("<clinical>Vital signs?</clinical>", turn=4)]), "a part of a conversation"
    telling_events: list[Event] = [
        message("Fine.", role="staff"),
        Assessed(name=MISUSE, turn=0, values=("no_tag",)),
        Assessed(name=EMPATHY, most=5, by="p"),
        Ended(reason="no_tag", doctor_turns=0),
    ]
    assert all(speaks_in_tags([event]) for event in telling_events)


def test_conversations_of_other_frameworks_are_not_in_tags() -> None:
    assert not speaks_in_tags(a_stream())
    assert not speaks_in_tags([])
    greeted = [
        message("Hello, what brings you in?"),
        message("It itches.", 1, "patient"),
        message("<patient>?</patient>", 2),
    ]
    assert not speaks_in_tags(greeted), "the doctor's first message decides"
    opened = [message("Please help.", role="patient"), message("Since when?", 1)]
    assert not speaks_in_tags(opened)
    # words that look like tags, and tags after an opening message of the patient
    assert not speaks_in_tags([message("Hello, <patient>. Where does it hurt at the <end> of the day?")])
    assert not speaks_in_tags([message("Please help.", role="patient")])
    assert not speaks_in_tags([message("Please help.", role="patient"), message("<patient>Since when?</patient>", 1)])
    assert not speaks_in_tags([Ended(reason="turn_cap", doctor_turns=3)])


def test_queries_are_counted_and_misuses_are_stored_with_their_message() -> None:
    assert queries_passed_on(misused_events()) == 3
    assert queries_passed_on(untagged_events()) == 0
    assert {
        event.turn: event.values for event in misused_events() if isinstance(event, Assessed) and event.turn is not None
    } == {2: ("text_outside",), 4: ("text_outside", "speaks_for_others"), 6: ("end_with_query",)}


def test_a_fact_counts_only_from_the_role_that_knows_it() -> None:
    case = the_case()
    assert case.profile is not None
    basic, optional = case.profile.basic[0], case.profile.optional[0]
    before = gathered(case, ())
    assert before.demographics == case.profile.demographics
    assert before.brought == 0
    dialogue = [
        Turn("doctor", basic.value),
        Turn("patient", basic.lay),
        Turn("doctor", "?"),
        Turn("staff", optional.value),
    ]
    after = gathered(case, dialogue)
    assert (after.patient[0].turn, after.staff[0].turn) == (1, 3)
    swapped = gathered(case, [Turn("staff", basic.lay), Turn("patient", optional.value)])
    assert (swapped.patient[0].turn, swapped.staff[0].turn) == (None, None)
    assert len(after.asked) == len(case.profile.basic) + len(case.profile.optional)


def test_a_case_without_a_profile_has_nothing_to_gather() -> None:
    assert gathered(a_case(profile=None), [Turn("patient", "Vignette 1.")]).asked == ()
