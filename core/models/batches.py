"""Calls through the Batch API of OpenAI and Azure: half the price, done within a day.

Calls are collected until no more arrive, and sent as one batch. The batch is recorded in a file before the provider
creates it, so that a later process with the same calls finds it and pays for nothing twice. A failed poll of a batch
is not a failure of the batch. Requests that a batch did not finish go into the next batch.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
import orjson
from openai import AsyncOpenAI

from core import paths
from core.errors import ProviderError
from core.models.base import CALL
from core.models.classify import classify, clean
from core.models.failures import AttemptFailed, Failure
from core.models.spec import ModelSpec

SETTLE_S = 2.0
"""Seconds without a new call before the collected calls are sent."""
FIRST_LOOK_S, MOST_LOOK_S, SLOWER = 5.0, 300.0, 1.5
"""Seconds to the first poll of a batch, longest wait between two polls, and growth factor of the wait."""
_MOST_LINES, _MOST_BYTES = 50_000, 150_000_000
"""Limits of one batch; OpenAI and Azure accept 50,000 requests and 200 MB."""
_KEPT_S = 32 * 86_400.0
"""Age after which a batch is forgotten: providers keep its results for 30 days."""
_CLOCKS_DIFFER_S = 3_600.0
_TRIES = 5
_OVER = ("completed", "expired", "cancelled")
_TOKEN = "anamnesis"
"""Metadata key of our token, by which a batch is found if the provider's reply with its id was lost."""

log = logging.getLogger(__name__)


def has_batches(spec: ModelSpec) -> bool:
    """Return whether a model has a Batch API, by its entry or by its address."""
    if spec.is_application or spec.served_locally:
        return False
    has_api = spec.kind == "azure" or urlsplit(spec.base_url or "").hostname == "api.openai.com"
    return has_api if spec.batch is None else spec.batch


@dataclass
class _Batch:
    """One batch as stored in its file; ``asked`` are the ids of its requests, ``batch_id`` is the provider's id."""

    token: str
    address: str
    model: str
    asked: list[str]
    created_at: float
    batch_id: str | None = None


@dataclass
class _SentBatch:
    """A batch that is polled: ``open`` requests, whose replies are not journaled yet, and its lines when it is over."""

    batch: _Batch
    open: set[str]
    lines: dict[str, Mapping[str, Any]] | None = None
    polling: asyncio.Task[None] | None = None
    done: int = 0

    @property
    def is_over(self) -> bool:
        return self.lines is not None


