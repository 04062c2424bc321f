"""Ledgers of many stored conversations, one after the other, with progress and a stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from core.agents.base import Turn
from core.case import Case
from core.metrics.ledger.facts import AtomicFact
from core.metrics.ledger.marks import Ledger, ledger

Override = Mapping[tuple[str, str], Sequence[AtomicFact]]
"""(case_key, content_hash) → facts that replace the case's own."""


def ledgers_of(
    conversations: Iterable[tuple[Case, Sequence[Turn]]],
    *,
    overrides: Override | None = None,
    progress: Callable[[int], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Iterator[Ledger]:
    """Yield a ledger a conversation, in their order; none is held, so an iterable of any length will do.

    ``progress`` is called with the number done after each; where ``stop`` says so, nothing more is taken. Conversations
    of one case are fastest next to each other. Hand over no open database cursor: fetch before.
    """
    for done, (case, dialogue) in enumerate(conversations, start=1):
        if stop is not None and stop():
            return
        chosen = overrides.get((case.case_key, case.content_hash)) if overrides else None
        yield ledger(case, dialogue, chosen)
        if progress is not None:
            progress(done)
