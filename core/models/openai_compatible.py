"""A ``ChatModel`` over any OpenAI-compatible server, with streaming, retries and errors for users.

A key is a ``SecretStr`` and leaves the program only in the request's header.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import re
import ssl
import threading
import time
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import httpx2
import orjson
from openai import (
    APIConnectionError,
    APIError,
    APIStatusError,
    APITimeoutError,
    AsyncAzureOpenAI,
    AsyncOpenAI,
    DefaultAioHttpClient,
    Timeout,
)
from pydantic import BaseModel, SecretStr

from core import access
from core.errors import AnamnesisError
from core.models import bounds
from core.models.base import (
    Completion,
    Delayed,
    Message,
    OnlyThought,
    Restart,
    Sampling,
    Spent,
    StreamItem,
    TextPiece,
    Thought,
)
from core.models.batches import Batches
from core.models.classify import classify, has_choices, is_error, is_heartbeat, read_error, title_of, without_secret
from core.models.failures import (
    AttemptFailed,
    Failure,
    Retries,
    RetryPolicy,
    broken_off,
    empty,
    longest_wait,
    malformed,
    only_thought,
    refused,
    timed_out,
    unended,
)
from core.models.finish import ending_of, is_cut
from core.models.limits import RateLimiter, RateLimits, Sleep, shared_limiter
from core.models.pictures import check_takes, data_urls, pictures_of, with_parts
from core.models.prices import cost, source
from core.models.spec import THINKING_TOKENS, ModelSpec, is_loopback
from core.models.thinking import Thinking
from core.models.wire import (
    MOST_UNSAID,
    Endless,
    ServerSentEvents,
    StreamedReply,
    effort_fields,
    expected_tokens,
    most_tokens,
    request_body,
    strict_format,
)

_TIMEOUT = Timeout(None, connect=15.0)
"""Limits only the time to connect; ``_timed`` limits the other steps."""
_NO_KEY = "none"


def http_client(base_url: str) -> DefaultAioHttpClient:
    """Return the HTTP client for an address; loopback addresses never use a proxy."""
    trusted = not is_loopback(base_url)
    # a server from a visitor must not redirect to an address that is forbidden for the visitor
    follow = not access.visitor().limited
    return DefaultAioHttpClient(
        trust_env=trusted,
        verify=_certificates(trusted),
        follow_redirects=follow,
        max_redirects=bounds.MOST_REDIRECTS,
        headers=bounds.UNCOMPRESSED,
        event_hooks=bounds.hooks(asynchronous=True),
    )


@functools.cache
def _certificates(trust_env: bool) -> ssl.SSLContext:
    """Return the trusted certificates; cached, because reading them takes 60 ms."""
    return httpx2.create_ssl_context(trust_env=trust_env)


log = logging.getLogger(__name__)

_PATH = "chat/completions"
_AFTER_FINISH_S = 5.0
_END_S = 0.1
"""Seconds to wait for the end of the response after its last event, so that the connection can be reused."""
_SHOWN_WAIT_S = 5.0
"""Waits of at least this length are shown to the user."""
_ABOUT_FORMS = re.compile(r"response_format|json|schema|grammar|structured|guided", re.IGNORECASE)
_ABOUT_LENGTH = re.compile(r"max_(?:completion_|new_)?tokens|maximum context length", re.IGNORECASE)
_UNSUPPORTED = re.compile(
    r"unsupported|not (?:be )?(?:supported|permitted|allowed|accepted|recogni[sz]ed|implemented|available|valid)"
    r"|(?:does not|doesn't|do not|cannot) (?:support|accept|allow|take)|unrecogni[sz]ed|unknown|unexpected"
    r"|extra|forbidden|deprecated|no such|cannot be (?:used|set)"
    r"|invalid (?:field|parameter|argument|key|property)|\bremove",
    re.IGNORECASE,
)
_NEEDED = frozenset({"model", "messages", "stream"})
_LIMIT_FIELDS: tuple[Literal["max_tokens", "max_completion_tokens"], ...] = ("max_tokens", "max_completion_tokens")
_KNOWN_AFTER = 20
"""Replies after which the longest one so far is a basis for the maximum cost of a call."""
_NO_EFFORT = ("none", "off", "minimal")
formless: set[tuple[str, str]] = set()
"""(address, model) of servers that refused ``response_format``: this process asks them for JSON in words only."""

Extras = Callable[[Sampling], Mapping[str, Any]]


@dataclass
class Client:
    """A client for one address and key.

    Calls are sent with ``http`` and the headers of ``sdk``: building a request in the SDK and wrapping its response
    takes as long as sending it. Batches use ``sdk``.
    """

    sdk: AsyncOpenAI
    http: httpx2.AsyncClient
    headers: httpx2.Headers
    users: set[int] = field(default_factory=set)
    _urls: dict[str, httpx2.URL] = field(default_factory=dict)

    @classmethod
    def of(cls, sdk: AsyncOpenAI, http: httpx2.AsyncClient, headers: Mapping[str, str]) -> Client:
        """Return the client that sends ``headers`` and the SDK's usual ones, without statistics of the platform."""
        sent = httpx2.Headers(http.headers)
        for name, value in sdk.default_headers.items():
            if isinstance(value, str) and not name.startswith("X-Stainless"):
                sent[name] = value
        sent.update(headers)
        return cls(sdk, http, sent)

    def url(self, path: str) -> httpx2.URL:
        """Return the address of a path below the base URL, with the query of all requests."""
        if path not in self._urls:
            base, query = self.sdk.base_url, cast(dict[str, str], self.sdk.default_query)
            url = base.copy_with(raw_path=base.raw_path + httpx2.URL(path).raw_path)
            self._urls[path] = url.copy_merge_params(query) if query else url
        return self._urls[path]

    async def post(self, path: str, body: Mapping[str, Any]) -> httpx2.Response:
        """Return a response whose body is not read yet; raise ``APIError`` if there is none, or an error status."""
        content, limits = orjson.dumps(body), {"timeout": _TIMEOUT.as_dict()}
        request = httpx2.Request("POST", self.url(path), headers=self.headers, content=content, extensions=limits)
        try:
            response = await self.http.send(request, stream=True)
        except httpx2.TimeoutException as error:
            raise APITimeoutError(request=request) from error
        except (httpx2.RequestError, ssl.SSLError) as error:
            raise APIConnectionError(request=request) from error
        if response.is_success:
            return response
        await response.aread()
        told = read_error(response.text.strip())
        told = told.get("error", told) if isinstance(told, dict) else told
        raise APIStatusError(f"HTTP {response.status_code}", response=response, body=told)


