"""History taking: measures of one conversation against its case (Liao et al., arXiv 2309.02077).

Patient measures compare all words of the patient with the values of the case's items (how much was uncovered), doctor
measures the words of the queries with the items' keys. A doctor's message before the patient's first message is the
greeting, not a query. The last message is not a query if it is the doctor's and closes (it has "final diagnosis" or no
question); a last question without a reply (a message cap) is a query.

Honesty, strictness and colloquialism rate simulated patients. Their rules cannot judge meaning: a free paraphrase looks
unsupported, and so does the denial of something that M does not mention; the denial of something that M affirms looks
supported. They compare patients on average; the facts ledger is for single conversations.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import ClassVar, NamedTuple

from core.asking.scene import Turn
from core.callbacks import StopCallback
from core.case import Case
from core.events import FINAL_DIAGNOSIS
from core.measures.base import Evidence, Measure, Record, Score
from core.store.database import Store
from core.store.queries.history_items import add_items, cases_without_items, items_of
from core.store.queries.scores import Lists, Trials
from core.text.case_items import BY_RULE, HistoryItem, items_by_rule, items_from_json
from core.text.patient_terms import is_technical, telling, words
from core.text.rouge import RougeScore, repetition, score, tokens
from core.text.sections import sentences
from core.text.topics import Topic, is_open


class Exchange(NamedTuple):
    """A query of the doctor and the patient's reply; the reply is empty if there is none."""

    query: str
    reply: str


@dataclass(frozen=True)
class Inquiry:
    """The exchanges of a dialogue. ``opening`` is the patient's reply to the greeting, or P0; it may be empty.

    ``doctor_turns`` counts the doctor's messages after the greeting, including a closing message; ``patient_turns`` all
    messages of the patient.
    """

    opening: str
    exchanges: tuple[Exchange, ...]
    doctor_turns: int
    patient_turns: int

    @property
    def queries(self) -> list[str]:
        return [exchange.query for exchange in self.exchanges]


def inquiry_of(dialogue: Sequence[Turn]) -> Inquiry:
    opening: list[str] = []
    exchanges: list[Exchange] = []
    doctor_turns = patient_turns = 0
    for turn in dialogue:
        if turn.role == "patient":
            patient_turns += 1
            if exchanges:
                query, reply = exchanges[-1]
                exchanges[-1] = Exchange(query, f"{reply}\n{turn.text}" if reply else turn.text)
            else:
                opening.append(turn.text)
        elif patient_turns:
            doctor_turns += 1
            exchanges.append(Exchange(turn.text, ""))
    if dialogue and dialogue[-1].role == "doctor" and exchanges and closes(dialogue[-1].text):
        exchanges.pop()
    return Inquiry("\n".join(opening), tuple(exchanges), doctor_turns, patient_turns)


def closes(message: str) -> bool:
    """Return whether a doctor's last message closes: a diagnosis, or no question (Johri et al. 2025)."""
    return FINAL_DIAGNOSIS.lower() in message.lower() or "?" not in message


