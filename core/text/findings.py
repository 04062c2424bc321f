"""Findings in prose and in a dialogue: which of the known findings a text, a question or a reply speaks of.

``Recogniser`` says which findings a text says are present, and which absent. Phrases are matched on word stems with
small gaps; what denies them is followed through a clause (``core.text.negation``); what is said of relatives counts
only as family history. A phrase in quotation marks is matched word for word, and where an ``unless`` phrase covers a
phrase, the phrase does not count. Vital signs and laboratory values count by their numbers (``core.text.quantities``).

``Understanding`` is what the reference cast makes of that: which finding a question asks for, and what a reply says of
it.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from core.case import Sex
from core.knowledge.base import Finding, Kind, Knowledge, knowledge
from core.knowledge.bayes import Evidence
from core.text.demographics import read_demographics
from core.text.negation import (
    AFTERWARDS_ABSENT,
    NEGATORS,
    NO,
    QUALIFIED,
    UNKNOWN,
    YES,
    Token,
    is_content,
    is_negated,
    stem_of,
    tokens_of,
    words_in,
)
from core.text.quantities import Quantity, read_measures, said_age
from core.text.sections import sentences
from core.text.vocabulary import DAYS, Words, cues

_MAX_GAP = 1
_AFTERWARDS_REACH = 3


Mention = tuple[str, bool]
"""A finding that a text speaks of, and whether it says it is there."""


@dataclass(frozen=True)
class _Phrase:
    finding: str
    stems: tuple[str, ...]
    told: bool
    """A patient knows it: a test of it cannot be "normal"."""
    family: bool
    literal: str | None
    """The words as they stand: of a phrase in quotation marks, and of one that is a single word but for common ones."""
    only_cancels: bool = False


class Recogniser:
    """Finds the findings of one ``Knowledge`` in text."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._by_first: dict[str, list[_Phrase]] = defaultdict(list)
        for finding in knowledge.findings:
            for text in finding.phrases:
                self._add(finding, text)
            for text in finding.unless:
                self._add(finding, text, only_cancels=True)
        self.read = functools.lru_cache(maxsize=20_000)(self._read)
        self._mentions_in = functools.lru_cache(maxsize=20_000)(self._sentence)
        self.stems_of = functools.lru_cache(maxsize=4_096)(self._stems_of)

    def _add(self, finding: Finding, text: str, only_cancels: bool = False) -> None:
        words = words_in(text)
        stems = tuple(stem_of(w) for w in words if is_content(w))
        as_it_stands = text.startswith('"') or len(stems) == 1 < len(words)
        literal = f" {' '.join(words)} " if as_it_stands else None
        if stems:
            told, family = finding.kind in ("symptom", "history"), finding.kind == "family"
            phrase = _Phrase(finding.id, stems, told, family, literal, only_cancels)
            self._by_first[stems[0]].append(phrase)

    def _stems_of(self, finding: str) -> frozenset[str]:
        """Return the stems of all phrases that tell a finding."""
        phrases = self._knowledge.finding[finding].phrases
        return frozenset(stem_of(word) for phrase in phrases for word in words_in(phrase) if is_content(word))

    def _read(self, text: str) -> dict[str, bool]:
        """Return finding → present for all that the text speaks of; present wins over absent."""
        found: dict[str, bool] = {}
        for finding, present in self.mentions(text):
            found[finding] = found.get(finding, False) or present
        return found

    def mentions(self, text: str) -> Iterator[Mention]:
        """Yield every mention in order of the text."""
        for sentence in sentences(text):
            yield from self._mentions_in(sentence)

    def _sentence(self, sentence: str) -> tuple[Mention, ...]:
        known = (mention for mention in read_measures(sentence) if mention[0] in self._knowledge.finding)
        return (*self._spelt(words_in(sentence)), *known)

    def _spelt(self, words: list[str]) -> Iterator[Mention]:
        """Yield what phrases tell; the words are looked at closely only where all words of a phrase are there."""
        held, plain = {stem_of(word) for word in words if is_content(word)}, f" {' '.join(words)} "
        there = {
            stem: phrases
            for stem in self._by_first.keys() & held
            if (
                phrases := [
                    phrase
                    for phrase in self._by_first[stem]
                    if phrase.stems[-1] in held and held.issuperset(phrase.stems) and (phrase.literal or "") in plain
                ]
            )
        }
        tokens = list(tokens_of(words)) if there else []
        matches: list[tuple[_Phrase, frozenset[int], bool]] = []
        for start, token in enumerate(tokens):
            for phrase in there.get(token.stem, ()):
                matched = _match(tokens, start, phrase.stems)
                if matched and (phrase.family or not any(t.relative for t in matched)):
                    where = frozenset(t.position for t in matched)
                    matches.append((phrase, where, not _is_absent(tokens, matched, phrase.told)))
        cancelled = [
            (phrase.finding, frozenset(range(min(where), max(where) + 1)))
            for phrase, where, _ in matches
            if phrase.only_cancels
        ]
        for phrase, where, present in matches:
            if phrase.only_cancels or any(phrase.finding == f and where <= other for f, other in cancelled):
                continue
            # "no bloody diarrhea" says nothing of plain diarrhea, so an absent part of a longer phrase is dropped
            if present or not any(where < other for _, other, _ in matches):
                yield phrase.finding, present


def _match(tokens: list[Token], start: int, stems: tuple[str, ...]) -> list[Token] | None:
    """Return the tokens that spell the phrase from ``start`` on, at most one other word between neighbours."""
    matched = [tokens[start]]
    index = start
    for stem in stems[1:]:
        near = tokens[index + 1 : index + _MAX_GAP + 2]
        step = next((n for n, token in enumerate(near) if token.stem == stem or token.stem in _NEGATOR_STEMS), None)
        if step is None or near[step].stem != stem:
            return None
        matched.append(near[step])
        index += step + 1
    return matched


