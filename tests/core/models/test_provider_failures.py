"""Failures of a provider: retries, waiting times, and messages to the user."""

from __future__ import annotations

import base64
import json
import logging
import re
import socket
import ssl
import time
import traceback
from email.utils import formatdate
from urllib.parse import quote

import aiohttp
import httpx2
import openai
import pytest

from core.errors import ProviderError
from core.models import openai_compatible
from core.models.base import Completion, Delayed, Restart, Sampling
from core.models.classify import classify, clean, error_words, is_error
from core.models.failures import RetryPolicy, retry_after
from core.models.finish import ending_of, is_cut
from core.models.limits import RateLimiter, RateLimits
from tests.support.asking import Clock, Naps, ask, hear, heard_text, make_model, make_spec
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, content_filtered, failing, rate_limited

GOOD = Reply("All better now.")


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (failing(500), "server"),
        (failing(503), "server"),
        (failing(408), "timeout"),
        (failing(504), "timeout"),
        (rate_limited(), "rate_limit"),
        (Reply(cut_after=0), "connection"),
        (Reply("one two three", cut_after=2), "connection"),
        (Reply("one two three", end_after=2), "malformed"),
        (Reply("one two three", garbage_after=1), "malformed"),
        (Reply("one two", error_after=1, error={"message": "overloaded", "code": "busy"}), "server"),
        (Reply(""), "blank"),
        (Reply("  \n"), "blank"),
        (Reply("", finish_reason="error"), "empty"),
    ],
)
async def test_temporary_failures_are_retried(fake_provider: FakeProvider, bad: Reply, kind: str) -> None:
    fake_provider.script = [bad, GOOD]
    naps = Naps()
    model = make_model(make_spec(fake_provider.base_url), naps=naps)
    items = await hear(model)
    completion = items[-1]
    assert isinstance(completion, Completion)
    assert (completion.text, completion.attempts) == (GOOD.text, 2)
    assert heard_text(items) == GOOD.text
    assert len(fake_provider.requests) == 2
    assert fake_provider.bodies[0] == fake_provider.bodies[1]
    assert naps.seconds == [0.5]
    fake_provider.script = [bad]
    with pytest.raises(ProviderError) as caught:
        await hear(model)
    assert caught.value.kind == kind
    assert caught.value.attempts == {"empty": 2, "blank": 2, "rate_limit": 21}.get(kind, 5)
    await model.aclose()


@pytest.mark.parametrize(
    ("bad", "kind", "message"),
    [
        (failing(400, "temperature is too high"), "bad_request", "temperature is too high"),
        (failing(400, "too long", code="context_length_exceeded"), "bad_request", "shorten the conversation"),
        (failing(404, "no such model"), "bad_request", "check the model's name"),
        (failing(422), "bad_request", "HTTP 422"),
        (failing(401), "auth", "check the key"),
        (failing(403), "auth", "check the key"),
        (failing(429, code="insufficient_quota"), "rate_limit", "quota is used up"),
        (content_filtered(), "refused", "content filter"),
        (failing(400, code="content_filter"), "refused", "content filter"),
        (Reply("I will", finish_reason="content_filter"), "refused", "content filter"),
        (Reply("", refusal="I cannot help with that."), "refused", "refused to answer"),
        (Reply("x", error_after=1, error={"message": "no", "code": "content_filter"}), "refused", "content filter"),
    ],
)
async def test_permanent_failures_are_not_retried(
    fake_provider: FakeProvider, bad: Reply, kind: str, message: str
) -> None:
    fake_provider.script = [bad, GOOD]
    naps = Naps()
    model = make_model(make_spec(fake_provider.base_url), naps=naps)
    with pytest.raises(ProviderError, match=message) as caught:
        await hear(model)
    assert (caught.value.kind, caught.value.attempts) == (kind, 1)
    assert len(fake_provider.requests) == 1
    assert naps.seconds == []
    sentence = str(caught.value)
    assert "openai/test" in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    await model.aclose()


