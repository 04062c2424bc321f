"""What of a profile a conversation has brought to the doctor, by who holds it: known from the start, told, shown.

By the rule on words of ``core.measures.coverage``: a fact counts as told by the first reply that holds most of its
telling words. It misses free paraphrases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.agents.base import Turn
from core.case import Case, Fact, Profile
from core.measures.coverage import Uncovered, uncovered


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
