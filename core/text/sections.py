"""The sections of a vignette, and the sentences that only an examiner or a device could state.

Headings ("Past history:", "Labs:") decide first. Otherwise the words of a sentence decide, in the order of the table
below; a sentence without such words continues the section before it. ``divided`` separates the results of examination
and tests, vital signs included, which a patient could not state. They are the doctor's examination and the clinical
staff's replies, and a patient by rule never tells them.

The main clause decides a mixed sentence: one that reports ("denies", "says", "takes", "three weeks ago") belongs to the
history, unless it begins with the examination or a vital sign ("On examination, she has …").
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from core.case import Case, FactSection
from core.text.vocabulary import AGED, Cue, Words, relatives, verbs, view

VignetteSection = Literal[
    "demographics",
    "complaint",
    "past_history",
    "medication",
    "family_history",
    "social_history",
    "vital_signs",
    "examination",
    "laboratory",
    "imaging",
    "other_tests",
]
"""Parts of a vignette; ``complaint`` is the chief complaint with the history of the present illness."""
VIGNETTE_SECTIONS: tuple[VignetteSection, ...] = get_args(VignetteSection)
_SECTIONS: dict[str, FactSection] = {name: name for name in get_args(FactSection)}

_ABBREVIATION = "".join(
    rf"(?<!\b{word}\.)" for word in ("Dr", "Mr", "Mrs", "Ms", "St", "vs", "approx", "e\\.g", "i\\.e")
)
_SENTENCE = re.compile(rf"(?<=[.!?]){_ABBREVIATION}[\"')\]”]*\s+(?=[A-Z0-9\"'(“])")


def sentences(text: str) -> list[str]:
    return [piece.strip() for line in text.splitlines() for piece in _SENTENCE.split(line) if piece.strip()]


_TOPICS: dict[VignetteSection, str] = {
    name: "chief complaint" if name == "complaint" else name.replace("_", " ") for name in VIGNETTE_SECTIONS
}
"""Section → topic of the taxonomy."""


def _words_of(sections: Sequence[VignetteSection], *of: Cue) -> tuple[tuple[VignetteSection, Words], ...]:
    views = view([_TOPICS[section] for section in sections], *of)
    return tuple((section, words) for section, (_, words) in zip(sections, views, strict=True))


_HEADINGS = _words_of(VIGNETTE_SECTIONS, "heading")
_HEADING = re.compile(r"^[*_#\s-]*(?P<name>[A-Za-z][A-Za-z/& -]{1,40}?)[*_\s]*(?::[*_\s]*(?P<rest>.*)|(?P<bare>))$")

_BY_WORDS: tuple[VignetteSection, ...] = (
    "family_history", "imaging", "other_tests", "laboratory", "vital_signs", "examination", "medication",
    "social_history", "past_history",
)  # fmt: skip
_WORD_RULES = _words_of(_BY_WORDS, "statement", "sentence")
"""In order of precedence."""
_PRESENTS = re.compile(
    r"\b(?:comes?|came|presents?|presented|brought|referred|admitted|evaluated|seen|visits?|complain\w*|because of|"
    r"with (?:a|an|\w+) )",
    re.IGNORECASE,
)
_PERSON = re.compile(rf"(?<!\bat )\b{AGED}|\bnewborn\b|\bis (?:a )?(?:fe)?male\b", re.I)


def sections_of(vignette: str) -> tuple[tuple[VignetteSection, str], ...]:
    """Return (section, sentence) for every sentence of the vignette in order, without headings."""
    return tuple((part.section, part.sentence) for part in _section_sentences(vignette) if part.sentence)


class _SectionSentence(NamedTuple):
    """A sentence with its section, its line number, and the heading before it, if any.

    The sentence is empty if a line contains only a heading. ``by`` says what decided the section: a heading, the words
    of the sentence, or the sentence before.
    """

    section: VignetteSection
    by: Literal["heading", "words", "before"]
    sentence: str
    line: int
    heading: str


_MAX_TABLE_LINE = 60
"""A shorter line (in characters) without a full stop, after a result, is a value of the same table."""


def _section_sentences(vignette: str) -> Iterator[_SectionSentence]:
    before: VignetteSection | None = None
    headed: VignetteSection | None = None
    for number, line in enumerate(vignette.splitlines()):
        section, heading, rest = _heading(line)
        if section is not None:
            headed = section
        elif not line.strip():
            headed = None if headed and before == headed else headed
        if section is not None and not rest.strip():
            yield _SectionSentence(section, "heading", "", number, heading)
        for sentence in sentences(rest):
            of_table = before in _SECTIONS and sentence[-1] not in ".!?:" and len(sentence) < _MAX_TABLE_LINE
            own = None if headed else before if of_table else _by_words(sentence, first=before is None)
            carried = "examination" if before == "vital_signs" else before if before in _SECTIONS else "complaint"
            before = headed or own or carried
            yield _SectionSentence(
                before, "heading" if headed else "words" if own else "before", sentence, number, heading
            )
            heading = ""


def _heading(line: str) -> tuple[VignetteSection | None, str, str]:
    """Return the section of a line's heading, the heading, and the rest of the line."""
    match = _HEADING.match(line)
    if match:
        for section, words in _HEADINGS:
            if re.fullmatch(words.pattern, match["name"].strip().lower()):
                rest = match["rest"] or ""
                return section, line[: len(line) - len(rest)].strip(), rest
    return None, "", line


