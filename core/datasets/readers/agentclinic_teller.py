"""How an AgentClinic patient, or who speaks for a child, puts the record's clinical notes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.case import Fact, Sex
from core.text.persons import first_person, third_person
from core.vocabulary import verbs

_NO_SUBJECT = re.compile(
    rf"^(?:also )?(?:{verbs('reporting', 's')}|{verbs('habits', 's')}|experiences|has|is|presents|consumes|attends|"
    r"enjoys|does|exercises)\b",
    re.IGNORECASE,
)
_PATIENT = re.compile(r"^Patient\b(?!['’]| (?:details|history|information|data)\b)")
_AGE = re.compile(r"(\d+)-(year|month|week|day)-old|\bnewborn\b", re.IGNORECASE)
_SEX = re.compile(r"\b(?:female|male|woman|man|girl|boy)\b", re.IGNORECASE)
_PRONOUN: dict[Sex | None, str] = {"female": "She is", "male": "He is", None: "They are"}


@dataclass(frozen=True)
class Teller:
    """Who tells: the patient, or a caregiver."""

    sex: Sex | None
    caregiver: bool

    def lay(self, note: str) -> str:
        """Return a sentence of the record as this person would say it; the words stay, only the person changes."""
        whole = _PATIENT.sub("The patient", note)
        if _NO_SUBJECT.match(whole):
            whole = f"The patient {whole[:1].lower()}{whole[1:]}"
        own = first_person(whole, self.sex)
        said = third_person(own, self.sex) if self.caregiver else own
        return said if said.endswith((".", "!", "?")) else f"{said}."

    @property
    def is_(self) -> str:
        """How a sentence about the patient begins."""
        return _PRONOUN[self.sex] if self.caregiver else "I'm"


def demographics(described: str, teller: Teller) -> tuple[Fact, ...]:
    """Return age and sex as they stand in the description, and the whole of it where it says more."""
    age, sex = _AGE.search(described), _SEX.search(described)
    facts = []
    if age:
        facts.append(Fact(key="age", value=age[0], lay=f"{teller.is_} {_age_in_words(age)}."))
    if sex:
        facts.append(Fact(key="sex", value=sex[0], lay=f"{teller.is_} {_with_article(sex[0].lower())}."))
    rest = _SEX.sub(" ", _AGE.sub(" ", described))
    if re.search(r"\w", rest):
        facts.append(Fact(key="description", value=described, lay=described))
    return tuple(facts)


def _age_in_words(age: re.Match[str]) -> str:
    if not age[1]:
        return "a newborn"
    return f"{age[1]} {age[2].lower()}{'' if age[1] == '1' else 's'} old"


def _with_article(sex: str) -> str:
    return sex if sex.endswith("male") else f"a {sex}"
