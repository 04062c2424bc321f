"""Asks for what a framework itself says it has: seats, arms and options; the same on Runs, Live and Branches."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, get_args, get_origin

import streamlit as st
from pydantic.fields import FieldInfo

from core.case import Case
from core.errors import UsageError
from core.events import FORMATS, QUESTION_TYPES
from core.frameworks.base import Arm, Framework, framework, frameworks, title_of
from core.frameworks.casting import CastNames
from core.frameworks.settings import FrameworkSettings, extra_of, flag_of
from core.jobs.plan import prepared_cases
from core.text.profiles import Prepared
from core.words import arm_explained
from pages.kit.cached import cached_query
from pages.kit.controls import choose, choose_several
from pages.kit.look import FORMAT, QUESTION_TYPE, arm
from pages.kit.seats import Seats, ask_persona, ask_seat, seat_problem


def ask_framework(page: str, help_: str) -> Framework:
    """Ask under which framework is played; the choice stands in the address."""
    chosen = choose("Framework", list(frameworks()), f"{page}_protocol", names=title_of, shape="segments", help=help_)
    return frameworks()[chosen]


def ask_player(page: str, known: Framework, role: str, *, human: bool = False, beside: str = "", **more: str) -> str:
    """Ask who sits in a seat of a framework; a person only where ``human`` allows one and the seat does."""
    seat = known.seat(role)
    assert seat is not None, f"{known.name} has no {role}"
    label = more.pop("label", "") or seat.title.capitalize()
    return ask_seat(page, role, label=label, human=human and not seat.no_human, kinds=seat.rules, beside=beside, **more)


def ask_arms(page: str, known: Framework, usual: Sequence[Arm] = ()) -> tuple[Arm, ...]:
    """Ask for the arms of a campaign: formats and question types where it asks every pair of them, else pairs.

    At first the ``usual`` ones are chosen, by default the framework's own.
    """
    usual = usual or (known.arms if known.usual_arms == "all" else known.paper)
    formats = [f for f in FORMATS if any(one[0] == f for one in known.arms)]
    types = [q for q in QUESTION_TYPES if any(one[1] == q for one in known.arms)]
    if len(known.arms) < len(formats) * len(types):
        return ask_pairs(page, known, known.arms, usual)
    asked = st.container()
    pills = partial(choose_several, shape="pills", where=asked, bound=False, persist=True)
    first, second = ([*dict.fromkeys(part)] for part in zip(*usual, strict=True))
    shown = tuple(formats)
    if len(formats) > 1:
        help_ = "What the doctor is shown before the question."
        shown = pills("Formats", formats, f"{page}_formats_{known.name}", names=FORMAT, default=first, help=help_)
    help_ = "Many choices: every answer of the data set; for a pasted case, the library’s and its own."
    kinds = pills(
        "Question types", types, f"{page}_types_{known.name}", names=QUESTION_TYPE, default=second, help=help_
    )
    return tuple((f, q) for f in shown for q in kinds)


def ask_pairs(page: str, known: Framework, offered: Sequence[Arm], usual: Sequence[Arm]) -> tuple[Arm, ...]:
    """Ask for arms one by one."""
    alone = len({format_ for format_, _ in offered}) == 1
    return choose_several(
        "What is asked",
        offered,
        f"{page}_arms_{known.name}",
        names=lambda one: QUESTION_TYPE[one[1]] if alone else arm(*one),
        default=[one for one in usual if one in offered],
        shape="pills",
        bound=False,
        persist=True,
        help="  \n".join(arm_explained(*one) for one in offered),
    )


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
        "label": extra_of(info, "label") or name.replace("_", " ").capitalize(),
        "key": f"{page}_{name}",
        "help": info.description,
    }
    kinds = get_args(info.annotation) or (info.annotation,)
    if get_origin(info.annotation) is Literal:
        offered = [value for value in kinds if value != ""]
        first = first if first in offered else info.default
        return choose(
            options=offered,
            default=first,
            names=lambda value: str(value).capitalize(),
            shape="segments",
            bound=False,
            persist=True,
            **shared,
        )
    shared["persist_state"] = "session"
    if bool in kinds:
        return st.toggle(value=bool(first), **shared)
    if int in kinds or float in kinds:
        number = int if int in kinds else float
        least, most = (
            next((number(getattr(one, rule)) for one in info.metadata if hasattr(one, rule)), None)
            for rule in ("ge", "le")
        )
        if not first and info.default is not None:
            first = info.default if least else 0  # no cap, where that can be asked for
        shared |= {
            "min_value": number(0) if least is None else least,
            "max_value": most,
            "step": 1 if number is int else 0.1,
            "value": None if first is None else number(first),
        }
        return st.number_input(placeholder="left to the model" if info.default is None else None, **shared)
    return st.text_input(value=str(first), **shared)


def read_options(known: Framework, values: dict[str, object]) -> tuple[FrameworkSettings, str | None]:
    """Return the settings that were asked for, or the defaults with what is wrong in the words of the form."""
    try:
        return known.read_settings(values), None
    except UsageError as error:
        problem = str(error)
        for name, info in known.settings.model_fields.items():
            problem = problem.replace(flag_of(name, info), extra_of(info, "label") or name)
        return known.settings(), problem


@cached_query("Looking which cases can become a patient…")
def prepared(name: str, case_set: int, _cases: tuple[Case, ...]) -> Prepared:
    """Return cases, known by their hash, as the framework of this name plays them, with profiles and those left out.

    A profile that is saved meanwhile counts at the next look.
    """
    return prepared_cases(_cases, framework(name))


def cast_problem(known: Framework, names: CastNames, address: str | None) -> str | None:
    """Return what keeps a cast from starting, or ``None``."""
    return seat_problem(Seats(names, address, known.name))
