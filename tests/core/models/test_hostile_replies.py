"""Single calls to the hostile server: time after a complete reply, redirects, memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any

import pytest
from pydantic import SecretStr

from core.errors import ProviderError
from core.models import openai_compatible
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
