"""When two disease names mean the same: normalised spelling, synonyms, and the rule on subtypes.

A broader name than the answer counts as the answer; a narrower one does not (Johri et al., Methods, grader).
"""

from __future__ import annotations

import re

from core.case import Case
from core.knowledge.base import Knowledge, normalise_name
from core.text.extraction import main_part

_SPLIT = re.compile(r",|;|\band\b|\n")


def same_diagnosis(case: Case, named: str, knowledge: Knowledge) -> bool:
    """Say whether ``named`` is the case's answer, a synonym, or a broader name of it; any member of a comma list."""
    members = [named, *(_SPLIT.split(named) if _SPLIT.search(named) else [])]
    return any(_one_matches(case, member, knowledge) for member in members if member.strip())


def names_answer(case: Case, named: str, knowledge: Knowledge) -> bool:
    """Say whether a name, or its main part where more is said beside it, counts as the case's answer."""
    return any(same_diagnosis(case, part, knowledge) for part in (named, main_part(named)))


def _one_matches(case: Case, named: str, knowledge: Knowledge) -> bool:
    wanted = normalise_name(named)
    if not wanted:
        return False
    if wanted in {normalise_name(name) for name in case.subtypes}:
        return False
    known = knowledge.disease(case.answer)
    accepted = [case.answer, *case.synonyms, *case.supertypes]
    if known is not None:
        accepted += [*known.names, *known.supertypes]
    return wanted in {normalise_name(name) for name in accepted}
