"""The reference doctor that speaks in tags: its questions, the evidence it reads from replies, its answers."""

from __future__ import annotations

import asyncio

from core.asking.scene import Dialogue, FinalMessage, Material, Question, Scene, Turn
from core.case import Fact
from core.frameworks.automedic.reference import BROAD, HISTORY_FIRST, OPENING, ReferenceTagDoctor, evidence_in
from core.frameworks.automedic.roles import NOT_AVAILABLE, Facts
from core.frameworks.automedic.tags import END, queries_of, read_tags
from tests.core.agents.acting import hear

PEOPLE: Facts = (Fact(key="age", value="31-year-old", lay="I'm 31."), Fact(key="sex", value="male", lay="I'm a man."))
SCENE = Scene("", seed=20)
DOCTOR = ReferenceTagDoctor()


def say(dialogue: Dialogue, scene: Scene = SCENE) -> str:
    return hear(DOCTOR.ask(scene, PEOPLE, dialogue))


def conversation(patient: str, staff: str, turns: int, doctor: ReferenceTagDoctor = DOCTOR, seed: int = 20) -> Dialogue:
    """Return a conversation with a patient and a staff that always give the same reply."""
    dialogue: Dialogue = ()
    for _ in range(turns):
        message = hear(doctor.ask(Scene("", seed), PEOPLE, dialogue))
        dialogue = (*dialogue, Turn("doctor", message))
        queries = read_tags(message).queries
        if not queries:
            break
        dialogue = (*dialogue, Turn(queries[0].to, patient if queries[0].to == "patient" else staff))
    return dialogue


def test_it_opens_asks_for_the_history_and_then_for_every_kind_of_result() -> None:
    queries = queries_of(conversation("I don't know.", NOT_AVAILABLE, 12))
    assert queries[0].text == OPENING
    to_staff = queries[HISTORY_FIRST : HISTORY_FIRST + len(BROAD)]
    assert [q.to for q in queries[:HISTORY_FIRST]] == ["patient"] * HISTORY_FIRST
    assert tuple(q.text for q in to_staff) == BROAD
    assert {q.to for q in to_staff} == {"staff"}


def test_every_message_keeps_the_protocol() -> None:
    for seed in range(5):
        for turn in conversation("My chest hurts.", "Pulse: 120/min.", 20, seed=seed):
            if turn.role == "doctor":
                assert read_tags(turn.text).misuses == ()


def test_it_asks_nothing_twice() -> None:
    for reply in ("I'm not sure.", "No.", "Yes."):
        questions = [
            q.text.removeprefix("Thank you. ").removeprefix("I see. ") for q in queries_of(conversation(reply, "", 20))
        ]
        assert len(set(questions)) == len(questions)


def test_it_knows_age_and_sex_from_the_start() -> None:
    questions = [q.text for q in queries_of(conversation("I don't know.", NOT_AVAILABLE, 20))]
    assert not [text for text in questions if "How old" in text]
    assert evidence_in(PEOPLE, ()).age == 31
    assert evidence_in(PEOPLE, ()).sex == "male"


def test_it_ends_when_it_is_sure() -> None:
    patient = "Sharp chest pain, worse when I breathe in and when I lie flat, better when I lean forward."
    staff = "Heart sounds: pericardial friction rub. Electrocardiogram: diffuse ST elevation in all leads."
    dialogue = conversation(patient, staff, 20)
    assert dialogue[-1] == Turn("doctor", END)
    name, probability = DOCTOR.differential(SCENE, PEOPLE, dialogue)[0]
    assert "ericarditis" in name
    assert probability > 0.9
    # without the staff's results it is less sure
    without_results = tuple(Turn(t.role, NOT_AVAILABLE) if t.role == "staff" else t for t in dialogue)
    assert dict(DOCTOR.differential(SCENE, PEOPLE, without_results)).get(name, 0.0) < probability


def test_a_missing_result_is_no_evidence() -> None:
    for reply in (NOT_AVAILABLE, "No result on fever is available.", "Fever has not been measured."):
        dialogue = (Turn("doctor", "<clinical>Is there a fever?</clinical>"), Turn("staff", reply))
        assert evidence_in(PEOPLE, dialogue).findings == {}
    dialogue_with_result = (
        Turn("doctor", "<clinical>Is there a fever?</clinical>"),
        Turn("staff", "Temperature: 39.2 °C. No rash."),
    )
    assert evidence_in(PEOPLE, dialogue_with_result).findings["fever"] is True


def test_its_answer_fits_the_vignette_or_the_conversation() -> None:
    question = Question("mcq", "What is it?", ("Gout", "Acute pericarditis"))
    texts = {
        "A 31-year-old man has a red, hot and swollen big toe since last night.": "Gout",
        "A 31-year-old man has chest pain that is worse on lying flat; there is a friction rub.": "Acute pericarditis",
    }
    for text, answer in texts.items():
        assert answer in final_text(DOCTOR.answer(SCENE, PEOPLE, Material("vignette", text=text), question))
    dialogue = (
        Turn("doctor", "<clinical>What do the laboratory tests show?</clinical>"),
        Turn("staff", "Joint fluid: needle-shaped urate crystals. Uric acid: high."),
    )
    assert "Gout" in final_text(DOCTOR.answer(SCENE, PEOPLE, Material("multi_turn", dialogue=dialogue), question))


def final_text(speaking: object) -> str:
    async def listen() -> str:
        return [item async for item in speaking if isinstance(item, FinalMessage)][-1].text  # type: ignore[attr-defined]

    return asyncio.run(listen())
