"""Checks a profile by a model or a person literally: no invented result, and no fact that names the answer.

A result must be in the vignette, ignoring white space and case. No fact names the answer or a synonym unless the
vignette does. Facts that fail are dropped from a model's profile and listed; a person may save them. The meaning of a
fact is not checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.case import Case, Fact, Profile
from core.errors import UsageError
from core.knowledge.base import normalise_name
from core.text.profiles import Generated

ProfilePart = Literal["demographics", "basic", "optional"]
PARTS: tuple[ProfilePart, ...] = ("demographics", "basic", "optional")
_MIN_ANSWER = 4
"""Minimum number of characters of an answer that is searched for in facts."""


@dataclass(frozen=True)
class Dropped:
    """A fact that fails a check; ``why`` can follow "because"."""

    part: ProfilePart
    key: str
    value: str
    why: str


@dataclass(frozen=True)
class Checked:
    """A profile with the valid facts, and the dropped ones."""

    profile: Profile
    dropped: tuple[Dropped, ...]


def check_profile(case: Case, proposed: Profile) -> Checked:
    """Separate the valid facts of a proposed profile from the others."""
    valid: dict[str, tuple[Fact, ...]] = {}
    dropped: list[Dropped] = []
    for part in PARTS:
        facts: tuple[Fact, ...] = getattr(proposed, part)
        faults = [_fault(case, part, fact) for fact in facts]
        valid[part] = tuple(fact for fact, fault in zip(facts, faults, strict=True) if fault is None)
        dropped += [
            Dropped(part, fact.key, fact.value, fault)
            for fact, fault in zip(facts, faults, strict=True)
            if fault is not None
        ]
    return Checked(proposed.model_copy(update=valid), tuple(dropped))


def has_complaint(profile: Profile) -> bool:
    return any("chief complaint" in fact.key.lower() and not fact.imputed for fact in profile.basic)


def edited(case: Case, profile: Profile, by: str) -> Generated:
    """Return a person's profile; the note contains the ``remarks``, which forbid nothing.

    Raises:
        UsageError: The editor has no name, a fact lacks a key, value or lay words, an optional fact lacks a section,
            or there is no chief complaint.
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
    edited_profile = profile.model_copy(update={"made_by": by.strip()})
    note = " ".join(remarks(case, profile))
    return Generated(suitable=True, note=note, speaker=case.speaker, profile=edited_profile, made_by=by.strip())


def remarks(case: Case, profile: Profile) -> tuple[str, ...]:
    dropped = check_profile(case, profile).dropped
    return tuple(f"{d.key[:1].upper()}{d.key[1:]} (“{d.value}”): {d.why}." for d in dropped)


def _fault(case: Case, part: ProfilePart, fact: Fact) -> str | None:
    if part == "optional" and not (fact.section and fact.value.strip() and _flat(fact.value) in _flat(case.vignette)):
        return "the vignette does not hold it word for word"
    words = f" {normalise_name(f'{fact.key} {fact.value} {fact.lay}')} "
    vignette = f" {normalise_name(case.vignette)} "
    names = [normalise_name(name) for name in (case.answer, *case.synonyms)]
    if any(len(name) >= _MIN_ANSWER and f" {name} " in words and f" {name} " not in vignette for name in names):
        return "it names the answer, which the vignette does not"
    return None


def _flat(text: str) -> str:
    return " ".join(text.lower().split()).strip(" .")
