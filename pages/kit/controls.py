"""Controls whose choice stands in the address, and stays true where what is on offer changes."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

_Option = TypeVar("_Option")
UNKNOWN = "_unknown"
"""Where a visitor's state keeps what the address asks for and is not on offer: key → words."""


def choose(
    label: str,
    options: Sequence[_Option],
    key: str,
    *,
    names: Mapping[Any, str] | Callable[[Any], str] | None = None,
    default: _Option | None = None,
    shape: Literal["select", "segments", "pills"] = "select",
    where: DeltaGenerator | None = None,
    help: str | None = None,
    hidden: bool = False,
    width: int | Literal["stretch"] = "stretch",
    on_change: Callable[[], None] | None = None,
    bound: bool = True,
    persist: bool = False,
    chosen: _Option | None = None,
) -> _Option:
    """Ask for one of several, of which there must be one; ``default``, else the first, is chosen at first.

    The choice stands in the address under ``key``, except for the default; not so where it is not ``bound``, when it
    may ``persist`` while other pages are looked at. Where it is no longer on offer, the default is chosen anew, and the
    browser is told: a control that was only forgotten would go on to show the former words. What was ``chosen``
    elsewhere, by a click or a link, goes before what the control holds.
    """
    place = options.index(default) if default is not None and default in options else 0
    shared = _shared(label, options, key, names, help, on_change, shape=shape, bound=bound, persist=persist)
    if st.session_state.get(key, options[place]) not in options:
        st.session_state[key] = options[place]
    elif bound and st.session_state.get(key, options[place]) != options[place] and key not in st.query_params:
        # what was the default is so no longer: only what is set anew is put into the address
        st.session_state[key] = st.session_state[key]
    if chosen is not None and chosen in options and st.session_state.get(key) != chosen:
        st.session_state[key] = chosen  # only then: set anew, it would close under a visitor's hand
    shared["label_visibility"] = "collapsed" if hidden else "visible"
    to = where or st
    if shape == "select":
        return to.selectbox(label, options, place, width=width, **shared)  # type: ignore[no-any-return]
    widget = to.segmented_control if shape == "segments" else to.pills
    picked = widget(label, options, default=options[place], required=True, wrap=True, **shared)
    return options[place] if picked is None else picked


def choose_by_name(
    label: str,
    options: Sequence[str],
    name: str,
    key: str,
    *,
    default: str | None = None,
    clears: Sequence[str] = (),
    on_change: Callable[[], None] | None = None,
    **shown: Any,
) -> str:
    """Ask for one of several as ``choose`` does; it stands in the address under ``name``, as it is, not by its label.

    Where the address says nothing that is on offer, the ``default`` is chosen; without one, what the control holds.
    Another choice takes what it ``clears`` out of the address.
    """

    def keep() -> None:
        st.query_params[name] = st.session_state[key]
        for other in clears:
            st.query_params.pop(other, None)
        if on_change is not None:
            on_change()

    wanted = st.query_params.get(name)
    chosen = wanted if wanted in options else default
    return choose(label, options, key, default=default, chosen=chosen, bound=False, on_change=keep, **shown)


def choose_several(
    label: str,
    options: Sequence[_Option],
    key: str,
    *,
    names: Mapping[Any, str] | Callable[[Any], str] | None = None,
    default: Sequence[_Option] = (),
    placeholder: str = "All",
    shape: Literal["select", "pills"] = "select",
    where: DeltaGenerator | None = None,
    help: str | None = None,
    width: int | Literal["stretch"] = "stretch",
    disabled: bool = False,
    on_change: Callable[[], None] | None = None,
    bound: bool = True,
    persist: bool = False,
) -> tuple[_Option, ...]:
    """Ask for some of several, at first those of ``default`` on offer; where none is chosen, ``placeholder`` is shown.

    The choice stands in the address, except for the default; not so where it is not ``bound``, when it may ``persist``
    while other pages are looked at. What is no longer on offer is dropped; where nothing is left, it is the default.
    """
    usual = [option for option in default if option in options]
    shared = _shared(label, options, key, names, help, on_change, shape=shape, bound=bound, persist=persist)
    held = st.session_state.get(key)
    if held and any(value not in options for value in held):
        st.session_state[key] = [value for value in held if value in options] or usual
    shared |= {"default": usual or None, "disabled": disabled}
    to = where or st
    if shape == "pills":
        return tuple(to.pills(label, list(options), selection_mode="multi", wrap=True, **shared))
    return tuple(to.multiselect(label, list(options), placeholder=placeholder, width=width, **shared))


def ask_secret(label: str, key: str, where: DeltaGenerator | None = None, **shown: Any) -> str:
    """Ask for what nobody is to read off the screen, such as a key; returns what is typed.

    Streamlit's own password field loses what was typed where it is left by the tabulator, so the dots are drawn here.
    """
    held = (where or st).container(key=f"secret_{key}", gap=None)
    held.html("<style>[class*='st-key-secret_'] input { -webkit-text-security: disc; }</style>")
    typed: str = held.text_input(label, key=key, autocomplete="off", **shown)
    return typed


def _shared(
    label: str,
    options: Sequence[_Option],
    key: str,
    names: Mapping[Any, str] | Callable[[Any], str] | None,
    help: str | None,
    on_change: Callable[[], None] | None,
    *,
    shape: str,
    bound: bool,
    persist: bool,
) -> dict[str, Any]:
    """Return what every shape of a control is told, as Streamlit calls it; what is asked for in vain is noted."""
    name = str if names is None else names if callable(names) else lambda one: names.get(one, str(one))
    asked = set(filter(None, st.query_params.get_all(key))) if bound else ()
    if asked and (unknown := sorted(asked - set(map(name, options)))):
        st.session_state.setdefault(UNKNOWN, {})[key] = f"{label.lower()} “{'”, “'.join(unknown)}”"
    return {
        "key": key,
        # pills and segments would draw a picture or a link that somebody's name holds; all else stays, so that an
        # address says what it always said
        "format_func": name if shape == "select" else lambda one: re.sub(r"[\[\]<]", r"\\\g<0>", name(one)),
        "help": help,
        "on_change": on_change or "rerun",
        "bind": "query-params" if bound else None,
        "persist_state": "session" if persist else None,
    }
