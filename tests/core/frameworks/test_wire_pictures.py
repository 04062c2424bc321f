"""Pictures in requests: the doctor gets them in every format and conversation, and no other role does."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from core.case import Case
from core.events import Answered, Called, Event, Failed, Finished, Probed
from core.frameworks import automedic, consultation
from core.frameworks.base import ALL_ARMS, default_pack
from core.frameworks.casting import Casting, CastNames
from core.frameworks.craftmd import PAPER_ARMS
from core.images import Image
from core.models.base import Sampling
from core.models.registry import load_registry
from core.models.settings import SHIPPED
from core.prompts import load_pack
from tests.core.frameworks.stage import (
    CASE,
    NAMES,
    QUICK,
    Actors,
    Rules,
    calls,
    ended,
    of,
    play,
    played,
    role_of,
    sent_to,
)
from tests.core.frameworks.stage import verdicts as verdicts_of
from tests.support.fake_provider import FakeProvider
from tests.support.pictures import a_picture
from tests.support.playing import play_case
from tests.support.replies import Reply, content_filtered, failing, rating
from tests.support.sent_pictures import kept_picture, pictures_in, urls_in, words_in

ONE = "The picture in this message belongs to this patient's case."
TWO = "The 2 pictures in this message belong to this patient's case."
BELIEF = '{"diagnoses": [{"diagnosis": "Scabies", "probability": 0.5}]}'
SHOWN = Rules(arms=ALL_ARMS, many_choices=("Scabies", "Psoriasis"), pictures=True)
RED, BLUE = ("image/png", a_picture("red", "PNG")), ("image/jpeg", a_picture("blue", "JPEG"))


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))


@pytest.fixture
def image() -> Image:
    return kept_picture("PNG")


def with_images(*images: Image, case: Case = CASE) -> Case:
    return case.model_copy(update={"images": images})


def has_no_picture_data(events: list[Event], *images: Image) -> bool:
    """Whether no event in the journal's form has a data URL or the beginning of a picture in base64."""
    text = json.dumps([event.model_dump(mode="json") for event in events])
    return "base64" not in text and "iVBORw0KGgo" not in text and "/9j/" not in text


async def test_the_doctor_gets_the_picture_in_every_format_and_no_other_role_does(
    fake_provider: FakeProvider, image: Image
) -> None:
    fake_provider.script = Actors()
    events = await play(fake_provider, SHOWN, with_images(image))
    assert len(of(events, Answered)) == len(ALL_ARMS)
    assert all(answer.reason is None for answer in of(events, Answered))
    doctor = sent_to(fake_provider, "doctor")
    # the closing diagnosis is graded without another question
    assert len(doctor) == 3 + sum(format_ != "closing" for format_, _ in ALL_ARMS)
    assert all(pictures_in(body) == [RED] for body in doctor)
    others = [body for body in fake_provider.bodies if role_of(body) != "doctor"]
    assert {role_of(body) for body in others} == {"patient", "grader", "summariser"}
    assert all(isinstance(m["content"], str) for body in others for m in body["messages"])
    assert "picture" not in json.dumps(others)
    assert has_no_picture_data(events, image)


async def test_the_picture_precedes_the_dialogue_and_the_vignette(fake_provider: FakeProvider, image: Image) -> None:
    fake_provider.script = Actors()
    await play(fake_provider, Rules(arms=PAPER_ARMS, pictures=True), with_images(image))
    for body in sent_to(fake_provider, "doctor"):
        with_picture = body["messages"][1]
        assert [part["type"] for part in with_picture["content"]] == ["image_url", "text"]
        assert set(with_picture["content"][0]) == {"type", "image_url"}
        roles_and_words = words_in(body)
        assert roles_and_words[0][0] == "system"
        assert roles_and_words[1] == ("user", ONE) or roles_and_words[1][1].startswith(f"{ONE}\n\n")
        assert all(isinstance(m["content"], str) for m in [body["messages"][0], *body["messages"][2:]])
    vignette = next(b for b in sent_to(fake_provider, "doctor") if CASE.vignette in words_in(b)[1][1])
    assert words_in(vignette)[1][1].index(ONE) < words_in(vignette)[1][1].index(CASE.vignette)


async def test_without_the_setting_or_a_picture_the_requests_do_not_change(
    fake_provider: FakeProvider, image: Image
) -> None:
    rules = Rules(arms=ALL_ARMS, many_choices=("Scabies", "Psoriasis"))
    sent: list[list[dict[str, Any]]] = []
    distant = Image(url="https://example.org/rash.png")
    for case, trial_rules in ((CASE, rules), (with_images(image), rules), (CASE, SHOWN), (with_images(distant), SHOWN)):
        fake_provider.requests.clear()
        fake_provider.script = Actors()
        await play(fake_provider, trial_rules, case)
        sent.append(fake_provider.bodies)
    assert sent[0] == sent[1] == sent[2] == sent[3]
    assert "image_url" not in json.dumps(sent)


