"""Findings in prose: which findings of the knowledge base a text mentions, as present or absent.

``Recogniser`` matches phrases on word stems with small gaps and follows denials through a clause
(``core.text.negation``). Statements about relatives count only as family history. A phrase in quotation marks is
matched word for word; a phrase inside an ``unless`` phrase does not count. Vital signs and laboratory values count by
their numbers (``core.text.quantities``).
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from core.knowledge.base import Finding, Knowledge, knowledge
from core.text.negation import (
    AFTERWARDS_ABSENT,
    NEGATORS,
    QUALIFIED,
    ContentWord,
    content_words,
    is_content,
    stem_of,
    words_in,
)
from core.text.quantities import read_measures
from core.text.sections import sentences

_MAX_GAP = 1
_AFTERWARDS_REACH = 3


@dataclass(frozen=True)
class _Phrase:
    finding: str
    stems: tuple[str, ...]
    is_history: bool
    """A symptom or a fact of the history: words such as "normal" after it do not deny it."""
    family: bool
    literal: str | None
    """The exact words of a phrase in quotation marks, or of a phrase with a single content word among others."""
    only_cancels: bool = False


class Recogniser:
    """Recognises the findings of a knowledge base in text."""

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

    def _add(self, finding: Finding, text: str, only_cancels: bool = False) -> None:
        words = words_in(text)
        stems = tuple(stem_of(w) for w in words if is_content(w))
        is_literal = text.startswith('"') or len(stems) == 1 < len(words)
        literal = f" {' '.join(words)} " if is_literal else None
        if stems:
            is_history, family = finding.kind in ("symptom", "history"), finding.kind == "family"
            phrase = _Phrase(finding.id, stems, is_history, family, literal, only_cancels)
            self._by_first[stems[0]].append(phrase)

    def _read(self, text: str) -> dict[str, bool]:
        """Return finding → present for all findings that the text mentions; present takes precedence."""
        findings: dict[str, bool] = {}
        for sentence in sentences(text):
            for finding, present in self._mentions_in(sentence):
                findings[finding] = findings.get(finding, False) or present
        return findings

    def _sentence(self, sentence: str) -> tuple[tuple[str, bool], ...]:
        measured = (mention for mention in read_measures(sentence) if mention[0] in self._knowledge.finding)
        return (*self._spelt(words_in(sentence)), *measured)

    def _spelt(self, words: list[str]) -> Iterator[tuple[str, bool]]:
        """Yield (finding, present) for the phrases in the words.

        The full search runs only for phrases with all words in the sentence.
        """
        present_stems, plain = {stem_of(word) for word in words if is_content(word)}, f" {' '.join(words)} "
        candidates = {
            stem: phrases
            for stem in self._by_first.keys() & present_stems
            if (
                phrases := [
                    phrase
                    for phrase in self._by_first[stem]
                    if phrase.stems[-1] in present_stems
                    and present_stems.issuperset(phrase.stems)
                    and (phrase.literal or "") in plain
                ]
            )
        }
        tokens = list(content_words(words)) if candidates else []
        matches: list[tuple[_Phrase, frozenset[int], bool]] = []
        for start, token in enumerate(tokens):
            for phrase in candidates.get(token.stem, ()):
                matched = _match(tokens, start, phrase.stems)
                if matched and (phrase.family or not any(t.relative for t in matched)):
                    where = frozenset(t.position for t in matched)
                    matches.append((phrase, where, not _is_absent(tokens, matched, phrase.is_history)))
        cancelled = [
            (phrase.finding, frozenset(range(min(where), max(where) + 1)))
            for phrase, where, _ in matches
            if phrase.only_cancels
        ]
        for phrase, where, present in matches:
            if phrase.only_cancels or any(phrase.finding == f and where <= other for f, other in cancelled):
                continue
            # "no bloody diarrhea" does not deny diarrhea, so an absent part of a longer phrase is dropped
            if present or not any(where < other for _, other, _ in matches):
                yield phrase.finding, present


def _match(tokens: list[ContentWord], start: int, stems: tuple[str, ...]) -> list[ContentWord] | None:
    """Return the tokens of the phrase from ``start`` on, with at most one other word between neighbours."""
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


def _is_absent(tokens: list[ContentWord], matched: list[ContentWord], is_history: bool) -> bool:
    positions = {token.position for token in matched}
    if any(t.negated_by is not None and t.negated_by not in positions for t in matched):
        return True
    if any(t.stem in _AFTERWARDS_STEMS for t in matched):
        return False
    last = matched[-1]
    following = tokens[last.position + 1 :]
    reached = [t for t in following[:_AFTERWARDS_REACH] if t.clause == last.clause]
    absent = _AFTERWARDS_STEMS - _TESTED_STEMS if is_history else _AFTERWARDS_STEMS
    # the sentence may end a list with "are negative" ("Hepatitis B, hepatitis C, and HIV are negative")
    return any(t.stem in absent and t.before not in QUALIFIED for t in reached) or (
        bool(following) and following[-1].stem in absent and following[-1].before in ("are", "were")
    )


@functools.cache
def recogniser() -> Recogniser:
    """Return the recogniser for the project's knowledge base, built once."""
    return Recogniser(knowledge())
