"""The result of a profile generator for a case, and the fields of a history that a profile fills.

Source: Oh, Park, Kim, arXiv 2512.10195, profile generator. The generator rejects a question that no conversation can
play, with a reason, and divides other vignettes by who may know what. A field is present if the source states it,
imputed if the generator invented it, otherwise absent.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import pydantic
from pydantic import BaseModel, ConfigDict, model_validator

from core.case import Case, Fact, FactSection, Profile
from core.stats.intervals import Interval, wilson
from core.text.topics import Topic, topic_of_key
from core.text.vocabulary import Words, cues

Reason = Literal["research_setting", "abstract_concept", "general_knowledge", "image_dependent", "details_in_choices"]
REASONS: tuple[Reason, ...] = get_args(Reason)
"""Reasons to reject a question (the profile generator's filter)."""
OWN = "case"
"""``made_by`` of a profile that came with its case."""
WITHOUT_PROFILE = "the patient knows the whole vignette, also what examination and tests showed"
"""The consequence if a framework for profiles plays a case without one; part of a sentence."""


class Generated(BaseModel):
    """The generator's result for one case.

    A suitable case has a ``profile``, an unsuitable one a ``reason``; ``note`` explains the verdict in a sentence;
    ``speaker`` talks to the doctor; ``made_by`` is the generator with its version.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    suitable: bool
    reason: Reason | None = None
    note: str = ""
    speaker: Literal["patient", "caregiver"] = "patient"
    profile: Profile | None = None
    made_by: str = pydantic.Field(min_length=1)

    @model_validator(mode="after")
    def _either_profile_or_reason(self) -> Generated:
        if self.suitable != (self.profile is not None) or self.suitable == (self.reason is not None):
            raise ValueError("a suitable case has a profile and no reason, an unsuitable one a reason and no profile")
        return self


CaseId = tuple[str, str]
"""(case_key, content_hash)."""


@dataclass(frozen=True)
class Prepared:
    """Cases to play with their profiles, and rejected cases with the generator's result.

    A case without a generated profile is played without one; see ``WITHOUT_PROFILE``.
    """

    cases: tuple[Case, ...]
    left_out: tuple[tuple[Case, Generated], ...]


def own_profile(case: Case) -> Generated | None:
    """Return the profile that came with a case as a generator's result; ``None`` if it has none."""
    if case.profile is None:
        return None
    return Generated(suitable=True, speaker=case.speaker, profile=case.profile, made_by=case.profile.made_by or OWN)


def with_profile(case: Case, generated: Generated) -> Case:
    if generated.profile is None:
        raise ValueError(f"{case.case_key} has no profile: {generated.note}")
    profile = generated.profile
    if generated.made_by != OWN:
        profile = profile.model_copy(update={"made_by": generated.made_by})
    return case.model_copy(update={"profile": profile, "speaker": generated.speaker})


def prepare(cases: Iterable[Case], stored: Mapping[CaseId, Generated]) -> Prepared:
    """Return the cases with their profiles: a stored one takes precedence over one that came with the case."""
    ready: list[Case] = []
    left_out: list[tuple[Case, Generated]] = []
    for case in cases:
        generated = stored.get((case.case_key, case.content_hash)) or own_profile(case)
        if generated is None:
            ready.append(case)
        elif generated.profile is None:
            left_out.append((case, generated))
        else:
            ready.append(with_profile(case, generated))
    return Prepared(tuple(ready), tuple(left_out))


Field = Literal[
    "age",
    "sex",
    "chief complaint",
    "duration",
    "past history",
    "family history",
    "lifestyle",
    "vital signs",
    "physical examination",
    "laboratory",
    "imaging",
]
FIELDS: tuple[Field, ...] = get_args(Field)
"""In the usual order of a history, then examination and tests."""
State = Literal["present", "imputed", "absent"]
STATES: tuple[State, ...] = get_args(State)

_SECTIONS: Mapping[FactSection | None, Field] = {
    "vital_signs": "vital signs", "examination": "physical examination", "laboratory": "laboratory",
    "imaging": "imaging",
}  # fmt: skip
"""Section of a fact → field; other tests (an ECG, a biopsy) have no field."""
_TOPICS: Mapping[Topic, Field] = {
    "chief complaint": "chief complaint", "onset": "duration", "past history": "past history",
    "family history": "family history", "social history": "lifestyle",
}  # fmt: skip
_PEOPLE: tuple[tuple[Field, Words], ...] = (
    ("age", Words(cues("age", of=("key",)))),
    ("sex", Words(cues("sex", of=("key",)))),
    ("lifestyle", Words(cues("occupation", of=("key",)))),
)
_OTHER_KEYS: tuple[tuple[Field, Words], ...] = (
    ("lifestyle", Words("lifestyle")),
    ("past history", Words(rf"\bpast\b|medical history|{cues('surgery', 'allergies', 'vaccinations', of=('key',))}")),
)
"""Keys of basic facts that are no topic, or a narrower one."""
_SPAN = Words(cues("onset", of=("weak",), without=("suddenness",)))
_PAST = re.compile(r"\bmedical history\b|\bhistory of\b|diagnosed with|no other illness", re.IGNORECASE)


@dataclass(frozen=True)
class FieldShares:
    """Numbers of suitable cases in which a field is present, imputed or absent."""

    field: Field
    present: int
    imputed: int
    absent: int

    @property
    def n(self) -> int:
        return self.present + self.imputed + self.absent

    def share(self, state: State) -> float:
        """Return the share of a state, 0 to 1; NaN without a suitable case."""
        return getattr(self, state) / self.n if self.n else float("nan")


@dataclass(frozen=True)
class Coverage:
    """Suitability of a set of cases: ``suitable`` of ``n`` pass the filter; ``reasons`` count the others.

    ``interval`` is the 95 % Wilson interval of the share; ``fields`` count suitable cases only.
    """

    n: int
    suitable: int
    interval: Interval
    reasons: Mapping[Reason, int]
    fields: tuple[FieldShares, ...]

    @property
    def share(self) -> float:
        """Share of suitable cases, 0 to 1; NaN without cases."""
        return self.suitable / self.n if self.n else float("nan")

    def of(self, field: Field) -> FieldShares:
        return next(shares for shares in self.fields if shares.field == field)


def presence(profile: Profile) -> dict[Field, State]:
    """Return the state of every field: present (in the source), imputed (by the generator) or absent."""
    in_source: dict[Field, bool] = {}
    for part, facts in (("people", profile.demographics), ("basic", profile.basic), ("optional", profile.optional)):
        for fact in facts:
            for field in _fields_of(fact, part):
                in_source[field] = in_source.get(field, False) or not fact.imputed
    return {f: "absent" if f not in in_source else "present" if in_source[f] else "imputed" for f in FIELDS}


def coverage(generated: Sequence[Generated]) -> Coverage:
    """Count suitability, reasons and fields over the generator's results."""
    profiles = [g.profile for g in generated if g.profile is not None]
    reasons = Counter(g.reason for g in generated if g.reason is not None)
    states = [presence(profile) for profile in profiles]
    counts = {field: Counter(state[field] for state in states) for field in FIELDS}
    fields = tuple(FieldShares(f, n["present"], n["imputed"], n["absent"]) for f, n in counts.items())
    by_reason = {reason: reasons[reason] for reason in REASONS if reasons[reason]}
    return Coverage(len(generated), len(profiles), wilson(len(profiles), len(generated)), by_reason, fields)


def _fields_of(fact: Fact, part: str) -> set[Field]:
    if part == "people":
        return {field for field, words in _PEOPLE if words.are_in(fact.key.lower())}
    if part == "optional":
        return {_SECTIONS[fact.section]} if fact.section in _SECTIONS else set()
    fields = {field for field, words in _OTHER_KEYS if words.are_in(fact.key.lower())}
    topic = topic_of_key(fact.key, fact.value)
    if topic in _TOPICS:
        fields.add(_TOPICS[topic])
    if topic in ("chief complaint", "associated symptoms", "character") and _SPAN.are_in(
        f"{fact.value}. {fact.lay}".lower()
    ):
        fields.add("duration")
    if topic in ("medication", "negatives", "social history") and _PAST.search(fact.value):
        fields.add("past history")  # "history of asthma, for which she takes salbutamol"
    if topic == "family history" and "medical history" in fact.value.lower():
        fields.add("past history")  # "medical history is negative and family history is irrelevant"
    return fields
