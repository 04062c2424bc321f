"""What makes a simulated patient good: honesty, strictness, colloquialism (Liao et al.), each by a rule on words.

Rules cannot judge meaning: a free paraphrase looks unsupported, as does the denial of a thing that M is silent on; a
denial of what M affirms looks supported. They compare patients on average; for one conversation there is the ledger.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.case import sentences
from core.frameworks.consultation.items import Item
from core.measures.history.inquiry import Exchange, Inquiry
from core.text.technical import is_technical, telling, words
from core.text.topics import is_open

SUPPORTED = 0.5
"""A statement is supported where M holds this share of its telling words."""
TOLD = 0.5
"""A reply tells an item where it holds this share of the item's telling words, or ``ENOUGH`` of them."""
ENOUGH = 3
_UNKNOWN = re.compile(
    r"not sure|unsure|no idea|mention|vignette|n['’]t (?:know|recall|remember|say|specify|tell)\b|"
    r"(?:do|does|did) not (?:know|recall|remember|say|specify)|cannot say|(?:no|any|provided) (?:information|details)",
    re.IGNORECASE,
)
"""A sentence that says nothing of the patient: not known, or about what was "mentioned"."""
_BARE = re.compile(r"^\W*(?:yes|yeah|no|nope|i do|i have|i don['’]t|i haven['’]t|not really|never)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Telltale:
    """An item with the words by which it is told (of its value) and asked for (of key and value)."""

    item: Item
    told_by: frozenset[str]
    asked_by: frozenset[str]

    def told(self, said: frozenset[str]) -> bool:
        """Say whether these words tell the item."""
        common = len(said & self.told_by)
        return common > 0 and (common >= ENOUGH or common >= TOLD * len(self.told_by))


def telltales(items: Sequence[Item]) -> tuple[Telltale, ...]:
    """Return the items with their words; an item without a telling word can never be told and is left out."""
    made = (Telltale(i, telling(i.value), telling(i.key) | telling(i.value)) for i in items)
    return tuple(t for t in made if t.told_by)


def honesty(inquiry: Inquiry, known: frozenset[str]) -> float | None:
    """Return the share of the patient's statements that M supports; ``None`` without statements.

    ``known`` are the telling words of M. A statement is a sentence of the patient that says something: not "I don't
    know", not a courtesy. A bare yes or no states what was asked.
    """
    judged = [len(said & known) >= SUPPORTED * len(said) for said in _statements(inquiry)]
    return sum(judged) / len(judged) if judged else None


def _statements(inquiry: Inquiry) -> Iterator[frozenset[str]]:
    for query, reply in (Exchange("", inquiry.opening), *inquiry.exchanges):
        for sentence in sentences(reply):
            if "?" in sentence or _UNKNOWN.search(sentence):
                continue
            said = telling(sentence)
            if not said and _BARE.match(sentence):
                said = telling(query)
            if said:
                yield said


def strictness(inquiry: Inquiry, items: Sequence[Telltale]) -> float | None:
    """Return the share of replies that bring no item that was not asked for; ``None`` where nothing narrow was asked.

    A reply brings an item that it is the first to tell. An item is asked for where the query shares a telling word
    with its key or value. Replies to open queries ("anything else?") do not count.
    """
    brought = {t.item.key for t in items if t.told(telling(inquiry.opening))}
    strict = narrow = 0
    for query, reply in inquiry.exchanges:
        said, asked = telling(reply), telling(query)
        fresh = [t for t in items if t.item.key not in brought and t.told(said)]
        brought.update(t.item.key for t in fresh)
        if reply and not is_open(query):
            narrow += 1
            strict += all(asked & t.asked_by for t in fresh)
    return strict / narrow if narrow else None


def colloquialism(texts: Sequence[str]) -> float | None:
    """Return the share of words that are everyday ones, numbers aside; ``None`` without words."""
    spoken = [word for text in texts for word in words(text)]
    return sum(not is_technical(word) for word in spoken) / len(spoken) if spoken else None