class ClientPool:
    """Shares one client for each address, key and event loop, and closes it after its last user.

    A connection belongs to the event loop that opened it.
    """

    def __init__(self) -> None:
        self._shared: dict[tuple[asyncio.AbstractEventLoop, str, str], Client] = {}
        self._lock = threading.Lock()

    def get(self, user: object, base_url: str, key: SecretStr | None, make: Callable[[], Client]) -> Client:
        """Return the client for this address, which is created at its first use, and register its user."""
        place = (asyncio.get_running_loop(), base_url, key.get_secret_value() if key else "")
        with self._lock:
            for closed in [p for p in self._shared if p[0].is_closed()]:
                del self._shared[closed]
            shared = self._shared.get(place) or self._shared.setdefault(place, make())
            shared.users.add(id(user))
            return shared

    async def release(self, user: object) -> None:
        """Unregister ``user``, and close the clients of this event loop without another user."""
        loop = asyncio.get_running_loop()
        with self._lock:
            used = {p: s for p, s in self._shared.items() if p[0] is loop and id(user) in s.users}
            for place, shared in used.items():
                shared.users.discard(id(user))
                if not shared.users:
                    del self._shared[place]
        for shared in used.values():
            if not shared.users:
                await shared.sdk.close()


class OpenAICompatibleModel:
    """One model behind ``/chat/completions`` of ``spec.base_url``.

    ``extras`` adds server-specific fields to the body; with ``batches`` calls use the Batch API. ``sleep`` and
    ``jitter`` are for tests.
    """

    def __init__(
        self,
        spec: ModelSpec,
        *,
        key: SecretStr | None = None,
        retry: RetryPolicy | None = None,
        pool: ClientPool | None = None,
        limiter: RateLimiter | None = None,
        extras: Extras | None = None,
        batches: Batches | None = None,
        sleep: Sleep = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if spec.base_url is None:
            raise ValueError(f"{spec.name} has no base URL")
        self.spec = spec
        self._base_url = spec.base_url
        self._key = key
        self._retry = retry or RetryPolicy()
        self._pool = pool or ClientPool()
        self._batches = batches
        limiter = RateLimiter(RateLimits()) if batches else limiter
        self._limiter = limiter or shared_limiter(spec.limits_scope or self._base_url, spec.limits, key)
        self._extras = extras
        self._sleep = sleep
        self._jitter = jitter
        self._ask_for_usage = True
        self._warned_of_usage = False
        self._takes_effort = True
        self.opens_thinking = spec.opens_thinking
        self._thinks = spec.opens_thinking or spec.thinking_tokens is not None
        self._takes_limit = True
        self._limit_renamed = False
        self._left_out = set[str]()
        self._replies = self._longest = 0

    @property
    def name(self) -> str:
        return self.spec.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self._base_url}>"

    async def aclose(self) -> None:
        """Release the connections; a later call opens new ones."""
        await self._pool.release(self)

    async def stream(self, messages: Sequence[Message], sampling: Sampling) -> AsyncIterator[StreamItem]:
        """Yield pieces and thoughts, then one ``Completion``; raise ``ProviderError`` if there is no reply."""
        check_takes(self.spec, messages)
        pictures = await asyncio.to_thread(data_urls, messages) if pictures_of(messages) else {}
        sampling = sampling.over(self.spec.sampling)
        retries = Retries(self._retry, self._jitter)
        lost = Spent()
        while True:
            body = self._body(messages, sampling)
            reply = StreamedReply(Thinking(opened=self.opens_thinking, markers=self.spec.thinking_markers))
            retries.attempts += 1
            try:
                async with aclosing(self._attempt(body, pictures, reply)) as items:
                    async for item in items:
                        reply.delivered = True
                        yield item
            except AttemptFailed as failed:
                failure = failed.failure
            else:
                done = self._completion(body, reply, retries.attempts)
                self._thinks = self._thinks or bool(done.reasoning or done.usage.reasoning_tokens)
                self._replies, self._longest = self._replies + 1, max(self._longest, done.usage.completion_tokens)
                yield done.including(lost)
                return
            wasted = self._spent_on(failure)
            lost += wasted
            if failure.kind == "rate_limit" and failure.retry_after_s:
                self._limiter.pause(min(longest_wait(failure.retry_after_s), retries.longest(failure)))
            adapted = self._adapts(body, sampling, failure)
            wait = 0.0 if adapted else retries.next_wait(failure)
            if wait is None:
                error = failure.error(self.name, retries.attempts, lost)
                if failure.kind in ("thinking", "unspoken"):
                    done = self._completion(body, reply, retries.attempts)
                    raise OnlyThought(failure.kind, str(error), replace(done, usage=lost.usage, cost_usd=lost.cost_usd))
                raise error
            log.info("%s: %s, next request in %.1f s", self.name, failure.kind, wait)
            if reply.delivered or not adapted or wasted.usage.total_tokens:
                yield Restart(failure.what, retries.attempts + 1, wasted)
            if wait >= _SHOWN_WAIT_S:
                yield Delayed(f"asked again in {wait:.0f} s")
                await self._sleep(wait)
                yield Delayed("")
            else:
                await self._sleep(wait)

    def _spent_on(self, failure: Failure) -> Spent:
        if failure.usage is None:
            return Spent()
        return Spent(failure.usage, cost(self.spec, failure.usage, batch=self._batches is not None))

    def most_usd(self, messages: Sequence[Message], sampling: Sampling) -> float:
        """Return the cost of a call with the longest possible reply.

        For a reasoning model, or without a limit, the length is twice the longest reply so far, after some replies.
        """
        body = self._body(messages, sampling.over(self.spec.sampling))
        limited = self.spec.max_tokens_field in body
        if (self._thinks or not limited) and self._replies >= _KNOWN_AFTER:
            longest = 2 * self._longest
        else:
            longest = MOST_UNSAID if limited else THINKING_TOKENS
        most = most_tokens(body, longest)
        most = replace(most, cache_write_tokens=most.prompt_tokens)
        return cost(self.spec, most, batch=self._batches is not None) or 0.0

    def _body(self, messages: Sequence[Message], sampling: Sampling) -> dict[str, Any]:
        if not self._takes_effort:
            sampling = replace(sampling, effort=None)
        if sampling.max_tokens is None and sampling.limit is not None and self._takes_limit:
            sampling = replace(sampling, max_tokens=sampling.limit + self._room(sampling))
        body = request_body(self.spec, messages, sampling)
        if sampling.form is not None and (response_format := self._response_format(sampling.form)):
            body["response_format"] = response_format
        if self._ask_for_usage:
            body["stream_options"] = {"include_usage": True}
        if self._batches is not None:
            body = {name: value for name, value in body.items() if name not in ("stream", "stream_options")}
        body |= dict(self._extras(sampling) if self._extras else {})
        return {name: value for name, value in body.items() if name not in self._left_out}

    def _room(self, sampling: Sampling) -> int:
        effort_set = sampling.effort is not None and sampling.effort.lower() not in _NO_EFFORT
        if not self._thinks and not effort_set:
            return 0
        return THINKING_TOKENS if self.spec.thinking_tokens is None else self.spec.thinking_tokens

    def _response_format(self, form: type[BaseModel] | Mapping[str, Any]) -> dict[str, Any] | None:
        way = "none" if (self._base_url, self.spec.model_id) in formless else self.spec.structured or "json_schema"
        if way == "json_schema":
            return dict(form) if isinstance(form, Mapping) else strict_format(form)
        return {"type": way} if way == "json_object" else None

    def _adapts(self, body: Mapping[str, Any], sampling: Sampling, failure: Failure) -> bool:
        """Adapt later requests to a rejected one; return whether the request can be repeated at once.

        An unknown value of the reasoning effort is not adapted: the user has to choose another one.
        """
        limited = sampling.max_tokens is None and self.spec.max_tokens_field in body
        if failure.kind == "thinking" and limited and not self._thinks:
            self._thinks = True  # reasoning used up the tokens of the message, so add tokens for it
            return True
        if failure.kind not in ("bad_request", "server") or (failure.kind == "server" and not failure.detail):
            return False
        if "stream_options" in failure.detail and "stream_options" in body:
            self._ask_for_usage = False
            return True
        refused = _fields_refused(body, failure.detail)
        if failure.kind == "server" and not refused:
            return False
        if "response_format" in body and (not failure.detail or _ABOUT_FORMS.search(failure.detail)):
            log.info("%s takes no form of a reply: it is asked for JSON in words", self.name)
            formless.add((self._base_url, self.spec.model_id))
            return True
        sent_as = self.spec.max_tokens_field
        other_limit = next(name for name in _LIMIT_FIELDS if name != sent_as)
        named_instead = other_limit in re.findall(r"\w+", failure.detail)
        if sent_as in refused and named_instead and not self._limit_renamed:
            self._limit_renamed = True
            self.spec = replace(self.spec, max_tokens_field=other_limit)
            return True
        if limited and _ABOUT_LENGTH.search(failure.detail):
            log.warning("%s refuses the length of a reply: it is asked without", self.name)
            self._takes_limit = False
            return True
        names = effort_fields(self.spec) or ["reasoning_effort"]
        if other := refused - set(names):
            log.warning("%s does not take %s: it is asked without", self.name, ", ".join(sorted(other)))
            self._left_out |= other
            return True
        effort_sent = sampling.effort and self._takes_effort and any(name in body for name in names)
        if not effort_sent or not any(name in failure.detail for name in names):
            return False
        if re.search(rf"\b{re.escape(sampling.effort or '')}\b", failure.detail):
            return False
        log.warning("%s takes no reasoning effort: it is asked without", self.name)
        self._takes_effort = False
        return True

    async def _attempt(
        self, body: Mapping[str, Any], pictures: Mapping[str, str], reply: StreamedReply
    ) -> AsyncGenerator[TextPiece | Thought]:
        """Make one request; yield its texts, and collect everything else in ``reply``."""
        async with self._limiter.request(lambda: expected_tokens(body)) as ticket:
            watch = Endless(self.spec.bounds, int(body.get(self.spec.max_tokens_field) or MOST_UNSAID))
            reply.sent_s = time.monotonic()
            try:
                async with aclosing(self._texts(with_parts(body, pictures), reply)) as texts:
                    async for text in texts:
                        if reply.first_token_s is None and reply.begun:  # not of a batch, whose reply comes whole
                            reply.first_token_s = time.monotonic() - reply.sent_s
                        yield text
                        if reason := watch.ends(text.text):
                            log.warning("%s %s: it was cut.", self.name, watch.words)
                            reply.finish_reason = reason
                            break
            except Exception as error:
                if isinstance(error, AnamnesisError):
                    raise
                failure: Failure | None
                if isinstance(error, AttemptFailed):
                    failure = error.failure
                else:
                    failure = classify(error, (self._key.get_secret_value(),) if self._key else ())
                if failure is None:
                    # No response of a provider may end more than this call. A bug here would look the same, so log
                    # where the exception was raised, without its message, which may quote the key.
                    places = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
                    log.warning("%s: %s while its reply was read, at %s", self.name, type(error).__name__, places[-1])
                    failure = malformed(f"the reply could not be read ({type(error).__name__})")
                # after a finish reason the reply is complete, and only the end of the connection has failed
                if reply.finish_reason is None or reply.finish_means_nothing:
                    if reply.begun or reply.usage is not None:
                        failure = replace(failure, usage=reply.usage_or_estimate(body))
                    # without the cause, whose message may quote the key
                    raise AttemptFailed(failure) from None
            for text in reply.thinking.end(cut_off=is_cut(reply.finish_reason)):
                yield text
            self.opens_thinking = self.opens_thinking or reply.thinking.closed_alone
            reply.latency_s = time.monotonic() - reply.sent_s
            reply.charged = usage = reply.usage_or_estimate(body)
            ticket.correct(usage.total_tokens, usage.completion_tokens)
            if fault := _fault_of(reply, body.get(self.spec.max_tokens_field)):
                raise AttemptFailed(replace(fault, usage=usage))

    async def _texts(self, body: Mapping[str, Any], reply: StreamedReply) -> AsyncGenerator[TextPiece | Thought]:
        if self._batches is not None:
            secrets = (self._key.get_secret_value(),) if self._key else ()
            queue = self._batches.queue(self.spec, lambda: self._open_client().sdk, secrets)
            line, reply.on_journaled = await queue.ask(body)
            for text in reply.take_whole(line["response"].get("body")):
                yield text
            return
        response: httpx2.Response = await self._timed(reply, self._open_client().post(self._path, body))
        reply.begun = True
        try:
            kind = response.headers.get("content-type", "")
            if "html" in kind:
                title = title_of((await self._timed(reply, response.aread())).decode(errors="replace"))
                page = f"a web page came back instead of JSON{f' ({title})' if title else ''}"
                raise AttemptFailed(Failure("malformed", page, "check the address: most end with /v1"))
            if "json" in kind:  # a server without streaming
                body_or_error = orjson.loads(await self._timed(reply, response.aread()))
                _raise_error_in(body_or_error, response.request, whole=True)
                for text in reply.take_whole(body_or_error):
                    yield text
                return
            events, no_reply = ServerSentEvents(), None
            async with aclosing(cast(Any, response.aiter_raw())) as blocks:  # never compressed, see ``bounds``
                while not events.done and (block := await self._timed(reply, anext(blocks, None))) is not None:
                    for chunk in events.take(block):
                        _raise_error_in(chunk, response.request)
                        if not (has_choices(chunk) or is_heartbeat(chunk)):
                            no_reply = chunk
                        for text in reply.take(chunk):
                            yield text
                other = read_error(events.other_text) or (None if reply.text else no_reply)
                if other and reply.finish_reason is None:
                    raise APIError("it ended without a reply", response.request, body=other)
                with suppress(TimeoutError):  # a connection can be reused only if the response was read to its end
                    async with asyncio.timeout(_END_S):
                        async for _ in blocks:
                            pass
        except (httpx2.RequestError, ssl.SSLError) as error:
            raise APIConnectionError(request=response.request) from error
        finally:
            await response.aclose()

    @property
    def _path(self) -> str:
        return _PATH

    def _open_client(self) -> Client:
        return self._pool.get(self, self._base_url, self._key, self._make_client)

    async def _timed(self, reply: StreamedReply, awaitable: Any) -> Any:
        """Await the next step of a reply under the timeout that applies to it."""
        times = self.spec.timeouts
        remaining = max(0.0, times.call_s - (time.monotonic() - reply.sent_s))
        total = (remaining, f"the reply was not complete within {times.call_s:g} seconds")
        if reply.finish_reason is not None:
            # one limit for all blocks: a server may send comments for ever after the reply
            reply.finished_s = reply.finished_s or time.monotonic()
            more_s = times.stall_s if reply.finished_with_text else _AFTER_FINISH_S
            limit, what = min(remaining, max(0.0, reply.finished_s + more_s - time.monotonic())), total[1]
        elif reply.first_token_s is None:
            waited = time.monotonic() - reply.sent_s
            begin = (max(0.0, times.first_piece_s - waited), f"no text came within {times.first_piece_s:g} seconds")
            limit, what = min(total, begin)
        else:
            limit, what = min(total, (times.stall_s, f"the reply stood still for {times.stall_s:g} seconds"))
        try:
            async with asyncio.timeout(limit):
                return await awaitable
        except TimeoutError:
            raise AttemptFailed(timed_out(what)) from None

    def _completion(self, body: Mapping[str, Any], reply: StreamedReply, attempts: int) -> Completion:
        usage = reply.charged
        if reply.usage is not None and usage.estimated and not self._warned_of_usage:
            self._warned_of_usage = True
            counts = f"{reply.usage.prompt_tokens:,} and {reply.usage.completion_tokens:,}"
            log.warning("%s counts tokens that cannot be (%s): they are estimated from the words.", self.name, counts)
        key = self._key.get_secret_value() if self._key else ""
        return Completion(
            text=without_secret(reply.text, key),
            finish_reason=without_secret(reply.finish_reason or "stop", key),
            usage=usage,
            model=self.name,
            latency_s=reply.latency_s,
            first_token_s=reply.first_token_s,
            attempts=attempts,
            cost_usd=cost(self.spec, usage, batch=self._batches is not None),
            price_source=source(self.spec, batch=self._batches is not None),
            served_by=reply.served_by and without_secret(reply.served_by, key),
            request=dict(body),
            reasoning=without_secret(reply.reasoning, key) or None,
            on_journaled=reply.on_journaled,
        )

    def _make_client(self) -> Client:
        """Return a client that does not retry and does not read its address from the environment."""
        http = http_client(self._base_url)
        key = self._key.get_secret_value() if self._key else _NO_KEY
        sdk = AsyncOpenAI(base_url=self._base_url, api_key=key, http_client=http, max_retries=0, timeout=_TIMEOUT)
        return Client.of(sdk, http, sdk.auth_headers)


