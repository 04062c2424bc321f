"""Findings from values and durations in prose.

Vital signs and common laboratory values are compared with the usual adult reference limits, rounded; children's pulse
and breathing rates are compared with the same limits. Counts and glucose in spinal fluid, urine or joint fluid are not
mistaken for blood values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from core.text.vocabulary import DAYS, NUMBERS, VAGUE, alternatives

_NUMBERS = {"an": 1.0, "a": 1.0, **NUMBERS}
_TENS = alternatives([word for word, value in NUMBERS.items() if value >= 20])
_ONES = alternatives([word for word, value in NUMBERS.items() if value < 10])
_NUMBER = rf"(?:\d+(?:\.\d+)?|(?:{_TENS})[- ](?:{_ONES})|{alternatives([*_NUMBERS, *VAGUE])})"


def _days(number: str, unit: str) -> float:
    """Return a duration in days; a vague number counts as the middle of its range."""
    word = number.lower()
    low, high = VAGUE[word] if word in VAGUE else (_value(word),) * 2
    return (low + high) / 2 * DAYS[unit.lower()]


def _value(word: str) -> float:
    return sum(_NUMBERS.get(part) or float(part) for part in re.split(r"[- ]", word))


_GAP = r"[^.;,0-9]{0,40}?"
_FIGURE = rf"{_GAP}(\d{{1,3}}(?:,\d{{3}})+|\d+(?:\.\d+)?)(?![\d.,]*\d)"
_NOT_A_DOSE = r"(?!\s*mg\b)"
_NOT_PERCENT = r"(?!\s*%)"
_BLOOD = r"(?<!urine )(?<!urinary )(?<!fluid )"


@dataclass(frozen=True)
class _Measure:
    """A named quantity with a finding below ``low`` and another above ``high``.

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
        3.4,
        "hypokalemia",
        5.3,
        "hyperkalemia",
        unit=_NOT_A_DOSE,
    ),
    _Measure(r"(?:creatine kinase|\bck\b)", high=300, high_finding="high_ck"),
    _Measure(r"(?:lipase|amylase)", high=200, high_finding="high_lipase"),
    _Measure(r"(?:alkaline phosphatase)", high=140, high_finding="high_alp"),
    _Measure(r"(?:lactate dehydrogenase|\bldh\b)", high=280, high_finding="high_ldh", blood_only=True),
    _Measure(r"bilirubin", high=2, high_finding="high_bilirubin", unit=r"(?!\s*[µμ]?u?mol)"),
    _Measure(r"(?:erythrocyte sedimentation rate|\besr\b)", high=30, high_finding="high_esr"),
    _Measure(
        r"(?:aspartate aminotransferase|alanine aminotransferase|\bast\b|\balt\b)",
        high=70,
        high_finding="high_transaminases",
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
)
_DIGIT = re.compile(r"\d")
_COMPILED = tuple((re.compile(m.names + _FIGURE + m.unit, re.IGNORECASE), m) for m in _MEASURES)
_HEMOGLOBIN = re.compile(r"(?:hemoglobin|haemoglobin)(?! a1c)(?! a2)" + _FIGURE + _NOT_PERCENT, re.IGNORECASE)
_TEMPERATURE = re.compile(r"(\d{2,3}(?:\.\d+)?)\s*(?:°|º|deg(?:rees)?\.? )\s*([CF])", re.IGNORECASE)
_PRESSURE = re.compile(r"(?:blood pressure|bp)\b[^0-9]{0,30}(\d{2,3})\s*/\s*(\d{2,3})", re.IGNORECASE)
_LAST_PERIOD = re.compile(r"last (?:menstrual )?period[^.;0-9]{0,25}?(\d+) (week|month)s? ago", re.IGNORECASE)
_PERCENT_EOSINOPHILS = re.compile(
    r"(?<!\d)(\d+(?:\.\d+)?)\s*% (?:of (?:white cells|leukocytes) are )?eosinophils", re.IGNORECASE
)
_HOW_LONG = rf"({_NUMBER})[- ](day|week|month|year)s?"
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
            r"(?:white (?:blood )?cells?(?: count)?|leukocytes?(?: count)?|\bwbc)" + _FIGURE + _NOT_PERCENT,
            re.IGNORECASE,
        ),
        _Measure("", 4.0, "leukopenia", 11.5, "leukocytosis"),
    ),
    (
        re.compile(r"platelets?(?: count)?" + _FIGURE, re.IGNORECASE),
        _Measure("", 140.0, "thrombocytopenia", 480.0, "thrombocytosis"),
    ),
)
_OTHER_FLUID = re.compile(
    r"cerebrospinal|\bcsf\b|lumbar puncture|spinal (?:fluid|tap)|synovial|arthrocentesis|joint fluid|urinalysis|"
    r"\burine\b|ascitic|pleural fluid|/hpf|high[- ]power",
    re.IGNORECASE,
)


_CAN_LAST = re.compile("diarrhea|stools|bowel movements|fever", re.IGNORECASE)


def read_measures(sentence: str) -> Iterator[tuple[str, bool]]:
    """Yield (finding, present) for every value in the sentence with known limits."""
    numbered = _DIGIT.search(sentence) is not None  # only durations can also be in words
    if numbered:
        for match in _TEMPERATURE.finditer(sentence):
            value = float(match[1])
            celsius = (value - 32) / 1.8 if match[2].upper() == "F" else value
            if 30 < celsius < 45:
                yield "fever", celsius >= 38.0
                break
        for match in _PRESSURE.finditer(sentence):
            systolic, diastolic = int(match[1]), int(match[2])
            yield "hypotension", systolic < 90
            yield "high_bp", systolic >= 140 or diastolic >= 90
        for match in _LAST_PERIOD.finditer(sentence):
            yield "missed_period", int(match[1]) * DAYS[match[2].lower()] > 5 * DAYS["week"]
    for pattern, weeks, finding in _DURATIONS if _CAN_LAST.search(sentence) else ():
        for match in pattern.finditer(sentence):
            yield finding, _days(match[1] or match[3], match[2] or match[4]) > weeks * DAYS["week"]
    if not numbered:
        return
    of_blood = not _OTHER_FLUID.search(sentence)
    for pattern, measure in _COMPILED:
        if of_blood or not measure.blood_only:
            for match in pattern.finditer(sentence):
                yield from measure.judge(float(match[1].replace(",", "")))
    for match in _HEMOGLOBIN.finditer(sentence):
        value = float(match[1].replace(",", ""))
        grams_per_dl = value / 10 if value > 30 else value  # above 30 the unit is g/L
        yield "low_hemoglobin", grams_per_dl < 11.5
        yield "erythrocytosis", grams_per_dl > 17.5
    for match in _PERCENT_EOSINOPHILS.finditer(sentence):
        yield "eosinophilia", float(match[1]) > 6
    for pattern, measure in _COUNTS if of_blood else ():
        for match in pattern.finditer(sentence):
            value = float(match[1].replace(",", ""))
            per_microlitre = "," in match[1] or value > 30 * (measure.high or 0.0)
            yield from measure.judge(value / 1000 if per_microlitre else value)
