"""What the Branches page reads: families of conversations, and what a branch begins with."""

import streamlit as st

from core.live.fork import Origin, stored_origin
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.forks import Family, Tree, families, tree


def family_of(trial_id: str) -> Tree | None:
    """Return a conversation with all its branches, or ``None`` where it is not stored and nothing branched off it."""
    return _tree(*_key(), trial_id)


def newest_families() -> list[Family]:
    """Return the families with the newest branches."""
    return _families(*_key())


def origin_of(trial_id: str) -> Origin:
    """Return what a branch of a stored conversation begins with; raise ``UsageError`` where it is not stored."""
    return _origin(*_key(), trial_id)


def _key() -> tuple[str, str]:
    store = Store()
    fold_if_free(store)
    return str(store.path), store.version


@st.cache_resource(max_entries=64, show_spinner=False)
def _tree(path: str, version: str, trial_id: str) -> Tree | None:
    with Store().read() as cursor:
        return tree(cursor, trial_id)


@st.cache_resource(max_entries=4, show_spinner=False)
def _families(path: str, version: str) -> list[Family]:
    with Store().read() as cursor:
        return families(cursor)


@st.cache_resource(max_entries=64, show_spinner=False)
def _origin(path: str, version: str, trial_id: str) -> Origin:
    return stored_origin(trial_id)