async def test_restarts_give_the_reason_of_the_retry(fake_provider: FakeProvider) -> None:
    fake_provider.script = [failing(500), Reply("one two three", cut_after=2), GOOD]
    items = await hear(make_model(make_spec(fake_provider.base_url)))
    restarts = [item for item in items if isinstance(item, Restart)]
    assert [restart.attempt for restart in restarts] == [2, 3]
    assert restarts[0].reason == "the provider answered HTTP 500 (it failed)"
    assert "connection" in restarts[1].reason


async def test_a_missing_server_is_reported(unused_port: int) -> None:
    naps = Naps()
    model = make_model(make_spec(f"http://127.0.0.1:{unused_port}/v1"), naps=naps)
    with pytest.raises(ProviderError, match=r"nothing listens at 127\.0\.0\.1:\d+\); start the server") as caught:
        await hear(model)
    assert (caught.value.kind, caught.value.attempts) == ("connection", 5)
    await model.aclose()


async def test_waits_grow_and_stay_bounded(fake_provider: FakeProvider) -> None:
    fake_provider.script = [failing(500)]
    naps = Naps()
    policy = RetryPolicy(attempts=6, base_s=1, cap_s=4, max_wait_s=100)
    model = make_model(make_spec(fake_provider.base_url), naps=naps, retry=policy, jitter=lambda: 1.0)
    with pytest.raises(ProviderError, match="after 6 requests"):
        await hear(model)
    assert naps.seconds == [1, 2, 4, 4, 4]
    naps.seconds.clear()
    hasty = RetryPolicy(attempts=6, base_s=1, cap_s=4, max_wait_s=3.5)
    with pytest.raises(ProviderError, match="after 3 requests"):
        await hear(make_model(make_spec(fake_provider.base_url), naps=naps, retry=hasty, jitter=lambda: 1.0))
    assert naps.seconds == [1, 2]
    await model.aclose()


async def test_rate_limits_and_faults_have_separate_attempts(fake_provider: FakeProvider) -> None:
    """Nine rate limits, more than the five attempts for faults, and four faults among them: the call succeeds."""
    fake_provider.script = [*[rate_limited()] * 6, *[failing(500)] * 4, *[rate_limited()] * 3, GOOD]
    naps = Naps()
    model = make_model(make_spec(fake_provider.base_url), naps=naps, jitter=lambda: 1.0)
    assert (await ask(model)).attempts == 14
    assert naps.seconds == [1, 2, 4, 8, 16, 30, 1, 2, 4, 8, 30, 30, 30], "each kind has separate waits"


async def test_retry_after_is_honoured(fake_provider: FakeProvider) -> None:
    in_twenty = formatdate(time.time() + 20, usegmt=True)
    fake_provider.script = [rate_limited("7"), failing(503, retry_after=in_twenty), rate_limited("0.25"), GOOD]
    naps = Naps()
    assert (await ask(make_model(make_spec(fake_provider.base_url), naps=naps))).attempts == 4
    assert naps.seconds[0] == 7
    assert 15 < naps.seconds[1] <= 20
    assert naps.seconds[2] == 0.25


@pytest.mark.parametrize("header", ["3600", "1e300", "Fri, 31 Dec 9999 23:59:59 GMT"])
async def test_a_long_retry_after_is_cut_to_a_minute(fake_provider: FakeProvider, header: str) -> None:
    fake_provider.script = [rate_limited(header), GOOD]
    naps, clock = Naps(), Clock()
    limiter = RateLimiter(RateLimits(), clock=clock, sleep=clock.sleep)
    model = make_model(make_spec(fake_provider.base_url), naps=naps, limiter=limiter)
    items = await hear(model)
    assert items[-1].text
    assert 60 <= naps.seconds[0] <= 61
    waits = [item.words for item in items if isinstance(item, Delayed)]
    assert "60 s" in waits[0]
    assert waits[-1] == "", "the wait and its end are reported"


