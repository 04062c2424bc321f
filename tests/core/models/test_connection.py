"""The test of a model says what its server can, or why it cannot be asked; servers on this machine are found."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from core.errors import ProviderError, UsageError
from core.models.connection import Connection, find_servers, offered, try_model
from core.models.registry import load_registry
from core.models.settings import SHIPPED
from tests.support.fake_provider import FakeProvider, running
from tests.support.replies import Reply, failing, rate_limited

KEY = SecretStr("sk-hush-0123456789")
HEALTHY = '{"pulse": 72, "fever": false}'


def tried(address: str, name: str = "server/test", key: SecretStr | None = KEY, **more: Any) -> Connection:
    return try_model(load_registry([SHIPPED]), name, address=address, key=key, **more)


def said(script: Callable[[dict[str, Any]], Reply | str]) -> tuple[Connection, FakeProvider]:
    with running(script) as provider:
        return tried(provider.base_url), provider


@contextmanager
def serving(status: int = 200, kind: str = "text/html", body: str = "<html>Welcome</html>") -> Iterator[str]:
    """A web server that answers everything alike, and no model server."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(status)
            self.send_header("content-type", kind)
            self.end_headers()
            self.wfile.write(body.encode())

        do_POST = do_GET

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()


def test_a_good_server_is_described_with_two_calls() -> None:
    found, provider = said(lambda body: HEALTHY if "response_format" in body else "I am well, thank you.")
    assert found.ok
    assert (found.streams, found.usage, found.system_role, found.structured) == (True, True, True, "json_schema")
    assert (found.thinks, found.reply, found.served_by) == ("no", "I am well, thank you.", "fake-1")
    assert (found.calls, found.tokens, found.cost_usd) == (2, 36, 0.0)
    assert found.latency_s is not None
    assert found.first_token_s is not None
    assert 0 <= found.first_token_s <= found.latency_s
    assert found.findings == {"structured": "json_schema"}
    assert len(provider.requests) == 2
    assert all(body["max_tokens"] <= 512 for body in provider.bodies)
    assert {request.key for request in provider.requests} == {KEY.get_secret_value()}
    assert dict(found.lines())["Structured replies"] == "by schema"


def test_a_server_that_can_little_is_described_too() -> None:
    """No usage, no stream, no system message, no schema but JSON, and a thought in its text."""

    def poor(body: dict[str, Any]) -> Reply | str:
        if any(one["role"] == "system" for one in body["messages"]):
            return failing(400, "Conversation roles must alternate user/assistant")
        if (body.get("response_format") or {}).get("type") == "json_schema":
            return failing(400, "response_format of this type is not supported")
        if "response_format" in body:
            return Reply(HEALTHY, usage=None)
        return Reply("<think>How am I?</think>Well.", chunks=["<think>How am I?</think>Well."], usage=None)

    found, provider = said(poor)
    assert found.ok
    assert (found.system_role, found.structured, found.usage, found.streams) == (False, "json_object", False, False)
    assert (found.thinks, found.reply) == ("shown", "Well.")
    assert found.findings == {"structured": "json_object", "system_role": "user"}
    assert len(provider.requests) <= 5


def test_json_that_is_asked_for_and_does_not_come_is_no_structured_reply() -> None:
    found, _ = said(lambda body: "Certainly! The pulse is 72.")
    assert found.structured == "none"


def test_a_template_that_opens_the_thought_is_told() -> None:
    found, _ = said(lambda body: HEALTHY if "response_format" in body else "They greet me.</think>Well, thank you.")
    assert (found.opens_thinking, found.thinks) == (True, "shown")
    assert found.findings["opens_thinking"] is True


def test_a_model_that_only_thinks_within_the_limit_still_answers() -> None:
    def long(body: dict[str, Any]) -> Reply | str:
        if "response_format" in body:
            return HEALTHY
        return Reply(text="", deltas=[{"reasoning_content": "Hm."}], finish_reason="length")

    found, _ = said(long)
    assert (found.ok, found.thinks, found.reply) == (True, "shown", "")


