"""Turns an exception of a client library into a ``Failure``.

Its text contains no key and no picture: details from the provider are shortened to one line and scrubbed.
"""

from __future__ import annotations

import base64
import html
import json
import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from urllib.parse import quote, unquote

import aiohttp
import httpx2
import openai

from core.errors import FailureKind
from core.models.bounds import NotTakenError
from core.models.failures import Failure, malformed, refused, retry_after, timed_out
from core.models.wire import UnreadableChunk

_FILTER_CODES = frozenset(
    {"content_filter", "ResponsibleAIPolicyViolation", "content_policy_violation", "invalid_prompt"}
)
_KEY_LIKE = re.compile(r"\b(?:sk|pk|rk|key|hf|api)[-_](?=[\w.-]*[\d*])[\w*.-]{6,}|\bBearer\s+\S+", re.IGNORECASE)
_PICTURE = re.compile(r"data:[\w/+.-]+;base64,[\w+/=-]*|[A-Za-z0-9+/]{80,}=*")
"""A picture as it was sent, or a part of it: some servers quote the request."""
_ABOUT_PICTURES = re.compile(r"\b(?:images?|image_url|vision|multi-?modal|pictures?)\b", re.IGNORECASE)
_DETAIL_LENGTH = 240
_READ = 20_000
"""Characters of a provider's message that are read."""
_SHORTEST_SECRET = 12
"""Minimum length of a key for a search for its parts: parts of shorter keys would be found everywhere."""
_ECHOED = 8
_SEPARATORS = str.maketrans("", "", " \t\r\n-_+/=\u200b\u00ad")
_NOT_SHOWN = "its words are not shown, since they hold the key"
_RETRIED_STATUS = frozenset({408, 409, 425})
_REQUEST_ADVICE = "check the model's name and its settings in the models file"
_ABOUT_TEMPLATE = re.compile(
    r"jinja|chat.?template|template ?error|raise_exception|roles? must alternate"
    r"|system (?:role|message|prompt)s?\b.{0,40}"
    r"(?:not supported|unsupported|not allowed|must be)|only user(?:,| and) assistant",
    re.IGNORECASE,
)
"""A fault that each request with these messages has, which some servers report as one of their own."""


def classify(error: Exception, secrets: Iterable[str] = ()) -> Failure | None:
    """Return the failure that ``error`` means, or ``None`` if it is not a failure of a provider."""
    kind: FailureKind
    if isinstance(error, openai.APIStatusError):
        secrets = tuple(secrets)
        status = error.status_code
        detail = clean(error_words(error.body), secrets)
        if status not in (401, 403) and _FILTER_CODES & set(_codes(error.body)):
            return refused("the provider's content filter blocked the request")
        if status == 429 and "insufficient_quota" in _codes(error.body):
            return Failure("rate_limit", "the account's quota is used up", "add credit or wait for the next period")
        return answered(status, detail, error.response.headers, _request_advice(error))
    if isinstance(error, openai.APITimeoutError) and not _is_disconnect(error):
        return timed_out("the connection timed out")
    if not_taken := next((cause for cause in _causes(error) if isinstance(cause, NotTakenError)), None):
        return replace(malformed(str(not_taken)), retry=False)
    if isinstance(error, openai.APIConnectionError | aiohttp.ClientError | ConnectionError):
        return disconnected(error)
    if isinstance(error, TimeoutError):
        return timed_out("the request timed out")
    if isinstance(error, openai.APIResponseValidationError | ValueError):
        why = clean(str(error), secrets) if isinstance(error, UnreadableChunk) else type(error).__name__
        return malformed(f"the reply could not be read ({why})")
    if isinstance(error, openai.APIError):
        secrets = tuple(secrets)
        codes = set(_codes(error.body))
        if _FILTER_CODES & codes:
            return refused("the provider's content filter stopped the reply")
        detail = clean(error_words(error.body) or error.message, secrets)
        statuses = [int(code) for code in codes if code.isdecimal() and 400 <= int(code) < 600]
        if statuses:  # an error in the body of a successful response
            return answered(statuses[0], detail, {}, _REQUEST_ADVICE)
        what = f"the provider broke the reply off ({detail})"
        kind = "rate_limit" if any("rate_limit" in code for code in codes) else "server"
        return Failure(kind, what, "try again later", retry=True)
    return None


