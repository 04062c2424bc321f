"""Turns whatever a client library raises into one ``Failure``.

Its words hold neither a key nor a picture: details from the provider are shortened, put on one line and scrubbed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import aiohttp
import openai

from core.errors import FailureKind
from core.models.failures import Failure, malformed, refused, timed_out
from core.models.retry import retry_after

_FILTER_CODES = frozenset(
    {"content_filter", "ResponsibleAIPolicyViolation", "content_policy_violation", "invalid_prompt"}
)
_KEY_LIKE = re.compile(r"\b(?:sk|pk|rk|key|hf|api)[-_](?=[\w.-]*[\d*])[\w*.-]{6,}|\bBearer\s+\S+", re.IGNORECASE)
_PICTURE = re.compile(r"data:[\w/+.-]+;base64,[\w+/=-]*|[A-Za-z0-9+/]{80,}=*")
"""A picture as it was sent, or a stretch of one: some servers quote the request."""
_ABOUT_PICTURES = re.compile(r"\b(?:images?|image_url|vision|multi-?modal|pictures?)\b", re.IGNORECASE)
_DETAIL_LENGTH = 240
_RETRIED_STATUS = frozenset({408, 409, 425})


def classify(error: Exception, secrets: Iterable[str] = ()) -> Failure | None:
    """Say what ``error`` means, or ``None`` where it is no failure of a provider."""
    if isinstance(error, openai.APIStatusError):
        return _status_failure(error, tuple(secrets))
    if isinstance(error, openai.APITimeoutError) and not _is_disconnect(error):
        return timed_out("the connection timed out")
    if isinstance(error, openai.APIConnectionError | aiohttp.ClientError | ConnectionError):
        return disconnected(error)
    if isinstance(error, TimeoutError):
        return timed_out("the request timed out")
    if isinstance(error, openai.APIResponseValidationError | ValueError):
        return malformed(f"the reply could not be read ({type(error).__name__})")
    if isinstance(error, openai.APIError):
        return _stream_failure(error, tuple(secrets))
    return None


def disconnected(error: BaseException) -> Failure:
    """Describe a connection that could not be made or that broke."""
    advice = "check that the server runs, its address, and the network"
    return Failure("connection", f"the connection failed ({_root_name(error)})", advice, retry=True)


def clean(text: str, secrets: Iterable[str] = ()) -> str:
    """Put ``text`` on one short line without anything that looks like a key or is a picture's bytes."""
    for secret in secrets:
        text = text.replace(secret, "…") if secret else text
    line = " ".join(_KEY_LIKE.sub("…", _PICTURE.sub("…", text)).split()).rstrip(". ")
    return line if len(line) <= _DETAIL_LENGTH else line[: _DETAIL_LENGTH - 1] + "…"


def _status_failure(error: openai.APIStatusError, secrets: tuple[str, ...]) -> Failure:
    status, detail = error.status_code, clean(_message(error), secrets)
    answered = f"the provider answered HTTP {status} ({detail})" if detail else f"the provider answered HTTP {status}"
    if status in (401, 403):
        # The provider's own words are left out here: they may quote the key.
        advice = "check the key, what it may do, and which variable it is read from"
        return Failure("auth", f"the provider did not accept the key (HTTP {status})", advice)
    if _FILTER_CODES & set(_codes(error.body)):
        return refused("the provider's content filter blocked the request")
    if status == 429:
        return _rate_failure(error, answered, retry_after(error.response.headers))
    if status >= 500 or status in _RETRIED_STATUS:
        kind: FailureKind = "timeout" if status in (408, 504) else "server"
        wait = retry_after(error.response.headers)
        return Failure(kind, answered, "the fault is the provider's: try again later", retry=True, retry_after_s=wait)
    return Failure("bad_request", answered, _request_advice(error), detail=detail)


def _rate_failure(error: openai.APIStatusError, answered: str, wait_s: float | None) -> Failure:
    if "insufficient_quota" in _codes(error.body):
        return Failure("rate_limit", "the account's quota is used up", "add credit or wait for the next period")
    advice = "lower requests_per_minute or tokens_per_minute in the models file, or the concurrency"
    return Failure("rate_limit", answered, advice, retry=True, retry_after_s=wait_s)


def _request_advice(error: openai.APIStatusError) -> str:
    if error.status_code == 404:
        return "check the model's name and the base URL"
    if "context_length_exceeded" in _codes(error.body):
        return "shorten the conversation or choose a model with a larger context"
    if _ABOUT_PICTURES.search(_message(error)):
        return "if it takes no such picture, choose a model that does, or run without pictures"
    return "check the model's name and its settings in the models file"


def _stream_failure(error: openai.APIError, secrets: tuple[str, ...]) -> Failure:
    codes = set(_codes(error.body))
    if _FILTER_CODES & codes:
        return refused("the provider's content filter stopped the reply")
    detail = clean(error.body if isinstance(error.body, str) else _message(error), secrets)
    what = f"the provider broke the reply off ({detail})"
    kind: FailureKind = "rate_limit" if any("rate_limit" in code for code in codes) else "server"
    return Failure(kind, what, "try again later", retry=True)


def _codes(body: object) -> Iterator[str]:
    """Yield every code and type of an error body, from the outside in."""
    while isinstance(body, Mapping):
        yield from (str(body[key]) for key in ("code", "type") if body.get(key))
        body = body.get("error") or body.get("innererror") or body.get("inner_error")


def _message(error: openai.APIError) -> str:
    body: Any = error.body
    while isinstance(body, Mapping):
        for key in ("message", "detail"):
            if isinstance(body.get(key), str):
                return str(body[key])
        body = body.get("error")
    return body if isinstance(body, str) else ""


def _is_disconnect(error: BaseException) -> bool:
    """Tell a dropped connection from a timeout: the aiohttp transport reports both as timeouts."""
    return any(
        isinstance(cause, aiohttp.ClientConnectionError) and not isinstance(cause, aiohttp.ServerTimeoutError)
        for cause in _causes(error)
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _root_name(error: BaseException) -> str:
    return type(list(_causes(error))[-1]).__name__
