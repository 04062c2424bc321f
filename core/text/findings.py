"""Reads findings out of prose: which of the known findings a text says are present, and which absent.

Phrases are matched on word stems with small gaps; what denies them is followed through a clause
(``core.text.negation``); what is said of relatives counts only as family history. A phrase in quotation marks is
matched word for word, and where an ``unless`` phrase covers a phrase, the phrase does not count.

Vital signs and common laboratory values are read as numbers. The limits are the usual adult reference limits, rounded;
children's pulse and breathing rates are not told apart. Counts and sugar in spinal fluid, urine or joint fluid are not
taken for those of the blood.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from core.case import sentences
from core.knowledge.base import Finding, Knowledge
from core.text.negation import (
    AFTERWARDS_ABSENT,
    NEGATORS,
    QUALIFIED,
    Token,
    is_content,
    stem_of,
    tokens_of,
    words_in,
)
from core.vocabulary import DAYS, NUMBERS, VAGUE, alternatives

_MAX_GAP = 1
_AFTERWARDS_REACH = 3


@dataclass(frozen=True)
class Mention:
    """A finding that a text speaks of, and whether it says it is there."""

    finding: str
    present: bool


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
        for mention in self.mentions(text):
            found[mention.finding] = found.get(mention.finding, False) or mention.present
        return found

    def mentions(self, text: str) -> Iterator[Mention]:
        """Yield every mention in order of the text."""
        for sentence in sentences(text):
            yield from self._sentence(words_in(sentence))
            for finding, present in read_measures(sentence):
                if finding in self._knowledge.finding:
                    yield Mention(finding, present)

    def _sentence(self, words: list[str]) -> Iterator[Mention]:
        tokens, plain = list(tokens_of(words)), f" {' '.join(words)} "
        matches: list[tuple[_Phrase, frozenset[int], bool]] = []
        for start, token in enumerate(tokens):
            for phrase in self._by_first.get(token.stem, ()):
                if phrase.literal is not None and phrase.literal not in plain:
                    continue
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
                yield Mention(phrase.finding, present)


def _match(tokens: list[Token], start: int, stems: tuple[str, ...]) -> list[Token] | None:
    """Return the tokens that spell the phrase from ``start`` on, at most one other word between neighbours."""
    matched = [tokens[start]]
    index = start
    for stem in stems[1:]:
        for step in range(1, _MAX_GAP + 2):
            if index + step >= len(tokens):
                return None
            candidate = tokens[index + step]
            if candidate.stem == stem:
                index += step
                matched.append(candidate)
                break
            if candidate.stem in _NEGATOR_STEMS:
                return None
        else:
            return None
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
    return any(t.stem in absent and t.before not in QUALIFIED for t in reached) or _list_denied(following, absent)


def _list_denied(following: list[Token], absent: frozenset[str]) -> bool:
    """Say whether the sentence ends a list with "are negative" ("Hepatitis B, hepatitis C, and HIV are negative")."""
    return bool(following) and following[-1].stem in absent and following[-1].before in ("are", "were")


_GAP = r"[^.;,0-9]{0,40}?"
_NUMBER = rf"{_GAP}(\d{{1,3}}(?:,\d{{3}})+|\d+(?:\.\d+)?)(?![\d.,]*\d)"
_NOT_A_DOSE = r"(?!\s*mg\b)"
_NOT_PERCENT = r"(?!\s*%)"
_BLOOD = r"(?<!urine )(?<!urinary )(?<!fluid )"


@dataclass(frozen=True)
class _Measure:
    """A named quantity: below ``low`` it means one finding, above ``high`` another.

    ``unit`` must follow the number (or must not, as a negative look-ahead).
    """

    names: str
    low: float | None = None
    low_finding: str | None = None
    high: float | None = None
    high_finding: str | None = None
    unit: str = ""
    blood_only: bool = False

    def judge(self, value: float) -> Iterator[tuple[str, bool]]:
        """Yield (finding, present) for a value."""
        if self.low is not None and self.low_finding:
            yield self.low_finding, value < self.low
        if self.high is not None and self.high_finding:
            yield self.high_finding, value > self.high


_MILLIGRAMS = r"\s*mg\s*(?:/|per)"
_MILLIMOLES = r"\s*mmol"
_MEASURES = (
    _Measure(r"(?:pulse|heart rate)", 55, "bradycardia", 100, "tachycardia"),
    _Measure(r"(?:respirations|respiratory rate|breathing rate)", high=22, high_finding="tachypnea"),
    _Measure(r"(?:oxygen saturation|spo2|sao2|saturation)", 93, "hypoxia"),
    _Measure(r"(?:body mass index|\bbmi)", 17, "thin_habitus", 29.9, "obesity"),
    _Measure(r"(?:mean corpuscular volume|\bmcv)", 80, "microcytosis", 100, "macrocytosis"),
    _Measure(_BLOOD + r"\bsodium(?! chloride| bicarb)", 133, "hyponatremia", 147, "hypernatremia", unit=_NOT_A_DOSE),
    _Measure(r"\burine sodium", high=40, high_finding="concentrated_urine"),
    _Measure(r"\burine osmolality", 200, "dilute_urine", 400, "concentrated_urine"),
    _Measure(r"(?:serum|plasma|effective) osmolality", high=305, high_finding="hyperosmolality"),
    _Measure(
        _BLOOD + r"\bpotassium(?! chloride| citrate| iodide| hydroxide)",
        3.4, "hypokalemia", 5.3, "hyperkalemia", unit=_NOT_A_DOSE,
    ),
    _Measure(r"(?:creatine kinase|\bck\b)", high=300, high_finding="high_ck"),
    _Measure(r"(?:lipase|amylase)", high=200, high_finding="high_lipase"),
    _Measure(r"(?:alkaline phosphatase)", high=140, high_finding="high_alp"),
    _Measure(r"(?:lactate dehydrogenase|\bldh\b)", high=280, high_finding="high_ldh", blood_only=True),
    _Measure(r"bilirubin", high=2, high_finding="high_bilirubin", unit=r"(?!\s*[µμ]?u?mol)"),
    _Measure(r"(?:erythrocyte sedimentation rate|\besr\b)", high=30, high_finding="high_esr"),
    _Measure(
        r"(?:aspartate aminotransferase|alanine aminotransferase|\bast\b|\balt\b)",
        high=70, high_finding="high_transaminases",
    ),
    _Measure(r"(?:thyroid[- ]stimulating hormone|\btsh\b)", 0.3, "low_tsh", 5.5, "high_tsh"),
    _Measure(r"\bferritin", 12, "low_ferritin", 400, "high_ferritin"),
    _Measure(r"\bcd4\+?(?:[- ](?:t|cell|lymphocyte|count)s?)*", 200, "low_cd4"),
    _Measure(r"\bvaginal ph\b", high=4.5, high_finding="high_vaginal_ph"),
    _Measure(r"\btotal proteins?", high=8.5, high_finding="high_total_protein", unit=r"\s*g\s*/\s*dl"),
    _Measure(r"\beosinophils?", high=6, high_finding="eosinophilia", unit=r"\s*%", blood_only=True),
    _Measure(r"\breticulocytes?(?: count)?", 0.5, "low_reticulocytes", 2.5, "high_reticulocytes", unit=r"\s*%"),
    _Measure(r"(?:\bhba1c|\bhemoglobin a1c|\ba1c)", high=6.4, high_finding="high_a1c", unit=r"\s*%"),
    _Measure(r"\bfev1\s?[/:]\s?fvc(?: ratio)?", 70, "obstructive_spirometry", unit=r"\s*%"),
    _Measure(r"creatinine", high=1.4, high_finding="high_creatinine", unit=_MILLIGRAMS),
    _Measure(r"creatinine", high=124, high_finding="high_creatinine", unit=r"\s*[µμu]mol"),
    _Measure(_BLOOD + r"glucose", 60, "low_glucose", 180, "high_glucose", unit=_MILLIGRAMS, blood_only=True),
    _Measure(_BLOOD + r"glucose", 3.3, "low_glucose", 10, "high_glucose", unit=_MILLIMOLES, blood_only=True),
    _Measure(_BLOOD + r"calcium", 8.4, "hypocalcemia", 10.6, "hypercalcemia", unit=_MILLIGRAMS),
    _Measure(_BLOOD + r"calcium", 2.1, "hypocalcemia", 2.65, "hypercalcemia", unit=_MILLIMOLES),
)  # fmt: skip
_COMPILED = tuple((re.compile(m.names + _NUMBER + m.unit, re.IGNORECASE), m) for m in _MEASURES)
_HEMOGLOBIN = re.compile(r"(?:hemoglobin|haemoglobin)(?! a1c)(?! a2)" + _NUMBER + _NOT_PERCENT, re.IGNORECASE)
_TEMPERATURE = re.compile(r"(\d{2,3}(?:\.\d+)?)\s*(?:°|º|deg(?:rees)?\.? )\s*([CF])", re.IGNORECASE)
_PRESSURE = re.compile(r"(?:blood pressure|bp)\b[^0-9]{0,30}(\d{2,3})\s*/\s*(\d{2,3})", re.IGNORECASE)
_LAST_PERIOD = re.compile(r"last (?:menstrual )?period[^.;0-9]{0,25}?(\d+) (week|month)s? ago", re.IGNORECASE)
_PERCENT_EOSINOPHILS = re.compile(
    r"(\d+(?:\.\d+)?)\s*% (?:of (?:white cells|leukocytes) are )?eosinophils", re.IGNORECASE
)
_WORDED = {**NUMBERS, **{word: (low + high) / 2 for word, (low, high) in VAGUE.items()}}
_HOW_LONG = rf"(\d+|{alternatives(list(_WORDED))})[- ](day|week|month|year)s?"
_LASTING = (
    (r"(?:diarrhea|loose stools|watery stools|loose bowel movements)", 4, "chronic_diarrhea"),
    (r"(?:fevers?)", 2, "fever_over_two_weeks"),
)
_DURATIONS = tuple(
    (
        re.compile(
            rf"\b{what} (?:has lasted|lasting|for) (?:about |over |the (?:past|last) )*{_HOW_LONG}\b(?! ago)|"
            rf"\b{_HOW_LONG} (?:history )?of (?:[a-z-]+,? ){{0,2}}?{what}\b",
            re.IGNORECASE,
        ),
        weeks,
        finding,
    )
    for what, weeks, finding in _LASTING
)
_COUNTS = (
    (
        re.compile(
            r"(?:white (?:blood )?cells?(?: count)?|leukocytes?(?: count)?|\bwbc)" + _NUMBER + _NOT_PERCENT,
            re.IGNORECASE,
        ),
        _Measure("", 4.0, "leukopenia", 11.5, "leukocytosis"),
    ),
    (
        re.compile(r"platelets?(?: count)?" + _NUMBER, re.IGNORECASE),
        _Measure("", 140.0, "thrombocytopenia", 480.0, "thrombocytosis"),
    ),
)
_OTHER_FLUID = re.compile(
    r"cerebrospinal|\bcsf\b|lumbar puncture|spinal (?:fluid|tap)|synovial|arthrocentesis|joint fluid|urinalysis|"
    r"\burine\b|ascitic|pleural fluid|/hpf|high[- ]power",
    re.IGNORECASE,
)


def read_measures(sentence: str) -> Iterator[tuple[str, bool]]:
    """Yield (finding, present) for every value in the sentence that can be judged."""
    yield from _temperature(sentence)
    yield from _pressure(sentence)
    yield from _last_period(sentence)
    yield from _durations(sentence)
    of_blood = not _OTHER_FLUID.search(sentence)
    for pattern, measure in _COMPILED:
        if of_blood or not measure.blood_only:
            for found in pattern.finditer(sentence):
                yield from measure.judge(_value(found[1]))
    for found in _HEMOGLOBIN.finditer(sentence):
        yield from _hemoglobin(_value(found[1]))
    for found in _PERCENT_EOSINOPHILS.finditer(sentence):
        yield "eosinophilia", float(found[1]) > 6
    if of_blood:
        for pattern, measure in _COUNTS:
            for found in pattern.finditer(sentence):
                yield from measure.judge(_thousands(found[1], measure.high or 0.0))


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _temperature(sentence: str) -> Iterator[tuple[str, bool]]:
    for found in _TEMPERATURE.finditer(sentence):
        value = float(found[1])
        celsius = (value - 32) / 1.8 if found[2].upper() == "F" else value
        if 30 < celsius < 45:
            yield "fever", celsius >= 38.0
            return


def _pressure(sentence: str) -> Iterator[tuple[str, bool]]:
    for found in _PRESSURE.finditer(sentence):
        systolic, diastolic = int(found[1]), int(found[2])
        yield "hypotension", systolic < 90
        yield "high_bp", systolic >= 140 or diastolic >= 90


def _last_period(sentence: str) -> Iterator[tuple[str, bool]]:
    """Yield a missed period where the last one was more than five weeks ago."""
    for found in _LAST_PERIOD.finditer(sentence):
        yield "missed_period", int(found[1]) * DAYS[found[2].lower()] > 5 * DAYS["week"]


def _durations(sentence: str) -> Iterator[tuple[str, bool]]:
    """Yield whether diarrhea or fever has lasted long, where the sentence says how long."""
    for pattern, weeks, finding in _DURATIONS:
        for found in pattern.finditer(sentence):
            number, unit = (found[1], found[2]) if found[1] else (found[3], found[4])
            count = _WORDED.get(number.lower()) or float(number)
            yield finding, count * DAYS[unit.lower()] > weeks * DAYS["week"]


def _hemoglobin(value: float) -> Iterator[tuple[str, bool]]:
    """Yield anemia or its opposite; values above 30 are g/L."""
    in_g_dl = value / 10 if value > 30 else value
    yield "low_hemoglobin", in_g_dl < 11.5
    yield "erythrocytosis", in_g_dl > 17.5


def _thousands(number: str, high: float) -> float:
    value = _value(number)
    return value / 1000 if value > 30 * high or "," in number else value
