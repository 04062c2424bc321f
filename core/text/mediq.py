"""Items from MediQ's files: each record's ``facts``, atomic sentences about a patient, joined by topic.

A file is JSON or JSONL with ``context`` (sentences of the vignette) and ``facts``; records are matched to cases by the
words of the vignette. The facts are paraphrases: their words need not all be words of M.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rapidfuzz import fuzz, process

from core.case import Case
from core.errors import UsageError
from core.text.case_items import Item, ItemSet
from core.text.facts import PHRASES, complaint_noun, join_values
from core.text.rouge import words_of
from core.text.topics import Topic, topic_by_words
from core.words import fault_of

MADE_BY = "mediq"
ALIKE = 95.0
"""Vignettes are the same from this similarity on (0–100, Levenshtein on words joined by spaces)."""
_NUMBER = re.compile(r"^\s*\d+\s*[.)]\s*")
_SUBJECT = re.compile(
    r"^(?:the|this|an?) (?:\S+ ){0,2}?(?:patient|man|woman|boy|girl|child|infant|male|female|person|individual)\s+"
    r"(?:also |initially |currently )?(?:(?:is|was|has|had|have|had been|has been|presents? with|presented with|"
    r"reports?|reported|noticed) )?(?:an? )?",
    re.IGNORECASE,
)
_AGE = re.compile(r"\b(?:year|month|week|day)s?[- ]old\b|\bgender\b|\byears of age\b", re.IGNORECASE)
_DENIED = re.compile(r"\b(?:denie[sd]|no|not|never|without)\b", re.IGNORECASE)


class MediqRecord(BaseModel):
    """What is used of a record."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    context: tuple[str, ...] = Field(min_length=1)
    facts: tuple[str, ...] = Field(min_length=1)

    @property
    def words(self) -> str:
        """The vignette's words, one space between them."""
        return " ".join(words_of(" ".join(self.context)))


@dataclass(frozen=True)
class MediqReading:
    """The records of a file; ``rejected`` has (line or position, reason) of those that cannot be used."""

    records: tuple[MediqRecord, ...]
    rejected: tuple[tuple[int, str], ...]


@dataclass
class MediqMatch:
    """Case key → items, and how many records fit no case."""

    items: dict[str, ItemSet] = field(default_factory=dict)
    unmatched: int = 0


def read_mediq(path: Path) -> MediqReading:
    """Read a file; raises ``UsageError`` where it is none of MediQ's kind at all."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): give MediQ's JSON or JSONL file.") from error
    records: list[MediqRecord] = []
    rejected: list[tuple[int, str]] = []
    for number, raw in enumerate(_raw_records(content), start=1):
        try:
            records.append(MediqRecord.model_validate(orjson.loads(raw) if isinstance(raw, bytes) else raw))
        except orjson.JSONDecodeError as error:
            rejected.append((number, f"this is not JSON ({error})"))
        except ValidationError as error:
            rejected.append((number, fault_of(error, "record")))
    if not records:
        reason = f" (record {rejected[0][0]}: {rejected[0][1]})" if rejected else ""
        raise UsageError(f"{path} holds no record with context and facts{reason}: give MediQ's JSON or JSONL file.")
    return MediqReading(tuple(records), tuple(rejected))


def match_cases(records: Sequence[MediqRecord], cases: Iterable[Case]) -> MediqMatch:
    """Return the items of the cases whose vignette a record tells: word for word, or else nearly so."""
    by_words: dict[str, list[Case]] = {}
    for case in cases:
        by_words.setdefault(" ".join(words_of(case.vignette)), []).append(case)
    match = MediqMatch()
    for record in records:
        same = by_words.get(record.words, [])
        if not same and (
            near := process.extractOne(record.words, by_words.keys(), scorer=fuzz.ratio, score_cutoff=ALIKE)
        ):
            same = by_words[near[0]]
        match.unmatched += not same
        for case in same:
            match.items[case.case_key] = ItemSet(items_of_facts(record.facts), MADE_BY)
    return match


def items_of_facts(facts: Sequence[str]) -> tuple[Item, ...]:
    """Return the facts joined by topic; numbers before them and "the patient has" are cut."""
    groups: dict[Topic, list[str]] = {}
    for fact in facts:
        plain = _NUMBER.sub("", fact).strip().rstrip(".")
        said = _SUBJECT.sub("", plain)
        # of what could be any symptom, the first is what the patient came for
        symptom: Topic = "associated symptoms" if "chief complaint" in groups else "chief complaint"
        any_symptom: Topic = "negatives" if _DENIED.search(plain) else symptom
        topic: Topic = "demographics" if _AGE.search(plain) else topic_by_words(said) or any_symptom
        groups.setdefault(topic, []).append(plain if topic == "demographics" else said or plain)
    noun = complaint_noun(" ".join(groups.get("chief complaint", groups.get("associated symptoms", []))))
    return tuple(
        Item(key=PHRASES[topic].format(complaint=noun), value=join_values(texts, None), topic=topic)
        for topic, texts in groups.items()
        if any(texts)
    )


def _raw_records(content: bytes) -> list[bytes | object]:
    """Return the records of a JSON array, or the lines of JSONL."""
    if content.lstrip()[:1] == b"[":
        try:
            listed = orjson.loads(content)
        except orjson.JSONDecodeError:
            return [content]
        return list(listed)
    return [line for line in content.splitlines() if line.strip()]