def answered(status: int, detail: str, headers: Mapping[str, str], advice: str) -> Failure:
    """Return the failure of an HTTP error status; ``advice`` is for a request that the server rejects."""
    if status in (401, 403):
        # the provider's message is left out because it may quote the key
        advice = "check the key, what it may do, and which variable it is read from"
        return Failure("auth", f"the provider did not accept the key (HTTP {status})", advice)
    what = f"the provider answered HTTP {status} ({detail})" if detail else f"the provider answered HTTP {status}"
    if status == 429:
        advice = "lower requests_per_minute or tokens_per_minute in the models file, or the concurrency"
        return Failure("rate_limit", what, advice, retry=True, retry_after_s=retry_after(headers))
    if status >= 500 and _ABOUT_TEMPLATE.search(detail):
        advice = 'its chat template does not take these messages: try system_role = "user" in the models file'
        return Failure("bad_request", what, advice, detail=detail)
    if status >= 500 or status in _RETRIED_STATUS:
        kind: FailureKind = "timeout" if status in (408, 504) else "server"
        advice = "the fault is the provider's: try again later"
        return Failure(kind, what, advice, retry=True, retry_after_s=retry_after(headers), detail=detail)
    return Failure("bad_request", what, advice, detail=detail)


def disconnected(error: BaseException) -> Failure:
    """Return the failure of a connection that could not be opened or was interrupted."""
    causes = list(_causes(error))
    with_request = openai.APIConnectionError | httpx2.RequestError
    request = next((cause.request for cause in causes if isinstance(cause, with_request)), None)
    at = f"{request.url.host}:{request.url.port or (443 if request.url.scheme == 'https' else 80)}" if request else ""
    connector = next((cause for cause in causes if isinstance(cause, aiohttp.ClientConnectorError)), None)
    at = at or (f"{connector.host}:{connector.port}" if connector else "it")
    advice = "check that the server runs, its address, and the network"
    what = type(causes[-1]).__name__
    if any(isinstance(cause, socket.gaierror | aiohttp.ClientConnectorDNSError) for cause in causes):
        what, advice = f"no server is known as {at.rpartition(':')[0]}", "correct the address, or check the network"
    elif any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        what, advice = f"nothing listens at {at}", "start the server, or correct its address"
    elif any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        what, advice = f"the certificate of {at} is not trusted", "correct the address, or trust it with SSL_CERT_FILE"
    elif any(isinstance(cause, ssl.SSLError) for cause in causes):
        what, advice = f"{at} does not speak TLS", "try http:// in place of https:// in its address"
    return Failure("connection", f"the connection failed ({what})", advice, retry=True)


def clean(text: str, secrets: Iterable[str] = ()) -> str:
    """Shorten ``text`` to one line without anything that looks like a key or the bytes of a picture.

    A text with one of the ``secrets`` in any encoding is not shown at all, because it may contain more of the key.
    """
    if any(_echoes(secret, text) for secret in secrets):
        return _NOT_SHOWN
    line = " ".join(_KEY_LIKE.sub("…", _PICTURE.sub("…", text[:_READ])).split()).rstrip(". ")
    return line if len(line) <= _DETAIL_LENGTH else line[: _DETAIL_LENGTH - 1] + "…"


def _echoes(secret: str, text: str) -> bool:
    """Return whether a text contains eight consecutive characters of a key: plain, encoded, reversed or capitalised.

    Base64 depends on the key's position in a group of three bytes, so the middle of each of the three forms is
    searched. Escapes of URLs, JSON and HTML are decoded first.
    """
    if len(secret) < _SHORTEST_SECRET:
        return bool(secret) and secret in text
    plain = unquote(unquote(html.unescape(re.sub(r"\\+u([0-9a-fA-F]{4})", lambda code: chr(int(code[1], 16)), text))))
    searched = f"{text}\n{plain}".lower().translate(_SEPARATORS)
    raw = secret.encode()
    forms = [secret, secret[::-1], raw.hex()]
    for before in range(3):
        encoded = base64.b64encode(b" " * before + raw).decode()
        forms.append(encoded[4 if before else 0 : len(encoded) - 4])
    windows = (
        form[at : at + _ECHOED]
        for form in (form.lower().translate(_SEPARATORS) for form in forms)
        for at in range(0, max(1, len(form) - _ECHOED + 1))
    )
    return any(window in searched for window in windows if len(window) >= _ECHOED)


def without_secret(text: str, secret: str) -> str:
    """Return a reply's text without the key of its request, because stored replies may be shared.

    The complete key is removed: plain, reversed, and in base64, percent, hexadecimal, JSON or HTML escapes. Parts of
    the key stay, because words of a reply may look like them.
    """
    if len(secret) < _SHORTEST_SECRET:
        return text
    raw = secret.encode()
    forms = [secret, secret[::-1], quote(secret, safe=""), raw.hex(), raw.hex().upper()]
    for escape in ("%{:02x}", "%{:02X}", "\\u{:04x}", "\\u{:04X}", "&#{};", "&#x{:x};", "&#x{:X};"):
        forms.append("".join(map(escape.format, raw)))
    for before in range(3):  # base64 depends on the key's position in a group of three bytes
        encoded = base64.b64encode(b" " * before + raw).decode()[4 if before else 0 : -4]
        forms += [encoded, encoded.replace("+", "-").replace("/", "_")]
    if not any(form in text for form in forms):
        return text
    scrubbed = re.compile(rf"[\w+/=-]{{0,4}}(?:{'|'.join(map(re.escape, forms[-6:]))})[\w+/=-]{{0,4}}").sub("…", text)
    for form in forms[:-6]:
        scrubbed = scrubbed.replace(form, "…")
    return scrubbed


