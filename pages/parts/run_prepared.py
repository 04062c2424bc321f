"""Cases as a framework plays them, with profiles, and those left out; read once for each state of the database."""

from collections import Counter
from collections.abc import Sequence

import streamlit as st

from core.case import Case
from core.frameworks.base import Framework, framework
from core.jobs.plan import prepared_cases
from core.store.database import Store
from core.text.profiles import Prepared
from pages.parts.data_words import counted, reason_words


def prepared(cases: Sequence[Case], known: Framework) -> Prepared:
    """Return cases as a framework plays them; a profile that is saved meanwhile counts at the next look."""
    store = Store()
    held = tuple(cases)
    return _prepared(str(store.path), store.version, known.name, hash(held), held)


def left_out_words(found: Prepared) -> str:
    """Return in a sentence how many cases can be played, and how many cannot and why."""
    total = len(found.cases) + len(found.left_out)
    if not found.left_out:
        return f"All {counted(total, 'case')} can become a patient."
    reasons = Counter(reason_words(generated.reason) for _, generated in found.left_out)
    why = ", ".join(f"{reason.lower()} {number}" for reason, number in reasons.most_common())
    left = f"left out {len(found.left_out):,}: {why}"
    return f"{len(found.cases):,} of {counted(total, 'case')} can become a patient; {left}."


@st.cache_resource(max_entries=16, show_spinner="Looking which cases can become a patient…")
def _prepared(path: str, version: str, name: str, case_set: int, _cases: tuple[Case, ...]) -> Prepared:
    return prepared_cases(_cases, framework(name))
