"""Tests whether a model can be reached and what its server supports, with a few cheap calls.

A server's models come from its list (``GET /models``); servers on this machine are found at their usual ports.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import httpx2
from pydantic import BaseModel, SecretStr, ValidationError

from core import access
from core.errors import AnamnesisError, FailureKind, ProviderError
from core.models import bounds
from core.models.base import Completion, Message, OnlyThought, Sampling, TextPiece, message
from core.models.failures import RetryPolicy
from core.models.prices import total
from core.models.registry import Registry
from core.models.settings import checked_address
from core.models.spec import ModelSpec, Structured, Timeouts, is_loopback

USUAL_PORTS = {11434: "Ollama", 8000: "vLLM", 8080: "llama.cpp", 1234: "LM Studio", 30000: "SGLang"}
"""Port → the program that usually serves models there."""
_OWNERS = {"library": "Ollama", "vllm": "vLLM", "llamacpp": "llama.cpp", "sglang": "SGLang"}
"""Value of ``owned_by`` in a server's list of models → program."""
_FIND_S = 0.7
_LIST_S = 10.0
_NAMED = 8
_ABOUT_NAME = re.compile(
    r"HTTP 404|\bmodels?\b[^.;]{0,80}\b(?:not found|does not exist|doesn't exist|unknown|invalid"
    r"|not (?:available|loaded|served|supported))|(?:no such|unknown|invalid|unsupported|find|have no|has no) model",
    re.IGNORECASE,
)
"""An error about the name of a model or about the address; any other reason is shown as it is."""
_TOKENS = 160
"""Enough for a sentence after short reasoning; longer reasoning proves as well that the model answers and thinks."""
_HELLO: tuple[Message, ...] = (
    message("system", "You are a nurse. You reply in one short sentence."),
    message("user", "Good morning! How are you today?"),
)


class _Vitals(BaseModel):
    pulse: int
    fever: bool


_FORM: tuple[Message, ...] = (
    message("user", 'A patient has a pulse of 72 and no fever. Reply as JSON with "pulse" and "fever" only.'),
)


@dataclass(frozen=True)
class Connection:
    """The result of a test of a model. ``None`` means not tested, because an earlier call failed.

    ``problem`` is empty if the model answers, otherwise a sentence that says what to do. ``thinks`` says whether there
    was reasoning: ``shown`` separately from the reply, or ``hidden`` and only counted. ``first_token_s`` and
    ``latency_s`` are of the first call; ``calls``, ``tokens`` and ``cost_usd`` of all.
    """

    model: str
    address: str | None
    problem: str = ""
    kind: FailureKind | None = None
    first_token_s: float | None = None
    latency_s: float | None = None
    streams: bool | None = None
    usage: bool | None = None
    system_role: bool | None = None
    structured: Structured | None = None
    thinks: Literal["no", "shown", "hidden"] | None = None
    opens_thinking: bool = False
    served_by: str | None = None
    reply: str = ""
    calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0

    @property
    def ok(self) -> bool:
        return not self.problem

    @property
    def findings(self) -> dict[str, Any]:
        """The results to store in a model's entry (``core.models.register.keep``), as keys and values."""
        settings: dict[str, Any] = {"structured": self.structured} if self.structured else {}
        if self.system_role is False:
            settings["system_role"] = "user"
        return settings | ({"opens_thinking": True} if self.opens_thinking else {})

    def lines(self) -> tuple[tuple[str, str], ...]:
        """Return the results as pairs of label and text, in display order."""
        if self.problem:
            return (("Answers", "no"), ("Why", self.problem))
        seconds = [f"{s:.2f} s" for s in (self.first_token_s, self.latency_s) if s is not None]
        rows = {
            "Answers": f"yes: {self.reply}" if self.reply else "yes",
            "First token, whole reply": ", ".join(seconds),
            "Streams": _yes(self.streams),
            "Reports its tokens": _yes(self.usage, "no: they are estimated"),
            "Takes a system message": _yes(self.system_role, "no: it is sent as the user's words"),
            "Structured replies": _STRUCTURED.get(self.structured or "", ""),
            "Thinks": _THINKS.get(self.thinks or "", ""),
            "Served as": self.served_by or "",
            "The test took": f"{self.calls} call{'s' * (self.calls != 1)}, {self.tokens} tokens"
            + ("" if self.cost_usd is None else f", ${self.cost_usd:.4f}"),
        }
        return tuple((label, words) for label, words in rows.items() if words)


