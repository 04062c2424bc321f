"""What is measured of one conversation against its case (Liao et al., arXiv 2309.02077, metrics).

Patient measures compare all of the patient's words with the values of the items (how much was uncovered), doctor
measures the words of the queries with their keys. Greeting and closing message are no queries (``inquiry``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import orjson

from core.agents.base import Turn
from core.frameworks.consultation.items import Item
from core.measures.history.inquiry import Inquiry, inquiry_of
from core.measures.history.virtues import Telltale, colloquialism, honesty, strictness, telltales
from core.text.rouge import Score, repetition, score, tokens
from core.text.technical import telling
from core.text.topics import TOPICS, Topic

SHARES = tuple(range(0, 101, 10))
"""Per cent of the dialogue done at which the curves are read."""
SCALARS = (
    "patient_recall", "patient_precision", "patient_f1", "doctor_recall", "doctor_precision", "doctor_f1",
    "doctor_turns", "queries", "doctor_words", "patient_words", "repetition_1", "repetition_2", "repetition_l",
    "honesty", "strictness", "colloquialism",
)  # fmt: skip
LENGTHS = ("doctor_turns", "queries", "doctor_words", "patient_words")
"""Measures that are no shares between 0 and 1."""
CURVES = ("patient_recall", "patient_precision", "doctor_recall", "doctor_precision")
_DECIMALS = 6


@dataclass(frozen=True)
class Yardstick:
    """A case's items and information M, tokenised once for all its conversations."""

    values: Counter[str]
    keys: Counter[str]
    known: frozenset[str]
    telltales: tuple[Telltale, ...]
    stem: bool


@dataclass(frozen=True)
class Measures:
    """Measures of one conversation; ROUGE, repetition and virtues between 0 and 1, lengths in words a message.

    ``None`` where there is nothing to measure: precision of nobody's words, repetition of fewer than two queries, all
    ROUGE without items. A doctor that asks nothing has recall and F1 0. ``doctor_turns`` includes a closing message,
    ``queries`` does not. ``curves`` has for each of ``CURVES`` its values at ``SHARES`` of the exchanges: 0 is the
    opening alone. ``order`` has for each topic of the items the share of the dialogue at which it was first told, or
    ``None`` where it never was.
    """

    patient_recall: float | None
    patient_precision: float | None
    patient_f1: float | None
    doctor_recall: float | None
    doctor_precision: float | None
    doctor_f1: float | None
    doctor_turns: int
    queries: int
    doctor_words: float | None
    patient_words: float | None
    repetition_1: float | None
    repetition_2: float | None
    repetition_l: float | None
    honesty: float | None
    strictness: float | None
    colloquialism: float | None
    curves: dict[str, tuple[float | None, ...]]
    order: dict[Topic, float | None]


def yardstick(information: str, items: Sequence[Item], *, stem: bool = True) -> Yardstick:
    """Return what conversations about a case are measured against; ``stem`` as ``use_stemmer`` of rouge-score."""
    return Yardstick(
        Counter(tokens(" ".join(item.value for item in items), stem)),
        Counter(tokens(" ".join(item.key for item in items), stem)),
        telling(information) | telling(" ".join(item.value for item in items)),
        telltales(items),
        stem,
    )


def measure(dialogue: Sequence[Turn], against: Yardstick) -> Measures:
    """Return the measures of a dialogue."""
    inquiry = inquiry_of(dialogue)
    queries = [tokens(q, against.stem) for q in inquiry.queries]
    spoken = [tokens(text, against.stem) for text in (inquiry.opening, *(e.reply for e in inquiry.exchanges))]
    patient = list(_running(against.values, spoken))
    doctor = list(_running(against.keys, [[], *queries]))
    repeated = repetition(queries)
    return Measures(
        **_named("patient", patient[-1] if against.values else None),
        **_named("doctor", doctor[-1] if against.keys else None),
        doctor_turns=inquiry.doctor_turns,
        queries=len(queries),
        doctor_words=_mean(sum(map(len, queries)), len(queries)),
        patient_words=_mean(sum(map(len, spoken)), inquiry.patient_turns),
        repetition_1=repeated and repeated.rouge1,
        repetition_2=repeated and repeated.rouge2,
        repetition_l=repeated and repeated.rougel,
        honesty=honesty(inquiry, against.known),
        strictness=strictness(inquiry, against.telltales),
        colloquialism=colloquialism([t.text for t in dialogue if t.role == "patient"]),
        curves=_curves("patient", patient, against.values) | _curves("doctor", doctor, against.keys),
        order=order_of(inquiry, against.telltales),
    )


def order_of(inquiry: Inquiry, items: Sequence[Telltale]) -> dict[Topic, float | None]:
    """Return for each topic of the items the share of exchanges after which it was first told; the opening is 0."""
    first: dict[Topic, float | None] = dict.fromkeys((t.item.topic for t in items), None)
    for number, reply in enumerate((inquiry.opening, *(e.reply for e in inquiry.exchanges))):
        said = telling(reply)
        for item in items:
            if first[item.item.topic] is None and item.told(said):
                first[item.item.topic] = number / max(1, len(inquiry.exchanges))
    return first


def to_json(measures: Measures) -> str:
    """Return the measures as they are stored, to six decimals; ``told`` says which topics were told at all (1 or 0)."""
    told = {topic: int(at is not None) for topic, at in measures.order.items()}
    fields = {**vars(measures), "told": told}
    return orjson.dumps(_rounded(fields)).decode()


def structure() -> dict[str, object]:
    """Return the types of the stored measures, by which the store reads them."""
    topics = dict.fromkeys(TOPICS, "DOUBLE")
    return {
        **dict.fromkeys(SCALARS, "DOUBLE"),
        "curves": {name: ["DOUBLE"] for name in CURVES},
        "order": topics,
        "told": topics,
    }


def _running(target: Counter[str], parts: Sequence[Sequence[str]]) -> Iterator[tuple[int, int, int]]:
    """Yield (matched, wanted, said) after each part: what all words so far have in common with the target."""
    wanted, left, matched, said = target.total(), dict(target), 0, 0
    for part in parts:
        for token in part:
            if left.get(token, 0):
                left[token] -= 1
                matched += 1
        said += len(part)
        yield matched, wanted, said


def _named(who: str, counts: tuple[int, int, int] | None) -> dict[str, float | None]:
    if counts is None:
        return {f"{who}_recall": None, f"{who}_precision": None, f"{who}_f1": None}
    result = score(*counts)
    return {
        f"{who}_recall": result.recall,
        f"{who}_precision": result.precision if counts[2] else None,
        f"{who}_f1": result.f1,
    }


def _curves(
    who: str, running: Sequence[tuple[int, int, int]], target: Counter[str]
) -> dict[str, tuple[float | None, ...]]:
    exchanges = len(running) - 1
    points = [running[exchanges * share // 100] for share in SHARES]
    scores: list[Score | None] = [score(*counts) if target else None for counts in points]
    return {
        f"{who}_recall": tuple(s and s.recall for s in scores),
        f"{who}_precision": tuple(s and (s.precision if c[2] else None) for s, c in zip(scores, points, strict=True)),
    }


def _mean(total: int, n: int) -> float | None:
    return total / n if n else None


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, _DECIMALS)
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return [_rounded(v) for v in value] if isinstance(value, list | tuple) else value
