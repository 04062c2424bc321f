"""Who speaks of a patient and in which person: the patient's own words, a carer's, and the way between them.

Only the person changes: no fact is added, dropped or explained. Where the patient's sex is known, pronouns of the other
sex stay as they are, for they speak of somebody else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.case import Case, Sex
from core.text.demographics import patient_demographics
from core.text.vocabulary import PERSON, relatives, verbs

_AGED = rf"(\d+[- ](?:year|month|week|day)s?[- ]old(?:,? [\w-]+){{0,4}}? {PERSON})\b"
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
_REPORTS = f"(?:{verbs('reporting', 's', 'past', without='deny complain endorse admit describe tell')})"
_REPORTING = re.compile(rf"^I (?:also |further )?{_REPORTS} (?:that (?=\w)|(?=I\b|my\b))", re.IGNORECASE)
_AND_REPORTING = re.compile(rf"\b(and|but) (?:I )?{_REPORTS} that (?=\w)", re.IGNORECASE)
_HER_IS_OBJECT = (
    r"(?=\s+(?:to|in|at|for|and|with|from|by|on|because|that|since|as|when|while|after|before|off|up|down|out|into|"
    r"over|about|if|how|a|an|the|feel|from|today|yesterday|recently|immediately)\b|\s*[.,;:)]|\s*$)"
)
_OF_I = {
    "is": "am", "has": "have", "does": "do", "was": "was", "presents": "came", "comes": "came", "came": "came",
    "arrives": "came", "visits": "visited", "goes": "went", "develops": "developed", "appears": "look",
    "denies": "don't have", "denied": "didn't have", "reports": "have noticed", "notes": "have noticed",
    "endorses": "do have", "lies": "lie", "complains": "complain", "states": "say", "says": "say",
}  # fmt: skip
_OFTEN = (
    "denies takes drinks smokes uses lives works feels complains endorses admits exercises eats does sleeps reports"
)
_BEFORE_VERB = (
    r"(?:(?:also|currently|otherwise|now|often|sometimes|usually|frequently|occasionally|never|always|recently|only|"
    r"generally|still|typically|regularly|consistently|constantly|initially|then|just|rarely) )*"
)
_AFTER_I = re.compile(rf"\bI ({_BEFORE_VERB})([A-Za-z]+)\b(?!['’])")
_AND_VERB_OF_I = re.compile(rf"\b(and|but|or|,) ({_BEFORE_VERB})({'|'.join(_OFTEN.split())})\b")
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
    text = _AFTER_I.sub(lambda m: f"I {m[1]}{_with_i(m[2])}", text)
    if re.match(r"I\b", text) or re.search(r"\. I\b", text):
        text = re.sub(r"\band is (?=(?:an?|currently|now|otherwise)\b)", "and am ", text)
        text = re.sub(r"\b(and|but) has (?=(?:no|not|never)\b)", r"\1 have ", text)
        text = _AND_VERB_OF_I.sub(lambda m: f"{m[1]} {m[2]}{_with_i(m[3])}", text)
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


def _with_i(verb: str) -> str:
    """Return the form of a verb that goes with "I"."""
    lowered = verb.lower()
    if lowered in _OF_I:
        return _OF_I[lowered]
    if not lowered.endswith("s") or lowered.endswith(("ss", "us")) or lowered in _NOT_FINITE:
        return verb
    if lowered.endswith("ies"):
        return verb[:-3] + "y"
    return verb[:-2] if lowered.endswith(("shes", "ches", "xes", "sses", "zes", "oes")) else verb[:-1]


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
_AFTER_I_ALSO = (
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
_AND_VERBS = (
    "am have haven't do don't take drink smoke use live work feel get eat sleep play keep wake vomit look need want "
    "crave go see hear pass".split()
)
_CONTRACTED = (
    (r"m\b", "am"), (r"ve\b", "have"), (r"ll\b", "will"), (r"d\b(?= (?:been|had|got|gone|taken|eaten)\b)", "had"),
    (r"d\b", "would"),
)  # fmt: skip
_SUBJECT = re.compile(rf"\bI (?P<adverbs>{_AFTER_I_ALSO})(?P<verb>[A-Za-z']+)")
_AND_VERB = re.compile(rf"\b(?P<and>and|or|but),? (?P<adverbs>{_AFTER_I_ALSO})(?P<verb>{'|'.join(_AND_VERBS)})\b(?!')")


def third_person(text: str, sex: Sex | None) -> str:
    """Return the text as somebody else would tell it of the patient; "they" where the sex is unknown."""
    person = _PERSONS[sex]
    text = text.replace("’", "'")
    for short, whole in _CONTRACTED:
        text = re.sub(rf"\bI'{short}", f"I {whole}", text)
    text = re.sub(r"\b(am|was|have|do) I\b", lambda m: f"{_with_person(m[1], person)} {person.subject}", text)
    spoken_of = bool(re.search(r"\bI\b", text))
    text = _SUBJECT.sub(lambda m: f"{person.subject} {m['adverbs']}{_with_person(m['verb'], person)}", text)
    if spoken_of:
        text = _AND_VERB.sub(lambda m: _coordinated(m, person), text)
    for own, other in (
        ("I", person.subject),
        ("me", person.object),
        ("my", person.owned),
        ("mine", person.owner),
        ("myself", person.self),
    ):
        text = re.sub(rf"\b{own}\b" if own == "I" else rf"(?i:\b{own}\b)", other, text)
    return re.sub(r"(?:^|(?<=[.!?] ))[a-z]", lambda m: m[0].upper(), text)


def _coordinated(found: re.Match[str], person: _Person) -> str:
    """Change the second verb of "I smoke and drink", unless another subject stands nearer."""
    before = found.string[: found.start()]
    clause = re.split(r"[.;]", before)[-1]
    nearest = list(re.finditer(rf"\b(?:{person.subject}|they|we|it|there|who|which|that|to)\b", clause))
    if not nearest or nearest[-1][0] != person.subject:
        return found[0]
    return f"{found['and']} {found['adverbs']}{_with_person(found['verb'], person)}"


def _with_person(verb: str, person: _Person) -> str:
    """Return the form of a verb after "I" that goes with the person."""
    lowered = verb.lower()
    forms = {
        "am": person.be,
        "have": person.have,
        "haven't": f"{person.have}n't",
        "do": person.do,
        "don't": f"{person.do}n't",
        "was": "were" if person.subject == "they" else "was",
        "wasn't": "weren't" if person.subject == "they" else "wasn't",
    }
    if lowered in forms:
        return forms[lowered]
    settled = lowered.endswith(("ed", "n't")) and not lowered.endswith("eed")
    if person.subject == "they" or settled or lowered in _UNCHANGED:
        return verb
    if lowered.endswith("y") and lowered[-2:-1] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + ("es" if lowered.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")


CHILD = 12.0
"""Years: below, somebody else speaks."""
YOUTH = 16.0
"""Years: below, somebody else speaks where a parent brings the patient."""
_I = re.IGNORECASE
_BROUGHT = re.compile(
    r"\b(?:brought|accompanied|taken|carried|presents with|comes? (?:\w+ )*?with)\b[^.]{0,60}\b(?:foster|guardian|"
    rf"(?:{relatives('parents', 'grandparents')})s?)\b",
    _I,
)
_SPEECHLESS = re.compile(
    r"\b(?:unconscious|unresponsive|comatose|obtunded|non-?verbal|mute|intubated|found down|cannot speak|"
    r"unable to (?:speak|talk|communicate|provide (?:a |any )?history|give (?:a |any )?history)|does not speak|"
    r"cannot (?:provide|give) (?:a |any )?history|stuporous|somnolent and)\b",
    _I,
)
_RECOVERED = re.compile(r"\b(?:regain|recover|found his wife|briefly|never|episode|wakes|woke)", _I)


@dataclass(frozen=True)
class Speaking:
    """Who speaks for a patient of this sex: the patient, or a caregiver; ``young`` is below 18 years."""

    sex: Sex | None
    caregiver: bool
    young: bool


def speaking_of(case: Case) -> Speaking:
    """Return who speaks for a case: a child's carer, a parent who brings a youth, or who speaks for the speechless."""
    age, sex = patient_demographics(case)
    brought = age is not None and age < YOUTH and bool(_BROUGHT.search(case.vignette))
    silent = _SPEECHLESS.search(case.vignette)
    speechless = bool(silent) and not _RECOVERED.search(case.vignette)
    child = age is not None and age < CHILD
    caregiver = case.speaker == "caregiver" or child or brought or speechless
    return Speaking(sex, caregiver, age is not None and age < 18)
