"""Checks a profile that a model or a person wrote against its case: nothing may be invented, nothing given away.

What does not hold is dropped and named, never changed in silence:

- a result must stand in the vignette letter by letter (white space and case aside);
- age and sex are the source's; what else is said of the person must be made of its words and numbers;
- what the patient tells must be made of the source's words and numbers; otherwise it counts as imputed, which only
  history may be (past, family, lifestyle, medication, allergies, exposure), and how long it has lasted where the source
  says nothing of time, never a symptom;
- what is imputed must not share a telling word with the answer or a choice, nor say the opposite of the vignette;
- what only examination and tests showed is nothing that the patient tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from core.case import Case, Fact, Profile
from core.errors import UsageError
from core.knowledge.base import normalise_name
from core.text.claims import clinical_concepts, in_vignette, read
from core.text.negation import stem_of, words_in
from core.text.persons import Speaking, speaking_of
from core.text.profile_rules import demographics_of, says_how_long
from core.text.profiles import Generated, presence
from core.text.sections import divided, sentences
from core.text.topics import Topic, topic_of_key

Part = Literal["demographics", "basic", "optional"]
_MAY_BE_IMPUTED: frozenset[Topic] = frozenset(
    ("past history", "family history", "social history", "medication", "allergies", "exposure")
)
_LIFESTYLE = re.compile(r"lifestyle|routine|exercise|living", re.IGNORECASE)
_DURATION = re.compile(r"\bduration\b|\bhow long\b|\bsince when\b", re.IGNORECASE)
_PERSONAL = re.compile(r"^(?:patient['’]?s? )?(?:age|sex|gender|age and sex)$", re.IGNORECASE)
_SHORTEST = 4
"""Letters of a word of the answer from which on it tells something."""


@dataclass(frozen=True)
class Dropped:
    """A fact that was not kept, and why, in words that can follow "because"."""

    part: Part
    key: str
    value: str
    why: str


@dataclass(frozen=True)
class Checked:
    """A profile with what holds, and what was dropped of the proposal."""

    profile: Profile
    dropped: tuple[Dropped, ...]


def check_profile(case: Case, proposed: Profile, speaking: Speaking | None = None) -> Checked:
    """Keep what holds of a proposed profile; where the lay words give the answer away, plain ones take their place."""
    checking = _Checking(case, speaking or speaking_of(case))
    people = tuple(checking.people(proposed.demographics))
    basic = tuple(checking.basic(proposed.basic))
    optional = tuple(checking.optional(proposed.optional))
    profile = Profile(demographics=people, basic=basic, optional=optional, made_by=proposed.made_by)
    return Checked(profile, tuple(checking.dropped))


def has_complaint(profile: Profile) -> bool:
    """Say whether the patient can tell why they come."""
    return presence(profile)["chief complaint"] == "present"


def edited(case: Case, profile: Profile, by: str) -> Generated:
    """Return a person's word on a case; what ``remarks`` finds stands in its note and forbids nothing.

    Raises ``UsageError`` where nobody's name is given, a fact has no key or value, or there is no chief complaint.
    """
    if not by.strip():
        raise UsageError("Say who edited the profile: its versions are kept by name.")
    empty = next((f for f in profile.facts if not (f.key.strip() and f.value.strip() and f.lay.strip())), None)
    if empty is not None:
        raise UsageError(f"The fact “{empty.key or empty.value}” needs a name, a value and lay words.")
    if not has_complaint(profile):
        raise UsageError(
            "The profile has no chief complaint: add a basic fact of that name, so that the patient can begin."
        )
    if any(f.section is None for f in profile.optional):
        raise UsageError(
            "Every optional fact needs a section, such as laboratory: the clinical staff looks it up there."
        )
    speaker = "caregiver" if speaking_of(case).caregiver else "patient"
    made = profile.model_copy(update={"made_by": by.strip()})
    note = " ".join(remarks(case, profile))
    return Generated(suitable=True, note=note, speaker=speaker, profile=made, made_by=by.strip())


def remarks(case: Case, profile: Profile) -> tuple[str, ...]:
    """Return a sentence for each fact that the checks would have dropped from a model's profile."""
    dropped = check_profile(case, profile).dropped
    return tuple(f"{d.key[:1].upper()}{d.key[1:]} (“{d.value}”): {d.why}." for d in dropped)