def _fields_refused(body: Mapping[str, Any], detail: str) -> set[str]:
    """Return the fields of a request that an error calls unsupported; a refused value of one is no such error."""
    if not _UNSUPPORTED.search(detail):
        return set()
    return (body.keys() & set(re.findall(r"\w+", detail))) - _NEEDED


def _fault_of(reply: StreamedReply, limit: object) -> Failure | None:
    """Return why a received reply cannot be used, or ``None``; ``limit`` is its limit of tokens."""
    if reply.refused:
        return refused("the model refused to answer")
    if reply.finish_reason is None:
        return malformed("the reply ended before it was complete")
    ending = ending_of(reply.finish_reason)
    if ending == "blocked":
        return refused("the provider's content filter stopped the reply")
    if ending == "failed":
        return broken_off(reply.finish_reason)
    if reply.thinking.unclosed and ending != "cut":
        return unended()
    if reply.thinking.unclosed or not reply.text.strip():
        # some providers only count the reasoning and do not show it
        thought = reply.reasoning or (reply.usage and reply.usage.reasoning_tokens)
        return only_thought(reply.finish_reason, limit) if thought else empty(reply.finish_reason)
    return None


class AzureModel(OpenAICompatibleModel):
    """A deployment of an Azure OpenAI resource; ``spec.base_url`` is the endpoint, ``spec.model_id`` the deployment."""

    @property
    def _path(self) -> str:
        return f"deployments/{self.spec.model_id}/{_PATH}"

    def _make_client(self) -> Client:
        http = http_client(self._base_url)
        key = self._key.get_secret_value() if self._key else _NO_KEY
        sdk = AsyncAzureOpenAI(
            azure_endpoint=self._base_url,
            api_version=self.spec.api_version,
            api_key=key,
            http_client=http,
            max_retries=0,
            timeout=_TIMEOUT,
        )
        return Client.of(sdk, http, {"api-key": key})


def _raise_error_in(chunk: object, request: httpx2.Request, *, whole: bool = False) -> None:
    """Raise the ``APIError`` that a server sends in the middle of a stream, or as a ``whole`` body without a reply."""
    if is_error(chunk) or (whole and isinstance(chunk, dict) and not has_choices(chunk)):
        raise APIError("it broke off", request, body=chunk)