def _by_words(sentence: str, *, first: bool) -> VignetteSection | None:
    """Return the section that the words of a sentence show, or ``None``."""
    if first or _PERSON.search(sentence):
        return "complaint" if _PRESENTS.search(sentence) or not _PERSON.search(sentence) else "demographics"
    lowered = sentence.lower()
    return next((section for section, words in _WORD_RULES if words.are_in(lowered)), None)


_MORE_RULES = tuple((_SECTIONS[section], words) for section, words in _words_of(get_args(FactSection), "weak"))
"""Words of results that the first table, which is for whole vignettes, would assign to the complaint."""
_UNSURE = "note add recall describe mention claim"
_TELLS = re.compile(
    rf"\b(?:{verbs('reporting', 'base', 's', 'past', without=_UNSURE)}|complain\w*|takes|taking|smok\w+|drinks|"
    rf"(?:{relatives('parents', 'partners', 'companions')})s?|family|works|lives|notes that|travel\w*|allerg\w*|"
    r"confess\w*|"
    r"history of|recently|last (?:week|month|year|physical)|(?:days?|weeks?|months?|years?) (?:ago|earlier)|pets?\b|"
    r"diagnosed|medications?|vaccin\w+|immuni[sz]\w+)\b",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"^(?:[\w’']+,? ){0,3}?(?:he|she|they|(?:his|her|the)(?: patient['’]s)? (?:patient|\w+)) (?:also |currently |"
    rf"then )?(?:{verbs('reporting', 'base', 's')}|takes|smokes|drinks)\b",
    re.IGNORECASE,
)
_CLEAR_RESULT = re.compile(
    r"^(?:up)?(?:on|at) (?:\w+ ){0,3}?(?:exam\w*|inspection|auscultation|palpation|arrival)\b|\bexam(?:ination)? "
    r"(?:shows?|showed|reveals?|revealed|is|was|demonstrates?|demonstrated|finds)\b|^(?:his|her|the) (?:temperature|"
    r"vital|pulse|blood pressure)",
    re.IGNORECASE,
)
_DONE = re.compile(
    r"\b(?:refers|is referred|reassures|demands|vomits|delivered (?:vaginally|by)|prenatal visit|never notes|is (?:"
    r"very )?concerned|no other (?:medical|symptoms|complaints)|no systemic symptoms|(?:no|positive) history of|"
    r"sample (?:is|are|for analysis)|plotted)\b|\blast (?:\w+ ){0,3}exam\w*\b",
    re.IGNORECASE,
)
"""An action or a report, even if the sentence also names results."""
_ENDS_RESULTS = re.compile(
    r"\b(?:treatment (?:is|was|with)|treated with|therapy (?:is|was) (?:begun|started|initiated)|(?:is|was) (?:"
    r"admitted|discharged|rushed|transferred|started on|informed|counsel\w+|prescribed|advised|taken to|"
    r"given)|initiated|well-controlled|spending|calls|following an?|because)\b|^(?:\w+ ){1,3}(?:ago|earlier|later),|"
    r"^although\b",
    re.IGNORECASE,
)
"""Ends a sequence of results, unless the sentence contains a result."""
_ASKS = re.compile(
    r"^(?:which|what) (?:one )?(?:of the|is|are|would|will|should|test|next|diagnosis)\b|"
    r"\bmost likely diagnosis\b[^.]{0,40}(?:is|:)$|\?[\"”’]?$",
    re.IGNORECASE,
)
"""An exam question inside the vignette, which no role in the conversation may receive."""
_CONTINUES = re.compile(
    rf"(?!(?:he|she|the patient|(?:his|her|the) (?:{relatives('parents')}))\b)(?:[\w,'’-]+ ){{1,8}}?(?:is|are|was|"
    r"were) (?:also )?(?:normal|intact|clear|unremarkable|present|absent|seen|noted|visible|positive|negative|pending|"
    r"within)\b",
    re.IGNORECASE,
)
"""The beginning of a sentence that continues an examination."""


