"""The connection test describes a server's abilities or the reason of a failure; local servers are found."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from core.errors import ProviderError, UsageError
from core.models.connection import Connection, find_servers, offered, try_model
from core.models.registry import load_registry
from core.models.settings import SHIPPED
from tests.support.fake_provider import FakeProvider, running
from tests.support.replies import Reply, Script, failing, rate_limited

KEY = SecretStr("sk-hush-0123456789")
HEALTHY = '{"pulse": 72, "fever": false}'


def connect(address: str, name: str = "server/test", key: SecretStr | None = KEY, **more: Any) -> Connection:
    return try_model(load_registry([SHIPPED]), name, address=address, key=key, **more)


def connect_to_script(script: Script) -> tuple[Connection, FakeProvider]:
    with running(script) as provider:
        return connect(provider.base_url), provider


@contextmanager
def serving(status: int = 200, kind: str = "text/html", body: str = "<html>Welcome</html>") -> Iterator[str]:
    """A web server that gives the same answer to every request, and is no model server."""

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
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()


def test_a_good_server_is_described_with_two_calls() -> None:
    connection, provider = connect_to_script(
        lambda body: HEALTHY if "response_format" in body else "I am well, thank you."
    )
    assert connection.ok
    assert (connection.streams, connection.usage, connection.system_role, connection.structured) == (
        True,
        True,
        True,
        "json_schema",
    )
    assert (connection.thinks, connection.reply, connection.served_by) == ("no", "I am well, thank you.", "fake-1")
    assert (connection.calls, connection.tokens, connection.cost_usd) == (2, 36, 0.0)
    assert connection.latency_s is not None
    assert connection.first_token_s is not None
    assert 0 <= connection.first_token_s <= connection.latency_s
    assert connection.findings == {"structured": "json_schema"}
    assert len(provider.requests) == 2
    assert all(body["max_tokens"] <= 512 for body in provider.bodies)
    assert {request.key for request in provider.requests} == {KEY.get_secret_value()}
    assert dict(connection.lines())["Structured replies"] == "by schema"


def test_a_limited_server_is_described_too() -> None:
    """No usage, no stream, no system message, JSON without a schema, and reasoning in the text."""

    def poor(body: dict[str, Any]) -> Reply | str:
        if any(message["role"] == "system" for message in body["messages"]):
            return failing(400, "Conversation roles must alternate user/assistant")
        if (body.get("response_format") or {}).get("type") == "json_schema":
            return failing(400, "response_format of this type is not supported")
        if "response_format" in body:
            return Reply(HEALTHY, usage=None)
        return Reply("<think>How am I?</think>Well.", chunks=["<think>How am I?</think>Well."], usage=None)

    connection, provider = connect_to_script(poor)
    assert connection.ok
    assert (connection.system_role, connection.structured, connection.usage, connection.streams) == (
        False,
        "json_object",
        False,
        False,
    )
    assert (connection.thinks, connection.reply) == ("shown", "Well.")
    assert connection.findings == {"structured": "json_object", "system_role": "user"}
    assert len(provider.requests) <= 5


def test_a_reply_without_the_requested_json_is_not_structured() -> None:
    connection, _ = connect_to_script(lambda body: "Certainly! The pulse is 72.")
    assert connection.structured == "none"


def test_a_template_that_opens_the_reasoning_is_recognised() -> None:
    connection, _ = connect_to_script(
        lambda body: HEALTHY if "response_format" in body else "They greet me.</think>Well, thank you."
    )
    assert (connection.opens_thinking, connection.thinks) == (True, "shown")
    assert connection.findings["opens_thinking"] is True


def test_a_model_that_only_reasons_within_the_limit_counts_as_answering() -> None:
    def long(body: dict[str, Any]) -> Reply | str:
        if "response_format" in body:
            return HEALTHY
        return Reply(text="", deltas=[{"reasoning_content": "Hm."}], finish_reason="length")

    connection, _ = connect_to_script(long)
    assert (connection.ok, connection.thinks, connection.reply) == (True, "shown", "")


def test_a_server_that_does_not_stream_is_understood() -> None:
    whole = {"model": "m", "choices": [{"message": {"content": "Well, thank you."}, "finish_reason": "stop"}]}
    with serving(kind="application/json", body=json.dumps(whole)) as address:
        connection = connect(address)
    assert (connection.ok, connection.reply, connection.streams, connection.usage) == (
        True,
        "Well, thank you.",
        False,
        False,
    )


def test_the_reason_of_a_failure_is_one_sentence(subtests: pytest.Subtests) -> None:
    table: list[tuple[Reply, str, str]] = [
        (failing(401, "bad key sk-hush-0123456789"), "auth", "check the key"),
        (rate_limited("1"), "rate_limit", "429"),
        (failing(503), "server", "try again later"),
        (
            failing(404, "model `test` does not exist"),
            "bad_request",
            "has no model test: choose one that it offers (fake-1)",
        ),
    ]
    for answer, kind, words in table:
        with subtests.test(answer=answer, kind=kind):
            connection, provider = connect_to_script([answer])
            assert not connection.ok
            assert (connection.kind, words in connection.problem) == (kind, True), connection.problem
            assert connection.problem.endswith(".")
            assert "hush" not in repr(connection)
            assert len(provider.requests) <= 2, "no repeated retries"
            assert dict(connection.lines()) == {"Answers": "no", "Why": connection.problem}


def test_an_unknown_model_lists_the_models_of_the_server() -> None:
    connection, _ = connect_to_script(lambda body: failing(404, "no such model"))
    assert "choose one that it offers (fake-1)" in connection.problem


def test_an_address_without_a_server_is_reported(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str]] = [
        ("http://127.0.0.1:9/v1", "nothing listens at 127.0.0.1:9"),
        ("http://no-such-host.invalid/v1", "no server is known as no-such-host.invalid"),
    ]
    for address, words in table:
        with subtests.test(address=address, words=words):
            assert words in connect(address).problem
            with pytest.raises(ProviderError, match=words.replace(".", r"\.")):
                offered(address)


def test_a_web_page_or_a_port_without_tls_is_reported() -> None:
    with serving() as address:
        assert "a web page came back instead of JSON; check the address: most end with /v1." in connect(address).problem
        with pytest.raises(ProviderError, match="a web page came back"):
            offered(address)
        secure = connect(address.replace("http:", "https:"))
    assert "does not speak TLS" in secure.problem
    assert "http://" in secure.problem


def test_a_silent_server_times_out() -> None:
    with running(lambda body: Reply(stall_after=0)) as provider:
        connection = connect(provider.base_url, timeout_s=0.3)
    assert connection.kind == "timeout"
    assert "0.3 seconds" in connection.problem


def test_missing_keys_and_addresses_are_refused() -> None:
    registry = load_registry([SHIPPED])
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        try_model(registry, "openai/gpt-4o")
    with pytest.raises(UsageError, match="address"):
        try_model(registry, "server/x")
    with pytest.raises(UsageError, match="must look like"):
        try_model(registry, "server/x", address="localhost")


def test_the_models_of_a_server_are_listed_with_its_key() -> None:
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


@pytest.mark.slow
def test_local_model_servers_are_found_and_web_pages_ignored() -> None:
    ollama = json.dumps({"object": "list", "data": [{"id": "smollm2:135m", "owned_by": "library"}]})
    with serving(kind="application/json", body=ollama) as ollama_address, running() as fake, serving() as page:
        ports = [int(address.split(":")[2].removesuffix("/v1")) for address in (ollama_address, fake.base_url, page)]
        servers = find_servers([*ports, 9])
    assert [(server.program, server.models) for server in servers] == [
        ("Ollama", ("smollm2:135m",)),
        ("an OpenAI-compatible server", ("fake-1",)),
    ]
    assert servers[0].address == ollama_address
