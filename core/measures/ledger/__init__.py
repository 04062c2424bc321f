"""The facts ledger: a case as atomic facts, and what became of each in a conversation."""

from core.measures.ledger.marks import Disagreement, FactMark, Ledger, disagreements, ledger
from core.measures.ledger.overview import Share, TopicRow, coverage, never_asked
from core.text.facts import AtomicFact, facts_of, with_ids
from core.text.judged import Judged, JudgedFact, Mark
from core.text.topics import TOPICS, Topic

__all__ = [
    "TOPICS", "AtomicFact", "Disagreement", "FactMark", "Judged", "JudgedFact", "Ledger", "Mark", "Share", "Topic",
    "TopicRow", "coverage", "disagreements", "facts_of", "ledger", "never_asked", "with_ids",
]  # fmt: skip
