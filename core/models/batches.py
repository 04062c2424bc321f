"""Calls that can wait, sent together by OpenAI's and Azure's Batch API: half the price, done within a day.

Calls are collected until no more come, and go as one batch. What was sent is written down before a batch is made, and
its id with it: a process that is ended, and asks the same again days later, finds the batch and pays for nothing twice.
A failed look at a batch is no failure of the batch. What a batch did not come to is asked again in the next one.
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
"""Seconds without a further call after which those that were collected are sent."""
FIRST_LOOK_S, MOST_LOOK_S, SLOWER = 5.0, 300.0, 1.5
"""Seconds until a batch is looked at first, between two looks at most, and by how much longer each wait is."""
_MOST_LINES, _MOST_BYTES = 50_000, 150_000_000
"""Of one batch; OpenAI and Azure take 50,000 requests and 200 MB."""
_KEPT_S = 32 * 86_400.0
"""Providers keep what came of a batch for 30 days."""
_CLOCKS_DIFFER_S = 3_600.0
_TRIES = 5
_OVER = ("completed", "expired", "cancelled")
_TOKEN = "anamnesis"
"""Under which a batch bears our word for it, by which it is found where its id was never heard."""

log = logging.getLogger(__name__)


def has_batches(spec: ModelSpec) -> bool:
    """Say whether a model is known to be served by a Batch API: by its entry, or because of where it is."""
    if spec.is_application or spec.served_locally:
        return False
    known = spec.kind == "azure" or urlsplit(spec.base_url or "").hostname == "api.openai.com"
    return known if spec.batch is None else spec.batch


@dataclass
class _Batch:
    """One batch; ``asked`` are the ids of its requests, ``batch_id`` is ``None`` until the provider has named it."""

    token: str
    address: str
    model: str
    asked: list[str]
    created_at: float
    batch_id: str | None = None


@dataclass
class _Sent:
    """A batch as it is followed: requests that nobody has kept the replies of, and its lines once they are here."""

    batch: _Batch
    open: set[str]
    lines: dict[str, Mapping[str, Any]] | None = None
    following: asyncio.Task[None] | None = None
    done: int = 0


class Batches:
    """All that one process has in batches; ``folder`` is where they are written down, beside the journals."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or paths.journals_folder() / "batches"
        self._desks: dict[tuple[str, str], Desk] = {}

    def desk(self, spec: ModelSpec, client: Callable[[], AsyncOpenAI], secrets: tuple[str, ...]) -> Desk:
        """Return where calls of a model are handed in: a batch is of one model."""
        key = (str(spec.base_url), spec.model_id)
        if key not in self._desks:
            self._desks[key] = Desk(self.folder, spec, client, secrets)
        return self._desks[key]

    def waiting(self) -> dict[str, Any] | None:
        """Return since when (seconds since 1970) how many requests are in batches and how many of them are done.

        With all of it in ``words``; ``None`` where none is under way.
        """
        sent = [one for desk in self._desks.values() for one in desk.sent if one.following and one.lines is None]
        if not sent:
            return None
        since, of = min(one.batch.created_at for one in sent), sum(len(one.batch.asked) for one in sent)
        done = sum(one.done for one in sent)
        at = time.strftime("%Y-%m-%d %H:%M", time.gmtime(since))
        what = "a batch" if len(sent) == 1 else f"{len(sent)} batches"
        words = f"waiting for {what} since {at} UTC: {done:,} of {of:,} requests done"
        return {"since": since, "done": done, "of": of, "words": words}

    async def aclose(self) -> None:
        """Look no further; batches go on at the provider, and are found again."""
        desks, self._desks = list(self._desks.values()), {}
        for desk in desks:
            await desk.aclose()


