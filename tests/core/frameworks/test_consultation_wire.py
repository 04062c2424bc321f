"""Consultation's requests: the messages to each model, the end of an inquiry, and a provider's faults."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from core.events import Answered, Event, Failed, Finished, Probed, Utterance
from core.frameworks.base import Arm, default_pack
from core.frameworks.casting import Casting, CastNames
from core.frameworks.consultation.roles import briefing_of
from core.models.base import Sampling
from core.models.registry import load_registry
from core.models.settings import SHIPPED
from core.prompts import load_pack
from core.text.case_items import itemized
from tests.core.frameworks.stage import (
    CASE,
    QUICK,
    SEED,
    Actors,
    calls,
    ended,
    messages_of,
    of,
    role_of,
    sent_to,
    verdicts,
)
from tests.support.fake_provider import FakeProvider
from tests.support.playing import play_case
from tests.support.replies import Reply, content_filtered, failing

MODELS = CastNames("openai/doctor", "openai/patient", "openai/grader")
OPENING = itemized(CASE).opening
QUESTIONS = ("Where is it?", "Since when?", "Any fever?", "Is it painful?")
OF_BRIEFING = ("vesicles", "gloves", "36.8", "30-year-old", "backs of both hands")
"""Words that are only in the patient's briefing (M in the paper)."""
OF_TASK = ("Scabies", "Psoriasis", "contact dermatitis", "Tinea manuum", "following is the most likely", "eczema")
"""Words of the task (T in the paper): its question, choices, answer and synonym."""


def acting(
    questions: tuple[str, ...] = QUESTIONS[:2], closing: str = "Thank you.", solver: Reply | str = "Scabies"
) -> Any:
    """Return a script: the doctor asks and closes, the patient numbers its replies, the solver has one answer."""

    def script(body: dict[str, Any]) -> Reply | str:
        messages_so_far = sum(m["role"] == "assistant" for m in body["messages"])
        if role_of(body) == "doctor":
            return questions[messages_so_far] if messages_so_far < len(questions) else closing
        return f"Reply {messages_so_far}." if role_of(body) == "patient" else solver

    return script


async def play(
    provider: FakeProvider,
    names: CastNames = MODELS,
    prompt: str = "long",
    cap: int = 10,
    arms: tuple[Arm, ...] = (("multi_turn", "mcq"),),
) -> list[Event]:
    async with load_registry([SHIPPED], retry=QUICK) as registry:
        pack = load_pack("consultation")
        casting = Casting(registry, pack, Sampling(), provider.base_url, grading=default_pack())
        return await play_case(
            casting,
            names.but(solver="openai/solver"),
            CASE,
            arms,
            protocol="consultation",
            seed=SEED,
            doctor_prompt=prompt,
            max_questions=cap,
        )


@pytest.mark.parametrize("prompt", ["long", "short"])
async def test_the_patient_opens_the_doctor_asks_the_solver_answers(fake_provider: FakeProvider, prompt: str) -> None:
    fake_provider.script = acting(solver="Allergic contact dermatitis")
    events = await play(fake_provider, prompt=prompt)
    assert messages_of(events) == [
        ("patient", OPENING),
        ("doctor", "Where is it?"),
        ("patient", "Reply 1."),
        ("doctor", "Since when?"),
        ("patient", "Reply 2."),
        ("doctor", "Thank you."),
    ]
    assert [u.turn for u in of(events, Utterance)] == [0, 1, 2, 3, 4, 5]
    assert (ended(events).reason, ended(events).doctor_turns) == ("no_question", 3)
    assert verdicts(events) == {"multi_turn:mcq": ["correct", "correct"]}
    assert [c.role for c in calls(events)] == ["doctor", "patient", "doctor", "patient", "doctor", "solver"]
    assert isinstance(events[-1], Finished)


@pytest.mark.parametrize("prompt", ["long", "short"])
async def test_the_doctor_sees_the_dialogue_and_nothing_else(fake_provider: FakeProvider, prompt: str) -> None:
    fake_provider.script = acting()
    await play(fake_provider, prompt=prompt, cap=7)
    bodies = sent_to(fake_provider, "doctor")
    assert len(bodies) == 3
    for number, body in enumerate(bodies):
        system, *dialogue = body["messages"]
        roles = ["user", "assistant"] * number + ["user"]
        assert [m["role"] for m in dialogue] == roles
        lines = [OPENING, "Where is it?", "Reply 1.", "Since when?", "Reply 2."]
        assert [m["content"] for m in dialogue] == lines[: 2 * number + 1]
        assert "7" in system["content"]
        assert not [w for w in (*OF_BRIEFING, *OF_TASK, "Dermatology") if w.lower() in str(body).lower()]


async def test_the_patients_prompt_has_the_vignette_a_name_and_the_limits_and_nothing_of_the_task(
    fake_provider: FakeProvider,
) -> None:
    fake_provider.script = acting()
    await play(fake_provider)
    name = briefing_of(itemized(CASE)).name
    first, second = sent_to(fake_provider, "patient")
    system = first["messages"][0]["content"]
    assert CASE.vignette in system
    assert name in system
    assert "fewer than 15 words" in system
    assert [(m["role"], m["content"]) for m in second["messages"][1:]] == [
        ("assistant", OPENING),
        ("user", "Where is it?"),
        ("assistant", "Reply 1."),
        ("user", "Since when?"),
    ]
    assert not [word for body in (first, second) for word in OF_TASK if word.lower() in str(body).lower()]