@pytest.mark.parametrize(
    "header", ["Mon, 01 Jan 99999 00:00:00 GMT", "Fri, 00 Foo 0000 99:99:99 +9999", "-1e999", "nan", "²", "," * 5_000]
)
async def test_a_malformed_retry_after_is_ignored(fake_provider: FakeProvider, header: str) -> None:
    """A year out of range raised an OverflowError that ended the whole campaign, and each resumed one."""
    assert retry_after({"retry-after": header}) in (None, 0.0)
    fake_provider.script = [rate_limited(header.encode().decode("latin-1")), GOOD]
    assert (await ask(make_model(make_spec(fake_provider.base_url), naps=Naps()))).attempts == 2


async def test_a_rate_limit_delays_every_call_of_the_provider(fake_provider: FakeProvider) -> None:
    fake_provider.script = [rate_limited("30"), GOOD]
    clock = Clock()
    limiter = RateLimiter(RateLimits(), clock=clock, sleep=clock.sleep)
    spec = make_spec(fake_provider.base_url)
    await ask(make_model(spec, limiter=limiter))
    assert clock.now == 1030, "the retry sleeps, and then waits in the limiter for the rest of the time"


def test_reading_retry_after() -> None:
    table: list[tuple[dict[str, str], float | None]] = [
        ({"retry-after": "12"}, 12),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "Thu, 01 Jan 1970 00:02:00 GMT"}, 20),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ]
    wrong = [
        (headers, got) for headers, seconds in table if (got := retry_after(headers, now=lambda: 100.0)) != seconds
    ]
    assert wrong == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
async def test_the_key_never_leaks(
    fake_provider: FakeProvider, status: int, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "opaque+value/42"
    caplog.set_level(logging.DEBUG)
    fake_provider.script = [failing(status, f"Incorrect API key provided: {key}, also sk-proj-abcdef123456")]
    model = make_model(make_spec(fake_provider.base_url), key=key)
    with pytest.raises(ProviderError) as caught:
        await hear(model)
    assert fake_provider.requests[0].key == key, "it was sent"
    written = "".join(traceback.format_exception(caught.value)) + caplog.text + "".join(capsys.readouterr())
    texts = [written, repr(model), repr(model.spec), str(vars(model)), repr(fake_provider.requests)]
    for text in texts:
        assert key not in text
        assert "abcdef123456" not in text
    await model.aclose()


async def test_the_key_is_not_in_the_record_of_a_good_call(fake_provider: FakeProvider) -> None:
    model = make_model(make_spec(fake_provider.base_url), key="sk-verysecret99")
    assert "verysecret99" not in repr(await ask(model))
    await model.aclose()


def test_every_interruption_has_a_kind(subtests: pytest.Subtests) -> None:
    table: list[tuple[Exception, str]] = [
        (openai.APITimeoutError(httpx2.Request("POST", "http://h/v1")), "timeout"),
        (TimeoutError(), "timeout"),
        (openai.APIConnectionError(request=httpx2.Request("POST", "http://h/v1")), "connection"),
        (aiohttp.ClientPayloadError(), "connection"),
        (ConnectionResetError(), "connection"),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), "malformed"),
    ]
    for error, kind in table:
        with subtests.test(error=error, kind=kind):
            failure = classify(error)
            assert failure is not None
            assert (failure.kind, failure.retry) == (kind, True)


def test_a_failed_connection_names_its_cause_and_the_address() -> None:
    table: list[tuple[BaseException, str, str]] = [
        (socket.gaierror(-2, "unknown"), "no server is known as h.example", "correct the address"),
        (ConnectionRefusedError(), "nothing listens at h.example:443", "start the server"),
        (ssl.SSLCertVerificationError(), "the certificate of h.example:443 is not trusted", "SSL_CERT_FILE"),
        (ssl.SSLError(), "h.example:443 does not speak TLS", "http://"),
        (ConnectionResetError(), "ConnectionResetError", "check that the server runs"),
    ]
    for cause, what, advice in table:
        error = openai.APIConnectionError(request=httpx2.Request("POST", "https://h.example/v1"))
        error.__cause__ = cause
        failure = classify(error)
        assert failure is not None
        assert (failure.kind, failure.retry) == ("connection", True)
        assert what in failure.what
        assert advice in failure.advice


