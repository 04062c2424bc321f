"""Requests for a reply that can be parsed: repairs without repeated requests, and structured output if possible."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from core.agents import fact_splitter, profiler, sections_model
from core.agents.probe import BeliefReply
from core.asking.ask import MAX_ASKS, Parsed, Request, ask, not_copied, quotation, read_json
from core.asking.calls import Voice
from core.events import Called
from core.frameworks.base import default_pack
from core.jobs import items, openings
from core.judging.form import form_named
from core.judging.request import reply_form
from core.models import connection
from core.models.base import Sampling, message
from core.models.openai_compatible import OpenAICompatibleModel
from core.models.wire import strict_format
from tests.core.agents.acting import Cut, Script
from tests.support.asking import make_model, make_spec
from tests.support.fake_provider import FakeProvider, running
from tests.support.replies import Reply, failing

PACK = default_pack()
MESSAGES = [message("user", "Name the organ.")]


class Organ(BaseModel):
    organ: str


class Organs(BaseModel):
    organs: list[Organ]


def request(form: type[BaseModel] | None = Organ) -> Request[Any]:
    return Request("sections", MESSAGES, "grader", "judge", partial(read_json, form=Organ), form=form)


def run_requests(voice: Voice, *requests: Request[Any]) -> tuple[list[Parsed[Any]], list[Called]]:
    async def all_of() -> list[Any]:
        return [item for request_ in requests or (request(),) async for item in ask(voice, PACK, request_)]

    items = asyncio.run(all_of())
    return [i for i in items if isinstance(i, Parsed)], [i for i in items if isinstance(i, Called)]


def test_a_readable_reply_needs_one_request() -> None:
    (parsed,), calls = run_requests(Script(['Sure: {"organ": "liver"}']).voice())

    assert (parsed.value, parsed.fault, parsed.cut) == (Organ(organ="liver"), "", False)
    assert parsed.call_ids == (calls[0].call.call_id,)


def test_an_unreadable_reply_is_repaired_twice_with_different_requests(subtests: pytest.Subtests) -> None:
    for rubbish in ["Hm.", "", "{", '{"organ": 3}', "[" * 5_000]:
        with subtests.test(rubbish=rubbish):
            script = Script([rubbish, f"{rubbish} ", rubbish])
            (parsed,), calls = run_requests(Voice(script, Sampling(temperature=0.0)))

            assert parsed.value is None
            assert parsed.fault
            assert len(parsed.call_ids) == len(calls) == MAX_ASKS == 3
            assert len({str(sent) for sent in script.sent}) == 3
            assert [entry["role"] for entry in script.sent[-1]] == ["user", "assistant", "user", "assistant", "user"]
            assert parsed.fault in script.sent[-1][-1]["content"]


def test_a_repair_is_sampled_otherwise_and_a_repeated_reply_ends_the_repairs() -> None:
    script = Script(["Hm.", "Well.", "Hm."])
    run_requests(Voice(script, Sampling(temperature=0.0)), replace(request(), seed=7))
    assert [(s.temperature, s.seed) for s in script.samplings] == [(0.0, 7), (0.8, 8), (0.8, 9)]

    warm = Script(["Hm."])
    (parsed,), calls = run_requests(Voice(warm, Sampling(temperature=0.7, seed=3)))
    assert [(s.temperature, s.seed) for s in warm.samplings] == [(0.7, 3), (0.7, 4)]
    assert (parsed.value, len(calls)) == (None, 2)


def test_a_value_of_the_example_is_no_answer() -> None:
    source = 'Reply with {"organ": "NAME OF AN ORGAN"}. {{ vignette }} {{ sections }}'
    pack = replace(PACK, prompts={**PACK.prompts, "sections": PACK.prompts["sections"].with_source(source)})
    script = Script(['{"organ": "NAME OF AN ORGAN"}', '{"organ": "liver"}'])

    async def all_of() -> list[Any]:
        return [item async for item in ask(script.voice(), pack, request())]

    *_, parsed = asyncio.run(all_of())
    assert (parsed.value, len(parsed.call_ids)) == (Organ(organ="liver"), 2)
    assert "NAME OF AN ORGAN" in script.sent[1][-1]["content"]


def test_words_that_are_not_in_a_text_are_named_with_the_nearest_that_are() -> None:
    text = "A woman of 40 has had a dry cough for three weeks. She smokes."
    rows = [
        ("had a dry coughing for 3 weeks", "had a dry cough for three weeks"),
        ("She smoked", "She smokes"),
        ("zzz", ""),
    ]
    faults = [(words, near, not_copied(words, text)) for words, near in rows]
    assert [row for row in faults if row[0] not in row[2] or row[1] not in row[2]] == []
    assert "nearest" not in not_copied("zzz", text)


def test_reasoning_is_not_parsed() -> None:
    with running([Reply("liver", deltas=[{"reasoning": '{"organ": "heart"}'}])]) as provider:
        (parsed,), _ = run_requests(Voice(make_model(make_spec(provider.base_url))))

    assert parsed.value is None


def test_a_cut_reply_is_repaired_and_marked() -> None:
    script = Script([Cut('{"organ": "liv'), '{"organ": "liver"}'])
    (parsed,), _ = run_requests(script.voice())

    assert parsed.value == Organ(organ="liver")
    assert "cut off at its limit" in script.sent[1][-1]["content"]

    (never,), _ = run_requests(Script([Cut('{"organ": "liv')]).voice())
    assert (never.value, never.cut) == (None, True)
    assert "cut off at its limit" in never.fault


def test_a_list_is_read_as_the_only_field_of_a_form_unless_the_json_is_broken() -> None:
    assert read_json('[{"organ": "liver"},]', Organs) == Organs(organs=[Organ(organ="liver")])
    with pytest.raises(ValueError, match="no JSON object that is whole"):
        read_json('{"organs": [{"organ": "liver"}], "and', Organs)


# structured output


def served(provider: FakeProvider, **spec: Any) -> OpenAICompatibleModel:
    return make_model(make_spec(provider.base_url, **spec))


def test_the_form_is_sent_if_the_server_supports_it() -> None:
    with running(['{"organ": "liver"}']) as provider:
        run_requests(Voice(served(provider, structured="json_schema")))
        run_requests(Voice(served(provider, structured="json_object")))
        run_requests(Voice(served(provider, structured="none")))
        run_requests(Voice(served(provider)), request(form=None))

    schema, thing, words, no_form = provider.bodies
    assert schema["response_format"]["json_schema"]["schema"]["properties"] == {
        "organ": {"title": "Organ", "type": "string"}
    }
    assert thing["response_format"] == {"type": "json_object"}
    assert "response_format" not in words
    assert "response_format" not in no_form


def test_every_form_is_a_strict_schema() -> None:
    """Every object has exactly its fields, all required, and no part of a schema allows anything."""
    conversations = form_named("care_ratings")
    forms = [
        *(BeliefReply, connection._Vitals, items._Reply, fact_splitter._Split, openings._Reply, profiler.Filtered),
        *(profiler._Proposed, sections_model.reply_form("He coughs.")),
        reply_form(conversations, conversations.questions),
    ]
    wrong: list[object] = []

    def check(part: Any, name: str) -> None:
        if isinstance(part, dict) and "properties" in part:
            strict = part.get("additionalProperties") is False
            if not strict or set(part.get("required", ())) != set(part["properties"]):
                wrong.append((name, part))
            wrong.extend((name, key) for key, value in part["properties"].items() if not {*value} - {"title"})
        if isinstance(part, dict) and {"default", "maxLength", "minLength"} & part.keys():
            wrong.append((name, part))
        if isinstance(part, dict) and part.get("type") == "array" and "maxItems" not in part:
            wrong.append((name, part))
        for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            check(inner, name)

    for form in forms:
        sent = strict_format(form)["json_schema"]
        check(sent["schema"], form.__name__)
        assert sent["strict"] is True
    assert wrong == []


def test_a_server_that_refuses_the_form_gets_requests_without_it() -> None:
    def answer(body: dict[str, Any]) -> Reply | str:
        refused = failing(400, "response_format is not supported")
        return refused if "response_format" in body else '{"organ": "liver"}'

    with running(answer) as provider:
        parsed, calls = run_requests(Voice(served(provider)), request(), request())
        again, _ = run_requests(Voice(served(provider)))

    assert [reply.value for reply in (*parsed, *again)] == [Organ(organ="liver")] * 3
    assert ["response_format" in body for body in provider.bodies] == [True, False, False, False]
    assert [call.call.attempts for call in calls] == [2, 1]


# limits


def test_the_limit_of_a_prompt_is_sent_unless_another_is_set() -> None:
    with running(['{"organ": "liver"}']) as provider:
        run_requests(Voice(served(provider)))
        run_requests(Voice(served(provider), Sampling(max_tokens=77)))
        run_requests(Voice(served(provider, sampling=Sampling(max_tokens=99))))
        run_requests(Voice(served(provider, unsupported=("max_tokens",))))

    assert [body.get("max_tokens") for body in provider.bodies] == [8_192, 77, 99, None]


def test_reasoning_models_get_a_higher_limit() -> None:
    with running(['{"organ": "liver"}']) as provider:
        run_requests(Voice(served(provider, thinking_tokens=500)))
        run_requests(Voice(served(provider), Sampling(effort="low")))
        run_requests(Voice(served(provider), Sampling(effort="none")))

    assert [body["max_tokens"] for body in provider.bodies] == [8_692, 8_192 + 16_384, 8_192]


def test_a_reply_of_reasoning_only_is_requested_with_a_higher_limit() -> None:
    thinking = Reply("<think>Hm", finish_reason="length")
    with running([thinking, '{"organ": "liver"}']) as provider:
        (parsed,), (called,) = run_requests(Voice(served(provider)))

    assert parsed.value == Organ(organ="liver")
    assert [body["max_tokens"] for body in provider.bodies] == [8_192, 8_192 + 16_384]
    assert called.call.attempts == 2


def test_a_refused_limit_is_sent_under_its_other_name_or_left_out() -> None:
    def other_name(body: dict[str, Any]) -> Reply | str:
        words = "'max_tokens' is not supported: use 'max_completion_tokens' instead."
        return failing(400, words) if "max_tokens" in body else '{"organ": "liver"}'

    def too_long(body: dict[str, Any]) -> Reply | str:
        words = "This model's maximum context length is 4096 tokens."
        return failing(400, words) if "max_tokens" in body else '{"organ": "liver"}'

    with running(other_name) as provider:
        assert run_requests(Voice(served(provider, structured="none")))[0][0].value == Organ(organ="liver")
        assert provider.bodies[1]["max_completion_tokens"] == 8_192
    with running(too_long) as provider:
        assert run_requests(Voice(served(provider, structured="none")))[0][0].value == Organ(organ="liver")
        assert not {"max_tokens", "max_completion_tokens"} & set(provider.bodies[1])


def test_a_quotation_is_found_with_any_quotes_spaces_and_case() -> None:
    table: list[tuple[str, str, str | None]] = [
        ("“Itchy  skin”…", "I have an itchy\nskin, doctor.", "itchy\nskin"),
        ("It’s my arm.", "well, it's MY arm!", "it's MY arm"),
        ("ache", "a headache, an ache", "ache"),
        ("chest pain", "My ch\u0435st\u200b p\u00adain is bad", "ch\u0435st\u200b p\u00adain"),
        ("\uff43\uff48\uff45\uff53\uff54 pain", "a chest pain", "chest pain"),
        ("the finger \ufb02exes", "Yes, the \ufb01nger flexes", "the \ufb01nger flexes"),
        ("crampe d'estomac", "Une crampe d\u2019estoma\u03f2", "crampe d\u2019estoma\u03f2"),
        ("no\u00a0fever", "has no fever", "no fever"),
        ("Final Diagnosis: gout", "My answer: **Final Diagnosis:** gout", "Final Diagnosis:** gout"),
        ("**no** fever", "He has no `fever` today", "no `fever"),
        ("ache", "a head_ache", None),
        ("naive cafe", "a nai\u0308ve caf\u00e9", "nai\u0308ve caf\u00e9"),
        ("ache", "headaches", None),
        ("a", "a", None),
        ("not there", "there, not", None),
        ("İlk ağrı", "x İlk ağrı y", "İlk ağrı"),
    ]
    wrong = [(words, text, got) for words, text, quoted in table if (got := quotation(words, text)) != quoted]
    assert wrong == []


def test_a_quotation_is_searched_quickly_in_any_text(subtests: pytest.Subtests) -> None:
    """A naive search takes nine seconds of CPU time on a long reply of repeated words."""
    table: list[tuple[str, str]] = [
        ("a a " * 20_000, "a a " * 20_000 + "b"),
        ("a" * 100_000, "a" * 200_000),
        ("ab " * 30_000, "ab " * 29_999 + "ac"),
        ("-" * 50_000, "-a" * 100_000),
    ]
    for words, text in table:
        with subtests.test(words=words, text=text):
            begun = time.process_time()
            quotation(words, text)
            assert time.process_time() - begun < 2.5
