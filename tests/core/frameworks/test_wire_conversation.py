"""The requests of a conversation, message by message."""

from __future__ import annotations

from itertools import pairwise

import pytest

from core.agents.base import Cast
from core.agents.player import Human
from core.agents.reference.grader import ReferenceGrader, ReferenceSummariser
from core.case import Case
from core.datasets.library import library
from core.events import Speaker, Utterance
from core.frameworks.base import ALL_ARMS
from core.frameworks.casting import CastNames
from core.frameworks.conversation import TrialDialogue, scene_of
from core.frameworks.craftmd import PAPER_ARMS, converse
from core.models.base import Sampling
from tests.core.frameworks.stage import (
    CASE,
    GREETING,
    OVER,
    ROLES,
    SEED,
    Actors,
    Rules,
    answers_asked,
    calls,
    conversation,
    ended,
    is_answer,
    messages_of,
    of,
    play,
    role_of,
    sent_to,
)
from tests.support.fake_provider import FakeProvider

FREE = Rules(arms=(("multi_turn", "frq"),))
ALL = Rules(arms=ALL_ARMS, many_choices=("Gout", CASE.answer))


def without_system(messages: list[dict[str, str]]) -> list[tuple[str, str]]:
    assert messages[0]["role"] == "system"
    assert all(m["role"] != "system" for m in messages[1:])
    return [(m["role"], m["content"]) for m in messages[1:]]


