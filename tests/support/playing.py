"""Plays single trials of any framework with a casting of the test's own."""

from __future__ import annotations

from typing import Any

from core.case import Case
from core.events import Event
from core.frameworks.base import Arm, Trial, framework, full_names, stored_settings
from core.frameworks.casting import Casting, CastNames
from core.jobs.run import Play


def opened(casting: Casting, names: CastNames, protocol: str = "", **settings: Any) -> Play:
    """Return what plays trials of a framework with the cast opened."""
    known = framework(protocol)
    full = full_names(known, names, casting.registry)
    rules = known.complete(stored_settings(known, {**known.settings().model_dump(), **settings}), full)
    cast = known.open(casting, full, rules)
    return lambda trial: known.play(trial, cast, rules)


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
