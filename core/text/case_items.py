"""The (key, value) items of a case: the information that a history can uncover, by topic.

Source: Liao et al., arXiv 2309.02077, data construction. The patient knows the vignette, there called M. An item is one
topic of the history ("onset of the pain") with M's text on it. The patient opens with P0, a rough complaint and a plea
for help. A model writes it beforehand (``core.jobs.openings``); otherwise a rule makes it from the profile's chief
complaint, or from the vignette. It is the same for every doctor, and lacks details that a doctor should ask for.

MediQ's files contain items too: the ``facts`` of each record, atomic sentences about a patient, joined by topic. A file
is JSON or JSONL with ``context`` (sentences of the vignette) and ``facts``; records are matched to cases by the words
of the vignette. The facts are paraphrases and may contain other words than M.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar, get_args

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from rapidfuzz import fuzz, process

from core.case import Case, ItemList, ListedItem
from core.errors import UsageError
from core.knowledge.base import knowledge
from core.text.demographics import patient_demographics
from core.text.extraction import known_names
from core.text.facts import GROUPING_RULES, NO_NOUN, PHRASES, complaint_noun, facts_of, grouped_facts, join_values
from core.text.findings import recogniser
from core.text.negation import denies_something
from core.text.patient_terms import in_lay_words, is_sayable
from core.text.persons import Speaking, first_person, speaking_of
from core.text.rouge import words_of
from core.text.sections import sentences
from core.text.topics import Topic, shown_topic, topic_by_words, topic_of_key
from core.text.vocabulary import verbs
from core.words import fault_of

BY_RULE = {maker: f"{maker}-{GROUPING_RULES}" for maker in ("profile", "rules")}
"""``made_by`` of items by rule, from a profile or a vignette, with the version of the rules."""
Order = Literal["direct", "random", "reversed"]
ORDERS: tuple[Order, ...] = get_args(Order)
"""Orders of the items: that of M, a random one, and the reverse of M."""
T = TypeVar("T")


class HistoryItem(BaseModel):
    """A topic phrase, M's text on it, and its part of the history."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    key: str = Field(min_length=1)
    value: str = Field(min_length=1)
    topic: Topic


_ITEMS = TypeAdapter(tuple[HistoryItem, ...])


@dataclass(frozen=True)
class ItemSet:
    """The items of a case and their origin: ``profile-…``, ``rules-…``, ``mediq``, or a model with a prompt's hash."""

    items: tuple[HistoryItem, ...]
    made_by: str


@dataclass(frozen=True)
class SpokenItem:
    """An item's key and its text in lay words."""

    key: str
    lay: str


@dataclass(frozen=True)
class ItemizedCase:
    """A case with its items; ``opening`` is P0, ``made_by`` the origin of the items."""

    case: Case
    opening: str
    items: tuple[HistoryItem, ...]
    made_by: str

    @property
    def spoken(self) -> tuple[SpokenItem, ...]:
        """The items in lay words: of their facts if a rule made the items, otherwise M's text in the first person."""
        if self.made_by in BY_RULE.values():
            facts = [(fact.topic, _ended(fact.lay)) for fact in facts_of(self.case)]
            lays = (" ".join(lay for topic, lay in facts if topic == item.topic) for item in self.items)
        else:
            sex = patient_demographics(self.case)[1]
            lays = (_ended(first_person(item.value, sex)) for item in self.items)
        return tuple(SpokenItem(item.key, lay) for item, lay in zip(self.items, lays, strict=True))


def itemized(case: Case, stored: ItemSet | None = None) -> ItemizedCase:
    """Return a case with its stored items; without any, those that the case carries; otherwise items by rule."""
    chosen = stored or own_items(case) or items_by_rule(case)
    return ItemizedCase(case, opening_of(case), chosen.items, chosen.made_by)


def own_items(case: Case) -> ItemSet | None:
    """Return the items that a case carries, or ``None`` if rules make them."""
    if case.items is None:
        return None
    return ItemSet(
        tuple(HistoryItem.model_validate(item.model_dump()) for item in case.items.items), case.items.made_by
    )


