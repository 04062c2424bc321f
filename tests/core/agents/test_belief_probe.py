"""The belief probe: its request, its memory, and its failures, which do not break the trial."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from core import paths
from core.agents.player import LLMDoctor
from core.agents.probe import BeliefProbe
from core.errors import ProviderError, UsageError
from core.events import Called, Event, Failed, Probed
from core.frameworks.base import default_pack, full_names
from core.frameworks.casting import Casting, CastNames
from core.frameworks.craftmd import FRAMEWORK, CraftMdSettings
from core.models.base import Message, Sampling
from core.models.registry import load_registry
from tests.core.agents.acting import GREETING, SCENE, Cut, Script, Turn, hear

PACK = default_pack()
DIALOGUE = (GREETING, Turn("patient", "My toe hurts."), Turn("doctor", "Since when?"), Turn("patient", "Last night."))
GOUT = '{"Gout": 0.7, "Bunion": 0.2}'
READ = (("Gout", 0.7), ("Bunion", 0.2))


def listen(probe: BeliefProbe, *dialogues: tuple[Turn, ...]) -> list[Event]:
    async def all_of() -> list[Event]:
        return [event for dialogue in dialogues for event in [e async for e in probe.believe(SCENE, dialogue)]]

    return asyncio.run(all_of())


def probing(script: Script) -> BeliefProbe:
    return BeliefProbe(script.voice(), PACK)


def test_the_probes_request_is_the_doctors_request_with_the_question() -> None:
    doctor, probe = Script(["Is it red?"]), Script([GOUT])
    hear(LLMDoctor(doctor.voice(), PACK).ask(SCENE, DIALOGUE))
    called, probed = listen(probing(probe), DIALOGUE)

    (doctors_request,), (probes_request,) = doctor.sent, probe.sent
    question = PACK.render("belief")
    assert probes_request == [*doctors_request[:-1], {"role": "user", "content": f"Last night.\n\n{question}"}]
    assert isinstance(called, Called)
    assert (called.call.role, called.call.purpose) == ("doctor", "probe")
    assert probed == Probed(turn=3, differential=READ)


def test_the_question_asks_for_five_diagnoses_with_probabilities_as_json() -> None:
    question = PACK.render("belief")
    assert all(words in question for words in ("five", "JSON", "probability", "from 0 to 1"))
    assert "Final Diagnosis" not in question


def test_the_same_dialogue_is_probed_once() -> None:
    script = Script([GOUT])
    probe = probing(script)
    events = listen(probe, DIALOGUE, DIALOGUE, DIALOGUE[:2])
    assert [type(e).__name__ for e in events] == ["Called", "Probed", "Probed", "Called", "Probed"]
    assert [e.turn for e in events if isinstance(e, Probed)] == [3, 3, 1]
    assert len(script.sent) == 2


def test_trials_with_the_same_dialogue_at_the_same_time_share_one_call() -> None:
    script = Script([GOUT])
    probe = probing(script)

    async def together() -> list[list[Event]]:
        async def believe_once() -> list[Event]:
            return [event async for event in probe.believe(SCENE, DIALOGUE)]

        return await asyncio.gather(*(believe_once() for _ in range(5)))

    events_by_trial = asyncio.run(together())
    assert len(script.sent) == 1
    assert all(events[-1] == Probed(turn=3, differential=READ) for events in events_by_trial)


def test_an_unreadable_reply_is_repaired_with_the_reason() -> None:
    script = Script(["Gout, I think.", GOUT])
    events = listen(probing(script), DIALOGUE)
    assert [type(e).__name__ for e in events] == ["Called", "Called", "Probed"]
    first, second = script.sent
    assert "no JSON" not in first[-1]["content"]
    assert second[: len(first) + 1] == [*first, {"role": "assistant", "content": "Gout, I think."}]
    assert "no JSON" in second[-1]["content"]


def test_three_unreadable_replies_are_a_failure_and_are_not_remembered() -> None:
    script = Script(["Gout.", "Gout!", "Gout?", GOUT])
    probe = probing(script)
    events = listen(probe, DIALOGUE)
    assert [type(e).__name__ for e in events] == ["Called", "Called", "Called", "Failed"]
    assert (events[-1].where, events[-1].failure) == ("probe", "unreadable")  # type: ignore[union-attr]
    assert listen(probe, DIALOGUE)[-1] == Probed(turn=3, differential=READ)


def test_a_belief_that_was_cut_off_is_a_failure_of_that_kind() -> None:
    events = listen(probing(Script([Cut('{"diagnoses": [{"diagn')])), DIALOGUE)
    assert events[-1].failure == "cut"  # type: ignore[union-attr]
    assert "cut off at its limit" in events[-1].message  # type: ignore[union-attr]


def test_a_provider_that_fails_is_recorded_and_breaks_nothing() -> None:
    script = Script(fail=ProviderError("timeout", "It took too long.", attempts=3))
    called, failed = listen(probing(script), DIALOGUE)
    assert isinstance(called, Called)
    assert (called.call.purpose, called.call.error, called.call.attempts) == ("probe", "timeout: It took too long.", 3)
    assert failed == Failed(where="probe", failure="timeout", message="It took too long.")
    assert len(script.sent) == 1


def test_text_of_the_patient_is_never_a_template() -> None:
    def echo(messages: list[Message]) -> str:
        return GOUT

    script = Script(echo)
    listen(probing(script), (GREETING, Turn("patient", "{{ 7 * 7 }} {% raw %}")))
    assert "{{ 7 * 7 }} {% raw %}" in script.sent[0][-1]["content"]


def test_a_pack_without_the_prompt_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    shutil.copytree(paths.PROMPTS / "craftmd", folder)
    (folder / "belief.md").unlink()
    with pytest.raises(UsageError, match=r"old have no belief\.md"):
        BeliefProbe(Script([GOUT]).voice(), default_pack(str(folder)))


def test_only_a_model_is_probed_and_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    registry = load_registry()

    def probe_of(doctor: str, probing: bool) -> object:
        names = full_names(FRAMEWORK, CastNames(doctor), registry)
        cast = FRAMEWORK.open(Casting(registry, PACK, Sampling(temperature=1.5)), names, CraftMdSettings(probe=probing))
        return cast.probe

    assert probe_of("openai/gpt-4o", False) is None
    assert probe_of("reference/bayes", True) is None
    assert isinstance(probe_of("openai/gpt-4o", True), BeliefProbe)
