"""Judges of rubrics as scripts of the fake provider."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.replies import Script

Decide = Callable[[str, list[tuple[int, str]]], Mapping[str, Any]]
"""Criterion, and (number, text) of the messages → quotations, reason, answer."""


def prompt_of(body: Mapping[str, Any]) -> str:
    return "\n".join(str(message["content"]) for message in body["messages"])


def criteria_in(prompt: str) -> list[tuple[str, str]]:
    """Return (name, criterion) as a judge reads them in its prompt."""
    return re.findall(r"^Question (q\d+): (.*)$", prompt, re.MULTILINE)


def messages_in(prompt: str) -> list[tuple[int, str]]:
    return [(int(number), text) for number, text in re.findall(r"^\[(\d+)\] [^:]+: (.*)$", prompt, re.MULTILINE)]


def judge(decide: Decide) -> Script:
    def script(body: dict[str, Any]) -> str:
        prompt = prompt_of(body)
        messages = messages_in(prompt)
        return json.dumps({name: decide(text, messages) for name, text in criteria_in(prompt)})

    return script


def by_last_word(criterion: str, messages: list[tuple[int, str]]) -> dict[str, Any]:
    """A criterion is met if the last word of it is in a message, which is quoted."""
    word = re.findall(r"\w+", criterion)[-1].lower()
    for number, text in messages:
        if match := re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE):
            return verdict("met", (number, match[0]))
    return verdict("not met")


def invented(criterion: str, messages: list[tuple[int, str]]) -> dict[str, Any]:
    """Quote words that no message has, whatever the verdict."""
    met = by_last_word(criterion, messages)["answer"] == "met"
    return verdict("met" if met else "not met", (0, "Have you ever been to Saturn?"))


def noisy(share: float, seed: str = "") -> Decide:
    """Return a judge that turns the verdict of ``by_last_word`` around in a share of criteria, by their order."""
    calls = 0

    def decide(criterion: str, messages: list[tuple[int, str]]) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        draw = int(hashlib.sha256(f"{seed} {calls}".encode()).hexdigest()[:8], 16) / 16**8
        judged = by_last_word(criterion, messages)
        if draw >= share:
            return judged
        return verdict("not met") if judged["answer"] == "met" else verdict("met", (messages[0][0], messages[0][1]))

    return decide


def verdict(word: str, *quoted: tuple[int, str]) -> dict[str, Any]:
    quotations = [{"message": number, "words": words} for number, words in quoted]
    return {"quotations": quotations, "reason": "because", "answer": word}