def with_items(case: Case, stored: ItemSet | None) -> Case:
    """Return a case that carries stored items; items by rule are not carried but made again."""
    if stored is None or not stored.items or stored.made_by.partition("-")[0] in BY_RULE:
        return case.model_copy(update={"items": None})
    listed = tuple(ListedItem.model_validate(item.model_dump()) for item in stored.items)
    return case.model_copy(update={"items": ItemList(items=listed, made_by=stored.made_by)})


def hash_of_items(cases: Iterable[Case]) -> str:
    """Return a hash of the items that cases carry, independent of order; empty if no case carries any."""
    lines = sorted(f"{case.case_key} {case.items.model_dump_json()}" for case in cases if case.items)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] if lines else ""


def items_by_rule(case: Case) -> ItemSet:
    """Return items made by rule from the profile or, without one, from the vignette.

    They cover all of M, with one item per topic (median 7 for MedQA's vignettes, 12 for the longer ones of the library;
    the paper's data: about 8). Items from a vignette contain only words of M.
    """
    items = tuple(HistoryItem(key=key, value=value, topic=topic) for key, value, topic in grouped_facts(case))
    return ItemSet(items, items_by_rule_name(case))


def topic_of_item(key: str, value: str) -> Topic:
    """Return the part of the history of an item that a model made, by the words of its key, then of its value."""
    topic = topic_of_key(key, value)
    if topic != "associated symptoms":
        return topic
    return "negatives" if _DENIED.search(value) else shown_topic(f"{key} {value}") or topic


def items_made_by(cases: Iterable[Case]) -> str:
    """Return the origins of the items of cases: models with prompt hash, files, and rules with their version."""
    return " + ".join(sorted({case.items.made_by if case.items else items_by_rule_name(case) for case in cases}))


def items_by_rule_name(case: Case) -> str:
    """Return ``made_by`` of the items that a rule makes for a case."""
    return BY_RULE["rules" if case.profile is None else "profile"]


def items_to_json(items: Sequence[HistoryItem]) -> str:
    return _ITEMS.dump_json(tuple(items)).decode()


def items_from_json(text: str | bytes) -> tuple[HistoryItem, ...]:
    return _ITEMS.validate_json(text)


def ordered(things: Sequence[T], order: Order, rng: random.Random) -> Sequence[T]:
    if order == "random":
        return rng.sample(things, len(things))
    return things if order == "direct" else things[::-1]


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


# the opening words

PLEA = "Can you help me?"
UNWELL = "I don't feel well"
"""The complaint of a patient whose case names none."""

OPENING_RULES = "3"
OPENINGS_BY_RULE = f"rules-{OPENING_RULES}"
"""``made_by`` of openings by rule, with the version of the rules."""
_MAX_WORDS = 10
_SHORTEST = len("of gas")
_NUMBER = (
    r"(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|several|many|some|a few|few|about|almost|over|nearly)"
)
_CHART = re.compile(
    r"-old\b|^(?:of )?old\b|\bof An?\b|\b(?i:patients?|presents|presented|para|gravida|gestation\w*|delivery|"
    r"undergo\w*|underwent|evaluating|including|complains|medical history|physician|doctor|pathologist|investigator|"
    r"researcher|clinic|hospital|office|emergency)\b|\d-k?g$|weeks pregnant|“|"
    r"\b(?:is|was|are|were|am|I'm) (?:brought|found|seen|admitted|referred|delivered|born)\b|"
    r"\b(?:his|her|their|the) (?:child|son|daughter)\b|\b(?:right|left)$|^of$|"
    r"^of (?:[A-Z][a-z]|(?:is|are|was|has|have|had|on|in|at|into|past)\b)|(?:the past|history|-onset)$|"
    r"^(?:of )?(?:an? )?(?:further )?(?:evaluation|management|treatment)$"
)
"""Phrases of charts and of exam questions, which are no complaint."""
_DETAIL = re.compile(
    rf"[,;:(]|\s(?:for|since|over (?:the|an?)|after|during|within|in the (?:past|last)|ever since|lately|which|"
    rf"that (?!i\b)|who|when|because|and (?:i|it|my|has|have|is|had|he|she|then)|but|with|starting|began|beginning|"
    rf"lasting|of {_NUMBER}|{_NUMBER} (?:hour|day|week|month|year)s?)\b",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"^.*?\b(?:presents?|presented|comes?|came|complain\w*|because|due|concern(?:ed|s)?|evaluation)\b.*?"
    r"\b(?:of|with|about|that|because|for)\b\s+",
    re.IGNORECASE,
)
_SPAN = re.compile(
    rf"^(?:an? )?{_NUMBER}[- ](?:hour|day|week|month|year)s?(?:['’]s?)?[- ](?:history )?(?:of )?", re.IGNORECASE
)