def test_the_words_of_an_error_are_found_in_any_depth_but_not_endlessly() -> None:
    deep: object = "lost"
    for _ in range(12):
        deep = {"error": deep}
    table: list[tuple[object, str]] = [
        ({"error": {"message": "no credit", "param": "seed"}}, "seed: no credit"),
        (
            {"detail": [{"loc": ["body", "seed"], "msg": "not permitted"}, {"msg": "and more"}]},
            "body.seed: not permitted; and more",
        ),
        ('{"error": {"message": "inside a text"}}', "inside a text"),
        ("<html><title>Bad Gateway</title></html>", "a web page: Bad Gateway"),
        ("<html></html>", "a web page"),
        ({"base_resp": {"status_msg": "no credit"}}, "base_resp: status_msg: no credit"),
        (True, ""),
        (17, "17"),
        (deep, ""),
    ]
    wrong = [(body, words) for body, expected in table if (words := error_words(body)) != expected]
    assert wrong == []
    errors: list[object] = [{"error": "x"}, [{"error": "x"}], {"object": "error"}, {"detail": "x"}, {"message": "x"}]
    replies: list[object] = [[], 3, "error", {"choices": [], "detail": "x"}, {"type": "ping", "message": "x"}, {}]
    assert [is_error(chunk) for chunk in errors] == [True] * len(errors)
    assert [is_error(chunk) for chunk in replies] == [False] * len(replies)


def test_a_programming_error_is_no_provider_failure() -> None:
    assert classify(KeyError("x")) is None


def test_details_are_one_short_clean_line() -> None:
    assert clean("api-version is not supported") == "api-version is not supported"
    assert clean("bad\n  thing happened.") == "bad thing happened"
    assert "tok" not in clean("Authorization: Bearer tok_1234567")
    assert len(clean("word " * 500)) <= 240


KEY = "sk-proj-Zq83hTwL0pVbN5xYd2RkMf7C"


def test_an_echoed_key_is_removed_in_every_form(subtests: pytest.Subtests) -> None:
    table: list[str] = [
        KEY, f"Bearer {KEY}", KEY.upper(), KEY[::-1], KEY[8:20], f"…{KEY[-10:]}",
        quote("".join(f"%{ord(c):02x}" for c in KEY)),
        "".join(f"%{ord(c):02X}" for c in KEY),
        "".join(f"\\u{ord(c):04x}" for c in KEY), "".join(f"&#{ord(c)};" for c in KEY),
        base64.b64encode(KEY.encode()).decode(), base64.b64encode(f"Bearer {KEY}".encode()).decode(),
        base64.b64encode(f":{KEY}".encode()).decode(), base64.urlsafe_b64encode(f"key={KEY}!".encode()).decode(),
        KEY.encode().hex(), KEY.encode().hex().upper(), " ".join(KEY), "-".join(KEY), "\u200b".join(KEY),
    ]  # fmt: skip
    for echo in table:
        with subtests.test(echo=echo):
            cleaned = clean(f"Incorrect API key provided: {echo} (see the docs)", (KEY,))
            assert "Incorrect" not in cleaned
            assert not any(KEY[at : at + 6].lower() in cleaned.lower() for at in range(len(KEY) - 6))


async def test_a_key_that_a_reply_repeats_is_not_stored(fake_provider: FakeProvider) -> None:
    fake_provider.script = [Reply(f"You sent {KEY}.", deltas=[{"reasoning": f"It is {KEY}."}])]
    model = make_model(make_spec(fake_provider.base_url), key=KEY)
    done = await ask(model)
    assert (done.text, done.reasoning) == ("You sent ….", "It is ….")
    await model.aclose()


