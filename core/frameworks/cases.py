"""What a framework needs of a case before it plays it: a profile, items of the history, an opening."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from core.case import Case, Profile
from core.errors import UsageError
from core.frameworks.casting import CastNames
from core.text.profiles import CaseId, Generated, Prepared


class Preparation:
    """The usual one: cases are played as they are."""

    plays_profiles: ClassVar[bool] = False
    """Whether a case is played from its profile, if it has one."""
    plays_items: ClassVar[bool] = False
    """Whether players by rule ask for, or answer from, the items of a case's history."""
    patient_opens: ClassVar[bool] = False
    """Whether the patient speaks first, with an opening that a model may have made for the case."""

    def prepare(self, cases: Sequence[Case], stored: Mapping[CaseId, Generated]) -> Prepared:
        """Return the cases as they are played, and those left out and why; ``stored`` are profiles made before."""
        return Prepared(tuple(cases), ())

    def uses_items(self, names: CastNames) -> bool:
        """Say whether a conversation of this cast (full names) depends on the items of its case."""
        return False

    def edited(self, case: Case, profile: Profile, by: str) -> Generated:
        """Return a profile as a person saves it; raise ``UsageError`` where it cannot be played."""
        raise UsageError("This framework plays no profiles.")

    def profile_remarks(self, case: Case, profile: Profile) -> tuple[str, ...]:
        """Return a sentence for each fact of a profile that speaks against its case."""
        return ()