class Batches:
    """All batches of one process; ``folder`` contains their files, next to the journals."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or paths.journals_folder() / "batches"
        self._queues: dict[tuple[str, str], BatchQueue] = {}

    def queue(self, spec: ModelSpec, client: Callable[[], AsyncOpenAI], secrets: tuple[str, ...]) -> BatchQueue:
        """Return the queue of a model: a batch contains calls of one model only."""
        key = (str(spec.base_url), spec.model_id)
        if key not in self._queues:
            self._queues[key] = BatchQueue(self.folder, spec, client, secrets)
        return self._queues[key]

    def waiting(self) -> dict[str, Any] | None:
        """Return the state of the open batches; ``None`` without any.

        Keys: ``since`` (seconds since 1970), ``done`` and ``of`` (requests), and a sentence in ``words``.
        """
        sent = [batch for queue in self._queues.values() for batch in queue.sent if batch.polling and not batch.is_over]
        if not sent:
            return None
        since, of = min(batch.batch.created_at for batch in sent), sum(len(batch.batch.asked) for batch in sent)
        done = sum(batch.done for batch in sent)
        at = time.strftime("%Y-%m-%d %H:%M", time.gmtime(since))
        what = "a batch" if len(sent) == 1 else f"{len(sent)} batches"
        words = f"waiting for {what} since {at} UTC: {done:,} of {of:,} requests done"
        return {"since": since, "done": done, "of": of, "words": words}

    async def aclose(self) -> None:
        """Stop polling; the batches continue at the provider, and a later process finds them."""
        queues, self._queues = list(self._queues.values()), {}
        for queue in queues:
            await queue.aclose()


class BatchQueue:
    """Collects the calls of one model at one address, sends them in batches, and returns their replies."""

    def __init__(
        self, folder: Path, spec: ModelSpec, client: Callable[[], AsyncOpenAI], secrets: tuple[str, ...]
    ) -> None:
        self._folder, self._spec, self._client, self._secrets = folder, spec, client, secrets
        self._address = str(spec.base_url)
        # Azure expects the path without the version
        self._endpoint: Any = "/chat/completions" if spec.kind == "azure" else "/v1/chat/completions"
        self._unsent: dict[str, Mapping[str, Any]] = {}
        self._pending: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        self._delivered = set[str]()
        self._changed = 0.0
        self._settling: asyncio.Task[None] | None = None
        self.sent = list(self._earlier_batches())

    async def ask(self, body: Mapping[str, Any]) -> tuple[Mapping[str, Any], Callable[[], None]]:
        """Return the line of a call's reply, and a function to call when the reply is journaled.

        If the same call makes the same request again, the line that was delivered before was not usable: a new batch
        asks again.
        """
        call = orjson.dumps([CALL.get() or uuid.uuid4().hex, body])
        name = hashlib.sha256(call).hexdigest()[:40]
        if name in self._delivered:
            self._delivered.discard(name)
            self._strike(name)
        future: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._pending[name] = future
        sent = next((batch for batch in self.sent if name in batch.open), None)
        if sent is None:
            self._unsent[name] = body
            self._changed = time.monotonic()
            if self._settling is None or self._settling.done():
                self._settling = asyncio.create_task(self._send_when_quiet())
        elif sent.lines is not None:
            self._deliver(sent, name)
        elif sent.polling is None:
            sent.polling = asyncio.create_task(self._poll(sent))
        try:
            line = await future
        finally:
            self._pending.pop(name, None)
            self._unsent.pop(name, None)
        if (_response_of(line) or {}).get("status_code") != 200:
            self._strike(name)  # nothing was charged: the next batch asks again
            raise AttemptFailed(self._failure_of(line))
        self._delivered.add(name)
        return line, lambda: self._strike(name)

    async def aclose(self) -> None:
        tasks = [task for task in (self._settling, *(batch.polling for batch in self.sent)) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _earlier_batches(self) -> list[_SentBatch]:
        """Return the batches of earlier processes whose replies are still available."""
        batches = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                written, batch = path.stat().st_mtime, _Batch(**orjson.loads(path.read_bytes()))
            except FileNotFoundError:  # another process has just finished the batch
                continue
            if time.time() - written > _KEPT_S:
                self._forget(path.stem)
                continue
            if (batch.address, batch.model) == (self._address, self._spec.model_id):
                struck = path.with_suffix(".done")
                closed = set(struck.read_text().split()) if struck.exists() else set[str]()
                batches.append(_SentBatch(batch, set(batch.asked) - closed))
        return batches

    def _write(self, batch: _Batch) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{batch.token}.json"
        path.with_suffix(".new").write_bytes(orjson.dumps(asdict(batch)))
        path.with_suffix(".new").replace(path)

    def _forget(self, token: str) -> None:
        for suffix in (".json", ".done"):
            (self._folder / f"{token}{suffix}").unlink(missing_ok=True)

    def _strike(self, name: str) -> None:
        """Close a request, whose line was journaled or is unusable; its line is not delivered again."""
        for sent in [sent for sent in self.sent if name in sent.open]:
            sent.open.discard(name)
            with (self._folder / f"{sent.batch.token}.done").open("a") as file:
                file.write(f"{name}\n")
            if not sent.open:
                self.sent.remove(sent)
                self._forget(sent.batch.token)

    async def _send_when_quiet(self) -> None:
        while self._unsent:
            if (wait := self._changed + SETTLE_S - time.monotonic()) > 0:
                await asyncio.sleep(wait)
                continue
            lines, size = dict[str, bytes](), 0
            for name, body in self._unsent.items():
                line = {"custom_id": name, "method": "POST", "url": self._endpoint, "body": body}
                written = orjson.dumps(line) + b"\n"
                if lines and (len(lines) == _MOST_LINES or size + len(written) > _MOST_BYTES):
                    break
                lines[name], size = written, size + len(written)
            for name in lines:
                del self._unsent[name]
            try:
                await self._send(lines)
            except Exception as error:
                self._fail(lines, error)

    async def _send(self, lines: Mapping[str, bytes]) -> None:
        batch = _Batch(uuid.uuid4().hex, self._address, self._spec.model_id, list(lines), time.time())
        client, data = self._client(), b"".join(lines.values())
        try:
            upload = (f"{batch.token}.jsonl", data)
            file = await self._patiently(lambda: client.files.create(file=upload, purpose="batch"), "take the requests")
            self._write(batch)  # before the provider creates the batch: its reply may be lost, and the batch is paid

            async def make() -> str:
                if (existing := await self._find_id(batch)) is not None:
                    return existing
                created = await client.batches.create(
                    input_file_id=file.id,
                    endpoint=self._endpoint,
                    completion_window="24h",
                    metadata={_TOKEN: batch.token},
                )
                return str(created.id)

            batch.batch_id = await self._patiently(make, "make a batch")
        except ProviderError as error:
            if error.kind in ("auth", "bad_request"):  # otherwise the batch may exist: a later process looks for it
                self._forget(batch.token)
            raise
        self._write(batch)
        sent = _SentBatch(batch, set(lines))
        self.sent.append(sent)
        log.info("%s: batch %s of %d requests", self._spec.name, batch.batch_id, len(lines))
        sent.polling = asyncio.create_task(self._poll(sent))

    async def _find_id(self, batch: _Batch) -> str | None:
        """Return the provider's id of a recorded batch, or ``None`` if the provider does not list it."""
        async for listed in self._client().batches.list(limit=100):
            if (listed.metadata or {}).get(_TOKEN) == batch.token:
                return str(listed.id)
            if listed.created_at < batch.created_at - _CLOCKS_DIFFER_S:
                break
        return None

    async def _patiently(self, do: Callable[[], Awaitable[Any]], what: str) -> Any:
        """Run ``do`` with retries; raise a ``ProviderError`` that ends the job if it keeps failing."""
        wait = 1.0
        for number in range(1, _TRIES + 1):
            try:
                return await do()
            except Exception as error:
                failure = classify(error, self._secrets)
                if failure is None:
                    raise
                if not failure.retry or number == _TRIES:
                    advice = "if it has no batch API, leave --batch out"
                    raise ProviderError(
                        failure.kind,
                        f"{self._spec.name}: its provider did not {what}: {failure.what}; {advice}.",
                        attempts=0,
                    ) from None
            await asyncio.sleep(wait)
            wait *= 2

    async def _poll(self, sent: _SentBatch) -> None:
        batch, wait = sent.batch, FIRST_LOOK_S
        while True:
            try:
                if batch.batch_id is None and (batch_id := await self._find_id(batch)) is not None:
                    batch.batch_id = batch_id
                    self._write(batch)
                if batch.batch_id is None or await self._look(sent):
                    break
            except ProviderError as error:
                self.sent.remove(sent)
                self._forget(batch.token)
                return self._fail(sent.open, error)
            except Exception as error:
                failure = classify(error, self._secrets)
                if failure is None or failure.kind == "auth":
                    sent.polling = None
                    words = f"{self._spec.name}: its batch cannot be looked at: {failure and failure.what}."
                    return self._fail(sent.open, ProviderError("auth", words, attempts=0) if failure else error)
                if failure.kind == "bad_request":
                    log.warning("%s no longer knows its batch (%s): it is asked again.", self._spec.name, failure.what)
                    break
                log.info("%s: %s; the batch goes on", self._spec.name, failure.what)
            await asyncio.sleep(wait)
            wait = min(wait * SLOWER, MOST_LOOK_S)
        sent.lines = sent.lines or {}
        for name in [name for name in sent.open if name in self._pending]:
            self._deliver(sent, name)

    async def _look(self, sent: _SentBatch) -> bool:
        """Poll a batch once; return whether it is over, and raise ``ProviderError`` if the provider refused it."""
        client = self._client()
        batch = await client.batches.retrieve(str(sent.batch.batch_id))
        if batch.request_counts is not None:
            sent.done = batch.request_counts.completed + batch.request_counts.failed
        if batch.status == "failed":
            errors = (batch.errors and batch.errors.data) or []
            faults = [clean(error.message or error.code or "", self._secrets) for error in errors[:3]]
            why = "; ".join(dict.fromkeys(filter(None, faults))) or "without a reason"
            words = f"{self._spec.name}: its provider refused the batch ({why}). Nothing was charged."
            raise ProviderError("bad_request", words, attempts=0)
        if batch.status not in _OVER:
            return False
        lines: dict[str, Mapping[str, Any]] = {}
        for file in filter(None, (batch.output_file_id, batch.error_file_id)):
            content = await client.files.content(file)
            for raw in content.content.splitlines():
                try:
                    line = orjson.loads(raw)
                    lines[line["custom_id"]] = line
                except (ValueError, KeyError, TypeError):
                    log.warning("%s: a line of its batch cannot be read, and is asked again.", self._spec.name)
        sent.lines = lines
        return True

    def _deliver(self, sent: _SentBatch, name: str) -> None:
        line = (sent.lines or {}).get(name) or {"error": {"code": "batch_expired", "message": "it was not done"}}
        future = self._pending.get(name)
        if future is not None and not future.done():
            future.set_result(line)

    def _fail(self, names: Any, error: BaseException) -> None:
        for name in list(names):
            future = self._pending.get(name)
            if future is not None and not future.done():
                future.set_exception(error)

    def _failure_of(self, line: Mapping[str, Any]) -> Failure:
        response = _response_of(line)
        if response is None:
            error = line.get("error") or {}
            what = f"the batch ended without it ({clean(str(error.get('code') or error), self._secrets)})"
            return Failure("timeout", what, "the same command asks again", retry=True)
        status, body = int(response.get("status_code") or 500), response.get("body")
        error = body.get("error", body) if isinstance(body, Mapping) else body
        answer = httpx2.Response(status, request=httpx2.Request("POST", self._address))
        failure = classify(openai.APIStatusError("", response=answer, body=error), self._secrets)
        assert failure is not None
        return failure


def _response_of(line: Mapping[str, Any]) -> Mapping[str, Any] | None:
    response = line.get("response")
    return response if isinstance(response, Mapping) else None