async def test_the_solver_sees_the_dialogue_without_the_closing_message_and_the_task(
    fake_provider: FakeProvider,
) -> None:
    fake_provider.script = acting(closing="**Final Diagnosis:** Psoriasis, I am sure.")
    events = await play(fake_provider)
    assert ended(events).reason == "final_diagnosis"
    (body,) = sent_to(fake_provider, "solver")
    (message,) = body["messages"]
    dialogue = [
        "Patient: " + OPENING,
        "Doctor: Where is it?",
        "Patient: Reply 1.",
        "Doctor: Since when?",
        "Patient: Reply 2.",
    ]
    assert "\n".join(dialogue) in message["content"]
    assert message["content"].count(OPENING) == 1
    assert CASE.question in message["content"]
    for letter, choice in zip("ABCD", CASE.choices, strict=True):
        assert f"{letter}. {choice}" in message["content"]
    assert "I am sure" not in message["content"]
    assert not [word for word in OF_BRIEFING if word in message["content"]]


async def test_at_the_cap_the_last_question_is_answered_and_the_doctor_asks_no_more(
    fake_provider: FakeProvider,
) -> None:
    fake_provider.script = acting(QUESTIONS)
    events = await play(fake_provider, cap=2)
    assert messages_of(events)[-1] == ("patient", "Reply 2.")
    assert (ended(events).reason, ended(events).doctor_turns) == ("turn_cap", 2)
    assert len(sent_to(fake_provider, "doctor")) == 2
    assert "Reply 2." in str(sent_to(fake_provider, "solver"))


async def test_a_long_reply_is_stored_unchanged(fake_provider: FakeProvider) -> None:
    long = "It itches and burns and it began two days ago after I had bought new gloves in a shop."
    script = acting()
    fake_provider.script = lambda body: long if role_of(body) == "patient" else script(body)
    events = await play(fake_provider)
    assert messages_of(events)[2] == ("patient", long)


@pytest.mark.parametrize(("side", "material"), [("upper", CASE.vignette), ("lower", f"Patient: {OPENING}")])
async def test_a_bound_calls_the_solver_alone(fake_provider: FakeProvider, side: str, material: str) -> None:
    fake_provider.script = acting()
    events = await play(fake_provider, CastNames(f"reference/{side}-bound", "openai/patient", "openai/grader"))
    assert [role_of(body) for body in fake_provider.bodies] == ["solver"]
    text = fake_provider.bodies[0]["messages"][0]["content"]
    assert material in text
    assert (CASE.vignette in text) == (side == "upper")
    assert messages_of(events) == ([] if side == "upper" else [("patient", OPENING)])
    assert verdicts(events) == {"multi_turn:mcq": ["incorrect", "incorrect"]}  # the solver says Scabies


async def test_free_responses_are_asked_without_choices_and_graded(fake_provider: FakeProvider) -> None:
    solve, grade = acting(solver="Contact allergy"), Actors(extract="Contact allergy", judge="Yes")
    fake_provider.script = lambda body: (grade if role_of(body) == "grader" else solve)(body)
    events = await play(fake_provider, arms=(("multi_turn", "mcq"), ("multi_turn", "frq")))
    assert verdicts(events) == {"multi_turn:mcq": ["incorrect", "no_diagnosis"], "multi_turn:frq": ["correct"]}
    prompt = sent_to(fake_provider, "solver")[1]["messages"][0]["content"]
    assert not [choice for choice in CASE.choices if choice in prompt]


FAULTS = {
    "server error": (failing(500), 3, "provider_error"),
    "bad request": (failing(400, "no"), 1, "provider_error"),
    "content filter": (content_filtered(), 1, "refused"),
    "empty": (Reply("", finish_reason="error"), 2, "provider_error"),
}
"""Fault → (reply, requests of one call, verdict of the answer)."""


FIRST_LANE = [("doctor", "server error"), ("patient", "content filter"), ("solver", "empty"), ("solver", "bad request")]


@pytest.mark.parametrize(
    ("role", "fault"),
    [
        pytest.param(*pair, marks=() if pair in FIRST_LANE else pytest.mark.slow)
        for pair in itertools.product(("doctor", "patient", "solver"), FAULTS)
    ],
)
async def test_a_providers_fault_is_excluded_and_never_wrong(
    fake_provider: FakeProvider, role: str, fault: str
) -> None:
    reply, requests, verdict = FAULTS[fault]
    script = acting()
    fake_provider.script = lambda body: reply if role_of(body) == role else script(body)
    events = await play(fake_provider)
    assert verdicts(events) == {"multi_turn:mcq": [verdict]}
    (answer,) = of(events, Answered)
    assert (answer.status, answer.response) == ("invalid", None)
    assert answer.detail
    assert isinstance(events[-1], Finished)
    assert len(sent_to(fake_provider, role)) == requests
    if role == "solver":
        assert ended(events).reason == "no_question"
        return
    assert ended(events).reason == ("refusal" if verdict == "refused" else "error")
    assert ended(events).doctor_turns == (0 if role == "doctor" else 1)
    assert [f.where for f in of(events, Failed)] == ["conversation"]
    assert sent_to(fake_provider, "solver") == []


async def test_the_reference_doctor_reads_the_opening_and_states_its_beliefs(fake_provider: FakeProvider) -> None:
    """The doctor makes no call, and states a belief after each reply, as in CRAFT-MD."""
    fake_provider.script = acting(solver="Scabies")
    events = await play(fake_provider, CastNames("reference/bayes", "openai/patient", "openai/grader"), cap=3)
    assert sent_to(fake_provider, "doctor") == []
    assert [p.turn for p in of(events, Probed)] == [2, 4, 6]
    assert ended(events).reason == "turn_cap"
