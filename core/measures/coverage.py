"""Which of a case's facts a conversation has brought to the doctor, and at which turn, by who holds them.

A fact counts as told by the first message that holds most of its telling words, in clinical or in lay wording. A rule
on words, not a judgement: it misses free paraphrases.
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
"""Share of a fact's telling words that one message must hold."""

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
    """Return (fact, whether the patient can tell it without examination); sentences where no profile is known."""
    if case.profile is None:
        return [(Fact(key="sentence", value=text, lay=text), True) for text in sentences(case.vignette)]
    told = [(fact, True) for fact in (*case.profile.demographics, *case.profile.basic)]
    return told + [(fact, False) for fact in case.profile.optional]


def uncovered(case: Case, dialogue: Sequence[Turn]) -> list[Uncovered]:
    """Return every fact of the case with the turn that uncovered it."""
    said = [(number, _telling(turn.text)) for number, turn in enumerate(dialogue) if turn.role == "patient"]
    found = []
    for fact, told in facts_of(case):
        wordings = [words for words in (_telling(fact.value), _telling(fact.lay)) if words]
        tells = (n for n, words in said if any(len(words & one) >= THRESHOLD * len(one) for one in wordings))
        found.append(Uncovered(fact, told, next(tells, None)))
    return found


@functools.lru_cache(maxsize=20_000)
def _telling(text: str) -> frozenset[str]:
    plain = text.lower().replace("n't", "").replace("’", "'")
    return frozenset(stem_of(word) for word in _WORD.findall(plain) if word not in _COMMON)


@dataclass(frozen=True)
class Gathered:
    """The facts of a profile; ``known`` to the doctor before it asks, the others with the turn that brought them."""

    known: tuple[Fact, ...]
    patient: tuple[Uncovered, ...]
    staff: tuple[Uncovered, ...]

    @property
    def asked(self) -> tuple[Uncovered, ...]:
        """All that the doctor had to ask for, of either."""
        return self.patient + self.staff

    @property
    def brought(self) -> int:
        """How many of these the conversation has brought."""
        return sum(fact.turn is not None for fact in self.asked)


def gathered(case: Case, dialogue: Sequence[Turn]) -> Gathered:
    """Return what the dialogue has brought of a case's profile; nothing where it has none."""
    profile = case.profile or Profile()
    # each is asked about its own facts only: the rule reads one who tells, and knows that one as the patient
    told = uncovered(_with(case, Profile(basic=profile.basic)), dialogue)
    as_told = [Turn("patient" if turn.role == "staff" else "doctor", turn.text) for turn in dialogue]
    shown = uncovered(_with(case, Profile(basic=profile.optional)), as_told)
    return Gathered(profile.demographics, tuple(told), tuple(shown))


def _with(case: Case, profile: Profile) -> Case:
    return case.model_copy(update={"profile": profile})
