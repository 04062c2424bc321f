"""Asks for what a framework itself says it has: seats, arms and options; the same on Runs, Live and Branches."""

from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin

import streamlit as st
from pydantic.fields import FieldInfo

from core.errors import UsageError
from core.events import FORMATS, QUESTION_TYPES
from core.frameworks.base import Arm, Framework, frameworks, title_of
from core.frameworks.casting import CastNames
from core.frameworks.settings import FrameworkSettings, extra_of, flag_of
from pages.parts.look import FORMAT, QUESTION_TYPE, arm
from pages.parts.setup import Seats, ask_persona, ask_seat, seat_problem


def ask_framework(page: str, help_: str) -> Framework:
    """Ask under which framework is played; the choice stands in the address."""
    known = list(frameworks())
    chosen = st.segmented_control(
        "Protocol", known, default=known[0], required=True, format_func=title_of, key=f"{page}_protocol",
        bind="query-params", help=help_,
    )  # fmt: skip
    return frameworks()[chosen or known[0]]


def ask_player(page: str, known: Framework, role: str, *, human: bool = False, beside: str = "", **more: str) -> str:
    """Ask who sits in a seat of a framework; a person only where ``human`` allows one and the seat does."""
    seat = known.seat(role)
    assert seat is not None, f"{known.name} has no {role}"
    label = more.pop("label", "") or seat.title.capitalize()
    return ask_seat(
        page, role, label=label, human=human and not seat.no_human, kinds=seat.rules, beside=beside, **more
    )  # fmt: skip


def ask_arms(page: str, known: Framework) -> tuple[Arm, ...]:
    """Ask for the arms of a campaign: formats and question types where it asks every pair of them, else pairs."""
    usual = known.arms if known.usual_arms == "all" else known.paper
    formats = [f for f in FORMATS if any(one[0] == f for one in known.arms)]
    types = [q for q in QUESTION_TYPES if any(one[1] == q for one in known.arms)]
    if len(known.arms) < len(formats) * len(types):
        return ask_pairs(page, known, known.arms, usual)
    shown, asked = formats, st.container()
    if len(formats) > 1:
        shown = asked.pills(
            "Formats", formats, selection_mode="multi", default=list(dict.fromkeys(one[0] for one in usual)),
            format_func=FORMAT.__getitem__, key=f"{page}_formats", wrap=True,
            help="What the doctor is shown before the question.",
        )  # fmt: skip
    kinds = asked.pills(
        "Question types", types, selection_mode="multi", default=list(dict.fromkeys(one[1] for one in usual)),
        format_func=QUESTION_TYPE.__getitem__, key=f"{page}_types", wrap=True,
    )  # fmt: skip
    return tuple((f, q) for f in shown for q in kinds)


def ask_pairs(page: str, known: Framework, offered: Sequence[Arm], usual: Sequence[Arm]) -> tuple[Arm, ...]:
    """Ask for arms one by one."""
    alone = len({format_ for format_, _ in offered}) == 1
    chosen = st.pills(
        "What is asked", offered, selection_mode="multi", default=[one for one in usual if one in offered],
        format_func=lambda one: QUESTION_TYPE[one[1]] if alone else arm(*one), key=f"{page}_arms_{known.name}",
        persist_state="session", wrap=True,
        help="Vignette: the whole question on paper. Multi-turn: after the conversation.",
    )  # fmt: skip
    return tuple(chosen)


def single_arms(known: Framework) -> list[Arm]:
    """Return what one case alone can be asked: many choices are the answers of a whole data set."""
    return [one for one in known.arms if one[1] != "mcq_many"]


def ask_options(
    page: str, known: Framework, tested: str, *places: str, usual: FrameworkSettings | None = None
) -> dict[str, object]:
    """Ask for the framework's options of some places of the form, those that mean anything beside who is tested.

    They begin with ``usual``, by default the framework's own.
    """
    first = usual or known.settings()
    asked = {name: info for name, info in known.asked(tested).items() if extra_of(info, "place") in places}
    return {name: _ask_option(page, name, info, getattr(first, name)) for name, info in asked.items()}


def has_options(known: Framework, tested: str, place: str) -> bool:
    """Say whether any of the framework's options stands in a place of the form."""
    return any(extra_of(info, "place") == place for info in known.asked(tested).values())


def _ask_option(page: str, name: str, info: FieldInfo, first: Any) -> object:
    if name == "persona":
        return str(ask_persona(page))
    shared: dict[str, Any] = {
        "label": extra_of(info, "label") or name.replace("_", " ").capitalize(), "key": f"{page}_{name}",
        "help": info.description, "persist_state": "session",
    }  # fmt: skip
    kinds = get_args(info.annotation) or (info.annotation,)
    if get_origin(info.annotation) is Literal:
        offered = [value for value in kinds if value != ""]
        first = first if first in offered else info.default
        return st.segmented_control(
            options=offered, default=first, required=True, format_func=lambda value: str(value).capitalize(), **shared
        ) or first  # fmt: skip
    if bool in kinds:
        return st.toggle(value=bool(first), **shared)
    if int in kinds or float in kinds:
        number = int if int in kinds else float
        least, most = (_bound(info, rule, number) for rule in ("ge", "le"))
        if not first and info.default is not None:
            first = info.default if least else 0  # no cap, where that can be asked for
        value: Any = None if first is None else number(first)
        lowest: Any = number(0) if least is None else least
        step: Any = number(1) if number is int else 0.1
        highest: Any = most
        return st.number_input(
            min_value=lowest, max_value=highest, step=step, value=value,
            placeholder="left to the model" if info.default is None else None, **shared,
        )  # fmt: skip
    return st.text_input(value=str(first), **shared)


def _bound(info: FieldInfo, rule: str, number: type[int] | type[float]) -> int | float | None:
    return next((number(getattr(one, rule)) for one in info.metadata if hasattr(one, rule)), None)


def read_options(known: Framework, values: dict[str, object]) -> tuple[FrameworkSettings, str | None]:
    """Return the settings that were asked for, or the defaults with what is wrong in the words of the form."""
    try:
        return known.read_settings(values), None
    except UsageError as error:
        problem = str(error)
        for name, info in known.settings.model_fields.items():
            problem = problem.replace(flag_of(name, info), extra_of(info, "label") or name)
        return known.settings(), problem


def cast_problem(known: Framework, names: CastNames, address: str | None) -> str | None:
    """Return what keeps a cast from starting, or ``None``."""
    return seat_problem(Seats(names, address, known.name))