_LASTING = re.compile(
    rf"^(?:for|since|over|during) (?:the )?(?:past |last )?{_NUMBER} ?\w* ?(?:hour|day|week|month|year)s?,? ", re.I
)
_CLAUSE = re.compile(
    r"(?:(?:also|additionally|currently|initially) )?(?:is|was|are|were|has|had|does|did|presents?|presented|comes|"
    rf"came|{verbs('reporting', 's')}|{verbs('habits', 's')}|becomes?|collapsed|began|started|"
    r"when|although|if|at|on|upon|for|that|during)\b",
    re.IGNORECASE,
)
"""The beginning of a part of a sentence that does not name a complaint."""


def opening_of(case: Case) -> str:
    """Return the opening request of a case, by a model if there is one, otherwise by rule."""
    if case.opening is not None:
        return case.opening.text
    if case.profile is not None:
        lay = next((f.lay for f in case.profile.basic if f.key == "chief complaint"), UNWELL)
        complaint = _rough(sentences(lay)[0])
    else:
        complaint = _from_vignette(case) or UNWELL
    return f"Hello doctor. {complaint[:1].upper()}{complaint[1:]}. {PLEA}"


def is_vague(opening: str) -> bool:
    return UNWELL in opening


def openings_by(cases: Iterable[Case]) -> str:
    """Return the origins of the openings of cases: models with prompt hash, and the rule with its version."""
    return " + ".join(sorted({case.opening.made_by if case.opening else OPENINGS_BY_RULE for case in cases}))


def _from_vignette(case: Case) -> str:
    """Return the complaint in words of the vignette; empty if it names none. A caregiver may be the speaker."""
    speaking = speaking_of(case)
    complaint = complaint_of(case)
    if not complaint:
        return ""
    with_article = re.search(rf"\b(?:an?|the) {re.escape(complaint)}", case.vignette)
    phrase = _lower(in_lay_words(with_article[0] if with_article else complaint))
    return f"{_who_comes(speaking)}of {phrase if speaking.caregiver else _lower(first_person(phrase, speaking.sex))}"


def _who_comes(speaking: Speaking) -> str:
    if not speaking.caregiver:
        return "I've come because "
    return f"I've come with {'my child' if speaking.young else 'a relative'} because "


def _is_complaint(phrase: str) -> bool:
    """Say whether a patient could say this: no words of charts or examiners, and no known illness.

    A text that names a disease counts only if it also names a symptom.
    """
    if len(phrase) < _SHORTEST or not is_sayable(phrase) or _CHART.search(phrase):
        return False
    kinds = {knowledge().finding[finding].kind for finding in recogniser().read(phrase)}
    return "symptom" in kinds or not known_names(phrase, knowledge())


def complaint_of(case: Case) -> str:
    """Return the complaint in the vignette's words without details; empty if the vignette names none."""
    history = [fact for fact in facts_of(case) if fact.told and not denies_something(fact.text)]
    for fact in history:
        if fact.topic == "chief complaint":
            # without the arrival and the duration
            rough = " ".join(_rough(_SPAN.sub("", _LEAD.sub("", fact.text, count=1))).split()[:_MAX_WORDS])
            if not _CLAUSE.match(rough) and _is_complaint(f"of {rough}"):
                return rough
    nouns = (complaint_noun(fact.text) for fact in history)
    return next((noun for noun in nouns if noun != NO_NOUN), "")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _rough(text: str) -> str:
    """Return the complaint without its duration and the details after it."""
    text = _LASTING.sub("", text)
    detail = next((m for m in _DETAIL.finditer(text) if len(text[: m.start()].split()) >= 2 or m[0] in ",;:("), None)
    cut = text[: detail.start()] if detail else text
    plain = cut if len(cut.split()) >= 2 or not detail else text
    return plain.strip(" .,;:!?“”\"'")


