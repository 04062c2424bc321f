"""Gives cases the profiles that AutoMedic plays them with, before a run: stored ones first, else own, else by rule."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence

from core.case import Case
from core.errors import UsageError
from core.store.database import Store
from core.store.profiles import newest_profiles
from core.text.profile_rules import profile_by_rule
from core.text.profiles import CaseId, Generated, Prepared, prepare


def prepared_cases(cases: Sequence[Case], store: Store | None = None) -> Prepared:
    """Return the cases with their profiles, and those that cannot become a patient with the reason.

    Stored profiles are looked up in the database (``store``, or the usual one) where there is one.
    """
    return prepare(cases, _stored(cases, store or Store()), _by_rule)


# the form on Runs looks at the same cases again and again, and the rules take milliseconds for each
_by_rule = functools.lru_cache(maxsize=20_000)(profile_by_rule)


def _stored(cases: Sequence[Case], store: Store) -> dict[CaseId, Generated]:
    if not store.path.exists():
        return {}
    with store.read() as cursor:
        found = newest_profiles(cursor, [case.case_key for case in cases])
    return {case: stored.generated for case, stored in found.items()}


def left_out_words(prepared: Prepared) -> str:
    """Return how many cases are left out, by reason, in a sentence; empty where none is."""
    if not prepared.left_out:
        return ""
    reasons = Counter(generated.reason or "" for _, generated in prepared.left_out)
    named = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in reasons.most_common())
    whole = len(prepared.cases) + len(prepared.left_out)
    return f"{len(prepared.left_out)} of {whole} cases are left out because they cannot become a patient: {named}."


def playable_cases(prepared: Prepared) -> tuple[Case, ...]:
    """Return the cases that can be played; raise ``UsageError`` where there is none."""
    if not prepared.cases:
        raise UsageError(f"No case can be played under AutoMedic. {left_out_words(prepared)}".rstrip())
    return prepared.cases