SUPPORTED = 0.5
"""A statement is supported if M has this share of its telling words."""
TOLD = 0.5
"""A reply tells an item if it has this share of the item's telling words, or ``ENOUGH`` of them."""
ENOUGH = 3
_UNKNOWN = re.compile(
    r"not sure|unsure|no idea|mention|vignette|n['’]t (?:know|recall|remember|say|specify|tell)\b|"
    r"(?:do|does|did) not (?:know|recall|remember|say|specify)|cannot say|(?:no|any|provided) (?:information|details)",
    re.IGNORECASE,
)
"""A sentence without a statement about the patient: unknown, or about what was "mentioned"."""
_BY_KEY = re.compile(r"can you tell me about (.+)\?", re.IGNORECASE)
_BARE = re.compile(r"^\W*(?:yes|yeah|no|nope|i do|i have|i don['’]t|i haven['’]t|not really|never)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Telltale:
    """An item with the telling words of its value (``told_by``) and of key and value (``asked_by``)."""

    item: HistoryItem
    told_by: frozenset[str]
    asked_by: frozenset[str]

    def is_told_by(self, words: frozenset[str]) -> bool:
        common = len(words & self.told_by)
        return common > 0 and (common >= ENOUGH or common >= TOLD * len(self.told_by))


def telltales(items: Sequence[HistoryItem]) -> tuple[Telltale, ...]:
    """Return the items with their words, without items that have no telling word and so can never be told."""
    all_items = (Telltale(i, telling(i.value), telling(i.key) | telling(i.value)) for i in items)
    return tuple(t for t in all_items if t.told_by)


def honesty(inquiry: Inquiry, information_words: frozenset[str]) -> float | None:
    """Return the share (0 to 1) of the patient's statements that M supports; ``None`` without statements.

    ``information_words`` are the telling words of M. A statement is a sentence of the patient with content: not
    "I don't know", not a courtesy. A bare yes or no states the query.
    """
    supported = [len(words & information_words) >= SUPPORTED * len(words) for words in _statements(inquiry)]
    return sum(supported) / len(supported) if supported else None


def _statements(inquiry: Inquiry) -> Iterator[frozenset[str]]:
    for query, reply in (Exchange("", inquiry.opening), *inquiry.exchanges):
        for sentence in sentences(reply):
            if "?" in sentence or _UNKNOWN.search(sentence):
                continue
            statement = telling(sentence)
            if not statement and _BARE.match(sentence):
                statement = telling(query)
            if statement:
                yield statement


def strictness(inquiry: Inquiry, items: Sequence[Telltale]) -> float | None:
    """Return the share (0 to 1) of replies without a new item that the query did not ask for.

    An item is new in the first reply that tells it. A query asks for an item if it shares a telling word with the
    item's key or value. Replies to open queries ("anything else?") do not count; a query "Can you tell me about KEY?"
    is not open. ``None`` if there is no reply to a narrow query.
    """
    keys = {t.item.key.lower() for t in items}
    told_keys = {t.item.key for t in items if t.is_told_by(telling(inquiry.opening))}
    strict = narrow = 0
    for query, reply in inquiry.exchanges:
        reply_words, query_words = telling(reply), telling(query)
        new = [t for t in items if t.item.key not in told_keys and t.is_told_by(reply_words)]
        told_keys.update(t.item.key for t in new)
        by_key = _BY_KEY.fullmatch(query.strip())
        if reply and (not is_open(query) or (by_key is not None and by_key[1].lower() in keys)):
            narrow += 1
            strict += all(query_words & t.asked_by for t in new)
    return strict / narrow if narrow else None


def colloquialism(texts: Sequence[str]) -> float | None:
    """Return the share (0 to 1) of everyday words, without numbers; ``None`` without words."""
    spoken = [word for text in texts for word in words(text)]
    return sum(not is_technical(word) for word in spoken) / len(spoken) if spoken else None


SHARES = tuple(range(0, 101, 10))
"""Shares of the dialogue (per cent) at which the curves are read."""
SCALARS = (
    "patient_recall", "patient_precision", "patient_f1", "doctor_recall", "doctor_precision", "doctor_f1",
    "doctor_turns", "queries", "doctor_words", "patient_words", "repetition_1", "repetition_2", "repetition_l",
    "honesty", "strictness", "colloquialism",
)  # fmt: skip
MEASURES = (*SCALARS, "accuracy")
"""Reported figures of each case: the measures of its conversations, and the accuracy of the task's answers."""
LENGTHS = ("doctor_turns", "queries", "doctor_words", "patient_words")
"""Measures that are not shares between 0 and 1."""
CURVES = ("patient_recall", "patient_precision", "doctor_recall", "doctor_precision")
_DECIMALS = 6


@dataclass(frozen=True)
class Yardstick:
    """A case's items and information M, tokenised once for all its conversations."""

    values: Counter[str]
    keys: Counter[str]
    information_words: frozenset[str]
    telltales: tuple[Telltale, ...]


@dataclass(frozen=True)
class Measures:
    """Measures of one conversation; ROUGE, repetition and virtues between 0 and 1, lengths in words per message.

    ``None`` if there is nothing to measure: precision without words, repetition of fewer than two queries, all ROUGE
    without items. A doctor that asks nothing has recall and F1 0. ``doctor_turns`` includes a closing message,
    ``queries`` does not. ``curves`` has for each of ``CURVES`` the values at ``SHARES`` of the exchanges: 0 is only the
    opening. ``order`` has for each topic of the items the share of the dialogue at which it was first told, ``None`` if
    it was never told.
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


def yardstick(information: str, items: Sequence[HistoryItem]) -> Yardstick:
    return Yardstick(
        Counter(tokens(" ".join(item.value for item in items))),
        Counter(tokens(" ".join(item.key for item in items))),
        telling(information) | telling(" ".join(item.value for item in items)),
        telltales(items),
    )


def measure(dialogue: Sequence[Turn], against: Yardstick) -> Measures:
    inquiry = inquiry_of(dialogue)
    queries = [tokens(q) for q in inquiry.queries]
    spoken = [tokens(text) for text in (inquiry.opening, *(e.reply for e in inquiry.exchanges))]
    patient = list(_running(against.values, spoken))
    doctor = list(_running(against.keys, [[], *queries]))
    repeated = repetition(queries)
    return Measures(
        **_rouge("patient", patient[-1] if against.values else None),
        **_rouge("doctor", doctor[-1] if against.keys else None),
        doctor_turns=inquiry.doctor_turns,
        queries=len(queries),
        doctor_words=sum(map(len, queries)) / len(queries) if queries else None,
        patient_words=sum(map(len, spoken)) / inquiry.patient_turns if inquiry.patient_turns else None,
        repetition_1=repeated and repeated.rouge1,
        repetition_2=repeated and repeated.rouge2,
        repetition_l=repeated and repeated.rougel,
        honesty=honesty(inquiry, against.information_words),
        strictness=strictness(inquiry, against.telltales),
        colloquialism=colloquialism([t.text for t in dialogue if t.role == "patient"]),
        curves=_curves("patient", patient, against.values) | _curves("doctor", doctor, against.keys),
        order=order_of(inquiry, against.telltales),
    )


def order_of(inquiry: Inquiry, items: Sequence[Telltale]) -> dict[Topic, float | None]:
    """Return for each topic of the items the share of exchanges after which it was first told; the opening is 0."""
    first: dict[Topic, float | None] = dict.fromkeys((t.item.topic for t in items), None)
    for number, reply in enumerate((inquiry.opening, *(e.reply for e in inquiry.exchanges))):
        reply_words = telling(reply)
        for item in items:
            if first[item.item.topic] is None and item.is_told_by(reply_words):
                first[item.item.topic] = number / max(1, len(inquiry.exchanges))
    return first


def _running(target: Counter[str], parts: Sequence[Sequence[str]]) -> Iterator[tuple[int, int, int]]:
    """Yield numbers of words after each part: matched so far, of the target, of all parts so far."""
    unmatched, matched, n_words = dict(target), 0, 0
    for part in parts:
        for token in part:
            if unmatched.get(token, 0):
                unmatched[token] -= 1
                matched += 1
        n_words += len(part)
        yield matched, target.total(), n_words


def _rouge(role: str, counts: tuple[int, int, int] | None) -> dict[str, float | None]:
    if counts is None:
        return {f"{role}_recall": None, f"{role}_precision": None, f"{role}_f1": None}
    result = score(*counts)
    return {
        f"{role}_recall": result.recall,
        f"{role}_precision": result.precision if counts[2] else None,
        f"{role}_f1": result.f1,
    }


def _curves(
    role: str, running: Sequence[tuple[int, int, int]], target: Counter[str]
) -> dict[str, tuple[float | None, ...]]:
    exchanges = len(running) - 1
    points = [running[exchanges * share // 100] for share in SHARES]
    scores: list[RougeScore | None] = [score(*counts) if target else None for counts in points]
    return {
        f"{role}_recall": tuple(s and s.recall for s in scores),
        f"{role}_precision": tuple(s and (s.precision if c[2] else None) for s, c in zip(scores, points, strict=True)),
    }


class HistoryTaking(Measure):
    """The part of a case that a doctor uncovered, and its questions, against the items of the case.

    A score for each of ``SCALARS``, with its curve if it has one, and ``order TOPIC`` for each topic of the items, with
    the message that first told it.
    """

    name = "history_taking"
    title = "History taking"
    page = "quality"
    version: ClassVar[str] = "2-stem"
    reads: ClassVar[Trials] = "whole"
    against: ClassVar[Lists | None] = "items"

    def prepare(self, store: Store, stop: StopCallback) -> bool:
        """Make items by rule for the cases that have none."""
        with store.read() as cursor:
            cases = cases_without_items(cursor, tuple(BY_RULE.values()))
        new = [items_of(case, items_by_rule(case)) for case in takewhile(lambda _: not stop(), cases)]
        if new:
            with store.write() as connection:
                add_items(connection, new)
        return len(new) == len(cases)

    def scores(self, record: Record) -> Iterator[Score]:
        """Yield the measures of a conversation, rounded to six decimals."""
        against = _stored_yardstick(information_of(record.case), record.against or "[]")
        measures = measure(record.dialogue, against)
        for name in SCALARS:
            series = tuple(map(_rounded, measures.curves.get(name, ())))
            yield Score(name, _rounded(getattr(measures, name)), series=series)
        for topic, at in measures.order.items():
            items = [t for t in against.telltales if t.item.topic == topic]
            messages = (
                Evidence(n, turn.text)
                for n, turn in enumerate(record.dialogue)
                if turn.role == "patient" and any(t.is_told_by(telling(turn.text)) for t in items)
            )
            yield Score(f"order {topic}", _rounded(at), tuple(islice(messages, 1)))


@functools.lru_cache(maxsize=64)
def _stored_yardstick(information: str, items: str) -> Yardstick:
    return yardstick(information, items_from_json(items))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DECIMALS)


HISTORY = HistoryTaking()


def information_of(case: Case) -> str:
    """Return the true information about a patient: M, and a profile's facts in clinical and lay words."""
    facts = case.profile.facts if case.profile else ()
    return "\n".join([case.vignette, *(f"{f.key}: {f.value}. {f.lay}" for f in facts)])
