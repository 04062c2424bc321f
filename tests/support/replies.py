"""Replies of a fake provider, and some scripts that choose them.

A script is a callable that gets the request body and returns a ``Reply`` (or just its text), or a list of replies:
one a request, in order, the last one again for every further request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reply:
    """One answer. If ``status`` is not 200, ``error`` is its body and no other field matters.

    ``deltas`` are sent unchanged before the text; ``chunks`` replace the text, which is otherwise sent word by word.
    ``raw`` replaces everything after the headers, sent piece by piece unchanged, with the content type ``kind``.
    ``finish_always`` sends the finish reason with every piece.
    ``thought`` is the number of reasoning tokens in the usage, and ``details`` are its other fields.
    ``delay_s`` passes before anything is sent, ``piece_delay_s`` before each piece. With ``until``, the reply is sent
    once it is true, or after a minute and a half. After this number of pieces,
    ``cut_after`` breaks the connection off, ``end_after`` ends the stream in order but unfinished, ``stall_after``
    sends nothing more, ``garbage_after`` sends a line that is no JSON, and ``error_after`` sends ``error`` inside the
    stream. A number one above the number of pieces means after the finish and before the usage.
    """

    text: str = "I have had a red rash on my arm for two days."
    status: int = 200
    error: Mapping[str, Any] | str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    piece_delay_s: float = 0.0
    until: Callable[[], object] = lambda: True
    cut_after: int | None = None
    end_after: int | None = None
    stall_after: int | None = None
    garbage_after: int | None = None
    error_after: int | None = None
    finish_reason: str = "stop"
    finish_always: bool = False
    raw: Sequence[str] = ()
    kind: str = "text/event-stream"
    refusal: str | None = None
    usage: tuple[int, int] | None = (11, 7)
    model: str = "fake-1"
    deltas: Sequence[Mapping[str, Any]] = ()
    chunks: Sequence[str] = ()
    thought: Any = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pieces(self) -> list[str]:
        """The pieces in which the reply is streamed: ``chunks``, or else its words."""
        if self.chunks:
            return list(self.chunks)
        words = self.text.split(" ")
        return [word if i == 0 else f" {word}" for i, word in enumerate(words)] if self.text else []


Script = Callable[[dict[str, Any]], "Reply | str"] | Sequence["Reply | str"]


def failing(status: int, message: str = "it failed", code: str | None = None, **headers: str) -> Reply:
    """Answer with an error in OpenAI's form; ``headers`` with underscores for hyphens."""
    error = {"error": {"message": message, "type": "error", "code": code}}
    return Reply(status=status, error=error, headers={name.replace("_", "-"): value for name, value in headers.items()})


def rate_limited(retry_after: str | None = None) -> Reply:
    """Answer 429, without a Retry-After header if it is ``None``."""
    headers = {"Retry-After": retry_after} if retry_after is not None else {}
    return Reply(status=429, error={"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, headers=headers)


def content_filtered() -> Reply:
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {}}
    error = {"message": "The response was filtered", "code": "content_filter", "status": 400, "innererror": inner}
    return Reply(status=400, error={"error": error})


def demo(body: dict[str, Any]) -> str:
    """Answer as a patient with a rash, as long as one is asked; a final diagnosis when asked for one."""
    question = str(body["messages"][-1]["content"]).lower()
    if "diagnosis" in question:
        return "Final Diagnosis: contact dermatitis"
    return "Yes, it itches, and it began two days ago after I worked in the garden."


def by_age(body: dict[str, Any]) -> Reply:
    """Answer gout for a man of an even age and bunion for one of an odd age, after a tenth of a second."""
    age = re.search(r"A (\d+)-year-old", str(body["messages"]))
    return Reply(f"**Final Diagnosis:** {'Gout' if age and int(age[1]) % 2 == 0 else 'Bunion'}", delay_s=0.1)


def prompt_of(body: Mapping[str, Any]) -> str:
    """Return all messages of a request as one text."""
    return "\n".join(str(message["content"]) for message in body["messages"])


NO_PLACES = '{"q1": {"quotations": []}}'
"""The reply of a judge who finds no place that a form with one question asks for."""


def facts_judged(
    prompt: str, marks: Mapping[str, Mapping[str, Any]] | None = None, invented: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Answer as a judge of facts: text of a fact → its entry in ``marks``, and never_asked for the others."""
    asked = re.findall(r"^Question (q\d+): What became of this fact: (.*)$", prompt, re.MULTILINE)
    never = {"quotations": [], "reason": "So.", "answer": "never_asked"}
    entries = {name: {**never, **(marks or {}).get(fact, {})} for name, fact in asked}
    return json.dumps({**entries, f"q{len(asked) + 1}": {"quotations": list(invented)}})


def rating(words: str, value: object) -> str:
    """Return a patient's reply to the form on empathy, with words of the doctor."""
    answer = {"quotations": [{"words": words}], "reason": "She listened.", "answer": str(value)}
    return json.dumps({"q1": answer})
