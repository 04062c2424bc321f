"""What the Memorisation page shows: read once for each state of the database; and the asking, in the background."""

from collections.abc import Sequence

import streamlit as st

from core.case import Case
from core.jobs.completing import Asked, Options, complete_cases
from core.models.registry import load_registry
from core.store.conditions import doctor_of
from core.store.database import Store
from core.store.queries.accuracy import CaseScore
from core.store.queries.cases import StoredCompletion, completions
from core.work import Work, begin, work_at
from pages.parts.figures import scores


def stored_completions() -> list[StoredCompletion]:
    """Return the newest completions of all models, by model; a shared object, never to be changed."""
    store = Store()
    return _completions(str(store.path), store.version)


@st.cache_resource(max_entries=2, show_spinner=False)
def _completions(path: str, version: str) -> list[StoredCompletion]:
    with Store().read() as cursor:
        return completions(cursor)


def scores_of(model: str) -> list[CaseScore]:
    """Return the scores of every condition of a model's campaigns."""
    return [score for score in scores() if doctor_of(score.model) == model]


def asking() -> Work[Asked] | None:
    """Return the asking that is under way or was the last, or ``None``."""
    return work_at(_place())


def begin_asking(cases: Sequence[Case], model: str, options: Options) -> None:
    """Start to ask a model for the cases that it has not completed."""
    store = Store()
    begin(
        _place(),
        lambda tell, stop: complete_cases(cases, model, load_registry(), store, options, tell, stop),
    )


def _place() -> tuple[str, str]:
    return "memorisation", str(Store().path)
