"""Controls whose choices are stored in the URL and stay valid when the options change."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

_Option = TypeVar("_Option")
UNKNOWN = "_unknown"
"""Session state key: URL parameter → a description of the values that are not among the options."""


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
    """Ask for one of ``options`` (at least one); ``default``, or the first option, is preselected.

    The URL parameter ``key`` stores the choice unless it is the default. A control that is not ``bound`` leaves the URL
    alone and may ``persist`` its choice across pages. If the choice is no longer an option, the default is selected and
    sent to the browser. ``chosen`` comes from a click or a link and takes precedence over the control's value.
    """
    place = options.index(default) if default is not None and default in options else 0
    shared = _shared(label, options, key, names, help, on_change, shape=shape, bound=bound, persist=persist)
    if bound and (linked := _linked(options, key, names)):
        st.session_state[key] = linked[-1]
    if st.session_state.get(key, options[place]) not in options:
        st.session_state[key] = options[place]
    elif bound and st.session_state.get(key, options[place]) != options[place] and key not in st.query_params:
        # The choice was the default and no longer is. Streamlit puts only a newly set value into the URL.
        st.session_state[key] = st.session_state[key]
    if chosen is not None and chosen in options and st.session_state.get(key) != chosen:
        st.session_state[key] = chosen  # only if different: setting it closes an open menu
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
    **options_of_choose: Any,
) -> str:
    """Ask for one option as ``choose`` does; the URL parameter ``name`` stores its value, not its label.

    Without a valid value in the URL, ``default`` is chosen; without a default the value stays. A new choice
    removes the URL parameters in ``clears``.
    """

    def store_choice() -> None:
        st.query_params[name] = st.session_state[key]
        for other in clears:
            st.query_params.pop(other, None)
        if on_change is not None:
            on_change()

    requested = st.query_params.get(name)
    chosen = requested if requested in options else default
    return choose(
        label, options, key, default=default, chosen=chosen, bound=False, on_change=store_choice, **options_of_choose
    )


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
    on_change: Callable[[], None] | None = None,
    bound: bool = True,
    persist: bool = False,
) -> tuple[_Option, ...]:
    """Ask for any number of ``options``; ``default`` is preselected, and ``placeholder`` is shown if none is chosen.

    The URL stores the choice unless it is the default. A control that is not ``bound`` leaves the URL alone and may
    ``persist`` its choice across pages. Chosen values that are no longer options are dropped; if none remains, the
    default is chosen.
    """
    preselected = [option for option in default if option in options]
    shared = _shared(label, options, key, names, help, on_change, shape=shape, bound=bound, persist=persist)
    if bound and (linked := _linked(options, key, names)):
        st.session_state[key] = linked
    stored = st.session_state.get(key)
    if stored and any(value not in options for value in stored):
        st.session_state[key] = [value for value in stored if value in options] or preselected
    shared["default"] = preselected or None
    to = where or st
    if shape == "pills":
        return tuple(to.pills(label, list(options), selection_mode="multi", wrap=True, **shared))
    return tuple(to.multiselect(label, list(options), placeholder=placeholder, width=width, **shared))


def filter_popover(keys: Iterable[str], key: str) -> DeltaGenerator:
    """Return a popover for filters; its label says how many of the filters with these keys are set."""
    count = sum(name in st.query_params for name in keys)
    return st.popover(f"Filters · {count}" if count else "Filters", icon=":material/filter_list:", key=key)


def ask_secret(label: str, key: str, where: DeltaGenerator | None = None, **options: Any) -> str:
    """Ask for a secret such as a key, with dots instead of letters, and return the typed text.

    Streamlit's password field loses its text when it is left with the tab key, so a style draws the dots.
    """
    box = (where or st).container(key=f"secret_{key}", gap=None)
    box.html("<style>[class*='st-key-secret_'] input { -webkit-text-security: disc; }</style>")
    typed: str = box.text_input(label, key=key, autocomplete="off", **options)
    return typed


_FORMER_LABELS = {
    "Substring rule": "mcq_loose",
    "Substring rule of the paper": "mcq_loose",
    "Paper’s": "mcq_loose",
    "Exactly one choice named": "mcq_strict",
    "Strict": "mcq_strict",
    "At the cap: excluded": "cap_excluded",
    "At the cap: not correct": "cap_wrong",
    "Cap reached": "turn_cap",
    "Johri et al. 2023, preprint: tests between arms": "tests",
    "Many choices: substring": "substring",
    "Never elicited": "never_elicited",
    "Volunteered": "volunteered",
}
"""Label of an earlier version in an address → value."""
_LIMIT = re.compile(r"at most (\d+) (?:messages|questions|turns)|no message limit")
"""The limit in the name of a condition: *cap 30*, or *no cap*, in addresses of earlier versions."""


def _former(label: str) -> str:
    return _LIMIT.sub(lambda limit: f"cap {limit[1]}" if limit[1] else "no cap", label)


def _linked(
    options: Sequence[_Option], key: str, names: Mapping[Any, str] | Callable[[Any], str] | None
) -> list[_Option]:
    """Return the options in the URL if a link names one of them by its value, or by its label of an earlier version."""
    if key in st.session_state:
        return []
    name = _namer(names)
    labels = {name(option): option for option in options}
    by_value = {str(option): option for option in options} | {_former(label): labels[label] for label in labels}
    by_value |= {label: by_value[value] for label, value in _FORMER_LABELS.items() if value in by_value}
    requested = st.query_params.get_all(key)
    if not any(value in by_value and value not in labels for value in requested):
        return []
    either = {**by_value, **labels}
    return [either[value] for value in requested if value in either]


def _namer(names: Mapping[Any, str] | Callable[[Any], str] | None) -> Callable[[Any], str]:
    return str if names is None else names if callable(names) else lambda option: names.get(option, str(option))


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
    """Return the arguments that all control shapes share, and note URL values that are no options."""
    name = _namer(names)
    requested = set(filter(None, st.query_params.get_all(key))) if bound else ()
    valid = {*map(name, options), *map(str, options), *(_former(name(option)) for option in options)}
    if requested and (unknown := sorted(requested - valid)):
        st.session_state.setdefault(UNKNOWN, {})[key] = f"{label.lower()} “{'”, “'.join(unknown)}”"
    return {
        "key": key,
        # Pills and segments would render a picture or link inside a name. Other characters stay as they are, because
        # the URL stores these labels.
        "format_func": name if shape == "select" else lambda option: re.sub(r"[\[\]<]", r"\\\g<0>", name(option)),
        "help": help,
        "on_change": on_change or "rerun",
        "bind": "query-params" if bound else None,
        "persist_state": "session" if persist else None,
    }