async def test_several_pictures_go_in_one_message_each_with_its_own_type(
    fake_provider: FakeProvider, image: Image
) -> None:
    fake_provider.script = Actors()
    with_three = with_images(image, Image(url="https://example.org/other.png"), kept_picture("JPEG", 1))
    await play(fake_provider, Rules(arms=(("vignette", "mcq"), ("multi_turn", "mcq")), pictures=True), with_three)
    for body in sent_to(fake_provider, "doctor"):
        assert pictures_in(body) == [RED, BLUE]
        assert words_in(body)[1][1].startswith(TWO)
        assert "example.org" not in json.dumps(body)


@pytest.mark.parametrize("role", ["user", "before_user"])
async def test_models_without_a_system_message_get_the_picture_with_the_users_words(
    fake_provider: FakeProvider, image: Image, tmp_path: Path, role: str
) -> None:
    (tmp_path / "models.toml").write_text(f'[models."openai/doctor"]\nsystem_role = "{role}"\n')
    fake_provider.script = Actors()
    arms = (("vignette", "mcq"), ("multi_turn", "mcq"))
    events = await play(
        fake_provider, Rules(arms=arms, pictures=True), with_images(image), models=[tmp_path / "models.toml"]
    )
    assert all(pictures_in(body) == [RED] for body in sent_to(fake_provider, "doctor"))
    first = sent_to(fake_provider, "doctor")[0]["messages"]
    roles = [m["role"] for m in first]
    assert all(a != b for a, b in pairwise(roles))
    assert roles[0] == ("user" if role == "user" else "system")
    assert len(of(events, Answered)) == 2


async def test_a_stored_request_has_hash_type_and_size_of_its_picture(
    fake_provider: FakeProvider, image: Image
) -> None:
    fake_provider.script = Actors()
    events = await play(fake_provider, Rules(arms=(("vignette", "mcq"),), pictures=True), with_images(image))
    (call,) = calls(events)
    message = call.request["messages"][1]
    assert message["images"] == [
        {"sha256": image.sha256, "media_type": "image/png", "size": image.size, "name": "rash-0.png"}
    ]
    assert message["content"] == words_in(fake_provider.bodies[0])[1][1]
    assert [m for m in call.request["messages"] if "images" in m] == [message]


async def test_the_probe_asks_the_same_doctor_with_the_same_picture(fake_provider: FakeProvider, image: Image) -> None:
    async with load_registry([SHIPPED], retry=QUICK) as registry:
        casting = Casting(registry, default_pack(), Sampling(), fake_provider.base_url)
        script = Actors()
        fake_provider.script = lambda body: BELIEF if "five diagnoses" in str(body["messages"][-1]) else script(body)
        rules = Rules(arms=(("multi_turn", "mcq"),), pictures=True, probe=True)
        events = await played(casting, NAMES, rules, with_images(image))
    assert of(events, Probed)
    probes = [body for body in fake_provider.bodies if "five diagnoses" in str(body["messages"][-1])]
    assert probes
    assert all(pictures_in(body) == [RED] for body in sent_to(fake_provider, "doctor"))


@pytest.mark.parametrize("prompt", ["long", "short"])
async def test_under_consultation_the_doctor_sees_it_and_the_solver_does_not(
    fake_provider: FakeProvider, image: Image, prompt: str
) -> None:
    def script(body: dict[str, Any]) -> str:
        messages_so_far = sum(m["role"] == "assistant" for m in body["messages"])
        lines = {
            "doctor": "Since when?" if messages_so_far < 2 else "Thank you.",
            "patient": "Two days.",
            "solver": "Scabies",
        }
        return lines.get(role_of(body), "Yes")

    fake_provider.script = script
    names = CastNames("openai/doctor", "openai/patient", "openai/grader")
    async with load_registry([SHIPPED], retry=QUICK) as registry:
        pack = load_pack("consultation")
        casting = Casting(registry, pack, Sampling(), fake_provider.base_url, grading=default_pack())
        events = await play_case(
            casting,
            names.but(solver="openai/solver"),
            with_images(image),
            consultation.ARMS,
            protocol="consultation",
            doctor_prompt=prompt,
            max_questions=4,
            images="with",
        )
    assert {role_of(body) for body in fake_provider.bodies} == {"doctor", "patient", "solver", "grader"}
    assert len(sent_to(fake_provider, "doctor")) == 3
    assert all(pictures_in(body) == [RED] for body in sent_to(fake_provider, "doctor"))
    assert all(words_in(body)[1][1].startswith(ONE) for body in sent_to(fake_provider, "doctor"))
    others = [body for body in fake_provider.bodies if role_of(body) != "doctor"]
    assert not any(urls_in(body) for body in others)
    assert ONE not in json.dumps(others)
    assert has_no_picture_data(events, image)


