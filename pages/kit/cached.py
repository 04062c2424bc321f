"""Reads of the store, made once for each of its states: all who ask get the same object, never to be changed."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import streamlit as st

from core import access
from core.store.database import Cursor, Store

_Asked = ParamSpec("_Asked")
_Found = TypeVar("_Found")


def cached_query(
    spinner: bool | str = "Computing…", entries: int = 16
) -> Callable[[Callable[_Asked, _Found]], Callable[_Asked, _Found]]:
    """Keep what a function finds for each state of the store and each choice of its arguments.

    ``spinner`` says what is done while one waits; ``entries`` are kept, the oldest go first. An argument whose name
    begins with an underscore does not tell one choice from another.
    """

    def decorate(query: Callable[_Asked, _Found]) -> Callable[_Asked, _Found]:
        signature = inspect.signature(query)

        def held(store: str, version: str, *args: Any, **kwargs: Any) -> _Found:
            return query(*args, **kwargs)

        # by module and name Streamlit tells one cache from another, and by the names of arguments what it hashes;
        # the file stands for the module, which of every page's script is "__main__"
        held.__module__, held.__qualname__ = query.__code__.co_filename, query.__qualname__
        state = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("store", "version")]
        held.__signature__ = inspect.Signature([*state, *signature.parameters.values()])  # type: ignore[attr-defined]
        kept = st.cache_resource(max_entries=entries, show_spinner=spinner)(held)

        @functools.wraps(query)
        def asked(*args: _Asked.args, **kwargs: _Asked.kwargs) -> _Found:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            store = Store()
            return kept(str(store.path), _state(store), *bound.args, **bound.kwargs)

        return asked

    return decorate


def _state(store: Store) -> str:
    """Return what tells a state of the store from others, as whoever asks sees it."""
    return f"{store.version} {access.visible_owner()}"


def read(query: Callable[..., _Found], *args: Any, **kwargs: Any) -> _Found:
    """Return what a query that takes the store finds for these arguments, read once for each state of the store."""
    store = Store()
    found: _Found = _reader(query)(str(store.path), _state(store), args, kwargs)
    return found


@functools.cache
def _reader(query: Callable[..., Any]) -> Callable[[str, str, Any, Any], Any]:
    """Return the query with a cache of its own: large answers of one do not drive out small ones of another."""

    def answer(path: str, version: str, args: Any, kwargs: Any) -> Any:
        return query(Store(), *args, **kwargs)

    answer.__qualname__ = f"{query.__module__}.{query.__qualname__}"
    return st.cache_resource(max_entries=12, show_spinner="Reading the answers…")(answer)


def ask(query: Callable[Concatenate[Cursor, _Asked], _Found], *args: _Asked.args, **kwargs: _Asked.kwargs) -> _Found:
    """Return what a query of the store finds for these arguments, read once for each state of the store."""
    store = Store()
    name = f"{query.__module__}.{query.__qualname__}"
    found: _Found = _read(str(store.path), _state(store), name, args, kwargs, query)
    return found


@st.cache_resource(max_entries=256, show_spinner="Reading…")
def _read(path: str, version: str, name: str, args: Any, kwargs: Any, _query: Callable[..., Any]) -> Any:
    with Store().read() as cursor:
        return _query(cursor, *args, **kwargs)
