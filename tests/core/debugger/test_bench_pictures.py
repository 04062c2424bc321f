"""Steps of a trial with pictures: separate parts, sent again from the file, and errors if the file is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from core.debugger.steps import TrialRecord
from core.debugger.stored import load_record
from core.errors import UsageError
from core.images import Image
from tests.core.debugger.bench_stage import a_pack, bench, branched, branches, steps
from tests.core.frameworks.stage import CASE, NAMES, Actors
from tests.support.fake_provider import FakeProvider, running
from tests.support.pictures import a_picture
from tests.support.sent_pictures import kept_picture, pictures_in, words_in

PICTURE_PROMPT = "The picture in this message belongs to this patient's case."
RED = [("image/png", a_picture("red"))]
ARMS = (("vignette", "mcq"), ("multi_turn", "frq"))


@dataclass(frozen=True)
class Stage:
    """A trial with a picture in a database, and the provider that played it."""

    db: Path
    provider: FakeProvider
    trial: TrialRecord


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    db = tmp_path_factory.mktemp("stage") / "anamnesis.duckdb"
    with pytest.MonkeyPatch.context() as patch, running(Actors()) as provider:
        patch.setenv("ANAMNESIS_DB", str(db))
        yield Stage(db, provider, run(provider, kept_picture()))


@pytest.fixture
def trial(stage: Stage, db: Path, monkeypatch: pytest.MonkeyPatch) -> TrialRecord:
    monkeypatch.setenv("ANAMNESIS_DB", str(stage.db))
    return stage.trial


@pytest.fixture
def provider(stage: Stage) -> FakeProvider:
    stage.provider.requests.clear()
    return stage.provider


@pytest.fixture
def image(request: pytest.FixtureRequest) -> Image:
    """The picture, restored after tests that change it, in the database of ``trial`` if the test uses it."""
    if "trial" in request.fixturenames:
        request.getfixturevalue("trial")
    return kept_picture()


def run(provider: FakeProvider, image: Image, **changes: Any) -> TrialRecord:
    case = CASE.model_copy(update={"images": (image,)})
    done = bench(provider.base_url, settings={"images": "with"}, cases=(case,), arms=ARMS, **changes)
    assert done.error is None
    record = load_record(done.trials[0].trial_id)
    assert record is not None
    return record


def test_the_picture_is_a_part_with_prompt_and_file(trial: TrialRecord, image: Image) -> None:
    by_key = steps(trial)
    for key in ("ask:2", "answer:vignette:mcq", "answer:multi_turn:frq"):
        (part,) = [m for m in by_key[key].messages if m.part == "picture"]
        assert (part.role, part.content, part.images) == ("user", PICTURE_PROMPT, (image,))
        assert (part.prompt, part.source) == ("picture", "prompts/craftmd/picture.md")
        assert by_key[key].messages.index(part) == 1
    assert all(not m.images for step in by_key.values() for m in step.messages if step.role != "doctor")
    assert all(not m.images for step in by_key.values() for m in step.messages if m.part != "picture")


@pytest.mark.usefixtures("image")
def test_a_branch_sends_the_picture_again_and_an_empty_part_removes_it(
    trial: TrialRecord, provider: FakeProvider
) -> None:
    step = steps(trial)["answer:vignette:mcq"]
    for text, pictures in ((PICTURE_PROMPT, RED), ("Look closely at this.", RED), ("", [])):
        provider.requests.clear()
        edited = tuple(replace(m, content=text) if m.part == "picture" else m for m in step.messages)
        branched(trial, step.key, edited)
        (body,) = provider.bodies
        assert pictures_in(body) == pictures
        system, question = words_in(body)
        assert question[1].startswith(text or "A patient's case:")
        assert system[1] == step.messages[0].content, "the question is not joined to the instructions"


@pytest.mark.parametrize("missing", [True, False], ids=["missing", "changed"])
def test_a_missing_or_changed_picture_is_an_error(
    trial: TrialRecord, image: Image, provider: FakeProvider, missing: bool
) -> None:
    image.path.unlink() if missing else image.path.write_bytes(a_picture("blue"))
    words = "is gone: there is no" if missing else "has changed"
    with pytest.raises(UsageError, match=rf"The picture 'rash-0\.png' {words}"):
        branches(trial, "ask:2")
    assert provider.bodies == []


@pytest.mark.usefixtures("image")
def test_another_model_without_pictures_gets_no_request(trial: TrialRecord, provider: FakeProvider) -> None:
    with pytest.raises(UsageError, match=r"The model openai/gpt-4 takes no pictures"):
        branches(trial, "ask:2", names=NAMES.but(doctor="openai/gpt-4"))
    assert provider.bodies == []


def test_a_run_without_the_file_does_not_start(fake_provider_thread: FakeProvider, image: Image) -> None:
    image.path.unlink()
    with pytest.raises(UsageError, match=r"Case stage/1 cannot be shown as it was: The picture 'rash-0\.png' is gone"):
        run(fake_provider_thread, image)
    assert fake_provider_thread.bodies == []


@pytest.mark.slow
def test_the_picture_is_sent_also_after_the_pack_has_changed(fake_provider_thread: FakeProvider, image: Image) -> None:
    fake_provider_thread.script = Actors()
    a_pack("mine")
    trial = run(fake_provider_thread, image, prompts="mine")
    a_pack("mine", picture="Look.", doctor="Be a doctor. {{ specialty }}")
    by_key = steps(trial)
    assert [m.part for m in by_key["ask:2"].messages] == ["system", "picture", "dialogue", "dialogue"]
    assert all(sum(bool(m.images) for m in step.messages) == (step.role == "doctor") for step in by_key.values())
    for key in ("ask:2", "answer:vignette:mcq"):
        before = len(fake_provider_thread.bodies)
        *parts, last = by_key[key].messages
        branched(trial, key, [*parts, replace(last, content="And now?")])
        assert pictures_in(fake_provider_thread.bodies[before]) == RED
        assert PICTURE_PROMPT in words_in(fake_provider_thread.bodies[before])[1][1]
