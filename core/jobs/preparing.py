"""Gives cases what their framework plays them with, before a run: profiles, stored ones first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from core.case import Case
from core.errors import UsageError
from core.frameworks.base import Framework
from core.store.database import Store
from core.store.queries.cases import newest_profiles
from core.text.profiles import Prepared


def prepared_cases(cases: Sequence[Case], known: Framework, store: Store | None = None) -> Prepared:
    """Return the cases as a framework plays them, and those that cannot be played with the reason.

    Profiles are looked up in the database (``store``, or the usual one) where there is one.
    """
    store = store or Store()
    if not known.needs_profile or not store.path.exists():
        return known.prepare(cases, {})
    with store.read() as cursor:
        found = newest_profiles(cursor, [case.case_key for case in cases])
    return known.prepare(cases, {case: stored.generated for case, stored in found.items()})


def left_out_words(prepared: Prepared) -> str:
    """Return how many cases are left out, by reason, in a sentence; empty where none is."""
    if not prepared.left_out:
        return ""
    reasons = Counter(generated.reason or "" for _, generated in prepared.left_out)
    named = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in reasons.most_common())
    whole = len(prepared.cases) + len(prepared.left_out)
    return f"{len(prepared.left_out)} of {whole} cases are left out because they cannot become a patient: {named}."


def playable_cases(prepared: Prepared, known: Framework) -> tuple[Case, ...]:
    """Return the cases that can be played; raise ``UsageError`` where there is none."""
    if not prepared.cases:
        raise UsageError(f"No case can be played under {known.title}. {left_out_words(prepared)}".rstrip())
    return prepared.cases
