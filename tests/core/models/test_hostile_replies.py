"""Single calls to the hostile server: time after a complete reply, redirects, memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from core.errors import ProviderError
from core.models import bounds, openai_compatible
from core.models.failures import RetryPolicy
from core.models.openai_compatible import AzureModel, OpenAICompatibleModel
from core.models.spec import Timeouts
from core.paths import ROOT
from tests.support.asking import ask, make_model, make_spec
from tests.support.hostile_server import serving

KEY = "sk-proj-Zq83hTwL0pVbN5xYd2RkMf7C"
ONCE = RetryPolicy(attempts=1, max_wait_s=0.1)


def good(body: dict[str, Any]) -> str:
    return "Gout"


def test_endless_comments_after_the_finish_reason_delay_a_reply_only_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each comment arrives in time: only a limit on their sum ends the call."""
    monkeypatch.setattr(openai_compatible, "_AFTER_FINISH_S", 0.3)
    with serving(good, "comments for ever after the finish") as server:
        model = make_model(make_spec(server.base_url, timeouts=Timeouts(call_s=30, first_piece_s=30, stall_s=30)))
        began = time.monotonic()
        done = asyncio.run(ask(model))
        assert time.monotonic() - began < 10
    assert (done.text, done.usage.total_tokens) == ("Gout", 64)


def test_a_redirect_to_another_host_is_never_followed_with_the_key(subtests: pytest.Subtests) -> None:
    """Azure's key is in a separate header, which HTTP clients send to the new host too."""
    for azure in [False, True]:
        with subtests.test(azure=azure), serving(good, "a redirect to another host") as server:
            spec = make_spec(server.base_url, api_version="2024-10-21")
            model = (AzureModel if azure else OpenAICompatibleModel)(spec, key=SecretStr(KEY), retry=ONCE)
            with pytest.raises(ProviderError, match="leads on to another one"):
                asyncio.run(ask(model))
            assert server.requests == 1
            assert server.elsewhere == []


def bounded(response: httpx2.Response) -> bytes:
    """Return a body as a client of the project reads it."""
    for hook in bounds.hooks(asynchronous=False)["response"]:
        hook(response)
    return b"".join(response.stream)  # type: ignore[arg-type]


def test_a_redirect_is_followed_to_the_same_server_only() -> None:
    table = [
        ("https://a.example/v1", "/v2", ""),
        ("https://a.example/v1", "https://a.example:443/v2", ""),
        ("http://a.example/v1", "https://a.example/v1", ""),
        ("https://a.example/v1", "https://b.example/v1", "another one (https://b.example)"),
        ("https://a.example/v1", "ftp://a.example/v1", "another one (ftp://a.example)"),
        ("https://a.example/v1", "http://a.example/v1", "from https to http"),
        ("https://a.example/v1", "https://a.example:8443/v1", "another one (a.example:8443)"),
        ("http://a.example:8080/v1", "http://a.example/v1", "another one (a.example:80)"),
        ("https://a.example/v1", "https://a.example:port/", "no address"),
    ]
    wrong = []
    for url, location, words in table:
        said = ""
        try:
            bounded(httpx2.Response(307, headers={"location": location}, request=httpx2.Request("POST", url)))
        except bounds.ElsewhereError as error:
            said = str(error)
        if (words not in said) or bool(said) != bool(words):
            wrong.append((url, location, said))
    assert wrong == []


def test_a_body_ends_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_BYTES", 10)
    monkeypatch.setattr(bounds, "MOST_ERROR_BYTES", 4)
    request = httpx2.Request("POST", "https://a.example/v1")
    assert bounded(httpx2.Response(200, content=b"x" * 10, request=request)) == b"x" * 10
    assert bounded(httpx2.Response(500, content=b"an error", request=request)) == b"an e"
    with pytest.raises(bounds.TooLargeError, match="larger than 10 bytes"):
        bounded(httpx2.Response(200, content=b"x" * 11, request=request))
    with pytest.raises(bounds.TooLargeError, match=r"packed \(gzip\)"):
        bounded(
            httpx2.Response(200, headers={"content-encoding": "GZip"}, stream=httpx2.ByteStream(b"x"), request=request)
        )
    bounds.check_line(bounds.MOST_LINE_BYTES)
    with pytest.raises(bounds.TooLargeError, match="a line of the stream"):
        bounds.check_line(bounds.MOST_LINE_BYTES + 1)


CHILD = """
import asyncio, re, sys
from pathlib import Path
from core.errors import ProviderError
from core.models.failures import RetryPolicy
from tests.support.asking import ask, make_model, make_spec

def peak_mb():
    # not getrusage: a child inherits its parent's peak there
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

async def call(url, name):
    model = make_model(make_spec(url, model_id=name), retry=RetryPolicy(attempts=1))
    try:
        return (await ask(model)).text
    except ProviderError as error:
        return str(error)

good, *others = sys.argv[1:]
assert asyncio.run(call(good, "good")) == "Gout"
before = peak_mb()
for url in others:
    print(asyncio.run(call(url, "bad")))
print(round(peak_mb() - before))
"""
BOMBS = ("a gzip bomb", "400 MB of an error", "a line without end", "100 MB of JSON")


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
def test_too_large_replies_are_refused_with_little_memory() -> None:
    with ExitStack() as stack:
        urls = [stack.enter_context(serving(good, bomb, hostile=("bad",))).base_url for bomb in BOMBS]
        command = [sys.executable, "-c", CHILD, urls[0], *urls]
        child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    *errors, megabytes = child.stdout.splitlines()
    assert len(errors) == len(BOMBS)
    assert all(error.endswith(".") for error in errors), "refused in a sentence"
    assert int(megabytes) < 200, "the peak of all four"
