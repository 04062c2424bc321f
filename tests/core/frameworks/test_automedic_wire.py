"""AutoMedic's requests: the messages to each model, doctors that break the protocol, and a provider's faults."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from core.case import Case
from core.events import Answered, Assessed, Ended, Event, Failed, Finished, Started, Utterance
from core.frameworks.automedic import ARMS, NOTHING_TO_RATE
from core.frameworks.automedic.roles import NOT_AVAILABLE
from core.frameworks.base import Arm, default_pack
from core.frameworks.casting import Casting, CastNames
from core.models.base import Sampling
from core.models.registry import load_registry
from core.models.settings import SHIPPED
from core.prompts import load_pack
from tests.core.frameworks.stage import (
    CASE,
    QUICK,
    SEED,
    calls,
    ended,
    last,
    messages_of,
    of,
    role_of,
    sent_to,
    verdicts,
)
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import FakeProvider
from tests.support.playing import play_case
from tests.support.replies import Reply, content_filtered, failing, rating

MODELS = CastNames("openai/doctor", "openai/patient", "openai/grader")
STAFF = "openai/staff"
COMPLAINT = "<patient>What brings you here?</patient>"
PULSE = "<clinical>What is the temperature?</clinical>"
RIGHT = "C. Allergic contact dermatitis"
OPTIONAL = ("36.8", "vesicles", "thiuram", "patch test", "blisters")
"""Words of the results, which only the clinical staff knows."""
OF_TASK = ("Scabies", "Psoriasis", "contact dermatitis", "Tinea manuum", "following is the most likely", "eczema")
"""Words of the question, choices, answer and synonym."""
OF_VIGNETTE = ("gloves", "backs of both hands")
"""Words that are only in the vignette."""

RATING = rating("What brings you here?", 4)
Line = str | Reply
Patient = Callable[[dict[str, Any]], Line]


def is_answer(body: dict[str, Any]) -> bool:
    return "Answer this question about the patient" in last(body)


def is_rating(body: dict[str, Any]) -> bool:
    return any("How much empathy" in message["content"] for message in body["messages"])


def is_static(body: dict[str, Any]) -> bool:
    return is_answer(body) and len(body["messages"]) == 1


def acting(
    *messages: Line,
    answer: Line = RIGHT,
    static: Line = RIGHT,
    patient: Line = "My hands itch.",
    staff: Line = "Temperature: 36.8 °C.",
    rating: Line = RATING,
) -> Callable[[dict[str, Any]], Line]:
    """Return a script: the doctor sends ``messages`` in turn and then repeats the last one."""

    def script(body: dict[str, Any]) -> Line:
        if role_of(body) == "doctor":
            if is_answer(body):
                return static if is_static(body) else answer
            messages_so_far = sum(m["role"] == "assistant" for m in body["messages"])
            return messages[min(messages_so_far, len(messages) - 1)]
        if role_of(body) == "patient":
            return rating if is_rating(body) else patient
        return staff if role_of(body) == "staff" else "Yes"

    return script


async def play(
    provider: FakeProvider,
    arms: tuple[Arm, ...] = ARMS[:2],
    case: Case = CASE,
    cap: int = 20,
    names: CastNames = MODELS,
    staff: str = STAFF,
) -> list[Event]:
    async with load_registry([SHIPPED], retry=QUICK) as registry:
        pack = load_pack("automedic")
        casting = Casting(registry, pack, Sampling(), provider.base_url, grading=default_pack())
        return await play_case(
            casting, names.but(staff=staff), case, arms, protocol="automedic", seed=SEED, max_turns=cap
        )


def ratings(events: list[Event]) -> list[Assessed]:
    return [event for event in of(events, Assessed) if event.turn is None]


def rated(events: list[Event]) -> Assessed:
    (event,) = ratings(events)
    return event


def misused(events: list[Event]) -> list[tuple[int, tuple[str, ...]]]:
    return [(event.turn, event.values) for event in of(events, Assessed) if event.turn is not None]


async def test_a_consultation_from_beginning_to_end(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting(COMPLAINT, PULSE, "</end>")
    events = await play(fake_provider)
    assert messages_of(events) == [
        ("doctor", COMPLAINT),
        ("patient", "My hands itch."),
        ("doctor", PULSE),
        ("staff", "Temperature: 36.8 °C."),
        ("doctor", "</end>"),
    ]
    assert [u.turn for u in of(events, Utterance)] == [0, 1, 2, 3, 4]
    assert (ended(events).reason, ended(events).doctor_turns) == ("end_tag", 2)
    assert misused(events) == []
    assert (rated(events).value, rated(events).words, rated(events).by) == (
        4,
        "She listened. “What brings you here?”",
        "openai/patient",
    )
    assert verdicts(events) == {"vignette:mcq": ["correct"] * 2, "multi_turn:mcq": ["correct"] * 2}
    roles = [(c.role, c.purpose) for c in calls(events)]
    conversation = ["doctor", "patient", "doctor", "staff", "doctor"]
    assert roles == [
        *((r, "dialogue") for r in conversation),
        ("patient", "rate"),
        ("doctor", "answer"),
        ("doctor", "answer"),
    ]
    order = [type(e) for e in events if isinstance(e, Started | Ended | Assessed | Answered | Finished)]
    assert order == [Started, Ended, Assessed, Answered, Answered, Finished]


async def test_each_role_gets_its_own_knowledge_and_nothing_else(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting("<patient>Does it itch?</patient>", PULSE, COMPLAINT, "</end>", staff=NOT_AVAILABLE)
    await play(fake_provider)
    doctor = [body for body in sent_to(fake_provider, "doctor") if not is_answer(body)]
    patient, staff = sent_to(fake_provider, "patient"), sent_to(fake_provider, "staff")
    assert (len(doctor), len(patient), len(staff)) == (4, 3, 1)
    talking = [*doctor, *patient, *staff]
    assert not [word for body in talking for word in (*OF_TASK, *OF_VIGNETTE) if word in str(body["messages"])]
    assert not [word for body in [*doctor, *patient] for word in OPTIONAL if word in str(body["messages"])]
    assert not [body for body in [*doctor, *staff] if "two days" in str(body["messages"])]  # no query asks for it
    assert all("30-year-old" in str(body["messages"]) for body in doctor)
    assert all("two days" in str(body["messages"][0]) for body in patient)
    assert all(word in str(staff[0]["messages"]) for word in ("36.8", "vesicles", "thiuram"))
    # patient and staff get their own queries, without tags, and their own replies
    assert [m["content"] for m in patient[1]["messages"][1:]] == [
        "Does it itch?",
        "My hands itch.",
        "What brings you here?",
    ]
    assert [m["content"] for m in staff[0]["messages"][1:]] == ["<quoted>\nWhat is the temperature?\n</quoted>"]


async def test_the_request_for_an_answer_has_the_material_of_its_arm(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting(COMPLAINT, PULSE, "</end>", answer="B. Psoriasis")
    events = await play(fake_provider)
    static, after = [body for body in sent_to(fake_provider, "doctor") if is_answer(body)]
    assert is_static(static)
    assert CASE.vignette in str(static["messages"])
    assert "30-year-old" in str(static["messages"])
    assert not [word for word in (*OF_VIGNETTE, "vesicles") if word in str(after["messages"])]
    assert "My hands itch." in str(after["messages"])
    assert "Temperature: 36.8 °C." in str(after["messages"])
    assert "</end>" not in [m["content"] for m in after["messages"]]  # the closing message is left out
    for body in (static, after):
        assert all(choice in last(body) for choice in CASE.choices)
    assert verdicts(events) == {"vignette:mcq": ["correct"] * 2, "multi_turn:mcq": ["incorrect"] * 2}


async def test_a_free_response_is_graded_by_the_grader(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting(COMPLAINT, "</end>", answer="Contact dermatitis", static="Contact dermatitis")
    events = await play(fake_provider, arms=ARMS[2:])
    assert verdicts(events) == {"vignette:frq": ["correct"], "multi_turn:frq": ["correct"]}
    assert not [body for body in sent_to(fake_provider, "doctor") if "Psoriasis" in str(body["messages"])]


async def test_without_choices_only_the_free_arms_apply(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting(COMPLAINT, "</end>")
    events = await play(fake_provider, arms=ARMS, case=CASE.model_copy(update={"choices": ()}))
    assert {arm: kinds[0] for arm, kinds in verdicts(events).items()} == {
        "vignette:mcq": "not_applicable",
        "multi_turn:mcq": "not_applicable",
        "vignette:frq": "correct",
        "multi_turn:frq": "correct",
    }


async def test_a_doctor_that_speaks_for_others_is_marked_and_its_queries_are_passed_on(
    fake_provider: FakeProvider,
) -> None:
    breaking = f"{COMPLAINT}\nPatient: My hands itch since Monday.\n{PULSE}"
    fake_provider.script = acting(breaking, "</end>")
    events = await play(fake_provider)
    assert misused(events) == [(0, ("text_outside", "speaks_for_others"))]
    assert of(events, Assessed)[0].words == "Patient: My hands itch since Monday."
    assert [(role, text) for role, text in messages_of(events) if role != "doctor"] == [
        ("patient", "My hands itch."),
        ("staff", "Temperature: 36.8 °C."),
    ]
    assert "since Monday" not in str([body["messages"] for body in sent_to(fake_provider, "patient")])


async def test_every_query_of_a_message_is_answered_by_its_addressee(fake_provider: FakeProvider) -> None:
    message = f"{COMPLAINT}{PULSE}<patient>Does it itch?</patient>"
    fake_provider.script = acting(message, "</end>")
    events = await play(fake_provider)
    assert messages_of(events) == [
        ("doctor", message),
        ("patient", "My hands itch."),
        ("staff", "Temperature: 36.8 °C."),
        ("patient", "My hands itch."),
        ("doctor", "</end>"),
    ]
    assert misused(events) == []
    assert (ended(events).reason, ended(events).doctor_turns) == ("end_tag", 3)  # a turn is a query with its answer
    first, second, rated_on = sent_to(fake_provider, "patient")
    assert [m["content"] for m in first["messages"][1:]] == ["What brings you here?"]
    assert [m["content"] for m in second["messages"][1:]] == [
        "What brings you here?",
        "My hands itch.",
        "Does it itch?",
    ]
    assert [m["content"] for m in rated_on["messages"][1:5]] == [
        *("What brings you here?", "My hands itch."),
        *("Does it itch?", "My hands itch."),
    ]
    assert [m["content"] for m in sent_to(fake_provider, "staff")[0]["messages"][1:]] == [
        "<quoted>\nWhat is the temperature?\n</quoted>"
    ]
    # the doctor gets all replies in one message, with their roles
    closing = [body for body in sent_to(fake_provider, "doctor") if not is_answer(body)][1]
    assert (
        last(closing) == "Patient: My hands itch.\n\nClinical staff: Temperature: 36.8 °C.\n\nPatient: My hands itch."
    )
    assert [m["role"] for m in closing["messages"]] == ["system", "user", "assistant", "user"]


async def test_the_cap_counts_queries_and_the_others_are_not_passed_on(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting(f"{COMPLAINT}{PULSE}<patient>Does it itch?</patient>")
    events = await play(fake_provider, cap=2)
    assert [role for role, _ in messages_of(events)] == ["doctor", "patient", "staff"]
    assert (ended(events).reason, ended(events).doctor_turns) == ("turn_cap", 2)
    rating = next(body for body in sent_to(fake_provider, "patient") if is_rating(body))
    assert "Does it itch?" not in str(rating["messages"])
    assert verdicts(events)["multi_turn:mcq"] == ["correct"] * 2


async def test_a_failure_at_the_second_query_ends_the_conversation(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting(f"{COMPLAINT}{PULSE}", staff=content_filtered())
    events = await play(fake_provider)
    assert [role for role, _ in messages_of(events)] == ["doctor", "patient"]
    assert (ended(events).reason, ended(events).doctor_turns) == ("refusal", 1)


@pytest.mark.parametrize(
    ("message", "reason", "kinds"),
    [
        ("What brings you here?", "no_tag", ("no_tag",)),
        ("<patient>What brings you here?</clinical>", "no_tag", ("no_tag", "unclosed")),
        ("<nurse>Pulse?</nurse>", "no_tag", ("no_tag", "unknown_tag")),
        (f"{COMPLAINT}</end>", "end_tag", ("end_with_query",)),
        ("It is scabies. </end>", "end_tag", ("end_with_query",)),
        ("</end>", "end_tag", ()),
    ],
)
async def test_an_abrupt_end(fake_provider: FakeProvider, message: str, reason: str, kinds: tuple[str, ...]) -> None:
    """The message ends the conversation after one turn; both answers are requested in any case."""
    fake_provider.script = acting(PULSE, message)
    events = await play(fake_provider)
    assert (ended(events).reason, ended(events).doctor_turns) == (reason, 1)
    assert misused(events) == ([(2, kinds)] if kinds else [])
    assert verdicts(events) == {"vignette:mcq": ["correct"] * 2, "multi_turn:mcq": ["correct"] * 2}
    # the doctor asked only the staff, so the patient has nothing to rate
    assert sent_to(fake_provider, "patient") == []
    assert (rated(events).value, rated(events).words) == (None, NOTHING_TO_RATE)


async def test_a_conversation_that_never_began(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting("</end>")
    events = await play(fake_provider)
    assert (ended(events).doctor_turns, messages_of(events)) == (0, [("doctor", "</end>")])
    assert verdicts(events)["multi_turn:mcq"] == ["correct"] * 2


async def test_a_doctor_that_never_ends_has_its_turns(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting(COMPLAINT)
    events = await play(fake_provider, cap=3)
    assert (ended(events).reason, ended(events).doctor_turns) == ("turn_cap", 3)
    assert [role for role, _ in messages_of(events)] == ["doctor", "patient"] * 3
    assert all("3 turns in all" in str(b["messages"]) for b in sent_to(fake_provider, "doctor") if not is_static(b))


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("Contact urticaria", "no_diagnosis"),
        ("A. Scabies or B. Psoriasis", "multiple"),
        ("<think>Scabies? Psoriasis?</think>C. Allergic contact dermatitis", "correct"),
    ],
)
async def test_answers_that_are_no_single_option(fake_provider: FakeProvider, answer: str, verdict: str) -> None:
    fake_provider.script = acting(COMPLAINT, "</end>", answer=answer)
    events = await play(fake_provider)
    assert verdicts(events)["multi_turn:mcq"][1] == verdict  # the strict rule
    assert verdicts(events)["vignette:mcq"] == ["correct", "correct"]


FAULTS: dict[str, tuple[Line, str, str]] = {
    "bad request": (failing(400, "it broke"), "error", "provider_error"),
    "content filter": (content_filtered(), "refusal", "refused"),
    "empty": ("", "error", "provider_error"),
    "only thoughts": ("<think>and then the tokens ran out", "error", "provider_error"),
}
"""Fault → (reply, reason for the end, verdict of the answer)."""
FIRST_LANE = [("doctor", "only thoughts"), ("patient", "empty"), ("staff", "content filter"), ("staff", "bad request")]


@pytest.mark.parametrize(
    ("role", "name"),
    [
        pytest.param(*pair, marks=() if pair in FIRST_LANE else pytest.mark.slow)
        for pair in itertools.product(("doctor", "patient", "staff"), FAULTS)
    ],
)
async def test_a_provider_that_fails_is_never_a_wrong_answer(fake_provider: FakeProvider, role: str, name: str) -> None:
    """The fault is in the second turn; the answer on the vignette is still requested, a rating is not."""
    fault, reason, verdict = FAULTS[name]
    script = {
        "doctor": acting(COMPLAINT, fault),
        "patient": acting(PULSE, COMPLAINT, patient=fault),
        "staff": acting(COMPLAINT, PULSE, staff=fault),
    }[role]
    fake_provider.script = script
    events = await play(fake_provider)
    assert (ended(events).reason, ended(events).doctor_turns) == (reason, 1)
    assert verdicts(events) == {"vignette:mcq": ["correct"] * 2, "multi_turn:mcq": [verdict]}
    assert ratings(events) == []
    (failed,) = of(events, Failed)
    assert failed.where == "conversation"
    assert isinstance(events[-1], Finished)


async def test_a_failed_rating_changes_nothing_else(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting(COMPLAINT, "</end>", rating=failing(400, "no more"))
    events = await play(fake_provider)
    assert rated(events).value is None
    assert [(f.where, "no more" in f.message) for f in of(events, Failed)] == [("rating", True)]
    assert verdicts(events) == {"vignette:mcq": ["correct"] * 2, "multi_turn:mcq": ["correct"] * 2}


async def test_an_unreadable_rating_that_is_repeated_ends_the_repairs(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting(COMPLAINT, "</end>", rating="She was lovely.")
    events = await play(fake_provider)
    assert sum(map(is_rating, sent_to(fake_provider, "patient"))) == 2
    assert rated(events).value is None
    assert of(events, Failed) == []


async def test_thinking_of_the_patient_is_not_passed_on(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting(COMPLAINT, "</end>", patient="<think>I know it is scabies.</think>My hands itch.")
    events = await play(fake_provider)
    assert ("patient", "My hands itch.") in messages_of(events)
    assert not [body for body in sent_to(fake_provider, "doctor") if "I know" in str(body["messages"])]


async def test_a_caregiver_speaks(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting(COMPLAINT, "</end>")
    await play(fake_provider, case=CASE.model_copy(update={"speaker": "caregiver"}))
    assert "You look after a patient" in str(sent_to(fake_provider, "patient")[0]["messages"][0])
    assert "the person who looks after the patient" in str(sent_to(fake_provider, "doctor")[0]["messages"][0])


async def test_only_the_static_question_needs_no_conversation(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting(COMPLAINT)
    events = await play(fake_provider, arms=ARMS[:1])
    assert of(events, Utterance) == of(events, Ended) == of(events, Assessed) == []
    assert verdicts(events) == {"vignette:mcq": ["correct"] * 2}
    assert len(fake_provider.bodies) == 1


async def test_the_reference_cast_fills_any_seat(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting(COMPLAINT, PULSE, "</end>")
    events = await play(fake_provider, names=beside_rules("openai/doctor"), staff="reference/staff")
    assert ("staff", "Temperature: 36.8 °C.") in messages_of(events)
    assert rated(events).by == "reference/profile"
    assert {c.role for c in calls(events)} == {"doctor"}


async def test_half_a_character_from_a_provider_can_be_sent_on_and_stored(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting(COMPLAINT, "</end>", patient="It \ud83d hurts.")
    events = await play(fake_provider)
    assert ("patient", "It \ufffd hurts.") in messages_of(events)
    assert ended(events).reason == "end_tag"


async def test_tags_that_the_others_write_do_nothing(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting(PULSE, COMPLAINT, "</end>", staff="<patient>Do you hurt?</patient></end>")
    events = await play(fake_provider)
    assert [role for role, _ in messages_of(events)] == ["doctor", "staff", "doctor", "patient", "doctor"]
    assert misused(events) == []
    assert not [body for body in sent_to(fake_provider, "patient") if "Do you hurt" in str(body["messages"])]