_STRUCTURED = {
    "json_schema": "by schema",
    "json_object": "JSON, without a schema",
    "none": "none: JSON is asked for in words",
}
_THINKS = {"no": "not that it shows", "shown": "yes, apart from its reply", "hidden": "yes, and shows none of it"}


def _yes(value: bool | None, no: str = "no") -> str:
    return "" if value is None else "yes" if value else no


@dataclass(frozen=True)
class Server:
    """A model server on this machine: its program (guessed by the port if the server does not say) and its models."""

    program: str
    address: str
    models: tuple[str, ...]


def try_model(
    registry: Registry, name: str, *, address: str | None = None, key: SecretStr | None = None, timeout_s: float = 60.0
) -> Connection:
    """Test a model with two or three short calls; failures of its server are part of the result.

    ``address`` and ``key`` take precedence over those of the entry. Raises ``UsageError`` if no call is possible: an
    unknown name, no address, a missing key.
    """
    access.require("run")
    spec = registry.spec(name, base_url=address)
    if not spec.served_locally:
        call_s, first_piece_s = (min(timeout_s, most) for most in (spec.timeouts.call_s, spec.timeouts.first_piece_s))
        times = Timeouts(call_s=call_s, first_piece_s=first_piece_s, stall_s=timeout_s)
        spec = replace(spec, timeouts=times)
    return asyncio.run(_Check(registry, spec, key).run())


class _Check:
    """The calls of one test; each call updates ``result``."""

    def __init__(self, registry: Registry, spec: ModelSpec, key: SecretStr | None) -> None:
        self.registry, self.spec, self.key = registry, spec, key
        self.result = Connection(spec.name, spec.base_url)

    async def run(self) -> Connection:
        hello = _HELLO[1:] if self.spec.is_application else _HELLO
        try:
            done, pieces = await self.ask(self.spec, hello)
        except ProviderError as error:
            if error.kind not in ("bad_request", "server") or self.spec.is_application:
                return self.failed(error)
            try:  # some chat templates do not accept a system message
                done, pieces = await self.ask(replace(self.spec, system_role="user"), hello)
            except ProviderError:
                return self.failed(error)
            self.spec = replace(self.spec, system_role="user")
        thinks: Literal["no", "shown", "hidden"] = "hidden" if done.usage.reasoning_tokens else "no"
        self.result = replace(
            self.result,
            first_token_s=done.first_token_s,
            latency_s=done.latency_s,
            thinks="shown" if done.reasoning else thinks,
            usage=not done.usage.estimated,
            served_by=done.served_by,
            reply=" ".join(done.text.split())[:160],
        )
        if self.spec.is_application:
            return self.result
        self.result = replace(
            self.result,
            streams=pieces > 1 if done.text else None,
            system_role=self.spec.system_role != "user",
            opens_thinking=bool(getattr(self.model, "opens_thinking", False)) and not self.spec.opens_thinking,
        )
        if self.spec.served_locally:  # its server takes no schema
            return self.result
        for way in ("json_schema", "json_object"):
            if (valid := await self._is_structured(way)) is not None:
                return replace(self.result, structured=way if valid else "none")
        # a reasoning model may just have run out of tokens, which says nothing about its server
        return replace(self.result, structured="none") if self.result.thinks == "no" else self.result

    async def _is_structured(self, way: Literal["json_schema", "json_object"]) -> bool | None:
        """Return whether a reply in this format is valid JSON; ``None`` if the server refuses the format."""
        from core.models.openai_compatible import formless

        place = (str(self.spec.base_url), self.spec.model_id)
        was_formless = place in formless
        formless.discard(place)
        try:
            done, _ = await self.ask(replace(self.spec, structured=way), _FORM, form=_Vitals)
        except ProviderError:
            return None
        finally:
            formless.discard(place)
            if was_formless:
                formless.add(place)
        if "response_format" not in done.request or not done.text:
            return None
        try:
            _Vitals.model_validate_json(done.text)
        except ValidationError:
            return False
        return True

    async def ask(
        self, spec: ModelSpec, messages: Sequence[Message], form: type[BaseModel] | None = None
    ) -> tuple[Completion, int]:
        """Make one call; return its reply and the number of its pieces."""
        self.model = self.registry.make(spec, self.key, retry=RetryPolicy(attempts=1))
        pieces = 0
        try:
            async for item in self.model.stream(messages, Sampling(max_tokens=_TOKENS, form=form)):
                pieces += isinstance(item, TextPiece)
                if isinstance(item, Completion):
                    done = item
        except OnlyThought as error:  # the reply was cut while the model was thinking, but it shows what the test needs
            done = error.completion
        except ProviderError:
            self.result = replace(self.result, calls=self.result.calls + 1)
            raise
        finally:
            await self.model.aclose()
        self.result = replace(
            self.result,
            calls=self.result.calls + done.attempts,
            tokens=self.result.tokens + done.usage.total_tokens,
            cost_usd=total((self.result.cost_usd, done.cost_usd)),
        )
        return done, pieces

    def failed(self, error: ProviderError) -> Connection:
        """Return the result of a failed test; for an unknown model it lists the server's models."""
        problem = str(error)
        names: tuple[str, ...] = ()
        if (
            _ABOUT_NAME.search(problem)
            and error.kind in ("bad_request", "malformed")
            and self.spec.base_url
            and self.spec.kind == "openai"
        ):
            with suppress(AnamnesisError):
                names = offered(self.spec.base_url, self.key or self.registry.key(self.spec))
        if names and self.spec.model_id not in names:
            more = f", … ({len(names)} in all)" if len(names) > _NAMED else ""
            problem = (
                f"The server at {self.spec.base_url} has no model {self.spec.model_id}: choose one that it offers "
                f"({', '.join(names[:_NAMED])}{more})."
            )
        return replace(self.result, problem=problem, kind=error.kind)