@pytest.mark.parametrize(
    "echo",
    [
        KEY, KEY[::-1], quote(f"sk {KEY}"), "".join(f"%{ord(c):02X}" for c in KEY), KEY.encode().hex(),
        "".join(f"\\u{ord(c):04x}" for c in KEY), "".join(f"&#{ord(c)};" for c in KEY),
        *(base64.b64encode(f"{before}{KEY}".encode()).decode() for before in ("", ":", "k=")),
        base64.b64encode(f"{KEY}!".encode()).decode(),
        base64.urlsafe_b64encode(f"Bearer {KEY}".encode()).decode(),
    ],
)  # fmt: skip
async def test_a_key_that_a_reply_repeats_in_another_form_is_not_stored(fake_provider: FakeProvider, echo: str) -> None:
    fake_provider.script = [Reply(f"It is {echo} and Gout.")]
    model = make_model(make_spec(fake_provider.base_url), key=KEY)
    done = await ask(model)
    await model.aclose()
    assert re.fullmatch(r"It is [\w+/=-]{0,12}(?:sk%20)?…[\w+/=-]{0,6} and Gout\.", done.text)


def test_words_without_the_key_are_shown() -> None:
    words = "Incorrect API key provided: sk-****7C; you can find yours in the console"
    assert "you can find yours" in clean(words, (KEY,))
    assert "7C" not in clean(words, (KEY,))
    assert clean("model not found", (KEY, "none", "")) == "model not found"


ENDINGS: dict[str, tuple[str, ...]] = {
    "normal": ("stop", "STOP", "end_turn", "COMPLETE", "eos", "FINISH_REASON_STOP", "endTurn", "endoftext"),
    "cut": (
        "length",
        "max_tokens",
        "MAX_TOKENS",
        "max_output_tokens",
        "model_length",
        "repetition",
        "maxTokens",
        "truncated",
    ),
    "blocked": ("content_filter", "SAFETY", "refusal", "RECITATION", "guardrail_intervened", "ContentFiltered"),
    "failed": ("error", "ERROR", "tool_calls", "abort", "insufficient_system_resource", "moon", "stop it", "unknown"),
}


def test_every_finish_reason_has_an_ending() -> None:
    wrong = [
        (reason, got)
        for ending, reasons in ENDINGS.items()
        for reason in reasons
        if (got := ending_of(reason)) != ending or is_cut(reason) != (ending == "cut")
    ]
    assert wrong == []


async def test_text_is_an_answer_only_after_a_normal_end(fake_provider: FakeProvider) -> None:
    kinds = {"failed": "empty", "blocked": "refused"}
    for ending, reasons in ENDINGS.items():
        for reason in reasons:
            fake_provider.script = [Reply("It is gout", finish_reason=reason)]
            model = make_model(make_spec(fake_provider.base_url), naps=Naps())
            if ending in kinds:
                with pytest.raises(ProviderError) as caught:
                    await ask(model)
                assert (reason, caught.value.kind) == (reason, kinds[ending])
            else:
                done = await ask(model)
                assert (done.text, done.finish_reason) == ("It is gout", reason)
            await model.aclose()


def chunk(text: str | None, finish: str | None = None, **more: object) -> str:
    delta = {} if text is None else {"content": text}
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}], **more})}\n\n"


END = f"{chunk(None, 'stop')}data: [DONE]\n\n"


@pytest.mark.parametrize(
    "before",
    [
        "data:\n\n", "data: \n\n", ":\n\n", ": keep-alive\n\n", 'event: ping\ndata: {"type": "ping"}\n\n',
        'event: heartbeat\ndata: {"ts": 12}\n\n', "event: ping\ndata:\n\n", "data: {}\n\n", "\n\n",
        'data: {"type": "ping", "message": "alive"}\n\n', "data: null\n\n", 'data: ""\n\n',
    ],
)  # fmt: skip
async def test_heartbeats_are_no_part_of_a_reply(fake_provider: FakeProvider, before: str) -> None:
    fake_provider.script = [Reply(raw=(before, chunk("All "), before, chunk("well."), before, END))]
    done = await ask(make_model(make_spec(fake_provider.base_url)))
    assert (done.text, done.attempts, len(fake_provider.requests)) == ("All well.", 1, 1)


async def test_a_byte_order_mark_is_no_part_of_the_first_event(fake_provider: FakeProvider) -> None:
    fake_provider.script = [Reply(raw=("\ufeff", chunk("All well."), END))]
    done = await ask(make_model(make_spec(fake_provider.base_url)))
    assert (done.text, done.attempts) == ("All well.", 1)