async def test_under_automedic_the_doctor_sees_it_and_patient_and_staff_do_not(
    fake_provider: FakeProvider, image: Image
) -> None:
    lines = ["<patient>What brings you here?</patient>", "<clinical>What is the temperature?</clinical>", "</end>"]

    def script(body: dict[str, Any]) -> str:
        if role_of(body) != "doctor":
            return rating("What brings you here?", 4)
        last = str(body["messages"][-1]["content"])
        messages_so_far = sum(m["role"] == "assistant" for m in body["messages"])
        return "C. Allergic contact dermatitis" if "Answer this question" in last else lines[messages_so_far]

    fake_provider.script = script
    names = CastNames("openai/doctor", "openai/patient", "openai/grader")
    async with load_registry([SHIPPED], retry=QUICK) as registry:
        pack = load_pack("automedic")
        casting = Casting(registry, pack, Sampling(), fake_provider.base_url, grading=default_pack())
        events = await play_case(
            casting,
            names.but(staff="openai/staff"),
            with_images(image),
            automedic.ARMS,
            protocol="automedic",
            max_turns=5,
            images="with",
        )
    assert {role_of(body) for body in fake_provider.bodies} == {"doctor", "patient", "staff", "grader"}
    doctor = sent_to(fake_provider, "doctor")
    assert len(doctor) == len(lines) + len(automedic.ARMS)
    assert all(pictures_in(body) == [RED] for body in doctor)
    others = [body for body in fake_provider.bodies if role_of(body) != "doctor"]
    assert not any(urls_in(body) for body in others)
    assert ONE not in json.dumps(others)
    assert has_no_picture_data(events, image)
    assert len(of(events, Answered)) == len(automedic.ARMS)


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "changed"])
async def test_a_lost_picture_excludes_the_answers_that_need_it(
    fake_provider: FakeProvider, image: Image, is_deleted: bool
) -> None:
    path = image.path
    path.unlink() if is_deleted else path.write_bytes(a_picture("blue"))
    fake_provider.script = Actors()
    arms = (("vignette", "mcq"), ("multi_turn", "frq"))
    events = await play(fake_provider, Rules(arms=arms, pictures=True), with_images(image))
    assert not sent_to(fake_provider, "doctor"), "no request is sent without the picture"
    assert verdicts_of(events) == {"vignette:mcq": ["provider_error"], "multi_turn:frq": ["provider_error"]}
    assert ended(events).reason == "error"
    words = "'rash-0.png' is gone: there is no" if is_deleted else "'rash-0.png' has changed"
    assert all(words in answer.detail for answer in of(events, Answered))
    (failed,) = of(events, Failed)
    assert failed.failure == "picture"
    assert isinstance(events[-1], Finished)
    (first, _) = [event.call for event in of(events, Called) if event.call.role == "doctor"]
    assert (first.attempts, (first.error or "")[:9]) == (0, "picture: ")
    assert first.request["messages"][1]["images"][0]["sha256"] == image.sha256


async def test_a_filter_that_stops_the_picture_is_a_refusal_without_retry(
    fake_provider: FakeProvider, image: Image
) -> None:
    fake_provider.script = Actors(fault=lambda body: content_filtered() if urls_in(body) else None)
    arms = (("vignette", "mcq"), ("multi_turn", "frq"))
    events = await play(fake_provider, Rules(arms=arms, pictures=True), with_images(image))
    assert ended(events).reason == "refusal"
    assert verdicts_of(events) == {"vignette:mcq": ["refused"], "multi_turn:frq": ["refused"]}
    assert len(sent_to(fake_provider, "doctor")) == 2, "once in the conversation, once for the vignette"
    assert has_no_picture_data(events, image)


async def test_a_model_that_declines_to_look_is_a_refusal_too(fake_provider: FakeProvider, image: Image) -> None:
    fake_provider.script = Actors(answer=Reply(text="", refusal="I cannot look at this."))
    events = await play(fake_provider, Rules(arms=(("vignette", "mcq"),), pictures=True), with_images(image))
    assert verdicts_of(events) == {"vignette:mcq": ["refused"]}
    assert len(fake_provider.bodies) == 1


async def test_a_server_that_takes_no_pictures_is_quoted_without_the_picture(
    fake_provider: FakeProvider, image: Image
) -> None:
    def fault(body: dict[str, Any]) -> Reply:
        return failing(400, f"Invalid content type image_url is not supported: {urls_in(body)[0]}")

    fake_provider.script = Actors(fault=fault)
    events = await play(fake_provider, Rules(arms=(("vignette", "mcq"),), pictures=True), with_images(image))
    (answer,) = of(events, Answered)
    assert answer.reason == "provider_error"
    assert "Invalid content type image_url is not supported: …" in answer.detail
    assert answer.detail.endswith("choose a model that does, or run without pictures.")
    assert len(fake_provider.bodies) == 1
    assert has_no_picture_data(events, image)
