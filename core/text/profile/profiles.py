"""What the profile generator makes of a case: a verdict on its suitability and, where it is suitable, a profile.

Source: Oh, Park, Kim, arXiv 2512.10195, profile generator. A question that cannot be played as a consultation is
rejected with the reason; of the others the vignette is divided by who may know what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from core.case import Case, Profile

Reason = Literal["research_setting", "abstract_concept", "general_knowledge", "image_dependent", "details_in_choices"]
REASONS: tuple[Reason, ...] = get_args(Reason)
"""Why a question cannot become a patient (SPEC of the profile generator's filter)."""
OWN = "case"
"""``made_by`` of a profile that came with its case."""


class Generated(BaseModel):
    """The generator's word on one case.

    ``profile`` is there exactly where the case is suitable, ``reason`` where it is not; ``note`` says in a sentence
    what the verdict rests on; ``speaker`` is who talks to the doctor; ``made_by`` the generator with its version.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    suitable: bool
    reason: Reason | None = None
    note: str = ""
    speaker: Literal["patient", "caregiver"] = "patient"
    profile: Profile | None = None
    made_by: str = Field(min_length=1)

    @model_validator(mode="after")
    def _either_profile_or_reason(self) -> Generated:
        if self.suitable != (self.profile is not None) or self.suitable == (self.reason is not None):
            raise ValueError("a suitable case has a profile and no reason, an unsuitable one a reason and no profile")
        return self


CaseId = tuple[str, str]
"""(case_key, content_hash)."""


@dataclass(frozen=True)
class Prepared:
    """Cases ready for AutoMedic, each with its profile, and those left out with the generator's word on them."""

    cases: tuple[Case, ...]
    left_out: tuple[tuple[Case, Generated], ...]


def own_profile(case: Case) -> Generated | None:
    """Return the profile that came with a case, as the generator's word on it; ``None`` where it has none."""
    if case.profile is None:
        return None
    return Generated(suitable=True, speaker=case.speaker, profile=case.profile, made_by=case.profile.made_by or OWN)


def with_profile(case: Case, generated: Generated) -> Case:
    """Return the case as it is played: its profile and who speaks are the generator's."""
    if generated.profile is None:
        raise ValueError(f"{case.case_key} has no profile: {generated.note}")
    profile = generated.profile
    if generated.made_by != OWN:
        profile = profile.model_copy(update={"made_by": generated.made_by})
    return case.model_copy(update={"profile": profile, "speaker": generated.speaker})


def prepare(
    cases: Iterable[Case], stored: Mapping[CaseId, Generated], by_rule: Callable[[Case], Generated]
) -> Prepared:
    """Return the cases with the profiles they are played with: a stored one first, else their own, else by rule."""
    ready: list[Case] = []
    left_out: list[tuple[Case, Generated]] = []
    for case in cases:
        generated = stored.get((case.case_key, case.content_hash)) or own_profile(case) or by_rule(case)
        if generated.profile is None:
            left_out.append((case, generated))
        else:
            ready.append(with_profile(case, generated))
    return Prepared(tuple(ready), tuple(left_out))