@dataclass(frozen=True)
class Divided:
    """A vignette's sentences in order: the history, and the results with their sections.

    ``examination`` is the text of the results, with headings and line breaks; empty without results.
    """

    history: tuple[str, ...]
    results: tuple[tuple[FactSection, str], ...]
    examination: str


@functools.lru_cache(maxsize=4_096)
def divided(vignette: str) -> Divided:
    """Separate history and results; the first sentence, which introduces the patient, belongs to the history."""
    history: list[str] = []
    results: list[tuple[FactSection, str]] = []
    text: list[str] = []
    before: FactSection | None = None
    line = -1
    for number, part in enumerate(_section_sentences(vignette)):
        sentence = part.sentence
        if ("?" in sentence or sentence[:2] in ("Wh", "wh") or "ost likely" in sentence) and _ASKS.search(sentence):
            continue
        section = _result_section(part)
        if section is None and before is not None and _CONTINUES.match(sentence):
            section = before
        if number == 0 and not _CLEAR_RESULT.search(sentence):
            section = None
        before = section
        if section is None:
            history.append(sentence)
            continue
        if sentence:
            results.append((section, sentence))
        text.append("\n" if text and part.line != line else " " if text else "")
        text.append(f"{part.heading} {sentence}".strip())
        line = part.line
    return Divided(tuple(filter(None, history)), tuple(results), "".join(text))


def examination_of(case: Case) -> str | None:
    """Return the results of examination and tests as a text, or ``None`` if the case has none.

    They are vital signs, physical examination, laboratory, imaging and other tests: the optional facts of a profile;
    without a profile, sentences of the vignette.
    """
    if case.profile is None:
        return divided(case.vignette).examination or None
    facts = case.profile.optional
    return " ".join(f"{fact.key[:1].upper()}{fact.key[1:]}: {fact.value.rstrip('.')}." for fact in facts) or None


def _result_section(part: _SectionSentence) -> FactSection | None:
    """Return the section of a sentence with a result, otherwise ``None``."""
    section = _SECTIONS.get(part.section)
    if section is None and part.section not in ("complaint", "demographics"):
        return None
    reports = bool(_TELLS.search(part.sentence)) and not _CLEAR_RESULT.search(part.sentence)
    if section is None or part.by != "words":
        lowered = part.sentence.lower()
        rules = _MORE_RULES if part.by == "before" else (*_RESULT_RULES, *_MORE_RULES)
        by_words = next((name for name, words in rules if words.are_in(lowered)), None)
        if section is None:
            section = None if reports else by_words
        elif by_words is None and (reports or _ENDS_RESULTS.search(part.sentence)):
            section = None
    reported = reports and _REPORTED.search(part.sentence)
    return None if section is None or reported or _DONE.search(part.sentence) else section


_RESULT_RULES = tuple((_SECTIONS[section], words) for section, words in _WORD_RULES if section in _SECTIONS)