async def test_a_finish_reason_of_every_chunk_is_no_end(
    fake_provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_compatible, "_AFTER_FINISH_S", 0.1)
    words = "The cells are small and pale."
    broken = Reply("It is not", finish_always=True, cut_after=2)
    fake_provider.script = [Reply(words, finish_always=True, piece_delay_s=0.15), broken, GOOD]
    done = await ask(make_model(make_spec(fake_provider.base_url)))
    assert (done.text, done.attempts) == (words, 1)
    done = await ask(make_model(make_spec(fake_provider.base_url), naps=Naps()))
    assert (done.text, done.attempts) == (GOOD.text, 2), "the part before a broken connection is no reply"


ERRORS: list[tuple[object, str]] = [
    ({"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Not wanted"}]}, "body.seed: Not wanted"),
    ({"detail": "The queue is full"}, "The queue is full"),
    ({"detail": {"reason": "The queue is full"}}, "The queue is full"),
    ({"error": "The queue is full"}, "The queue is full"),
    ({"error": {"message": "Odd value", "param": "top_p"}}, "top_p: Odd value"),
    ({"errors": [{"message": "The queue"}, {"message": "is full"}]}, "The queue; is full"),
    ([{"error": {"code": 400, "message": "The queue is full"}}], "The queue is full"),
    ({"object": "error", "message": "The queue is full", "code": 40303}, "The queue is full"),
    ({"error": {"message": '{"detail": "The queue is full"}'}}, "The queue is full"),
    ({"status": 1, "msg": "The queue is full"}, "The queue is full"),
    ("The queue is full", "The queue is full"),
    ({"errors": {"top_p": ["is not a number"]}, "title": "Bad request"}, "top_p: is not a number"),
    ({"fault": {"faultstring": "The queue is full", "trace": None}}, "faultstring: The queue is full"),
    ("<!doctype html><html><head><title>The queue is full</title></head></html>", "The queue is full"),
    ("<html><body><h1>The queue\nis full</h1></body></html>", "The queue is full"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "words"), ERRORS, ids=str)
async def test_the_words_of_an_error_are_shown_in_any_shape(
    fake_provider: FakeProvider, error: object, words: str
) -> None:
    fake_provider.script = [Reply(status=400, error=error)]  # type: ignore[arg-type]
    with pytest.raises(ProviderError, match=re.escape(words)) as caught:
        await ask(make_model(make_spec(fake_provider.base_url)))
    assert caught.value.kind == "bad_request"


IN_A_GOOD_RESPONSE: list[tuple[str, str]] = [
    ("application/json", '{"error": {"message": "The queue is full"}}'),
    ("application/json", '{"error": {"message": "The queue is full", "code": 400}}'),
    ("application/problem+json", '{"detail": "The queue is full"}'),
    ("text/plain", "The queue is full"),
    ("text/event-stream", '{"error": "The queue is full"}'),
    ("text/event-stream", "The queue is full\n"),
    ("text/event-stream", 'event: error\ndata: {"type": "error", "error": {"message": "The queue is full"}}\n\n'),
    ("text/event-stream", f'{chunk("It ")}data: {{"detail": [{{"msg": "The queue is full"}}]}}\n\n'),
    ("text/event-stream", 'data: {"object": "error", "message": "The queue is full"}\n\n'),
    ("text/event-stream", "event: error\ndata: The queue is full\n\n"),
    ("text/html", "<html><title>The queue is full</title></html>"),
    ("application/json", '{"success": false, "errorMessage": "The queue is full"}'),
    ("text/event-stream", 'data: {"base_resp": {"status_code": 7, "status_msg": "The queue is full"}}\n\n'),
]


@pytest.mark.parametrize(("kind", "body"), IN_A_GOOD_RESPONSE)
async def test_an_error_in_a_response_with_status_200_keeps_its_words(
    fake_provider: FakeProvider, kind: str, body: str
) -> None:
    fake_provider.script = [Reply(raw=(body,), kind=kind)]
    with pytest.raises(ProviderError, match="The queue is full"):
        await ask(make_model(make_spec(fake_provider.base_url), naps=Naps()))


