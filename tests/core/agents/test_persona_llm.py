"""The request to a language model that plays the patient, with a persona and without one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.agents.base import patient_knowledge
from core.agents.player import LLMPatient
from core.asking.persona import PLAIN, Persona, persona_prompt
from core.asking.scene import Scene, Turn
from core.errors import UsageError
from core.frameworks.base import default_pack
from tests.core.agents.acting import GREETING, SCENE, Script, case_with, hear

PACK = default_pack()
DIALOGUE = (GREETING, Turn("patient", "I itch."), Turn("doctor", "Where?"))


def sent(persona: Persona = PLAIN, speaker: str = "patient") -> list[tuple[str, str]]:
    script = Script(("On my arm.",))
    knowledge = patient_knowledge(case_with(speaker=speaker))
    hear(LLMPatient(script.voice(), PACK).reply(knowledge, replace(SCENE, persona=persona), DIALOGUE))
    return [(message["role"], message["content"]) for message in script.sent[0]]


def test_without_a_persona_the_request_has_only_the_packs_prompt_and_the_dialogue(subtests: pytest.Subtests) -> None:
    for speaker in ["patient", "caregiver"]:
        with subtests.test(speaker=speaker):
            case = case_with()
            system = PACK.render("patient", vignette=case.vignette, caregiver=speaker == "caregiver")

            assert sent(speaker=speaker) == [
                ("system", system),
                ("user", GREETING.text),
                ("assistant", "I itch."),
                ("user", "Where?"),
            ]


def test_a_persona_is_appended_to_the_system_prompt_and_nothing_else_changes() -> None:
    persona = Persona("anxious", "A", "poor")
    plain, coloured = sent(), sent(persona)

    assert coloured[0][1] == f"{plain[0][1]}\n\n{persona_prompt(PACK, persona, caregiver=False)}"
    assert coloured[1:] == plain[1:]
    assert all(words in coloured[0][1] for words in ("worried", "basic words", "hardly remember"))


def test_the_speaker_of_the_persona_takes_precedence_over_that_of_the_case() -> None:
    assert "speak for them" in sent(Persona(speaker="caregiver"))[0][1]
    assert "speak for them" not in sent(Persona(speaker="patient"), speaker="caregiver")[0][1]


def test_a_pack_without_a_prompt_for_personas_still_plays_plain_patients() -> None:
    bare = replace(PACK, name="bare", prompts={n: p for n, p in PACK.prompts.items() if n != "persona"})
    script = Script(("Yes.",))
    patient = LLMPatient(script.voice(), bare)
    knowledge = patient_knowledge(case_with())

    assert hear(patient.reply(knowledge, SCENE, DIALOGUE)) == "Yes."
    with pytest.raises(UsageError, match=r"prompts bare have no persona\.md"):
        patient.reply(knowledge, Scene("", 1, persona=Persona("terse")), DIALOGUE)
    assert len(script.sent) == 1
