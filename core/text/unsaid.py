"""Claims of a summary that no message of its conversation makes: an age, a sex.

An age is said if a message has its number, in figures or in words. A sex is said if a message has any word of that sex:
a noun, a pronoun, or a word of its body ("my period"). On held-out examples 10 of 12 marks of an age and 12 of 15 of a
sex are right; the others follow from what was said ("my wife"). Denied findings are not decided here: the marks of a
rule on the findings of the knowledge base were right in 20 of 29, since messages deny them in other words
(benchmarks/bench_summary_claims.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from core.text.demographics import read_demographics
from core.text.vocabulary import NUMBERS, alternatives, people, relatives

ClaimKind = Literal["age", "sex"]
KINDS: tuple[ClaimKind, ...] = get_args(ClaimKind)
MEASURE, VERSION = "unsaid_in_summaries", "1"
"""Name of the measure, and version of the rules; another version reads all summaries again."""
_GAP = r"[\s\-‐‑–]"
_TENS = alternatives([word for word, value in NUMBERS.items() if value >= 20])
_ONES = alternatives([word for word, value in NUMBERS.items() if value < 10])
_NUMBER = rf"(?:\d+(?:\.\d+)?|(?:{_TENS}){_GAP}+(?:{_ONES})|{alternatives(list(NUMBERS))})"
_NUMBERS = re.compile(rf"\b{_NUMBER}(?![\d.]*\d)", re.IGNORECASE)
_AGE = re.compile(
    rf"\b({_NUMBER}){_GAP}*(?:(?:years?|yrs?|months?|weeks?|days?){_GAP}*(?:old|of age)|y/?o)\b|"
    rf"\baged?(?: of)? ({_NUMBER})\b",
    re.IGNORECASE,
)  # sixty-five-year-old, 6 months of age, aged 65
_STATED = {
    "female": re.compile(rf"\b(?:{people('female')}|female|she|her|hers)\b", re.IGNORECASE),
    "male": re.compile(rf"\b(?:{people('male')}|male|he|him|his)\b", re.IGNORECASE),
}
_SAID = {
    "female": re.compile(
        rf"\b(?:\w*wom[ae]n|(?:school)?girls?|girlfriends|ladies|lass|gals?|females?|she|hers?|herself|ma['’]?am|mrs|ms|"
        rf"miss|widow|bride|housewife|\w+(?:tress|stess|dess)|{relatives(of='female')}|my periods?|expecting|bras?|"
        r"(?:pregnan|menstru|menopaus|gravid|breast-?f|vagin|uter|ovar|miscarr|hysterec|mammogra|tampon)\w*)\b",
        re.IGNORECASE,
    ),
    "male": re.compile(
        rf"\b(?:\w*(?<!wo)m[ae]n|(?:school)?boys?|guys?|blokes?|chaps?|lads?|dudes?|males?|he|him|his|himself|sir|mr|"
        rf"widower|groom|{relatives(of='male')}|balls|beard|"
        r"(?:prostat|testic|penis|penile|scrot|erect|vasect|circumcis)\w*)\b",
        re.IGNORECASE,
    ),
}


class Claim(NamedTuple):
    """Words of a summary, from ``start`` on, that no message bears out."""

    kind: ClaimKind
    words: str
    start: int


def unsaid_in(summary: str, messages: Sequence[str]) -> list[Claim]:
    """Return the claims of a summary that none of the messages makes."""
    told = "\n".join(messages)
    numbers = {_value(match[0]) for match in _NUMBERS.finditer(told)}
    ages = [age for age in _AGE.finditer(summary) if _value(age[1] or age[2]) not in numbers]
    claims = [Claim("age", age[0], age.start()) for age in ages]
    sex = read_demographics(summary)[1]
    if sex and not _SAID[sex].search(told) and (stated := _STATED[sex].search(summary)):
        claims.append(Claim("sex", stated[0], stated.start()))
    return claims


def in_words(summary: str, messages: Sequence[str]) -> str:
    """Return a sentence on what a summary states and no message does; empty if there is nothing."""
    claims = unsaid_in(summary, messages)
    words = ", ".join(f"“{claim.words}” ({claim.kind})" for claim in claims)
    return f"No message says {words}: the answer on this summary rests on it." if claims else ""


def _value(number: str) -> float:
    return sum(NUMBERS.get(part) or float(part) for part in re.split(rf"{_GAP}+", number.lower()))
