"""Pictures in requests: sending, recording, models without pictures, and token counts."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from core.errors import ProviderError, UsageError
from core.images import Image
from core.models.base import Message, Sampling, TextPiece, joined, message
from core.models.classify import clean
from core.models.local import LocalModel
from core.models.pictures import data_urls, pictures_of, read_back, recorded, refusal, with_parts
from core.models.registry import load_registry
from core.models.settings import SHIPPED
from core.models.wire import expected_tokens, fitting_messages, prompt_tokens, request_body
from tests.support.asking import ask, hear, make_model, make_spec
from tests.support.fake_provider import FakeProvider
from tests.support.pictures import a_picture
from tests.support.replies import Reply, failing
from tests.support.sent_pictures import kept_picture, pictures_in, words_in

RED, BLUE = ("image/png", a_picture("red")), ("image/jpeg", a_picture("blue", "JPEG"))


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))


@pytest.fixture
def with_pictures() -> list[Message]:
    pictures = (kept_picture(), kept_picture("JPEG", 1))
    return [message("system", "Be brief."), message("user", "Look.", pictures), message("assistant", "Hello?")]


async def test_the_bytes_are_sent_and_their_hash_is_recorded(
    fake_provider: FakeProvider, with_pictures: list[Message]
) -> None:
    done = await ask(make_model(make_spec(fake_provider.base_url)), with_pictures)
    (body,) = fake_provider.bodies
    assert pictures_in(body) == [RED, BLUE]
    assert words_in(body) == [("system", "Be brief."), ("user", "Look."), ("assistant", "Hello?")]
    assert body["messages"][0]["content"] == "Be brief."
    recorded_messages = done.request["messages"]
    assert [image["media_type"] for image in recorded_messages[1]["images"]] == ["image/png", "image/jpeg"]
    assert "base64" not in json.dumps(done.request)
    assert [read_back(entry) for entry in recorded_messages] == with_pictures
    assert {k: v for k, v in body.items() if k != "messages"} == {
        k: v for k, v in done.request.items() if k != "messages"
    }


async def test_azure_is_sent_the_same_parts(
    fake_provider: FakeProvider, with_pictures: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", fake_provider.root_url)
    async with load_registry([SHIPPED]) as registry:
        await ask(registry.open("azure/eyes"), with_pictures)
    assert "/deployments/eyes/" in fake_provider.requests[0].path
    assert pictures_in(fake_provider.bodies[0]) == [RED, BLUE]


async def test_a_repeated_request_contains_the_pictures(
    fake_provider: FakeProvider, with_pictures: list[Message]
) -> None:
    fake_provider.script = [failing(503), failing(400, "stream_options: unknown field"), Reply("Fine.")]
    done = await ask(make_model(make_spec(fake_provider.base_url)), with_pictures)
    assert (done.text, done.attempts) == ("Fine.", 3)
    assert [pictures_in(body) for body in fake_provider.bodies] == [[RED, BLUE]] * 3


async def test_usage_is_estimated_only_if_the_provider_gives_none(
    fake_provider: FakeProvider, with_pictures: list[Message]
) -> None:
    fake_provider.script = [Reply("Fine.", usage=(1200, 2)), Reply("Fine.", usage=None)]
    model = make_model(make_spec(fake_provider.base_url))
    reported, estimated = (await ask(model, with_pictures)).usage, (await ask(model, with_pictures)).usage
    assert (reported.prompt_tokens, reported.estimated) == (1200, False)
    assert (estimated.prompt_tokens, estimated.estimated) == (3 + 2 + 2 + 2 * 765, True)


def test_rate_limits_count_pictures(with_pictures: list[Message]) -> None:
    body = request_body(make_spec("http://x/v1"), with_pictures, Sampling(max_tokens=100))
    assert prompt_tokens(body) == 3 + 2 + 2 + 2 * 765  # two, one and one words at 4/3 tokens, rounded up
    assert expected_tokens(body) == prompt_tokens(body) + 100


async def test_a_model_without_pictures_gets_no_request_with_pictures(
    fake_provider: FakeProvider, with_pictures: list[Message]
) -> None:
    model = make_model(make_spec(fake_provider.base_url, unsupported=("images",)))
    with pytest.raises(ProviderError, match=r"^The model openai/test takes no pictures: .*\.$") as caught:
        await hear(model, with_pictures)
    assert (caught.value.kind, caught.value.attempts) == ("bad_request", 0)
    assert fake_provider.bodies == []
    assert (await ask(model, [with_pictures[0], message("user", "Look.")])).text, "requests without pictures are sent"


async def test_a_local_model_is_not_even_started_for_a_picture(with_pictures: list[Message]) -> None:
    spec = load_registry([SHIPPED]).spec("hf/some/model")
    model = LocalModel(spec)
    with pytest.raises(ProviderError, match=r"local models are served with text only: serve it with vLLM") as caught:
        await hear(model, with_pictures)
    assert str(caught.value) == refusal(spec)
    assert model.server is None


async def test_pictures_are_not_logged(
    fake_provider: FakeProvider, with_pictures: list[Message], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "core")
    url = data_urls(with_pictures)[with_pictures[1]["images"][0].sha256]
    fake_provider.script = [failing(500, f"cannot read {url}"), failing(500, url[30:]), failing(400, url)]
    with pytest.raises(ProviderError) as caught:
        await ask(make_model(make_spec(fake_provider.base_url)), with_pictures)
    assert caught.value.kind == "bad_request"
    assert "iVBOR" not in caplog.text + str(caught.value)
    assert url[40:80] not in caplog.text + str(caught.value)


def test_pictures_are_removed_from_errors() -> None:
    url = data_urls([message("user", "Look.", [kept_picture()])]).popitem()[1]
    assert clean(f"bad url {url} in message 1") == "bad url … in message 1"
    assert clean(f"bad input {url.partition(',')[2]}, try again") == "bad input …, try again"
    for words in ("no model mistralai/Mixtral-8x7B-Instruct-v0.1", "its hash is " + "0a" * 32):
        assert clean(words) == words


def test_a_picture_that_is_only_an_address_is_never_sent() -> None:
    distant = message("user", "Look.", [Image(url="https://example.org/rash.png")])
    with pytest.raises(ProviderError, match=r"known by its address, which is never fetched") as caught:
        data_urls([distant])
    assert caught.value.kind == "picture"


def test_joined_messages_keep_their_pictures_in_order(with_pictures: list[Message]) -> None:
    first, second = with_pictures[1]["images"]
    joined_message = joined(message("user", "One.", [first]), message("user", "Two.", [second]))
    assert (joined_message["content"], joined_message["images"]) == ("One.\n\nTwo.", (first, second))
    assert "images" not in joined(message("user", "One."), message("user", "Two."))
    as_user = fitting_messages(make_spec("http://x/v1", system_role="user"), with_pictures)
    assert [(entry["role"], entry["content"]) for entry in as_user] == [
        ("user", "Be brief.\n\nLook."),
        ("assistant", "Hello?"),
    ]
    assert pictures_of(as_user) == (first, second)


def test_a_message_without_pictures_is_recorded_and_sent_unchanged() -> None:
    plain = message("user", "Hello.")
    assert recorded(plain) == plain == {"role": "user", "content": "Hello."}
    body = {"messages": [recorded(plain)]}
    assert with_parts(body, {}) is body
    assert read_back({"role": "user", "content": "Hello."}) == plain


async def test_the_pieces_of_a_reply_about_a_picture_stream(
    fake_provider: FakeProvider, with_pictures: list[Message]
) -> None:
    fake_provider.script = ["It is a rash."]
    items = await hear(make_model(make_spec(fake_provider.base_url)), with_pictures)
    assert [item.text for item in items if isinstance(item, TextPiece)] == ["It", " is", " a", " rash."]


def test_the_models_file_can_change_whether_a_model_takes_pictures(tmp_path: Path) -> None:
    own = tmp_path / "models.toml"
    own.write_text('[models."hf/llava/small"]\nunsupported = []\n[models."openai/blind"]\nunsupported = ["images"]\n')
    registry = load_registry([SHIPPED, own])
    assert refusal(registry.spec("hf/llava/small")) == ""
    assert "openai/blind takes no pictures" in refusal(registry.spec("openai/blind"))
    own.write_text('[models."openai/blind"]\nunsupported = ["eyes"]\n')
    with pytest.raises(UsageError, match=r'models\."openai/blind"\.unsupported'):
        load_registry([SHIPPED, own])
