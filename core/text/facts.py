"""A case as atomic facts: one piece of information each, with a topic, and whether a patient can tell it.

Where a case has a profile, its facts are the profile's. Where it has none, the vignette is cut by rule
(``core.text.split``). A list made by a model or by hand takes the place of either.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict, Field

from core.case import Case, Fact, read_demographics
from core.text.first_person import first_person
from core.text.split import pieces_of
from core.text.topics import SECTIONS, SHOWN, Topic, topic_of_key

_ID_LENGTH = 40


class AtomicFact(BaseModel):
    """One piece of information about a patient.

    ``id`` is unique within its case and made of its words, so that it stays the same while they do; ``key`` is the
    label under which it is shown; ``text`` says it in clinical words, ``lay`` as a patient would; ``told`` is false
    where only examination or tests show it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    key: str
    text: str = Field(min_length=1)
    lay: str
    told: bool
    topic: Topic


def facts_of(case: Case, override: Sequence[AtomicFact] | None = None) -> tuple[AtomicFact, ...]:
    """Return the facts of a case in its order; ``override``, where there is one, is taken as it is."""
    return _facts_of(case) if override is None else tuple(override)


@functools.lru_cache(maxsize=8_192)
def _facts_of(case: Case) -> tuple[AtomicFact, ...]:
    if case.profile is not None:
        made = [_of_profile(fact, told=True) for fact in (*case.profile.demographics, *case.profile.basic)]
        return with_ids(made + [_of_profile(fact, told=False) for fact in case.profile.optional])
    sex = read_demographics(case.vignette)[1]
    return with_ids(
        AtomicFact(
            id=piece.text, key=piece.topic, text=piece.text, lay=first_person(piece.text, sex), topic=piece.topic,
            told=piece.topic not in SHOWN,
        )
        for piece in pieces_of(case.vignette)
    )  # fmt: skip


def _of_profile(fact: Fact, *, told: bool) -> AtomicFact:
    topic = SECTIONS[fact.section] if fact.section else topic_of_key(fact.key, fact.value)
    if not told and topic not in SHOWN:
        topic = "examination"
    return AtomicFact(id=fact.key, key=fact.key, text=fact.value, lay=fact.lay, told=told, topic=topic)


def with_ids(facts: Iterable[AtomicFact]) -> tuple[AtomicFact, ...]:
    """Return the facts with short ids made of the words that ``id`` holds; what occurs twice is numbered."""
    used: dict[str, int] = {}
    named: list[AtomicFact] = []
    for fact in facts:
        slug = re.sub(r"[^a-z0-9]+", "-", fact.id.lower()).strip("-")[:_ID_LENGTH].strip("-") or "fact"
        used[slug] = used.get(slug, 0) + 1
        named.append(fact.model_copy(update={"id": slug if used[slug] == 1 else f"{slug}-{used[slug]}"}))
    return tuple(named)
