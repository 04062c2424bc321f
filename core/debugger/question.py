"""A question to a model beside any trial (sections of a vignette, its facts, marks), asked in a thread of its own.

It runs in a ``core.live.session.Session``, so that whoever watches can stop it and read why it failed.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

from core.agents.base import CallFailed
from core.agents.calls import Voice
from core.events import Called, Token
from core.frameworks.base import default_pack
from core.live.session import Session
from core.models.base import Sampling
from core.models.registry import load_registry
from core.prompts import PromptPack

Ask = Callable[[Voice, PromptPack], AsyncIterator[Any]]
"""Asks a model: yields ``Token`` and ``Called`` events, and last what came of it."""


def ask_model(model: str, ask: Ask, *, pack: str = "", base_url: str | None = None) -> Session:
    """Start asking; the model is sampled at temperature 0.

    Raises ``UsageError`` for an unknown model or pack and for a missing key; a provider's failure is in
    ``Session.error``.
    """
    registry = load_registry()
    prompts = default_pack(pack)
    voice = Voice(registry.open(model, base_url=base_url), Sampling(temperature=0.0))
    session = Session(key=f"question-{uuid.uuid4().hex[:12]}", title=model, paced=False)

    async def source(_: Session) -> AsyncIterator[Any]:
        async with registry:
            try:
                async for item in ask(voice, prompts):
                    yield item
            except CallFailed as failure:
                yield failure.called
                raise failure.error from failure

    session.start(source)
    return session


def outcome_of(session: Session) -> Any | None:
    """Return what came of it, or ``None`` while it runs and where it failed or was stopped."""
    found = [item for item in session.snapshot() if not isinstance(item, Token | Called)]
    return found[-1] if found and not session.running else None