@dataclass
class _Checking:
    """One case's checks, and what they dropped so far."""

    case: Case
    speaking: Speaking
    dropped: list[Dropped] = field(default_factory=list)

    def people(self, facts: tuple[Fact, ...]) -> Iterator[Fact]:
        """Yield age and sex as the source has them, and what else is true of the person."""
        known = list(demographics_of(self.case, self.speaking))
        proposed = {f.key.lower(): f for f in facts}
        for fact in known:
            mine = proposed.get(fact.key)
            agrees = mine is not None and self._same_person(fact, mine)
            if mine is not None and not agrees:
                self._drop("demographics", mine, f"the source says {fact.value}")
            yield mine if mine is not None and agrees else fact
        for fact in facts:
            if fact.key.lower() in {f.key for f in known}:
                continue
            if not self._of_source(fact) or fact.imputed:
                self._drop("demographics", fact, "the source does not say so")
            else:
                yield self._worded(fact)

    def basic(self, facts: tuple[Fact, ...]) -> Iterator[Fact]:
        """Yield what the patient can tell."""
        for fact in facts:
            true = not fact.imputed and self._of_source(fact)
            if true and self._only_shown(fact):
                self._drop("basic", fact, "only examination or tests showed it")
            elif true:
                yield self._worded(fact)
            elif (why := self._against_imputing(fact)) is not None:
                self._drop("basic", fact, why)
            else:
                yield fact.model_copy(update={"imputed": True, "lay": fact.lay or self.speaking.says(fact.value)})

    def optional(self, facts: tuple[Fact, ...]) -> Iterator[Fact]:
        """Yield the results that stand in the vignette."""
        for fact in facts:
            if _flat(fact.value) in _flat(self.case.vignette) and fact.value.strip() and fact.section is not None:
                yield fact.model_copy(update={"imputed": False, "lay": fact.lay or fact.value})
            else:
                self._drop("optional", fact, "the vignette does not hold it word for word")

    def _same_person(self, known: Fact, mine: Fact) -> bool:
        if known.key == "sex":
            return bool(re.search(rf"\b{known.value}\b|\b{_SEX[known.value]}\b", mine.value, re.IGNORECASE))
        return (
            re.findall(r"\d+(?:\.\d+)?|[a-z]{3,}", mine.value.lower())[:1]
            == re.findall(r"\d+(?:\.\d+)?|[a-z]{3,}", known.value.lower())[:1]
        )

    def _of_source(self, fact: Fact) -> bool:
        return in_vignette(fact.value, self.case.vignette) and not self._opposite(fact)

    def _only_shown(self, fact: Fact) -> bool:
        """Say whether a fact stands only in what examination and tests showed."""
        parts = divided(self.case.vignette)
        told = _flat(" ".join(parts.told))
        if _flat(fact.value) in told:
            return False
        telling = read(fact.value).concepts
        in_told = len(telling & read(told).concepts)
        in_shown = max((len(telling & read(sentence).concepts) for _, sentence in parts.shown), default=0)
        return bool(telling) and in_shown == len(telling) > in_told

    def _against_imputing(self, fact: Fact) -> str | None:
        """Return why a fact that the source does not hold cannot stay as imputed, or ``None``."""
        topic = topic_of_key(fact.key, fact.value)
        duration = _DURATION.search(fact.key) is not None
        if duration and says_how_long(self.case.vignette):
            return "it is made up and the source says how long"
        if not duration and topic not in _MAY_BE_IMPUTED and not _LIFESTYLE.search(fact.key):
            return "the source does not say so, and only history may be made up"
        said = f"{fact.value}. {fact.lay}"
        for name in (self.case.answer, *self.case.synonyms, *self.case.choices):
            # whether a text holds a telling word of a disease's name, whatever its ending
            telling = {stem_of(word) for word in normalise_name(name).split() if len(word) >= _SHORTEST}
            if bool(telling & {stem_of(word) for sentence in sentences(said) for word in words_in(sentence.lower())}):
                return "it is made up and touches the answer or a choice"
        return "it is made up and says the opposite of the vignette" if self._opposite(fact) else None

    def _opposite(self, fact: Fact) -> bool:
        """Say whether a fact denies what the vignette affirms, or affirms what it denies."""
        own, source = read(fact.value), read(self.case.vignette)
        telling = clinical_concepts()
        return any(
            concept in telling and (concept, not denied) in source.claims and (concept, denied) not in source.claims
            for concept, denied in own.claims
        )

    def _worded(self, fact: Fact) -> Fact:
        """Return a true fact; lay words that are missing, or name the answer where the fact does not, are made anew."""
        answer = set(normalise_name(self.case.answer).split())
        told = set(words_in(fact.lay.lower()))
        gives_away = bool(answer) and answer <= told and not answer <= set(words_in(self.case.vignette.lower()))
        lay = self.speaking.says(fact.value) if gives_away or not fact.lay.strip() else fact.lay
        return fact.model_copy(update={"lay": lay, "imputed": False})

    def _drop(self, part: Part, fact: Fact, why: str) -> None:
        self.dropped.append(Dropped(part, fact.key, fact.value, why))


_SEX = {"female": "(?:woman|girl|lady)", "male": "(?:man|boy|gentleman)"}


def _flat(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .")