_NEGATOR_STEMS = frozenset(stem_of(word) for word in NEGATORS)
_TESTED_STEMS = frozenset(stem_of(word) for word in ("normal", "unremarkable", "noncontributory"))
_AFTERWARDS_STEMS = frozenset(stem_of(word) for word in AFTERWARDS_ABSENT)


def _is_absent(tokens: list[Token], matched: list[Token], told: bool) -> bool:
    own = {token.position for token in matched}
    if any(t.negated_by is not None and t.negated_by not in own for t in matched):
        return True
    if any(t.stem in _AFTERWARDS_STEMS for t in matched):
        return False
    last = matched[-1]
    following = tokens[last.position + 1 :]
    reached = [t for t in following[:_AFTERWARDS_REACH] if t.clause == last.clause]
    absent = _AFTERWARDS_STEMS - _TESTED_STEMS if told else _AFTERWARDS_STEMS
    # whether the sentence ends a list with "are negative" ("Hepatitis B, hepatitis C, and HIV are negative")
    return any(t.stem in absent and t.before not in QUALIFIED for t in reached) or (
        bool(following) and following[-1].stem in absent and following[-1].before in ("are", "were")
    )


_NOT_NOTICED = re.compile(
    r"^(?:I|we) haven['’]t (?:noticed (?:that|anything like that)|paid attention to that)\.?$", re.IGNORECASE
)
"""Says neither that it is there nor that it is not."""
_ABOUT_PERSON = Words(cues("demographics", of=("question",)))
_ABOUT_SELF = re.compile(
    r"\b(?:i'm|i am|i’m) (?:(?:an?|only|just|already|now) )*(?:\d|\w+-year|man\b|woman\b|male\b|female\b|pregnant)|"
    r"\bmy (?:\d+[- ]\w+[- ]old )?(?:son|daughter|baby|child|little (?:boy|girl)|boy|girl)\b",
    re.I,
)
_OLDEST = 110
"""Years: what is more is no age."""


class Understanding:
    """Reads questions and replies with the findings of one ``Knowledge``."""

    def __init__(self, source: Knowledge) -> None:
        self.recogniser = Recogniser(source)
        self._knowledge = source
        self._asks = {_plain(f.ask): f.id for f in source.findings if f.ask}
        self.asked_findings = functools.lru_cache(maxsize=20_000)(self._asked_findings)
        self.reply_findings = functools.lru_cache(maxsize=50_000)(self._reply_findings)

    def stated_question(self, question: str) -> str | None:
        """Return the finding whose own question this is or ends with, the longest one; ``None`` where it is none's."""
        plain = _plain(question)
        return self._asks[max(fits, key=len)] if (fits := [ask for ask in self._asks if plain.endswith(ask)]) else None

    def kind_of(self, finding: str) -> Kind:
        """Return what kind of finding it is."""
        return self._knowledge.finding[finding].kind

    def _asked_findings(self, question: str) -> tuple[str, ...]:
        """Return the findings that a question asks for, most certain first."""
        plain = _plain(question)
        exact = [self._asks[ask] for ask in sorted(self._asks, key=len, reverse=True) if plain.endswith(ask)]
        return tuple(dict.fromkeys([*exact, *self.recogniser.read(question)]))

    def _reply_findings(self, question: str, reply: str) -> Mapping[str, bool]:
        """Return finding → present for what a reply says; a bare yes or no is taken for what was asked."""
        said = dict(self.recogniser.read(reply))
        if UNKNOWN.search(reply) or _NOT_NOTICED.match(reply):
            return {f: present for f, present in said.items() if present}
        denied = NO.search(reply) or is_negated(reply.strip())
        polarity = False if denied else True if YES.match(reply) else None
        asked = self.asked_findings(question)
        if polarity is not None and asked and asked[0] not in said:
            said[asked[0]] = polarity
        return said

    def evidence_of_text(self, text: str) -> Evidence:
        """Return the evidence in a vignette, a summary or an examination."""
        age, sex = read_demographics(text)
        return Evidence(
            self.recogniser.read(text), age if age is not None else _years(said_age(text, asked=False)), sex
        )

    def evidence_of_dialogue(self, exchanges: tuple[tuple[str, str], ...]) -> Evidence:
        """Return the evidence of (question, reply) pairs; later words win over earlier ones."""
        found: dict[str, bool] = {}
        age, sex = None, None
        for question, reply in exchanges:
            found.update(self.reply_findings(question, reply))
            read_age, read_sex = _own_demographics(question, reply)
            age, sex = age if age is not None else read_age, sex or read_sex
        return Evidence(found, age, sex)


def _own_demographics(question: str, reply: str) -> tuple[float | None, Sex | None]:
    """Return age and sex of the patient; what a reply says of others ("my wife … she") is not taken for theirs."""
    asked = _ABOUT_PERSON.are_in(question.lower())
    if not asked and not _ABOUT_SELF.search(reply):
        return None, None
    age, sex = read_demographics(reply)
    if sex is None:
        child = re.search(r"\b(?:(daughter)|son)\b", reply, re.I)
        sex = None if child is None else "female" if child[1] else "male"
    return age if age is not None else _years(said_age(reply, asked)), sex


def _years(age: Quantity | None) -> float | None:
    """Return an age in years, unless nobody grows so old."""
    years = age.low / DAYS["year"] if age else None
    return years if years is not None and years <= _OLDEST else None


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9']+", text.lower()))


@functools.cache
def understanding() -> Understanding:
    """Return the understanding over the project's own knowledge, built once."""
    return Understanding(knowledge())