def offered(address: str, key: SecretStr | None = None, *, timeout_s: float = _LIST_S) -> tuple[str, ...]:
    """Return the names of the models that a server lists, sorted.

    Raises ``UsageError`` for an invalid address, and ``ProviderError`` with one sentence if the server has no list.
    """
    url = checked_address("the server", address)
    access.allowed_host(url)
    return tuple(sorted({name for name, _ in _listed(url, key, timeout_s)}))


def find_servers(ports: Sequence[int] = tuple(USUAL_PORTS), *, host: str = "127.0.0.1") -> tuple[Server, ...]:
    """Return the model servers on this machine in the order of the ports, which are all tried at once."""
    access.require("run")

    def look(port: int) -> Server | None:
        address = f"http://{host}:{port}/v1"
        try:
            models = _listed(address, None, _FIND_S)
        except ProviderError:
            return None
        owner = next((_OWNERS[by] for _, by in models if by in _OWNERS), None)
        program = owner or USUAL_PORTS.get(port, "an OpenAI-compatible server")
        return Server(program, address, tuple(sorted(name for name, _ in models)))

    with ThreadPoolExecutor(max(1, len(ports))) as side_by_side:
        return tuple(server for server in side_by_side.map(look, ports) if server)


def _listed(url: str, key: SecretStr | None, timeout_s: float) -> list[tuple[str, str]]:
    """Return the models of a server as pairs of name and owner."""

    def problem(kind: FailureKind, what: str, advice: str) -> ProviderError:
        return ProviderError(kind, f"The server at {url} gave no list of its models: {what}; {advice}.")

    headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
    try:
        with httpx2.Client(
            timeout=timeout_s, trust_env=not is_loopback(url), event_hooks=bounds.hooks(asynchronous=False)
        ) as client:
            reply = client.get(f"{url}/models", headers=bounds.UNCOMPRESSED | headers)
    except bounds.NotTakenError as error:
        raise problem("malformed", str(error), "check its address: most end with /v1") from None
    except httpx2.TimeoutException:
        raise problem(
            "timeout", f"nothing came within {timeout_s:g} seconds", "try again, or check its address"
        ) from None
    except httpx2.HTTPError as error:
        from core.models.classify import disconnected

        failure = disconnected(error)
        raise problem("connection", failure.what, failure.advice) from None
    if reply.status_code in (401, 403):
        raise problem("auth", f"it did not accept the key (HTTP {reply.status_code})", "check the key")
    if reply.status_code != 200:
        raise problem("bad_request", f"it answered HTTP {reply.status_code}", "check its address: most end with /v1")
    try:
        body = json.loads(reply.content)
        rows = body["data"] if isinstance(body, dict) else body
        return [(str(row["id"]), str(row.get("owned_by", ""))) for row in rows if isinstance(row, dict) and "id" in row]
    except (ValueError, KeyError, TypeError):
        what = "a web page" if "html" in reply.headers.get("content-type", "") else "something else"
        raise problem("malformed", f"{what} came back", "check its address: most end with /v1") from None
