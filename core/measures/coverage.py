"""Which facts of a case came up in a conversation, and at which turn.

A fact counts as told by the first message that contains most of its content words, in clinical or in lay wording. A
rule on words, not a judgement: it misses free paraphrases.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from core.asking.scene import Turn
from core.case import Case, Fact, Profile
from core.text.negation import stem_of
from core.text.sections import sentences

THRESHOLD = 0.6
"""Share (0 to 1) of a fact's content words that one message must contain."""

_WORD = re.compile(r"[a-z]+|\d+")
_COMMON = frozenset(
    "a an the my his her our your their i he she it they we you me him them is are was were be been am has have had do "
    "does did of in on at to for from with and or but not no any some this that there as by so very just about than "
    "then when which who s t ve m re ll d yes".split()
)


@dataclass(frozen=True)
class Uncovered:
    """A fact, whether the patient can tell it, and the turn that uncovered it (``None`` if none has)."""

    fact: Fact
    told: bool
    turn: int | None


def facts_of(case: Case) -> list[tuple[Fact, bool]]:
    """Return (fact, whether the patient can tell it); without a profile, the sentences of the vignette."""
    if case.profile is None:
        return [(Fact(key="sentence", value=text, lay=text), True) for text in sentences(case.vignette)]
    from_patient = [(fact, True) for fact in (*case.profile.demographics, *case.profile.basic)]
    return from_patient + [(fact, False) for fact in case.profile.optional]


def uncovered(case: Case, dialogue: Sequence[Turn]) -> list[Uncovered]:
    """Return every fact of the case with the turn that uncovered it."""
    patient_words = [
        (number, _content_words(turn.text)) for number, turn in enumerate(dialogue) if turn.role == "patient"
    ]
    facts = []
    for fact, can_tell in facts_of(case):
        wordings = [words for words in (_content_words(fact.value), _content_words(fact.lay)) if words]
        tells = (
            n
            for n, words in patient_words
            if any(len(words & wording) >= THRESHOLD * len(wording) for wording in wordings)
        )
        facts.append(Uncovered(fact, can_tell, next(tells, None)))
    return facts


@functools.lru_cache(maxsize=20_000)
def _content_words(text: str) -> frozenset[str]:
    plain = text.lower().replace("n't", "").replace("’", "'")
    return frozenset(stem_of(word) for word in _WORD.findall(plain) if word not in _COMMON)


@dataclass(frozen=True)
class Gathered:
    """The facts of a profile: ``demographics``, which the doctor knows at the start; the others with their turns."""

    demographics: tuple[Fact, ...]
    patient: tuple[Uncovered, ...]
    staff: tuple[Uncovered, ...]

    @property
    def asked(self) -> tuple[Uncovered, ...]:
        """All facts that the doctor had to ask for, of patient and staff."""
        return self.patient + self.staff

    @property
    def brought(self) -> int:
        return sum(fact.turn is not None for fact in self.asked)


def gathered(case: Case, dialogue: Sequence[Turn]) -> Gathered:
    """Return the facts of a case's profile that came up in the dialogue; empty without a profile."""
    profile = case.profile or Profile()
    # ``uncovered`` reads only the patient's messages, so the staff's are passed as the patient's
    from_patient = uncovered(_with(case, Profile(basic=profile.basic)), dialogue)
    staff_as_patient = [Turn("patient" if turn.role == "staff" else "doctor", turn.text) for turn in dialogue]
    from_staff = uncovered(_with(case, Profile(basic=profile.optional)), staff_as_patient)
    return Gathered(profile.demographics, tuple(from_patient), tuple(from_staff))


def _with(case: Case, profile: Profile) -> Case:
    return case.model_copy(update={"profile": profile})
