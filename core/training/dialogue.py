"""Golden dialogues: a history taken as it should be, built from a case's (key, value) items without a model.

Source: Liao et al., arXiv 2309.02077, training set. The patient opens with P0; the doctor asks about each key once; the
patient tells that item, and nothing else, in lay words; the doctor closes with a short analysis and the diagnosis.

Every question is made of a key and of words that name nothing, so that a reference patient who tells items understands
it: what a model has learnt here it can use in a campaign.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from core.asking.scene import Dialogue, Turn
from core.text.case_items import Item, ItemizedCase, Order, ordered
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
"""The last line: by which a dialogue is known to be over (``core.frameworks.conversation``)."""

_TOLD: tuple[Topic, ...] = ("chief complaint", "onset", "character", "associated symptoms", "exposure", "past history")
"""Topics that an analysis may repeat.

A patient words examination and tests more vaguely than the items do: a doctor that quotes those would learn to state
what nobody has told it.
"""
_MOST_POINTS = 4
_MOST_WORDS = 16


def golden_dialogue(about: ItemizedCase, order: Order = "direct", seed: int = 0) -> Dialogue:
    """Return the golden dialogue of a case: the same for the same items, order and seed.

    ``order`` is that of the questions: of M, drawn by the seed, or M's backwards. The seed also chooses the phrases.
    """
    rng = random.Random(f"{seed}:{about.case.case_key}:{order}")
    pairs = [(item, spoken) for item, spoken in zip(about.items, about.spoken, strict=True) if spoken.lay]
    asked = ordered(pairs, order, rng)
    turns = [Turn("patient", about.opening)]
    for question, (_, spoken) in zip(_questions(rng), asked, strict=False):
        turns += [Turn("doctor", question.format(key=spoken.key)), Turn("patient", spoken.lay)]
    return (*turns, Turn("doctor", closing(about.case.answer, [item for item, _ in asked], rng)))


def closing(answer: str, told: Iterable[Item], rng: random.Random) -> str:
    """Return the doctor's last message: up to four points of the history that was told, and the diagnosis."""
    # the first short piece of each topic that may be repeated, the complaint first
    by_topic = {item.topic: item.value for item in reversed(list(told)) if item.topic in _TOLD}
    pieces = (_short(by_topic[topic]) for topic in _TOLD if topic in by_topic)
    points = "; ".join([piece for piece in pieces if piece][:_MOST_POINTS])
    summary = f"{rng.choice(SUMMARIES).format(points=points)} " if points else ""
    analysis = f"{summary}{rng.choice(CONCLUSIONS).format(answer=answer)}"
    return f"{analysis}\n{DIAGNOSIS.format(answer=answer)}"


def _questions(rng: random.Random) -> Iterator[str]:
    """Yield ways to ask for ever; none comes again before all others have."""
    while True:
        yield from rng.sample(QUESTIONS, len(QUESTIONS))


def _short(value: str) -> str:
    """Return the first piece of a value that is short enough to be repeated, as it stands inside a sentence."""
    pieces = (piece.strip(" .,") for piece in value.split(";"))
    found = next((piece for piece in pieces if piece and len(piece.split()) <= _MOST_WORDS), "")
    return found[:1].lower() + found[1:] if found[1:2].islower() else found