def test_a_server_that_does_not_stream_is_understood() -> None:
    whole = {"model": "m", "choices": [{"message": {"content": "Well, thank you."}, "finish_reason": "stop"}]}
    with serving(kind="application/json", body=json.dumps(whole)) as address:
        found = tried(address)
    assert (found.ok, found.reply, found.streams, found.usage) == (True, "Well, thank you.", False, False)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (failing(401, "bad key sk-hush-0123456789"), "auth", "check the key"),
        (rate_limited("1"), "rate_limit", "429"),
        (failing(503), "server", "try again later"),
        (
            failing(404, "model `test` does not exist"),
            "bad_request",
            "has no model test: choose one that it offers (fake-1)",
        ),
    ],
)
def test_why_it_does_not_answer_is_one_sentence(answer: Reply, kind: str, words: str) -> None:
    found, provider = said(lambda body: answer)
    assert not found.ok
    assert (found.kind, words in found.problem) == (kind, True), found.problem
    assert found.problem.endswith(".")
    assert "hush" not in repr(found)
    assert len(provider.requests) <= 2, "nothing is tried again and again"
    assert dict(found.lines()) == {"Answers": "no", "Why": found.problem}


def test_the_names_that_a_server_offers_come_with_the_result() -> None:
    found, _ = said(lambda body: failing(404, "no such model"))
    assert "choose one that it offers (fake-1)" in found.problem


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://127.0.0.1:9/v1", "nothing listens at 127.0.0.1:9"),
        ("http://no-such-host.invalid/v1", "no server is known as no-such-host.invalid"),
    ],
)
def test_an_address_where_nobody_is(address: str, words: str) -> None:
    assert words in tried(address).problem
    with pytest.raises(ProviderError, match=words.replace(".", r"\.")):
        offered(address)


def test_a_web_page_and_a_plain_port_are_no_model_server() -> None:
    with serving() as address:
        assert "a web page came back instead of JSON; check the address: most end with /v1." in tried(address).problem
        with pytest.raises(ProviderError, match="a web page came back"):
            offered(address)
        secure = tried(address.replace("http:", "https:"))
    assert "does not speak TLS" in secure.problem
    assert "http://" in secure.problem


def test_a_server_that_is_silent_is_not_waited_for() -> None:
    with running(lambda body: Reply(stall_after=0)) as provider:
        found = tried(provider.base_url, timeout_s=0.3)
    assert found.kind == "timeout"
    assert "0.3 seconds" in found.problem


def test_what_cannot_be_asked_at_all_is_said_before() -> None:
    registry = load_registry([SHIPPED])
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        try_model(registry, "openai/gpt-4o")
    with pytest.raises(UsageError, match="address"):
        try_model(registry, "server/x")
    with pytest.raises(UsageError, match="must look like"):
        try_model(registry, "server/x", address="localhost")


def test_the_list_of_a_server_is_its_own_and_needs_its_key() -> None:
    rows = {"data": [{"id": "b", "owned_by": "vllm"}, {"id": "a"}]}
    with serving(kind="application/json", body=json.dumps(rows)) as address:
        assert offered(f"{address}/", KEY) == ("a", "b")
    with (
        serving(401, "application/json", "{}") as address,
        pytest.raises(ProviderError, match="check the key") as caught,
    ):
        offered(address, KEY)
    assert "hush" not in str(caught.value)
    with pytest.raises(UsageError, match="must look like"):
        offered("localhost:8000")


def test_servers_on_this_machine_are_found_and_pages_are_not_taken_for_them() -> None:
    ollama = json.dumps({"object": "list", "data": [{"id": "smollm2:135m", "owned_by": "library"}]})
    with serving(kind="application/json", body=ollama) as one, running() as other, serving() as page:
        ports = [int(address.split(":")[2].removesuffix("/v1")) for address in (one, other.base_url, page)]
        found = find_servers([*ports, 9])
    assert [(server.program, server.models) for server in found] == [
        ("Ollama", ("smollm2:135m",)),
        ("an OpenAI-compatible server", ("fake-1",)),
    ]
    assert found[0].address == one