class Desk:
    """Collects the calls of one model at one address, sends them, and hands their replies out."""

    def __init__(
        self, folder: Path, spec: ModelSpec, client: Callable[[], AsyncOpenAI], secrets: tuple[str, ...]
    ) -> None:
        self._folder, self._spec, self._client, self._secrets = folder, spec, client, secrets
        self._address = str(spec.base_url)
        # Azure's lines leave the version out
        self._endpoint: Any = "/chat/completions" if spec.kind == "azure" else "/v1/chat/completions"
        self._unsent: dict[str, Mapping[str, Any]] = {}
        self._asked: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        self._given = set[str]()
        self._changed = 0.0
        self._settling: asyncio.Task[None] | None = None
        self.sent = list(self._found_again())

    async def ask(self, body: Mapping[str, Any]) -> tuple[Mapping[str, Any], Callable[[], None]]:
        """Return the line of a call's reply, and what is to be told once it is journaled.

        Who asks the same for the same call again had no use for the line that it was given.
        """
        asked = orjson.dumps([CALL.get() or uuid.uuid4().hex, body])
        name = hashlib.sha256(asked).hexdigest()[:40]
        if name in self._given:
            self._given.discard(name)
            self._strike(name)
        future: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[name] = future
        held = next((one for one in self.sent if name in one.open), None)
        if held is None:
            self._unsent[name] = body
            self._changed = time.monotonic()
            if self._settling is None or self._settling.done():
                self._settling = asyncio.create_task(self._send_when_quiet())
        elif held.lines is not None:
            self._hand_out(held, name)
        elif held.following is None:
            held.following = asyncio.create_task(self._follow(held))
        try:
            line = await future
        finally:
            self._asked.pop(name, None)
            self._unsent.pop(name, None)
        if (_response_of(line) or {}).get("status_code") != 200:
            self._strike(name)  # nothing was charged: the next batch asks again
            raise AttemptFailed(self._failure_of(line))
        self._given.add(name)
        return line, lambda: self._strike(name)

    async def aclose(self) -> None:
        """End what follows batches."""
        tasks = [task for task in (self._settling, *(one.following for one in self.sent)) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _found_again(self) -> list[_Sent]:
        """Return the batches of earlier processes of which somebody may still want replies."""
        found = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                written, batch = path.stat().st_mtime, _Batch(**orjson.loads(path.read_bytes()))
            except FileNotFoundError:  # another process is through with it
                continue
            if time.time() - written > _KEPT_S:
                self._forget(path.stem)
                continue
            if (batch.address, batch.model) == (self._address, self._spec.model_id):
                struck = path.with_suffix(".done")
                kept = set(struck.read_text().split()) if struck.exists() else set[str]()
                found.append(_Sent(batch, set(batch.asked) - kept))
        return found

    def _write(self, batch: _Batch) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{batch.token}.json"
        path.with_suffix(".new").write_bytes(orjson.dumps(asdict(batch)))
        path.with_suffix(".new").replace(path)

    def _forget(self, token: str) -> None:
        for suffix in (".json", ".done"):
            (self._folder / f"{token}{suffix}").unlink(missing_ok=True)

    def _strike(self, name: str) -> None:
        """Take note that a line was kept or was of no use: nobody is given it again."""
        for one in [one for one in self.sent if name in one.open]:
            one.open.discard(name)
            with (self._folder / f"{one.batch.token}.done").open("a") as file:
                file.write(f"{name}\n")
            if not one.open:
                self.sent.remove(one)
                self._forget(one.batch.token)

    async def _send_when_quiet(self) -> None:
        while self._unsent:
            if (left := self._changed + SETTLE_S - time.monotonic()) > 0:
                await asyncio.sleep(left)
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
            self._write(batch)  # from here on a batch may be made, and paid for, of which no answer is heard

            async def make() -> str:
                if (known := await self._named(batch)) is not None:
                    return known
                made = await client.batches.create(
                    input_file_id=file.id,
                    endpoint=self._endpoint,
                    completion_window="24h",
                    metadata={_TOKEN: batch.token},
                )
                return str(made.id)

            batch.batch_id = await self._patiently(make, "make a batch")
        except ProviderError as error:
            if error.kind in ("auth", "bad_request"):  # else there may be a batch all the same: the next go looks
                self._forget(batch.token)
            raise
        self._write(batch)
        sent = _Sent(batch, set(lines))
        self.sent.append(sent)
        log.info("%s: batch %s of %d requests", self._spec.name, batch.batch_id, len(lines))
        sent.following = asyncio.create_task(self._follow(sent))

    async def _named(self, batch: _Batch) -> str | None:
        """Return the id under which a provider has a batch, among those since it was written down."""
        async for one in self._client().batches.list(limit=100):
            if (one.metadata or {}).get(_TOKEN) == batch.token:
                return str(one.id)
            if one.created_at < batch.created_at - _CLOCKS_DIFFER_S:
                break
        return None

    async def _patiently(self, do: Callable[[], Awaitable[Any]], what: str) -> Any:
        """Do what may fail for a moment; raise ``ProviderError`` that ends a job where it does not heal."""
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

    async def _follow(self, sent: _Sent) -> None:
        """Look at a batch until it is over, and hand its lines out."""
        batch, wait = sent.batch, FIRST_LOOK_S
        while True:
            try:
                if batch.batch_id is None and (found := await self._named(batch)) is not None:
                    batch.batch_id = found
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
                    sent.following = None
                    words = f"{self._spec.name}: its batch cannot be looked at: {failure and failure.what}."
                    return self._fail(sent.open, ProviderError("auth", words, attempts=0) if failure else error)
                if failure.kind == "bad_request":
                    log.warning("%s no longer knows its batch (%s): it is asked again.", self._spec.name, failure.what)
                    break
                log.info("%s: %s; the batch goes on", self._spec.name, failure.what)
            await asyncio.sleep(wait)
            wait = min(wait * SLOWER, MOST_LOOK_S)
        sent.lines = sent.lines or {}
        for name in [name for name in sent.open if name in self._asked]:
            self._hand_out(sent, name)

    async def _look(self, sent: _Sent) -> bool:
        """Look at a batch once; say whether its lines are here, and raise ``ProviderError`` where it was refused."""
        client = self._client()
        found = await client.batches.retrieve(str(sent.batch.batch_id))
        if found.request_counts is not None:
            sent.done = found.request_counts.completed + found.request_counts.failed
        if found.status == "failed":
            told = (found.errors and found.errors.data) or []
            faults = [clean(one.message or one.code or "", self._secrets) for one in told[:3]]
            why = "; ".join(dict.fromkeys(filter(None, faults))) or "without a reason"
            words = f"{self._spec.name}: its provider refused the batch ({why}). Nothing was charged."
            raise ProviderError("bad_request", words, attempts=0)
        if found.status not in _OVER:
            return False
        lines: dict[str, Mapping[str, Any]] = {}
        for file in filter(None, (found.output_file_id, found.error_file_id)):
            content = await client.files.content(file)
            for raw in content.content.splitlines():
                try:
                    line = orjson.loads(raw)
                    lines[line["custom_id"]] = line
                except (ValueError, KeyError, TypeError):
                    log.warning("%s: a line of its batch cannot be read, and is asked again.", self._spec.name)
        sent.lines = lines
        return True

    def _hand_out(self, sent: _Sent, name: str) -> None:
        line = (sent.lines or {}).get(name) or {"error": {"code": "batch_expired", "message": "it was not done"}}
        future = self._asked.get(name)
        if future is not None and not future.done():
            future.set_result(line)

    def _fail(self, names: Any, error: BaseException) -> None:
        for name in list(names):
            future = self._asked.get(name)
            if future is not None and not future.done():
                future.set_exception(error)

    def _failure_of(self, line: Mapping[str, Any]) -> Failure:
        response = _response_of(line)
        if response is None:
            told = line.get("error") or {}
            what = f"the batch ended without it ({clean(str(told.get('code') or told), self._secrets)})"
            return Failure("timeout", what, "the same command asks again", retry=True)
        status, body = int(response.get("status_code") or 500), response.get("body")
        told = body.get("error", body) if isinstance(body, Mapping) else body
        answer = httpx2.Response(status, request=httpx2.Request("POST", self._address))
        failure = classify(openai.APIStatusError("", response=answer, body=told), self._secrets)
        assert failure is not None
        return failure


def _response_of(line: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found = line.get("response")
    return found if isinstance(found, Mapping) else None
