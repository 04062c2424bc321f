"""Applications in a seat: a Python function, or an endpoint with threads, as a ``ChatModel``.

Each is given ``{"thread", "message", "messages"}`` and answers with the text of a reply, or with
``{"reply": text}``, beside which ``usage`` (``prompt_tokens``, ``completion_tokens``), ``cost_usd`` and ``reasoning``
may stand. ``thread`` stays the same through a conversation, ``message`` is its last message, ``messages`` are all of
them as a model is sent them. What no application tells is estimated (tokens) or unknown (dollars).
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import inspect
import json
import math
import os
import sys
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import orjson
from pydantic import SecretStr

from core.errors import UsageError
from core.models import bounds
from core.models.base import CONVERSATION, Completion, Message, Piece, Restart, Sampling, Spent, StreamItem, Usage
from core.models.classify import answered, classify, clean
from core.models.failures import AttemptFailed, Failure, Retries, RetryPolicy, empty, malformed, timed_out
from core.models.limits import Sleep, shared_limiter
from core.models.local import in_thread
from core.models.pictures import check_takes, recorded
from core.models.prices import cost, source
from core.models.spec import ModelSpec, is_loopback
from core.models.wire import estimated_tokens, expected_tokens, fitting_messages, prompt_tokens

_FORM = 'reply with text, or with {"reply": text}'


class Application:
    """What both kinds share: a reply comes whole, under the entry's limits and timeouts."""

    retried: ClassVar[bool] = False
    """Whether what failed may heal by itself; a function that is asked twice only fails twice."""

    def __init__(
        self,
        spec: ModelSpec,
        *,
        key: SecretStr | None = None,
        retry: RetryPolicy | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.spec = spec
        self._key = key
        self._retry = retry or RetryPolicy()
        self._sleep = sleep
        self._limiter = shared_limiter(spec.limits_scope or spec.name, spec.limits, key, adaptive=spec.kind != "python")
        self._dearest: float | None = None

    @property
    def name(self) -> str:
        """The full name ``provider/name``."""
        return self.spec.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    async def aclose(self) -> None:
        """Nothing stays open between two calls."""

    @abstractmethod
    async def ask(self, asked: Mapping[str, Any]) -> object:
        """Return what the application answers; raise ``AttemptFailed`` where it does not."""

    async def stream(self, messages: Sequence[Message], sampling: Sampling) -> AsyncIterator[StreamItem]:
        """Yield the reply and a ``Completion``; raise ``ProviderError`` when none can be had."""
        check_takes(self.spec, messages)
        sent = [recorded(one) for one in fitting_messages(self.spec, messages)]
        # a conversation is known by how it begins: what is asked beside it in the same trial begins otherwise
        opening = next((n for n, one in enumerate(sent, 1) if one["role"] == "user"), len(sent))
        begins = orjson.dumps([CONVERSATION.get(), self.name, sent[:opening]])
        asked = {
            "thread": hashlib.sha256(begins).hexdigest()[:16],
            "message": sent[-1]["content"] if sent else "",
            "messages": sent,
        }
        retries = Retries(self._retry)
        lost = Spent()
        while True:
            retries.attempts += 1
            try:
                async with self._limiter.request(expected_tokens(asked)) as ticket:
                    started = time.monotonic()
                    try:
                        async with asyncio.timeout(self.spec.timeouts.call_s):
                            done = self._read(await self.ask(asked), asked)
                    except TimeoutError:
                        what = f"the reply was not complete within {self.spec.timeouts.call_s:g} seconds"
                        raise AttemptFailed(replace(timed_out(what), retry=self.retried)) from None
                    seconds = time.monotonic() - started
                    ticket.correct(done.usage.total_tokens, done.usage.completion_tokens)
            except AttemptFailed as failed:
                failure = failed.failure
            else:
                self._dearest = max(self._dearest or 0.0, done.cost_usd or 0.0)
                yield Piece(done.text)
                done = replace(done, latency_s=seconds, first_token_s=seconds, attempts=retries.attempts)
                yield done.including(lost)
                return
            wasted = Spent(failure.usage, cost(self.spec, failure.usage)) if failure.usage else Spent()
            lost += wasted
            wait = retries.next_wait(failure)
            if wait is None:
                raise failure.error(self.name, retries.attempts, lost)
            yield Restart(failure.what, retries.attempts + 1, wasted)
            await self._sleep(wait)

    def most_usd(self, messages: Sequence[Message], sampling: Sampling) -> float:
        """Return twice what its dearest call has cost: nobody can hold it to a limit, and the first one goes alone."""
        if source(self.spec) is None:
            return 0.0
        return math.inf if self._dearest is None else 2 * self._dearest

    def _read(self, answer: object, asked: Mapping[str, Any]) -> Completion:
        told: Mapping[str, Any] = answer if isinstance(answer, Mapping) else {"reply": answer}
        text, counted, dollars = told.get("reply"), told.get("usage"), told.get("cost_usd")
        usage = Usage(prompt_tokens(asked), estimated_tokens(text if isinstance(text, str) else ""), estimated=True)
        if isinstance(counted, Mapping):
            numbers = [counted.get(name) for name in ("prompt_tokens", "completion_tokens")]
            if all(type(n) is int and n >= 0 for n in numbers):
                usage = Usage(*numbers)  # type: ignore[arg-type]
        if not isinstance(text, str):
            what = f"it answered with {type(text).__name__} and no text"
            raise AttemptFailed(Failure("malformed", what, _FORM, usage=usage))
        if not text.strip():
            raise AttemptFailed(replace(empty("stop"), usage=usage))
        reasoning = told.get("reasoning")
        return Completion(
            text=text.strip(),
            finish_reason="stop",
            usage=usage,
            model=self.name,
            cost_usd=float(dollars) if isinstance(dollars, int | float) else cost(self.spec, usage),
            price_source="the application" if isinstance(dollars, int | float) else source(self.spec),
            request=dict(asked),
            reasoning=reasoning if isinstance(reasoning, str) and reasoning.strip() else None,
        )

    def _failed(self, what: str) -> AttemptFailed:
        return AttemptFailed(Failure("server", what, "look at the application: the fault is its own"))


class PythonApplication(Application):
    """A function of a module, ``MODULE:FUNCTION``, called in this process with the messages so far.

    It may be async, and may take ``thread`` besides. The module lies in the entry's folder, or in the working one.
    """

    def __init__(self, spec: ModelSpec, **more: Any) -> None:
        super().__init__(spec, **more)
        self._function = self._loaded()
        self._threaded = "thread" in inspect.signature(self._function).parameters

    def _loaded(self) -> Callable[..., object]:
        module, _, name = self.spec.model_id.partition(":")
        if not module or not name:
            raise UsageError(f"{self.name} is no function of a module: write MODULE:FUNCTION, such as mydoctor:reply.")
        folder = str(Path(self.spec.folder or os.getcwd()).expanduser())
        if folder not in sys.path:
            sys.path.append(folder)
        importlib.invalidate_caches()
        try:
            found = getattr(importlib.import_module(module), name, None)
        except ModuleNotFoundError as error:
            if error.name != module.partition(".")[0]:
                raise UsageError(f"The module {module} cannot be loaded: it needs {error.name}; install it.") from error
            raise UsageError(f"There is no module {module} in {folder}: go there, or correct its name.") from error
        except (Exception, SystemExit) as error:
            why = clean(f"{type(error).__name__}: {error}")
            raise UsageError(f"The module {module} cannot be loaded ({why}): correct it first.") from error
        if not callable(found):
            raise UsageError(f"The module {module} has no function {name}: name one that it has.")
        function: Callable[..., object] = found
        return function

    async def ask(self, asked: Mapping[str, Any]) -> object:
        """Call the function: one that is not async in a thread of its own."""
        messages = [{"role": one["role"], "content": one["content"]} for one in asked["messages"]]
        more = {"thread": asked["thread"]} if self._threaded else {}
        answers: list[object] = []
        try:
            if inspect.iscoroutinefunction(self._function):
                return await self._function(messages, **more)
            await in_thread(lambda: answers.append(self._function(messages, **more)))
            return await answers[0] if inspect.isawaitable(answers[0]) else answers[0]
        except (Exception, SystemExit) as error:
            raise self._failed(f"it raised {clean(f'{type(error).__name__}: {error}')}") from error


class HttpApplication(Application):
    """An endpoint that is sent each message as JSON; its key, where it has one, goes as a bearer token."""

    retried = True

    async def ask(self, asked: Mapping[str, Any]) -> object:
        """Post the message and return the JSON that comes back."""
        url = str(self.spec.base_url)
        key = self._key.get_secret_value() if self._key else ""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            async with (
                aiohttp.ClientSession(trust_env=not is_loopback(url), timeout=aiohttp.ClientTimeout(None)) as session,
                session.post(url, json=asked, headers=bounds.UNCOMPRESSED | headers, allow_redirects=False) as response,
            ):
                status, text, kind = response.status, await bounds.text_of(response), response.content_type
                sent_back = response.headers
        except Exception as error:
            if (failure := classify(error, (key,))) is None:
                raise
            raise AttemptFailed(failure) from None
        if status != 200:
            detail = "" if "html" in kind else clean(text, (key,))
            raise AttemptFailed(answered(status, detail, sent_back, "check the address, and what it expects"))
        try:
            return json.loads(text)
        except ValueError:
            what = "a web page" if "html" in kind else "something else"
            failure = malformed(f"{what} came back instead of JSON")
            raise AttemptFailed(replace(failure, advice=f"check the address, and {_FORM}", retry=False)) from None


APPLICATIONS: dict[str, type[Application]] = {"python": PythonApplication, "http": HttpApplication}
"""Kind of a provider → what plays it."""
