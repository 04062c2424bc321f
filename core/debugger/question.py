"""Asks a model outside of trials: for the sections or facts of a vignette, or for marks.

A question runs in a ``core.live.session.Session``, so that the page can stop it and show why it failed. Each reply is
journaled when it arrives; a question that was interrupted continues with the journaled replies when it is asked again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from core import access
from core.asking.calls import Voice
from core.asking.memory import JournaledReplies, ReplyCache
from core.asking.scene import CallFailed
from core.errors import AnamnesisError
from core.events import Called, Token
from core.frameworks.base import default_pack
from core.journal import DoneLine, Journal, journal_path
from core.live.session import Session
from core.models.base import Sampling
from core.models.registry import load_registry
from core.prompts import PromptPack
from core.store.database import Store
from core.store.fold import fold_if_free

Ask = Callable[[Voice, PromptPack], AsyncIterator[Any]]
"""Asks a model: yields ``Token`` and ``Called`` events, and last the outcome."""
JOURNAL = "questions"
"""The journal of questions outside of trials, and the name under which their calls are listed."""


def ask_model(model: str, ask: Ask, about: str, *, base_url: str | None = None) -> Session:
    """Start a question; the model is sampled at temperature 0. ``about`` identifies the question and its subject.

    A question with a readable answer is not sent again: the stored answer is returned. Raises ``UsageError`` for an
    unknown model and for a missing key; a provider's failure is in ``Session.error``.
    """
    registry, prompts = load_registry(), default_pack()
    voice = Voice(registry.open(model, base_url=base_url), Sampling(temperature=0.0))

    async def source(session: Session) -> AsyncIterator[Any]:
        async with registry:
            assert session.replies is not None
            item, unread = None, DoneLine(run_id=JOURNAL, unit=session.key)
            try:
                async for item in ask(voice, prompts):
                    yield item
            except CallFailed as failure:
                yield failure.called
                raise failure.error from failure
            except AnamnesisError:
                await session.replies.journal.append(unread)  # so that the next attempt sends a new request
                raise
            if getattr(item, "unreadable", None):
                await session.replies.journal.append(unread)
            await asyncio.to_thread(fold_if_free, Store())

    access.require("run")
    what = repr((voice.model.name, prompts.hash, about))
    unit = f"{JOURNAL} {hashlib.sha256(what.encode(errors='replace')).hexdigest()[:20]}"
    path = journal_path(JOURNAL)
    session = Session(unit, model, paced=False, listed=JOURNAL)
    # several processes may write to the journal
    memory = JournaledReplies.of(path, about=[unit])
    session.replies = ReplyCache(JOURNAL, Journal(path, shared=True), memory, shared=True)
    session.start(source)
    return session


def outcome_of(session: Session) -> Any | None:
    """Return the outcome of a question; ``None`` while it runs, or if it failed or was stopped."""
    outcomes = [item for item in session.snapshot() if not isinstance(item, Token | Called)]
    return outcomes[-1] if outcomes and not session.running else None
