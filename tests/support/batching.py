"""A fake provider with the Batch API of OpenAI and Azure: upload a file, create a batch from it, download its lines."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.support.fake_provider import FakeProvider, whole
from tests.support.replies import Reply


@dataclass
class Made:
    """A batch at the provider: the bodies of its requests by id, and the lines of its result."""

    batch_id: str
    requests: dict[str, dict[str, Any]]
    metadata: dict[str, str]
    endpoint: str
    urls: set[str]
    looks: int = 0
    lines: dict[str, list[str]] = field(default_factory=dict)


class BatchProvider(FakeProvider):
    """A reply with a status other than 200 is a failed line, and ``EXPIRED`` a line that was not done in time.

    A batch is in progress for the first ``looks`` status requests, and with ``on_hold`` for all. The first ``broken``
    status requests get 503, the replies to the first ``unheard`` creations are lost, and a text in ``refused`` is the
    reason why every batch fails.
    """

    on_hold = False
    looks = broken = unheard = 0
    refused = ""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.made: dict[str, Made] = {}
        self._files: dict[str, bytes] = {}
        self._numbers = itertools.count(1)

    def routes(self) -> list[web.RouteDef]:
        return [
            *super().routes(),
            *(
                route
                for prefix in ("/v1", "/openai")
                for route in (
                    web.post(f"{prefix}/files", self._take_file),
                    web.get(f"{prefix}/files/{{name}}/content", self._give_file),
                    web.post(f"{prefix}/batches", self._make),
                    web.get(f"{prefix}/batches", self._list),
                    web.get(f"{prefix}/batches/{{name}}", self._look),
                )
            ),
        ]

    @property
    def charged(self) -> int:
        """Number of requests of batches that have a reply."""
        return sum(len(made.lines["out"]) for made in self.made.values())

    async def _take_file(self, request: web.Request) -> web.Response:
        form = await request.post()
        upload: Any = form["file"]
        name = f"file-{next(self._numbers)}"
        assert form["purpose"] == "batch"
        self._files[name] = upload.file.read()
        return web.json_response({"id": name, "object": "file", "purpose": "batch", "filename": upload.filename})

    async def _give_file(self, request: web.Request) -> web.Response:
        return web.Response(body=self._files[request.match_info["name"]])

    async def _make(self, request: web.Request) -> web.Response:
        fields = await request.json()
        lines = [json.loads(raw) for raw in self._files[fields["input_file_id"]].splitlines()]
        made = Made(
            f"batch-{next(self._numbers)}",
            {line["custom_id"]: line["body"] for line in lines},
            fields["metadata"],
            fields["endpoint"],
            {line["url"] for line in lines},
        )
        made.lines = {"out": [], "err": []}
        for name, body in () if self.refused else made.requests.items():
            reply = self._next_reply(body)
            done: dict[str, Any] = {"custom_id": name, "response": None, "error": None}
            if reply is EXPIRED:
                made.lines["err"].append(json.dumps({**done, "error": {"code": "batch_expired", "message": "late"}}))
                continue
            good = reply.status == 200
            answer = {"status_code": reply.status, "body": whole(reply) if good else reply.error}
            made.lines["out" if good else "err"].append(json.dumps({**done, "response": answer}))
        self.made[made.batch_id] = made
        for kind, out in made.lines.items():
            self._files[f"{made.batch_id}-{kind}"] = "\n".join(out).encode()
        if self.unheard:
            self.unheard -= 1
            return web.Response(status=503)
        return web.json_response(self._state_of(made))

    async def _list(self, request: web.Request) -> web.Response:
        batches = [self._state_of(made) for made in reversed(self.made.values())]
        return web.json_response({"object": "list", "data": batches, "has_more": False})

    async def _look(self, request: web.Request) -> web.Response:
        if self.broken:
            self.broken -= 1
            return web.Response(status=503)
        made = self.made[request.match_info["name"]]
        made.looks += 1
        return web.json_response(self._state_of(made))

    def _state_of(self, made: Made) -> dict[str, Any]:
        over = not self.on_hold and made.looks > self.looks
        total = len(made.requests)
        state: dict[str, Any] = {
            "id": made.batch_id,
            "object": "batch",
            "endpoint": made.endpoint,
            "completion_window": "24h",
            "created_at": int(time.time()),
            "input_file_id": "file-1",
            "metadata": made.metadata,
            "status": "completed" if over else "in_progress",
            "request_counts": {"total": total, "completed": total if over else total // 2, "failed": 0},
        }
        if self.refused:
            return {**state, "status": "failed", "errors": {"data": [{"code": "no", "message": self.refused}]}}
        if over:
            files = {
                f"{long}_file_id": f"{made.batch_id}-{kind}" for long, kind in (("output", "out"), ("error", "err"))
            }
            state |= {name: file for name, file in files.items() if self._files[file]}
        return state


EXPIRED = Reply(status=0)