def _request_advice(error: openai.APIStatusError) -> str:
    if error.status_code == 404:
        return "check the model's name and the base URL"
    if "context_length_exceeded" in _codes(error.body):
        return "shorten the conversation or choose a model with a larger context"
    if _ABOUT_PICTURES.search(error_words(error.body)):
        return "if it takes no such picture, choose a model that does, or run without pictures"
    return _REQUEST_ADVICE


def _codes(body: object) -> Iterator[str]:
    """Yield the codes and types of an error body, outermost first."""
    while isinstance(body, Mapping | list):
        if isinstance(body, list):
            body = body[0] if body else None
            continue
        yield from (str(body[key]) for key in ("code", "type", "status") if body.get(key))
        body = body.get("error") or body.get("innererror") or body.get("inner_error")


_WORDS_IN = (
    "message", "msg", "detail", "details", "error_message", "error_description", "error", "errors", "reason",
    "description", "title", "code",
)  # fmt: skip
"""Keys of an error's words, the best first."""
_HEARTBEATS = ("ping", "heartbeat", "keepalive", "keep-alive")
_ERROR_KEYS = ("error", "errors", "detail", "error_message")
_TITLE = re.compile(r"<(title|h1)[^>]{0,200}>([^<]{1,300})", re.IGNORECASE)
_MOST_ERRORS, _DEEPEST_ERROR = 3, 8


def error_words(body: object, depth: int = 0) -> str:
    """Return the words of an error in any shape: text, a web page, or JSON, first of all those under a usual key.

    A refused field is named before them: ``{"loc": ["body", "seed"], "msg": "not permitted"}`` is
    "body.seed: not permitted".
    """
    if depth > _DEEPEST_ERROR:
        return ""
    if isinstance(body, str):
        text = body.strip()
        if text[:1] in ("{", "[") and not isinstance(parsed := read_error(text), str):
            return error_words(parsed, depth + 1)
        if text[:1] == "<":
            title = title_of(text)
            return f"a web page: {title}" if title else "a web page"
        return text
    if isinstance(body, list):
        found = (error_words(item, depth + 1) for item in body[:_MOST_ERRORS])
        return "; ".join(words for words in found if words)
    if not isinstance(body, Mapping):
        return "" if body is None or isinstance(body, bool) else str(body)
    words = next((words for key in _WORDS_IN if (words := error_words(body.get(key), depth + 1))), "")
    if not words:  # {"stream_options": ["is not allowed"]}, {"base_resp": {"status_msg": "no credit"}}
        under = ((key, error_words(value, depth + 1)) for key, value in islice(body.items(), _MOST_ERRORS))
        words = "; ".join(f"{key}: {value}" for key, value in under if value)
    place = body.get("loc") or body.get("param") or body.get("field")
    named = ".".join(map(str, place)) if isinstance(place, list) else str(place or "")
    return f"{named}: {words}" if named and named not in words else words


def is_error(chunk: object) -> bool:
    """Return whether a JSON value that came in place of a reply or one of its chunks is an error."""
    if isinstance(chunk, list):
        return bool(chunk) and is_error(chunk[0])
    if not isinstance(chunk, dict):
        return False
    if chunk.get("error") or "error" in (chunk.get("object"), chunk.get("type")):
        return True
    if has_choices(chunk) or is_heartbeat(chunk):
        return False
    return any(chunk.get(key) for key in _ERROR_KEYS) or isinstance(chunk.get("message"), str)


def has_choices(chunk: object) -> bool:
    return isinstance(chunk, dict) and chunk.get("choices") is not None


def is_heartbeat(chunk: object) -> bool:
    return isinstance(chunk, dict) and (chunk.get("object") or chunk.get("type")) in _HEARTBEATS


def read_error(text: str) -> object:
    """Return the JSON value of an error's text, or the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def title_of(page: str) -> str:
    """Return the title or first heading of a web page on one line; empty without one."""
    title = _TITLE.search(page[:_READ])
    return " ".join(html.unescape(title[2]).split()) if title else ""


def _is_disconnect(error: BaseException) -> bool:
    """Distinguish a dropped connection from a timeout: the aiohttp transport reports both as timeouts."""
    return any(
        isinstance(cause, aiohttp.ClientConnectionError) and not isinstance(cause, aiohttp.ServerTimeoutError)
        for cause in _causes(error)
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