async def test_the_status_in_an_error_of_a_good_response_counts(fake_provider: FakeProvider) -> None:
    table = {400: ("bad_request", 1), 401: ("auth", 1), 429: ("rate_limit", 21), 503: ("server", 5)}
    for status, expected in table.items():
        error = json.dumps({"error": {"code": status, "message": "No."}})
        fake_provider.script = [Reply(raw=(error,), kind="application/json")]
        with pytest.raises(ProviderError) as caught:
            await ask(make_model(make_spec(fake_provider.base_url), naps=Naps()))
        assert (caught.value.kind, caught.value.attempts) == expected


REFUSALS: list[tuple[str, object, int]] = [
    ("stream_options", {"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]}, 422),
    ("temperature", {"error": {"message": "Unsupported value: 'temperature' does not support 0 here."}}, 400),
    ("seed", {"error": {"message": "Unknown parameter", "param": "seed"}}, 400),
    ("top_p", {"message": "`top_p` is deprecated for this model"}, 400),
    ("stream_options", {"title": "Invalid", "errors": {"stream_options": ["The field is not supported."]}}, 400),
    ("stop", {"detail": [{"loc": ["body", "stop"], "msg": "Field not allowed"}]}, 422),
    ("max_tokens", {"error": {"message": "Unrecognized request argument supplied: max_tokens"}}, 400),
    ("seed", {"detail": "generate() got an unexpected keyword argument 'seed'"}, 500),
]


@pytest.mark.parametrize(("field", "error", "status"), REFUSALS, ids=lambda value: str(value)[:20])
async def test_a_field_that_is_refused_is_left_out_from_then_on(
    fake_provider: FakeProvider, field: str, error: object, status: int
) -> None:
    refusal = Reply(status=status, error=error)  # type: ignore[arg-type]
    fake_provider.script = lambda body: refusal if field in body else GOOD
    model = make_model(make_spec(fake_provider.base_url, extra_body={"top_p": 0.9}), naps=(naps := Naps()))
    sampling = Sampling(temperature=0.0, max_tokens=40, seed=7, stop=("END",))
    for _ in range(2):
        done = await ask(model, sampling=sampling)
        assert (done.text, field in done.request) == (GOOD.text, False)
    first, second, third = fake_provider.bodies
    assert first.keys() - second.keys() == {field}
    assert (second.keys(), naps.seconds[1:]) == (third.keys(), [])


async def test_the_limit_is_sent_under_the_name_that_the_server_wants(fake_provider: FakeProvider) -> None:
    for field, other in (("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens")):
        refusal = failing(400, f"Unsupported parameter: '{field}' is not supported. Use '{other}' instead.")
        fake_provider.script = lambda body, field=field, refusal=refusal: refusal if field in body else GOOD  # type: ignore[misc]
        model = make_model(make_spec(fake_provider.base_url, max_tokens_field=field))
        assert (await ask(model, sampling=Sampling(max_tokens=40))).request[other] == 40


async def test_a_refused_value_is_an_error(fake_provider: FakeProvider) -> None:
    fake_provider.script = [failing(400, "temperature must be at most 2")]
    with pytest.raises(ProviderError, match="at most 2"):
        await ask(make_model(make_spec(fake_provider.base_url)), sampling=Sampling(temperature=3.0))
    assert len(fake_provider.requests) == 1


@pytest.mark.parametrize(
    "words",
    [
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "TemplateError: System role not supported",
        "jinja2.exceptions.UndefinedError: 'x' is undefined",
        "Failed to apply the chat template",
    ],
)
async def test_a_fault_of_the_chat_template_is_not_retried(fake_provider: FakeProvider, words: str) -> None:
    fake_provider.script = [failing(500, words)]
    with pytest.raises(ProviderError, match="system_role") as caught:
        await ask(make_model(make_spec(fake_provider.base_url), naps=Naps()))
    assert (caught.value.kind, len(fake_provider.requests)) == ("bad_request", 1)
