"""Asks a model beside any trial: sections of a vignette, its facts, marks, or one step of a trial run again.

It runs in a ``core.live.session.Session``, so that whoever watches can stop it and read why it failed. Each reply is
journaled as it comes; what was stopped or broke off goes on with the replies it was given, once it is asked again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from core import access
from core.asking.calls import Voice
from core.asking.memory import JournaledReplies, ReplyCache, StoredReply
from core.asking.scene import CallFailed
from core.errors import AnamnesisError
from core.events import Called, Token
from core.frameworks.base import default_pack
from core.journal import DoneLine, Journal, Line, journal_path
from core.live.session import Session, Source
from core.models.base import Sampling
from core.models.registry import load_registry
from core.prompts import PromptPack
from core.store.database import Store
from core.store.fold import fold_if_free

Ask = Callable[[Voice, PromptPack], AsyncIterator[Any]]
"""Asks a model: yields ``Token`` and ``Called`` events, and last what came of it."""
JOURNAL = "questions"
"""The journal of questions beside trials, and where their calls are listed."""


def ask_model(model: str, ask: Ask, about: str, *, base_url: str | None = None) -> Session:
    """Start asking; the model is sampled at temperature 0. ``about`` says what is asked, and of what.

    What was read once is not asked for again: the same question has the same answer. Raises ``UsageError`` for an
    unknown model and for a missing key; a provider's failure is in ``Session.error``.
    """
    registry, prompts = load_registry(), default_pack()
    voice = Voice(registry.open(model, base_url=base_url), Sampling(temperature=0.0))

    async def source(session: Session) -> AsyncIterator[Any]:
        async with registry:
            item, unread = None, DoneLine(run_id=JOURNAL, unit=session.key)
            try:
                async for item in ask(voice, prompts):
                    yield item
            except CallFailed as failure:
                yield failure.called
                raise failure.error from failure
            except AnamnesisError:
                await finish(session, unread)  # whoever asks again, asks anew
                raise
            await finish(session, *([unread] if getattr(item, "unreadable", None) else []))

    return start_asking(JOURNAL, (voice.model.name, prompts.hash, about), model, source)


def start_asking(
    job: str, what: object, title: str, source: Source, others: Mapping[str, list[StoredReply]] | None = None
) -> Session:
    """Start asking within a job that many do at once; ``what`` tells this question from others.

    ``others`` are replies to other questions that hold here too (``JournaledReplies.others``). Calls are listed under
    the job.
    """
    access.require("run", f"{job}: {title}")
    access.check_money()
    unit = f"{job} {hashlib.sha256(repr(what).encode(errors='replace')).hexdigest()[:20]}"
    path = journal_path(job)
    memory = JournaledReplies.of(path, about=[unit])
    memory.others = dict(others or {})
    session = Session(unit, title, paced=False, listed=job)
    session.replies = ReplyCache(job, Journal(path, shared=True), memory, shared=True)
    session.start(source)
    return session


async def finish(session: Session, *lines: Line) -> None:
    """Journal what came of a question, and let the database follow."""
    assert session.replies is not None
    await session.replies.journal.append(*lines)
    await asyncio.to_thread(fold_if_free, Store())


def outcome_of(session: Session) -> Any | None:
    """Return what came of it, or ``None`` while it runs and where it failed or was stopped."""
    found = [item for item in session.snapshot() if not isinstance(item, Token | Called)]
    return found[-1] if found and not session.running else None
