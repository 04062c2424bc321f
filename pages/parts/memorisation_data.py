"""What the Memorisation page shows: read once for each state of the database; and the asking, in the background."""

from collections.abc import Mapping, Sequence

import streamlit as st

from core.case import Case
from core.memorisation.completing import Asked, Options, complete_cases
from core.models.registry import load_registry
from core.store.completions import StoredCompletion, case_accuracy, completions
from core.store.database import Store
from core.work import Work, begin, work_at


def stored_completions() -> list[StoredCompletion]:
    """Return the newest completions of all models, by model; a shared object, never to be changed."""
    store = Store()
    return _completions(str(store.path), store.version)


@st.cache_resource(max_entries=2, show_spinner=False)
def _completions(path: str, version: str) -> list[StoredCompletion]:
    with Store().read() as cursor:
        return completions(cursor)


def accuracy_of(model: str) -> Mapping[tuple[str, str], Mapping[str, float]]:
    """Return (format, question type) → case key → mean accuracy of a model's campaigns."""
    store = Store()
    return _accuracy(str(store.path), store.version, model)


@st.cache_data(max_entries=32, show_spinner=False)
def _accuracy(path: str, version: str, model: str) -> dict[tuple[str, str], dict[str, float]]:
    with Store().read() as cursor:
        return case_accuracy(cursor, model)


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