_MEDIQ = "mediq"
MIN_SIMILARITY = 95.0
"""Vignettes of at least this similarity (0–100, Levenshtein on words joined by spaces) are the same."""
_NUMBERED = re.compile(r"^\s*\d+\s*[.)]\s*")
_SUBJECT = re.compile(
    r"^(?:the|this|an?) (?:\S+ ){0,2}?(?:patient|man|woman|boy|girl|child|infant|male|female|person|individual)\s+"
    r"(?:also |initially |currently )?(?:(?:is|was|has|had|have|had been|has been|presents? with|presented with|"
    r"reports?|reported|noticed) )?(?:an? )?",
    re.IGNORECASE,
)
_AGE = re.compile(r"\b(?:year|month|week|day)s?[- ]old\b|\bgender\b|\byears of age\b", re.IGNORECASE)
_DENIED = re.compile(r"\b(?:denie[sd]|no|not|never|without)\b", re.IGNORECASE)


class MediqRecord(BaseModel):
    """The fields of a record that are used."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    context: tuple[str, ...] = Field(min_length=1)
    facts: tuple[str, ...] = Field(min_length=1)

    @property
    def words(self) -> str:
        return " ".join(words_of(" ".join(self.context)))


@dataclass(frozen=True)
class MediqReading:
    """The records of a file; ``rejected`` has (line or position, reason) of unusable ones."""

    records: tuple[MediqRecord, ...]
    rejected: tuple[tuple[int, str], ...]


@dataclass
class MediqMatch:
    """Case key → items, and the number of records that match no case."""

    items: dict[str, ItemSet] = field(default_factory=dict)
    unmatched: int = 0


def read_mediq(path: Path) -> MediqReading:
    """Read a file; raise ``UsageError`` if it has no MediQ record."""
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
    """Return the items of the cases whose vignette equals a record's, or nearly (``MIN_SIMILARITY``)."""
    by_words: dict[str, list[Case]] = {}
    for case in cases:
        by_words.setdefault(" ".join(words_of(case.vignette)), []).append(case)
    match = MediqMatch()
    for record in records:
        same = by_words.get(record.words, [])
        if not same and (
            near := process.extractOne(record.words, by_words.keys(), scorer=fuzz.ratio, score_cutoff=MIN_SIMILARITY)
        ):
            same = by_words[near[0]]
        match.unmatched += not same
        for case in same:
            match.items[case.case_key] = ItemSet(items_of_facts(record.facts), _MEDIQ)
    return match


def items_of_facts(facts: Sequence[str]) -> tuple[HistoryItem, ...]:
    """Return the facts joined by topic, without their numbers and without "the patient has"."""
    groups: dict[Topic, list[str]] = {}
    for fact in facts:
        plain = _NUMBERED.sub("", fact).strip().rstrip(".")
        text = _SUBJECT.sub("", plain)
        # a fact without a topic is a symptom; the first one is the chief complaint
        symptom: Topic = "associated symptoms" if "chief complaint" in groups else "chief complaint"
        any_symptom: Topic = "negatives" if _DENIED.search(plain) else symptom
        topic: Topic = "demographics" if _AGE.search(plain) else topic_by_words(text) or any_symptom
        groups.setdefault(topic, []).append(plain if topic == "demographics" else text or plain)
    noun = complaint_noun(" ".join(groups.get("chief complaint", groups.get("associated symptoms", []))))
    return tuple(
        HistoryItem(key=PHRASES[topic].format(complaint=noun), value=join_values(texts, None), topic=topic)
        for topic, texts in groups.items()
        if any(texts)
    )


def _raw_records(content: bytes) -> list[bytes | object]:
    if content.lstrip()[:1] == b"[":
        try:
            listed = orjson.loads(content)
        except orjson.JSONDecodeError:
            return [content]
        return list(listed)
    return [line for line in content.splitlines() if line.strip()]
