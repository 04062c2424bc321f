"""Pictures and cache marks of messages: content parts where they are sent, a few words wherever a request is kept.

Only a local file's bytes are ever sent, as a base64 data URL, and only at the moment of sending.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.errors import ProviderError, UsageError
from core.images import Image, data_url
from core.models.base import Message, message
from core.models.spec import ModelSpec

TOKENS_A_PICTURE = 765
"""What a picture is taken to cost before a provider has said: a 1024 × 1024 one in OpenAI's guide to GPT-4o's vision
(85 tokens, and 170 for each of four tiles of 512 pixels). Other models count otherwise, from about 250 to 6,400."""


CACHE_MARK = {"type": "ephemeral"}
"""Anthropic's, as OpenRouter takes it too: all up to the message that bears it is kept for five minutes."""


def recorded(sent: Message) -> dict[str, Any]:
    """Return a message as it is kept: of each picture its hash, type, size and name, never its bytes."""
    kept: dict[str, Any] = {"role": sent["role"], "content": sent["content"]}
    if images := sent.get("images"):
        kept["images"] = [image.model_dump(exclude_defaults=True) for image in images]
    return kept


def read_back(kept: Mapping[str, Any]) -> Message:
    """Return a kept message as it can be sent again."""
    images = tuple(Image.model_validate(image) for image in kept.get("images") or ())
    return message(kept["role"], kept["content"], images)


def pictures_of(messages: Sequence[Message]) -> tuple[Image, ...]:
    """Return the pictures of messages, each once."""
    return tuple(dict.fromkeys(image for sent in messages for image in sent.get("images", ())))


def data_urls(messages: Sequence[Message]) -> dict[str, str]:
    """Return hash → data URL of the pictures of messages; raise ``ProviderError`` where a file is gone or changed.

    No request is made then, and what depended on the call is excluded like any other that could not be made.
    """
    try:
        return {image.sha256: data_url(image) for image in pictures_of(messages)}
    except UsageError as error:
        raise ProviderError("picture", str(error), attempts=0) from None


def with_parts(body: Mapping[str, Any], urls: Mapping[str, str]) -> Mapping[str, Any]:
    """Return a kept body as it is sent: a message with pictures or a mark as content parts, pictures before words."""
    if not any("images" in kept or "cache_control" in kept for kept in body["messages"]):
        return body
    return {**body, "messages": [_parts(kept, urls) for kept in body["messages"]]}


def _parts(kept: Mapping[str, Any], urls: Mapping[str, str]) -> Mapping[str, Any]:
    shown = [{"type": "image_url", "image_url": {"url": urls[image["sha256"]]}} for image in kept.get("images", ())]
    mark = {name: kept[name] for name in ("cache_control",) if name in kept}
    if not shown and not mark:
        return kept
    return {"role": kept["role"], "content": [*shown, {"type": "text", "text": kept["content"], **mark}]}


def refusal(spec: ModelSpec) -> str:
    """Return why a model cannot be sent pictures, in a sentence; empty where nothing is known against it."""
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
    """Raise ``ProviderError`` where a model that takes no pictures would be sent one."""
    if pictures_of(messages) and (why := refusal(spec)):
        raise ProviderError("bad_request", why, attempts=0)
