"""A facts ledger in short, as it is kept: enough for every figure over many conversations and for the attribution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import orjson

from core.measures.attribution_facts import LedgerFacts, in_short
from core.measures.ledger.marks import FactMark, Ledger
from core.text.topics import TOPICS


def to_json(found: Ledger) -> str:
    """Return the summary of a ledger.

    ``topics``: by topic, the facts that the patient could tell and what became of them. ``facts``: what ``LedgerFacts``
    holds.
    """
    topics = list(_topics([mark for mark in found.marks if mark.fact.told]))
    return orjson.dumps({"topics": topics, "facts": asdict(in_short(found))}).decode()


def facts_from_json(summary: str) -> LedgerFacts:
    """Return what the attribution needs of a summary."""
    kept: dict[str, Any] = orjson.loads(summary)["facts"]
    return LedgerFacts(**{**kept, "leaked": tuple(kept["leaked"])})


def _topics(marks: list[FactMark]) -> Iterator[dict[str, Any]]:
    for topic in TOPICS:
        held = [mark for mark in marks if mark.fact.topic == topic]
        if held:
            counts = Counter(mark.mark for mark in held)
            yield {
                "topic": topic, "facts": len(held), "asked": counts["asked"], "volunteered": counts["volunteered"],
                "never_elicited": counts["never_elicited"],
            }  # fmt: skip
