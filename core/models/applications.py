"""An application in a seat: a user's Python function as a ``ChatModel``.

The function receives the messages of the conversation in the form for a chat model and returns the text of a reply, or
``{"reply": text}`` with the optional keys ``usage`` (``prompt_tokens``, ``completion_tokens``), ``cost_usd`` and
``reasoning``. Without these keys tokens are estimated, and the cost is unknown. If it has a parameter ``thread``, it
also receives an id that is the same through a conversation.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import inspect
import math
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from core.bounds import MOST_TOKENS
from core.errors import UsageError
from core.models.base import CONVERSATION, Completion, Message, Restart, Sampling, Spent, StreamItem, TextPiece, Usage
from core.models.classify import clean
from core.models.failures import AttemptFailed, Failure, Retries, RetryPolicy, empty, timed_out
from core.models.limits import Sleep, shared_limiter
from core.models.local import in_thread
from core.models.pictures import check_takes, recorded
from core.models.prices import cost, source
from core.models.spec import ModelSpec
from core.models.wire import estimated_tokens, expected_tokens, fitting_messages, prompt_tokens
from core.paths import expanded

_MOST_USD = 1_000_000
"""US dollars that one reply may cost; a higher amount is an error of the application."""
_FORM = 'reply with text, or with {"reply": text}'


class Application:
    """A function ``MODULE:FUNCTION``, called in this process with the messages so far; it does not stream.

    The function may be async. The module is in the folder of the entry, or in the working directory.
    """

    def __init__(self, spec: ModelSpec, *, retry: RetryPolicy | None = None, sleep: Sleep = asyncio.sleep) -> None:
        self.spec = spec
        self._retry = retry or RetryPolicy()
        self._sleep = sleep
        self._limiter = shared_limiter(spec.limits_scope or spec.name, spec.limits, adaptive=False)
        self._highest_usd: float | None = None
        self._function = self._loaded()
        self._threaded = "thread" in inspect.signature(self._function).parameters

    @property
    def name(self) -> str:
        return self.spec.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    async def aclose(self) -> None: ...

    async def stream(self, messages: Sequence[Message], sampling: Sampling) -> AsyncIterator[StreamItem]:
        """Yield the reply and a ``Completion``; raise ``ProviderError`` if there is no reply."""
        check_takes(self.spec, messages)
        sent = [recorded(message) for message in fitting_messages(self.spec, messages)]
        # the first messages identify the conversation: separate questions in the same trial begin differently
        opening = next((n for n, message in enumerate(sent, 1) if message["role"] == "user"), len(sent))
        beginning = orjson.dumps([CONVERSATION.get(), self.name, sent[:opening]])
        request = {
            "thread": hashlib.sha256(beginning).hexdigest()[:16],
            "message": sent[-1]["content"] if sent else "",
            "messages": sent,
        }
        retries = Retries(self._retry)
        lost = Spent()
        while True:
            retries.attempts += 1
            try:
                async with self._limiter.request(lambda: expected_tokens(request)) as ticket:
                    started = time.monotonic()
                    try:
                        async with asyncio.timeout(self.spec.timeouts.call_s):
                            done = self._read(await self.ask(request), request)
                    except TimeoutError:
                        what = f"the reply was not complete within {self.spec.timeouts.call_s:g} seconds"
                        raise AttemptFailed(replace(timed_out(what), retry=False)) from None
                    seconds = time.monotonic() - started
                    ticket.correct(done.usage.total_tokens, done.usage.completion_tokens)
            except AttemptFailed as failed:
                failure = failed.failure
            else:
                self._highest_usd = max(self._highest_usd or 0.0, done.cost_usd or 0.0)
                yield TextPiece(done.text)
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
        """Return twice the highest cost so far, because an application has no limit; infinite for the first call."""
        if source(self.spec) is None:
            return 0.0
        return math.inf if self._highest_usd is None else 2 * self._highest_usd

    def _read(self, answer: object, request: Mapping[str, Any]) -> Completion:
        reply: Mapping[str, Any] = answer if isinstance(answer, Mapping) else {"reply": answer}
        text, counted, dollars = reply.get("reply"), reply.get("usage"), reply.get("cost_usd")
        dollars = float(dollars) if isinstance(dollars, int | float) and 0 <= dollars <= _MOST_USD else None
        usage = Usage(prompt_tokens(request), estimated_tokens(text if isinstance(text, str) else ""), estimated=True)
        if isinstance(counted, Mapping):
            numbers = [counted.get(name) for name in ("prompt_tokens", "completion_tokens")]
            if all(type(n) is int and 0 <= n <= MOST_TOKENS for n in numbers):
                usage = Usage(*numbers)  # type: ignore[arg-type]
        if not isinstance(text, str):
            what = f"it answered with {type(text).__name__} and no text"
            raise AttemptFailed(Failure("malformed", what, _FORM, usage=usage))
        if not text.strip():
            raise AttemptFailed(replace(empty("stop"), usage=usage))
        reasoning = reply.get("reasoning")
        return Completion(
            text=text.strip(),
            finish_reason="stop",
            usage=usage,
            model=self.name,
            cost_usd=cost(self.spec, usage) if dollars is None else dollars,
            price_source=source(self.spec) if dollars is None else "the application",
            request=dict(request),
            reasoning=reasoning if isinstance(reasoning, str) and reasoning.strip() else None,
        )

    def _loaded(self) -> Callable[..., object]:
        module, _, name = self.spec.model_id.partition(":")
        if not module or not name:
            raise UsageError(f"{self.name} is no function of a module: write MODULE:FUNCTION, such as mydoctor:reply.")
        folder = str(expanded(self.spec.folder or os.getcwd()))
        if folder not in sys.path:
            sys.path.append(folder)
        importlib.invalidate_caches()
        try:
            attribute = getattr(importlib.import_module(module), name, None)
        except ModuleNotFoundError as error:
            if error.name != module.partition(".")[0]:
                raise UsageError(f"The module {module} cannot be loaded: it needs {error.name}; install it.") from error
            raise UsageError(f"There is no module {module} in {folder}: go there, or correct its name.") from error
        except (Exception, SystemExit) as error:
            why = clean(f"{type(error).__name__}: {error}")
            raise UsageError(f"The module {module} cannot be loaded ({why}): correct it first.") from error
        if not callable(attribute):
            raise UsageError(f"The module {module} has no function {name}: name one that it has.")
        function: Callable[..., object] = attribute
        return function

    async def ask(self, request: Mapping[str, Any]) -> object:
        """Call the function, in a thread if it is synchronous; raise ``AttemptFailed`` if it fails."""
        messages = [{"role": message["role"], "content": message["content"]} for message in request["messages"]]
        more = {"thread": request["thread"]} if self._threaded else {}
        answers: list[object] = []
        try:
            if inspect.iscoroutinefunction(self._function):
                return await self._function(messages, **more)
            await in_thread(lambda: answers.append(self._function(messages, **more)))
            return await answers[0] if inspect.isawaitable(answers[0]) else answers[0]
        except (Exception, SystemExit) as error:
            what = f"it raised {clean(f'{type(error).__name__}: {error}')}"
            raise AttemptFailed(Failure("server", what, "look at the application: the fault is its own")) from error
