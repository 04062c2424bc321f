"""One call to an OpenAI-compatible server: request and reply."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from core.errors import ProviderError
from core.models.base import Completion, Message, Sampling, TextPiece, Usage
from core.models.failures import RetryPolicy
from core.models.openai_compatible import ClientPool
from core.models.spec import Bounds, Prices, Timeouts
from core.models.wire import ServerSentEvents
from tests.support.asking import HELLO, ask, hear, heard_text, make_model, make_spec
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, failing


async def test_streams_pieces_then_one_completion(fake_provider: FakeProvider) -> None:
    fake_provider.script = [Reply("It itches a lot.", usage=(11, 7), model="fake-0613")]
    model = make_model(make_spec(fake_provider.base_url, prices=Prices(input=2.0, output=10.0)))
    items = await hear(model)
    assert [item.text for item in items if isinstance(item, TextPiece)] == ["It", " itches", " a", " lot."]
    completion = items[-1]
    assert isinstance(completion, Completion)
    assert completion.text == "It itches a lot." == heard_text(items)
    assert completion.usage == Usage(11, 7, estimated=False)
    assert completion.cost_usd == pytest.approx((11 * 2 + 7 * 10) / 1e6)
    assert (completion.finish_reason, completion.served_by, completion.attempts) == ("stop", "fake-0613", 1)
    assert completion.model == "openai/test"
    assert completion.first_token_s is not None
    assert 0 < completion.first_token_s <= completion.latency_s
    await model.aclose()


async def test_pieces_of_a_reply_arrive_as_they_are_sent(fake_provider: FakeProvider) -> None:
    fake_provider.script = [Reply("one two", stall_after=1)]
    model = make_model(make_spec(fake_provider.base_url))
    stream = aiter(model.stream(HELLO, Sampling()))
    async with asyncio.timeout(5):
        assert await anext(stream) == TextPiece("one")
    await stream.aclose()
    await model.aclose()


async def test_the_whole_request_is_sent_and_recorded(fake_provider: FakeProvider) -> None:
    model = make_model(make_spec(fake_provider.base_url), key="sk-secret-123456")
    sampling = Sampling(temperature=0.0, max_tokens=40, seed=7, stop=("END",))
    completion = await ask(model, sampling=sampling)
    assert fake_provider.bodies == [
        {
            "model": "test",
            "messages": HELLO,
            "temperature": 0.0,
            "max_tokens": 40,
            "seed": 7,
            "stop": ["END"],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]
    assert completion.request == fake_provider.bodies[0]
    assert fake_provider.requests[0].key == "sk-secret-123456"
    await model.aclose()


async def test_unset_sampling_is_not_sent_unless_the_model_has_defaults(fake_provider: FakeProvider) -> None:
    plain = make_model(make_spec(fake_provider.base_url))
    await ask(plain)
    assert not {"temperature", "max_tokens", "seed", "stop"} & set(fake_provider.bodies[0])
    tuned = make_model(make_spec(fake_provider.base_url, sampling=Sampling(temperature=0.7, max_tokens=9)))
    await ask(tuned, sampling=Sampling(max_tokens=5))
    assert (fake_provider.bodies[1]["temperature"], fake_provider.bodies[1]["max_tokens"]) == (0.7, 5)
    await plain.aclose()
    await tuned.aclose()


async def test_reasoning_models_get_their_own_fields(fake_provider: FakeProvider) -> None:
    quirks = {"max_tokens_field": "max_completion_tokens", "unsupported": ("temperature",), "system_role": "user"}
    model = make_model(make_spec(fake_provider.base_url, **quirks))
    await ask(model, sampling=Sampling(temperature=0.0, max_tokens=50))
    body = fake_provider.bodies[0]
    assert body["max_completion_tokens"] == 50
    assert not {"max_tokens", "temperature"} & set(body)
    assert body["messages"] == [{"role": "user", "content": "Be brief.\n\nHow are you?"}]
    await model.aclose()


@pytest.mark.parametrize(
    ("roles", "sent"),
    [(["system", "user"], ["system", "user"]), (["system", "assistant", "user"], ["user", "assistant", "user"])],
)
async def test_a_strict_template_keeps_the_system_message_where_it_can(
    fake_provider: FakeProvider, roles: list[str], sent: list[str]
) -> None:
    model = make_model(make_spec(fake_provider.base_url, system_role="before_user"))
    await ask(model, [Message(role=role, content=role) for role in roles])  # type: ignore[typeddict-item]
    assert [message["role"] for message in fake_provider.bodies[0]["messages"]] == sent
    await model.aclose()


@pytest.mark.parametrize("usage", [(10**15, 7), (11, 10**15), (-5, 7), (11, -1), (2.5, 7), (True, 7)], ids=str)
async def test_impossible_token_counts_are_replaced_by_estimates(
    fake_provider: FakeProvider, usage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    fake_provider.script = lambda body: Reply("one two three four five six", usage=usage)
    model = make_model(make_spec(fake_provider.base_url, prices=Prices(input=2.0, output=10.0)))
    first, second = await ask(model), await ask(model)
    await model.aclose()
    assert first.cost_usd == pytest.approx((7 * 2 + 8 * 10) / 1e6)
    assert first.usage == second.usage == Usage(prompt_tokens=3 + 4, completion_tokens=8, estimated=True)
    warnings = [line for line in caplog.messages if "counts tokens that cannot be" in line]
    assert len(warnings) == (usage in [(10**15, 7), (11, 10**15), (-5, 7), (11, -1)]), "once, if there was a count"


async def test_a_reply_beyond_its_limit_is_cut(fake_provider: FakeProvider, caplog: pytest.LogCaptureFixture) -> None:
    fake_provider.script = [Reply("and again " * 5_000)]
    model = make_model(make_spec(fake_provider.base_url))
    completion = await ask(model, sampling=Sampling(max_tokens=20))
    await model.aclose()
    assert completion.finish_reason == "length"
    assert 20 * 16 < len(completion.text) < 20 * 16 + 40
    assert completion.usage.estimated
    assert "goes on beyond the limit of its reply" in caplog.text


_ROUND = "I would like to know more about that. "


@pytest.mark.parametrize(
    ("text", "repeats", "characters"),
    [
        (_ROUND * 400, 30, (2_000, 3_000)),  # cut after 2,000 characters of it
        ("Where does it hurt? " + ". " * 4_500, 30, (2_000, 3_000)),
        (
            (" ".join(map(str, range(100, 198))) + " end. ") * 60,
            30,
            (31 * 397, 31 * 397 + 600),
        ),  # the first and thirty repetitions
        (_ROUND * 400, 0, None),
        (" ".join(f"Question {number}: does it hurt?" for number in range(400)), 30, None),
        (_ROUND * 40, 30, None),  # often, but short
    ],
    ids=["a sentence", "dots", "a paragraph", "let go on", "numbered", "short"],
)
async def test_a_repetitive_reply_is_cut(
    fake_provider: FakeProvider, text: str, repeats: int, characters: tuple[int, int] | None
) -> None:
    fake_provider.script = [Reply(text)]
    model = make_model(make_spec(fake_provider.base_url, bounds=Bounds(repeats=repeats)))
    completion = await ask(model, sampling=Sampling(max_tokens=8_000))
    await model.aclose()
    if characters is None:
        assert (completion.finish_reason, completion.text) == ("stop", text)
    else:
        assert completion.finish_reason == "repetition"
        assert text.startswith(completion.text)
        assert characters[0] <= len(completion.text) <= characters[1]


async def test_missing_usage_is_estimated_and_marked(fake_provider: FakeProvider) -> None:
    fake_provider.script = [Reply("one two three four five six", usage=None)]
    model = make_model(make_spec(fake_provider.base_url))
    usage = (await ask(model)).usage
    assert usage == Usage(prompt_tokens=3 + 4, completion_tokens=8, estimated=True)
    await model.aclose()


async def test_a_server_without_stream_options_gets_requests_without_them(fake_provider: FakeProvider) -> None:
    def old_server(body: dict[str, object]) -> Reply:
        return failing(400, "Unrecognized field: stream_options") if "stream_options" in body else Reply("Fine.")

    fake_provider.script = old_server
    model = make_model(make_spec(fake_provider.base_url))
    first = await ask(model)
    assert (first.text, first.usage.estimated) == ("Fine.", True)
    assert "stream_options" not in first.request
    await ask(model)
    assert len(fake_provider.requests) == 3, "the second call needs no retry"
    await model.aclose()


async def test_a_disconnect_after_the_end_does_not_lose_the_reply(fake_provider: FakeProvider) -> None:
    fake_provider.script = [Reply("Done now.", finish_reason="length", cut_after=3)]
    model = make_model(make_spec(fake_provider.base_url))
    completion = await ask(model)
    assert (completion.text, completion.finish_reason, completion.attempts) == ("Done now.", "length", 1)
    assert completion.usage.estimated
    await model.aclose()


async def test_models_of_one_address_and_key_share_a_client_until_the_last_closes(fake_provider: FakeProvider) -> None:
    pool = ClientPool()
    spec = make_spec(fake_provider.base_url)
    first, second, other_key = (make_model(spec, key=key, pool=pool) for key in ("k1", "k1", "k2"))
    for model in (first, second, other_key):
        await ask(model)
    clients = [shared.sdk for shared in pool._shared.values()]
    assert len(clients) == 2
    await first.aclose()
    assert not clients[0].is_closed()
    await second.aclose()
    await second.aclose()
    assert clients[0].is_closed()
    assert not clients[1].is_closed()
    await other_key.aclose()
    assert not pool._shared


async def test_a_closed_model_can_be_used_again(fake_provider: FakeProvider) -> None:
    model = make_model(make_spec(fake_provider.base_url))
    await ask(model)
    await model.aclose()
    assert (await ask(model)).text
    await model.aclose()


async def test_sixty_four_calls_at_once(fake_provider: FakeProvider) -> None:
    fake_provider.script = lambda body: Reply(f"to {body['messages'][0]['content']}", delay_s=0.05)
    model = make_model(make_spec(fake_provider.base_url))
    answers = await asyncio.gather(*(ask(model, [Message(role="user", content=str(n))]) for n in range(64)))
    assert [answer.text for answer in answers] == [f"to {n}" for n in range(64)]
    await model.aclose()


async def test_an_abandoned_stream_frees_its_connection(fake_provider: FakeProvider) -> None:
    fake_provider.script = [Reply("one two three", piece_delay_s=0.2)]
    model = make_model(make_spec(fake_provider.base_url))
    stream = aiter(model.stream(HELLO, Sampling()))
    await anext(stream)
    await stream.aclose()
    fake_provider.script = [Reply("again")]
    assert (await ask(model)).text == "again"
    await model.aclose()


async def test_a_cancelled_call_ends_at_once(fake_provider: FakeProvider) -> None:
    arrived = asyncio.Event()

    def never(body: dict[str, object]) -> Reply:
        arrived.set()
        return Reply(delay_s=30)

    fake_provider.script = never
    model = make_model(make_spec(fake_provider.base_url))
    call = asyncio.create_task(ask(model))
    await arrived.wait()
    call.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await call
    await model.aclose()


async def test_slow_replies_time_out() -> None:
    """All at once, each with a provider of its own: they only wait."""
    table = [
        (Timeouts(call_s=0.3, first_piece_s=9), Reply(delay_s=30), "not complete within 0.3 seconds"),
        (Timeouts(call_s=9, first_piece_s=0.3), Reply(delay_s=30), "no text came within 0.3 seconds"),
        (Timeouts(call_s=9, stall_s=0.3), Reply("one two", stall_after=1), "stood still for 0.3 seconds"),
        # what may be a heading of thoughts is passed on later, but it has come
        (Timeouts(call_s=9, stall_s=0.3), Reply("**Final Diagnosis:** x", stall_after=1), "stood still for 0.3"),
        (Timeouts(call_s=0.4), Reply("one two three four", piece_delay_s=0.25), "not complete within 0.4 seconds"),
    ]

    async def times_out(times: Timeouts, reply: Reply, what: str) -> None:
        async with FakeProvider() as provider:
            provider.script = [reply, Reply("Quick.")]
            model = make_model(make_spec(provider.base_url, timeouts=times))
            assert heard_text(await hear(model)) == "Quick."
            await model.aclose()
            provider.script = [reply]
            once = make_model(make_spec(provider.base_url, timeouts=times), retry=RetryPolicy(attempts=1))
            with pytest.raises(ProviderError, match=what) as caught:
                await hear(once)
            assert caught.value.kind == "timeout"
            await once.aclose()

    await asyncio.gather(*(times_out(*row) for row in table))


async def test_a_slow_listener_is_not_a_slow_provider(fake_provider: FakeProvider) -> None:
    fake_provider.script = [Reply("one two three")]
    model = make_model(make_spec(fake_provider.base_url, timeouts=Timeouts(stall_s=0.2)))
    heard = []
    async for item in model.stream(HELLO, Sampling()):
        if not heard:
            await asyncio.sleep(0.3)
        heard.append(item)
    assert isinstance(heard[-1], Completion)
    assert heard[-1].attempts == 1
    await model.aclose()


def test_events_can_be_cut_at_any_byte() -> None:
    sent = (
        b': hello\r\n\r\nevent: x\r\ndata: {"a": "\xc3\xa9"}\r\n\r\ndata:{"b":\ndata: 1}\n\n'
        b'data: "\\ud83d"\n\ndata: [DONE]\n\ndata: 7\n\n'
    )
    for size in range(1, len(sent)):
        events = ServerSentEvents()
        values = [
            value for at in range(0, len(sent), size) if not events.done for value in events.take(sent[at : at + size])
        ]
        assert (values, events.done) == ([{"a": "é"}, {"b": 1}, "\ud83d"], True)
    with pytest.raises(ValueError):
        list(ServerSentEvents().take(b"data: {\n\n"))
