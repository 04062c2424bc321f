"""Turns a vignette's sentence about a patient into the patient's own words, by plain changes of person.

Only the person changes: no fact is added, dropped or explained. Where the patient's sex is known, pronouns of the
other sex stay as they are, for they speak of somebody else.
"""

from __future__ import annotations

import re

from core.case import Sex

_NOUN = (
    r"(?:man|woman|boy|girl|male|female|patient|child|infant|student|teenager|gentleman|lady|"
    r"(?:primi|multi|nulli)gravid(?:a)?(?: woman)?)"
)
_AGED = rf"(\d+[- ](?:year|month|week|day)s?[- ]old(?:,? [\w-]+){{0,4}}? {_NOUN})\b"
_OPENING = re.compile(
    rf"^(?:an?|the|this) (?:\w+ ){{0,3}}?{_AGED}(.*?),? ((?:also |then )?(?:presents|comes|arrives|visits|goes|"
    r"is (?:brought|referred|admitted|seen|evaluated|being evaluated|taken|rushed|transferred|sent)|"
    r"was (?:brought|referred|admitted|seen|taken|rushed|transferred|sent)|presented|came|develops)) (.*)$",
    re.IGNORECASE | re.DOTALL,
)
_OPENING_STATE = re.compile(
    rf"^(?:an?|the|this) (?:\w+ ){{0,3}}?{_AGED}((?: (?!who|whose|that|which)[^ ]+)*?),? (has|is) (.*)$",
    re.IGNORECASE | re.DOTALL,
)
_AGED_PERSON = re.compile(
    rf"\b(?:an?|the|this) (?:otherwise |previously )?(?:healthy )?{_AGED}(?= \w+s\b| is| has)", re.I
)
_PATIENT = re.compile(r"\b(?:the|this) patient\b(?!['’]s)", re.IGNORECASE)
_PATIENTS = re.compile(r"\b(?:the|this) patient['’]s\b", re.IGNORECASE)
_REPORTS = (
    r"(?:says|states|reports|notes|mentions|adds|explains|recalls|believes|reported|stated|noted|said|mentioned|claims)"
)
_REPORTING = re.compile(rf"^I (?:also |further )?{_REPORTS} (?:that (?=\w)|(?=I\b|my\b))", re.IGNORECASE)
_AND_REPORTING = re.compile(rf"\b(and|but) (?:I )?{_REPORTS} that (?=\w)", re.IGNORECASE)
_HER_IS_OBJECT = (
    r"(?=\s+(?:to|in|at|for|and|with|from|by|on|because|that|since|as|when|while|after|before|off|up|down|out|into|"
    r"over|about|if|how|a|an|the|feel|from|today|yesterday|recently|immediately)\b|\s*[.,;:)]|\s*$)"
)
_VERBS = {
    "is": "am", "has": "have", "does": "do", "was": "was", "presents": "came", "comes": "came", "came": "came",
    "arrives": "came", "visits": "visited", "goes": "went", "develops": "developed", "appears": "look",
    "denies": "don't have", "denied": "didn't have", "reports": "have noticed", "notes": "have noticed",
    "endorses": "do have", "lies": "lie", "complains": "complain", "states": "say", "says": "say",
}  # fmt: skip
_OFTEN = (
    "denies takes drinks smokes uses lives works feels complains endorses admits exercises eats does sleeps reports"
)
_ADVERBS = (
    r"(?:(?:also|currently|otherwise|now|often|sometimes|usually|frequently|occasionally|never|always|recently|only|"
    r"generally|still|typically|regularly|consistently|constantly|initially|then|just|rarely) )*"
)
_AFTER_I = re.compile(rf"\bI ({_ADVERBS})([A-Za-z]+)\b(?!['’])")
_COORDINATED = re.compile(rf"\b(and|but|or|,) ({_ADVERBS})({'|'.join(_OFTEN.split())})\b")
_NOT_FINITE = frozenset("was has less this perhaps always as its is us".split())
_DENYING = re.compile(r"\b(don't|didn't) have (?=(?:smoking|drinking|using|taking|having|any use|use)\b)")


def first_person(sentence: str, sex: Sex | None = None) -> str:
    """Return the sentence as the patient would put it."""
    text = _open(sentence)
    text = _PATIENTS.sub("my", text)
    text = _AGED_PERSON.sub("I", _PATIENT.sub("I", text))
    if sex != "male":
        text = _pronouns(text, "she", "her", "herself", "hers")
    if sex != "female":
        text = _pronouns(text, "he", "his", "himself", "him")
    text = _REPORTING.sub("", _AND_REPORTING.sub(r"\1 ", text))
    text = _AFTER_I.sub(lambda m: f"I {m[1]}{_agree(m[2])}", text)
    if re.match(r"I\b", text) or re.search(r"\. I\b", text):
        text = re.sub(r"\band is (?=(?:an?|currently|now|otherwise)\b)", "and am ", text)
        text = re.sub(r"\b(and|but) has (?=(?:no|not|never)\b)", r"\1 have ", text)
        text = _COORDINATED.sub(lambda m: f"{m[1]} {m[2]}{_agree(m[3])}", text)
    text = re.sub(r"\b(?:don't|didn't) have being\b", "am not", text)
    text = _DENYING.sub(lambda m: "am not " if m[1] == "don't" else "was not ", text)
    text = re.sub(r"\bI am\b", "I'm", text) if text.startswith("I am") else text
    return text[:1].upper() + text[1:]


def _open(sentence: str) -> str:
    """Split "A 26-year-old man with asthma presents with …" into who I am and why I came."""
    found = _OPENING.match(sentence) or _OPENING_STATE.match(sentence)
    if not found:
        return sentence
    who, more, verb, rest = found[1], found[2].strip(" ,"), found[3], found[4]
    described = f"{who}{', ' if found[2].lstrip().startswith(',') else ' '}{more}" if more else who
    article = "an" if re.match(r"8|11\D|18\D", who) else "a"
    return f"I'm {article} {described}. I {re.sub('^is (?=.)', 'was ', verb)} {rest}"


def _pronouns(text: str, subject: str, owned: str, reflexive: str, other: str) -> str:
    text = re.sub(rf"\b{subject}\b", "I", text, flags=re.IGNORECASE)
    text = re.sub(rf"\b{reflexive}\b", "myself", text, flags=re.IGNORECASE)
    if owned == "her":
        text = re.sub(rf"\bher\b{_HER_IS_OBJECT}", "me", text, flags=re.IGNORECASE)
    text = re.sub(rf"\b{owned}\b", "my", text, flags=re.IGNORECASE)
    return re.sub(rf"\b{other}\b", "mine" if other == "hers" else "me", text, flags=re.IGNORECASE)


def _agree(verb: str) -> str:
    """Return the form of a verb that goes with "I"."""
    lowered = verb.lower()
    if lowered in _VERBS:
        return _VERBS[lowered]
    if not lowered.endswith("s") or lowered.endswith(("ss", "us")) or lowered in _NOT_FINITE:
        return verb
    if lowered.endswith("ies"):
        return verb[:-3] + "y"
    return verb[:-2] if lowered.endswith(("shes", "ches", "xes", "sses", "zes", "oes")) else verb[:-1]