async def test_every_request_of_a_short_conversation(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(questions=["How old are you?"])
    events = await play(fake_provider, FREE)

    assert [role_of(b) for b in fake_provider.bodies] == [
        "patient",
        "doctor",
        "patient",
        "doctor",  # greeting → reply 1, question, reply 2, conclusion
        "doctor",
        "grader",
        "grader",  # the answer, its extraction, its comparison
    ]
    first, second = (without_system(b["messages"]) for b in sent_to(fake_provider, "patient"))
    assert first == [("user", GREETING)]
    assert second == [("user", GREETING), ("assistant", "This is reply 1."), ("user", "How old are you?")]
    opening, concluding, answering = (without_system(b["messages"]) for b in sent_to(fake_provider, "doctor"))
    assert opening == [("assistant", GREETING), ("user", "This is reply 1.")]
    assert concluding == [*opening, ("assistant", "How old are you?"), ("user", "This is reply 2.")]
    assert answering[:-1] == concluding[:-1]  # without the doctor's last message, which has the diagnosis
    assert answering[-1][0] == "user"
    assert answering[-1][1].startswith(f"This is reply 2.\n\n{OVER}\n\nWhat is the most likely diagnosis?")
    assert messages_of(events) == [
        ("doctor", GREETING),
        ("patient", "This is reply 1."),
        ("doctor", "How old are you?"),
        ("patient", "This is reply 2."),
        ("doctor", "**Final Diagnosis:** Scabies"),
    ]
    assert [u.turn for u in of(events, Utterance)] == [0, 1, 2, 3, 4]


async def test_roles_alternate_and_every_request_ends_with_a_user_message(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(questions=[f"Question {n}?" for n in range(6)])
    await play(fake_provider, FREE)
    assert len(fake_provider.bodies) == 7 + 7 + 1 + 2
    for body in [*sent_to(fake_provider, "doctor"), *sent_to(fake_provider, "patient")]:
        roles = [m["role"] for m in body["messages"][1:]]
        assert roles[-1] == "user"
        assert all(a != b for a, b in pairwise(roles)), roles


async def test_the_prompts_of_doctor_and_patient(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors()
    await play(fake_provider, FREE)
    doctor = conversation(fake_provider)[0]["messages"][0]["content"]
    assert "specialised in Dermatology" in doctor
    assert "**Final Diagnosis:**" in doctor
    assert CASE.vignette not in doctor
    assert "new gloves" not in str(conversation(fake_provider))
    patient = sent_to(fake_provider, "patient")[0]["messages"][0]["content"]
    assert CASE.vignette in patient


async def test_no_specialty_is_named_for_other(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors()
    await play(fake_provider, Rules(arms=(("vignette", "frq"), ("multi_turn", "mcq"))), with_(specialty="Other"))
    requests = sent_to(fake_provider, "doctor")
    assert len(requests) == 3 + 2
    for body in requests:
        assert "specialised" not in str(body)
        assert "Other" not in body["messages"][0]["content"]


async def test_a_caregiver_speaks_for_the_patient(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(questions=[])
    await play(fake_provider, FREE, with_(speaker="caregiver"))
    assert sent_to(fake_provider, "patient")[0]["messages"][0]["content"].startswith("You look after the patient")


async def test_one_conversation_serves_all_arms(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors()
    await play(fake_provider, ALL)
    assert len(sent_to(fake_provider, "patient")) == 3
    assert len(conversation(fake_provider)) == 3
    assert len(sent_to(fake_provider, "summariser")) == 1
    assert len(answers_asked(fake_provider)) == 24


async def test_without_an_arm_that_needs_it_there_is_no_conversation(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors()
    await play(fake_provider, Rules(arms=(("vignette", "mcq"), ("exam_only", "mcq"))))
    assert [(role_of(b), is_answer(b)) for b in fake_provider.bodies] == [("doctor", True)] * 2


def _two_cases_of_each_specialty() -> list[Case]:
    by_specialty: dict[str, list[Case]] = {}
    for case in library():
        by_specialty.setdefault(case.specialty, []).append(case)
    return [case for cases in by_specialty.values() for case in cases[:2]]


async def test_the_patient_never_learns_question_choices_or_answer(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(questions=["How old are you?", "Anything else?"])
    cases = _two_cases_of_each_specialty()
    assert len({case.specialty for case in cases}) == 12
    for number, case in enumerate(cases):
        before = len(fake_provider.bodies)
        await play(fake_provider, FREE if number else Rules(arms=PAPER_ARMS), case)
        requests = [b for b in fake_provider.bodies[before:] if role_of(b) == "patient"]
        assert len(requests) == 3
        for body in requests:
            request = "\n".join(m["content"] for m in body["messages"])
            assert case.question not in request, case.case_key
            rest = request.replace(case.vignette, "").lower()  # a vignette may name an earlier illness
            for name in (case.answer, *case.synonyms, *case.choices):
                assert name.lower() not in rest, (case.case_key, name)
            assert case.answer.lower() not in request.lower(), case.case_key


async def test_sampling_and_seed_are_passed_on_and_recorded(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors()
    events = await play(
        fake_provider, Rules(arms=(("summarized", "frq"),)), sampling=Sampling(temperature=0.7, max_tokens=99)
    )
    settings = ("temperature", "max_tokens", "seed")
    settings_by_role = {
        role: {tuple(b.get(s) for s in settings) for b in sent_to(fake_provider, role)} for role in ROLES
    }
    assert settings_by_role == {
        "doctor": {(0.7, 99, SEED)},
        "patient": {(None, 200, SEED)},  # the doctor's settings are not used for other roles
        "grader": {(0.0, 100, None), (0.0, 16, None)},
        "summariser": {(None, 800, None)},
    }
    recorded = calls(events)
    assert [c.request for c in recorded] == fake_provider.bodies
    assert [c.role for c in recorded] == [role_of(b) for b in fake_provider.bodies]
    assert {c.model for c in recorded} == {f"openai/{role}" for role in ROLES}
    assert {(c.prompt_tokens, c.completion_tokens, c.attempts, c.served_by) for c in recorded} == {(11, 7, 1, "fake-1")}
    assert len({c.call_id for c in recorded}) == len(recorded)


async def test_a_seed_of_the_model_takes_precedence_over_the_trials(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(questions=[])
    await play(fake_provider, FREE, sampling=Sampling(seed=5))
    assert {b["seed"] for b in sent_to(fake_provider, "doctor")} == {5}


@pytest.mark.parametrize(
    ("conclusion", "reason"),
    [
        ("**Final Diagnosis:** Scabies", "final_diagnosis"),
        ("Shall I tell you? Final Diagnosis: Scabies", "final_diagnosis"),
        ("It is scabies.", "no_question"),
        ("I am sorry, but I cannot go on with this.", "no_question"),
    ],
)
async def test_why_a_conversation_ends(fake_provider: FakeProvider, conclusion: str, reason: str) -> None:
    fake_provider.script = Actors(conclusion=conclusion)
    end = ended(await play(fake_provider, FREE))
    assert (end.reason, end.doctor_turns) == (reason, 3)
    assert len(answers_asked(fake_provider)) == 1


async def test_a_question_about_a_diagnosis_does_not_end_the_conversation(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(questions=["Did anybody ever name a final diagnosis to you?"])
    assert ended(await play(fake_provider, FREE)).doctor_turns == 2


@pytest.mark.parametrize(("cap", "messages"), [(30, 30), (29, 28), (31, 30), (10, 10), (4, 4), (3, 4), (1, 4)])
async def test_the_cap_counts_the_doctors_prompt_too(fake_provider: FakeProvider, cap: int, messages: int) -> None:
    """The doctor never concludes: prompt, greeting, reply, question, reply and so on, up to the cap.

    A conversation has at least one question, which makes four messages.
    """
    fake_provider.script = Actors(questions=["And what else?"] * 500)
    events = await play(fake_provider, Rules(arms=(("multi_turn", "mcq"),), max_messages=cap))
    assert 1 + len(messages_of(events)) == messages
    assert ended(events).reason == "turn_cap"
    assert ended(events).doctor_turns == (messages - 2) // 2
    assert messages_of(events)[-1] == ("doctor", "And what else?")
    assert len(conversation(fake_provider)) == len(sent_to(fake_provider, "patient")) == (messages - 2) // 2


async def test_a_diagnosis_at_the_cap_is_a_diagnosis(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(questions=["And what else?"] * 3)
    end = ended(await play(fake_provider, Rules(arms=FREE.arms, max_messages=10)))
    assert (end.reason, end.doctor_turns) == ("final_diagnosis", 4)


async def test_without_a_cap_a_long_conversation_is_played_to_its_end(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(questions=["And what else?"] * 40)
    end = ended(await play(fake_provider, Rules(arms=FREE.arms, max_messages=None)))
    assert (end.reason, end.doctor_turns) == ("final_diagnosis", 41)


async def test_without_a_cap_an_endless_doctor_is_stopped_all_the_same() -> None:
    async def never_sure(role: Speaker) -> str:
        return "And what else?" if role == "doctor" else "Nothing."

    people = Human("doctor", never_sure), Human("patient", never_sure)
    cast = Cast(*people, ReferenceGrader(), ReferenceSummariser(), greeting=GREETING)
    conversation = TrialDialogue((), lambda dialogue: sum(turn.role == "doctor" for turn in dialogue) - 1)
    events = [event async for event in converse(conversation, CASE, scene_of(CASE, SEED), cast, None)]
    assert 1 + len(messages_of(events)) == 400
    assert (ended(events).reason, ended(events).doctor_turns) == ("turn_cap", 199)


async def test_a_model_without_system_messages_gets_them_as_the_users(fake_provider: FakeProvider) -> None:
    """Mistral's chat template: user and assistant alternate, the user begins, and there is no system message."""
    model = "mistralai/Mistral-7B-Instruct-v0.2"
    fake_provider.script = Actors(conclusion="**Final Diagnosis:** Scabies")
    fake_provider.script.fault = lambda body: body.update(model="doctor") if body["model"] == model else None
    events = await play(
        fake_provider,
        Rules(arms=(("vignette", "mcq"), ("multi_turn", "mcq"), ("multi_turn_exam", "mcq"))),
        names=CastNames(f"hf/{model}", "openai/patient"),
    )
    requests = sent_to(fake_provider, "doctor")
    assert len(requests) == 3 + 3
    for body in requests:
        roles = [m["role"] for m in body["messages"]]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        assert body["messages"][0]["content"].startswith("You are an AI doctor specialised in Dermatology")
    assert [len(b["messages"]) for b in requests] == [3, 5, 7, 1, 7, 7]
    assert requests[0]["messages"][1:] == [
        {"role": "assistant", "content": GREETING},
        {"role": "user", "content": "This is reply 1."},
    ]
    assert [c.model for c in calls(events) if c.role == "doctor"] == [f"hf/{model}"] * 6
    assert [c.request["messages"] for c in calls(events) if c.role == "doctor"] == [b["messages"] for b in requests]


async def test_a_model_that_takes_a_system_message_only_before_the_user(fake_provider: FakeProvider) -> None:
    """Llama 2: a conversation begins with the assistant's greeting, a vignette with a user message."""
    model = "meta-llama/Llama-2-7b-chat-hf"
    fake_provider.script = Actors(questions=[])
    fake_provider.script.fault = lambda body: body.update(model="doctor") if body["model"] == model else None
    arms = Rules(arms=(("vignette", "mcq"), ("multi_turn", "mcq")))
    await play(fake_provider, arms, names=CastNames(f"hf/{model}", "openai/patient"))
    roles = [[m["role"] for m in b["messages"]] for b in sent_to(fake_provider, "doctor")]
    assert roles == [["user", "assistant", "user"], ["system", "user"], ["user", "assistant", "user"]]


def with_(**changes: object) -> Case:
    return Case.model_validate({**CASE.model_dump(exclude={"content_hash"}), **changes})
