"""Plays single trials of any framework with a given casting."""

from __future__ import annotations

from typing import Any

from core.case import Case
from core.events import Event
from core.frameworks.base import Arm, Trial, framework, full_names, stored_settings
from core.frameworks.casting import Casting, CastNames
from core.jobs.run import Play


def opened(casting: Casting, names: CastNames, protocol: str = "", **settings: Any) -> Play:
    """Return what plays trials of a framework with the cast opened."""
    framework_ = framework(protocol)
    full = full_names(framework_, names, casting.registry)
    rules = framework_.complete(stored_settings(framework_, {**framework_.settings().model_dump(), **settings}), full)
    cast = framework_.open(casting, full, rules)
    return lambda trial: framework_.play(trial, cast, rules)


async def play_case(
    casting: Casting,
    names: CastNames,
    case: Case,
    arms: tuple[Arm, ...],
    *,
    protocol: str = "",
    seed: int = 7,
    many_choices: tuple[str, ...] = (),
    **settings: Any,
) -> list[Event]:
    trial = Trial("trial-1", case, 0, seed, arms, many_choices)
    return [event async for event in opened(casting, names, protocol, **settings)(trial)]
