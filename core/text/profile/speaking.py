"""Who talks to the doctor, and how: a vignette's words in the patient's mouth, or in that of somebody who cares."""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.case import Case, Sex, read_demographics
from core.text.first_person import first_person

CHILD = 12.0
"""Years: below, somebody else speaks."""
_YOUTH = 16.0
"""Years: below, somebody else speaks where a parent brings the patient."""
_I = re.IGNORECASE
_BROUGHT = re.compile(
    r"\b(?:brought|accompanied|taken|carried|presents with|comes? (?:\w+ )*?with)\b[^.]{0,60}\b(?:mother|father|"
    r"parents?|mom|dad|guardian|grandmother|grandfather|grandparents|foster)\b",
    _I,
)
_SPEECHLESS = re.compile(
    r"\b(?:unconscious|unresponsive|comatose|obtunded|non-?verbal|mute|intubated|found down|cannot speak|"
    r"unable to (?:speak|talk|communicate|provide (?:a |any )?history|give (?:a |any )?history)|does not speak|"
    r"cannot (?:provide|give) (?:a |any )?history|stuporous|somnolent and)\b",
    _I,
)
_RECOVERED = re.compile(r"\b(?:regain|recover|found his wife|briefly|never|episode|wakes|woke)", _I)
_PATIENT = re.compile(
    r"\b(?:the|this) (?:patient|child|infant|baby|boy|girl|newborn|neonate|toddler|man|woman)\b(?!['’]s)", _I
)
_PATIENTS = re.compile(r"\b(?:the|this) (?:patient|child|infant|baby|boy|girl|newborn|man|woman)['’]s\b", _I)
_FEMALE = re.compile(r"\bthe (?:girl|woman|lady)\b(?!['’]s)", _I)
_MALE = re.compile(r"\bthe (?:boy|man|gentleman)\b(?!['’]s)", _I)
_BY_PARENT = re.compile(
    r"^(?:(?:his|her|the) (?:patient['’]s )?(?:mother|father|parents|mom|dad|wife|husband|son|daughter)|"
    r"they) (?:also )?(?:reports?|states?|says?|notes?|adds?|mentions?|denies|deny) (?:that )?",
    _I,
)


@dataclass(frozen=True)
class Speaking:
    """Puts words of a vignette into the mouth of who speaks: the patient, or a caregiver in the third person."""

    sex: Sex | None
    caregiver: bool
    young: bool

    @property
    def subject(self) -> str:
        """The patient as a caregiver names it."""
        return {"female": "She", "male": "He", None: "They"}[self.sex]

    @property
    def _named(self) -> re.Pattern[str]:
        return _MALE if self.sex == "male" else _FEMALE if self.sex == "female" else _PATIENT

    def says(self, text: str) -> str:
        """Return words as they stand, with only the person changed, as a sentence."""
        if not self.caregiver:
            return _sentence(first_person(self._named.sub("the patient", text), self.sex))
        own = {"female": "her", "male": "his", None: "their"}[self.sex]
        plain = _PATIENTS.sub(own, _PATIENT.sub(self.subject.lower(), _BY_PARENT.sub("", text)))
        return _sentence(plain)

    def does(self, predicate: str) -> str:
        """Return what the patient does or is ("takes lithium") as a sentence."""
        if self.caregiver:
            return self.says(f"{self.subject} {predicate}")
        return self.says(f"{'He' if self.sex == 'male' else 'She'} {predicate}")

    def has(self, thing: str) -> str:
        """Return what the patient has ("a fever") as a sentence."""
        if self.caregiver:
            return self.says(f"{self.subject} {'has' if self.sex else 'have'} {thing}")
        return _sentence("I have " + _lowered(self.says(thing).rstrip(".")))

    def because(self, reason: str) -> str:
        """Return why somebody has come ("of a rash", "she cannot sleep")."""
        said = _lowered(self.says(reason).rstrip("."))
        return _sentence(f"{'We have' if self.caregiver else 'I have'} come because {said}")

    def quotes(self, text: str) -> str:
        """Return what a relative tells, with nobody's person changed."""
        if self.caregiver:
            return self.says(text)
        return _sentence(re.sub(r"^(?:his|her|the(?: patient['’]s)?) ", "My ", text, flags=_I))

    def person(self, age: str) -> tuple[str, str]:
        """Return how age ("34 years old") and sex are told."""
        of = {"female": ("woman", "girl"), "male": ("man", "boy"), None: ("person", "child")}[self.sex][self.young]
        if self.caregiver:
            return f"{self.subject} {'is' if self.sex else 'are'} {age}.", f"{self.subject} is a {of}."
        return f"I am {age}.", f"I am a {of}."


def speaking_of(case: Case) -> Speaking:
    """Return who speaks for a case: a child's carer, a parent who brings a youth, or who speaks for the speechless."""
    read_age, read_sex = read_demographics(case.vignette)
    age = case.age if case.age is not None else read_age
    brought = age is not None and age < _YOUTH and bool(_BROUGHT.search(case.vignette))
    silent = _SPEECHLESS.search(case.vignette)
    speechless = bool(silent) and not _RECOVERED.search(case.vignette)
    child = age is not None and age < CHILD
    caregiver = case.speaker == "caregiver" or child or brought or speechless
    return Speaking(case.sex or read_sex, caregiver, age is not None and age < 18)


def _lowered(text: str) -> str:
    keeps = re.match(r"I\b|I['’]|[A-Z]{2}", text)
    return text if keeps else text[:1].lower() + text[1:]


def _sentence(text: str) -> str:
    text = " ".join(text.split()).strip(" ,;")
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"
