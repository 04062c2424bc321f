"""Requirements of a framework on a case: a profile, items of the history, an opening."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from core.case import Case, Profile
from core.errors import UsageError
from core.frameworks.casting import CastNames
from core.text.profiles import CaseId, Generated, Prepared


class Preparation:
    """The default: cases are played unchanged."""

    plays_profiles: ClassVar[bool] = False
    """Whether a case is played from its profile, if it has one."""
    plays_items: ClassVar[bool] = False
    """Whether rules ask for, or answer from, the items of a case's history."""
    patient_opens: ClassVar[bool] = False
    """Whether the patient speaks first, with an opening that a model may have written for the case."""

    def prepare(self, cases: Sequence[Case], stored: Mapping[CaseId, Generated]) -> Prepared:
        """Return the playable cases, and the excluded cases with reasons; ``stored`` are profiles from the database."""
        return Prepared(tuple(cases), ())

    def uses_items(self, names: CastNames) -> bool:
        """Return whether a conversation of this cast (full names) depends on the items of its case."""
        return False

    def edited(self, case: Case, profile: Profile, by: str) -> Generated:
        """Return a profile that a person edited, ready to store; raise ``UsageError`` if it cannot be played."""
        raise UsageError("This framework does not use profiles.")

    def profile_remarks(self, case: Case, profile: Profile) -> tuple[str, ...]:
        """Return a sentence for each fact of a profile that contradicts its case."""
        return ()
