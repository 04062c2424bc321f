"""Pictures kept for a test, and what of a request is one."""

from __future__ import annotations

import base64
from typing import Any

from core.images import Image, keep
from tests.support.pictures import a_picture

COLOURS = ("red", "blue")


def kept_picture(kind: str = "PNG", number: int = 0) -> Image:
    return keep(a_picture(COLOURS[number], kind), f"rash-{number}.{kind.lower()}")


def urls_in(body: dict[str, Any]) -> list[str]:
    """Return the addresses of all pictures that a request's body holds, in order."""
    parts = [part for m in body["messages"] if isinstance(m["content"], list) for part in m["content"]]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def pictures_in(body: dict[str, Any]) -> list[tuple[str, bytes]]:
    """Return type and bytes of all pictures in a body, read back from their data URLs."""
    pictures = []
    for url in urls_in(body):
        kind, _, data = url.removeprefix("data:").partition(";base64,")
        pictures.append((kind, base64.b64decode(data, validate=True)))
    return pictures


def words_in(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Return role and words of each message, whether it went as text or as parts."""
    messages = []
    for message in body["messages"]:
        content = message["content"]
        if isinstance(content, list):
            content = "".join(part["text"] for part in content if part["type"] == "text")
        messages.append((message["role"], content))
    return messages
