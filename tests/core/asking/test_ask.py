"""One way to ask for a reply that can be read: repaired and never repeated, held to a form where the server can."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from core.asking.ask import MAX_ASKS, Parsed, Request, ask, quotation, read_json
from core.asking.calls import Voice
from core.events import Called
from core.frameworks.base import default_pack
from core.models.base import Sampling, message
from core.models.openai_compatible import OpenAICompatibleModel
from tests.core.agents.acting import Cut, Script
from tests.support.fake_provider import FakeProvider, running
from tests.support.replies import Reply, failing
from tests.support.talking import make_model, make_spec

PACK = default_pack()
ASKED = [message("user", "Name the organ.")]


class Organ(BaseModel):
    organ: str


class Organs(BaseModel):
    organs: list[Organ]


def request(form: type[BaseModel] | None = Organ) -> Request[Any]:
    return Request("sections", ASKED, "grader", "judge", partial(read_json, form=Organ), form=form)


def asked(voice: Voice, *requests: Request[Any]) -> tuple[list[Parsed[Any]], list[Called]]:
    async def all_of() -> list[Any]:
        return [item for one in requests or (request(),) async for item in ask(voice, PACK, one)]

    items = asyncio.run(all_of())
    return [i for i in items if isinstance(i, Parsed)], [i for i in items if isinstance(i, Called)]


def test_a_readable_reply_is_asked_for_once() -> None:
    (found,), calls = asked(Script(['Sure: {"organ": "liver"}']).voice())

    assert (found.value, found.fault, found.cut) == (Organ(organ="liver"), "", False)
    assert found.call_ids == (calls[0].call.call_id,)


@pytest.mark.parametrize("rubbish", ["Hm.", "", "{", '{"organ": 3}', "[" * 5_000])
def test_rubbish_is_repaired_twice_and_no_request_goes_out_twice(rubbish: str) -> None:
    script = Script([rubbish])
    (found,), calls = asked(Voice(script, Sampling(temperature=0.0)))

    assert found.value is None
    assert found.fault
    assert len(found.call_ids) == len(calls) == MAX_ASKS == 3
    assert len({str(sent) for sent in script.sent}) == 3
    assert [one["role"] for one in script.sent[-1]] == ["user", "assistant", "user", "assistant", "user"]
    assert found.fault in script.sent[-1][-1]["content"]


def test_what_a_model_thought_beside_its_reply_is_not_read() -> None:
    with running([Reply("liver", deltas=[{"reasoning": '{"organ": "heart"}'}])]) as provider:
        (found,), _ = asked(Voice(make_model(make_spec(provider.base_url))))

    assert found.value is None


def test_a_reply_that_was_cut_off_is_known_as_cut() -> None:
    script = Script([Cut('{"organ": "liv'), '{"organ": "liver"}'])
    (found,), _ = asked(script.voice())

    assert found.value == Organ(organ="liver")
    assert "cut off at its limit" in script.sent[1][-1]["content"]

    (never,), _ = asked(Script([Cut('{"organ": "liv')]).voice())
    assert (never.value, never.cut) == (None, True)
    assert "cut off at its limit" in never.fault


def test_a_list_is_taken_for_the_one_field_of_a_form_unless_it_stands_within_something_broken() -> None:
    assert read_json('[{"organ": "liver"},]', Organs) == Organs(organs=[Organ(organ="liver")])
    with pytest.raises(ValueError, match="no JSON object that is whole"):
        read_json('{"organs": [{"organ": "liver"}], "and', Organs)


# held to a form


def served(provider: FakeProvider, **spec: Any) -> OpenAICompatibleModel:
    return make_model(make_spec(provider.base_url, **spec))


def test_the_form_is_sent_where_the_server_takes_it() -> None:
    with running(['{"organ": "liver"}']) as provider:
        asked(Voice(served(provider, structured="json_schema")))
        asked(Voice(served(provider, structured="json_object")))
        asked(Voice(served(provider, structured="none")))
        asked(Voice(served(provider)), request(form=None))

    schema, thing, words, no_form = provider.bodies
    assert schema["response_format"]["json_schema"]["schema"]["properties"] == {
        "organ": {"title": "Organ", "type": "string"}
    }
    assert thing["response_format"] == {"type": "json_object"}
    assert "response_format" not in words
    assert "response_format" not in no_form


def test_a_server_that_refuses_the_form_is_asked_in_words_from_then_on() -> None:
    def answer(body: dict[str, Any]) -> Reply | str:
        refused = failing(400, "response_format is not supported")
        return refused if "response_format" in body else '{"organ": "liver"}'

    with running(answer) as provider:
        found, calls = asked(Voice(served(provider)), request(), request())
        again, _ = asked(Voice(served(provider)))

    assert [one.value for one in (*found, *again)] == [Organ(organ="liver")] * 3
    assert ["response_format" in body for body in provider.bodies] == [True, False, False, False]
    assert [call.call.attempts for call in calls] == [2, 1]


# limits


def test_a_prompts_limit_is_sent_unless_somebody_said_otherwise() -> None:
    with running(['{"organ": "liver"}']) as provider:
        asked(Voice(served(provider)))
        asked(Voice(served(provider), Sampling(max_tokens=77)))
        asked(Voice(served(provider, sampling=Sampling(max_tokens=99))))
        asked(Voice(served(provider, unsupported=("max_tokens",))))

    assert [body.get("max_tokens") for body in provider.bodies] == [8_192, 77, 99, None]


def test_a_model_that_thinks_is_given_room_for_it() -> None:
    with running(['{"organ": "liver"}']) as provider:
        asked(Voice(served(provider, thinking_tokens=500)))
        asked(Voice(served(provider), Sampling(effort="low")))
        asked(Voice(served(provider), Sampling(effort="none")))

    assert [body["max_tokens"] for body in provider.bodies] == [8_692, 8_192 + 16_384, 8_192]


def test_a_model_whose_thoughts_took_all_is_asked_again_with_room() -> None:
    thinking = Reply("<think>Hm", finish_reason="length")
    with running([thinking, '{"organ": "liver"}']) as provider:
        (found,), (called,) = asked(Voice(served(provider)))

    assert found.value == Organ(organ="liver")
    assert [body["max_tokens"] for body in provider.bodies] == [8_192, 8_192 + 16_384]
    assert called.call.attempts == 2


def test_a_server_that_refuses_the_limit_is_asked_by_its_other_name_or_without() -> None:
    def other_name(body: dict[str, Any]) -> Reply | str:
        words = "'max_tokens' is not supported: use 'max_completion_tokens' instead."
        return failing(400, words) if "max_tokens" in body else '{"organ": "liver"}'

    def too_long(body: dict[str, Any]) -> Reply | str:
        words = "This model's maximum context length is 4096 tokens."
        return failing(400, words) if "max_tokens" in body else '{"organ": "liver"}'

    with running(other_name) as provider:
        assert asked(Voice(served(provider, structured="none")))[0][0].value == Organ(organ="liver")
        assert provider.bodies[1]["max_completion_tokens"] == 8_192
    with running(too_long) as provider:
        assert asked(Voice(served(provider, structured="none")))[0][0].value == Organ(organ="liver")
        assert not {"max_tokens", "max_completion_tokens"} & set(provider.bodies[1])


@pytest.mark.parametrize(
    ("words", "text", "quoted"),
    [
        ("“Itchy  skin”…", "I have an itchy\nskin, doctor.", "itchy\nskin"),
        ("It’s my arm.", "well, it's MY arm!", "it's MY arm"),
        ("ache", "a headache, an ache", "ache"),
        ("ache", "headaches", None),
        ("a", "a", None),
        ("not there", "there, not", None),
        ("İlk ağrı", "x İlk ağrı y", "İlk ağrı"),
    ],
)
def test_a_quotation_is_found_whatever_its_quotes_spaces_and_case(words: str, text: str, quoted: str | None) -> None:
    assert quotation(words, text) == quoted


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("a a " * 20_000, "a a " * 20_000 + "b"),
        ("a" * 100_000, "a" * 200_000),
        ("ab " * 30_000, "ab " * 29_999 + "ac"),
        ("-" * 50_000, "-a" * 100_000),
    ],
)
def test_a_quotation_is_looked_for_in_little_time_whatever_a_model_wrote(words: str, text: str) -> None:
    """A long reply of repeated words took nine seconds of CPU time."""
    begun = time.process_time()
    quotation(words, text)
    assert time.process_time() - begun < 2.5
