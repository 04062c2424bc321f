"""Golden dialogues: exemplary histories, built from a case's (key, value) items without a model.

Source: Liao et al., arXiv 2309.02077, training set. The patient opens with P0; the doctor asks about each key once; the
patient tells only that item, in lay words; the doctor closes with a short analysis and the diagnosis.

A question consists of a key and neutral words, so that the reference patient, who tells items, understands it: a model
can use in a campaign what it has learnt here.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from core.asking.scene import Dialogue, Turn
from core.text.case_items import HistoryItem, ItemizedCase, Order, ordered
from core.text.topics import Topic

QUESTIONS = (
    "What about {key}?",
    "Can you tell me about {key}?",
    "Could you tell me something about {key}?",
    "What can you tell me about {key}?",
    "What can you say about {key}?",
    "Could you please say something about {key}?",
    "Would you please tell me about {key}?",
    "How would you describe {key}?",
    "Is there something you can say about {key}?",
    "What would you say about {key}?",
)

SUMMARIES = (
    "To sum up what you have told me: {points}.",
    "What stands out is this: {points}.",
    "These are the points that matter most: {points}.",
    "Let me put it together: {points}.",
)

CONCLUSIONS = (
    "Taken together, this fits {answer} best.",
    "All in all this points to {answer}.",
    "The likeliest explanation for this is {answer}.",
    "I think that {answer} explains this best.",
)

DIAGNOSIS = "**Final Diagnosis:** {answer}"
"""The last line, which marks the end of a dialogue (``core.frameworks.conversation``)."""

_REPEATABLE: tuple[Topic, ...] = (
    "chief complaint",
    "onset",
    "character",
    "associated symptoms",
    "exposure",
    "past history",
)
"""Topics that an analysis may repeat.

A patient describes examinations and tests more vaguely than the items: a doctor who quotes those items would learn to
state findings that the patient has not told.
"""
_MOST_POINTS = 4
_MOST_WORDS = 16


def golden_dialogue(about: ItemizedCase, order: Order = "direct", seed: int = 0) -> Dialogue:
    """Return the golden dialogue of a case, which depends only on items, order and seed.

    ``order`` is the order of the questions: that of M, random by the seed, or M's reversed. The seed also chooses the
    phrases.
    """
    rng = random.Random(f"{seed}:{about.case.case_key}:{order}")
    pairs = [(item, spoken) for item, spoken in zip(about.items, about.spoken, strict=True) if spoken.lay]
    ordered_pairs = ordered(pairs, order, rng)
    turns = [Turn("patient", about.opening)]
    for question, (_, spoken) in zip(_questions(rng), ordered_pairs, strict=False):
        turns += [Turn("doctor", question.format(key=spoken.key)), Turn("patient", spoken.lay)]
    return (*turns, Turn("doctor", closing(about.case.answer, [item for item, _ in ordered_pairs], rng)))


def closing(answer: str, items: Iterable[HistoryItem], rng: random.Random) -> str:
    """Return the doctor's last message: up to four points of the history, and the diagnosis."""
    # the first short part of each repeatable topic, the complaint first
    by_topic = {item.topic: item.value for item in reversed(list(items)) if item.topic in _REPEATABLE}
    pieces = (_short(by_topic[topic]) for topic in _REPEATABLE if topic in by_topic)
    points = "; ".join([piece for piece in pieces if piece][:_MOST_POINTS])
    summary = f"{rng.choice(SUMMARIES).format(points=points)} " if points else ""
    analysis = f"{summary}{rng.choice(CONCLUSIONS).format(answer=answer)}"
    return f"{analysis}\n{DIAGNOSIS.format(answer=answer)}"


def _questions(rng: random.Random) -> Iterator[str]:
    """Yield question templates endlessly, each once before any is repeated."""
    while True:
        yield from rng.sample(QUESTIONS, len(QUESTIONS))


def _short(value: str) -> str:
    """Return the first part of a value that is short enough to repeat, in lower case for the middle of a sentence."""
    pieces = (piece.strip(" .,") for piece in value.split(";"))
    short = next((piece for piece in pieces if piece and len(piece.split()) <= _MOST_WORDS), "")
    return short[:1].lower() + short[1:] if short[1:2].islower() else short
