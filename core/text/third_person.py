"""Turns what a patient says of themselves into what a caregiver says of them, by plain changes of person.

Only the person changes: no fact is added, dropped or explained. The reverse way is ``core.text.first_person``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.case import Sex


@dataclass(frozen=True)
class _Person:
    subject: str
    object: str
    owned: str
    owner: str
    self: str
    be: str
    have: str
    do: str


_PERSONS: dict[Sex | None, _Person] = {
    "male": _Person("he", "him", "his", "his", "himself", "is", "has", "does"),
    "female": _Person("she", "her", "her", "hers", "herself", "is", "has", "does"),
    None: _Person("they", "them", "their", "theirs", "themselves", "are", "have", "do"),
}
_ADVERBS = (
    r"(?:(?:also|never|only|often|always|now|still|just|usually|sometimes|then|mostly|hardly|barely|even|really|once|"
    r"twice|ever|recently|frequently|occasionally|currently|generally|rarely|regularly) )*"
)
_UNCHANGED = frozenset(
    "can cannot could couldn't will won't would wouldn't should shouldn't may might must used had hadn't did didn't "
    "ate became began bent bit bled bought broke brought came caught cut dreamt drank drove fell felt found gave got "
    "grew heard held hit hurt kept knew lay led left let lost made met paid put ran rang rose said sat saw sent shook "
    "slept spent spoke stood stuck swam swelled swore taught thought threw told took went woke won wore wrote in of "
    "and or to for with on at".split()
)
_COORDINATED = (
    "am have haven't do don't take drink smoke use live work feel get eat sleep play keep wake vomit look need want "
    "crave go see hear pass".split()
)
_SUBJECT = re.compile(rf"\bI (?P<adverbs>{_ADVERBS})(?P<verb>[A-Za-z']+)")
_AND_VERB = re.compile(rf"\b(?P<and>and|or|but),? (?P<adverbs>{_ADVERBS})(?P<verb>{'|'.join(_COORDINATED)})\b(?!')")


def third_person(text: str, sex: Sex | None) -> str:
    """Return the text as somebody else would tell it of the patient; "they" where the sex is unknown."""
    person = _PERSONS[sex]
    text = text.replace("’", "'")
    text = re.sub(r"\bI'm\b", "I am", text)
    text = re.sub(r"\bI've\b", "I have", text)
    text = re.sub(r"\bI'll\b", "I will", text)
    text = re.sub(r"\bI'd\b(?= (?:been|had|got|gone|taken|eaten)\b)", "I had", text)
    text = re.sub(r"\bI'd\b", "I would", text)
    text = re.sub(r"\b(am|was|have|do) I\b", lambda m: f"{_agree(m[1], person)} {person.subject}", text)
    spoken_of = bool(re.search(r"\bI\b", text))
    text = _SUBJECT.sub(lambda m: f"{person.subject} {m['adverbs']}{_agree(m['verb'], person)}", text)
    if spoken_of:
        text = _AND_VERB.sub(lambda m: _coordinated(m, person), text)
    for own, other in (
        ("I", person.subject), ("me", person.object), ("my", person.owned), ("mine", person.owner),
        ("myself", person.self),
    ):  # fmt: skip
        text = re.sub(rf"\b{own}\b" if own == "I" else rf"(?i:\b{own}\b)", other, text)
    return re.sub(r"(?:^|(?<=[.!?] ))[a-z]", lambda m: m[0].upper(), text)


def _coordinated(found: re.Match[str], person: _Person) -> str:
    """Change the second verb of "I smoke and drink", unless another subject stands nearer."""
    before = found.string[: found.start()]
    clause = re.split(r"[.;]", before)[-1]
    nearest = list(re.finditer(rf"\b(?:{person.subject}|they|we|it|there|who|which|that|to)\b", clause))
    if not nearest or nearest[-1][0] != person.subject:
        return found[0]
    return f"{found['and']} {found['adverbs']}{_agree(found['verb'], person)}"


def _agree(verb: str, person: _Person) -> str:
    """Return the form of a verb after "I" that goes with the person."""
    lowered = verb.lower()
    forms = {
        "am": person.be, "have": person.have, "haven't": f"{person.have}n't", "do": person.do,
        "don't": f"{person.do}n't", "was": "were" if person.subject == "they" else "was",
        "wasn't": "weren't" if person.subject == "they" else "wasn't",
    }  # fmt: skip
    if lowered in forms:
        return forms[lowered]
    settled = lowered.endswith(("ed", "n't")) and not lowered.endswith("eed")
    if person.subject == "they" or settled or lowered in _UNCHANGED:
        return verb
    if lowered.endswith("y") and lowered[-2:-1] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + ("es" if lowered.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")
