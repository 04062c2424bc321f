"""Cached reads of the store, one result for each of its states. All callers share the object: never change it."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import streamlit as st

from core import access
from core.datasets import imported
from core.models.settings import default_paths
from core.store.database import Cursor, Store

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")


def cached_query(
    spinner: bool | str = "Computing…", entries: int = 16
) -> Callable[[Callable[_Params, _Result]], Callable[_Params, _Result]]:
    """Cache the results of a function by the state of the store and by the arguments.

    ``spinner`` is shown during the computation. At most ``entries`` results are cached; the oldest is dropped first.
    Arguments whose names begin with an underscore are not part of the cache key.
    """

    def decorate(query: Callable[_Params, _Result]) -> Callable[_Params, _Result]:
        signature = inspect.signature(query)

        def query_state(store: str, version: str, *args: Any, **kwargs: Any) -> _Result:
            return query(*args, **kwargs)

        # Streamlit distinguishes caches by module and name, and reads from the parameter names what to hash. The file
        # replaces the module, because the module of every page's script is "__main__".
        query_state.__module__, query_state.__qualname__ = query.__code__.co_filename, query.__qualname__
        state = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("store", "version")]
        query_state.__signature__ = inspect.Signature([*state, *signature.parameters.values()])  # type: ignore[attr-defined]
        cached = st.cache_resource(max_entries=entries, show_spinner=spinner)(query_state)

        @functools.wraps(query)
        def cached_or_computed(*args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            store = Store()
            return cached(str(store.path), _state(store), *bound.args, **bound.kwargs)

        return cached_or_computed

    return decorate


def _state(store: Store) -> str:
    """Return an identifier of the state of the store, the models files and the data sets, as the visitor sees it."""
    files = [str(path.stat().st_mtime_ns) for path in (*default_paths(), imported.folder()) if path.exists()]
    return f"{store.version} {'-'.join(files)} {access.visible_owner()}"


def read(query: Callable[..., _Result], *args: Any, **kwargs: Any) -> _Result:
    """Return the cached result of a query whose first argument is the store."""
    store = Store()
    result: _Result = _reader(query)(str(store.path), _state(store), args, kwargs)
    return result


@functools.cache
def _reader(query: Callable[..., Any]) -> Callable[[str, str, Any, Any], Any]:
    """Return the query with a separate cache, so that large results of one query do not evict those of another."""

    def answer(path: str, version: str, args: Any, kwargs: Any) -> Any:
        return query(Store(), *args, **kwargs)

    answer.__qualname__ = f"{query.__module__}.{query.__qualname__}"
    return st.cache_resource(max_entries=12, show_spinner="Reading the answers…")(answer)


def ask(
    query: Callable[Concatenate[Cursor, _Params], _Result], *args: _Params.args, **kwargs: _Params.kwargs
) -> _Result:
    """Return the cached result of a query whose first argument is a cursor."""
    store = Store()
    name = f"{query.__module__}.{query.__qualname__}"
    result: _Result = _query_result(str(store.path), _state(store), name, args, kwargs, query)
    return result


@st.cache_resource(max_entries=256, show_spinner="Reading…")
def _query_result(path: str, version: str, name: str, args: Any, kwargs: Any, _query: Callable[..., Any]) -> Any:
    with Store().read() as cursor:
        return _query(cursor, *args, **kwargs)
