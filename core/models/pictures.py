"""Pictures and cache marks of messages: content parts in a sent request, references in a stored one.

Only the bytes of local files are sent, as base64 data URLs; they are read when the request is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.errors import ProviderError, UsageError
from core.images import Image, data_url
from core.models.base import Message, message
from core.models.spec import ModelSpec

TOKENS_A_PICTURE = 765
"""Assumed tokens of a picture: 1024 × 1024 pixels in OpenAI's guide to vision with GPT-4o (85 tokens, and 170 for each
of four tiles of 512 pixels). Other models count from about 250 to 6,400 tokens."""


CACHE_MARK = {"type": "ephemeral"}
"""Anthropic's mark, which OpenRouter accepts too: the prompt up to the marked message is cached for five minutes."""


def recorded(sent: Message) -> dict[str, Any]:
    """Return a message for storage: of each picture the hash, type, size and name, not the bytes."""
    stored: dict[str, Any] = {"role": sent["role"], "content": sent["content"]}
    if images := sent.get("images"):
        stored["images"] = [image.model_dump(exclude_defaults=True) for image in images]
    return stored


def read_back(stored: Mapping[str, Any]) -> Message:
    """Return a stored message in the form in which it can be sent again."""
    images = tuple(Image.model_validate(image) for image in stored.get("images") or ())
    return message(stored["role"], stored["content"], images)


def pictures_of(messages: Sequence[Message]) -> tuple[Image, ...]:
    return tuple(dict.fromkeys(image for sent in messages for image in sent.get("images", ())))


def data_urls(messages: Sequence[Message]) -> dict[str, str]:
    """Return hash → data URL of the pictures of messages; raise ``ProviderError`` if a file is missing or changed."""
    try:
        return {image.sha256: data_url(image) for image in pictures_of(messages)}
    except UsageError as error:
        raise ProviderError("picture", str(error), attempts=0) from None


def with_parts(body: Mapping[str, Any], urls: Mapping[str, str]) -> Mapping[str, Any]:
    """Return a stored body in the form in which it is sent: pictures and marks become content parts, pictures first."""
    if not any("images" in stored or "cache_control" in stored for stored in body["messages"]):
        return body
    return {**body, "messages": [_message_with_pictures(stored, urls) for stored in body["messages"]]}


def _message_with_pictures(stored: Mapping[str, Any], urls: Mapping[str, str]) -> Mapping[str, Any]:
    pictures = [
        {"type": "image_url", "image_url": {"url": urls[image["sha256"]]}} for image in stored.get("images", ())
    ]
    mark = {name: stored[name] for name in ("cache_control",) if name in stored}
    if not pictures and not mark:
        return stored
    return {"role": stored["role"], "content": [*pictures, {"type": "text", "text": stored["content"], **mark}]}


def refusal(spec: ModelSpec) -> str:
    """Return a sentence that says why a model takes no pictures; empty if it may take them."""
    if "images" not in spec.unsupported:
        return ""
    if spec.served_locally:
        return (
            f"The model {spec.name} takes no pictures, for local models are served with text only: serve it with vLLM "
            "or another server that takes them and name it openai/… with that server's address, or run without "
            "pictures."
        )
    return f"The model {spec.name} takes no pictures: choose one that does, or run without pictures."


def check_takes(spec: ModelSpec, messages: Sequence[Message]) -> None:
    """Raise ``ProviderError`` for messages with pictures to a model that takes none."""
    if pictures_of(messages) and (why := refusal(spec)):
        raise ProviderError("bad_request", why, attempts=0)
