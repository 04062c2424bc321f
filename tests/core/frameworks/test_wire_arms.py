"""The doctor's requests in each format and question type: material and question."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from core.case import Case
from core.datasets.library import library
from core.events import Answered, Format, Graded, Summarised
from core.frameworks.answering import question_of
from core.frameworks.base import Arm
from core.text.demographics import age_and_sex
from core.text.sections import examination_of
from tests.core.frameworks.stage import (
    CASE,
    EXAMINATION,
    GREETING,
    OVER,
    Actors,
    Rules,
    answers_asked,
    of,
    play,
    question_type,
    role_of,
    sent_to,
    verdicts,
)
from tests.support.fake_provider import FakeProvider

FREE_QUESTION = (
    "What is the most likely diagnosis?\n\n"
    "Write the name of one single diagnosis, beginning with **Final Diagnosis:** and without any explanation."
)
CONVERSATION = [
    ("assistant", GREETING),
    ("user", "This is reply 1."),
    ("assistant", "How old are you?"),
    ("user", "This is reply 2."),
    ("assistant", "Since when does it itch?"),
    ("user", "This is reply 3."),
]
"""The conversation without the doctor's last message."""


async def ask(
    provider: FakeProvider, *arms: Arm, case: Case = CASE, many: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """Play a trial with ``arms`` and return the requests for the answers."""
    provider.script = Actors()
    await play(provider, Rules(arms=arms, many_choices=many), case)
    return answers_asked(provider)


def after_system(body: dict[str, Any]) -> list[tuple[str, str]]:
    assert [m["role"] for m in body["messages"]].count("system") == 1
    return [(m["role"], m["content"]) for m in body["messages"][1:]]


async def test_each_format_has_its_own_material(fake_provider: FakeProvider) -> None:
    formats: tuple[Format, ...] = ("vignette", "multi_turn", "multi_turn_exam", "single_turn", "exam_only")
    bodies = dict(zip(formats, await ask(fake_provider, *((format_, "frq") for format_ in formats)), strict=True))
    examined = f"The physical examination of this patient has now been done. {EXAMINATION}"
    described = f"Only the following is known of a patient:\n30 years old, female. {EXAMINATION}"
    assert {format_: after_system(body) for format_, body in bodies.items()} == {
        "vignette": [("user", f"A patient's case:\n{CASE.vignette}\n\n{FREE_QUESTION}")],
        "multi_turn": [*CONVERSATION[:-1], ("user", f"This is reply 3.\n\n{OVER}\n\n{FREE_QUESTION}")],
        "multi_turn_exam": [
            *CONVERSATION[:-1],
            ("user", f"This is reply 3.\n\n{examined}\n\n{OVER}\n\n{FREE_QUESTION}"),
        ],
        "single_turn": [("assistant", GREETING), ("user", f"This is reply 1.\n\n{OVER}\n\n{FREE_QUESTION}")],
        "exam_only": [("user", f"{described}\n\n{FREE_QUESTION}")],
    }
    assert "specialised in Dermatology" in bodies["vignette"]["messages"][0]["content"]
    assert "Scabies" not in str(bodies["multi_turn"])  # the doctor's conclusion
    assert EXAMINATION not in str(bodies["multi_turn"])


async def test_multi_turn_drops_a_last_question_too(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(questions=["And what else?"] * 50)
    await play(fake_provider, Rules(arms=(("multi_turn", "frq"),), max_messages=6))
    (body,) = answers_asked(fake_provider)
    assert after_system(body) == [
        ("assistant", GREETING),
        ("user", "This is reply 1."),
        ("assistant", "And what else?"),
        ("user", f"This is reply 2.\n\n{OVER}\n\n{FREE_QUESTION}"),
    ]


async def test_exam_only_has_all_results_and_nothing_of_the_history(fake_provider: FakeProvider) -> None:
    cases = [case for case in library() if examination_of(case)][::6]
    assert len(cases) >= 8
    for case in cases:
        assert case.profile is not None
        before = len(fake_provider.bodies)
        fake_provider.script = Actors()
        await play(fake_provider, Rules(arms=(("exam_only", "mcq_many"),), many_choices=("Gout",)), case)
        (body,) = (body for body in fake_provider.bodies[before:] if role_of(body) == "doctor")
        prompt = body["messages"][1]["content"]
        assert case.vignette not in prompt
        assert age_and_sex(case) in prompt
        for fact in case.profile.optional:
            assert fact.value.rstrip(".") in prompt, (case.case_key, fact)
        for fact in case.profile.basic:
            assert fact.lay not in prompt, (case.case_key, fact)


@pytest.mark.parametrize("format_", ["exam_only", "multi_turn_exam"])
async def test_a_case_without_examination_is_left_out_of_these_formats(
    fake_provider: FakeProvider, format_: Format
) -> None:
    bare = Case.model_validate(
        {
            **CASE.model_dump(exclude={"content_hash", "profile"}),
            "vignette": "A 30-year-old woman has had an itchy rash for two days.",
        }
    )
    fake_provider.script = Actors()
    events = await play(fake_provider, Rules(arms=((format_, "frq"), ("vignette", "frq"))), bare)
    assert verdicts(events) == {f"{format_}:frq": ["not_applicable"], "vignette:frq": ["correct"]}
    assert len(answers_asked(fake_provider)) == 1


async def test_the_summarisers_request_has_the_patients_messages_only(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(summary="A woman has a rash that itches.")
    events = await play(fake_provider, Rules(arms=(("summarized", "frq"), ("summarized", "mcq"))))
    (request,) = sent_to(fake_provider, "summariser")
    (message,) = request["messages"]
    assert message["role"] == "user"
    lines = "This is reply 1. This is reply 2. This is reply 3."
    assert message["content"].endswith(f"\nSaid: <quoted>{lines}</quoted>\nParagraph:")
    for foreign in (GREETING, "How old are you?", "Since when does it itch?", "Scabies", "gloves", CASE.answer):
        assert foreign not in message["content"]
    for body in answers_asked(fake_provider):
        ((role, prompt),) = after_system(body)
        assert role == "user"
        assert prompt.startswith("A patient's case:\nA woman has a rash that itches.\n\n")
        assert "reply" not in prompt
    assert [s.text for s in of(events, Summarised)] == ["A woman has a rash that itches."]


async def test_the_four_choices_are_listed_in_their_order(fake_provider: FakeProvider) -> None:
    (body,) = await ask(fake_provider, ("vignette", "mcq"))
    question = body["messages"][-1]["content"].removeprefix(f"A patient's case:\n{CASE.vignette}\n\n")
    assert question.startswith(
        "Which of the following is the most likely diagnosis?\n\n"
        "A. Scabies\nB. Psoriasis\nC. Allergic contact dermatitis\nD. Tinea manuum\n\n"
        "Choose exactly one"
    )


@pytest.mark.parametrize(("verdict", "by_grader"), [("Yes", "correct"), ("No", "incorrect")])
async def test_of_many_choices_another_name_of_the_answer_is_right_by_the_grader(
    fake_provider: FakeProvider, verdict: str, by_grader: str
) -> None:
    many = ("Acne", "Allergic contact dermatitis", "Contact eczema, allergic")
    answer = "**Final Diagnosis:** Contact eczema, allergic"
    fake_provider.script = Actors(answer=answer, extract="Contact eczema, allergic", judge=verdict)
    events = await play(fake_provider, Rules(arms=(("vignette", "mcq_many"),), many_choices=many))
    assert {grade.rule: grade.verdict for grade in of(events, Graded)} == {
        "mcq_many": by_grader,
        "mcq_loose": "incorrect",
    }


async def test_many_choices_are_listed_without_letters(fake_provider: FakeProvider) -> None:
    many = ("Acne", "Allergic contact dermatitis", "Gout", "Measles", "Mumps")
    (body,) = await ask(fake_provider, ("single_turn", "mcq_many"), many=many)
    listed = [line.removeprefix("- ") for line in body["messages"][-1]["content"].splitlines() if line.startswith("- ")]
    assert tuple(listed) == many


async def test_free_questions_name_no_choice(fake_provider: FakeProvider) -> None:
    asked = [format_ for format_ in get_args(Format) if format_ != "closing"]
    arms: list[Arm] = [(format_, kind) for format_ in asked for kind in ("frq", "frq_top3")]
    bodies = await ask(fake_provider, *arms)
    assert [question_type(body) for body in bodies] == [kind for _, kind in arms]
    for body in bodies:
        text = "\n".join(m["content"] for m in body["messages"])
        assert "of the following" not in text.lower()
        assert "What is the most likely diagnosis?" in text
        for choice in CASE.choices:
            assert choice.lower() not in text.lower()


@pytest.mark.parametrize(
    ("question", "free"),
    [
        ("Which of the following is the most likely diagnosis?", "What is the most likely diagnosis?"),
        ("Which one of the following is the cause?", "What is the cause?"),
        ("Of these, which of the following diagnoses is most likely?", "Of these, what is most likely?"),
        ("What is the diagnosis?", "What is the diagnosis?"),
        ("what explains the rash?", "What explains the rash?"),
    ],
)
def test_without_choices_the_question_is_open(question: str, free: str) -> None:
    case = Case.model_validate({**CASE.model_dump(exclude={"content_hash"}), "question": question})
    assert [question_of(case, kind, ()).text for kind in ("frq", "mcq")] == [free, question]


async def test_a_case_without_choices_is_left_out_of_mcq(fake_provider: FakeProvider) -> None:
    case = Case.model_validate({**CASE.model_dump(exclude={"content_hash"}), "choices": ()})
    fake_provider.script = Actors()
    events = await play(fake_provider, Rules(arms=(("vignette", "mcq"), ("vignette", "frq"))), case)
    assert verdicts(events) == {"vignette:mcq": ["not_applicable"], "vignette:frq": ["correct"]}


async def test_each_answer_is_stored_with_its_call(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(answer=lambda body: f"**Final Diagnosis:** {question_type(body)}")
    arms: tuple[Arm, ...] = (("vignette", "mcq"), ("vignette", "frq"), ("multi_turn", "frq_top3"))
    events = await play(fake_provider, Rules(arms=arms))
    answered = of(events, Answered)
    assert [(a.format, a.question_type, a.response) for a in answered] == [
        ("vignette", "mcq", "**Final Diagnosis:** mcq"),
        ("vignette", "frq", "**Final Diagnosis:** frq"),
        ("multi_turn", "frq_top3", "**Final Diagnosis:** frq_top3"),
    ]
    called = {e.call.call_id: e.call for e in events if e.kind == "called"}
    assert [called[a.call_id or ""].response for a in answered] == [a.response for a in answered]
